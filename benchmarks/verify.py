"""What ``verify="all"`` costs beside ``True`` and ``False``: the public calls, in turn, medians with their range.

python benchmarks/verify.py --output build/bench/verify.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import linkwise

HOW: dict[str, Any] = {"False": False, "True": True, "all": "all"}


def cases(rows: int, folder: Path) -> dict[str, Callable[[Any], object]]:
    """Calls by name, each of which takes the ``verify`` argument."""
    random = np.random.default_rng(1)
    small, large = (random.integers(0, 1 << 32, 4 * rows, dtype=kind) for kind in (np.uint32, np.int64))
    table = pa.table(
        {
            "key": random.integers(0, rows // 10, rows), "a": random.normal(size=rows),
            "b": random.integers(0, 1 << 30, rows, dtype=np.uint32), "text": [f"text {i % 1000}" for i in range(rows)],
        }
    )  # fmt: skip
    right = pa.table({"key": random.permutation(rows // 10), "c": random.normal(size=rows // 10)})
    pq.write_table(table, folder / "table.parquet")
    pq.write_table(right, folder / "right.parquet")
    out, joined = folder / "out.parquet", folder / "joined.parquet"
    return {
        f"sort {4 * rows:,} uint32": lambda verify: linkwise.sort(small, verify=verify),
        f"sort {4 * rows:,} int64": lambda verify: linkwise.sort(large, verify=verify),
        f"sort a table of {rows:,} rows": lambda verify: linkwise.sort(table, by="key", verify=verify),
        f"sort a Parquet file of {rows:,} rows": lambda verify: linkwise.sort_file(
            folder / "table.parquet", out, by="key", verify=verify
        ),
        f"join {rows:,} rows with {rows // 10:,}": lambda verify: linkwise.join(table, right, "key", verify=verify),
        f"join a file of {rows:,} rows with one of {rows // 10:,}": lambda verify: linkwise.join_file(
            folder / "table.parquet", folder / "right.parquet", joined, "key", verify=verify
        ),
        f"count a join of {rows:,} rows with {rows // 10:,}": lambda verify: linkwise.join_count(
            table.select(["key"]), right.select(["key"]), verify=verify
        ),
    }


def main() -> None:
    """Measure all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    told = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for name, call in cases(options.rows, Path(folder)).items():
            seconds: dict[str, list[float]] = {how: [] for how in HOW}
            for repetition in range(options.repetitions + 1):
                for how, verify in HOW.items():
                    began = time.perf_counter()
                    call(verify)
                    if repetition:  # the first one warms up
                        seconds[how].append(time.perf_counter() - began)
            told.append({"call": name, "seconds": seconds})
            medians = {how: statistics.median(times) for how, times in seconds.items()}
            print(
                f"{name}: "
                + ", ".join(
                    f"{how} {median:.3f} s ({min(seconds[how]):.3f} to {max(seconds[how]):.3f})"
                    for how, median in medians.items()
                )
                + f"; all is {medians['all'] / medians['True']:.2f} of True",
                flush=True,
            )
    if options.output is not None:
        options.output.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
