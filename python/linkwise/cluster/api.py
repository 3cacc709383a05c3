"""Sorting and joining over many nodes: the public calls."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from linkwise._core import UsageError
from linkwise.cluster import ray_engine, targets
from linkwise.cluster.driver import OnProgress
from linkwise.cluster.node_rates import rates_of
from linkwise.cluster.runs import JobOf, Run, RunOptions, Side, Tables, join_job_of, sort_job_of
from linkwise.columns.inside import names_inside
from linkwise.columns.sort_keys import By, Descending, Nulls, Selection, SortKey, listed, sort_keys_of
from linkwise.encoders.parquet_options import Dictionary, ParquetOptions
from linkwise.files.file_join import JoinRequest
from linkwise.files.formats import FileOptions
from linkwise.files.locations import target_of
from linkwise.joining.matching import Columns, How, Order, Validate
from linkwise.machines.cluster_rates import ClusterRates
from linkwise.runtime.arguments import parse_bytes
from linkwise.runtime.atomic_directory import sweep_directories
from linkwise.runtime.host_memory import host_memory


def sort(
    source: Any,
    target: Any = None,
    *,
    by: By = None,
    descending: Descending = False,
    nulls: Nulls = "last",
    address: str = "auto",
    column_types: Mapping[str, str] | None = None,
    header: bool = True,
    input_format: str | None = None,
    delimiter: str | None = None,
    null_string: str = "",
    columns: Sequence[str] | None = None,
    filter: Any | None = None,
    compression: str | None = None,
    row_group_rows: int | None = None,
    dictionary: Dictionary = "auto",
    delta: bool = True,
    page_index: bool = False,
    host_memory_limit: int | str | None = None,
    temporary_directory: str | Path | None = None,
    strategy: str = "auto",
    force: bool = False,
    resume: bool = False,
    on_progress: OnProgress | None = None,
) -> Any:
    """Sort tables on the nodes of a cluster, if one machine has not enough memory or takes too long.

    The sort is stable. The result has the rows of all files, in the order of ``sort_file``; it appears as a whole,
    once all of it has been checked. It is a sample sort (Shi and Schaeffer, JPDC 1992) whose splitters are rows of
    the input, so that one key may span several files.

    Parameters
    ----------
    source
        Files that all nodes can read, as ``sort_file`` takes them, or a ``ray.data.Dataset``.
    target
        A directory that all nodes can write, or a URI: it gets Parquet files in order, ``part-00000.parquet`` and so
        on, and ``_manifest.json`` with their rows and bounds. Without a target, a dataset gives a dataset.
    address
        ``"auto"``: the cluster of which this machine is a node; ``"HOST:6379"``; or ``"local:4"``: four workers of this
        machine. If the program has already started Ray, that is used.
    host_memory_limit
        Memory for each worker: bytes, or like ``"64GiB"`` or ``"80%"``; by default, what Ray assigns of its node's.
    temporary_directory
        Where a worker spills runs of a partition that is too large for its memory; by default the system's.
    strategy
        How each worker sorts, as in ``options``: ``"auto"``, on its GPUs if they are faster than its CPU.
    force, resume
        Replace a directory with files in it; resume a run whose driver was killed.
    on_progress
        Called with the stage, how much has passed it, and how much there is in all: files, then bytes.
    by, descending, nulls, columns, filter, and all others
        As ``sort_file`` has them.

    Returns
    -------
    ClusterReport
        Or a ``ray.data.Dataset``.

    Raises
    ------
    UsageError, Error, OutOfMemoryError, CorruptDataError

    """
    options = _file_options(
        column_types, input_format, delimiter, null_string, ParquetOptions(compression, row_group_rows, dictionary,
        delta, page_index), header=header, columns=columns, rows=filter,
    )  # fmt: skip
    keys_of = _keys_of(by, descending, nulls)
    run_options = RunOptions.of(target, temporary_directory, on_progress, force=force, resume=resume, strategy=strategy)
    return run_on_ray(
        [Side(source, options)], sort_job_of(keys_of, Selection()), run_options, address, host_memory_limit,
        ["sort", repr(by), repr(descending), repr(nulls)],
    )  # fmt: skip


def unique(
    source: Any, target: Any = None, *, by: By = None, descending: Descending = False, nulls: Nulls = "last",
    address: str = "auto", host_memory_limit: int | str | None = None, force: bool = False, resume: bool = False,
    on_progress: OnProgress | None = None,
) -> Any:  # fmt: skip
    """Keep the first row of each key, in key order. The key is all columns unless some are named.

    Parameters and errors: as ``sort``.
    """
    keys_of = _keys_of(by, descending, nulls, by_default_all=True)
    run_options = RunOptions.of(target, None, on_progress, force=force, resume=resume)
    return run_on_ray(
        [Side(source, FileOptions())], sort_job_of(keys_of, Selection(unique=True)), run_options, address,
        host_memory_limit, ["unique", repr(by), repr(descending), repr(nulls)],
    )  # fmt: skip


def top_k(
    source: Any, k: int, target: Any = None, *, by: By = None, descending: Descending = True, nulls: Nulls = "last",
    address: str = "auto", host_memory_limit: int | str | None = None, force: bool = False,
    on_progress: OnProgress | None = None,
) -> Any:  # fmt: skip
    """Write the first ``k`` rows in order, the greatest unless ``descending=False``, to one file.

    Parameters and errors: as ``sort``.
    """
    run_options = RunOptions.of(target, None, on_progress, force=force, resume=False)
    return run_on_ray(
        [Side(source, FileOptions())], sort_job_of(_keys_of(by, descending, nulls), Selection(limit=k)), run_options,
        address, host_memory_limit, ["top_k", repr(k), repr(by), repr(descending), repr(nulls)],
    )  # fmt: skip


def join(
    left: Any,
    right: Any,
    target: Any = None,
    on: Columns = None,
    *,
    left_on: Columns = None,
    right_on: Columns = None,
    how: How = "inner",
    suffix: str = "_right",
    nulls_equal: bool = False,
    validate: Validate = "m:m",
    order: Order = None,
    address: str = "auto",
    column_types: Mapping[str, str] | None = None,
    header: bool = True,
    input_format: str | None = None,
    delimiter: str | None = None,
    null_string: str = "",
    left_columns: Sequence[str] | None = None,
    right_columns: Sequence[str] | None = None,
    left_filter: Any | None = None,
    right_filter: Any | None = None,
    compression: str | None = None,
    row_group_rows: int | None = None,
    dictionary: Dictionary = "auto",
    delta: bool = True,
    page_index: bool = False,
    host_memory_limit: int | str | None = None,
    temporary_directory: str | Path | None = None,
    strategy: str = "auto",
    force: bool = False,
    resume: bool = False,
    on_progress: OnProgress | None = None,
) -> Any:
    """Join tables by equal keys, over the nodes of a cluster.

    ``order`` is ``"key"``, with exactly the row order of ``join_file``, or ``None``: any order. If a single key
    exceeds a worker's share, one side's rows of it are divided among several workers, and the other side's rows are
    replicated to each. Parameters and errors: as ``sort`` and ``join_file``.
    """
    options = _file_options(
        column_types, input_format, delimiter, null_string, ParquetOptions(compression, row_group_rows, dictionary,
        delta, page_index), header=header, columns=None, rows=None,
    )  # fmt: skip
    asked = JoinRequest(
        left=(), right=(), on=on, left_on=left_on, right_on=right_on, how=how, options=options, suffix=suffix,
        nulls_equal=nulls_equal, validate=validate, order=order,
        sides=((left_columns, left_filter), (right_columns, right_filter)),
    )  # fmt: skip
    run_options = RunOptions.of(target, temporary_directory, on_progress, force=force, resume=resume, strategy=strategy)
    return join_on_ray(left, right, asked, run_options, address, host_memory_limit)


def join_on_ray(
    left: Any, right: Any, asked: JoinRequest, options: RunOptions, address: str, memory: int | str | None
) -> Any:
    """As ``join``."""
    (left_columns, left_filter), (right_columns, right_filter) = asked.sides
    if asked.how in ("semi", "anti"):
        keys = listed(asked.on if asked.on is not None else asked.right_on)
        # Which column has the field that a name with a dot may mean, is known when the files are open.
        right_columns = None if any("." in name for name in keys) else list(dict.fromkeys(keys))
    sides = [
        Side(source, replace(asked.options, columns=None if columns is None else list(columns), filter=rows))
        for source, columns, rows in ((left, left_columns, left_filter), (right, right_columns, right_filter))
    ]
    words = [asked.on, asked.left_on, asked.right_on, asked.how, asked.suffix, asked.nulls_equal, asked.validate]
    return run_on_ray(
        sides, join_job_of(asked), options, address, memory, ["join", *map(repr, words), repr(asked.order)]
    )


def clean(target: Any = None) -> list[str]:
    """Remove what runs whose driver was killed have left on this machine and, if one is named, at a target.

    Returns what was removed. Runs that are still active are not touched, except at a target that is a URI, where they
    cannot be told apart.

    Raises
    ------
    UsageError, Error

    """
    removed = [str(path) for beside in ray_engine.temporary_targets() for path in sweep_directories(beside)]
    return removed if target is None else [*removed, *targets.clean(target_of(target))]


def probe(directory: str | Path, *, address: str = "auto", host_memory_limit: int | str | None = None) -> ClusterRates:
    """Measure how fast the nodes of a cluster read, write, spill, send and compute, for planning.

    Some files are written into a directory that all nodes share, sorted, and removed. Takes from ten seconds to a few
    minutes. Parameters and errors: as ``sort``.
    """
    began = time.perf_counter()
    with ray_engine.open_engine(address, _memory(host_memory_limit)) as engine:
        return rates_of(engine, Path(directory).absolute(), time.perf_counter() - began)


def _memory(limit: int | str | None) -> int | None:
    return None if limit is None else parse_bytes(limit, host_memory("MemTotal"))


def run_on_ray(
    sides: Sequence[Side], job_of: JobOf, options: RunOptions, address: str, memory: int | str | None, words: list[str]
) -> Any:
    """Run a job on Ray; ``words`` describe the request, so that it can be recognised when a run is resumed."""
    are_datasets = [hasattr(side.source, "to_arrow_refs") for side in sides]
    if options.target is None and not all(are_datasets):
        raise UsageError("name a directory to write; a dataset comes back of datasets alone")
    if options.resume and any(are_datasets):
        raise UsageError("only runs that read files can be resumed; start the run of a dataset again")
    with ray_engine.open_engine(address, _memory(memory), options.directory) as engine:
        given = [
            replace(side, source=Tables(ray_engine.tables_of(side.source))) if is_dataset else side
            for side, is_dataset in zip(sides, are_datasets, strict=True)
        ]
        files = [repr(side.options) for side in sides]
        report, tables = Run(engine, given, options).go(job_of, {"words": words, "options": files})
        return report if options.target is not None else ray_engine.dataset_of(tables)


def _keys_of(by: By, descending: Descending, nulls: Nulls, *, by_default_all: bool = False) -> Any:
    def keys_of(schema: pa.Schema) -> list[SortKey]:
        named = list(schema.names) if by is None and by_default_all else by
        return sort_keys_of(schema.names, named, descending, nulls, inside=names_inside(schema))

    return keys_of


def _file_options(
    column_types: Mapping[str, str] | None, input_format: str | None, delimiter: str | None, null_string: str,
    parquet: ParquetOptions, *, header: bool, columns: Sequence[str] | None, rows: Any | None,
) -> FileOptions:  # fmt: skip
    kept = None if columns is None else list(columns)
    return FileOptions(
        None, dict(column_types or {}), header, input_format, "parquet", kept, rows, delimiter, null_string,
        parquet=parquet,
    )  # fmt: skip
