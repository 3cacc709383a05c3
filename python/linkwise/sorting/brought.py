"""Columns of Arrow tables as numbers on the GPUs, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from linkwise import _core
from linkwise._arrow import pa, pc
from linkwise._typing import Array
from linkwise.columns.decode import decoded
from linkwise.columns.gather import filled_chunks
from linkwise.columns.key_types import column_of_array, is_number
from linkwise.columns.ranks import ranked
from linkwise.columns.take import take
from linkwise.sorting.device_columns import GpuColumns, Parts

_MOST_WORDS = 16  # of a string; each costs a sort
_WORD_BYTES = 7


class TextExtent(NamedTuple):
    """The bytes that all strings of a column share, and how many words of seven bytes tell them apart from there."""

    begin: int
    words: int

    @classmethod
    def together(cls, one: Self, other: Self) -> Self:
        """An extent for the strings of two columns."""
        ends = [extent.begin + _WORD_BYTES * extent.words for extent in (one, other)]
        return cls(0, -(-max(ends) // _WORD_BYTES))


def text_extent(column: pa.ChunkedArray) -> TextExtent | None:
    """The extent of a column of strings or bytes; ``None`` for other types, and for strings that take many words."""
    if not is_text(column.type):
        return None
    extent = TextExtent(*_core.words_of_strings(filled_chunks(column)))
    return extent._replace(words=max(extent.words, 1)) if extent.words <= _MOST_WORDS else None


def is_text(kind: pa.DataType) -> bool:
    """Whether words can be made of a column's values, which lie between offsets."""
    names = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_of(kind) for is_of in names)


@dataclass(frozen=True, eq=False)
class Brought:
    """A column on the GPUs: numbers, or ranks among ``values``; and bytes that tell its nulls if it has some."""

    numbers: Parts
    nulls: Parts | None
    values: pa.Array | None = None


def bring(column: pa.ChunkedArray, gpus: GpuColumns) -> Brought:
    """Copy a column to the GPUs. Raises ``UsageError`` for one that they cannot compare."""
    plain = decoded(column)
    if is_number(plain.type):
        nulls = gpus.bring_nulls(plain) if plain.null_count else None
        return Brought(gpus.bring_values(plain, nulls), nulls)
    ranks = ranked(plain)
    is_null = plain.is_null().to_numpy() if plain.null_count else None
    nulls = None if is_null is None else gpus.bring(is_null.view(np.uint8) * np.uint8(255))
    return Brought(gpus.bring(ranks.ranks), nulls, ranks.values)


def in_host_memory(numbers: Array, is_null: Array | None, values: pa.Array | None, kind: pa.DataType) -> pa.Array:
    """A column of that type, from what was fetched from the GPUs; ``is_null`` and ``values`` as in ``Brought``."""
    if values is not None:
        column = take(values, numbers.astype(np.int64))
        return column if column.type == kind else _cast(column, kind)
    plain = decoded(pa.chunked_array([], kind)).type
    if pa.types.is_boolean(plain):
        numbers = (numbers == 1).view(np.uint8)
    column = column_of_array(numbers, plain)
    if is_null is not None:
        valid = pa.py_buffer(np.packbits(is_null == 0, bitorder="little"))
        column = pa.Array.from_buffers(plain, len(column), [valid, *column.buffers()[1:]])
    return column if plain == kind else _cast(column, kind)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Plain values as a type that encodes or names them."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, column)
    if pa.types.is_dictionary(kind):
        return column.dictionary_encode().cast(pa.dictionary(kind.index_type, kind.value_type))
    return pc.run_end_encode(column, kind.run_end_type) if pa.types.is_run_end_encoded(kind) else column.cast(kind)
