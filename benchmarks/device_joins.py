"""Joins of keys that lie on one GPU or on several: the public calls with their defaults, unverified, and by key.

    python benchmarks/device_joins.py --gpus 2 --output joins.json

A is 10⁸ ⋈ 10⁹ keys of 32 bits and B 5·10⁸ ⋈ 5·10⁸ of 64. Every key of the build side occurs once there, and probing
keys are drawn from them (a foreign key, as in join25 §4.1.3). CuPy makes the keys, which are scattered over their whole
width unless the case says dense. On one GPU it compares the keys of every pair that comes back; on several, pairs are
counted. On one GPU cuDF joins beside, where it is installed.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cupy
import numpy as np

import cudf_peer
import linkwise
from harness import times_in_turn, write_results
from local_sorts import timed

REPETITIONS = 9
_AT_ONCE = 1 << 26  # keys that are made or compared at a time
_MOST_CUDF = 1 << 31  # rows of a result of cuDF's


@dataclass(frozen=True)
class Case:
    """Rows of both sides, and how the probing keys are drawn: uniformly, by Zipf's law, or one a tenth of all."""

    build: float
    probe: float
    dtype: Any
    draw: str = "uniform"
    dense: bool = False


CASES = {
    "A": Case(1e8, 1e9, np.uint32),
    "A, Zipf 1.0": Case(1e8, 1e9, np.uint32, "zipf"),
    "A, one key 10 %": Case(1e8, 1e9, np.uint32, "heavy"),
    "A, dense int64": Case(1e8, 1e9, np.int64, dense=True),
    "B": Case(5e8, 5e8, np.uint64),
    "10⁴ ⋈ 10⁹": Case(1e4, 1e9, np.uint32),
    "10⁶ ⋈ 10⁹": Case(1e6, 1e9, np.uint32),
    "10⁵ ⋈ 10⁶": Case(1e5, 1e6, np.uint32),
}


def scattered(numbers: Any, dtype: Any) -> Any:
    """A bijective hash of numbers over the whole width of the type."""
    keys = numbers.astype(dtype)
    first, shift, second = (2654435761, 15, 2246822519) if keys.itemsize == 4 else (
        0x9E3779B97F4A7C15, 32, 0xD6E8FEB86659FD93)  # fmt: skip
    keys *= dtype(first)
    keys ^= keys >> dtype(shift)
    keys *= dtype(second)
    return keys


def drawn(case: Case, count: int, seed: int) -> Any:
    """Random row numbers of the build side."""
    random = cupy.random.default_rng(seed)
    build = int(case.build)
    if case.draw == "zipf":
        return (cupy.exp(random.random(count) * np.log(build)) - 1).astype(cupy.uint64)
    numbers = random.integers(0, build, count, dtype=cupy.uint64)
    if case.draw == "heavy":
        numbers[random.random(count) < 0.1] = build // 3
    return numbers


def side(case: Case, *, probing: bool, gpus: int) -> list[Any]:
    """An array for each GPU."""
    rows = int(case.probe if probing else case.build)
    parts = []
    for gpu in range(gpus):
        begin, end = rows * gpu // gpus, rows * (gpu + 1) // gpus
        with cupy.cuda.Device(gpu):
            keys = cupy.empty(end - begin, case.dtype)
            for at in range(begin, end, _AT_ONCE):
                count = min(_AT_ONCE, end - at)
                numbers = drawn(case, count, at) if probing else cupy.arange(at, at + count, dtype=cupy.uint64)
                keys[at - begin : at - begin + count] = (
                    numbers.astype(case.dtype) if case.dense else scattered(numbers, case.dtype)
                )
            cupy.cuda.Device(gpu).synchronize()
            cupy.get_default_memory_pool().free_all_blocks()
        parts.append(keys)
    return parts


def check(name: str, left: list[Any], right: list[Any], found: tuple[list[Any], list[Any]], rows: int) -> None:
    """As many pairs as probing rows, and equal keys in each."""
    if sum(part.size for part in found[0]) != rows:
        raise SystemExit(f"{name}: not every probing row has its one match")
    if len(left) > 1:
        return  # CuPy takes rows of one array
    for at in range(0, rows, _AT_ONCE):
        ours, theirs = (
            keys[0][numbers[0][at : at + _AT_ONCE]] for keys, numbers in ((left, found[0]), (right, found[1]))
        )
        if not bool((ours == theirs).all()):
            raise SystemExit(f"{name}: the keys of a pair differ")
        cupy.get_default_memory_pool().free_all_blocks()


def run(name: str, case: Case, gpus: int, repetitions: int) -> dict[str, Any]:
    """Time each call, in turn."""
    left, right = side(case, probing=False, gpus=gpus), side(case, probing=True, gpus=gpus)
    rows = int(case.probe)
    calls: dict[str, Callable[[], Any]] = {
        "join_count": lambda: linkwise.join_count(left, right),
        "join_count, unverified": lambda: linkwise.join_count(left, right, verify=False),
        "join_indices": lambda: linkwise.join_indices(left, right),
        "join_indices, unverified": lambda: linkwise.join_indices(left, right, verify=False),
        "join_indices, by key": lambda: linkwise.join_indices(left, right, order="key"),
    }
    if gpus == 1 and rows < _MOST_CUDF:
        calls |= cudf_peer.join_calls(left[0], right[0])
    if calls["join_count"]() != rows:
        raise SystemExit(f"{name}: not every probing row has its one match")
    check(name, left, right, calls["join_indices"](), rows)
    seconds = times_in_turn(calls, repetitions, timed)
    medians = {way: statistics.median(times) for way, times in seconds.items()}
    print(
        f"{name} on {gpus}: " + ", ".join(f"{way} {1e3 * median:.2f} ms" for way, median in medians.items()), flush=True
    )
    return {"case": name, "gpus": gpus, "build": int(case.build), "probe": rows, "seconds": seconds, "medians": medians}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--scale", type=float, default=1.0, help="of the rows")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1])
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results = []
    for gpus in options.gpus:
        for name in options.cases:
            case = CASES[name]
            case = replace(case, build=case.build * options.scale, probe=case.probe * options.scale)
            results.append(run(name, case, gpus, options.repetitions))
            for gpu in range(gpus):
                with cupy.cuda.Device(gpu):
                    cupy.get_default_memory_pool().free_all_blocks()
    write_results(options.output, results)


if __name__ == "__main__":
    main()
