"""``linkwise app`` and ``linkwise tune``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from linkwise import cli_options as options
from linkwise._core import AgentPlan, UsageError
from linkwise.app_report import print_app, print_tuning
from linkwise.app_runs import run_app, tune_app
from linkwise.apps import APPLICATIONS
from linkwise.cli_errors import interrupt_is_a_failure
from linkwise.planning import parse_bytes
from linkwise.tuning import DEFAULT_PLAN

_MOST_THREADS = 65_536
_NAMES = ", ".join(APPLICATIONS)
Name = Annotated[str, typer.Argument(metavar="NAME", help=f"{_NAMES}.")]
Scale = Annotated[float | None, typer.Option(help="Of the data that is made; 1 is the full size.")]


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


def app_command(
    name: Name,
    gpus: options.Gpus = "auto",
    machine: options.Machine = "auto",
    agent: Annotated[
        str, typer.Option(help="Who sends finished chunks: auto, bulk, inline, polling, dynamic, copy_engine, …")
    ] = "auto",
    chunk: Annotated[str | None, typer.Option(metavar="128KiB", help="The granularity of an agent.")] = None,
    threads: Annotated[int | None, typer.Option(help="Of an agent that stores.")] = None,
    iterations: Annotated[int | None, typer.Option(help="How many.")] = None,
    scale: Scale = None,
    matrix: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A Matrix Market file or list of edges to work on.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Where xray_ct's picture goes, as PNG.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Run an application of proactive transfers on one GPU and on several, and check its result."""
    with interrupt_is_a_failure():
        report = run_app(
            name, gpus=options.parse_gpus(gpus), machine=options.where(machine), agent=_plan(agent, chunk, threads),
            scale=scale, iterations=iterations, matrix=matrix, picture=picture,
        )  # fmt: skip
    if as_json:
        typer.echo(json.dumps(report.as_dict()))
    else:
        print_app(Console(), report)
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
    """Find the agent, granularity and threads that an application is best run with, and keep them for this machine."""
    with interrupt_is_a_failure():
        report = tune_app(
            name, gpus=options.parse_gpus(gpus), machine=options.where(machine), scale=scale, exhaustive=exhaustive
        )
    if as_json:
        typer.echo(json.dumps(report))
    else:
        print_tuning(Console(), report)
