"""``linkwise plan``."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from linkwise._core import UsageError
from linkwise._shown import format_seconds
from linkwise.cli import options
from linkwise.cli.options import parse_gpus, without_it
from linkwise.planning.join import JoinPlanReport, plan_join
from linkwise.planning.nodes import NodesReport, bytes_of_key, nodes_named, plan_join_of_nodes, plan_sort_of_nodes
from linkwise.planning.sort import MOST_ROWS, PlanReport, plan_sort
from linkwise.reports.console import console
from linkwise.runtime.atomic_file import check_json_output
from linkwise.runtime.join_plan import JoinPlan
from linkwise.runtime.sort_plan import SortPlan

plan_app = typer.Typer(help="Plan sorts and joins, and predict their times.", no_args_is_help=True)


RowBytes = Annotated[
    int | None,
    typer.Option(
        metavar="BYTES",
        min=1,
        help="Bytes of a row of the files, by default of key and value; for plans over the nodes of a cluster.",
    ),
]


@plan_app.command("sort")
def plan_of_sort(
    rows: Annotated[float, typer.Option(help="Rows to sort, as 2000000000 or 2e9.")],
    key: Annotated[str, typer.Option(metavar="u32", help="u8 … u64, i8 … i64, f16 … f64.")] = "u32",
    value: Annotated[int, typer.Option(metavar="BYTES", help="Bytes of the value beside each key: 0, 4, 8 or 16.")] = 0,
    machine: Annotated[str, typer.Option(help="auto, local, a described machine, or a .json file.")] = "auto",
    without: Annotated[
        str | None, typer.Option(metavar="nvlink", help="Leave this out of a described machine.")
    ] = None,
    gpus: Annotated[str, typer.Option(metavar="0,2|auto", help="GPUs, in the order of the result.")] = "auto",
    strategy: Annotated[
        Literal["auto", "radix", "p2p_merge", "het", "cpu"], typer.Option(help="How to sort.")
    ] = "auto",
    memory_limit: Annotated[str | None, typer.Option(metavar="4GiB", help="Memory to use on each GPU.")] = None,
    pageable: Annotated[bool, typer.Option("--pageable", help="Input and output are in pageable memory.")] = False,
    row_bytes: RowBytes = None,
    plan: options.Plan = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.json", help="Write the best plan.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Plan a sort: print the best plan, its predicted time, and why it was chosen. Nothing is sorted."""
    _check_rows("rows", rows)
    if _is_of_nodes(machine, row_bytes):
        _refuse(without=without, gpus=gpus != "auto", strategy=strategy != "auto", memory_limit=memory_limit,
                pageable=pageable, plan=plan, output=out)  # fmt: skip
        _tell_of_nodes(plan_sort_of_nodes(rows, key, row_bytes or bytes_of_key(key) + value, machine), as_json=as_json)
        return
    report = plan_sort(
        int(rows),
        key,
        value_bytes=value,
        machine=machine if without is None else without_it(machine, without),
        gpus=parse_gpus(gpus),
        strategy=strategy,
        memory_limit=memory_limit,
        pageable=pageable,
        plan=None if plan is None else SortPlan.parse(plan),
    )
    _tell(report, out, partial(print_plan, console(), report), as_json=as_json)


@plan_app.command("join")
def plan_of_join(
    left: Annotated[float, typer.Option(help="Rows of the left side, as 100000000 or 1e8.")],
    right: Annotated[float, typer.Option(help="Rows of the right side.")],
    key: Annotated[str, typer.Option(metavar="u32", help="u8 … u64, i8 … i64, f16 … f64.")] = "u32",
    value: Annotated[int, typer.Option(metavar="BYTES", help="Bytes of the value beside each key: 0, 4, 8 or 16.")] = 0,
    how: Annotated[
        Literal["inner", "left", "right", "full", "semi", "anti"], typer.Option(help="Which rows are kept.")
    ] = "inner",
    rows: Annotated[bool, typer.Option("--rows", help="Plan to return the rows, not only their number.")] = False,
    selectivity: Annotated[float, typer.Option(help="Pairs that match, for each row of the longer side.")] = 1.0,
    skew: Annotated[float, typer.Option(help="Zipf's exponent of the longer side's keys.")] = 0.0,
    presorted: Annotated[
        Literal["neither", "left", "right", "both"], typer.Option(help="Sides that are sorted by their keys already.")
    ] = "neither",
    machine: Annotated[str, typer.Option(help="auto, local, a described machine, or a .json file.")] = "auto",
    without: Annotated[
        str | None, typer.Option(metavar="nvlink", help="Leave this out of a described machine.")
    ] = None,
    gpus: Annotated[str, typer.Option(metavar="0,2|auto", help="GPUs to use.")] = "auto",
    path: Annotated[
        Literal["auto", "in_core", "sorted"],
        typer.Option(help="in_core: in the memory of the GPUs; sorted: out of core, both sides sorted."),
    ] = "auto",
    memory_limit: Annotated[str | None, typer.Option(metavar="4GiB", help="Memory to use on each GPU.")] = None,
    pageable: Annotated[bool, typer.Option("--pageable", help="Input and output are in pageable memory.")] = False,
    row_bytes: RowBytes = None,
    plan: options.Plan = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.json", help="Write the best plan.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Plan a join: print the best plan and its predicted time. Nothing is joined."""
    for name, count in (("left", left), ("right", right)):
        _check_rows(name, count)
    if not 0 <= selectivity <= MOST_ROWS:
        raise UsageError(f"--selectivity is {selectivity:g}; it is a number from 0 to {MOST_ROWS:g}")
    matches = int(min(selectivity * max(left, right), MOST_ROWS))
    if _is_of_nodes(machine, row_bytes):
        _refuse(without=without, gpus=gpus != "auto", memory_limit=memory_limit, pageable=pageable, plan=plan,
                path=path != "auto", presorted=presorted != "neither", output=out)  # fmt: skip
        of_row = row_bytes or bytes_of_key(key) + value
        report_of_nodes = plan_join_of_nodes(left, right, matches, key, of_row, machine, how)
        _tell_of_nodes(report_of_nodes, as_json=as_json)
        return
    report = plan_join(
        int(left),
        int(right),
        key,
        how=how,
        value_bytes=value,
        wants_rows=rows,
        matches=matches,
        skew=skew,
        left_presorted=presorted in ("left", "both"),
        right_presorted=presorted in ("right", "both"),
        machine=machine if without is None else without_it(machine, without),
        gpus=parse_gpus(gpus),
        path=path,
        memory_limit=memory_limit,
        pageable=pageable,
        plan=None if plan is None else JoinPlan.parse(plan),
    )
    _tell(report, out, partial(print_join_plan, console(), report), as_json=as_json)


def _check_rows(name: str, rows: float) -> None:
    if not 0 <= rows <= MOST_ROWS or rows % 1:  # before it becomes an integer: it may be infinite
        raise UsageError(f"--{name} is {rows:g}; it is a whole number from 0 to {MOST_ROWS:g}")


def _is_of_nodes(machine: str, row_bytes: int | None) -> bool:
    """Whether the plan is for files that all nodes of a cluster read and write. Raises ``UsageError``."""
    named = nodes_named(machine)
    if named is None and row_bytes is not None:
        raise UsageError("--row-bytes is of files that many nodes read; name these, as --machine dgx-h100:16")
    return named is not None


def _refuse(**given: object) -> None:
    named = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if named:
        raise UsageError(f"{', '.join(named)}: not of a plan for many nodes; leave it out")


def _tell_of_nodes(report: NodesReport, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report.as_dict()))
    else:
        print_nodes(console(), report)


def _long(seconds: float) -> str:
    return format_seconds(seconds) if seconds < 1000 else f"{seconds:,.0f} s"


def print_nodes(console: Console, report: NodesReport) -> None:
    """Print the times on 1, 2, 4, … nodes, and how many bytes go over each resource on all of them."""
    console.print(f"[bold]{report.gigabytes:,.0f} GB on {escape(report.machine)}[/bold]: {escape(report.why)}")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("nodes", "time", "sample", "spread", "make"):
        table.add_column(heading, justify="right")
    table.add_column("bound by")
    for plan in report.plans:
        of = {stage.name: _long(stage.takes) for stage in plan.stages}
        times = [_long(plan.seconds), of["sample"], of["spread"], of["make"]]
        table.add_row(str(plan.nodes), *times, escape(plan.bound_by))
    spills = "spilled" if report.one_machine_spills else "in memory"
    one = report.one_machine
    table.add_row("1", _long(one.seconds), "", *(_long(stage.takes) for stage in one.stages),
                  f"without the engine, {spills}: {escape(one.bound_by)}")  # fmt: skip
    console.print(table)
    for stage in report.plans[-1].stages:
        if stage.gigabytes:
            told = ", ".join(f"{resource} {size:,.0f} GB" for resource, size in stage.gigabytes.items())
            console.print(f"{stage.name}: {told}")


def _tell(
    report: PlanReport | JoinPlanReport, out: Path | None, print_it: Callable[[], None], *, as_json: bool
) -> None:
    if out is not None:
        check_json_output(out)
        report.best.save(out)
    if as_json:
        typer.echo(json.dumps(report.as_dict()))
    else:
        print_it()


def print_plan(console: Console, report: PlanReport) -> None:
    """Print the best plan with its phases, and what the others would take."""
    _print_plans(console, report, report.why, "runners-up, the best of each strategy and number of GPUs")


def print_join_plan(console: Console, report: JoinPlanReport) -> None:
    """The same of a join."""
    if report.skew.zipf > 0:
        where = "on one GPU" if report.skew.spread_over == 1 else f"spread over {report.skew.spread_over} GPUs"
        console.print(f"the most frequent key has {report.skew.heaviest_share:.1%} of the longer side, {where}")
    _print_plans(console, report, None, "runners-up, the best of each path and number of GPUs")


def _print_plans(console: Console, report: PlanReport | JoinPlanReport, why: str | None, others: str) -> None:
    what = f"[bold]{escape(report.best.plan)}: {format_seconds(report.best.seconds)}[/bold]"
    console.print(f"{what} on {escape(report.machine)}")
    if why is not None:
        console.print(escape(why))
    phases = ", ".join(f"{phase} {format_seconds(seconds)}" for phase, seconds in report.best.phases.items())
    console.print(f"phases: {phases}")
    if not report.runners_up:
        return
    table = Table(title=others, title_justify="left", box=None)
    table.add_column("time", justify="right")
    table.add_column("plan")
    for plan in report.runners_up:
        table.add_row(format_seconds(plan.seconds), escape(plan.plan))
    console.print(table)
