"""An Arrow table of ten mixed columns by (string, timestamp descending), memory to memory, beside what others take.

``--gib`` says how large. PyArrow sorts on one core or two; Polars and DuckDB, where they are installed, on all. Every
result is held against the order that its keys must have, and its rows against the input's.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import linkwise
from harness import REPETITIONS, about, median_phases, result_of
from linkwise.runtime.session import open_session
from linkwise.sorting.api import sort_and_report
from linkwise.sorting.report import SortReport

_ROW_BYTES = 96
_NAMES = 1_000_000


def words_of(random: np.random.Generator, count: int) -> pa.Array:
    """Words of 4 to 18 letters."""
    lengths = random.integers(4, 19, count)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    letters = random.integers(97, 123, offsets[-1], dtype=np.uint8)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


def make_table(gib: float) -> pa.Table:
    """A table of about this size, in chunks of at most 16 Mi rows, so that their strings fit 32-bit offsets."""
    rows = int(gib * (1 << 30) / _ROW_BYTES)
    words = words_of(np.random.default_rng(99), _NAMES)
    parts = []
    for first in range(0, rows, 1 << 24):
        count = min(1 << 24, rows - first)
        random = np.random.default_rng(first)
        money = pa.array(random.integers(-(10**12), 10**12, count)).cast(pa.decimal128(21, 0))
        parts.append(
            pa.table(
                {
                    "name": words.take(pa.array(random.integers(0, _NAMES, count, dtype=np.int32))),
                    "at": pa.array(random.integers(1_500_000_000, 1_700_000_000, count) * 10**9, pa.timestamp("ns")),
                    "row": np.arange(first, first + count),
                    "price": pa.array(random.random(count), mask=random.random(count) < 0.05),
                    "money": money,
                    "day": pa.array(random.integers(0, 20_000, count, dtype=np.int32), pa.date32()),
                    "count": random.integers(0, 1 << 30, count, dtype=np.int32),
                    "paid": pa.array(random.random(count) < 0.5),
                    "comment": words.take(pa.array(random.integers(0, _NAMES, count, dtype=np.int32))),
                    "size": random.random(count, np.float32),
                }
            )
        )
    return pa.concat_tables(parts)


def _check(who: str, table: pa.Table, result: pa.Table) -> None:
    by = {"by": ["name", "at"], "descending": [False, True]}
    rows = result["row"].to_numpy()
    seen = np.zeros(table.num_rows, bool)
    seen[rows] = True
    sample = np.random.default_rng(0).integers(0, table.num_rows, 1000)
    original = table.take(pa.array(rows[sample]))
    same = all(
        result[name]
        .take(pa.array(sample))
        .cast(table.schema.field(name).type)
        .combine_chunks()
        .equals(original[name].combine_chunks())
        for name in table.column_names
    )
    if not (seen.all() and len(rows) == len(seen) and same and linkwise.is_sorted(result.select(["name", "at"]), **by)):
        raise SystemExit(f"{who}: wrong result")


def _competitors(table: pa.Table) -> dict[str, Callable[[], Any]]:
    def pyarrow_sort() -> pa.Table:
        return table.take(pc.sort_indices(table, [("name", "ascending"), ("at", "descending")]))

    ways: dict[str, Callable[[], Any]] = {"PyArrow, sort_indices and take": pyarrow_sort}
    try:
        polars = importlib.import_module("polars")
        frame = polars.from_arrow(table)
        ways["Polars"] = lambda: frame.sort(["name", "at"], descending=[False, True], maintain_order=True)
    except ImportError as error:
        print(f"Polars is not measured: {error}", file=sys.stderr)
    try:
        duckdb = importlib.import_module("duckdb")
        ways["DuckDB"] = lambda: duckdb.sql('SELECT * FROM tbl ORDER BY name, "at" DESC').to_arrow_table()
        duckdb.register("tbl", table)
    except ImportError as error:
        print(f"DuckDB is not measured: {error}", file=sys.stderr)
    return ways


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--gib", type=float, default=1.0)
    arguments.add_argument("--repetitions", type=int, default=REPETITIONS)
    arguments.add_argument(
        "--only", default="", help="measure only what has one of these in its name, as Linkwise,Polars"
    )
    arguments.add_argument("--output", type=Path)
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    table = make_table(options.gib)
    reports: list[SortReport] = []

    def sort(**where: Any) -> pa.Table:
        result, report = sort_and_report(table, by=["name", "at"], descending=[False, True], **where)
        reports.append(report)
        return result

    ways: dict[str, Callable[[], Any]] = {
        "Linkwise": sort,
        "Linkwise, on the cores alone": lambda: sort(strategy="cpu"),
        **_competitors(table),
    }
    results = []
    for name, work in ways.items():
        if not any(part in name for part in options.only.split(",")):
            continue
        seconds = []
        reports.clear()
        for repetition in range(options.repetitions + 1):  # the first one warms up
            began = time.perf_counter()
            result = work()
            seconds.append(time.perf_counter() - began)
            if repetition == 0:
                _check(name, table, result if isinstance(result, pa.Table) else result.to_arrow())
            del result
        parts = {
            part: median_phases([getattr(report, part) for report in reports[1:]])
            for part in ("steps", "phases")
            if reports
        }
        results.append(result_of("tables", name, seconds[1:], rows=table.num_rows, bytes=table.nbytes, **parts))
    with open_session("auto") as runtime:
        written = about(runtime.machine, simulated=runtime.simulated) | {"results": results}
    if options.output:
        options.output.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
