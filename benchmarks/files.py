"""From the user's file to the user's file: Linkwise, DuckDB and Polars, each a process of its own, in turn.

    python benchmarks/files.py --folder /dev/shm/bench --output build/bench/files.json

Every output is checked: its keys are those of the input in order, and its columns add up to the input's. Ratios are to
the better of the other two. Only ``linkwise sort`` with its defaults is called.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from linkwise.bench.results import commit, cores, now

RANDOM = np.random.default_rng(26)
DUCKDB = "import duckdb; c = duckdb.connect(); c.sql('set enable_progress_bar = false'); "


@dataclass
class Case:
    """What is sorted how; ``rows`` at scale 1. The programs find IN and OUT replaced."""

    name: str
    rows: int
    make: Callable[[int], pa.Table]
    linkwise: list[str]
    duckdb: str
    polars: str | None
    """Where there is no program for what is asked, there is none."""
    keys: list[tuple[str, str]]
    suffix: str = "parquet"
    limit: int | None = None
    """So many rows come out, the first ones,"""
    unique: bool = False
    """or one of each key,"""
    below: tuple[str, float] | None = None
    """of those whose column is below a bound."""


def orders(rows: int) -> pa.Table:
    return pa.table({
        "k": RANDOM.integers(0, 1 << 32, rows, dtype=np.uint32), "a": RANDOM.integers(-(1 << 62), 1 << 62, rows),
        "b": RANDOM.integers(0, 1 << 32, rows, dtype=np.uint32), "c": RANDOM.random(rows),
    })  # fmt: skip


def events(rows: int) -> pa.Table:
    cities = pa.array([f"city{at:06}" for at in range(100_000)])
    return pa.table({
        "s": cities.take(pa.array(RANDOM.integers(0, 100_000, rows))),
        "t": pa.array(RANDOM.integers(0, 10**15, rows), pa.timestamp("us")),
        "v": RANDOM.random(rows), "id": np.arange(rows),
    })  # fmt: skip


def pairs(rows: int) -> pa.Table:
    x, y = RANDOM.integers(0, 1000, rows), RANDOM.integers(0, 1000, rows)
    return pa.table({"x": x, "y": y, "z": RANDOM.random(rows)})


def flags(rows: int) -> pa.Table:
    return pa.table({"f": RANDOM.random(rows) < 0.3, "id": np.arange(rows)})


def in_order(rows: int) -> pa.Table:
    return pa.table({"id": np.arange(rows), "v": RANDOM.random(rows)})


def copy(select: str, kind: str = "parquet") -> str:
    how = "format parquet, compression snappy" if kind == "parquet" else "format csv, header"
    return f"c.sql(\"copy ({select}) to 'OUT' ({how})\")"


def polars(sort: str, kind: str = "parquet") -> str:
    how = "write_parquet('OUT', compression='snappy')" if kind == "parquet" else "write_csv('OUT')"
    read = "read_parquet('IN')" if kind == "parquet" else "read_csv('IN', try_parse_dates=True)"
    return f"import polars as pl; pl.{read}.{sort}.{how}"


def by(*names: str) -> list[tuple[str, str]]:
    return [(name, "ascending") for name in names]


BY_STRING = [("s", "ascending"), ("t", "descending")]
CASES = [
    Case("u32", 20_000_000, orders, ["-k", "k"], copy("from 'IN' order by k"), polars("sort('k')"), by("k")),
    Case(
        "string and timestamp", 10_000_000, events, ["-k", "s", "-k", "t:desc"], copy("from 'IN' order by s, t desc"),
        polars("sort('s', 't', descending=[False, True])"), BY_STRING,
    ),
    Case(
        "the 10 greatest", 20_000_000, orders, ["-k", "k:desc", "--limit", "10"],
        copy("from 'IN' order by k desc limit 10"),
        "import polars as pl; pl.scan_parquet('IN').top_k(10, by='k').sort('k', descending=True).collect()"
        ".write_parquet('OUT', compression='snappy')", [("k", "descending")], limit=10,
    ),
    Case(
        "CSV", 5_000_000, events, ["-k", "s", "-k", "t:desc"],
        copy("from 'IN' order by s, t desc", "csv"), polars("sort('s', 't', descending=[False, True])", "csv"),
        BY_STRING, suffix="csv",
    ),
    Case(
        "unique by two columns", 6_000_000, pairs, ["-u", "-k", "x", "-k", "y"],
        copy("select distinct on (x, y) * from 'IN' order by x, y"),
        polars("unique(['x', 'y'], keep='any').sort('x', 'y')"), by("x", "y"),
        unique=True,
    ),
    Case(
        "first 1,000 of 1 %", 10_000_000, events, ["-k", "t", "--filter", "v < 0.01", "--limit", "1000"],
        copy("from 'IN' where v < 0.01 order by t limit 1000"),
        "import polars as pl; pl.scan_parquet('IN').filter(pl.col('v') < 0.01).bottom_k(1000, by='t').sort('t')"
        ".collect().write_parquet('OUT', compression='snappy')", by("t"), limit=1000, below=("v", 0.01),
    ),
    Case("bools", 10_000_000, flags, ["-k", "f"], copy("from 'IN' order by f"), polars("sort('f')"), by("f")),
    Case(
        "in order already", 10_000_000, in_order, ["-k", "id"], copy("from 'IN' order by id"), polars("sort('id')"),
        by("id"),
    ),
    Case(
        "3 GB with 512 MiB", 125_000_000, orders, ["-k", "k", "-S", "512MiB", "-T", "SPILL"],
        "c.sql(\"set memory_limit = '512MiB'; set temp_directory = 'SPILL'\"); " + copy("from 'IN' order by k"), None,
        by("k"),
    ),
]  # fmt: skip


def run(command: list[str]) -> tuple[float, float, int]:
    """Seconds by the clock and of the processors, and the most bytes resident."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, used.ru_maxrss << 10


def sums(table: pa.Table) -> dict[str, Any]:
    """Of each column something that no order changes."""
    found = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if pa.types.is_floating(kind):
            found[name] = int(np.sum(column.to_numpy().view(np.uint64), dtype=np.uint64))
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            found[name] = pc.sum(pc.binary_length(column)).as_py()
        else:
            of_times = column.cast(pa.timestamp("us")) if pa.types.is_timestamp(kind) else column
            found[name] = int(np.sum(of_times.cast(pa.int64()).to_numpy().view(np.uint64), dtype=np.uint64))
    return found


def read(path: Path) -> pa.Table:
    return pq.read_table(path) if path.suffix == ".parquet" else pa.csv.read_csv(path)


def make(case: Case, scale: float, path: Path) -> int:
    """Write the input, and tell its rows."""
    table = case.make(int(case.rows * scale))
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=1 << 20)
    else:
        pa.csv.write_csv(table, path)
    return int(table.num_rows)


def check(case: Case, source: Path, path: Path) -> None:
    """The output's keys are in the input's order, and its columns have the input's values."""
    before, after = read(source), read(path)
    if case.below is not None:
        before = before.filter(pc.field(case.below[0]) < case.below[1])
    keys = before.select([name for name, _ in case.keys])
    if case.unique:
        keys = keys.group_by(keys.column_names).aggregate([])
    keys = keys.take(pc.sort_indices(keys, case.keys)[: case.limit])
    if not after.select(keys.column_names).cast(keys.schema).equals(keys):
        raise SystemExit(f"{case.name}: the keys of {path.name} are not those of the input, or not in order")
    if after.num_rows == before.num_rows and sums(after.select(before.column_names)) != sums(before):
        raise SystemExit(f"{case.name}: {path.name} has other values")


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns. A process counts from what the one that starts it holds: that is to be little."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def measure(case: Case, folder: Path, spill: Path, scale: float, repetitions: int) -> dict[str, Any]:
    source = folder / f"in.{case.suffix}"
    rows = in_own_process(make, case, scale, source)
    programs = {"linkwise": "", "duckdb": DUCKDB + case.duckdb, "polars": case.polars}
    out = {name: folder / f"out-{name}.{case.suffix}" for name, program in programs.items() if program is not None}

    def filled(text: str, name: str) -> str:
        places = {"IN": str(source), "OUT": str(out[name]), "SPILL": str(spill)}
        return re.sub("|".join(places), lambda found: places[found[0]], text)

    commands = {
        name: [sys.executable, "-c", filled(program, name)] for name, program in programs.items() if program is not None
    }
    ours = ["sort", "IN", "-o", "OUT", *case.linkwise]
    commands["linkwise"] = [sys.executable, "-m", "linkwise", *(filled(word, "linkwise") for word in ours)]
    told: dict[str, list[tuple[float, float, int]]] = {name: [] for name in commands}
    names = list(commands)
    for turn in range(repetitions + 1):  # the first warms up; each is the first as often as the others
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            told[name].append(run(commands[name]))
    for path in out.values():
        in_own_process(check, case, source, path)
    results = {
        name: {
            "seconds": [seconds for seconds, _, _ in runs[1:]], "median": statistics.median(run[0] for run in runs[1:]),
            "cpu_seconds": statistics.median(run[1] for run in runs[1:]), "peak_bytes": max(run[2] for run in runs[1:]),
            "bytes": out[name].stat().st_size,
        }
        for name, runs in told.items()
    }  # fmt: skip
    others = [result for name, result in results.items() if name != "linkwise"]
    better, smaller = (min(other[what] for other in others) for what in ("median", "bytes"))
    for path in (source, *out.values()):
        path.unlink()
    return {
        "case": case.name, "rows": rows, **results, "ratio": results["linkwise"]["median"] / better,
        "size_ratio": results["linkwise"]["bytes"] / smaller,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm/linkwise-bench"), help="best in memory")
    parser.add_argument("--spill", type=Path, default=Path("build/bench"), help="a disk")
    parser.add_argument("--scale", type=float, default=1.0, help="of the rows")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=[case.name for case in CASES])
    parser.add_argument("--output", type=Path, default=Path("build/bench/files.json"))
    options = parser.parse_args()
    for folder in (options.folder, options.spill):
        folder.mkdir(parents=True, exist_ok=True)
    results = []
    for case in CASES:
        if options.only and case.name not in options.only:
            continue
        result = measure(case, options.folder, options.spill, options.scale, options.repetitions)
        results.append(result)
        ran = [name for name in ("linkwise", "duckdb", "polars") if name in result]
        told = ", ".join(f"{name} {result[name]['median']:.2f} s" for name in ran)
        print(
            f"{case.name}: {told}; {result['ratio']:.2f} × the better, {result['size_ratio']:.3f} × its size",
            flush=True,
        )
    told = {"date": now(), "commit": commit(), "machine": cores(), "scale": options.scale, "results": results}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
