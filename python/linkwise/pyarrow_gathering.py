"""Rows of columns of any type by PyArrow, which has no ``take`` for all of them; on all cores."""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from linkwise._core import UsageError
from linkwise.dictionaries import in_one_dictionary

Rows = npt.NDArray[Any]

_ROWS_AT_ONCE = 1 << 20  # of a column, by one core; their bytes nearly always fit into offsets of 32 bits
_MOST_IN_ONE_PIECE = 1 << 30  # bytes of a column of variable length, whose offsets may have 32 bits


def bytes_of(data: pa.Table | pa.RecordBatch | pa.ChunkedArray | pa.Array | npt.NDArray[Any]) -> int:
    """What the rows take; of unions inside lists, whose rows PyArrow cannot tell apart, the buffers they lie in."""
    if isinstance(data, np.ndarray):
        return data.nbytes
    kinds = [data.type] if isinstance(data, pa.ChunkedArray | pa.Array) else data.schema.types
    return int(data.get_total_buffer_size() if any(map(_has_union, kinds)) else data.nbytes)


def _has_union(kind: pa.DataType) -> bool:
    return pa.types.is_nested(kind) and (
        pa.types.is_union(kind) or any(_has_union(kind.field(i).type) for i in range(kind.num_fields))
    )


def _has_fixed_width(kind: pa.DataType) -> bool:
    try:
        return bool(kind.bit_width)
    except ValueError:
        return False


def _in_one_piece(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same column in one chunk, which is gathered several times faster than many, if it can be."""
    if column.num_chunks <= 1 or (bytes_of(column) > _MOST_IN_ONE_PIECE and not _has_fixed_width(column.type)):
        return column
    return pa.chunked_array([column.combine_chunks()], type=column.type)


def _from_chunks(column: pa.ChunkedArray, rows: Rows) -> pa.Array:
    """Rows of a column in several chunks: chunk by chunk, and then each to its place."""
    lengths = np.array([len(chunk) for chunk in column.chunks])
    ends = np.cumsum(lengths)
    chunk_of = np.searchsorted(ends, rows, "right")
    by_chunk = np.argsort(chunk_of, kind="stable")
    wanted = np.split(by_chunk, np.cumsum(np.bincount(chunk_of, minlength=len(ends)))[:-1])
    parts = [
        _take(chunk, rows[positions] - (end - len(chunk)))
        for chunk, end, positions in zip(column.chunks, ends, wanted, strict=True)
        if len(positions)
    ]
    places = np.empty(len(rows), np.int64)
    places[by_chunk] = np.arange(len(rows))
    return _take(pa.concat_arrays(parts), places)


def _take(values: pa.Array, rows: Rows) -> pa.Array:
    """Rows of an array of any type; PyArrow has no ``take`` for all of them."""
    kind = values.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _take_views(values, rows)
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(_take(pc.run_end_decode(values), rows), kind.run_end_type)
    if (plain := _without_views(kind)) != kind:
        return _take(values.cast(plain), rows).cast(kind)
    return pc.take(values, _indices(rows))


def _indices(rows: Rows) -> pa.Array:
    """Row numbers for PyArrow; a negative one is a null."""
    return pa.array(rows, mask=rows < 0) if rows.dtype.kind == "i" and (rows < 0).any() else pa.array(rows)


def _take_views(values: pa.Array, rows: Rows) -> pa.Array:
    """Strings whose bytes lie elsewhere: 16 bytes each are moved, and the bytes stay where they are."""
    validity, views, *elsewhere = values.buffers()
    as_bytes = pa.Array.from_buffers(pa.binary(16), len(values), [validity, views], offset=values.offset)
    taken = pc.take(as_bytes, _indices(rows))
    return compact_views(pa.Array.from_buffers(values.type, len(taken), [*taken.buffers(), *elsewhere]))


def compact_views(values: pa.Array) -> pa.Array:
    """The same array; of views, one that does not drag many bytes along that none of them shows."""
    kind = values.type
    if not len(values) or not (pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)):
        return values
    _, views, *elsewhere = values.buffers()
    held = sum(buffer.size for buffer in elsewhere if buffer is not None)
    lengths = np.frombuffer(views, np.int32)[4 * values.offset : 4 * (values.offset + len(values)) : 4]
    shown = int(lengths.sum(dtype=np.int64))
    return values.cast(_without_views(kind)).cast(kind) if held > 2 * shown + 4096 else values


def _without_views(kind: pa.DataType) -> pa.DataType:
    """The type with plain strings instead of those that lie elsewhere, at any depth."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if not pa.types.is_nested(kind) or pa.types.is_union(kind):
        return kind
    fields = [kind.field(i) for i in range(kind.num_fields)]
    plain = [field.with_type(_without_views(field.type)) for field in fields]
    return kind if plain == fields else _nested(kind, plain)


def _nested(like: pa.DataType, fields: list[pa.Field]) -> pa.DataType:
    if pa.types.is_struct(like):
        return pa.struct(fields)
    if pa.types.is_map(like):
        return pa.map_(*(field.type for field in fields[0].type))
    if pa.types.is_fixed_size_list(like):
        return pa.list_(fields[0], like.list_size)
    return pa.large_list(fields[0]) if pa.types.is_large_list(like) else pa.list_(fields[0])


def _gather_part(column: pa.ChunkedArray, rows: Rows) -> list[pa.Array]:
    try:
        if column.num_chunks == 1:
            return [_take(column.chunk(0), rows)]
        return [_from_chunks(column, rows)]
    except pa.ArrowNotImplementedError as error:
        raise UsageError(f"rows of type {column.type} cannot be moved: {error}; cast the column first") from None
    except (pa.ArrowInvalid, pa.ArrowCapacityError):  # more bytes than its offsets can count
        if len(rows) <= 1:
            raise
        half = len(rows) // 2
        return _gather_part(column, rows[:half]) + _gather_part(column, rows[half:])


def gather_by_pyarrow(column: pa.ChunkedArray, rows: Rows) -> list[pa.Array]:
    """Rows of a column of any type, slice by slice on all cores."""
    if pa.types.is_dictionary(column.type):
        column = in_one_dictionary(column)
    slices = [rows[first : first + _ROWS_AT_ONCE] for first in range(0, len(rows), _ROWS_AT_ONCE)]
    whole = _in_one_piece(column)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(itertools.chain.from_iterable(pool.map(lambda part: _gather_part(whole, part), slices)))
