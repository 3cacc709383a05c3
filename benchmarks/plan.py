"""Probes the machine at hand and holds the plans' predictions against measured sorts; writes raw JSON.

On a machine without GPUs a described machine stands in: what it would take, against what is predicted from what a probe
of it would find. The output says so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import linkwise
from harness import about, check, fill, total
from linkwise import _core
from linkwise.session import open_session

STRATEGIES = (_core.SortStrategy.radix, _core.SortStrategy.p2p_merge, _core.SortStrategy.het)
REPETITIONS = 3


def grid(num_gpus: int, scale: float) -> list[tuple[_core.SortStrategy, int, int]]:
    """(strategy, GPUs, keys), after the bar: 1, 2, 4 and 8 GPUs, half, two and eight billion keys."""
    return [
        (strategy, gpus, int(billions * 1e9 * scale))
        for gpus in (1, 2, 4, 8)
        if gpus <= num_gpus
        for billions in (0.5, 2, 8)
        for strategy in STRATEGIES
    ]


def plan_of(machine: _core.Machine, strategy: _core.SortStrategy, gpus: int, count: int) -> _core.SortPlan:
    plan = _core.SortPlan()
    plan.strategy, plan.gpus = strategy, list(range(gpus))
    estimating = _core.VirtualRuntime(machine, _core.VirtualMode.estimate)
    fitting = _core.records_that_fit(estimating, plan, _core.RecordType(4, 0))
    if fitting < count:
        plan.chunkset_records = fitting
    return plan


def row(strategy: _core.SortStrategy, gpus: int, count: int, measured: list[float], machine: Any) -> dict[str, Any]:
    """A cell of the grid, predicted on the probed machine."""
    workload = _core.SortWorkload()
    workload.count = count
    predicted = _core.estimate_sort(machine, workload, plan_of(machine, strategy, gpus, count))
    seconds = statistics.median(measured)
    return {
        "strategy": strategy.name,
        "gpus": gpus,
        "keys": count,
        "measured_seconds": measured,
        "predicted_seconds": predicted.seconds,
        "error": predicted.seconds / seconds - 1,
    }


def measure(scale: float) -> dict[str, Any]:
    """On the GPUs of this machine."""
    began = time.perf_counter()
    profile = linkwise.probe("local")
    probe_seconds = time.perf_counter() - began
    cells = grid(profile.machine.num_gpus, scale)
    largest = max(count for _, _, count in cells)
    keys, out = linkwise.empty(largest, np.uint32), linkwise.empty(largest, np.uint32)
    fill(keys)
    fill(out)
    rows = []
    with open_session("local") as runtime:
        for strategy, gpus, count in cells:
            seconds, plan = [], plan_of(profile.machine, strategy, gpus, count)
            for repetition in range(REPETITIONS + 1):
                report = _core.sort_host(runtime, plan, _core.KeyType.u32, keys[:count], None, out[:count])
                if repetition == 0:
                    check(f"{strategy.name} on {gpus}", total(keys[:count]), out[:count])
                else:
                    seconds.append(report.seconds)
            rows.append(row(strategy, gpus, count, seconds, profile.machine))
    return about(profile.machine, simulated=False) | {"probe_seconds": probe_seconds} | of(profile, rows)


def simulate(name: str, scale: float) -> dict[str, Any]:
    """What the described machine takes, against what is predicted after a probe of it."""
    machine, profile = linkwise.load_machine(name), linkwise.probe(name)
    rows = []
    for strategy, gpus, count in grid(machine.num_gpus, scale):
        workload = _core.SortWorkload()
        workload.count = count
        seconds = _core.estimate_sort(machine, workload, plan_of(machine, strategy, gpus, count)).seconds
        rows.append(row(strategy, gpus, count, [seconds], profile.machine))
    return about(machine, simulated=True) | of(profile, rows)


def of(profile: linkwise.Profile, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The errors, of transfers and of sorts, and the rows."""
    errors = [abs(each["error"]) for each in rows]
    held_out = profile.errors(fitted=False)
    return {
        "transfers_not_fitted": {"count": len(held_out), "median": statistics.median(held_out), "worst": max(held_out)},
        "sorts": {"count": len(errors), "median": statistics.median(errors), "worst": max(errors)},
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes; 1 is the grid")
    parser.add_argument("--machine", default="h200x8", help="the described machine where there are no GPUs")
    parser.add_argument("--output", type=Path, default=Path("build/bench/plan.json"))
    options = parser.parse_args()
    has_gpus = linkwise.local_machine() is not None
    results = measure(options.scale) if has_gpus else simulate(options.machine, options.scale)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for each in results["rows"]:
        measured = statistics.median(each["measured_seconds"])
        print(
            f"{each['strategy']:10} on {each['gpus']}, {each['keys'] / 1e9:4g}·10⁹: {measured * 1e3:8.1f} ms, "
            f"predicted {each['predicted_seconds'] * 1e3:8.1f}, {each['error']:+.1%}"
        )
    for what in ("transfers_not_fitted", "sorts"):
        told = results[what]
        print(f"{what}: {told['count']}, median error {told['median']:.1%}, worst {told['worst']:.1%}")


if __name__ == "__main__":
    main()
