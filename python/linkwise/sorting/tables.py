"""Sorting Arrow tables: keys are sorted, then the other columns are gathered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from linkwise import _core
from linkwise._arrow import pa
from linkwise._typing import Array
from linkwise.columns.gather import ColumnsToGather, gather_on_gpus_if_faster, gather_rows, gather_sides
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.inside import column_named, outer_columns
from linkwise.columns.key_types import array_of_column, column_of_array, is_number
from linkwise.columns.packed_rows import PackedColumns, Unpack
from linkwise.columns.sort_keys import EVERYTHING, Selection, SortKey
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.host_memory import uninitialised
from linkwise.sorting.arrays import codes_of_array, is_first_of_equal
from linkwise.sorting.check import first_out_of_order
from linkwise.sorting.host_sort import report_of_cores, row_number_bytes, sort_keys
from linkwise.sorting.report import SortReport, Steps
from linkwise.sorting.row_keys import RowKeys

_FIRST_LOOK, _LOOK = 1 << 9, 1 << 18  # rows that are checked for order at a time


def _is_by_number(table: pa.Table, keys: list[SortKey]) -> bool:
    """Whether the only key is a numeric column, which is sorted directly and need not be gathered."""
    return len(keys) == 1 and is_number(column_named(table, keys[0].column).type)


def _is_by_present_number(table: pa.Table, keys: list[SortKey]) -> bool:
    """Whether the only key is a numeric column without nulls: its integer codes tie only where keys are equal."""
    return _is_by_number(table, keys) and not column_named(table, keys[0].column).null_count


class _Number:
    """A table's only key, which is numeric: its values, and the rows that are null."""

    def __init__(self, table: pa.Table, key: SortKey) -> None:
        self._column = column_named(table, key.column)
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
        """Row numbers of the table from those of the non-null values, with the null rows at their end."""
        if self._valid is None or self._null is None:
            return rows
        parts = [self._valid[rows], self._null]
        return np.concatenate(parts[::-1] if self._key.nulls_first else parts)

    def column(self, values: Array) -> pa.ChunkedArray:
        """The sorted column, from its sorted values and the nulls."""
        parts = [column_of_array(values, self._column.type)]
        if self._null is not None:
            parts.insert(0 if self._key.nulls_first else 1, pa.nulls(len(self._null), self._column.type))
        return pa.chunked_array([part for part in parts if len(part)], type=self._column.type)


class SortedTable:
    """A table's rows in sorted order, gathered on demand: all, or a part on any thread."""

    def __init__(
        self, table: pa.Table, rows: Array, report: SortReport, *, there: dict[int, pa.ChunkedArray] | None = None,
        nearby: tuple[dict[int, pa.ChunkedArray], Array] | None = None,
    ) -> None:  # fmt: skip
        self.report = report
        self.schema = table.schema
        self.row_bytes = _row_bytes(table)
        """Approximate bytes per row."""
        self._rows = rows
        self._there = there or {}  # columns that are in order already, by number
        self._nearby, self._places = nearby or ({}, rows)  # columns in nearly this order, row numbers in them
        self._others = dict(enumerate(table.columns))
        self._numbers: list[int] = []  # numbers of the columns that parts are gathered from
        self._to_gather = ColumnsToGather([])
        self._unpack: Unpack | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def prepare_parts(self, execution: ExecutionOptions, packed: PackedColumns | None = None) -> None:
        """To be called before ``part``. GPUs gather those columns for which they are faster than the cores.

        ``packed``: how the table's last column was packed. The cores gather and unpack it.
        """
        if packed is not None:
            self._unpack = packed.unpacker(self._others.pop(len(self.schema) - 1))
        self._gather_on_gpus(execution)
        self._numbers = [at for at in self._others if at not in self._there]
        self._to_gather = ColumnsToGather([self._nearby.get(at, self._others[at]) for at in self._numbers])

    def _gather_on_gpus(self, execution: ExecutionOptions) -> None:
        left = [at for at in self._others if at not in self._there]
        gathered = gather_on_gpus_if_faster([self._others[at] for at in left], self._rows, execution)
        self._there |= {left[at]: column for at, column in gathered.items()}

    def part(self, first: int, count: int) -> pa.Table:
        """The ``count`` rows from ``first`` on, gathered on the calling thread."""
        far, near = self._rows[first : first + count], self._places[first : first + count]
        gathered = self._to_gather.rows([near if at in self._nearby else far for at in self._numbers])
        there = {at: column.slice(first, count) for at, column in self._there.items()}
        columns = there | dict(zip(self._numbers, gathered, strict=True))
        return self._table(columns) if self._unpack is None else self._unpack(columns, far)

    def whole(self, execution: ExecutionOptions) -> pa.Table:
        """All rows, gathered by all cores, or by GPUs where these are faster."""
        self._gather_on_gpus(execution)
        near = {at: column for at, column in self._nearby.items() if at not in self._there}
        far = {at: column for at, column in self._others.items() if at not in self._there and at not in near}
        of_far, of_near = gather_sides([(list(far.values()), self._rows), (list(near.values()), self._places)])
        return self._table(self._there | dict(zip(far, of_far, strict=True)) | dict(zip(near, of_near, strict=True)))

    def _table(self, columns: dict[int, pa.ChunkedArray]) -> pa.Table:
        return pa.table([columns[at] for at in range(len(self.schema))], schema=self.schema)


def sort_table(
    table: pa.Table, keys: list[SortKey], execution: ExecutionOptions, selection: Selection = EVERYTHING
) -> tuple[pa.Table, SortReport]:
    """A new table in the order of the keys."""
    in_order = sorted_table(table, keys, execution, selection)
    steps = Steps()
    gathered = in_order.whole(execution)
    steps.end("rows")
    return gathered, in_order.report.after(steps)


def sorted_table(
    table: pa.Table, keys: list[SortKey], execution: ExecutionOptions, selection: Selection = EVERYTHING
) -> SortedTable:
    """A table in the order of the keys, whose rows are not gathered yet."""
    if not selection.is_everything:
        return SortedTable(table, *order_of_table(table, keys, execution, selection))
    if _is_by_number(table, keys):
        return _sorted_by_number(table, keys[0], execution)
    row_keys = RowKeys(table, keys)
    rows, report = row_keys.order(execution)
    report = replace(report, rows=table.num_rows, bytes=table.num_rows * _row_bytes(table))
    near, places = row_keys.columns_nearby()
    nearby = {table.column_names.index(name): column for name, column in near.items() if name in table.column_names}
    return SortedTable(table, rows, report, nearby=(nearby, rows if places is None else places))


def table_in_order(table: pa.Table, keys: list[SortKey], execution: ExecutionOptions) -> SortedTable | None:
    """The table as it is if its rows are in order already, and no GPUs and no plan are asked for; or ``None``."""
    steps = Steps()
    is_free = execution.says_nothing or (execution.plan is None and execution.on_cores)
    if not is_free or not table.num_rows or not is_in_order(table, keys):
        return None
    steps.end("sort")
    report = report_of_cores(table.num_rows, _row_bytes(table), steps.seconds, verified=execution.verify)
    there = dict(enumerate(table.columns))
    return SortedTable(table, np.empty(table.num_rows, np.uint8), report.after(steps), there=there)


def is_in_order(table: pa.Table, keys: list[SortKey]) -> bool:
    """Whether a table is in order already; stops at the first rows that are not."""
    leaves_no_ties = _is_by_present_number(table, keys)
    rows = table.num_rows
    for first, end in [(0, _FIRST_LOOK), *((at, at + _LOOK) for at in range(_FIRST_LOOK, rows, _LOOK))]:
        part = table.slice(max(first - 1, 0), end - max(first - 1, 0))
        if leaves_no_ties:
            words = _first_words(part, keys)
            is_in_order = bool((words[1:] >= words[:-1]).all())
        else:
            is_in_order = first_out_of_order(part, keys) is None
        if not is_in_order:
            return False
    return True


def _sorted_by_number(table: pa.Table, key: SortKey, execution: ExecutionOptions) -> SortedTable:
    steps = Steps()
    number = _Number(table, key)
    sorted_values = uninitialised(len(number.values), number.values.dtype)
    is_column = key.column in table.column_names
    width = row_number_bytes(table.num_rows) if table.num_columns > 1 or not is_column else 0
    steps.end("keys")
    by_number, report = sort_keys(
        number.values, execution, descending=key.descending, out_keys=sorted_values, row_number_bytes=width,
        row_bytes=_row_bytes(table),
    )  # fmt: skip
    steps.end("sort")
    column = number.column(sorted_values)
    rows = number.place_nulls(by_number) if by_number is not None else np.empty(table.num_rows, np.uint8)
    report = replace(report, rows=table.num_rows).after(steps)  # including rows whose key is null
    return SortedTable(table, rows, report, there={table.column_names.index(key.column): column} if is_column else {})


def order_of_table(
    table: pa.Table, keys: list[SortKey], execution: ExecutionOptions, selection: Selection = EVERYTHING
) -> tuple[Array, SortReport]:
    """The row numbers that sort a table stably, or the selected ones of them."""
    if selection.may_skip(table.num_rows):
        assert selection.limit is not None
        candidates = candidates_for(table, keys, selection.limit)
        columns = outer_columns([key.column for key in keys], table.column_names)
        rows, report = _order_of_rows(gather_rows(table.select(columns), candidates), keys, execution)
        rows = candidates[rows]
    elif selection.unique:
        row_keys = RowKeys(table, keys)
        rows, words, report = row_keys.order_and_words(execution)
        steps = Steps()
        # Words are returned only if they tell all keys apart.
        rows = rows[row_keys.core.starts_of_runs(rows) if words is None else is_first_of_equal(words)]
        steps.end("ties")
        report = report.after(steps)
    else:
        rows, report = _order_of_rows(table, keys, execution)
    row_bytes = _row_bytes(table)
    return rows[: selection.limit], replace(report, rows=table.num_rows, bytes=table.num_rows * row_bytes)


def candidates_for(table: pa.Table, keys: list[SortKey], limit: int) -> Array:
    """Positions of rows among which are the first ``limit`` of the sorted table, in ascending order."""
    if not Selection(limit=limit).may_skip(table.num_rows):
        return np.arange(table.num_rows)
    return _core.positions_of_least(_first_words(table, keys), limit)


def _first_words(table: pa.Table, keys: list[SortKey]) -> Array:
    """Unsigned key prefixes in key order, in which different keys may tie."""
    if not _is_by_present_number(table, keys):
        return RowKeys(table, keys).words()
    return codes_of_array(array_of_column(column_named(table, keys[0].column)), descending=keys[0].descending)


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
