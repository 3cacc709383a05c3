"""Sorts from host to host memory: the plan's own choice, every strategy, key type, distribution and kind of memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import linkwise
from harness import REPETITIONS, Array, check, fill, median_phases, result_of, simulated_result
from linkwise import SortPlan
from linkwise.bench.arrays import total

CHOICE, STRATEGIES, TYPES = "the plan's own choice", "strategies", "key types, 8 GB each"
DISTRIBUTIONS, MEMORY, OUT_OF_CORE, SMALL = "distributions", "memory", "out of core", "small inputs"


@dataclass(frozen=True)
class HostCase:
    section: str
    name: str
    count: int
    dtype: str = "uint32"
    distribution: str = "uniform"
    plan: SortPlan | None = None  # the fields that are fixed
    memory_limit: str | None = None
    pageable_in: bool = False
    out: str = "pinned"  # or "pageable", or "ours": what sort allocates

    @property
    def bytes(self) -> int:
        return self.count * np.dtype(self.dtype).itemsize


def strategy_cases(machine: linkwise.Machine, count: int) -> list[HostCase]:
    """Every strategy with every variant that the machine can run, on one GPU and on all."""
    found = []
    impossible = {"radix, exchange fused"} if machine.staged_peers else set()
    if machine.num_gpus.bit_count() > 1:
        impossible.add("p2p_merge")
    for gpus in sorted({1, machine.num_gpus}):
        plans: dict[str, dict[str, Any]] = {
            "radix, streamed": {},
            "radix, exchange by copies": {"exchange": "copies"},
            "radix, exchange fused": {"exchange": "fused"},
            "radix, cut by MSB histograms": {"splitting": "msb"},
            "p2p_merge": {"strategy": "p2p_merge"},
            "het 2n": {"strategy": "het", "het_buffers": 2},
            # Data that fit at once make one group of runs: a third buffer and eager merging need two or more.
            "het 2n, in four groups": {"strategy": "het", "het_buffers": 2, "chunkset_records": count // 4},
            "het 3n, in four groups": {"strategy": "het", "het_buffers": 3, "chunkset_records": count // 4},
            "het 3n, in four groups, merged eagerly": {
                "strategy": "het", "het_buffers": 3, "eager_merge": True, "chunkset_records": count // 4,
            },
        }  # fmt: skip
        for name, fields in plans.items():
            if name in impossible or (gpus == 1 and name not in ("radix, streamed", "het 2n")):
                continue
            where = ",".join(map(str, range(gpus)))
            plan = SortPlan(**{"strategy": "radix", "gpus": tuple(range(gpus)), "paths": (), **fields})
            found.append(HostCase(STRATEGIES, f"{name} on ({where})", count, plan=plan))
    cpu = SortPlan(strategy="cpu")
    found.append(HostCase(STRATEGIES, "cpu, radix", count, plan=cpu))
    comparison = cpu.replace(cpu_algorithm="comparison")
    return [*found, HostCase(STRATEGIES, "cpu, libstdc++ parallel sort", count, plan=comparison)]


def cases(machine: linkwise.Machine, scale: float) -> list[HostCase]:
    """All cases. `scale` 1 gives the sizes of the table, a smaller one is for trying it out."""
    two, eight = int(2e9 * scale), int(8e9 * scale)
    found = [HostCase(CHOICE, f"{n / 1e9:g}·10⁹ uint32", n) for n in (two, eight)]
    found += strategy_cases(machine, two)
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


def run(case: HostCase, arrays: HostArrays) -> dict[str, Any]:
    """Measures a case on real GPUs; the first repetition warms up and is checked."""
    keys, checksum = arrays.keys(case)
    keys = keys.copy() if case.pageable_in else keys
    result = arrays.result(case)
    wall, phases, plan = [], [], ""
    slow = case.plan is not None and case.plan.strategy in ("cpu", "het")
    for repetition in range((3 if slow else REPETITIONS) + 1):
        began = time.perf_counter()
        sorted_keys, report = linkwise.sort_and_report(
            keys, out=result, machine="local", memory_limit=case.memory_limit, plan=case.plan
        )
        plan, by_phase = str(report.plan), report.phases
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


def simulate(machine: linkwise.Machine, case: HostCase) -> dict[str, Any]:
    """Prices a case on a described machine; if the input is pageable, so is the output."""
    best = linkwise.plan_sort(
        case.count, case.dtype, pageable=case.pageable_in, machine=machine, memory_limit=case.memory_limit,
        plan=case.plan,
    ).best  # fmt: skip
    return simulated_result(case.section, case.name, best.seconds, best.phases, plan=str(best))
