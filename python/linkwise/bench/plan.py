"""How good the planner's predictions and choices are: sorts over a grid, predicted from a probe, and measured.

On a machine without GPUs a described machine stands in: its simulated times are compared with what a simulated probe
of it predicts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linkwise import _core
from linkwise._core import CorruptDataError, UsageError
from linkwise.bench.arrays import fill_uniform, is_sorted_from, total
from linkwise.bench.results import Results, commit, now
from linkwise.machines.catalog import load_machine
from linkwise.machines.profile import Profile
from linkwise.planning.sort import plan_sort
from linkwise.probing.probe import probe
from linkwise.runtime.host_memory import empty
from linkwise.runtime.parallel import BLOCK, in_blocks
from linkwise.runtime.session import open_session
from linkwise.runtime.sort_plan import SortPlan, Strategy
from linkwise.sorting.api import sort_and_report

_STRATEGIES: tuple[Strategy, ...] = ("radix", "p2p_merge", "het")
_GPUS = (1, 2, 4, 8)
_BILLIONS = (0.5, 2, 8)
_REPETITIONS = 3
_LEAST_SCALE = 1e-6
_LEAST_MEMORY = 1 << 30  # the least memory to probe in
Measure = Callable[[SortPlan, int], list[float]]


@dataclass(frozen=True)
class TimedSort:
    """A sort that was predicted, and what it took."""

    strategy: str
    gpus: int
    keys: int
    measured_seconds: list[float]
    predicted_seconds: float
    error: float
    """Of the prediction, relative to the median."""


@dataclass(frozen=True)
class Pick:
    """What the planner chose, and by how much something else would have been faster."""

    gpus: int | str
    """The number of GPUs that the planner was given, or ``"any"``."""
    keys: int
    picked: str
    over_the_best: float


@dataclass(frozen=True)
class Errors:
    """Absolute errors of several predictions."""

    count: int
    median: float | None = None
    worst: float | None = None

    @classmethod
    def of(cls, errors: list[float]) -> Errors:
        """Summarise the errors."""
        return cls(len(errors), statistics.median(errors), max(errors)) if errors else cls(0)


@dataclass(frozen=True, kw_only=True)
class PlanResults(Results):
    """Predictions and choices beside what was measured."""

    description: str
    host: dict[str, Any]
    transfers_not_fitted: Errors
    sorts: Errors
    picks_within_3_percent: float
    """The share of such picks."""
    rows: list[TimedSort]
    picks: list[Pick]
    probe_seconds: list[float] | None = None


def _over_the_grid(profile_for: Callable[[int], Profile], scale: float, measure: Measure) -> PlanResults:
    """Every strategy on every number of GPUs, and what the planner picks for each number and for all of them."""
    profiles: list[Profile] = []
    rows: list[TimedSort] = []
    picks: list[Pick] = []
    for billions in _BILLIONS:
        count = int(billions * 1e9 * scale)
        profiles.append(profile_for(count))
        machine = profiles[-1].machine
        best_of_all = float("inf")
        for gpus in (g for g in _GPUS if g <= machine.num_gpus):
            took: dict[str, float] = {}
            for strategy in _STRATEGIES:
                pinned = SortPlan(strategy=strategy, gpus=tuple(range(gpus)), paths=())
                if strategy == "p2p_merge" and not _core.reach_each_other(machine, range(gpus)):
                    continue
                plan = plan_sort(count, machine=machine, plan=pinned).best
                seconds = measure(plan, count)
                took[strategy] = statistics.median(seconds)
                error = plan.seconds / took[strategy] - 1
                rows.append(TimedSort(strategy, gpus, count, seconds, plan.seconds, error))
            picked = plan_sort(count, machine=machine, gpus=range(gpus)).best
            if picked.strategy in took:
                picks.append(Pick(gpus, count, str(picked), took[picked.strategy] / min(took.values()) - 1))
            best_of_all = min(best_of_all, *took.values())
        free = plan_sort(count, machine=machine).best
        over = statistics.median(measure(free, count)) / best_of_all - 1
        picks.append(Pick("any", count, str(free), max(over, 0.0)))
    profile = profiles[-1]
    return PlanResults(
        date=now(),
        commit=commit(),
        machine=profile.machine.name,
        simulated=profile.simulated,
        description=profile.machine.description,
        host=profile.host,
        transfers_not_fitted=Errors.of([error for each in profiles for error in each.errors(fitted=False)]),
        sorts=Errors.of([abs(row.error) for row in rows]),
        picks_within_3_percent=sum(pick.over_the_best <= 0.03 for pick in picks) / len(picks),
        rows=rows,
        picks=picks,
    )


def _measured(scale: float) -> PlanResults:
    with open_session("local"):
        pass  # raises without a GPU, before memory is filled
    largest = int(max(_BILLIONS) * 1e9 * scale)
    keys, out = empty(largest, np.uint32), empty(largest, np.uint32)
    in_blocks(lambda first: out[first : first + BLOCK].fill(0), largest)
    probes = []

    def probe_for(count: int) -> Profile:
        # Probe in the memory that will be sorted: GPUs may reach other memory at other rates.
        memory = (keys[:count], out[:count]) if count * 4 >= _LEAST_MEMORY else None
        began = time.perf_counter()
        profile = probe("local", mode="quick", memory=memory)
        probes.append(time.perf_counter() - began)
        fill_uniform(keys[:count])
        return profile

    def measure(plan: SortPlan, count: int) -> list[float]:
        seconds = []
        for repetition in range(_REPETITIONS + 1):
            _, report = sort_and_report(keys[:count], out=out[:count], machine="local", plan=plan)
            if repetition > 0:
                seconds.append(report.seconds)
            elif not is_sorted_from(total(keys[:count]), out[:count]):  # in addition to the sort's own verification
                raise CorruptDataError("a sort that was measured is wrong: do not trust this machine")
        return seconds

    return replace(_over_the_grid(probe_for, scale, measure), probe_seconds=probes)


def bench_plan(machine: str = "local", scale: float = 1.0) -> PlanResults:
    """Compare predictions and choices with measured sorts of 0.5, 2 and 8 billion keys on 1, 2, 4 and 8 GPUs.

    Parameters
    ----------
    machine
        ``"local"``, or a described machine to simulate.
    scale
        The scale of the sizes.

    Raises
    ------
    DeviceError, UsageError, CorruptDataError

    """
    if not _LEAST_SCALE <= scale <= 1:
        raise UsageError(f"the scale is {scale:g}; it is from {_LEAST_SCALE:g} to 1")
    if machine == "local":
        return _measured(scale)
    described = load_machine(machine)

    def simulate(plan: SortPlan, count: int) -> list[float]:
        if plan.gpus and max(plan.gpus) >= described.num_gpus:
            raise UsageError(f"{machine} has no such GPUs: {plan}")
        return [plan_sort(count, machine=described, plan=plan).best.seconds]

    profile = probe(machine)
    return _over_the_grid(lambda _: profile, scale, simulate)
