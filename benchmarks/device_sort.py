"""Measures sorts of data that lies on the GPUs already. Needs CuPy, which makes the data and checks the results."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import linkwise
from linkwise import _core

REPETITIONS = 5


@dataclass(frozen=True)
class DeviceCase:
    count: int
    dtype: str
    payload: str | None
    gpus: int
    buckets: int = 8
    donated: bool = True

    @property
    def name(self) -> str:
        kind = self.dtype if self.payload is None else f"{self.dtype}/{self.payload}"
        return f"{self.count / 1e9:g}·10⁹ {kind} on {self.gpus}, {self.buckets} buckets{', donated' * self.donated}"

    @property
    def plan(self) -> _core.SortPlan:
        plan = _core.SortPlan()
        plan.gpus = list(range(self.gpus))
        plan.device_buckets = self.buckets
        return plan


def random_parts(case: DeviceCase, dtype: str, seed: int) -> list[Any]:
    import cupy  # noqa: PLC0415

    parts = []
    for gpu in range(case.gpus):
        with cupy.cuda.Device(gpu):
            length = case.count * (gpu + 1) // case.gpus - case.count * gpu // case.gpus
            words = cupy.random.default_rng(seed + gpu).integers(
                0, 1 << 32, length * np.dtype(dtype).itemsize // 4, dtype=cupy.uint32
            )
            parts.append(words.view(dtype))
    return parts


def is_sorted_permutation(keys: list[Any], result: list[Any]) -> bool:
    """Order within and across the parts, and the sum modulo 2^64."""
    import cupy  # noqa: PLC0415

    previous, change = 0, 0
    for before, after in zip(keys, result, strict=True):
        with before.device:
            part = cupy.from_dlpack(after)
            if len(part) and (int(part[0]) < previous or not bool((part[:-1] <= part[1:]).all())):
                return False
            previous = int(part[-1]) if len(part) else previous
            change += int(part.sum(dtype=cupy.uint64)) - int(before.sum(dtype=cupy.uint64))
    return change % (1 << 64) == 0


def copies(arrays: list[Any]) -> list[Any]:
    made = []
    for array in arrays:
        with array.device:
            made.append(array.copy())
    return made


def run(runtime: _core.Runtime, case: DeviceCase) -> dict[str, Any]:
    import cupy  # noqa: PLC0415

    keys = random_parts(case, case.dtype, 1)
    payload = [] if case.payload is None else random_parts(case, case.payload, 100)
    streams = [1] * case.gpus
    wall, phases, peak_extra = [], [], 0
    for repetition in range(REPETITIONS + 1):
        inputs, carried = copies(keys), copies(payload)
        for gpu in range(case.gpus):
            with cupy.cuda.Device(gpu):
                cupy.cuda.get_current_stream().synchronize()
        runtime.synchronize()
        options = _core.SortOptions(False, False)
        began = time.perf_counter()
        result = _core.sort_device(runtime, case.plan, inputs, carried, streams, case.donated, options)
        runtime.synchronize()
        seconds = time.perf_counter() - began
        if repetition == 0:
            if not is_sorted_permutation(keys, [part for part, _ in result]):
                raise SystemExit(f"{case.name}: wrong result")
            held = [len(part) for part, _ in result]
        else:
            wall.append(seconds)
            spans: dict[str, list[int]] = {}
            for entry in runtime.timeline():
                span = spans.setdefault(entry.phase, [entry.start_ps, entry.end_ps])
                span[1] = max(span[1], entry.end_ps)
            phases.append({phase: (end - start) * 1e-12 for phase, (start, end) in spans.items()})
        del result
    return {
        "case": asdict(case) | {"name": case.name},
        "wall_seconds": wall,
        "median_wall_seconds": statistics.median(wall),
        "spread": (max(wall) - min(wall)) / statistics.median(wall),
        "phases": {name: statistics.median(p.get(name, 0) for p in phases) for name in phases[0]},
        "largest_load": max(held) * case.gpus / case.count,
        "peak_extra": peak_extra,
    }


def cases(num_gpus: int) -> list[DeviceCase]:
    kinds = [(2_000_000_000, "uint32", None), (1_000_000_000, "uint64", None), (1_000_000_000, "uint64", "uint64")]
    return [
        DeviceCase(count * num_gpus // 8 if scaled else count, dtype, payload, gpus, buckets, True)
        for scaled in (False, True)
        for count, dtype, payload in kinds
        for gpus in (range(1, num_gpus + 1) if not scaled else (num_gpus,))
        for buckets in ((1, 4, 8) if scaled else (8,))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/bench/device_sort.json"))
    options = parser.parse_args()
    machine = linkwise.local_machine()
    if machine is None:
        raise SystemExit("there is no GPU here")
    runtime = _core.cuda_runtime(machine)
    results = []
    for case in cases(machine.num_gpus):
        results.append(run(runtime, case))
        phases = ", ".join(f"{name} {value * 1e3:.2f}" for name, value in results[-1]["phases"].items())
        seconds, spread, load = (results[-1][k] for k in ("median_wall_seconds", "spread", "largest_load"))
        print(f"{seconds * 1e3:7.2f} ms ±{spread:.0%} {case.name} (load {load:.4f}): {phases}", flush=True)
        runtime.trim()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
