"""``linkwise bench``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Annotated, Literal, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from linkwise._core import UsageError
from linkwise._shown import format_seconds
from linkwise.bench.join import JoinResults, bench_join
from linkwise.bench.join_workload import Workload
from linkwise.bench.plan import PlanResults, bench_plan
from linkwise.bench.proactive import MicroResults, ProactiveResults, TimedApp, bench_proactive
from linkwise.bench.results import Results
from linkwise.bench.tpch import TpchResults, bench_tpch
from linkwise.cli import options
from linkwise.cli.options import MOST_SHOWN
from linkwise.reports.console import console
from linkwise.runtime.atomic_file import write_json

Ran = TypeVar("Ran", bound=Results)
bench_app = typer.Typer(help="Run benchmarks and write raw results.", no_args_is_help=True)


def _finish(results: Ran, out: Path | None, show: Callable[[Console, Ran], None], *, as_json: bool) -> None:
    """Write the raw results where they are wanted, and show them."""
    if out is not None:
        write_json(out, results.as_dict())
    if as_json:
        typer.echo(json.dumps(results.as_dict()))
    else:
        show(console(), results)


@bench_app.command("plan")
def bench_of_plans(
    machine: options.Machine = "auto",
    scale: Annotated[float, typer.Option(help="Scale of the sizes: 0.5, 2 and 8 billion keys.")] = 1.0,
    out: options.RawResults = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare the planner's predictions and choices with measured sorts over a grid."""
    results = bench_plan(options.where(machine), scale)
    _finish(results, out, print_plan_benchmark, as_json=as_json)


@bench_app.command("join")
def bench_of_joins(
    workload: Annotated[
        Literal["A", "B"], typer.Option(help="Of PVLDB'25: 10^8 and 10^9 rows of 8 bytes, or 10^9 and 10^9 of 16.")
    ] = "A",
    f: Annotated[float, typer.Option("--f", help="The scale factor of the sizes.")] = 1.0,
    selectivity: Annotated[float, typer.Option(help="The share of S's rows that have a match.")] = 1.0,
    skew: Annotated[float, typer.Option(help="The Zipf exponent of S's keys, from 0 to 1.")] = 0.0,
    heavy_hitter: Annotated[
        bool, typer.Option("--heavy-hitter", help="One key is a tenth of S, and occurs 1,000 times in R.")
    ] = False,
    real: Annotated[bool, typer.Option("--real", help="Fail unless this machine has GPUs.")] = False,
    machine: options.Machine = "auto",
    gpus: options.Gpus = "auto",
    only: Annotated[str | None, typer.Option(metavar="TEXT", help="Only what has a name with this in it.")] = None,
    repetitions: Annotated[int, typer.Option(help="Repetitions of each case.")] = 5,
    out: options.RawResults = None,
    as_json: options.AsJson = False,
) -> None:
    """Run the join workloads of PVLDB'25 in every way, and compare each with the time of its bytes on the links."""
    if real and machine not in ("auto", "local"):
        raise UsageError(f"--real is for this machine's GPUs, and --machine {machine} is simulated; choose one")
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
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder of the tables as Parquet files, which are written there if missing."
        ),
    ] = None,
    repetitions: Annotated[int, typer.Option(help="Repetitions of each query.")] = 5,
    out: options.RawResults = None,
    as_json: options.AsJson = False,
) -> None:
    """Run TPC-H queries from files, and the joins of Q3 and Q5; compare with DuckDB if it is installed."""
    results = bench_tpch(sf, machine=machine, gpus=options.parse_gpus(gpus), data=data, repetitions=repetitions)
    _finish(results, out, print_tpch, as_json=as_json)


@bench_app.command("proactive")
def bench_of_proactive_transfers(
    machine: options.Machine = "auto",
    gpus: options.Gpus = "auto",
    scale: Annotated[float | None, typer.Option(help="Scale of the applications' data; 1 is the full size.")] = None,
    only: Annotated[str | None, typer.Option(metavar="NAME", help="An application, or microbenchmark.")] = None,
    scaling: Annotated[bool, typer.Option("--scaling", help="Run the applications on 2, 4, 8 … GPUs as well.")] = False,
    out: options.RawResults = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure what proactive transfers gain: the microbenchmark and the applications of PROACT (ISCA'21)."""
    results = bench_proactive(
        machine=options.where(machine), gpus=options.parse_gpus(gpus), scale=scale, only=only, scaling=scaling
    )
    _finish(results, out, print_proactive, as_json=as_json)


def print_proactive(console: Console, results: ProactiveResults) -> None:
    """Print the microbenchmark by agent and granularity, and what each application gains."""
    how = "simulated" if results.simulated else "measured"
    console.print(f"[bold]Proactive transfers[/bold] on {escape(results.machine)}, {results.gpus} GPUs: {how}")
    if results.store_goodput:
        shares = ", ".join(f"{size} bytes {share:.0%}" for size, share in results.store_goodput.items())
        console.print(f"goodput of stores to peers: {shares}")
    if results.microbenchmark is not None:
        console.print(_microbenchmark_table(results.microbenchmark))
    rows = [row for row in results.apps if row.gpus == results.gpus]
    if rows:
        console.print(_applications_table(rows))
    for gpus, means in results.means.items():
        told = ", ".join(f"{name} {value:.2f}" for name, value in means.items())
        share = means["proactive"] / means["infinite"]
        console.print(f"geometric means on {gpus} GPUs: {told}, {share:.0%} of what there is to gain")


def _microbenchmark_table(micro: MicroResults) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), title="256 MiB to all others, × copying after the kernel")
    table.add_column("plan")
    table.add_column("speed-up", justify="right")
    by_speed = sorted(micro.rows, key=lambda row: -row.speedup)
    for row in [*by_speed[:MOST_SHOWN], *(row for row in by_speed[MOST_SHOWN:] if row.agent == "unified")]:
        table.add_row(row.plan, f"{row.speedup:.2f}")
    if micro.stores_seconds is not None:
        table.add_row("as long as the stores alone take", f"{micro.bulk_seconds / micro.stores_seconds:.2f}")
    table.add_row("links without limits", f"{micro.ideal:.2f}")
    return table


def _applications_table(rows: list[TimedApp]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), title="applications, × one GPU")
    headings = ("", "bulk", "inline", "decoupled", "the most", "share of it", "copying", "tracking", "overlap", "plan")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("", "plan") else "right")
    for row in rows:
        speedups = row.speedups
        table.add_row(
            row.app, *(f"{speedups[kind]:.2f}" for kind in ("bulk", "inline", "decoupled", "infinite")),
            *(f"{share:.0%}" for share in (row.share_of_opportunity, row.bulk_share)),
            f"{row.tracking:.1%}", f"{row.overlap:.0%}", row.plan,
        )  # fmt: skip
    return table


def print_plan_benchmark(console: Console, results: PlanResults) -> None:
    """Print each sort with what was predicted of it, what the planner picked, and the errors in sum."""
    how = "simulated, nothing was measured" if results.simulated else "measured"
    console.print(f"[bold]{escape(results.machine)}[/bold]: {how}")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("keys", "GPUs", "strategy", "took", "predicted", "error"):
        table.add_column(heading, justify="left" if heading == "strategy" else "right")
    for row in results.rows:
        took, predicted = median(row.measured_seconds), row.predicted_seconds
        times = format_seconds(took), format_seconds(predicted)
        table.add_row(f"{row.keys:,}", str(row.gpus), row.strategy, *times, f"{row.error:+.1%}")
    console.print(table)
    for pick in results.picks:
        slower = f"{pick.over_the_best:.1%} slower than the best" if pick.over_the_best else "the best"
        console.print(f"{pick.keys:,} on {pick.gpus}: {escape(pick.picked)}, {slower}")
    not_fitted = "sets that the machine was not fitted to"
    for errors, name in ((results.sorts, "sorts"), (results.transfers_not_fitted, not_fitted)):
        if errors.count:
            console.print(f"{errors.count} {name}: median error {errors.median:.1%}, {errors.worst:.1%} at worst")


def print_join_benchmark(console: Console, results: JoinResults) -> None:
    """Print what each way of joining took, beside what its bytes take on the links."""
    how = "simulated, nothing was measured" if results.simulated else "measured"
    workload, best = results.workload, results.wire_gb_per_s["best"]
    r, s = workload.rows
    console.print(f"[bold]{escape(results.machine)}[/bold]: {how}")
    console.print(
        f"workload {workload.name}: {r:,} ⋈ {s:,} rows, selectivity {workload.selectivity:g}, "
        f"skew {workload.skew:g}; {best['in']:.0f} GB/s in, {best['out']:.0f} out"
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "took", "±", "wire", "ratio", "plan", "phases"):
        table.add_column(heading, justify="right" if heading in ("took", "±", "wire", "ratio") else "left")
    for row in results.rows:
        spread = f"{row.spread:.0%}" if row.spread is not None else ""
        wire = row.wire_seconds
        ratio = f"{row.seconds / wire:.2f}"
        table.add_row(
            row.case, format_seconds(row.seconds), spread, format_seconds(wire), ratio, escape(row.plan),
            _largest_phases(row.phases),
        )  # fmt: skip
    for each in results.on_gpus:
        efficiency = f"{each.efficiency:.0%} of what one GPU promises"
        way = "" if each.way == "sorted" else f", {each.way}"
        name = f"keys on {each.gpus} GPUs, counted{way}"
        table.add_row(name, format_seconds(each.seconds), f"{each.spread:.0%}", "", "", efficiency, "")
    for baseline in results.baselines:
        table.add_row(baseline.case, format_seconds(baseline.seconds), "", "", "", "", "")
    console.print(table)


def _largest_phases(phases: dict[str, float]) -> str:
    """The phases that take a twentieth of the whole or more (join25 figs 13 and 14)."""
    whole = sum(phases.values())
    return ", ".join(f"{name} {seconds / whole:.0%}" for name, seconds in phases.items() if seconds > whole / 20)


def print_tpch(console: Console, results: TpchResults) -> None:
    """Print what the joins of each query took, by shares, and the whole beside DuckDB's."""
    how = "simulated, nothing was joined" if results.simulated else "measured"
    console.print(f"[bold]TPC-H, scale factor {results.scale:g}[/bold], {escape(results.machine)}: {how}")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "joins", "of which", "DuckDB's", "whole query", "DuckDB's", ""):
        table.add_column(heading, justify="right" if heading else "left")
    for row in results.queries:
        shares = row.shares
        whole = sum(shares.values()) or 1
        parts = ", ".join(f"{name} {seconds / whole:.0%}" for name, seconds in shares.items())
        joins_of_duckdb, of_duckdb = (
            format_seconds(median(seconds)) if seconds is not None else ""
            for seconds in (row.duckdb_join_seconds, row.duckdb_seconds)
        )
        of_whole = format_seconds(row.seconds["whole"]) if "whole" in row.seconds else ""
        checked = "the same result" if row.checked else ""
        joins = format_seconds(row.seconds["joins"])
        table.add_row(row.query, joins, parts, joins_of_duckdb, of_whole, of_duckdb, checked)
    console.print(table)
    if results.from_files:
        console.print("From Parquet files to the result: nothing is prepared.")
        console.print(_from_files_table(results))


def _from_files_table(results: TpchResults) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "from files", "in Polars", "DuckDB's", "×", "× in Polars", "rows"):
        table.add_column(heading, justify="right" if heading else "left")

    def shown(seconds: list[float] | None) -> str:
        return "" if seconds is None else format_seconds(median(seconds))

    for row in results.from_files:
        ratios = ("" if ratio is None else f"{ratio:.2f}" for ratio in (row.ratio, row.in_polars_ratio))
        times = (shown(each) for each in (row.seconds, row.in_polars_seconds, row.duckdb_seconds))
        table.add_row(row.query, *times, *ratios, str(row.rows))
    return table
