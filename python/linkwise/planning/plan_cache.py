"""A cache of plans, for workloads like earlier ones."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from linkwise import _core
from linkwise.runtime.execution import ExecutionOptions, memory_limit_of

CorePlan = TypeVar("CorePlan", _core.SortPlan, _core.JoinPlan)
Workload = TypeVar("Workload", _core.SortWorkload, _core.JoinWorkload)
_KEPT = 256


class _Known(NamedTuple, Generic[Workload, CorePlan]):
    machine: str
    simulated: bool
    limit: int
    execution: ExecutionOptions
    workload: Workload
    plan: CorePlan


def rounded_up(count: int) -> int:
    """Round up to three significant binary digits, so that inputs of nearly the same size share a plan."""
    step = 1 << max(count.bit_length() - 3, 0)
    return -(-count // step) * step


class PlanCache(Generic[Workload, CorePlan]):
    """Caches plans by all that they depend on: the machine, the workload, and the caller's options."""

    def __init__(self) -> None:
        self._known: deque[_Known[Workload, CorePlan]] = deque(maxlen=_KEPT)

    def plan_for(
        self,
        runtime: _core.Runtime,
        workload: Workload,
        execution: ExecutionOptions,
        make: Callable[[], CorePlan],
    ) -> CorePlan:
        """The plan for a workload on the runtime's machine; ``make`` makes it, if it is not cached.

        Machines are identified by name. Those from files or passed as objects may change, so their plans are not
        cached.
        """
        if not isinstance(execution.machine, str) or execution.machine.endswith(".json"):
            return make()
        about = execution.machine, runtime.simulated, memory_limit_of(execution, runtime.machine)
        said = execution.without_progress()
        for known in tuple(self._known):  # a copy, since other threads may append
            if known[:3] == about and known.execution == said and known.workload == workload:
                return copy.copy(known.plan)
        plan = make()
        self._known.append(_Known(*about, said, workload, plan))
        return copy.copy(plan)
