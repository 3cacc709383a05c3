"""Values of any type as numbers: their ranks among the distinct ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linkwise._arrow import pa, pc
from linkwise._core import UsageError
from linkwise._typing import Array
from linkwise.columns.decode import KEY_TYPES, decoded
from linkwise.columns.dictionaries import in_one_dictionary
from linkwise.columns.take import take

NO_RANK = -1
"""Of a null."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """For each row of a column the rank of its value, of type int32; and the distinct values, in order."""

    ranks: Array
    values: pa.Array


def ranked(column: pa.ChunkedArray) -> Ranks:
    """The ranks of a column's values. Raises ``UsageError`` for a type of which Arrow makes no dictionary."""
    plain = decoded(column)
    if pa.types.is_string_view(plain.type) or pa.types.is_binary_view(plain.type):
        plain = plain.cast(pa.large_string() if pa.types.is_string_view(plain.type) else pa.large_binary())
    if pa.types.is_decimal32(plain.type) or pa.types.is_decimal64(plain.type):
        plain = plain.cast(pa.decimal128(plain.type.precision, plain.type.scale))
    try:
        encoded = in_one_dictionary(plain.dictionary_encode())
        values = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], plain.type)
        order = np.asarray(pc.array_sort_indices(values))
    except pa.ArrowException:
        raise UsageError(f"a column of type {column.type} is no key of a table on the GPUs; {KEY_TYPES} are") from None
    rank_of = np.empty(len(values) + 1, np.int32)
    rank_of[order] = np.arange(len(values))
    rank_of[NO_RANK] = NO_RANK
    chunks = [np.asarray(chunk.indices.cast(pa.int64()).fill_null(NO_RANK)) for chunk in encoded.chunks]
    ranks = rank_of[np.concatenate(chunks)] if chunks else np.empty(0, np.int32)
    return Ranks(ranks, take(values, order))


def in_common(left: pa.Array, right: pa.Array) -> tuple[pa.Array, Array, Array]:
    """The distinct values of two such arrays, in order, and the rank there of each value of the two."""
    right = right.cast(left.type)
    values = pc.unique(pa.concat_arrays([left, right]))
    values = take(values, np.asarray(pc.array_sort_indices(values)))
    of_left, of_right = (np.asarray(pc.index_in(side, values)).astype(np.int32) for side in (left, right))
    return values, of_left, of_right
