"""What a caller pins of a sort, as constraints for the core's planner."""

from __future__ import annotations

from collections.abc import Sequence

from linkwise import _core
from linkwise._core import UsageError
from linkwise.exceptions import FallbackWarning, warn_caller
from linkwise.runtime.arguments import gpu_numbers
from linkwise.runtime.execution import ExecutionOptions, gpus_of, memory_limit_of
from linkwise.runtime.join_plan import JoinPlan
from linkwise.runtime.sort_plan import SortPlan


def is_power_of_two(gpus: Sequence[int]) -> bool:
    """Whether there are 1, 2, 4, 8, … of them."""
    return len(gpus).bit_count() == 1


def pinned_sort(options: ExecutionOptions) -> SortPlan | None:
    """The plan that the caller pins of a sort, or of the sorts of a join."""
    return options.plan.sort if isinstance(options.plan, JoinPlan) else options.plan


def strategy_for(options: ExecutionOptions, gpus: Sequence[int]) -> _core.SortStrategy:
    """The named strategy, or its fallback on these GPUs; a strategy that a plan pins does not fall back.

    Raises ``UsageError``.
    """
    strategy = _core.sort_strategy_from(options.strategy)
    if strategy != _core.SortStrategy.p2p_merge or not gpus or is_power_of_two(gpus):
        return strategy
    pinned = pinned_sort(options)
    if pinned is not None and pinned.strategy == "p2p_merge":
        raise UsageError(f"strategy is p2p_merge, which runs on 2, 4, 8, … GPUs, and gpus are {len(gpus)}; name others")
    warn_caller(f"p2p_merge runs on 2, 4, 8, … GPUs, not on {len(gpus)}: radix runs instead", FallbackWarning)
    return _core.SortStrategy.radix


def constraints_of(options: ExecutionOptions, machine: _core.Machine) -> _core.SortConstraints:
    """What the caller pins. Raises ``UsageError``."""
    constraints = _core.SortConstraints()
    if options.gpus != "auto" and options.strategy != "cpu":
        constraints.gpus = gpus_of(machine, options.gpus)
    elif options.gpus != "auto":
        constraints.gpus = gpu_numbers(options.gpus)
    if options.strategy != "auto":
        constraints.strategy = strategy_for(options, constraints.gpus)
    constraints.memory_limit = memory_limit_of(options, machine)
    pinned = pinned_sort(options)
    if pinned is not None:
        pinned.check_for("host")
        constraints.pin(pinned.to_core(), set(pinned.pinned) - {"gpus", "strategy"})
    return constraints


def pins_records(options: ExecutionOptions) -> bool:
    """Whether the caller says how many records are sorted at once."""
    pinned = pinned_sort(options)
    return pinned is not None and pinned.chunkset_records is not None


def resident_plan(options: ExecutionOptions, gpus: list[int]) -> _core.SortPlan:
    """The core plan for data on these GPUs: pinned fields, otherwise defaults. Raises ``UsageError``."""
    pinned = pinned_sort(options)
    if pinned is not None:
        pinned.check_for("gpus")
    plan = SortPlan().to_core() if pinned is None else pinned.to_core()
    plan.gpus = gpus
    if options.strategy != "auto":
        plan.strategy = strategy_for(options, gpus)
    return plan
