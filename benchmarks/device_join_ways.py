"""Which way of joining is the fastest, and which is chosen: a grid of sizes, selectivities and skews on one GPU.

    python benchmarks/device_join_ways.py --output ways.json

Each case is counted and written as row numbers, in every way and with the choice left open. Keys of the build side
occur once there: 32 bits scattered over the whole width or, in the cases called dense, 64-bit integers of a range
without gaps. A selectivity is the share of probing rows that match; skew is that of the matching rows.

The picked way's time says whether the choice is right, that of the call what choosing takes: looking at the keys.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cupy
import numpy as np

import linkwise
from device_joins import drawn, scattered
from harness import about, times_in_turn
from linkwise.joining.device.device_join import GpuJoin
from linkwise.runtime.execution import ExecutionOptions
from local_sorts import timed

REPETITIONS = 3
SELECTIVITIES = (1.0, 0.5, 0.1, 0.01)
SKEWS = ("uniform", "zipf", "heavy")
WAYS = ("auto", "hash", "unpartitioned", "direct", "sort_merge")
STEPS = {"list tasks": "hash", "fill table by hash": "unpartitioned", "fill table by key": "direct"}
"""Operations that tell which way was taken; the last of them, where a first way had to be given up."""
_AT_ONCE = 1 << 26
_SHORT = 100e-6  # seconds that a choice takes by looking at keys, which few joins are short enough to feel
_LONG_TO_SORT = 2e8  # rows from which sorting both sides is measured only where nothing else is in question


class WatchedJoin(GpuJoin):
    """A join that tells which way it took."""

    way = ""

    def _run(self, work: Callable[[Any], Any]) -> Any:
        def watched(runtime: Any) -> Any:
            result = work(runtime)
            names = [entry.name for entry in runtime.timeline()]
            self.way = ["sort_merge", *(STEPS[name] for name in names if name in STEPS)][-1]
            return result

        return super()._run(watched)


@dataclass(frozen=True)
class Case:
    """Rows of both sides, selectivity, and how the matching rows are drawn."""

    build: int
    probe: int
    selectivity: float
    draw: str
    dense: bool

    @property
    def dtype(self) -> Any:
        """Of the keys."""
        return np.int64 if self.dense else np.uint32

    def keys(self, numbers: Any) -> Any:
        """The keys with these numbers, which are unique."""
        return numbers.astype(self.dtype) if self.dense else scattered(numbers, self.dtype)


def cases(largest: float) -> Iterator[Case]:
    """The grid; dense keys with two of the selectivities and no skew."""
    for build in (10**4, 10**5, 10**6, 10**7, 10**8, 5 * 10**8):
        for probe in (10**6, 10**7, 10**8, 10**9):
            if not build <= probe <= largest or build + probe < 10**6:
                continue
            for selectivity in SELECTIVITIES:
                for draw in SKEWS:
                    yield Case(build, probe, selectivity, draw, dense=False)
                if selectivity in (1.0, 0.1):
                    yield Case(build, probe, selectivity, "uniform", dense=True)


def sides(case: Case) -> tuple[Any, Any]:
    """Both sides' keys, made on the GPU."""
    build = case.keys(cupy.arange(case.build, dtype=cupy.uint64))
    probe = cupy.empty(case.probe, case.dtype)
    for at in range(0, case.probe, _AT_ONCE):
        count = min(_AT_ONCE, case.probe - at)
        numbers = drawn(case, count, at)
        if case.selectivity < 1:
            misses = cupy.random.default_rng(at + 1).random(count) >= case.selectivity
            numbers += misses * cupy.uint64(case.build)
        probe[at : at + count] = case.keys(numbers)
    cupy.get_default_memory_pool().free_all_blocks()
    return build, probe


def measure(case: Case, repetitions: int) -> list[dict[str, Any]]:
    """Time each way, in turn, counted and as row numbers."""
    left, right = sides(case)
    measured = []
    for wants_rows in (False, True):

        def join(way: str, asked: GpuJoin | None = None, *, rows: bool = wants_rows) -> int:
            asked = asked or GpuJoin([left], [right], "inner", ExecutionOptions(), way)
            return len(asked.indices()[0][0]) if rows else asked.count()

        watched = WatchedJoin([left], [right], "inner", ExecutionOptions())
        join("auto", watched)

        ways: dict[str, Callable[[], Any]] = {}
        found = {}
        for way in WAYS:
            is_beside_it = (way == "direct" and not case.dense) or (way == "sort_merge" and case.probe > _LONG_TO_SORT)
            if is_beside_it and way != watched.way:
                continue
            found[way] = join(way)
            ways[way] = lambda way=way: join(way)
        if len(set(found.values())) != 1:
            raise SystemExit(f"{case}: the ways disagree: {found}")
        seconds = times_in_turn(ways, repetitions, timed)
        medians = {way: statistics.median(times) for way, times in seconds.items()}
        best = min(seconds for way, seconds in medians.items() if way != "auto")
        picked = medians[watched.way]
        print(
            f"{case.build:.0e} with {case.probe:.0e}, {case.selectivity:.0%}, {case.draw}{', dense' * case.dense}, "
            f"{'rows' if wants_rows else 'counted'}: {watched.way} is {picked / best:.2f} of the best, "
            f"the call {medians['auto'] / best:.2f}; "
            + ", ".join(f"{way} {1e3 * median:.2f}" for way, median in medians.items()),
            flush=True,
        )
        measured.append({
            "build": case.build, "probe": case.probe, "selectivity": case.selectivity, "draw": case.draw,
            "dense": case.dense, "rows": wants_rows, "found": found["auto"], "picked": watched.way,
            "seconds": seconds, "medians": medians, "of_best": medians["auto"] / best, "picked_of_best": picked / best,
        })  # fmt: skip
    return measured


def summary(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By rows of the probe side, and of all: the share of cases within 5 percent of the fastest way."""
    told = []
    for probe in (*sorted({result["probe"] for result in results}), None):
        cases = [result for result in results if probe in (result["probe"], None)]
        best = [case["medians"]["auto"] / case["of_best"] for case in cases]
        calls = [case["medians"]["auto"] for case in cases]
        are_near = [call <= 1.05 * least + _SHORT for call, least in zip(calls, best, strict=True)]
        told.append({
            "probe": probe or "all", "cases": len(cases),
            "picked_within_5_percent": statistics.fmean([case["picked_of_best"] <= 1.05 for case in cases]),
            "call_within_5_percent": statistics.fmean([case["of_best"] <= 1.05 for case in cases]),
            "or_0.1_ms": statistics.fmean(are_near),
        })  # fmt: skip
    return told


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=float, default=1e9, help="rows of the probe side")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--every", type=int, default=1, help="take one case in so many")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    for case in list(cases(options.largest))[:: options.every]:
        results += measure(case, options.repetitions)
    told = summary(results)
    for share in told:
        print(share)
    if options.output:
        about_it = about(linkwise.local_machine(), simulated=False)
        text = json.dumps({**about_it, "summary": told, "results": results}, ensure_ascii=False)
        options.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
