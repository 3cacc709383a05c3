"""Matches of keys that are one number each, found on the GPUs: what ``_core.Matches`` does on the cores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from linkwise import _core
from linkwise.keys import key_type_of
from linkwise.planning import Request, choose_plan
from linkwise.session import open_session, run_interruptibly

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.int64]

_ROW_BYTES = 8


class GpuMatches:
    """The matches of two arrays of integers of one type. Each question is a join of its own on the GPUs."""

    def __init__(self, left: Array, right: Array, request: Request) -> None:
        self._left, self._right, self._request = left, right, request
        self._key_type = key_type_of(left.dtype)

    @staticmethod
    def can(left: Array, right: Array, request: Request) -> bool:
        """Whether the request leaves the join to the GPUs, and they have the memory for it."""
        if request.strategy not in ("auto", "radix") or not len(left) or not len(right):
            return False
        with open_session(request.machine) as runtime:
            plan = _plan(runtime, left, right, request)
            kind = key_type_of(left.dtype)
            return bool(
                _core.join_fits(runtime, plan, kind, len(left), len(right), _ROW_BYTES, "full", wants_rows=True)
            )

    def count(self, how: str) -> int:
        """How many rows the join has."""
        with open_session(self._request.machine, warn=False) as runtime:
            plan = _plan(runtime, self._left, self._right, self._request)
            verify = self._request.verify

            def work() -> _core.JoinTotals:
                return _core.join_totals(runtime, plan, self._key_type, self._left, self._right, how=how, verify=verify)

            return int(run_interruptibly(runtime, work).rows)

    def indices(self, how: str) -> tuple[Rows, Rows | None]:
        """The left and right row numbers of the result's rows, -1 for none; of semi and anti, (left, None)."""
        is_filter = how in ("semi", "anti")
        made: list[Rows | None] = []

        def outputs(rows: int) -> tuple[None, Rows | None, Rows | None]:
            made.extend([np.empty(rows, np.int64), None if is_filter else np.empty(rows, np.int64)])
            return None, made[0], made[1]

        with open_session(self._request.machine, warn=False) as runtime:
            plan = _plan(runtime, self._left, self._right, self._request)

            def work() -> int:
                return _core.join_rows(
                    runtime, plan, self._key_type, self._left, self._right, None, None, _ROW_BYTES, how,
                    self._request.verify, outputs,
                )  # fmt: skip

            run_interruptibly(runtime, work)
        left, right = made
        assert left is not None
        if is_filter:
            left.sort()  # by key until here
        return left, right


def _plan(runtime: _core.Runtime, left: Array, right: Array, request: Request) -> _core.JoinPlan:
    """On the GPUs, and over the ways, that a sort of both sides would take."""
    workload = _core.SortWorkload()
    workload.key_type = key_type_of(left.dtype)
    workload.count = len(left) + len(right)
    workload.value_bytes = _ROW_BYTES
    workload.pageable = workload.pageable_out = True
    workload.verify = request.verify
    plan = _core.JoinPlan()
    plan.sort = choose_plan(runtime, workload, replace(request, strategy="radix", descending=False))
    return plan
