"""Without a GPU: joins of Arrow tables in memory beside DuckDB and Polars, in one process and in turn.

    python benchmarks/arrow_joins.py --output joins.json

Inputs are in memory: Arrow tables for Linkwise and DuckDB, frames made of them beforehand for Polars. Each makes a
table of all columns of the result. Numbers of rows, and sums of the keys, are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import linkwise
from harness import timed, times_in_turn
from linkwise.bench.results import commit, cores, now

REPETITIONS = 7
RANDOM = np.random.default_rng(28)


def lines(rows: int) -> pa.Table:
    keys = RANDOM.integers(0, rows // 10, rows)
    return pa.table({"k": keys, "a": RANDOM.integers(0, 1 << 40, rows), "x": RANDOM.random(rows)})


def heads(rows: int) -> pa.Table:
    numbers = RANDOM.integers(0, 1 << 30, rows, dtype=np.int32)
    return pa.table({"k": RANDOM.permutation(rows), "b": numbers, "y": RANDOM.random(rows)})


def with_texts(table: pa.Table) -> pa.Table:
    """The keys as texts of 20 bytes."""
    digits = pc.utf8_lpad(table["k"].cast(pa.string()), 10, "0")
    return table.set_column(0, "k", pc.binary_join_element_wise("number no ", digits, ""))


CASES: dict[str, tuple[str, str]] = {
    "join": ("inner", "select l.*, b, y from l join r using (k)"),
    "by texts of 20 bytes": ("inner", "select l.*, b, y from l join r using (k)"),
    "semi join with half of the keys": ("semi", "select * from l semi join r using (k)"),
    "anti join with half of the keys": ("anti", "select * from l anti join r using (k)"),
}


def told(result: Any) -> tuple[int, int]:
    """What all results must have in common."""
    table = result.to_arrow() if isinstance(result, pl.DataFrame) else result
    return table.num_rows, pc.sum(table["a"]).as_py()


def run(name: str, rows: int) -> dict[str, Any]:
    how, query = CASES[name]
    left, right = lines(rows), heads(rows // 10)
    if "texts" in name:
        left, right = with_texts(left), with_texts(right)
    if how in ("semi", "anti"):
        right = right.slice(0, right.num_rows // 2)
    frames = pl.from_arrow(left), pl.from_arrow(right)
    connection = duckdb.connect()
    connection.register("l", left)
    connection.register("r", right)
    connection.sql("set preserve_insertion_order = false")
    calls: dict[str, Callable[[], Any]] = {
        "linkwise": lambda: linkwise.join(left, right, "k", how=how),  # type: ignore[arg-type]
        "duckdb": lambda: connection.sql(query).to_arrow_table(),
        "polars": lambda: frames[0].join(frames[1], on="k", how=how),  # type: ignore[arg-type]
    }
    if len({told(call()) for call in calls.values()}) != 1:
        raise SystemExit(f"{name}: the results differ")
    seconds = times_in_turn(calls, REPETITIONS, timed)
    medians = {program: statistics.median(times) for program, times in seconds.items()}
    ratio = medians["linkwise"] / min(medians["duckdb"], medians["polars"])
    in_words = ", ".join(f"{program} {median:.3f} s" for program, median in medians.items())
    print(f"{rows:.3g} rows, {name}: {in_words}, ratio {ratio:.2f}", flush=True)
    return {"case": name, "rows": rows, "seconds": seconds, "medians": medians, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=2e7, help="of the left side; the right one has a tenth")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results = [run(name, int(options.rows)) for name in options.cases]
    if options.output:
        versions = {"duckdb": duckdb.__version__, "polars": pl.__version__}
        told_of = {"date": now(), "commit": commit(), "machine": cores(), "versions": versions, "results": results}
        options.output.write_text(json.dumps(told_of, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
