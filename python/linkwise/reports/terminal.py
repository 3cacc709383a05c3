"""What a sort did, for people: phases, and who was busy when."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from linkwise._shown import format_bytes, format_seconds
from linkwise.joining.report import JoinReport
from linkwise.reports.console import console
from linkwise.reports.summary import join_summary, summary
from linkwise.reports.trace import trace_events
from linkwise.sorting.report import SortReport

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
    console.print(f"[bold]{escape(summary(report))}[/bold]")
    rate = report.rows / report.seconds if report.seconds > 0 else 0
    console.print(
        f"{report.rows:,} rows ({format_bytes(report.bytes)}), {escape(report.told_plan())}: "
        f"{format_seconds(report.seconds)}, {rate / 1e9:.3g}·10⁹ keys/s"
        + (", order and checksum verified" if report.verified else "")
    )
    console.print(phase_table(report))
    if report.timeline:
        console.print(activity_chart(report))


def print_explanation(console: Console, report: SortReport) -> None:
    """Print the plan, and what it expected of each phase beside what that took."""
    console.print(f"[bold]{escape(summary(report))}[/bold]; {escape(report.told_plan())}")
    predicted = report.predicted_phases()
    if predicted is None:
        console.print("Nothing was predicted: no plan was priced, as the cores sorted it at once or in parts.")
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    took_is = "simulated" if report.simulated else "measured"
    for heading, side in (("phase", "left"), ("predicted", "right"), (took_is, "right"), ("", "right")):
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


def print_join_explanation(console: Console, report: JoinReport) -> None:
    """Print what decided how a join went, and what its threads did for how long."""
    console.print(f"[bold]{escape(join_summary(report))}[/bold]")
    print_names(report.reasons, console)
    if not report.spans:
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "parts", "in all", "longest", "threads"):
        table.add_column(heading, justify="right" if heading else "left")
    for name in dict.fromkeys(span.name for span in report.spans):
        spans = [span for span in report.spans if span.name == name]
        seconds = [span.end - span.begin for span in spans]
        threads = len({span.thread for span in spans})
        table.add_row(name, str(len(spans)), format_seconds(sum(seconds)), format_seconds(max(seconds)), str(threads))
    console.print(table)


def print_names(names: Mapping[str, str], out: Console | None = None, *, as_json: bool = False) -> None:
    """Print names and what they are, a line each or as one JSON object."""
    if as_json:
        print(json.dumps(names))
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, what in names.items():
        table.add_row(name, what)
    (out or console()).print(table)
