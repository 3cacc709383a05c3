"""Arrow tables in the order of their keys: the other columns are gathered behind them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from linkwise import _core
from linkwise._arrow import pa
from linkwise._typing import Array
from linkwise.columns.gather import gather_columns, gather_rows
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.key_types import array_of_column, column_of_array, is_number
from linkwise.columns.sort_keys import EVERYTHING, Selection, SortKey
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.host_memory import uninitialised
from linkwise.sorting.host_sort import row_number_bytes, sort_keys
from linkwise.sorting.report import SortReport, Steps
from linkwise.sorting.row_keys import RowKeys


def _is_by_number(table: pa.Table, keys: list[SortKey]) -> bool:
    """Whether the key is one number, which is sorted as it is and not gathered afterwards."""
    return len(keys) == 1 and is_number(table[keys[0].column].type)


class _Number:
    """The only key of a table, where it is a number: its values, and which rows have none."""

    def __init__(self, table: pa.Table, key: SortKey) -> None:
        self._column = table[key.column]
        self._key = key
        self._valid: Array | None = None
        self._null: Array | None = None
        present = self._column
        if self._column.null_count:
            is_null = self._column.is_null().to_numpy()
            present = self._column.drop_null()
            self._valid, self._null = np.flatnonzero(~is_null), np.flatnonzero(is_null)
        self.values = array_of_column(present)

    def place_nulls(self, rows: Array) -> Array:
        """Rows of the table from rows of its values, with those of the nulls at their end."""
        if self._valid is None or self._null is None:
            return rows
        parts = [self._valid[rows], self._null]
        return np.concatenate(parts[::-1] if self._key.nulls_first else parts)

    def column(self, values: Array) -> pa.ChunkedArray:
        """The column again, from its sorted values."""
        parts = [column_of_array(values, self._column.type)]
        if self._null is not None:
            parts.insert(0 if self._key.nulls_first else 1, pa.nulls(len(self._null), self._column.type))
        return pa.chunked_array([part for part in parts if len(part)], type=self._column.type)


def sort_table(
    table: pa.Table, keys: list[SortKey], execution: ExecutionOptions, selection: Selection = EVERYTHING
) -> tuple[pa.Table, SortReport]:
    """A new table in the order of the keys."""
    if not selection.is_everything:
        rows, report = order_of_table(table, keys, execution, selection)
        steps = Steps()
        gathered = gather_rows(table, rows, execution)
        steps.end("rows")
        return gathered, report.after(steps)
    if not _is_by_number(table, keys):
        return _sort_by_row_keys(table, keys, execution)
    steps = Steps()
    number = _Number(table, keys[0])
    sorted_values = uninitialised(len(number.values), number.values.dtype)
    width = row_number_bytes(table.num_rows) if table.num_columns > 1 else 0
    steps.end("keys")
    by_number, report = sort_keys(
        number.values,
        execution,
        descending=keys[0].descending,
        out_keys=sorted_values,
        row_number_bytes=width,
        row_bytes=_row_bytes(table),
    )
    steps.end("sort")
    columns = [number.column(sorted_values)]
    at = table.column_names.index(keys[0].column)
    if by_number is not None:
        others = gather_columns(table.remove_column(at).columns, number.place_nulls(by_number), execution)
        columns = [*others[:at], *columns, *others[at:]]
    steps.end("rows")
    report = replace(report, rows=table.num_rows)  # with those without a key
    return pa.table(columns, schema=table.schema), report.after(steps)


def _sort_by_row_keys(table: pa.Table, keys: list[SortKey], execution: ExecutionOptions) -> tuple[pa.Table, SortReport]:
    row_keys = RowKeys(table, keys)
    rows, report = row_keys.order(execution)
    steps = Steps()

    def nearby() -> dict[int, pa.ChunkedArray]:
        return {table.column_names.index(name): column for name, column in row_keys.columns_in_order().items()}

    columns = gather_columns(table.columns, rows, execution, nearby)
    steps.end("rows")
    report = replace(report, rows=table.num_rows, bytes=table.num_rows * _row_bytes(table))
    return pa.table(columns, schema=table.schema), report.after(steps)


def order_of_table(
    table: pa.Table, keys: list[SortKey], execution: ExecutionOptions, selection: Selection = EVERYTHING
) -> tuple[Array, SortReport]:
    """The row numbers that sort a table stably, or those of them that are wanted."""
    if selection.may_skip(table.num_rows):
        assert selection.limit is not None
        candidates = _core.positions_of_least(RowKeys(table, keys).words(), selection.limit)
        columns = list(dict.fromkeys(key.column for key in keys))
        rows, report = _order_of_rows(gather_rows(table.select(columns), candidates), keys, execution)
        rows = candidates[rows]
    elif selection.unique:
        row_keys = RowKeys(table, keys)
        rows, report = row_keys.order(execution)
        rows = rows[row_keys.core.starts_of_runs(rows)]
    else:
        rows, report = _order_of_rows(table, keys, execution)
    row_bytes = _row_bytes(table)
    return rows[: selection.limit], replace(report, rows=table.num_rows, bytes=table.num_rows * row_bytes)


def _row_bytes(table: pa.Table) -> int:
    return bytes_of(table) // max(int(table.num_rows), 1)


def _order_of_rows(table: pa.Table, keys: list[SortKey], execution: ExecutionOptions) -> tuple[Array, SortReport]:
    if not _is_by_number(table, keys):
        return RowKeys(table, keys).order(execution)
    number = _Number(table, keys[0])
    rows, report = sort_keys(
        number.values,
        execution,
        descending=keys[0].descending,
        out_keys=None,
        row_number_bytes=row_number_bytes(table.num_rows),
    )
    assert rows is not None
    return number.place_nulls(rows), report
