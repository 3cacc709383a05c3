"""``linkwise app`` and ``linkwise tune``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from linkwise._core import AgentPlan, UsageError
from linkwise._shown import format_seconds
from linkwise.apps.registry import APPLICATIONS
from linkwise.apps.run import AppReport, run_app, tune_app
from linkwise.apps.tartan_registry import TARTAN
from linkwise.apps.tuning import DEFAULT_PLAN
from linkwise.cli import options
from linkwise.cli.options import MOST_SHOWN
from linkwise.cli.tartan import is_tartans, run_and_print
from linkwise.messages.ways import WAYS
from linkwise.reports.console import console
from linkwise.reports.terminal import print_names
from linkwise.runtime.arguments import parse_bytes


def print_app(console: Console, report: AppReport) -> None:
    """Print what an application took, on how many GPUs, and whether its result is right."""
    how = f"median of five, ± {report.spread / 2:.0%}"
    if report.simulated:
        how = "simulated" if report.timed == "data" else "simulated, for data of the paper's size"
    console.print(f"[bold]{report.app}[/bold] on {escape(report.machine)}, GPUs {', '.join(map(str, report.gpus))}")
    console.print(f"agent      {report.agent}")
    console.print(f"time       {format_seconds(report.seconds)} for {report.iterations} iterations, {how}")
    console.print(f"speed-up   {report.speedup:.2f} × over one GPU ({format_seconds(report.single_gpu_seconds)})")
    verdict = "[green]right[/green]" if report.correct else "[red]WRONG[/red]"
    console.print(f"result     {verdict} (at {report.error:.1%} of the difference that rounding may make)")


def print_tuning(console: Console, report: dict[str, Any]) -> None:
    """Print the plans that were tried, the best first."""
    console.print(f"[bold]{report['app']}[/bold] on {escape(report['machine'])}: {len(report['tried'])} plans tried")
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("plan")
    table.add_column("an iteration", justify="right")
    for row in report["tried"][:MOST_SHOWN]:
        table.add_row(row["plan"], format_seconds(row["seconds"]))
    console.print(table)
    if report["kept"]:
        console.print(f"kept in {escape(report['kept'])}")


_MOST_THREADS = 65_536
_NAMES = ", ".join(APPLICATIONS)
Name = Annotated[str, typer.Argument(metavar="NAME", help=f"{_NAMES}.")]
AnyName = Annotated[
    str, typer.Argument(metavar="LIST|NAME", help=f"list, one of {_NAMES}, or of Tartan's: {', '.join(TARTAN)}.")
]
Scale = Annotated[float | None, typer.Option(help="Scale of the generated data; 1 is the full size.")]


def _plan(agent: str, chunk: str | None, threads: int | None) -> str | AgentPlan:
    if agent == "auto":
        if chunk is not None or threads is not None:
            raise UsageError("--chunk and --threads are of an agent: name it with --agent")
        return "auto"
    if threads is not None and not 32 <= threads <= _MOST_THREADS:
        raise UsageError(f"an agent has from 32 to {_MOST_THREADS} threads, not {threads}")
    plan = AgentPlan(
        agent, parse_bytes(chunk) if chunk is not None else DEFAULT_PLAN.chunk_bytes,
        threads if threads is not None else DEFAULT_PLAN.threads,
    )  # fmt: skip
    if threads is not None and not plan.has_threads:
        raise UsageError(f"--threads is of agents that store by threads of their own, and {agent} has none")
    if chunk is not None and not plan.has_chunks:
        raise UsageError(f"--chunk is of agents that send chunks, and {agent} sends none")
    return plan


def _refuse(reason: str, options_given: Mapping[str, object]) -> None:
    """Raise ``UsageError`` for options of the other kind of application."""
    given = [name for name, value in options_given.items() if value]
    if given:
        raise UsageError(f"{reason}, and takes no {given[0]}")


def app_command(
    name: AnyName,
    gpus: options.Gpus = "auto",
    machine: options.Machine = "auto",
    agent: Annotated[
        str, typer.Option(help="Who sends finished chunks: auto, bulk, inline, polling, dynamic, copy_engine, …")
    ] = "auto",
    chunk: Annotated[str | None, typer.Option(metavar="128KiB", help="The granularity of an agent.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of an agent that stores.")] = None,
    iterations: Annotated[int | None, typer.Option(help="Number of iterations.")] = None,
    scale: Scale = None,
    matrix: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A Matrix Market file or list of edges to work on.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a picture: of xray_ct, PNG; of Tartan's, also SVG.")
    ] = None,
    via: Annotated[str | None, typer.Option(help=f"How messages of Tartan's go: auto, {', '.join(WAYS)}.")] = None,
    scaling: Annotated[
        Literal["strong", "weak"] | None,
        typer.Option(help="For Tartan's: the same problem on all GPUs, or one for each."),
    ] = None,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a trace of one of Tartan's.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Run an application of PROACT or Tartan on one GPU and on several, and check its result."""
    if name == "list":
        print_names({program.name: f"{program.abbreviation}: {program.title}" for program in TARTAN.values()})
        print_names({kind.name: (kind.__doc__ or "").partition("\n")[0] for kind in APPLICATIONS.values()})
        return
    if is_tartans(name):
        others = {
            "--agent": agent != "auto",
            "--chunk": chunk,
            "--threads": threads,
            "--iterations": iterations,
            "--matrix": matrix,
        }
        _refuse(f"{name} sends messages between its steps", others)
        run_and_print(
            name, gpus=gpus, machine=machine, via=via or "auto", scaling=scaling or "strong", scale=scale, trace=trace,
            picture=picture, as_json=as_json,
        )  # fmt: skip
        return
    if name not in APPLICATIONS:
        raise UsageError(f"there is no app '{name}'; there are {', '.join([*APPLICATIONS, *TARTAN])}")
    _refuse(f"{name} sends while it computes", {"--via": via, "--scaling": scaling, "--trace": trace})
    report = run_app(
        name, gpus=options.parse_gpus(gpus), machine=options.where(machine), agent=_plan(agent, chunk, threads),
        scale=scale, iterations=iterations, matrix=matrix, picture=picture,
    )  # fmt: skip
    if as_json:
        typer.echo(json.dumps(report.as_dict()))
    else:
        print_app(console(), report)
    if not report.correct:
        raise typer.Exit(1)


def tune_command(
    name: Name,
    gpus: options.Gpus = "auto",
    machine: options.Machine = "auto",
    scale: Scale = None,
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help="Try everything, as the paper does.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Find the best agent, granularity and number of threads for an application, and store them for this machine."""
    report = tune_app(
        name, gpus=options.parse_gpus(gpus), machine=options.where(machine), scale=scale, exhaustive=exhaustive
    )
    if as_json:
        typer.echo(json.dumps(report))
    else:
        print_tuning(console(), report)
