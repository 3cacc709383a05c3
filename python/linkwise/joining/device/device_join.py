"""Joins of device-resident keys, with one array of each side for each GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from linkwise import _core
from linkwise._core import UsageError
from linkwise.interop.device_arrays import (
    as_on_gpu,
    check_one_dimension,
    gpus_of,
    like,
    list_of_arrays,
    open_where_they_lie,
    single_array,
    stream_of,
)
from linkwise.joining.host_join import check_can_be_pinned
from linkwise.joining.matching import Order
from linkwise.planning.constraints import resident_plan
from linkwise.runtime.arguments import gpu_numbers
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.session import run_interruptibly

Result = TypeVar("Result")


Pairs = list[tuple[_core.DeviceArray, Any]]
"""For each GPU, row numbers of the left and of the right side, or None."""


def found_rows(
    runtime: _core.Runtime,
    plan: _core.JoinPlan,
    left: _core.ArraysOfSide,
    right: _core.ArraysOfSide,
    how: str,
    order: Order,
    *,
    verify: bool,
    way: str = "auto",
    row_number_bytes: int = 8,
) -> Pairs:
    """The row numbers of a join; of the left side alone for semi and anti joins."""
    found = _core.join_device_rows(
        runtime, plan, left, right, how, verify, row_number_bytes=row_number_bytes, any_order=order != "key", way=way
    )
    return by_left_rows(runtime, plan.sort, found, verify=verify) if order == "left" else found


def by_left_rows(runtime: _core.Runtime, plan: _core.SortPlan, found: Pairs, *, verify: bool) -> Pairs:
    """Row numbers in the order of the left side, and of a row's partners that of the right one; -1 comes last."""
    is_signed = found[0][0].dtype.kind == "i"

    def by_number(keys: list[Any], carried: list[Any]) -> tuple[list[Any], list[Any]]:
        numbers = [array.as_integers(is_signed=False) for array in keys]  # so that -1 is the greatest
        options = _core.SortOptions(False, verify)
        in_order = _core.sort_device(runtime, plan, numbers, carried, [None] * len(keys), False, options)
        return [array.as_integers(is_signed=is_signed) for array, _ in in_order], [values for _, values in in_order]

    left, right = [rows for rows, _ in found], [rows for _, rows in found]
    if right[0] is None:
        return [(rows, None) for rows in by_number(left, [])[0]]
    right, left = by_number(right, left)
    left, right = by_number(left, right)  # stable
    return list(zip(left, right, strict=True))


def arrays_on_gpus(left: object, right: object) -> tuple[list[Any], list[Any]] | None:
    """The arrays of both sides, if they lie on GPUs or are lists; ``None`` for host memory."""
    sides = [list_of_arrays(side) or single_array(side) for side in (left, right)]
    if sides[0] is None and sides[1] is None:
        return None
    if sides[0] is None or sides[1] is None:
        raise UsageError("one side of the join lies on GPUs and the other does not; bring both to one place")
    return sides[0], sides[1]


class GpuJoin:
    """One join of arrays on GPUs. ``way`` names one of the core's ways of joining; ``"auto"`` chooses."""

    def __init__(
        self, left: Sequence[Any], right: Sequence[Any], how: str, execution: ExecutionOptions, way: str = "auto"
    ) -> None:
        check_one_dimension([*left, *right])
        on_gpus = gpus_of(left)
        if len(left) != len(right):
            raise UsageError(
                f"there are {len(left)} arrays on the left and {len(right)} on the right; one for each GPU"
            )
        if execution.strategy not in ("auto", "radix"):
            raise UsageError(
                f"strategy= is '{execution.strategy}', and joins on the GPUs hash, or sort with radix; leave it out"
            )
        check_can_be_pinned(execution, "these keys lie on GPUs already")
        if gpus_of(right) != on_gpus:
            raise UsageError("the two sides lie on different GPUs; give each GPU an array of both")
        asked = None if execution.gpus == "auto" else gpu_numbers(execution.gpus)
        if on_gpus is not None and asked not in (None, on_gpus):
            raise UsageError(f"the arrays lie on GPUs {on_gpus}; gpus= cannot say otherwise")
        self._plan = _core.JoinPlan()
        self._plan.sort = resident_plan(execution, on_gpus or asked or list(range(len(left))))
        self._columns = [
            ([as_on_gpu(array) for array in side], [stream_of(array, on_gpus) for array in side])
            for side in (left, right)
        ]
        self._left, self._right = (_core.ArraysOfSide(arrays, [], streams) for arrays, streams in self._columns)
        self._originals = left
        self._is_real, self._how, self._way, self._execution = on_gpus is not None, how, way, execution

    def _run(self, work: Callable[[_core.Runtime], Result]) -> Result:
        with open_where_they_lie(self._execution, on_gpus=self._is_real, done="joined") as runtime:
            return work(runtime) if self._is_real else run_interruptibly(runtime, lambda: work(runtime))

    def count(self) -> int:
        """How many rows the join has."""
        verify = self._execution.verify
        return int(
            self._run(
                lambda runtime: _core.join_device_totals(
                    runtime, self._plan, self._left, self._right, self._how, verify, self._way
                )
            ).rows
        )

    def indices(self, order: Order = None) -> tuple[list[Any], list[Any] | None]:
        """Row numbers of both sides, an array for each GPU; (left, None) for semi and anti joins."""
        parts = self._run(
            lambda runtime: found_rows(
                runtime, self._plan, self._left, self._right, self._how, order, verify=self._execution.verify,
                way=self._way,
            )
        )  # fmt: skip
        left = [like(of_left, original) for (of_left, _), original in zip(parts, self._originals, strict=True)]
        if self._how in ("semi", "anti"):
            return left, None
        return left, [like(of_right, original) for (_, of_right), original in zip(parts, self._originals, strict=True)]

    def ranges(self) -> list[list[Any]]:
        """The four fields of ``JoinRanges``, each an array for each GPU."""

        def work(runtime: _core.Runtime) -> list[Any]:
            sides = self._left, self._right
            return [each for at in (0, 1) for each in self._ranges_of(runtime, at, sides[at], sides[1 - at])]

        return [
            [like(part, original) for part, original in zip(parts, self._originals, strict=True)]
            for parts in self._run(work)
        ]

    def _ranges_of(
        self, runtime: _core.Runtime, at: int, side: _core.ArraysOfSide, other: _core.ArraysOfSide
    ) -> tuple[list[Any], list[Any]]:
        """A side's rows that have a partner, in the order of their keys, and where those of each key begin."""
        gpus, verify = self._plan.sort.gpus, self._execution.verify
        found = found_rows(runtime, self._plan, side, other, "semi", "left", verify=verify)
        rows: list[Any] = [of_gpu for of_gpu, _ in found]
        column = _core.lend_arrays(runtime, gpus, *self._columns[at])
        keys: list[Any] = _core.joined_codes(runtime, gpus, _core.take_rows(runtime, gpus, column, rows))
        options = _core.SortOptions(False, verify)
        in_order = _core.sort_device(runtime, self._plan.sort, keys, rows, [None] * len(gpus), False, options)
        first: list[Any] = _core.starts_of_runs(runtime, gpus, [[of_gpu for of_gpu, _ in in_order]])
        return [carried for _, carried in in_order], first
