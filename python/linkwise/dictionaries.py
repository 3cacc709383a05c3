"""Columns of dictionaries whose chunks have several of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linkwise._core import UsageError
from linkwise.taking import take


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
    different: list[pa.Array] = []
    for chunk in column.chunks:
        if not any(chunk.dictionary.equals(other) for other in different):
            different.append(chunk.dictionary)
    begins = np.cumsum([0, *map(len, different)])
    values = pa.concat_arrays(different)
    chunks = []
    for chunk in column.chunks:
        before = next(begins[at] for at, other in enumerate(different) if chunk.dictionary.equals(other))
        indices = pc.add(chunk.indices.cast(pa.int64()), int(before))
        try:
            indices = indices.cast(column.type.index_type)
        except pa.ArrowInvalid:
            raise UsageError(
                f"the dictionaries of a column have more values together than {column.type.index_type} can number; "
                f"cast it to {column.type.value_type}"
            ) from None
        chunks.append(pa.DictionaryArray.from_arrays(indices, values, ordered=column.type.ordered))
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
    return take(chunk.dictionary, np.asarray(chunk.indices.cast(pa.int64()).fill_null(-1)))
