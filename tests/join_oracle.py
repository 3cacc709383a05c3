"""Sides of joins, and what DuckDB makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HOWS = ("inner", "left", "right", "full", "semi", "anti")
KEYS = ("int64", "int8", "uint32", "float64", "string", "bool", "timestamp", "decimal", "two columns", "dense")


def keys_of(kind: str, rows: int, seed: int) -> list[pa.Array]:
    values = np.random.default_rng(seed).integers(-60, 60, rows)
    nulls = np.random.default_rng(seed + 1).random(rows) < 0.05
    if kind == "two columns":
        return [pa.array(values // 10, pa.int32(), mask=nulls), pa.array([f"t{value % 7}" for value in values])]
    if kind == "string":
        return [pa.array([f"a long key, number {value}" for value in values], mask=nulls)]
    if kind == "timestamp":
        return [pa.array(values * 10**15, pa.timestamp("us"), mask=nulls)]
    if kind == "decimal":
        return [pa.array(values, pa.int64(), mask=nulls).cast(pa.decimal128(30, 2))]
    if kind == "bool":
        return [pa.array(values > 0, mask=nulls)]
    if kind == "dense":
        return [pa.array(np.arange(rows) + 5)]
    if kind == "float64":
        return [pa.array(np.where(values == 7, -0.0, np.where(values == 8, 0.0, values / 3)), mask=nulls)]
    return [pa.array(values % 100 if kind.startswith("u") else values, pa.type_for_alias(kind), mask=nulls)]


def side(kind: str, rows: int, seed: int, payload: str) -> pa.Table:
    columns = keys_of(kind, rows, seed)
    return pa.table({f"k{at}": column for at, column in enumerate(columns)} | {
        payload: np.arange(rows), f"{payload} text": [f"{payload}{row}" for row in range(rows)],
    })  # fmt: skip


def oracle(left: pa.Table, right: pa.Table, how: str, *, nulls_equal: bool = False) -> list[tuple[Any, ...]]:
    keys = [name for name in left.column_names if name.startswith("k")]
    equal = "is not distinct from" if nulls_equal else "="
    condition = " and ".join(f"l.{name} {equal} r.{name}" for name in keys)
    both = ", ".join(
        [
            *(f"coalesce(l.{name}, r.{name})" if how in ("right", "full") else f"l.{name}" for name in keys),
            *('l."a"', 'l."a text"', 'r."b"', 'r."b text"'),
        ]
    )
    if how in ("semi", "anti"):
        exists = "exists" if how == "semi" else "not exists"
        query = f"select * from l where {exists} (select 1 from r where {condition})"
    else:
        query = f"select {both} from l {how if how != 'full' else 'full outer'} join r on {condition}"
    connection = duckdb.connect()
    connection.register("l", left)
    connection.register("r", right)
    return in_any_order(connection.sql(query).fetchall())


def in_any_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows that can be compared; either zero may stand for both."""
    return sorted((tuple(v + 0.0 if isinstance(v, float) else v for v in row) for row in rows), key=repr)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return in_any_order(zip(*table.to_pydict().values(), strict=True)) if table.num_rows else []


def written(tmp_path: Path, left: pa.Table, right: pa.Table, group: int = 64) -> tuple[Path, Path]:
    paths = tmp_path / "l.parquet", tmp_path / "r.parquet"
    for path, table in zip(paths, (left, right), strict=True):
        pq.write_table(table, path, row_group_size=group)
    return paths
