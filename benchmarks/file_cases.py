"""What ``files.py`` measures: tables, how each program is told to sort or join them, and what must come out."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

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
    """``None`` if Polars cannot do it."""
    keys: list[tuple[str, str]]
    suffix: str = "parquet"
    limit: int | None = None
    """Only this many rows come out, the first ones."""
    unique: bool = False
    """Only one row of each key comes out."""
    below: tuple[str, float] | None = None
    """Only rows come out whose column is below a bound."""
    on: str = "any"
    """``"gpus"``: only on machines with GPUs, which have many cores."""
    warm: bool = False
    """All runs of each program in one process of its own, of which the first is not counted."""
    right: Callable[[int], pa.Table] | None = None
    """The other table of a join, of ``right_rows`` times the scale; its programs find RIGHT replaced as well."""
    right_rows: int = 0
    each_has_one_match: bool = True
    """Of a join: each row of the left table is in one row of the result."""


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


def lines(rows: int) -> pa.Table:
    return pa.table({"k": RANDOM.integers(0, rows // 10, rows), "a": RANDOM.integers(0, 1 << 40, rows),
                     "x": RANDOM.random(rows)})  # fmt: skip


def heads(rows: int) -> pa.Table:
    return pa.table({"k": RANDOM.permutation(rows), "b": RANDOM.integers(0, 1 << 30, rows, dtype=np.int32),
                     "y": RANDOM.random(rows)})  # fmt: skip


def others(rows: int) -> pa.Table:
    return heads(rows).rename_columns(["k", "c", "z"])


def skewed(rows: int) -> pa.Table:
    keys = np.where(RANDOM.random(rows) < 0.1, 7, RANDOM.integers(0, 2_000_000, rows))
    return pa.table({"k": keys, f"v{rows % 97}": np.arange(rows)})


def ten_columns(rows: int) -> pa.Table:
    from tables import make_table  # noqa: PLC0415 - beside this file, and it loads what no other case needs

    return make_table(rows * 96 / (1 << 30))


def line_items(rows: int) -> pa.Table:
    """TPC-H's table at the scale factor that has about so many rows."""
    generator = shutil.which("tpchgen-cli") or str(Path(sys.executable).with_name("tpchgen-cli"))
    with tempfile.TemporaryDirectory() as folder:
        command = [generator, "parquet", "-s", f"{rows / 6_000_000:g}", "--tables=lineitem", f"--output-dir={folder}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        table = pq.read_table(folder)
    plain = [field.with_type(pa.string()) if pa.types.is_string_view(field.type) else field for field in table.schema]
    return table.cast(pa.schema(plain))


def copy(select: str, kind: str = "parquet") -> str:
    how = "format parquet, compression snappy" if kind == "parquet" else "format csv, header"
    return f"c.sql(\"copy ({select}) to 'OUT' ({how})\")"


def polars(sort: str, kind: str = "parquet") -> str:
    how = "write_parquet('OUT', compression='snappy')" if kind == "parquet" else "write_csv('OUT')"
    read = "read_parquet('IN')" if kind == "parquet" else "read_csv('IN', try_parse_dates=True)"
    return f"import polars as pl; pl.{read}.{sort}.{how}"


def duckdb_join(select: str, kind: str = "parquet") -> str:
    return "c.sql('set preserve_insertion_order = false'); " + copy(select, kind)


def polars_join(then: str, kind: str = "parquet") -> str:
    return f"import polars as pl; pl.scan_{kind}('IN').join(pl.scan_parquet('RIGHT'), on='k', {then}"


WRITTEN = ".sink_parquet('OUT', compression='snappy')"
COUNT = "print(c.sql(\"select count(*) from 'IN' join 'RIGHT' using (k)\").fetchall())"


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
        "60 million u32", 60_000_000, orders, ["-k", "k"], copy("from 'IN' order by k"), polars("sort('k')"), by("k"),
        on="gpus",
    ),
    Case(
        "60 million u32, warm, radix", 60_000_000, orders, ["by='k', strategy='radix'"],
        copy("from 'IN' order by k"), polars("sort('k')"), by("k"), on="gpus", warm=True,
    ),
    Case(
        "10 GB of ten columns", 104_000_000, ten_columns, ["-k", "name", "-k", "at:desc"],
        copy("from 'IN' t order by t.name, t.at desc"), polars("sort('name', 'at', descending=[False, True])"),
        [("name", "ascending"), ("at", "descending")], on="gpus",
    ),
    Case(
        "TPC-H lineitem", 60_000_000, line_items, ["-k", "l_shipdate", "-k", "l_orderkey"],
        copy("from 'IN' order by l_shipdate, l_orderkey"), polars("sort('l_shipdate', 'l_orderkey')"),
        by("l_shipdate", "l_orderkey"), on="gpus",
    ),
    Case(
        "3 GB with 512 MiB", 125_000_000, orders, ["-k", "k", "-S", "512MiB", "-T", "SPILL"],
        "c.sql(\"set memory_limit = '512MiB'; set temp_directory = 'SPILL'\"); " + copy("from 'IN' order by k"), None,
        by("k"),
    ),
    Case(
        "join", 20_000_000, lines, ["--on", "k"],
        duckdb_join("select l.*, r.b, r.y from 'IN' l join 'RIGHT' r using (k)"), polars_join("how='inner')" + WRITTEN),
        [], right=heads, right_rows=2_000_000,
    ),
    Case(
        "join of CSV", 5_000_000, lines, ["--on", "k"],
        duckdb_join("select l.*, r.b, r.y from 'IN' l join 'RIGHT' r using (k)", "csv"),
        polars_join("how='inner').sink_csv('OUT')", "csv"), [], suffix="csv", right=heads, right_rows=500_000,
    ),
    Case(
        "join at a quarter of the memory", 20_000_000, heads, ["--on", "k", "-S", "300MiB", "-T", "SPILL"],
        "c.sql(\"set memory_limit = '300MiB'; set temp_directory = 'SPILL'\"); "
        + duckdb_join("select l.*, r.c, r.z from 'IN' l join 'RIGHT' r using (k)"), None,
        [], right=others, right_rows=20_000_000,
    ),
    Case(
        "semi join with 1 %", 20_000_000, lines, ["--on", "k", "--how", "semi"],
        duckdb_join("select * from 'IN' semi join 'RIGHT' using (k)"), polars_join("how='semi')" + WRITTEN),
        [], right=heads, right_rows=20_000, each_has_one_match=False,
    ),
    Case(
        "one key is 10 % of both sides, counted", 2_000_000, skewed, ["--on", "k", "--count"],
        COUNT, polars_join("how='inner').select(pl.len()).collect().item()"),
        [], right=skewed, right_rows=200_000, each_has_one_match=False,
    ),
    Case(
        "join of 60 with 6 million", 60_000_000, lines, ["--on", "k"],
        duckdb_join("select l.*, r.b, r.y from 'IN' l join 'RIGHT' r using (k)"), polars_join("how='inner')" + WRITTEN),
        [], right=heads, right_rows=6_000_000, on="gpus",
    ),
]  # fmt: skip
