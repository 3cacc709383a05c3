"""Sorts of data that lies on the GPUs. On real ones CuPy makes the data and checks the results."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import linkwise
from harness import REPETITIONS, median_phases, result_of, simulated_result
from linkwise import SortPlan
from linkwise.runtime.session import memory_held

SECTION = "on the GPUs"


@dataclass(frozen=True)
class DeviceCase:
    count: int
    dtype: str
    payload: str | None
    gpus: int
    buckets: int = 0  # 0: as few as memory allows
    verify: bool = False

    @property
    def name(self) -> str:
        kind = self.dtype if self.payload is None else f"{self.dtype}/{self.payload}"
        more = f", {self.buckets} buckets" if self.buckets else ""
        return f"{self.count / 1e9:g}·10⁹ {kind} on {self.gpus}{more}{', verified' * self.verify}"

    @property
    def plan(self) -> SortPlan:
        return SortPlan(strategy="radix", gpus=tuple(range(self.gpus)), device_buckets=self.buckets)

    def length(self, gpu: int) -> int:
        """The number of keys on that GPU."""
        return self.count * (gpu + 1) // self.gpus - self.count * gpu // self.gpus


def cases(num_gpus: int, scale: float) -> list[DeviceCase]:
    """Strong scaling over 1 … n GPUs; with fewer than eight, also the share that each of eight would hold."""
    kinds = [
        (int(2e9 * scale), "uint32", None),
        (int(1e9 * scale), "uint64", None),
        (int(1e9 * scale), "uint64", "uint64"),
    ]
    found = [DeviceCase(n, key, value, gpus) for n, key, value in kinds for gpus in range(1, num_gpus + 1)]
    found += [DeviceCase(n, key, value, num_gpus, verify=True) for n, key, value in kinds]
    for n, key, value in kinds:
        as_of_eight = n * num_gpus // 8
        found += [DeviceCase(as_of_eight, key, value, num_gpus, buckets) for buckets in (0, 2, 8)]
        found.append(DeviceCase(as_of_eight, key, value, num_gpus, verify=True))
    return list(dict.fromkeys(found))  # on eight GPUs, both are the same


def _random_parts(case: DeviceCase, dtype: str, seed: int) -> list[Any]:
    import cupy  # noqa: PLC0415

    parts = []
    for gpu in range(case.gpus):
        with cupy.cuda.Device(gpu):
            words = case.length(gpu) * np.dtype(dtype).itemsize // 4
            random = cupy.random.default_rng(seed + gpu)
            parts.append(random.integers(0, 1 << 32, words, dtype=cupy.uint32).view(dtype))
    return parts


def _copies(arrays: list[Any]) -> list[Any]:
    made = []
    for array in arrays:
        with array.device:
            made.append(array.copy())
            array.device.synchronize()
    return made


def check_parts(name: str, keys: list[Any], result: list[Any]) -> None:
    """Order within and across the parts, and the sum of the bits modulo 2^64."""
    import cupy  # noqa: PLC0415

    def sum_of_bits(array: Any) -> int:
        return int(array.view(f"u{array.itemsize}").sum(dtype=cupy.uint64))

    previous, change, right = None, 0, True
    for before, after in zip(keys, result, strict=True):
        with before.device:
            part = cupy.from_dlpack(after)
            right &= (previous is None or part[0].item() >= previous) and bool((part[:-1] <= part[1:]).all())
            previous = part[-1].item()
            change += sum_of_bits(part) - sum_of_bits(before)
    if not right or change % (1 << 64) != 0:
        raise SystemExit(f"{name}: wrong result")


def run(case: DeviceCase) -> dict[str, Any]:
    """Time from the call until everything is done, which the report waits for; the input is donated."""
    keys = _random_parts(case, case.dtype, 1)
    payload = [] if case.payload is None else _random_parts(case, case.payload, 100)
    wall, phases = [], []
    load = extra = 0.0
    for repetition in range(REPETITIONS + 1):
        inputs, carried = _copies(keys), _copies(payload)
        began = time.perf_counter()
        result, report = linkwise.sort_and_report(
            inputs, payload=carried or None, donate=True, verify=case.verify, plan=case.plan
        )
        seconds = time.perf_counter() - began
        parts = result[0] if carried else result
        if repetition == 0:
            check_parts(case.name, keys, parts)
            load = max(len(part) for part in parts) * case.gpus / case.count
            first = inputs[0].nbytes + (carried[0].nbytes if carried else 0)
            extra = memory_held("local", 0) / first
        else:
            wall.append(seconds)
            phases.append(report.phases)
        del result, parts
    more = {"phases": median_phases(phases), "largest_load": load, "extra_memory": extra, "gpus": case.gpus}
    return result_of(SECTION, case.name, wall, **more)


def simulate(machine: linkwise.Machine, case: DeviceCase) -> dict[str, Any]:
    """Prices a case on a described machine."""
    best = linkwise.plan_sort(
        case.count, case.dtype, value_bytes=0 if case.payload is None else np.dtype(case.payload).itemsize,
        resident=True, donate=True, machine=machine, verify=case.verify, plan=case.plan,
    ).best  # fmt: skip
    return simulated_result(SECTION, case.name, best.seconds, best.phases, gpus=case.gpus)
