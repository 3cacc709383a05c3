"""Matches of keys of up to 64 bits, found on the GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from linkwise import _core
from linkwise._core import OutOfMemoryError, UsageError
from linkwise._typing import Array, Rows
from linkwise.columns.key_types import key_type_of
from linkwise.exceptions import FallbackWarning, warn_caller
from linkwise.joining.matches import Matches
from linkwise.planning.join import choose_join_plan, join_workload, joins_on_gpus
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.gpu_start import join_is_left_to_cores
from linkwise.runtime.host_memory import check_rows_fit, uninitialised
from linkwise.runtime.join_plan import JoinPlan
from linkwise.runtime.session import open_session, run_interruptibly

Answer = TypeVar("Answer")
ROW_BYTES = 8
KEY_BYTES = 8  # of the key words that are joined
_NO_ROW = (1 << 32) - 1

_WORTH_THE_GPUS = 1 << 15
"""Rows; fewer are joined on the CPU sooner than they are copied to the GPUs."""


def _nobody(_: ExecutionOptions) -> Matches:
    raise AssertionError("only asked whether it could")


def without_gpus(execution: ExecutionOptions) -> ExecutionOptions:
    """The same options with strategy ``cpu``, and without GPUs and plan."""
    return replace(execution, strategy="cpu", gpus="auto", plan=None)


def may_hash(execution: ExecutionOptions) -> bool:
    """Whether the CPU may use a hash join: nothing is specified, or it runs on the CPU and no plan is given."""
    return execution.says_nothing or (execution.plan is None and (execution.strategy == "cpu" or execution.on_cores))


def pinned_join(execution: ExecutionOptions) -> dict[str, Any]:
    """The pinned plan fields that only joins on the GPUs have."""
    return execution.plan.pinned if isinstance(execution.plan, JoinPlan) else {}


def check_can_be_pinned(execution: ExecutionOptions, why: str) -> None:
    """Raise ``UsageError`` if a plan pins how GPUs join what they cannot join."""
    pinned = pinned_join(execution)
    if pinned:
        name = next(iter(pinned))
        raise UsageError(f"{name} is of joins on the GPUs, and {why}; pin only sort= in the plan")


def leaves_to_gpus(execution: ExecutionOptions, left_rows: int, right_rows: int) -> bool:
    """Whether a join of this size runs on GPUs: small ones only if the options ask for GPUs."""
    if not left_rows or not right_rows or join_is_left_to_cores(execution, (left_rows + right_rows) * KEY_BYTES):
        return False
    if not joins_on_gpus(execution):
        return False
    says_nothing = (
        execution.strategy == "auto"
        and execution.machine in ("auto", "local")
        and execution.gpus == "auto"
        and execution.plan is None
    )
    return not says_nothing or left_rows + right_rows >= _WORTH_THE_GPUS


class GpuMatches:
    """The matches of two integer arrays of one type. Each query runs a join of its own on the GPUs.

    Falls back to the cores (``on_cores``) on out-of-memory or unsupported operations.
    """

    def __init__(
        self,
        left: Array,
        right: Array,
        execution: ExecutionOptions,
        on_cores: Callable[[ExecutionOptions], Matches],
        presorted: tuple[bool, bool] = (False, False),
    ) -> None:
        self._left, self._right, self._execution, self._on_cores = left, right, execution, on_cores
        self._presorted = presorted
        self._key_type = key_type_of(left.dtype)
        self.phases: dict[str, float] = {}
        """Seconds of each phase of the last ``indices``."""

    @classmethod
    def can(cls, left: Array, right: Array, execution: ExecutionOptions) -> bool:
        """Whether the execution leaves the join to the GPUs, and they have the memory for it."""
        if not leaves_to_gpus(execution, len(left), len(right)):
            return False
        found = cls(left, right, execution, _nobody)
        with open_session(execution.machine) as runtime:
            try:
                found._plan(runtime, "inner", row_bytes=ROW_BYTES)
            except OutOfMemoryError as error:
                if pinned_join(execution):
                    return True  # the query itself may take less memory, or reports what does not fit
                told = f"{error}: both sides are sorted together, and their matches are found on the cores"
                warn_caller(told, FallbackWarning)
                return False
        return True

    def _plan(
        self,
        runtime: _core.Runtime,
        how: str,
        *,
        row_bytes: int = 0,
        wants_ranges: bool = False,
        sides: tuple[Array, Array] | None = None,
        presorted: tuple[bool, bool] | None = None,
    ) -> _core.JoinPlan:
        left, right = sides or (self._left, self._right)
        rows = len(left), len(right)
        workload = join_workload(
            self._key_type, rows, how, value_bytes=row_bytes, wants_rows=row_bytes > 0 and not wants_ranges
        )
        workload.wants_ranges = wants_ranges
        workload.left_presorted, workload.right_presorted = presorted or self._presorted
        workload.pageable = not all(_core.is_pinned(side) for side in (left, right))
        workload.verify = self._execution.verify
        return choose_join_plan(runtime, workload, self._execution)

    def count(self, how: str) -> int:
        """See ``Matches``."""
        return self._or_cores(lambda: self._count(how), lambda cores: cores.count(how))

    def indices(self, how: str) -> tuple[Rows, Rows | None]:
        """See ``Matches``."""
        return self._or_cores(lambda: self._indices(how, ROW_BYTES), lambda cores: cores.indices(how))

    def rows_to_gather(self, how: str) -> tuple[Rows | None, Rows | None]:
        """See ``Matches``: uint32 if no partner can be missing."""
        fits = max(len(self._left), len(self._right)) < _NO_ROW
        width = 4 if fits and how in ("inner", "semi", "anti") else ROW_BYTES
        return self._or_cores(lambda: self._indices(how, width), lambda cores: cores.indices(how))

    def windows(self, how: str, rows: int) -> Iterator[tuple[Rows, Rows | None]]:
        """See ``Matches``: found on the CPU, since the GPUs return a result only as a whole."""
        told = f"{self.count(how)} rows are more than memory holds: the cores make them, {rows} at a time"
        warn_caller(told, FallbackWarning)
        return self.on_cores().windows(how, rows)

    def ranges(self) -> tuple[Rows, Rows, Rows, Rows]:
        """See ``Matches``."""
        return self._or_cores(self._ranges, lambda cores: cores.ranges())

    @property
    def left_is_unique(self) -> bool:
        """See ``Matches``."""
        return self._or_cores(lambda: self._is_unique(0), lambda cores: cores.left_is_unique)

    @property
    def right_is_unique(self) -> bool:
        """See ``Matches``."""
        return self._or_cores(lambda: self._is_unique(1), lambda cores: cores.right_is_unique)

    def on_cores(self) -> Matches:
        """The same matches, found on the CPU. Raises ``UsageError`` if a plan pins how GPUs join."""
        check_can_be_pinned(
            self._execution, "the cores find these rows, which come among others or are too many at once"
        )
        return self._on_cores(self._execution)

    def _or_cores(self, on_gpus: Callable[[], Answer], of_cores: Callable[[Matches], Answer]) -> Answer:
        try:
            return on_gpus()
        except OutOfMemoryError as error:
            if pinned_join(self._execution):
                raise
            warn_caller(f"{error}: the matches are found on the cores", FallbackWarning)
            keeps_plan = self._execution.plan is not None
            return of_cores(self._on_cores(self._execution if keeps_plan else without_gpus(self._execution)))

    def _is_unique(self, number: int) -> bool:
        """Whether no key repeats: then the side joined with itself has as many rows as the side."""
        side, is_sorted = (self._left, self._right)[number], self._presorted[number]
        return self._totals((side, side), "inner", (is_sorted, is_sorted)) == len(side)

    def _count(self, how: str) -> int:
        return self._totals((self._left, self._right), how, self._presorted)

    def _totals(self, sides: tuple[Array, Array], how: str, presorted: tuple[bool, bool]) -> int:
        with open_session(self._execution.machine) as runtime:
            plan = self._plan(runtime, how, sides=sides, presorted=presorted)

            def work() -> _core.JoinTotals:
                return _core.join_totals(
                    runtime, plan, self._key_type, *sides, None, None, how, self._execution.verify, *presorted
                )

            return int(run_interruptibly(runtime, work).rows)

    def _ranges(self) -> tuple[Rows, Rows, Rows, Rows]:
        row_bytes = 4 if max(len(self._left), len(self._right)) < _NO_ROW else ROW_BYTES
        check_rows_fit(len(self._left) + len(self._right), 16)
        with open_session(self._execution.machine) as runtime:
            plan = self._plan(runtime, "inner", row_bytes=row_bytes, wants_ranges=True)

            def work() -> tuple[Rows, Rows, Rows, Rows]:
                return _core.join_ranges(
                    runtime, plan, self._key_type, self._left, self._right, row_bytes, self._execution.verify,
                    *self._presorted,
                )  # fmt: skip

            return run_interruptibly(runtime, work)

    def _indices(self, how: str, row_bytes: int) -> tuple[Rows, Rows | None]:
        is_filter = how in ("semi", "anti")
        made: list[Rows | None] = []

        def outputs(rows: int) -> tuple[None, Rows | None, Rows | None]:
            check_rows_fit(rows, row_bytes if is_filter else 2 * row_bytes)
            kind = np.uint32 if row_bytes == 4 else np.int64
            made.extend([uninitialised(rows, kind), None if is_filter else uninitialised(rows, kind)])
            return None, made[0], made[1]

        with open_session(self._execution.machine) as runtime:
            plan = self._plan(runtime, how, row_bytes=row_bytes)

            def work() -> int:
                return _core.join_rows(
                    runtime, plan, self._key_type, self._left, self._right, None, None, row_bytes, how,
                    self._execution.verify, outputs, *self._presorted,
                )  # fmt: skip

            run_interruptibly(runtime, work)
            report = _core.report_of(runtime, _core.SortOptions())
            self.phases = {phase.phase: phase.seconds for phase in report.phases}
        left, right = made
        assert left is not None
        if is_filter:
            left.sort()  # they were in key order
        return left, right
