"""Gathering rows by their numbers, on the GPUs or on all cores."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

import numpy as np

from linkwise import _core
from linkwise._arrow import pa
from linkwise._core import OutOfMemoryError
from linkwise._typing import Rows
from linkwise.columns.gather_pyarrow import gather_by_pyarrow, in_one_piece
from linkwise.columns.key_types import arrow_of_numbers
from linkwise.exceptions import FallbackWarning, warn_caller
from linkwise.runtime.execution import ExecutionOptions, gpus_of, memory_limit_of
from linkwise.runtime.session import gpus_have_started, open_session, run_interruptibly

_LONG_CHUNK = 1 << 20  # rows per chunk, on average, that gathers need not have in fewer chunks
_WORTH_A_COPY = 1 << 12  # rows per chunk, on average, for GPUs to gather a column
_MOST_OF_NARROW = 1 << 31  # bytes of strings and their 32-bit offsets; of more, the cores make several chunks
_MANY_ROWS = 1 << 22  # for more, columns are gathered one by one, and Ctrl-C is noticed in between
_WORTH_THE_GPUS = 1 << 20  # rows; the cores gather fewer in less time than planning takes


def _gather(column: pa.ChunkedArray, rows: Rows | None) -> list[pa.Array] | None:
    """Rows of a column, or all, in as few pieces as offsets allow; ``None`` for types that the core lacks."""
    try:
        gathered = _core.gather_column(filled_chunks(column), rows)
    except OverflowError:
        if rows is None or len(rows) <= 1:
            return None
        half = len(rows) // 2
        return (_gather(column, rows[:half]) or []) + (_gather(column, rows[half:]) or [])
    if gathered is None:
        return None
    return [array_of(cast(tuple[Any, ...], gathered), column.type, len(column) if rows is None else len(rows))]


def filled_chunks(column: pa.ChunkedArray) -> list[pa.Array]:
    """The chunks that have rows."""
    return [chunk for chunk in column.chunks if len(chunk)]


def array_of(gathered: tuple[Any, ...], kind: pa.DataType, count: int) -> pa.Array:
    """An Arrow array from the null count and the buffers that the core has made."""
    nulls, *buffers = gathered
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    validity, offsets, values = (None if buffer is None else pa.py_buffer(buffer) for buffer in buffers)
    parts = [validity, values] if offsets is None else [validity, offsets, values]
    array = pa.Array.from_buffers(storage, count, parts, null_count=nulls)
    return kind.wrap_array(array) if storage is not kind else array


def one_array(column: pa.ChunkedArray) -> pa.Array | None:
    """A column's chunks as one array, copied on all cores; ``None`` where that cannot be."""
    if column.num_chunks == 1:
        return column.chunk(0)
    pieces = _gather(column, None)
    return None if pieces is None else pieces[0]


def in_one_array(column: pa.ChunkedArray) -> pa.Array:
    """As ``one_array``, for a column of any type; strings get 64-bit offsets where 32 bits are too few."""
    whole = one_array(column)
    if whole is not None:
        return whole
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return in_one_array(column.cast(pa.large_string() if pa.types.is_string(column.type) else pa.large_binary()))
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)


def with_long_chunks(table: pa.Table) -> pa.Table:
    """The table with short chunks copied into one, on all cores, so that it can be gathered from often.

    Each gather hands over every chunk, for which threads wait for the interpreter's lock.
    """

    def long(column: pa.ChunkedArray) -> pa.ChunkedArray:
        if column.num_chunks <= 1 or len(column) >= column.num_chunks * _LONG_CHUNK:
            return column
        whole = one_array(column)
        return column if whole is None else pa.chunked_array([whole], type=column.type)

    return pa.table([long(column) for column in table.columns], schema=table.schema) if table.num_columns else table


def gather_columns_on_gpus(
    runtime: _core.Runtime, gpus: list[int], columns: list[pa.ChunkedArray], rows: Rows
) -> list[pa.ChunkedArray]:
    """As ``gather_columns``, on GPUs, for columns that are not empty and whose type the core supports.

    Raises ``OverflowError`` if strings take more bytes than their offsets can address.
    """
    if not columns or not len(rows):
        return [pa.chunked_array([], type=column.type) for column in columns]
    chunks = [filled_chunks(column) for column in columns]
    gathered = cast(list[tuple[Any, ...]], _core.gather_columns_on_gpus(runtime, gpus, chunks, rows))
    return [
        pa.chunked_array([array_of(parts, column.type, len(rows))], type=column.type)
        for column, parts in zip(columns, gathered, strict=True)
    ]


def _gpus_may_gather(rows: Rows, execution: ExecutionOptions) -> bool:
    """Whether GPUs may be used at all; they are not started just to gather."""
    if execution.strategy == "cpu" or len(rows) < _WORTH_THE_GPUS:
        return False
    return gpus_have_started() if execution.says_nothing else not execution.on_cores


def _is_for_gpus(column: pa.ChunkedArray) -> bool:
    """Whether GPUs can gather a column: a supported type, large chunks, and few enough bytes for its offsets."""
    if len(column) < column.num_chunks * _WORTH_A_COPY or not len(column) or not _core.gathers_on_gpus(column.type):
        return False
    return not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)) or column.nbytes < _MOST_OF_NARROW


def gpus_gather_faster(columns: list[pa.ChunkedArray], rows: int, execution: ExecutionOptions) -> bool:
    """Whether GPUs would gather so many rows of these columns faster than the cores, by the machine's model."""
    chosen = [column for column in columns if _is_for_gpus(column)]
    with open_session(execution.machine) as runtime:
        gpus = gpus_of(runtime.machine, execution.gpus)
        return _are_faster(runtime, gpus, chosen, np.empty(rows, np.uint32), execution)


def _are_faster(
    runtime: _core.Runtime, gpus: list[int], columns: list[pa.ChunkedArray], rows: Rows, execution: ExecutionOptions
) -> bool:
    """The same for row numbers, of which only the number and the width matter."""
    limit = memory_limit_of(execution, runtime.machine)
    chunks = [filled_chunks(column) for column in columns]
    on_gpus, on_cores = _core.price_of_gather(runtime.machine, gpus, limit, chunks, rows)
    return on_gpus < on_cores and runtime.reach_each_other(gpus)


def gather_on_gpus_if_faster(
    columns: list[pa.ChunkedArray], rows: Rows, execution: ExecutionOptions
) -> dict[int, pa.ChunkedArray]:
    """The gathered columns, by number, if GPUs gather them faster than the cores; otherwise none."""
    if not _gpus_may_gather(rows, execution):
        return {}
    wanted = [at for at, column in enumerate(columns) if _is_for_gpus(column)]
    chosen = [columns[at] for at in wanted]
    with open_session(execution.machine) as runtime:
        gpus = gpus_of(runtime.machine, execution.gpus)
        if not _are_faster(runtime, gpus, chosen, rows, execution):
            return {}
        runtime.set_memory_limit(memory_limit_of(execution, runtime.machine))
        try:
            found = run_interruptibly(runtime, lambda: gather_columns_on_gpus(runtime, gpus, chosen, rows))
        except OverflowError:  # the cores gather into several chunks
            return {}
        except OutOfMemoryError as error:
            warn_caller(f"{error}: rows are gathered on the cores", FallbackWarning)
            return {}
    return dict(zip(wanted, found, strict=True))


def gather_columns(
    columns: list[pa.ChunkedArray], rows: Rows, execution: ExecutionOptions | None = None
) -> list[pa.ChunkedArray]:
    """Gather these rows of columns of any type, in order. Row -1 gives a null.

    On all cores, or on the GPUs that ``execution`` allows where these are faster.
    """
    gathered = {} if execution is None else gather_on_gpus_if_faster(columns, rows, execution)
    return _gather_on_cores(columns, [rows] * len(columns), gathered)


def gather_sides(
    sides: list[tuple[list[pa.ChunkedArray], Rows]], execution: ExecutionOptions | None = None
) -> list[list[pa.ChunkedArray]]:
    """``gather_columns`` for several tables, each with its own, equally many rows; in one call where they are few."""
    if any(_gpus_may_gather(rows, execution) for _, rows in sides if execution is not None):
        return [gather_columns(columns, rows, execution) for columns, rows in sides]
    of_columns = [rows for columns, rows in sides for _ in columns]
    gathered = iter(_gather_on_cores([column for columns, _ in sides for column in columns], of_columns, {}))
    return [[next(gathered) for _ in columns] for columns, _ in sides]


def _gather_on_cores(
    columns: list[pa.ChunkedArray], rows: list[Rows], there: dict[int, pa.ChunkedArray]
) -> list[pa.ChunkedArray]:
    """Gather rows of each column, except for those that are in ``there``, by number."""
    there = there | _gather_at_once(columns, rows, there.keys())
    return [
        there[at] if at in there else pa.chunked_array(_gather_alone(column, of_column), type=column.type)
        for at, (column, of_column) in enumerate(zip(columns, rows, strict=True))
    ]


def _gather_at_once(
    columns: list[pa.ChunkedArray], rows: list[Rows], there: Collection[int]
) -> dict[int, pa.ChunkedArray]:
    """The missing columns, by number, gathered in one call if rows are few: waking all cores takes longer."""
    wanted = [at for at, column in enumerate(columns) if at not in there and len(column)]
    if len(wanted) < 2 or len(rows[0]) > _MANY_ROWS:
        return {}
    chosen = [columns[at] for at in wanted]
    found = _known_rows(_known(chosen), chosen, [rows[at] for at in wanted])
    return {at: column for at, column in zip(wanted, found, strict=True) if column is not None}


def _known(columns: Sequence[pa.ChunkedArray]) -> _core.Columns:
    return _core.Columns([filled_chunks(column) for column in columns])


def _known_rows(
    known: _core.Columns, columns: Sequence[pa.ChunkedArray], rows: Sequence[Rows]
) -> list[pa.ChunkedArray | None]:
    """The gathered columns; ``None`` for types that the core does not support, or if rows take several chunks."""
    found = cast(list[tuple[Any, ...] | None], known.gather(list(rows)))
    return [
        None if parts is None else pa.chunked_array([array_of(parts, column.type, len(of_column))])
        for column, of_column, parts in zip(columns, rows, found, strict=True)
    ]


class ColumnsToGather:
    """Columns of any type, prepared for gathering rows many times on any thread: chunks are inspected once."""

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        self._columns = [_to_gather_often(column) for column in columns]
        self._known = _known(columns)

    def rows(self, rows: Sequence[Rows]) -> list[pa.ChunkedArray]:
        """Gather the rows given for each column, equally many, in order. Row -1 gives a null."""
        found = _known_rows(self._known, self._columns, rows)
        return [
            pa.chunked_array(_gather_alone(column, of_column), type=column.type) if known is None else known
            for column, of_column, known in zip(self._columns, rows, found, strict=True)
        ]


def _to_gather_often(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column prepared for many gathers: in one piece if only PyArrow supports its type."""
    is_known = not len(column) or _core.gather_column(filled_chunks(column), np.empty(0, np.uint32)) is not None
    return column if is_known else in_one_piece(column)


def _gather_alone(column: pa.ChunkedArray, rows: Rows) -> list[pa.Array]:
    if not len(column):
        return (
            [pa.nulls(len(rows), column.type)] if len(rows) else []
        )  # of some types, PyArrow's empty ones are unsound
    pieces = _gather(column, rows)
    return gather_by_pyarrow(column, rows) if pieces is None else pieces


def rows_of_rows(rows: Rows, places: Rows) -> Rows:
    """``rows[places]``, on all cores; no place is negative."""
    if not len(places):
        return rows[:0]
    gathered = cast(tuple[Any, ...], _core.gather_column([arrow_of_numbers(rows)], places))
    return cast(Rows, gathered[3].view(rows.dtype))


def gather_rows(table: pa.Table, rows: Rows, execution: ExecutionOptions | None = None) -> pa.Table:
    """A new table of these rows of another; see ``gather_columns``."""
    if not table.num_columns:
        return table.slice(0, len(rows))
    return pa.table(gather_columns(table.columns, rows, execution), schema=table.schema)
