"""What every benchmark needs: data, checks of results, repetition, the wire, and what it ran on."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import linkwise
from linkwise import _core
from linkwise.bench.arrays import is_sorted_from
from linkwise.runtime.parallel import BLOCK, in_blocks

REPETITIONS = 5
Array = np.ndarray[Any, Any]


def zipf(uniform: Array, exponent: float, largest: int = 2**32 - 1) -> Array:
    """Ranks from 1 with P(rank) ~ rank^-exponent, from uniform numbers, by inverting the continuous distribution."""
    if exponent == 1:
        return np.minimum(np.exp(uniform * np.log(largest)), largest)
    power = 1 - exponent
    return np.minimum((1 + uniform * (float(largest) ** power - 1)) ** (1 / power), largest)


def fill(array: Array, distribution: str = "uniform") -> None:
    """Random keys of the array's type. Floats of the uniform distribution are in [0, 1)."""
    bits = 8 * array.itemsize
    kind = array.dtype

    def one(first: int) -> None:
        part = array[first : first + BLOCK]
        random = np.random.default_rng(first + 1)
        if distribution == "uniform" and kind.kind == "f":
            part[:] = random.random(len(part), kind.type)
        elif distribution == "uniform":
            unsigned = np.dtype(f"u{kind.itemsize}")
            part[:] = random.integers(0, 1 << bits, len(part), dtype=unsigned).view(kind)
        elif distribution == "normal":
            part[:] = np.clip(random.normal(2**31, 2**28, len(part)), 0, 2**32 - 1).astype(kind)
        elif distribution.startswith("zipf "):
            part[:] = zipf(random.random(len(part)), float(distribution.split()[1])).astype(kind)
        elif distribution == "bucket sorted":  # eight blocks, each of which goes through the eighths of the range
            position = np.arange(first, first + len(part), dtype=np.uint64)
            eighth = position * 64 // len(array) % 8
            part[:] = ((eighth << np.uint64(29)) + random.integers(0, 1 << 29, len(part), dtype=np.uint64)).astype(kind)
        elif distribution == "all equal":
            part[:] = 77
        elif distribution == "one bit":
            part[:] = random.integers(0, 2, len(part), dtype=np.uint8)
        else:  # functions of the position
            position = np.arange(first, first + len(part), dtype=np.uint64)
            if distribution == "staggered":  # a GPU's keys belong on another one
                position = (position + np.uint64(len(array) // 3)) % np.uint64(len(array))
            spread = position * (2**32 - 1) // len(array)
            if distribution == "reversed":
                spread = (2**32 - 1) - spread
            if distribution == "nearly sorted":
                swapped = random.integers(0, len(part), len(part) // 100)
                spread[swapped] = random.integers(0, 2**32, len(swapped), dtype=np.uint64)
            part[:] = spread.astype(kind)

    in_blocks(one, len(array))


def timed(call: Callable[[], Any]) -> float:
    """Seconds until the result is there; freeing it is not counted."""
    began = time.perf_counter()
    result = call()
    spent = time.perf_counter() - began
    del result
    return spent


def times_in_turn(
    calls: dict[str, Callable[[], Any]], repetitions: int, timed: Callable[[Callable[[], Any]], float]
) -> dict[str, list[float]]:
    """Seconds of each call, as `timed` tells them. The calls take turns, and the first of each is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for repetition in range(repetitions + 1):
        for name, call in calls.items():
            spent = timed(call)
            if repetition > 0:
                seconds[name].append(spent)
    return seconds


def check(name: str, before_sum: int, result: Array) -> None:
    """Stops the benchmark unless the result is in order and has the input's sum."""
    if not is_sorted_from(before_sum, result):
        raise SystemExit(f"{name}: wrong result")


def result_of(section: str, name: str, wall: list[float], **more: Any) -> dict[str, Any]:
    """One row of the table; prints it too."""
    median = statistics.median(wall)
    print(f"{median * 1e3:9.2f} ms  {section}: {name}", file=sys.stderr, flush=True)
    return {
        "section": section,
        "case": {"name": name},
        "wall_seconds": wall,
        "median_wall_seconds": median,
        "spread": (max(wall) - min(wall)) / median,
        **more,
    }


def simulated_result(section: str, name: str, seconds: float, phases: dict[str, float], **more: Any) -> dict[str, Any]:
    """The same of an estimate."""
    return {"section": section, "case": {"name": name}, "simulated_seconds": seconds, "phases": phases, **more}


def median_phases(runs: list[dict[str, float]]) -> dict[str, float]:
    """The median of each phase over several runs."""
    return {name: statistics.median(run.get(name, 0) for run in runs) for name in runs[-1]}


def _commit() -> str:
    if "LINKWISE_COMMIT" in os.environ:  # set where the repository's history is missing
        return os.environ["LINKWISE_COMMIT"]
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def write_results(path: Path | None, results: Any) -> None:
    """Write results of this machine and what it is, if a file is named."""
    if path is not None:
        told = {**about(linkwise.local_machine(), simulated=False), "results": results}
        path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def about(machine: linkwise.Machine, *, simulated: bool) -> dict[str, Any]:
    """What was measured, when, and on what."""
    return {
        "date": datetime.now(UTC).isoformat(),
        "commit": _commit(),
        "linkwise": linkwise.__version__,
        "machine": machine.name,
        "simulated": simulated,
        "gpus": [] if simulated else [gpu.name for gpu in _core.cuda_gpus()],
        "cpu": f"{platform.machine()}, {os.cpu_count()} cores",
    }
