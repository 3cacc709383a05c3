"""Compares the swarm's oracle with DuckDB and Polars, where they are installed and promise the same order.

Neither orders the two zeros as IEEE 754's total order does, or knows half floats and ordered dictionaries: columns of
such types are left to NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from swarm_data import Integers, in_order


class DisagreementError(AssertionError):
    """The oracle disagrees with a peer."""


def _is_common(kind: pa.DataType) -> bool:
    checks = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_timestamp, pa.types.is_date,
              pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)  # fmt: skip
    return any(check(kind) for check in checks)


@cache
def _peers() -> tuple[ModuleType, ModuleType] | None:
    try:
        import duckdb  # noqa: PLC0415
        import polars  # noqa: PLC0415
    except ImportError:
        return None
    return duckdb, polars


@cache
def _connection() -> Any:
    peers = _peers()
    assert peers is not None
    connection = peers[0].connect(config={"threads": 1})
    connection.execute("set enable_progress_bar = false")
    return connection


def _can_answer(keys: Sequence[pa.ChunkedArray]) -> bool:
    return _peers() is not None and all(_is_common(column.type) for column in keys)


def _numbered(keys: Sequence[pa.ChunkedArray]) -> pa.Table:
    names = [f"k{at}" for at in range(len(keys))]
    return pa.table(dict(zip(names, keys, strict=True)) | {"row": pa.array(np.arange(len(keys[0])))})


def agree_on_order(
    keys: Sequence[pa.ChunkedArray], descending: Sequence[bool], nulls: Sequence[str], order: Integers
) -> None:
    """Raise unless both peers bring the rows into that order."""
    if not _can_answer(keys):
        return
    peers = _peers()
    assert peers is not None
    rows, names = _numbered(keys), [f"k{at}" for at in range(len(keys))]
    by = ", ".join(
        f"{name} {'desc' if turned else 'asc'} nulls {end}"
        for name, turned, end in zip(names, descending, nulls, strict=True)
    )
    found = _connection().execute(f"select row from rows order by {by}, row").to_arrow_table()["row"].to_numpy()
    if not np.array_equal(found, order):
        raise DisagreementError(f"DuckDB orders rows by {by} otherwise")
    frame = peers[1].from_arrow(rows)
    last = [end == "last" for end in nulls]
    found = frame.sort(names, descending=list(descending), nulls_last=last, maintain_order=True)["row"].to_numpy()
    if not np.array_equal(found, order):
        raise DisagreementError(f"Polars orders rows by {by} otherwise")


def agree_on_pairs(
    left: Sequence[pa.ChunkedArray], right: Sequence[pa.ChunkedArray], how: str, *, nulls_equal: bool, pairs: Integers
) -> None:
    """Raise unless DuckDB finds the same pairs."""
    if not _can_answer([*left, *right]):
        return
    a, b = _numbered(left), _numbered(right)  # the query refers to them by name
    assert a.column_names == b.column_names
    same = "is not distinct from" if nulls_equal else "="
    on = " and ".join(f"a.k{at} {same} b.k{at}" for at in range(len(left)))
    second = "-1" if how in ("semi", "anti") else "coalesce(b.row, -1)"
    query = f"select coalesce(a.row, -1) as l, {second} as r from a {how} join b on {on}"
    found = _connection().execute(query).to_arrow_table()
    as_pairs = np.column_stack([found["l"].to_numpy(), found["r"].to_numpy()]).astype(np.int64)
    if not np.array_equal(in_order(as_pairs), in_order(pairs)):
        raise DisagreementError(f"DuckDB finds {len(found)} pairs of a {how} join or other ones, and not {len(pairs)}")
