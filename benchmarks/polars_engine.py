"""Queries of Polars by Linkwise's engine beside Polars' own two, in one process and in turn.

    python benchmarks/polars_engine.py --tpch FOLDER --output engine.json

FOLDER has TPC-H's tables as Parquet files (``tpchgen-cli parquet -s 1``). Results are compared in every run: rows in
any order where none is asked for.
"""

from __future__ import annotations

import argparse
import json
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

import linkwise
from harness import timed, times_in_turn
from linkwise.bench.results import commit, cores, now
from linkwise.bench.tpch_lazy import QUERIES, scanned

REPETITIONS = 5
RANDOM = np.random.default_rng(35)


def single_steps(rows: int) -> dict[str, pl.LazyFrame]:
    """One sort, join or distinct each, of tables in memory; joins have a quarter of the rows on the right side."""
    few = rows // 4
    left = pl.LazyFrame({
        "key": RANDOM.integers(0, few, rows), "wide": RANDOM.integers(0, 2**62, rows),
        "number": RANDOM.integers(0, 2**32, rows, dtype=np.uint32), "float": RANDOM.random(rows),
    })  # fmt: skip
    right = pl.LazyFrame({"key": RANDOM.permutation(few), "other": RANDOM.random(few)})
    return {
        "sort by int64": left.sort("wide"),
        "sort by u32 and float64": left.sort("number", "float"),
        "distinct": left.select("key").unique(),
        "inner join": left.join(right, on="key"),
        "left join": left.join(right, on="key", how="left"),
        "semi join": left.join(right, on="key", how="semi"),
        "join, then sums by group": left.join(right, on="key").group_by(pl.col("key") % 100).agg(pl.col("other").sum()),
    }


def measured(query: pl.LazyFrame, repetitions: int) -> dict[str, Any]:
    """Seconds of each engine, and what Linkwise took."""
    engines = {
        "in-memory": "in-memory",
        "streaming": "streaming",
        "linkwise": linkwise.PolarsEngine(),
        "linkwise, unpriced": linkwise.PolarsEngine(pricing=False),
    }
    results = {name: query.collect(engine=engine) for name, engine in engines.items()}
    for found in results.values():
        assert_frame_equal(found, results["in-memory"], check_row_order=False, rel_tol=1e-9)
    taken = {
        name: [step.name for step in engine.steps if step.by == "Linkwise"]
        for name, engine in engines.items()
        if not isinstance(engine, str)
    }
    del results
    calls = {name: partial(query.collect, engine=engine) for name, engine in engines.items()}
    seconds = times_in_turn(calls, repetitions, timed)
    return {"taken": taken, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--tpch", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="*", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    arguments = parser.parse_args()
    tables = scanned(arguments.tpch)
    queries = {f"{name}, {rows} rows": query for rows in arguments.rows for name, query in single_steps(rows).items()}
    queries |= {f"TPC-H Q{number}": query(tables) for number, query in QUERIES.items()}
    results = []
    for case, query in queries.items():
        results.append({"case": case, **measured(query, arguments.repetitions)})
        middle = {name: f"{statistics.median(some) * 1e3:.1f}" for name, some in results[-1]["seconds"].items()}
        print(case, middle, results[-1]["taken"], flush=True)
    about = {"date": now(), "commit": commit(), "cpu": cores(), "polars": pl.__version__, "results": results}
    arguments.output.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
