"""Columns of dictionaries whose chunks have several of them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from linkwise._core import UsageError


def in_one_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same column with one dictionary for all chunks.

    Raises ``UsageError`` if its indices cannot number that many values.
    """
    kind = column.type
    if column.num_chunks <= 1:
        return column
    if pa.types.is_float16(kind.value_type):  # which PyArrow would read as integers
        as_bits = pa.chunked_array([_with_values(chunk, chunk.dictionary.view(pa.uint16())) for chunk in column.chunks])
        chunks = in_one_dictionary(as_bits).chunks
        return pa.chunked_array([_with_values(chunk, chunk.dictionary.view(kind.value_type)) for chunk in chunks])
    try:
        return column.unify_dictionaries()
    except pa.ArrowException:  # nulls among the values, or types that PyArrow does not unify
        return _one_behind_the_other(column)


def _with_values(chunk: pa.DictionaryArray, values: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(chunk.indices, values, ordered=chunk.type.ordered)


def _one_behind_the_other(column: pa.ChunkedArray) -> pa.ChunkedArray:
    values = pa.concat_arrays([chunk.dictionary for chunk in column.chunks])
    chunks, before = [], 0
    for chunk in column.chunks:
        indices = pc.add(chunk.indices.cast(pa.int64()), before)
        try:
            indices = indices.cast(column.type.index_type)
        except pa.ArrowInvalid:
            raise UsageError(
                f"the dictionaries of a column have more values together than {column.type.index_type} can number; "
                f"cast it to {column.type.value_type}"
            ) from None
        chunks.append(pa.DictionaryArray.from_arrays(indices, values, ordered=column.type.ordered))
        before += len(chunk.dictionary)
    return pa.chunked_array(chunks, type=column.type)


def in_one_wide_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """As ``in_one_dictionary``, with wider indices if it takes them."""
    try:
        return in_one_dictionary(column)
    except UsageError:
        kind = pa.dictionary(pa.int32(), column.type.value_type, column.type.ordered)
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices.cast(kind.index_type), chunk.dictionary, ordered=kind.ordered)
            for chunk in column.chunks
        ]
        return in_one_dictionary(pa.chunked_array(chunks, type=kind))


def without_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The plain values."""
    return pa.chunked_array([_plain(chunk) for chunk in column.chunks], type=column.type.value_type)


def _plain(chunk: pa.DictionaryArray) -> pa.Array:
    kind = chunk.type.value_type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):  # of which PyArrow takes no rows
        moved = pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary()
        return chunk.dictionary.cast(moved).take(chunk.indices).cast(kind)
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(pc.run_end_decode(chunk.dictionary).take(chunk.indices), kind.run_end_type)
    return chunk.dictionary.take(chunk.indices)
