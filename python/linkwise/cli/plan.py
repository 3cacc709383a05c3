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
from linkwise.cli import options
from linkwise.cli.options import parse_gpus, without_it
from linkwise.planning.join import JoinPlanReport, plan_join
from linkwise.planning.sort import MOST_ROWS, PlanReport, plan_sort
from linkwise.reports.summary import format_seconds
from linkwise.runtime.join_plan import JoinPlan
from linkwise.runtime.sort_plan import SortPlan

plan_app = typer.Typer(help="What work would take, before it is done.", no_args_is_help=True)


@plan_app.command("sort")
def plan_of_sort(
    rows: Annotated[float, typer.Option(help="How many, as 2000000000 or 2e9.")],
    key: Annotated[str, typer.Option(metavar="u32", help="u8 … u64, i8 … i64, f16 … f64.")] = "u32",
    value: Annotated[int, typer.Option(metavar="BYTES", help="That follow each key: 0, 4, 8 or 16.")] = 0,
    machine: Annotated[str, typer.Option(help="auto, local, a described machine, or a .json file.")] = "auto",
    without: Annotated[str | None, typer.Option(metavar="nvlink", help="A described machine without it.")] = None,
    gpus: Annotated[str, typer.Option(metavar="0,2|auto", help="GPUs, in the order of the result.")] = "auto",
    strategy: Annotated[Literal["auto", "radix", "p2p_merge", "het", "cpu"], typer.Option(help="How.")] = "auto",
    memory_limit: Annotated[str | None, typer.Option(metavar="4GiB", help="Memory to use on each GPU.")] = None,
    pageable: Annotated[bool, typer.Option("--pageable", help="Ordinary memory, in and out.")] = False,
    plan: options.Plan = None,
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.json", help="The best plan.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say how a sort would be done, what it would take, and why. Nothing is sorted."""
    if not 0 <= rows <= MOST_ROWS or rows % 1:  # before it becomes an integer: it may be infinite
        raise UsageError(f"--rows is {rows:g}; it is a whole number from 0 to {MOST_ROWS:g}")
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
    _tell(report, out, partial(print_plan, Console(), report), as_json=as_json)


@plan_app.command("join")
def plan_of_join(
    left: Annotated[float, typer.Option(help="Rows of the left side, as 100000000 or 1e8.")],
    right: Annotated[float, typer.Option(help="Rows of the right side.")],
    key: Annotated[str, typer.Option(metavar="u32", help="u8 … u64, i8 … i64.")] = "u32",
    value: Annotated[int, typer.Option(metavar="BYTES", help="That follow each key: 0, 4, 8 or 16.")] = 0,
    how: Annotated[
        Literal["inner", "left", "right", "full", "semi", "anti"], typer.Option(help="Which rows are kept.")
    ] = "inner",
    rows: Annotated[bool, typer.Option("--rows", help="The rows are wanted, not only their number.")] = False,
    selectivity: Annotated[float, typer.Option(help="Pairs that match, for each row of the longer side.")] = 1.0,
    skew: Annotated[float, typer.Option(help="Zipf's exponent of the longer side's keys.")] = 0.0,
    presorted: Annotated[
        Literal["neither", "left", "right", "both"], typer.Option(help="What lies in the order of its keys.")
    ] = "neither",
    machine: Annotated[str, typer.Option(help="auto, local, a described machine, or a .json file.")] = "auto",
    without: Annotated[str | None, typer.Option(metavar="nvlink", help="A described machine without it.")] = None,
    gpus: Annotated[str, typer.Option(metavar="0,2|auto", help="GPUs.")] = "auto",
    path: Annotated[Literal["auto", "in_core", "sorted"], typer.Option(help="Where it is joined.")] = "auto",
    memory_limit: Annotated[str | None, typer.Option(metavar="4GiB", help="Memory to use on each GPU.")] = None,
    pageable: Annotated[bool, typer.Option("--pageable", help="Ordinary memory, in and out.")] = False,
    plan: options.Plan = None,
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.json", help="The best plan.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say how a join would be done, and what it would take. Nothing is joined."""
    for name, count in (("left", left), ("right", right), ("selectivity", selectivity)):
        if not 0 <= count <= MOST_ROWS:  # before it becomes an integer: it may be infinite
            raise UsageError(f"--{name} is {count:g}; it is a number from 0 to {MOST_ROWS:g}")
    report = plan_join(
        int(left),
        int(right),
        key,
        how=how,
        value_bytes=value,
        wants_rows=rows,
        matches=int(min(selectivity * max(left, right), MOST_ROWS)),
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
    _tell(report, out, partial(print_join_plan, Console(), report), as_json=as_json)


def _tell(
    report: PlanReport | JoinPlanReport, out: Path | None, print_it: Callable[[], None], *, as_json: bool
) -> None:
    if out is not None:
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
    table = Table(title=others, title_justify="left", box=None)
    table.add_column("time", justify="right")
    table.add_column("plan")
    for plan in report.runners_up:
        table.add_row(format_seconds(plan.seconds), escape(plan.plan))
    console.print(table)
