"""``linkwise probe``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from linkwise._core import UsageError
from linkwise._shown import format_seconds
from linkwise.cli import options
from linkwise.cli.options import without_it
from linkwise.machines.profile import Profile, load_profile
from linkwise.probing import mpi
from linkwise.probing.probe import measurements, probe
from linkwise.reports.console import console
from linkwise.reports.profile_html import fit_told, write_report
from linkwise.reports.terminal import print_names
from linkwise.runtime.atomic_file import check_output


def probe_machine(
    machine: Annotated[
        str, typer.Option(help="local, or a described machine to simulate: what a probe would find out there.")
    ] = "local",
    full: Annotated[
        bool, typer.Option("--full/--quick", help="Every measurement, in minutes; or enough to plan with, in seconds.")
    ] = False,
    tests: Annotated[
        str | None, typer.Option("--tests", "-t", metavar="PATTERN", help="Only measurements whose names match.")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.json", help="Write the profile.")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report, as one HTML file with pictures.")
    ] = None,
    beside: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An older profile, to set beside this one in the report.")
    ] = None,
    without: Annotated[
        str | None, typer.Option(metavar="nvlink", help="Leave this out of a described machine.")
    ] = None,
    list_them: Annotated[bool, typer.Option("--list", help="Name every measurement and exit.")] = False,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="local:4|auto|HOST:PORT", help="Measure the nodes of a cluster instead, for plans."),
    ] = None,
    directory: Annotated[
        Path, typer.Option(metavar="DIR", help="Of a cluster: a directory that all nodes share, to write into.")
    ] = Path(),
    host_memory: options.HostMemory = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the profile as one JSON object.")] = False,
) -> None:
    """Measure this machine's links, find out which GPUs share a path, and fit the model that plans use."""
    if cluster is not None:
        from linkwise.cli.cluster import probe_cluster, refuse  # noqa: PLC0415 - not needed on one machine

        refuse(
            machine=machine != "local", full=full, tests=tests, report=report, beside=beside, without=without,
            list=list_them,
        )  # fmt: skip
        probe_cluster(cluster, directory, host_memory, out, as_json=as_json)
        return
    if list_them:
        print_names(measurements(), as_json=as_json)
        return
    if beside is not None and report is None:
        raise UsageError("--beside is shown in a report; name one with --report")
    older = None if beside is None else load_profile(beside)
    if directory != Path() or host_memory is not None:
        raise UsageError("--directory and --host-memory are of a cluster; name it with --cluster")
    if report is not None:
        if out is not None and out.resolve() == report.resolve():
            raise UsageError(f"{out} cannot be both the profile and the report; name two files")
        check_output(report)
    of = machine if without is None else without_it(machine, without)
    profile = probe(of, out, mode="full" if full else "quick", tests=tests)
    if machine == "local" and mpi.rank() > 0:  # with several processes, only the first one prints
        return
    if report is not None:
        write_report(profile, report, older)
    if as_json:
        typer.echo(json.dumps(profile.as_dict()))
    else:
        print_profile(console(), profile)


def _largest_sizes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The row with the most bytes of each curve."""
    largest: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = row["name"], row["what"]
        if key not in largest or row.get("bytes", 0) > largest[key].get("bytes", 0):
            largest[key] = row
    return list(largest.values())


def print_profile(console: Console, profile: Profile) -> None:
    """Print what was measured, what the fitted machine predicts for it, and the findings in words."""
    how = "simulated" if profile.simulated else "measured and verified"
    console.print(f"[bold]{escape(profile.machine.name)}[/bold]: {profile.machine.num_gpus} GPUs, {how}")
    for finding in profile.findings:
        console.print(f"• {escape(finding)}", soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading, side in (("GB/s", "right"), ("±", "right"), ("fitted", "right"), ("", "left"), ("GPUs", "left")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    for row in _largest_sizes(profile.measurements):
        if "cannot" in row:
            table.add_row("", "", "", row["name"], escape(f"{row['what']}: {row['cannot']}"))
            continue
        if "gb_per_s" not in row:
            table.add_row(format_seconds(row["seconds"]), f"{row['spread']:.0%}", "", row["name"], row["what"])
            continue
        fitted = f"{row['predicted_gb_per_s']:.1f}" if row["predicted_gb_per_s"] else ""
        table.add_row(f"{row['gb_per_s']:.1f}", f"{row['spread']:.0%}", fitted, row["name"], row["what"])
    console.print(table)
    for told in fit_told(profile):
        console.print(told, soft_wrap=True)
