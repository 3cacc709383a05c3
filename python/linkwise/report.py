"""What a sort did, for people: phases, and who was busy when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from linkwise.join_planning import JoinPlanReport
from linkwise.plan_report import PlanReport
from linkwise.profile import Profile
from linkwise.reproduce import Row
from linkwise.sort_report import SortReport
from linkwise.trace import trace_events

_WIDTH = 48
_STYLES = {
    "HtoD": "cyan",
    "DtoH": "magenta",
    "sort": "green",
    "partition": "yellow",
    "exchange": "blue",
    "merge": "bright_yellow",
    "merge runs": "bright_yellow",
    "verify": "bright_black",
    "verify input": "bright_black",
}


def format_seconds(seconds: float) -> str:
    """Seconds with a unit that suits them: ``812 µs``, ``12.3 ms``, ``1.24 s``."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def format_bytes(count: float) -> str:
    """Bytes in decimal units, as the rates are: ``3.2 GB``."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} bytes"


def where_it_ran(report: SortReport) -> str:
    """One line that says what executed, and whose clock the times are of."""
    if report.simulated:
        return f"No GPU was used: the CPU executed, and all times are simulated for the machine '{report.machine}'."
    if not report.gpus:
        return "Ran on the cores of this machine, without GPUs."
    return f"Ran on the GPUs of this machine ('{report.machine}'); times are from CUDA events."


def phase_table(report: SortReport) -> Table:
    """Each phase with its seconds and its share of the whole."""
    table = Table(title="phases", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading, side in (("phase", "left"), ("time", "right"), ("share", "right"), ("", "left")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    for phase, seconds in report.phases.items():
        share = seconds / report.seconds if report.seconds > 0 else 0.0
        bar = Text("█" * round(share * 30), style=_STYLES.get(phase, "white"))
        table.add_row(phase, format_seconds(seconds), f"{share:.0%}", bar)
    table.add_row("end to end", format_seconds(report.seconds), "", "", style="bold")
    return table


def activity_chart(report: SortReport) -> Group:
    """A row for every GPU and every direction of a link: when it was busy, and with what."""
    slices = [event for event in trace_events(report) if event["ph"] == "X"]
    total_us = max((event["ts"] + event["dur"] for event in slices), default=1.0) or 1.0
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace_events(report)
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    rows: dict[str, list[str | None]] = defaultdict(lambda: [None] * _WIDTH)
    carried: dict[str, int] = defaultdict(int)
    for event in slices:
        track = names[event["pid"], event["tid"]]
        is_link = "→" in track
        if not is_link and (not track.endswith("/compute") or event["name"].startswith("copy")):
            continue
        row = track if is_link else track.removesuffix("/compute")
        first = int(event["ts"] / total_us * _WIDTH)
        last = max(first + 1, round((event["ts"] + event["dur"]) / total_us * _WIDTH))
        for cell in range(first, min(last, _WIDTH)):
            rows[row][cell] = event["cat"]
        if is_link:
            carried[row] += event["args"]["bytes"]
    label_width = max((len(row) for row in rows), default=0)
    lines = [Text("who was busy when", style="italic")]
    for row in sorted(rows, key=lambda name: ("→" in name, name)):
        line = Text(f"{row:<{label_width}} ")
        for phase in rows[row]:
            line.append("█" if phase else "·", style=_STYLES.get(phase or "", "white" if phase else "bright_black"))
        if row in carried:
            line.append(f" {format_bytes(carried[row])}")
        lines.append(line)
    legend = Text()
    for phase in report.phases:
        legend.append("█ ", style=_STYLES.get(phase, "white"))
        legend.append(f"{phase}  ")
    return Group(*lines, legend)


def print_report(console: Console, report: SortReport) -> None:
    """Print where a sort ran, what it did and how long each phase took."""
    console.print(f"[bold]{escape(where_it_ran(report))}[/bold]")
    rate = report.rows / report.seconds if report.seconds > 0 else 0
    console.print(
        f"{report.rows:,} rows ({format_bytes(report.bytes)}), {escape(report.plan)}: "
        f"{format_seconds(report.seconds)}, {rate / 1e9:.3g}·10⁹ keys/s"
        + (", order and checksum verified" if report.verified else "")
    )
    console.print(phase_table(report))
    console.print(activity_chart(report))


def print_explanation(console: Console, report: SortReport) -> None:
    """Print the plan, and what it expected of each phase beside what that took."""
    console.print(f"[bold]{escape(report.plan)}[/bold]. {escape(where_it_ran(report))}")
    predicted = report.predicted_phases()
    if predicted is None:
        console.print("Nothing was predicted: the sort was not planned as one.")
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading, side in (("phase", "left"), ("predicted", "right"), ("measured", "right"), ("", "right")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    expected_in_all, took_in_all = sum(predicted.values()), report.seconds
    for phase in dict.fromkeys([*predicted, *report.phases]):
        expected, took = predicted.get(phase, 0.0), report.phases.get(phase, 0.0)
        table.add_row(
            phase, format_seconds(expected), format_seconds(took), f"{took / expected:.2f} ×" if expected else ""
        )
    ratio = f"{took_in_all / expected_in_all:.2f} ×" if expected_in_all else ""
    table.add_row("end to end", format_seconds(expected_in_all), format_seconds(took_in_all), ratio, style="bold")
    console.print(table)


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


def print_experiment(console: Console, title: str, how: str, rows: Iterable[Row]) -> None:
    """Print the paper's figures, ours, and their ratio."""
    console.print(f"[bold]{escape(title)}[/bold] ({how})")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "paper", "ours", "ratio", "", ""):
        table.add_column(heading, justify="right" if heading else "left")
    for row in rows:
        stated = f"{row.paper:.3g}" if row.paper is not None else ""
        ours = f"{row.ours:.3g}" if row.ours is not None else "–"
        ratio = f"{row.ratio:.2f}" if row.ratio is not None else ""
        table.add_row(escape(row.what), stated, ours, ratio, row.unit, escape(row.note))
    console.print(table)


def print_plan_benchmark(console: Console, results: dict[str, Any]) -> None:
    """Print each sort with what was predicted of it, what the planner picked, and the errors in sum."""
    how = "simulated, nothing was measured" if results["simulated"] else "measured"
    console.print(f"[bold]{escape(results['machine'])}[/bold]: {how}")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("keys", "GPUs", "strategy", "took", "predicted", "error"):
        table.add_column(heading, justify="left" if heading == "strategy" else "right")
    for row in results["rows"]:
        took, predicted = median(row["measured_seconds"]), row["predicted_seconds"]
        times = format_seconds(took), format_seconds(predicted)
        table.add_row(f"{row['keys']:,}", str(row["gpus"]), row["strategy"], *times, f"{row['error']:+.1%}")
    console.print(table)
    for pick in results["picks"]:
        slower = f"{pick['over_the_best']:.1%} slower than the best" if pick["over_the_best"] else "the best"
        console.print(f"{pick['keys']:,} on {pick['gpus']}: {escape(pick['picked'])}, {slower}")
    for what, name in (("sorts", "sorts"), ("transfers_not_fitted", "sets that the machine was not fitted to")):
        if results[what]["count"]:
            told = results[what]
            console.print(f"{told['count']} {name}: median error {told['median']:.1%}, {told['worst']:.1%} at worst")


def print_join_benchmark(console: Console, results: dict[str, Any]) -> None:
    """Print what each way of joining took, beside what its bytes take on the links."""
    how = "simulated, nothing was measured" if results["simulated"] else "measured"
    workload, best = results["workload"], results["wire_gb_per_s"]["best"]
    r, s = workload["rows"]
    console.print(f"[bold]{escape(results['machine'])}[/bold]: {how}")
    console.print(
        f"workload {workload['name']}: {r:,} ⋈ {s:,} rows, selectivity {workload['selectivity']:g}, "
        f"skew {workload['skew']:g}; {best['in']:.0f} GB/s in, {best['out']:.0f} out"
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "took", "±", "wire", "ratio", "plan", "phases"):
        table.add_column(heading, justify="right" if heading in ("took", "±", "wire", "ratio") else "left")
    for row in results["rows"]:
        spread = f"{row['spread']:.0%}" if "spread" in row else ""
        wire = row["wire_seconds"]
        ratio = f"{row['seconds'] / wire:.2f}"
        table.add_row(
            row["case"], format_seconds(row["seconds"]), spread, format_seconds(wire), ratio, escape(row["plan"]),
            _largest_phases(row["phases"]),
        )  # fmt: skip
    for row in results["on_gpus"]:
        efficiency = f"{row['efficiency']:.0%} of what one GPU promises"
        way = "" if row.get("way", "sorted") == "sorted" else f", {row['way']}"
        name = f"keys on {row['gpus']} GPUs, counted{way}"
        table.add_row(name, format_seconds(row["seconds"]), f"{row['spread']:.0%}", "", "", efficiency, "")
    for row in results["baselines"]:
        table.add_row(row["case"], format_seconds(row["seconds"]), "", "", "", "", "")
    console.print(table)


def _largest_phases(phases: dict[str, float]) -> str:
    """Those that take a twentieth of the whole and more (join25 figs 13 and 14)."""
    whole = sum(phases.values())
    return ", ".join(f"{name} {seconds / whole:.0%}" for name, seconds in phases.items() if seconds > whole / 20)


def print_tpch(console: Console, results: dict[str, Any]) -> None:
    """Print what the joins of each query took, by shares, and the whole beside DuckDB's."""
    how = "simulated, nothing was joined" if results["simulated"] else "measured"
    console.print(f"[bold]TPC-H, scale factor {results['scale']:g}[/bold], {escape(results['machine'])}: {how}")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "joins", "sort/join/materialise", "DuckDB's", "whole query", "DuckDB's", ""):
        table.add_column(heading, justify="right" if heading else "left")
    for row in results["queries"]:
        shares = row["shares"]
        whole = sum(shares.values()) or 1
        parts = "/".join(f"{shares[name] / whole:.0%}" for name in ("sort", "join", "materialise"))
        joins_of_duckdb, of_duckdb = (
            format_seconds(median(row[name])) if name in row else ""
            for name in ("duckdb_join_seconds", "duckdb_seconds")
        )
        of_whole = format_seconds(row["seconds"]["whole"]) if "whole" in row["seconds"] else ""
        checked = "the same result" if row.get("checked") else ""
        joins = format_seconds(row["seconds"]["joins"])
        table.add_row(row["query"], joins, parts, joins_of_duckdb, of_whole, of_duckdb, checked)
    console.print(table)


def _largest_sizes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of a curve, the row of most bytes."""
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
        console.print(f"• {escape(finding)}")
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
    checks = profile.errors(fitted=False)
    if checks:
        console.print(
            f"{len(checks)} sets that the machine was not fitted to: predicted with a median error of "
            f"{profile.median_error():.1%}, {max(checks):.1%} at worst"
        )
