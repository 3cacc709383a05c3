"""Sorts from host to host memory: the plan's own choice, every strategy, key type, distribution and kind of memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import linkwise
from harness import REPETITIONS, Array, check, fill, median_phases, result_of, simulated_result
from linkwise import _core
from linkwise.bench.arrays import total
from linkwise.columns.key_types import key_type_of
from linkwise.runtime.request import parse_bytes

CHOICE, STRATEGIES, TYPES = "the plan's own choice", "strategies", "key types, 8 GB each"
DISTRIBUTIONS, MEMORY, OUT_OF_CORE, SMALL = "distributions", "memory", "out of core", "small inputs"


@dataclass(frozen=True)
class HostCase:
    section: str
    name: str
    count: int
    dtype: str = "uint32"
    distribution: str = "uniform"
    plan: dict[str, Any] | None = None  # fields that are pinned
    memory_limit: str | None = None
    pageable_in: bool = False
    out: str = "pinned"  # or "pageable", or "ours": what sort allocates

    @property
    def bytes(self) -> int:
        return self.count * np.dtype(self.dtype).itemsize


def strategy_cases(num_gpus: int, count: int) -> list[HostCase]:
    """Every strategy with every variant, on one GPU and on all."""
    found = []
    for gpus in sorted({1, num_gpus}):
        plans: dict[str, dict[str, Any]] = {
            "radix, streamed": {},
            "radix, exchange by copies": {"streamed": False, "exchange": _core.Exchange.copies},
            "radix, exchange fused": {"streamed": False, "exchange": _core.Exchange.fused},
            "radix, cut by MSB histograms": {"splitting": _core.Splitting.msb},
            "p2p_merge": {"strategy": _core.SortStrategy.p2p_merge},
            "het 2n": {"strategy": _core.SortStrategy.het},
            "het 3n": {"strategy": _core.SortStrategy.het, "het_buffers": 3},
            "het 3n, merged eagerly": {"strategy": _core.SortStrategy.het, "het_buffers": 3, "eager_merge": True},
        }
        for name, fields in plans.items():
            if gpus == 1 and name not in ("radix, streamed", "het 2n"):
                continue
            where = ",".join(map(str, range(gpus)))
            plan = {"gpus": list(range(gpus)), **fields}
            found.append(HostCase(STRATEGIES, f"{name} on ({where})", count, plan=plan))
    cpu = {"strategy": _core.SortStrategy.cpu, "gpus": []}
    found.append(HostCase(STRATEGIES, "cpu, radix", count, plan=cpu))
    comparison = {**cpu, "cpu_algorithm": _core.CpuAlgorithm.comparison}
    return [*found, HostCase(STRATEGIES, "cpu, libstdc++ parallel sort", count, plan=comparison)]


def cases(num_gpus: int, scale: float) -> list[HostCase]:
    """The whole table. `scale` 1 is the sizes of the table, less is for trying it out."""
    two, eight = int(2e9 * scale), int(8e9 * scale)
    found = [HostCase(CHOICE, f"{n / 1e9:g}·10⁹ uint32", n) for n in (two, eight)]
    found += strategy_cases(num_gpus, two)
    for dtype in ("uint32", "int32", "float32", "uint64", "int64", "float64"):
        found.append(HostCase(TYPES, dtype, 4 * two // np.dtype(dtype).itemsize, dtype))
    distributions = (
        *("normal", "zipf 0.5", "zipf 1", "zipf 1.5", "zipf 3", "staggered", "bucket sorted", "sorted", "reversed"),
        *("nearly sorted", "all equal", "one bit"),
    )
    found += [HostCase(DISTRIBUTIONS, name, two, distribution=name) for name in distributions]
    found += [
        HostCase(MEMORY, "pageable → pageable, touched before", two, pageable_in=True, out="pageable"),
        HostCase(MEMORY, "pageable → an array that sort allocates", two, pageable_in=True, out="ours"),
        HostCase(OUT_OF_CORE, f"{eight / 1e9:g}·10⁹ uint32, memory_limit 1 GiB", eight, memory_limit="1GiB"),
    ]
    small = [
        HostCase(SMALL, f"10^{len(str(n)) - 1} uint32", n, pageable_in=True, out="ours") for n in (10**3, 10**5, 10**6)
    ]
    return found + small


@dataclass
class HostArrays:
    """Pinned memory for the largest case; what lies in it changes only when a case needs something else."""

    largest_bytes: int
    source: Array = field(init=False)
    out: Array = field(init=False)
    _holds: tuple[str, str, int] | None = None
    _sum: int = 0

    def __post_init__(self) -> None:
        self.source = linkwise.empty(self.largest_bytes, np.uint8)
        self.out = linkwise.empty(self.largest_bytes, np.uint8)

    def keys(self, case: HostCase) -> tuple[Array, int]:
        """The case's input, and its sum."""
        keys = self.source[: case.bytes].view(case.dtype)
        wanted = (case.dtype, case.distribution, case.count)
        if self._holds != wanted:
            fill(keys, case.distribution)
            self._holds, self._sum = wanted, total(keys)
        return keys, self._sum

    def result(self, case: HostCase) -> Array | None:
        if case.out == "ours":
            return None
        pinned = self.out[: case.bytes].view(case.dtype)
        return pinned if case.out == "pinned" else np.full(case.count, 1, case.dtype)


def plan_of(case: HostCase) -> _core.SortPlan:
    plan = _core.SortPlan()
    for name, value in (case.plan or {}).items():
        setattr(plan, name, value)
    return plan


def run(runtime: _core.Runtime, case: HostCase, arrays: HostArrays) -> dict[str, Any]:
    """Measures a case on real GPUs; the first repetition warms up and is checked."""
    keys, checksum = arrays.keys(case)
    keys = keys.copy() if case.pageable_in else keys
    result = arrays.result(case)
    wall, phases, plan = [], [], ""
    slow = case.plan is not None and case.plan.get("strategy") in (_core.SortStrategy.cpu, _core.SortStrategy.het)
    for repetition in range((3 if slow else REPETITIONS) + 1):
        began = time.perf_counter()
        if case.plan is None:
            sorted_keys, report = linkwise.sort_and_report(
                keys, out=result, machine="local", memory_limit=case.memory_limit
            )
            plan, by_phase = report.plan, report.phases
        else:
            sorted_keys = result
            pinned_plan = plan_of(case)
            of_core = _core.sort_host(runtime, pinned_plan, key_type_of(keys.dtype), keys, None, result)
            plan, by_phase = str(pinned_plan), {phase.phase: phase.seconds for phase in of_core.phases}
        seconds = time.perf_counter() - began
        if repetition == 0:
            check(case.name, checksum, sorted_keys)
            continue
        wall.append(seconds)
        phases.append(by_phase)
    more: dict[str, Any] = {"phases": median_phases(phases), "plan": plan}
    if case.section == SMALL:
        began = time.perf_counter()
        for _ in range(REPETITIONS):
            np.sort(keys)
        more["numpy_seconds"] = (time.perf_counter() - began) / REPETITIONS
    else:
        more["bytes"] = case.bytes
    return result_of(case.section, case.name, wall, **more)


def simulate(machine: _core.Machine, case: HostCase) -> dict[str, Any]:
    """Prices a case on a described machine."""
    workload = _core.SortWorkload()
    workload.key_type = key_type_of(np.dtype(case.dtype))
    workload.count = case.count
    workload.pageable, workload.pageable_out = case.pageable_in, case.out != "pinned"
    limit = parse_bytes(case.memory_limit)
    if case.plan is not None:
        plan = plan_of(case)
    else:
        constraints = _core.SortConstraints()
        constraints.memory_limit = limit
        plan = _core.plan_sort(machine, workload, constraints)[0].plan
    return simulated_result(
        case.section, case.name, _core.estimate_sort(machine, workload, plan, limit), plan=str(plan)
    )
