"""What a sort or a join did, in a line of plain text."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from linkwise._shown import format_seconds
from linkwise.sorting.report import SortReport

if TYPE_CHECKING:  # a sort does not load it
    from linkwise.joining.report import JoinReport

_STEPS = ("read", "table", "join", "keys", "sort", "ties", "verify", "rows", "spill", "merge", "write")
"""The steps in the order in which they are listed."""


def _cores() -> str:
    count = len(os.sched_getaffinity(0))
    return f"{count} core{'s' * (count != 1)}"


def where_it_ran(report: SortReport) -> str:
    """Where the sort ran: simulated, on cores or on GPUs."""
    if report.simulated:
        return f"simulated for the machine '{report.machine}' on {_cores()}"
    if not report.gpus:
        return f"on {_cores()}"
    return f"on {len(report.gpus)} GPU{'s' * (len(report.gpus) != 1)} of this machine ('{report.machine}')"


def summary(report: SortReport) -> str:
    """One line: rows, wall-clock time, and where the sort ran."""
    line = f"{_rows(report.rows)} sorted in {format_seconds(report.wall_seconds)} {where_it_ran(report)}"
    if report.simulated:
        line += f", which would take {format_seconds(report.seconds)} for its keys"
    return line + _told(report.steps)


def join_summary(report: JoinReport) -> str:
    """The same of a join."""
    took = format_seconds(report.wall_seconds)
    return f"{_rows(report.rows)} joined in {took} on {_cores()}, {report.strategy}{_told(report.steps)}"


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def _told(steps: dict[str, float]) -> str:
    in_order = sorted(steps.items(), key=lambda step: _STEPS.index(step[0]))
    told = ", ".join(f"{step} {format_seconds(seconds)}" for step, seconds in in_order)
    return f"{': ' * bool(told)}{told}"
