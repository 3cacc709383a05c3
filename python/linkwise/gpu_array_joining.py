"""Joins of keys that lie on the GPUs already, one array of each side for each GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from linkwise import _core
from linkwise._core import UsageError
from linkwise.gpu_arrays import gpus_of, list_of_arrays, single_array, stream_of
from linkwise.planning import Request, gpu_numbers, memory_limit_of
from linkwise.session import open_session, run_interruptibly


def arrays_on_gpus(left: object, right: object) -> tuple[list[Any], list[Any]] | None:
    """The arrays of both sides, if they lie on GPUs or are lists; ``None`` for host memory."""
    sides = [list_of_arrays(side) or single_array(side) for side in (left, right)]
    if sides[0] is None and sides[1] is None:
        return None
    if sides[0] is None or sides[1] is None:
        raise UsageError("one side of the join lies on GPUs and the other does not; bring both to one place")
    return sides[0], sides[1]


def count_on_gpus(left: Sequence[Any], right: Sequence[Any], how: str, request: Request) -> int:
    """How many rows the join of the keys has. Raises ``UsageError``."""
    on_gpus = gpus_of(left)
    if gpus_of(right) != on_gpus or len(left) != len(right):
        raise UsageError("the two sides lie on different GPUs; give each GPU an array of both")
    asked = None if request.gpus == "auto" else gpu_numbers(request.gpus)
    if on_gpus is not None and asked not in (None, on_gpus):
        raise UsageError(f"the arrays lie on GPUs {on_gpus}; gpus= cannot say otherwise")
    plan, sort = _core.JoinPlan(), _core.SortPlan()
    sort.gpus = on_gpus or asked or list(range(len(left)))
    plan.sort = sort
    of_left, of_right = (
        _core.ArraysOfSide(list(side), [], [stream_of(array, on_gpus) for array in side]) for side in (left, right)
    )
    with open_session(request.machine) as runtime:
        if runtime.simulated == (on_gpus is not None):
            raise UsageError(
                "arrays on GPUs can only be joined there; leave machine= at 'auto'"
                if on_gpus is not None
                else "lists of NumPy arrays stand for arrays on the GPUs of a simulated machine; name one, "
                "or pass single arrays"
            )
        runtime.set_memory_limit(memory_limit_of(request, runtime.machine))

        def work() -> _core.JoinTotals:
            return _core.join_device_totals(runtime, plan, of_left, of_right, how, request.verify)

        return int((work() if on_gpus is not None else run_interruptibly(runtime, work)).rows)
