"""The relations of a workload where joins are measured, and the checks of what was joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from linkwise import _core
from linkwise._core import CorruptDataError, UsageError
from linkwise.join_workloads import Workload
from linkwise.joining import JoinRanges
from linkwise.keys import key_type_of
from linkwise.sorting import empty

Array = npt.NDArray[Any]
_WRONG = "a join that was measured is wrong: do not trust this machine"


class Relations:
    """The workload in pinned memory, and where rows go; and whether what was joined is right."""

    def __init__(self, workload: Workload, *, wants_rows: bool) -> None:
        self.workload = workload
        r, s = workload.rows
        self.r_keys, self.r_values, self.s_keys, self.s_values = (empty(n, workload.dtype) for n in (r, r, s, s))
        self.expected = workload.fill(self.r_keys, self.r_values, self.s_keys, self.s_values)
        if workload.heavy_hitter and wants_rows:
            raise UsageError("the rows of a heavy hitter are more than memory holds; ask for 'counted' with --only")
        self.out = [empty(max(self.expected.matches, 1), workload.dtype) for _ in range(3)] if wants_rows else []
        for array in self.out:
            array.fill(0)
        self._sorted: tuple[Array, ...] | None = None

    def columns(self, runtime: _core.Runtime, *, presorted: bool) -> tuple[Array, ...]:
        """Keys and values of R, and of S; sorted on demand."""
        if not presorted:
            return self.r_keys, self.r_values, self.s_keys, self.s_values
        if self._sorted is None:
            plan = _core.SortPlan()
            plan.gpus = list(range(runtime.machine.num_gpus))
            kind = key_type_of(self.workload.dtype)
            made: list[Array] = []
            for keys, values in ((self.r_keys, self.r_values), (self.s_keys, self.s_values)):
                in_order, followed = empty(len(keys), keys.dtype), empty(len(keys), keys.dtype)
                _core.sort_host(runtime, plan, kind, keys, values, in_order, followed)
                made += [in_order, followed]
            self._sorted = tuple(made)
        return self._sorted

    def check_rows(self) -> None:
        """Stop unless the rows are in order, and each joins what it says."""
        keys, r_rows, s_rows = self.out
        sums = [int(side.sum(dtype=np.uint64)) for side in (r_rows, s_rows)]
        some = slice(None, None, max(len(keys) // 1_000_000, 1))
        if (
            not (keys[:-1] <= keys[1:]).all()
            or sums != [self.expected.r_sum, self.expected.s_sum]
            or not (self.r_keys[r_rows[some]] == keys[some]).all()
            or not (self.s_keys[s_rows[some]] == keys[some]).all()
        ):
            raise CorruptDataError(_WRONG)

    def check_totals(self, totals: _core.JoinTotals, *, sums: bool) -> None:
        """Stop unless there are as many matches as there must be, and the sums are right."""
        found = (totals.rows, totals.left_sum, totals.right_sum)
        wanted = (self.expected.matches, self.expected.r_sum, self.expected.s_sum)
        if found[: 3 if sums else 1] != wanted[: 3 if sums else 1]:
            raise CorruptDataError(_WRONG)

    def check_ranges(self, ranges: JoinRanges) -> None:
        """Stop unless there are as many matches as there must be, and keys rise and are equal on both sides."""
        some = slice(None, None, max(len(ranges) // 100_000, 1))
        of_r, of_s = ranges.left_rows[ranges.left_first[:-1][some]], ranges.right_rows[ranges.right_first[:-1][some]]
        keys = self.r_keys[of_r]
        if (
            ranges.matches != self.expected.matches
            or not (keys == self.s_keys[of_s]).all()
            or not (keys[:-1] < keys[1:]).all()
        ):
            raise CorruptDataError(_WRONG)
