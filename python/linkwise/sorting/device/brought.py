"""Columns of Arrow tables as numbers on the GPUs, and back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from linkwise import _core
from linkwise._arrow import pa, pc
from linkwise._typing import Array
from linkwise.columns.decode import decoded
from linkwise.columns.gather import filled_chunks
from linkwise.columns.key_types import has_narrow_offsets, is_number, is_text
from linkwise.columns.ranks import ranked
from linkwise.columns.take import take
from linkwise.interop.foreign_arrays import MOST_NARROW_BYTES, column_of, text_of
from linkwise.sorting.device.device_columns import GpuColumns, Parts

_LONG_BYTES = 448  # in the mean


class TextExtent(NamedTuple):
    """The bytes that all strings of a column share, and how many words of seven bytes tell them apart from there."""

    begin: int
    words: int

    @classmethod
    def of(cls, shared: int, longest: int) -> Self:
        """That of strings that share so many bytes and have so many."""
        return cls(shared, max(1, -(-(longest - shared) // int(_core.BYTES_OF_WORD))))

    @classmethod
    def together(cls, one: Self, other: Self) -> Self:
        """An extent for the strings of two columns."""
        return cls.of(0, max(extent.begin + int(_core.BYTES_OF_WORD) * extent.words for extent in (one, other)))


def text_extent(column: pa.ChunkedArray) -> TextExtent | None:
    """The extent of a column of strings or bytes; ``None`` for other types."""
    if not is_text(column.type):
        return None
    return TextExtent.of(*_core.extent_of_strings(filled_chunks(column)))


def is_long_text(column: pa.ChunkedArray) -> bool:
    """Whether a column is text of so many bytes that the cores compare it sooner than it is copied to the GPUs."""
    return is_text(column.type) and column.nbytes > _LONG_BYTES * len(column)


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
    column = column_of(numbers, is_null, plain)
    return column if plain == kind else _cast(column, kind)


def text_in_host_memory(
    offsets: Array, values: Array, ends: Sequence[int], is_null: Array | None, kind: pa.DataType
) -> pa.ChunkedArray:
    """A column of that type from ``Strings`` that were fetched; ``ends``: where in the offsets each part ends."""
    plain = decoded(pa.chunked_array([], kind)).type
    joined, begin, shift = [np.zeros(1, np.int64)], 0, 0
    for end in ends:  # each part's offsets begin at their own 0
        joined.append(offsets[begin + 1 : end] - offsets[begin] + shift)
        shift += int(offsets[end - 1] - offsets[begin])
        begin = end
    column = _text_in_chunks(np.concatenate(joined), values, is_null, plain)
    return column if plain == kind else pa.chunked_array([_cast(chunk, kind) for chunk in column.chunks], kind)


def _text_in_chunks(offsets: Array, values: Array, is_null: Array | None, kind: pa.DataType) -> pa.ChunkedArray:
    """Chunks whose bytes the offsets of that type count."""
    ends = [0]
    most = MOST_NARROW_BYTES if has_narrow_offsets(kind) else int(offsets[-1])
    while ends[-1] < len(offsets) - 1:
        end = int(np.searchsorted(offsets, offsets[ends[-1]] + most, side="right")) - 1
        ends.append(max(end, ends[-1] + 1))
    chunks = [
        text_of(
            offsets[begin : end + 1] - offsets[begin], values[offsets[begin] : offsets[end]],
            None if is_null is None else is_null[begin:end], kind,
        )
        for begin, end in itertools.pairwise(ends)
    ]  # fmt: skip
    return pa.chunked_array(chunks, kind)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Plain values as a type that encodes or names them."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, column)
    if pa.types.is_dictionary(kind):
        return column.dictionary_encode().cast(pa.dictionary(kind.index_type, kind.value_type))
    return pc.run_end_encode(column, kind.run_end_type) if pa.types.is_run_end_encoded(kind) else column.cast(kind)
