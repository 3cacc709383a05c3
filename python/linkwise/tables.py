"""Arrow tables by one of their columns: nulls apart, and the other columns gathered behind the key."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linkwise._core import UsageError
from linkwise.host_sorting import Array, row_number_bytes, sort_keys
from linkwise.keys import array_of_column, column_of_array, is_rebuilt
from linkwise.planning import Request
from linkwise.sort_report import SortReport


def check_nulls(nulls: str) -> None:
    """Raise ``UsageError`` unless it is an end of a table."""
    if nulls not in ("first", "last"):
        raise UsageError(f"nulls is 'first' or 'last', not {nulls!r}")


def split_nulls(table: pa.Table, by: str | None) -> tuple[pa.ChunkedArray, Array | None, Array | None]:
    """The column without nulls, the rows that those come from, and the rows of the nulls; None for all and none."""
    if by is None:
        raise UsageError(f"by= must name a column: {', '.join(map(repr, table.column_names))}")
    if by not in table.column_names:
        raise UsageError(f"there is no column '{by}'; there are {', '.join(map(repr, table.column_names))}")
    column = table[by]
    if column.null_count == 0:
        return column, None, None
    is_null = column.is_null().to_numpy()
    return column.drop_null(), np.flatnonzero(~is_null), np.flatnonzero(is_null)


def place_nulls(rows: Array, valid_rows: Array | None, null_rows: Array | None, nulls: str) -> Array:
    """Rows of the table from rows of its column without nulls, with those of the nulls at their end."""
    if valid_rows is None or null_rows is None:
        return rows
    parts = [valid_rows[rows], null_rows]
    return np.concatenate(parts if nulls == "last" else parts[::-1])


def _take(table: pa.Table, rows: Array, columns: list[str]) -> dict[str, pa.ChunkedArray | pa.Array]:
    indices = pa.array(rows)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # A column in one piece is gathered several times faster than one in many.
        taken = pool.map(lambda name: pc.take(table[name].combine_chunks(), indices), columns)
        return dict(zip(columns, taken, strict=True))


def sort_table(table: pa.Table, by: str | None, request: Request, nulls: str) -> tuple[pa.Table, SortReport]:
    """A new table in the order of a column."""
    column, valid_rows, null_rows = split_nulls(table, by)
    assert by is not None
    keys = array_of_column(column, by)
    rebuilt = is_rebuilt(column.type)
    sorted_keys = np.empty_like(keys) if rebuilt else None
    others = [name for name in table.column_names if name != by or not rebuilt]
    width = row_number_bytes(table.num_rows) if others else 0
    row_bytes = table.nbytes // max(table.num_rows, 1)
    rows, report = sort_keys(keys, request, out_keys=sorted_keys, row_number_bytes=width, row_bytes=row_bytes)
    columns: dict[str, Any] = {}
    if sorted_keys is not None:
        key_parts = [column_of_array(sorted_keys, column.type)]
        if null_rows is not None:
            key_parts.insert(0 if nulls == "first" else 1, pa.nulls(len(null_rows), column.type))
        columns[by] = pa.chunked_array(key_parts)
    if rows is not None:
        columns |= _take(table, place_nulls(rows, valid_rows, null_rows, nulls), others)
    report = replace(report, rows=table.num_rows)  # with those that have no key
    return pa.table([columns[name] for name in table.column_names], schema=table.schema), report
