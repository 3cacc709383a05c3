"""A join of Arrow tables with GPUs, beside DuckDB and Polars where they are installed, in one process and in turn.

    python benchmarks/gpu_arrow_joins.py --rows 1e8 5e8 --output joins.json

Both tables have a uint32 key, or with ``--text`` one of 20 digits, and a uint32 payload; the shorter one has each key
once, and every row of the longer one finds its partner. ``GpuTable`` copies the columns to the GPUs, finds and gathers
the rows there, and fetches them; *with keys there* it has copied the columns before.
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
import pyarrow.compute as pc

import linkwise
from harness import about, timed, times_in_turn
from linkwise.runtime.session import open_session

REPETITIONS = 5
_TEXT_CHUNK = 1 << 23  # rows


def in_text(numbers: np.ndarray[Any, Any]) -> pa.ChunkedArray:
    """Numbers as text of 20 digits, in chunks that PyArrow can make."""
    parts = [pa.array(numbers[at : at + _TEXT_CHUNK]).cast(pa.string()) for at in range(0, len(numbers), _TEXT_CHUNK)]
    return pa.chunked_array([pc.utf8_lpad(part, 20, "0") for part in parts])


def tables(short: int, long: int, *, by_text: bool) -> tuple[pa.Table, pa.Table]:
    random = np.random.default_rng(33)
    keys = np.arange(short, dtype=np.uint32) * np.uint32(2654435761)  # each once, all over the width
    left = {"k": random.permutation(keys), "a": random.integers(0, 1 << 32, short, np.uint32)}
    right = {"k": keys[random.integers(0, short, long)], "b": random.integers(0, 1 << 32, long, np.uint32)}
    if by_text:
        return pa.table(left | {"k": in_text(left["k"])}), pa.table(right | {"k": in_text(right["k"])})
    return pa.table(left), pa.table(right)


def peers(left: pa.Table, right: pa.Table) -> dict[str, Callable[[], Any]]:
    calls: dict[str, Callable[[], Any]] = {}
    try:
        duckdb = importlib.import_module("duckdb").connect()
        duckdb.register("l", left)
        duckdb.register("r", right)
        duckdb.sql("set preserve_insertion_order = false")
        calls["duckdb"] = lambda: duckdb.sql("select k, a, b from l join r using (k)").to_arrow_table()
        polars = importlib.import_module("polars")
        frames = polars.from_arrow(left), polars.from_arrow(right)
        calls["polars"] = lambda: frames[0].join(frames[1], on="k")
    except ImportError as error:
        print(f"not measured: {error}", file=sys.stderr)
    return calls


def told(result: Any) -> tuple[int, int, int]:
    """What all results must have in common."""
    table = result if isinstance(result, pa.Table) else result.to_arrow()
    mixed = pc.multiply(table["a"].cast(pa.uint64()), table["b"].cast(pa.uint64()))
    return table.num_rows, pc.sum(table["b"]).as_py(), int(np.bitwise_xor.reduce(np.asarray(mixed)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, nargs=2, default=[1e6, 5e6], help="of the shorter and the longer table")
    parser.add_argument("--text", action="store_true", help="keys are text of 20 digits")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--machine", default="auto")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    left, right = tables(*map(int, options.rows), by_text=options.text)
    where: dict[str, Any] = {"machine": options.machine}
    there = linkwise.GpuTable(left, **where), linkwise.GpuTable(right, **where)
    calls: dict[str, Callable[[], Any]] = {
        "linkwise.join": lambda: linkwise.join(left, right, "k", **where),
        "linkwise, cores": lambda: linkwise.join(left, right, "k", strategy="cpu"),
        "GpuTable": lambda: linkwise.GpuTable(left, **where).join(linkwise.GpuTable(right, **where), "k").to_arrow(),
        "GpuTable, with keys there": lambda: there[0].join(there[1], "k").to_arrow(),
        **peers(left, right),
    }
    if len({told(call()) for call in calls.values()}) != 1:
        raise SystemExit("the results differ")
    seconds = times_in_turn(calls, options.repetitions, timed)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    print(", ".join(f"{name} {1e3 * median:.0f} ms" for name, median in medians.items()), flush=True)
    case = "join of Arrow tables" + " by text" * options.text
    rows = [left.num_rows, right.num_rows]
    with open_session(options.machine) as runtime:
        written = about(runtime.machine, simulated=runtime.simulated)
    written |= {"results": [{"case": case, "rows": rows, "seconds": seconds, "medians": medians}]}
    if options.output:
        options.output.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
