"""``linkwise app`` for Tartan's applications."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape

from linkwise._shown import format_seconds
from linkwise.apps.tartan_registry import TARTAN
from linkwise.apps.tartan_run import Scaling, TartanReport, run_tartan
from linkwise.cli import options
from linkwise.cli.progress import progress_bar
from linkwise.messages.launcher import rank
from linkwise.reports.console import console
from linkwise.reports.plots import check_picture, phase_picture
from linkwise.reports.trace import check_trace, write_run_trace, write_spans


def is_tartans(name: str) -> bool:
    """Whether an application is one of Tartan's, by its name or the paper's abbreviation."""
    return name in TARTAN or name.upper() in {program.abbreviation for program in TARTAN.values()}


def run_and_print(
    name: str, *, gpus: str, machine: str, via: str, scaling: Scaling, scale: float | None, trace: Path | None,
    picture: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Run an application, print its report, and exit with 1 if its answer is wrong."""
    if trace is not None:
        check_trace(trace)
    if picture is not None:
        check_picture(picture)
    with progress_bar() as begin:
        advance = begin(name)
        report = run_tartan(
            name, gpus=options.parse_gpus(gpus), machine=options.where(machine), via=via, scaling=scaling,
            scale=1 if scale is None else scale, on_progress=lambda done, steps, _: advance(done / steps),
        )  # fmt: skip
    if rank() > 0:  # with several processes, only the first one prints
        return
    if trace is not None:
        told = {"app": report.app, "machine": report.machine, "via": report.via, "simulated": report.simulated}
        if report.simulated:
            write_run_trace(trace, report, told)
        else:
            write_spans(trace, report.spans, told)
    if picture is not None:
        count = f"{len(report.gpus)} GPUs, {report.via}"
        rows = {"one GPU": {"in all": report.single_gpu_seconds}, count: report.by_kind}
        phase_picture(rows, picture, title=f"{report.app} on {report.machine}, {report.scaling} scaling")
    if as_json:
        typer.echo(json.dumps(report.as_dict()))
    else:
        print_report(console(), report)
    if not report.correct:
        raise typer.Exit(1)


def print_report(console: Console, report: TartanReport) -> None:
    """Print what a run took, and whether its answer is right."""
    how = "simulated" if report.simulated else f"median, ± {report.spread / 2:.0%}"
    where = f"{report.processes} processes, GPUs" if report.processes > 1 else "GPUs"
    console.print(
        f"[bold]{report.app}[/bold] ({report.abbreviation}) on {escape(report.machine)}, "
        f"{where} {', '.join(map(str, report.gpus))}, by way of {report.via}"
    )
    console.print(
        f"time       {format_seconds(report.seconds)}, {how}, scale {report.scale:g}, {report.scaling} scaling"
    )
    console.print(f"speed-up   {report.speedup:.2f} × over one GPU ({format_seconds(report.single_gpu_seconds)})")
    parts = ", ".join(f"{kind} {format_seconds(seconds)}" for kind, seconds in report.by_kind.items())
    console.print(f"of it      {parts}" if report.simulated else f"step by step, each waited for: {parts}")
    verdict = "[green]right[/green]" if report.correct else "[red]WRONG[/red]"
    console.print(f"answer     {verdict} (a small problem's, at {report.error:.2g} of what is allowed)")
