"""``linkwise bench``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from linkwise import cli_options as options
from linkwise._core import UsageError
from linkwise.app_report import print_proactive
from linkwise.cli_errors import interrupt_is_a_failure
from linkwise.join_benchmark import bench_join
from linkwise.join_workloads import Workload
from linkwise.plan_benchmark import bench_plan
from linkwise.proactive_benchmark import bench_proactive
from linkwise.profile import write_json
from linkwise.report import print_join_benchmark, print_plan_benchmark, print_tpch
from linkwise.tpch import bench_tpch

bench_app = typer.Typer(help="Benchmarks, with raw results.", no_args_is_help=True)


def _finish(
    results: dict[str, Any], out: Path | None, show: Callable[[Console, dict[str, Any]], None], *, as_json: bool
) -> None:
    """Write the raw results where they are wanted, and show them."""
    if out is not None:
        write_json(out, results)
    if as_json:
        typer.echo(json.dumps(results))
    else:
        show(Console(), results)


@bench_app.command("plan")
def bench_of_plans(
    machine: options.Machine = "auto",
    scale: Annotated[float, typer.Option(help="Of the sizes: 0.5, 2 and 8 billion keys.")] = 1.0,
    out: options.RawResults = None,
    as_json: options.AsJson = False,
) -> None:
    """Hold the planner's predictions and choices against measured sorts over a grid."""
    with interrupt_is_a_failure():
        results = bench_plan(options.where(machine), scale)
    _finish(results, out, print_plan_benchmark, as_json=as_json)


@bench_app.command("join")
def bench_of_joins(
    workload: Annotated[
        Literal["A", "B"], typer.Option(help="join25's: 10^8 and 10^9 rows of 8 bytes, or 10^9 and 10^9 of 16.")
    ] = "A",
    f: Annotated[float, typer.Option("--f", help="The scale factor of the sizes.")] = 1.0,
    selectivity: Annotated[float, typer.Option(help="The share of S's rows that have a match.")] = 1.0,
    skew: Annotated[float, typer.Option(help="The Zipf exponent of S's keys, from 0 to 1.")] = 0.0,
    heavy_hitter: Annotated[
        bool, typer.Option("--heavy-hitter", help="One key is a tenth of S, and occurs 1,000 times in R.")
    ] = False,
    real: Annotated[bool, typer.Option("--real", help="On this machine's GPUs, or not at all.")] = False,
    machine: options.Machine = "auto",
    gpus: options.Gpus = "auto",
    only: Annotated[str | None, typer.Option(metavar="TEXT", help="Only what has a name with this in it.")] = None,
    repetitions: Annotated[int, typer.Option(help="Of each case.")] = 5,
    out: options.RawResults = None,
    as_json: options.AsJson = False,
) -> None:
    """Join the relations of join25 in every way, and set each beside what its bytes take on the links."""
    if real and machine not in ("auto", "local"):
        raise UsageError(f"--real is for this machine's GPUs, and --machine {machine} is simulated; choose one")
    with interrupt_is_a_failure():
        results = bench_join(
            Workload(workload, f, selectivity, skew, heavy_hitter),
            machine="local" if real else options.where(machine),
            gpus=options.parse_gpus(gpus),
            only=lambda name: only is None or only in name,
            repetitions=repetitions,
        )
    _finish(results, out, print_join_benchmark, as_json=as_json)


@bench_app.command("tpch")
def bench_of_tpch(
    sf: Annotated[float, typer.Option("--sf", help="The scale factor; 1 is about a gigabyte.")] = 1.0,
    machine: Annotated[
        str, typer.Option(help="auto, local, cpu, or a described machine, on which the joins alone are simulated.")
    ] = "auto",
    gpus: options.Gpus = "auto",
    data: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Has the tables as Parquet files, or gets them.")
    ] = None,
    repetitions: Annotated[int, typer.Option(help="Of each query.")] = 5,
    out: options.RawResults = None,
    as_json: options.AsJson = False,
) -> None:
    """Run the joins of TPC-H Q3 and Q5, and the whole queries, checked against DuckDB where it is installed."""
    with interrupt_is_a_failure():
        results = bench_tpch(sf, machine=machine, gpus=options.parse_gpus(gpus), data=data, repetitions=repetitions)
    _finish(results, out, print_tpch, as_json=as_json)


@bench_app.command("proactive")
def bench_of_proactive_transfers(
    machine: options.Machine = "auto",
    gpus: options.Gpus = "auto",
    scale: Annotated[float | None, typer.Option(help="Of the applications' data; 1 is the full size.")] = None,
    only: Annotated[str | None, typer.Option(metavar="NAME", help="An application, or microbenchmark.")] = None,
    scaling: Annotated[bool, typer.Option("--scaling", help="The applications on 2, 4, 8 … GPUs as well.")] = False,
    out: options.RawResults = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure what sending chunks while kernels run gains: the microbenchmark and the applications of proact21."""
    with interrupt_is_a_failure():
        results = bench_proactive(
            machine=options.where(machine), gpus=options.parse_gpus(gpus), scale=scale, only=only, scaling=scaling
        )
    _finish(results, out, print_proactive, as_json=as_json)
