"""What a sort did and how long it took, as plain values."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

from linkwise import _core
from linkwise._log import is_heard, log
from linkwise._shown import Shown, format_seconds, parts_in_seconds
from linkwise.runtime.plan_fields import On
from linkwise.runtime.sort_plan import SortPlan

Item = TypeVar("Item")


class Span(NamedTuple):
    """What a thread did, and when, in seconds since ``Steps`` was created."""

    name: str
    thread: str
    begin: float
    end: float


class Steps:
    """Wall-clock times of consecutive steps; the time of a nested step is not part of the outer one."""

    def __init__(self, first: str = "") -> None:
        self.seconds: dict[str, float] = {}
        self._current = first
        self._since = self._beginning = time.perf_counter()
        self.spans: list[Span] = []
        """What threads did, as recorded by ``span``."""

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Record the time of a block as a span, on any thread."""
        began = time.perf_counter()
        try:
            yield
        finally:
            ended = time.perf_counter()
            thread = threading.current_thread().name
            self.spans.append(Span(name, thread, began - self._beginning, ended - self._beginning))

    def begin(self, step: str) -> None:
        """End the current step, and begin or continue another one. The time of ``""`` is not recorded here."""
        now = time.perf_counter()
        if self._current:
            self.seconds[self._current] = self.seconds.get(self._current, 0.0) + now - self._since
            log.debug("%s took %.6f s", self._current, now - self._since)
        self._current, self._since = step, now

    def timed(self, step: str, items: Iterator[Item]) -> Iterator[Item]:
        """The items; waiting for them is a step nested in the current one."""
        while True:
            with self.within(step):
                item = next(items, None)
            if item is None:
                return
            yield item

    def end(self, step: str) -> None:
        """Count the time since the last step for this step."""
        self._current = step
        self.begin("")

    @contextmanager
    def within(self, step: str) -> Iterator[None]:
        """Run a block as a step nested in the current one."""
        around = self._current
        self.begin(step)
        try:
            yield
        finally:
            self.begin(around)


def phases_of(report: _core.SortReport) -> dict[str, float]:
    """Seconds by the phase's name."""
    return {phase.phase: phase.seconds for phase in report.phases}


@dataclass(frozen=True, repr=False)
class SortReport(Shown):
    """What a sort did, and how long each part took.

    ``seconds`` and ``phases`` come from the machine's clock: CUDA events, or the simulated clock where ``simulated``.
    ``wall_seconds`` is how long the caller waited, and ``steps`` for what: reading a file, making and sorting keys,
    resolving ties, gathering and writing rows; or spilling and merging them.
    """

    rows: int
    bytes: int
    machine: str
    simulated: bool
    gpus: list[int]
    strategy: str
    plan: SortPlan
    seconds: float
    phases: dict[str, float]
    wall_seconds: float
    verified: bool
    machine_description: _core.Machine = field(compare=False)
    timeline: list[_core.TimelineEntry]
    steps: dict[str, float] = field(default_factory=dict)
    predict: Callable[[], dict[str, float]] | None = field(default=None, compare=False)
    spilled: str = ""
    """How a file larger than memory was processed."""

    def told_plan(self) -> str:
        """The plan in words, and how a file larger than memory was processed."""
        return f"{self.plan}; {self.spilled}" if self.spilled else str(self.plan)

    def predicted_phases(self) -> dict[str, float] | None:
        """What the planner expects each phase of this very sort to take; ``None`` where nothing was planned."""
        return None if self.predict is None else self.predict()

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled for other processes: everything, with the prediction evaluated."""
        predicted = self.predicted_phases()
        return self.__dict__ | {"predict": None if predicted is None else partial(dict, predicted)}

    @classmethod
    def of_core(
        cls, report: _core.SortReport, runtime: _core.Runtime, plan: _core.SortPlan, *, rows: int, row_bytes: int,
        wall_seconds: float, on: On = "host", predict: Callable[[], dict[str, float]] | None = None,
    ) -> Self:  # fmt: skip
        """From the core's report of a sort that it ran."""
        made = cls(
            rows=rows,
            bytes=rows * row_bytes,
            machine=runtime.machine.name,
            simulated=runtime.simulated,
            gpus=list(plan.gpus),
            strategy=plan.strategy.name,
            plan=SortPlan.of_core(plan, on),
            seconds=report.seconds,
            phases=phases_of(report),
            wall_seconds=wall_seconds,
            verified=report.verified,
            machine_description=runtime.machine,
            timeline=report.timeline,
            predict=predict,
        )
        if is_heard():
            log.info("%s: %s", made.shown_line(), made.plan)
        return made

    @classmethod
    def together(cls, reports: Sequence[Self]) -> Self:
        """One report of several sorts that make one result: times are added up, the rest is that of the first."""
        first, *others = reports
        if not others:
            return first
        return replace(
            first,
            seconds=sum(report.seconds for report in reports),
            phases=_added(report.phases for report in reports),
            steps=_added(report.steps for report in reports),
            wall_seconds=sum(report.wall_seconds for report in reports),
            timeline=[],
            predict=None,
        )

    def after(self, steps: Steps) -> Self:
        """The report with the times of these steps added."""
        return replace(self, steps=_added([self.steps, steps.seconds]))

    def shown_line(self) -> str:
        """Rows, machine and wall time in one line."""
        return f"{self.rows:,} rows sorted on {self.machine} in {format_seconds(self.wall_seconds)}"

    def shown_rows(self) -> dict[str, Any]:
        """The plan, and what each part took."""
        clock = "phases, simulated" if self.simulated else "phases"
        return {
            "GPUs": ", ".join(map(str, self.gpus)) or "none",
            "plan": self.told_plan(),
            "steps": parts_in_seconds(self.steps),
            clock: parts_in_seconds(self.phases),
            "verified": "yes" if self.verified else "no",
        }

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, as ``linkwise sort --json`` prints it."""
        return {
            "rows": self.rows,
            "bytes": self.bytes,
            "machine": self.machine,
            "simulated": self.simulated,
            "gpus": self.gpus,
            "strategy": self.strategy,
            "plan": self.told_plan(),
            "fields": self.plan.as_dict(),
            "seconds": {
                "end_to_end": self.seconds,
                "wall": self.wall_seconds,
                "phases": self.phases,
                "steps": self.steps,
            },
            "verified": self.verified,
        }


def _added(parts: Iterable[dict[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, seconds in part.items():
            total[name] = total.get(name, 0.0) + seconds
    return total
