"""A sort of an Arrow table of numbers with GPUs, beside DuckDB and Polars where they are installed, in turn.

    python benchmarks/gpu_arrow_sorts.py --rows 6e7 --output sorts.json

The table has four columns (uint32, int64, uint32, float64) and is sorted by the first, or by the second and the first.
By default, ``linkwise.sort`` compares a checksum of the rows that came in with that of the rows that come out.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import linkwise
from harness import about, timed, times_in_turn
from linkwise.runtime.session import open_session

REPETITIONS = 5


def make(rows: int) -> pa.Table:
    random = np.random.default_rng(26)
    return pa.table(
        {
            "k": random.integers(0, 1 << 32, rows, np.uint32),
            "a": random.integers(0, 1 << 40, rows),
            "u": random.integers(0, 1 << 32, rows, np.uint32),
            "f": random.random(rows),
        }
    )


def peers(table: pa.Table, by: list[str]) -> dict[str, Callable[[], Any]]:
    calls: dict[str, Callable[[], Any]] = {}
    try:
        duckdb = importlib.import_module("duckdb").connect()
        duckdb.register("t", table)
        calls["duckdb"] = lambda: duckdb.sql(f"select * from t order by {', '.join(by)}").to_arrow_table()
        frame = importlib.import_module("polars").from_arrow(table)
        calls["polars"] = lambda: frame.sort(by)
    except ImportError as error:
        print(f"not measured: {error}", file=sys.stderr)
    return calls


def run(table: pa.Table, by: list[str], repetitions: int, machine: str) -> dict[str, Any]:
    calls: dict[str, Callable[[], Any]] = {
        "linkwise": lambda: linkwise.sort(table, by=by, machine=machine),
        "linkwise, unverified": lambda: linkwise.sort(table, by=by, machine=machine, verify=False),
        **peers(table, by),
    }
    sums = [int(np.sum(column.to_numpy().view(f"u{column.type.bit_width // 8}"), dtype=np.uint64)) for column in table]
    for name, call in calls.items():  # also until the GPUs are taken
        for _ in range(3):
            result = call()
        result = result if isinstance(result, pa.Table) else result.to_arrow()
        found = [int(np.sum(c.to_numpy().view(f"u{c.type.bit_width // 8}"), dtype=np.uint64)) for c in result]
        if not linkwise.is_sorted(result, by=by) or found != sums:
            raise SystemExit(f"{name}: wrong result")
        del result
    seconds = times_in_turn(calls, repetitions, timed)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    told = ", ".join(f"{name} {1e3 * median:.0f} ms" for name, median in medians.items())
    print(f"{table.num_rows:.3g} rows by {' and '.join(by)}: {told}", flush=True)
    return {"case": f"by {' and '.join(by)}", "rows": table.num_rows, "seconds": seconds, "medians": medians}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--machine", default="auto")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    table = make(int(options.rows))
    results = [run(table, by, options.repetitions, options.machine) for by in (["k"], ["a", "k"])]
    with open_session(options.machine) as runtime:
        written = about(runtime.machine, simulated=runtime.simulated) | {"results": results}
    if options.output:
        options.output.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
