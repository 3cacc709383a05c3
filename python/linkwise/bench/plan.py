"""How good the planner's predictions and choices are: sorts over a grid, predicted from a probe, and measured.

On a machine without GPUs a described machine stands in: what it would take, against what is predicted from what a probe
of it would find.
"""

from __future__ import annotations

import datetime
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from linkwise._core import CorruptDataError, UsageError
from linkwise.bench.arrays import fill_uniform, is_sorted_from, total
from linkwise.machines.catalog import load_machine
from linkwise.machines.profile import Profile
from linkwise.planning.sort import plan_sort
from linkwise.probing.probe import probe
from linkwise.runtime.host_memory import empty
from linkwise.runtime.parallel import BLOCK, in_blocks
from linkwise.runtime.plans import SortPlan, Strategy
from linkwise.runtime.session import open_session
from linkwise.sorting.api import sort_and_report

_STRATEGIES: tuple[Strategy, ...] = ("radix", "p2p_merge", "het")
_GPUS = (1, 2, 4, 8)
_BILLIONS = (0.5, 2, 8)
_REPETITIONS = 3
_LEAST_SCALE = 1e-6
_LEAST_MEMORY = 1 << 30  # to probe in
Measure = Callable[[SortPlan, int], list[float]]


def _over_the_grid(profile_for: Callable[[int], Profile], scale: float, measure: Measure) -> dict[str, Any]:
    """Every strategy on every number of GPUs, and what the planner picks for each number and for all of them."""
    profiles, rows, picks = [], [], []
    for billions in _BILLIONS:
        count = int(billions * 1e9 * scale)
        profile = profile_for(count)
        profiles.append(profile)
        machine = profile.machine
        best_of_all = float("inf")
        for gpus in (g for g in _GPUS if g <= machine.num_gpus):
            took: dict[str, float] = {}
            for strategy in _STRATEGIES:
                pinned = SortPlan(strategy=strategy, gpus=tuple(range(gpus)), paths=())
                plan = plan_sort(count, machine=machine, plan=pinned).best
                seconds, predicted = measure(plan, count), plan.seconds
                took[strategy] = statistics.median(seconds)
                rows.append(
                    {
                        "strategy": strategy,
                        "gpus": gpus,
                        "keys": count,
                        "measured_seconds": seconds,
                        "predicted_seconds": predicted,
                        "error": predicted / took[strategy] - 1,
                    }
                )
            picked = plan_sort(count, machine=machine, gpus=range(gpus)).best
            if picked.strategy in took:
                over = took[picked.strategy] / min(took.values()) - 1
                picks.append({"gpus": gpus, "keys": count, "picked": str(picked), "over_the_best": over})
            best_of_all = min(best_of_all, *took.values())
        free = plan_sort(count, machine=machine).best
        over = statistics.median(measure(free, count)) / best_of_all - 1
        picks.append({"gpus": "any", "keys": count, "picked": str(free), "over_the_best": max(over, 0.0)})
    return _summary(profiles, rows, picks)


def _of(errors: list[float]) -> dict[str, float]:
    return {"count": len(errors), "median": statistics.median(errors), "worst": max(errors)} if errors else {"count": 0}


def _summary(profiles: list[Profile], rows: list[dict[str, Any]], picks: list[dict[str, Any]]) -> dict[str, Any]:
    profile = profiles[-1]
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).isoformat(),
        "commit": os.environ.get("LINKWISE_COMMIT", ""),
        "machine": profile.machine.name,
        "description": profile.machine.description,
        "simulated": profile.simulated,
        "host": profile.host,
        "transfers_not_fitted": _of([error for each in profiles for error in each.errors(fitted=False)]),
        "sorts": _of([abs(row["error"]) for row in rows]),
        "picks_within_3_percent": sum(pick["over_the_best"] <= 0.03 for pick in picks) / len(picks),
        "rows": rows,
        "picks": picks,
    }


def _measured(scale: float) -> dict[str, Any]:
    with open_session("local"):
        pass  # without a GPU there is nothing to fill memory for
    largest = int(max(_BILLIONS) * 1e9 * scale)
    keys, out = empty(largest, np.uint32), empty(largest, np.uint32)
    in_blocks(lambda first: out[first : first + BLOCK].fill(0), largest)
    probes = []

    def probe_for(count: int) -> Profile:
        # In the very memory that will be sorted: elsewhere GPUs may reach it at other rates.
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
            elif not is_sorted_from(total(keys[:count]), out[:count]):  # beside the sort's own verification
                raise CorruptDataError("a sort that was measured is wrong: do not trust this machine")
        return seconds

    return {**_over_the_grid(probe_for, scale, measure), "probe_seconds": probes}


def bench_plan(machine: str = "local", scale: float = 1.0) -> dict[str, Any]:
    """Hold predictions and choices against measured sorts of 0.5, 2 and 8 billion keys on 1, 2, 4 and 8 GPUs.

    Parameters
    ----------
    machine
        ``"local"``, or a described machine to simulate.
    scale
        Of the sizes.

    Returns
    -------
    dict
        ``rows`` (measured and predicted seconds of each sort), ``picks`` (what the planner chose, and by how much
        something else would have been faster), and the errors of both in sum.

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
