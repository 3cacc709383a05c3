"""Gathering rows of columns of any type with PyArrow, on all cores; also of types for which it has no ``take``."""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from linkwise._arrow import pa
from linkwise._core import UsageError
from linkwise._typing import Rows
from linkwise.columns.dictionaries import dictionary_in_one_piece
from linkwise.columns.take import take, types_inside

_ROWS_AT_ONCE = 1 << 20  # of a column, per core; their bytes nearly always fit into 32-bit offsets
_MOST_IN_ONE_PIECE = 1 << 30  # bytes of a variable-length column, whose offsets may have 32 bits


def bytes_of(data: pa.Table | pa.RecordBatch | pa.ChunkedArray | pa.Array | npt.NDArray[Any]) -> int:
    """Bytes of the rows; with unions, of whole buffers, as PyArrow cannot measure slices of unions inside lists."""
    if isinstance(data, np.ndarray):
        return data.nbytes
    kinds = [data.type] if isinstance(data, pa.ChunkedArray | pa.Array) else data.schema.types
    return int(data.get_total_buffer_size() if any(map(_has_union, kinds)) else data.nbytes)


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table without rows, of any types: PyArrow's own has none with unions."""
    return pa.table([pa.chunked_array([], field.type) for field in schema], schema=schema)


def _has_union(kind: pa.DataType) -> bool:
    return pa.types.is_nested(kind) and (pa.types.is_union(kind) or any(map(_has_union, types_inside(kind))))


def _has_fixed_width(kind: pa.DataType) -> bool:
    try:
        return bool(kind.bit_width)
    except ValueError:
        return False


def in_one_piece(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in one chunk if possible, which is gathered several times faster than many chunks."""
    if pa.types.is_dictionary(column.type):
        return dictionary_in_one_piece(column)
    if _has_float16_dictionary(column.type):
        return column
    if column.num_chunks <= 1 or (bytes_of(column) > _MOST_IN_ONE_PIECE and not _has_fixed_width(column.type)):
        return column
    try:
        return pa.chunked_array([column.combine_chunks()], type=column.type)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # nested extension types; dictionaries that differ
        return column


def _has_float16_dictionary(kind: pa.DataType) -> bool:
    """Whether values contain dictionary-encoded half-precision numbers, which PyArrow would unite as integers."""
    if isinstance(kind, pa.BaseExtensionType):
        return _has_float16_dictionary(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return bool(pa.types.is_float16(kind.value_type))
    return pa.types.is_nested(kind) and any(map(_has_float16_dictionary, types_inside(kind)))


def _from_chunks(column: pa.ChunkedArray, rows: Rows) -> pa.Array:
    """Rows of a column in several chunks: gathered chunk by chunk, then put into order."""
    lengths = np.array([len(chunk) for chunk in column.chunks])
    ends = np.cumsum(lengths)
    chunk_of = np.searchsorted(ends, rows, "right")
    by_chunk = np.argsort(chunk_of, kind="stable")
    wanted = np.split(by_chunk, np.cumsum(np.bincount(chunk_of, minlength=len(ends)))[:-1])
    parts = [
        take(chunk, rows[positions] - (end - len(chunk)))
        for chunk, end, positions in zip(column.chunks, ends, wanted, strict=True)
        if len(positions)
    ]
    places = np.empty(len(rows), np.int64)
    places[by_chunk] = np.arange(len(rows))
    return take(pa.concat_arrays(parts), places)


def _runs_of_chunks(column: pa.ChunkedArray, rows: Rows) -> list[pa.Array]:
    """Rows of a column whose chunks cannot be united: a piece for each run of rows from one chunk."""
    begins = np.cumsum([0, *map(len, column.chunks)])
    chunk_of = np.searchsorted(begins[1:], rows, "right")
    runs = [*np.flatnonzero(np.diff(chunk_of, prepend=-1)).tolist(), len(rows)]
    return [
        take(column.chunk(chunk_of[first]), rows[first:end] - begins[chunk_of[first]])
        for first, end in itertools.pairwise(runs)
    ]


def _gather_part(column: pa.ChunkedArray, rows: Rows) -> list[pa.Array]:
    try:
        if column.num_chunks == 1:
            return [take(column.chunk(0), rows)]
        if _has_float16_dictionary(column.type):
            return _runs_of_chunks(column, rows)
        return [_from_chunks(column, rows)]
    except pa.ArrowNotImplementedError as error:
        raise UsageError(f"rows of type {column.type} cannot be moved: {error}; cast the column first") from None
    except (pa.ArrowInvalid, pa.ArrowCapacityError):  # more bytes than its offsets can address
        if len(rows) <= 1:
            raise
        half = len(rows) // 2
        return _gather_part(column, rows[:half]) + _gather_part(column, rows[half:])


def gather_by_pyarrow(column: pa.ChunkedArray, rows: Rows) -> list[pa.Array]:
    """Rows of a column of any type, slice by slice on all cores."""
    slices = [rows[first : first + _ROWS_AT_ONCE] for first in range(0, len(rows), _ROWS_AT_ONCE)]
    whole = in_one_piece(column)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(itertools.chain.from_iterable(pool.map(lambda part: _gather_part(whole, part), slices)))
