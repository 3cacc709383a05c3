"""``linkwise sort`` and ``linkwise join`` with ``--cluster``, and ``linkwise cluster``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from linkwise._core import UsageError
from linkwise.cli.progress import progress_bar
from linkwise.cluster import api
from linkwise.cluster.driver import OnProgress
from linkwise.cluster.report import ClusterReport
from linkwise.cluster.runs import RunOptions, Side, sort_job_of
from linkwise.columns.inside import names_inside
from linkwise.columns.sort_keys import NullsEnd, Selection, SortKey, sort_keys_from_text
from linkwise.files.file_join import JoinRequest
from linkwise.files.formats import FileOptions
from linkwise.runtime.atomic_file import write_json

cluster_app = typer.Typer(help="Clean up after sorts and joins over many nodes.", no_args_is_help=True)


@cluster_app.callback()
def _cluster() -> None:
    pass


@cluster_app.command()
def clean(
    target: Annotated[
        str | None, typer.Argument(metavar="OUT", help="The output directory of the run that was killed.")
    ] = None,
) -> None:
    """Remove the files of runs whose driver was killed: hidden ones at OUT, and spilled ones on this machine."""
    for name in api.clean(target):
        typer.echo(f"removed {name}")


def probe_cluster(address: str, directory: Path, memory: str | None, out: Path | None, *, as_json: bool) -> None:
    """Measure, and write what a plan takes as ``--machine FILE.json:N``."""
    with _without_what_ray_prints():
        rates = api.probe(directory, address=address, host_memory_limit=memory)
    told = {"name": address, "cluster": rates.as_dict()}
    if out is not None:
        write_json(out, told)
    if as_json:
        typer.echo(json.dumps(told))
        return
    for name, value in rates.as_dict().items():
        unit = "" if name.endswith(("seconds", "gib")) else " GB/s"
        typer.echo(f"{name:14} {value:10.3f}{unit}")


def refuse(**given: object) -> None:
    """Raise ``UsageError`` for options that only sorts and joins on one machine have."""
    named = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if named:
        raise UsageError(f"{', '.join(named)}: not with --cluster, whose workers decide; leave it out")


def sort_on_cluster(
    sources: Sequence[str], by: Sequence[str], nulls: NullsEnd, selection: Selection, options: FileOptions,
    run: RunOptions, address: str, memory: str | None, *, reverse: bool, as_json: bool,
) -> None:  # fmt: skip
    """Sort files by the named columns; by all columns if none are named and rows are to be unique."""

    def keys_of(schema: Any) -> list[SortKey]:
        if selection.unique and not by:
            keys = [SortKey(name, nulls=nulls) for name in schema.names]
        else:
            keys = sort_keys_from_text(by, schema.names, nulls, inside=names_inside(schema))
        return [key.reversed() for key in keys] if reverse else keys

    words = ["sort", repr(list(by)), nulls, repr(selection), repr(reverse)]
    with _progress(f"sort {Path(sources[0]).name}") as on_progress:
        report = api.run_on_ray(
            [Side(list(sources), options)], sort_job_of(keys_of, selection), replace(run, on_progress=on_progress),
            address, memory, words,
        )  # fmt: skip
    _tell(report, as_json=as_json)


def join_on_cluster(
    left: str, right: str, asked: JoinRequest, run: RunOptions, address: str, memory: str | None, *, as_json: bool
) -> None:
    """Join files."""
    with _progress(f"join {Path(left).name}") as on_progress:
        report = api.join_on_ray(left, right, asked, replace(run, on_progress=on_progress), address, memory)
    _tell(report, as_json=as_json)


@contextmanager
def _progress(name: str) -> Iterator[OnProgress]:
    """A bar for each stage."""
    with progress_bar() as step, _without_what_ray_prints():
        bars: dict[str, Callable[[float], object]] = {}

        def told(stage: str, done: int, total: int) -> None:
            if stage not in bars:
                bars[stage] = step(f"{name}: {stage}")
            bars[stage](done / max(total, 1))

        yield told


@contextmanager
def _without_what_ray_prints() -> Iterator[None]:
    """Keep standard output for the result: Ray prints messages about lost workers there, which it replaces."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield


def _tell(report: ClusterReport, *, as_json: bool) -> None:
    typer.echo(json.dumps(report.as_dict()) if as_json else report.summary())
