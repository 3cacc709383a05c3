"""Tables whose columns lie on one GPU or on several: sorted and joined there, beside CuPy's argsort and take.

    python benchmarks/gpu_tables.py --rows 1e8 --gpus 2 --output tables.json

The table has four columns (uint32 and int64 keys, uint32, float64), as a dictionary of CuPy arrays or of lists of
these. The join is of a tenth as many rows, with two columns and unique keys, which every row of the table matches.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
import numpy as np

import linkwise
from device_joins import scattered
from harness import times_in_turn, write_results
from local_sorts import timed

REPETITIONS = 9


def spread(make: Callable[[int, int], dict[str, Any]], rows: int, gpus: int) -> dict[str, Any]:
    """Columns that ``make`` returns for rows from one to another, a part on each GPU."""
    parts = []
    for gpu in range(gpus):
        with cupy.cuda.Device(gpu):
            parts.append(make(rows * gpu // gpus, rows * (gpu + 1) // gpus))
            cupy.cuda.Device(gpu).synchronize()
    return {name: [part[name] for part in parts] if gpus > 1 else parts[0][name] for name in parts[0]}


def tables(rows: int, gpus: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The table, and the shorter one that it is joined with."""
    keys = rows // 10

    def long(begin: int, end: int) -> dict[str, Any]:
        random = cupy.random.default_rng(begin)
        count = end - begin
        numbers = random.integers(0, keys, count, dtype=cupy.uint64)
        return {
            "k": scattered(numbers, np.uint32), "l": random.integers(0, 1 << 40, count, dtype=cupy.int64),
            "u": random.integers(0, 1 << 32, count, dtype=cupy.uint32), "f": random.random(count),
        }  # fmt: skip

    def short(begin: int, end: int) -> dict[str, Any]:
        numbers = cupy.arange(begin, end, dtype=cupy.uint64)
        return {"k": scattered(numbers, np.uint32), "w": numbers.astype(np.float64)}

    return spread(long, rows, gpus), spread(short, keys, gpus)


def by_cupy(table: dict[str, Any], by: list[str]) -> dict[str, Any]:
    """What a user of CuPy writes: the order by one key after the other, and a take of each column."""
    order = cupy.argsort(table[by[-1]])
    for name in reversed(by[:-1]):
        order = order[cupy.argsort(table[name][order])]
    return {name: column[order] for name, column in table.items()}


def checked(table: dict[str, Any], short: dict[str, Any], rows: int) -> None:
    """In order, with the rows that came in, as CuPy adds them up; and joined with the row that each names."""
    for result in (linkwise.sort(table, by="k"), linkwise.join(table, short, on="k")):
        parts = [result[name] if isinstance(result[name], list) else [result[name]] for name in ("k", "l", "f")]
        whole = [table[name] if isinstance(table[name], list) else [table[name]] for name in ("k", "l", "f")]
        for ours, theirs in zip(parts, whole, strict=True):
            sums = [sum(int(part.astype(cupy.int64).sum()) for part in side) for side in (ours, theirs)]
            if sums[0] != sums[1] or sum(part.size for part in ours) != rows:
                raise SystemExit("a result has not the rows that came in")
        if "w" in result:
            for keys, numbers in zip(parts[0], [result["w"]] if len(parts[0]) == 1 else result["w"], strict=True):
                with keys.device:
                    if not bool((scattered(numbers.astype(cupy.uint64), np.uint32) == keys).all()):
                        raise SystemExit("a row was joined with another's partner")
        elif any(not bool((part[1:] >= part[:-1]).all()) for part in parts[0]):
            raise SystemExit("a table is not in order")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--gpus", type=int, nargs="+", default=[1])
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows, results = int(options.rows), []
    for gpus in options.gpus:
        table, short = tables(rows, gpus)
        checked(table, short, rows)
        calls: dict[str, Callable[[], Any]] = {
            "sort by one": lambda table=table: linkwise.sort(table, by="k"),
            "sort by two": lambda table=table: linkwise.sort(table, by=["k", "l"]),
            "join": lambda table=table, short=short: linkwise.join(table, short, on="k"),
        }
        if gpus == 1:
            calls["cupy, sort by one"] = lambda table=table: by_cupy(table, ["k"])
            calls["cupy, sort by two"] = lambda table=table: by_cupy(table, ["k", "l"])
        seconds = times_in_turn(calls, options.repetitions, timed)
        medians = {call: statistics.median(times) for call, times in seconds.items()}
        print(f"on {gpus}: " + ", ".join(f"{call} {1e3 * s:.2f} ms" for call, s in medians.items()), flush=True)
        results.append({"gpus": gpus, "rows": rows, "seconds": seconds, "medians": medians})
        del table, short
        cupy.get_default_memory_pool().free_all_blocks()
    write_results(options.output, results)


if __name__ == "__main__":
    main()
