"""Dictionary columns: those whose chunks have different dictionaries, and those that may be damaged."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from linkwise._arrow import pa, pc
from linkwise._core import UsageError
from linkwise.columns.take import take, types_inside


def in_one_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same column with one dictionary for all chunks.

    Raises ``UsageError`` if its indices cannot number that many values.
    """
    kind = column.type
    if column.num_chunks <= 1:
        return column
    if pa.types.is_float16(kind.value_type):  # PyArrow would treat it as integers
        as_bits = pa.chunked_array([_with_values(chunk, chunk.dictionary.view(pa.uint16())) for chunk in column.chunks])
        chunks = in_one_dictionary(as_bits).chunks
        values = chunks[0].dictionary.view(kind.value_type)
        return pa.chunked_array([_with_values(chunk, values) for chunk in chunks])
    try:
        return column.unify_dictionaries()
    except pa.ArrowException:  # nulls among the values, or types that PyArrow does not unify
        return _one_behind_the_other(column)


def _with_values(chunk: pa.DictionaryArray, values: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(chunk.indices, values, ordered=chunk.type.ordered)


def _one_behind_the_other(column: pa.ChunkedArray) -> pa.ChunkedArray:
    different: list[pa.Array] = []
    which = []  # of them each chunk has
    for chunk in column.chunks:
        # A dictionary with NaN equals none, not even itself.
        at = next((at for at, other in enumerate(different) if chunk.dictionary.equals(other)), len(different))
        if at == len(different):
            different.append(chunk.dictionary)
        which.append(at)
    begins = np.cumsum([0, *map(len, different)])
    values = pa.concat_arrays(different)
    chunks = []
    for chunk, at in zip(column.chunks, which, strict=True):
        indices = pc.add(chunk.indices.cast(pa.int64()), int(begins[at]))
        try:
            indices = indices.cast(column.type.index_type)
        except pa.ArrowInvalid:
            raise UsageError(
                f"the dictionaries of a column have more values together than {column.type.index_type} can number; "
                f"cast it to {column.type.value_type}"
            ) from None
        chunks.append(pa.DictionaryArray.from_arrays(indices, values, ordered=column.type.ordered))
    return pa.chunked_array(chunks, type=column.type)


def in_one_order(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """An ordered dictionary column with one dictionary, whose order agrees with those of all chunks.

    Raises ``UsageError`` if two chunks order the same values differently.
    """
    whole = in_one_dictionary(column)
    if whole.num_chunks > 1:
        values = whole.chunk(0).dictionary
        for chunk in column.chunks:
            if not chunk.dictionary.equals(values.slice(0, len(chunk.dictionary))):
                places = np.asarray(pc.index_in(chunk.dictionary, values))
                if (places[1:] < places[:-1]).any():
                    raise UsageError(
                        "a column's parts order the same categories differently; give all of them one dictionary, or "
                        f"cast the column to {column.type.value_type}"
                    )
    return whole


def in_one_wide_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """As ``in_one_dictionary``, with wider indices if they are needed."""
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


class SharedDictionaries:
    """One dictionary per column, shared by a sequence of tables.

    New values are appended, so that earlier indices stay valid. Columns whose values together exceed ``most_bytes``
    or their index type keep dictionaries of their own, unless the dictionary is ordered.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._values: dict[int, pa.Array | None] = {}  # by the column's number; None: not shared

    def grown_by(self, table: pa.Table) -> pa.Table:
        """Add a table's values to the dictionaries; returns the table with these dictionaries."""
        for number, field in enumerate(table.schema):
            if pa.types.is_dictionary(field.type) and self._values.get(number, ...) is not None:
                table = self._grow(table, number)
        return table

    def _grow(self, table: pa.Table, number: int) -> pa.Table:
        column, kind = table.column(number), table.schema.field(number).type
        known = self._values.get(number) or pa.array([], kind.value_type)
        none_of_them = pa.DictionaryArray.from_arrays(pa.array([], kind.index_type), known, ordered=kind.ordered)
        try:
            of_both = pa.chunked_array([none_of_them, *column.chunks], type=kind)
            column = in_one_order(of_both) if kind.ordered else in_one_dictionary(of_both)
        except UsageError:
            if kind.ordered:
                raise
            self._values[number] = None
            return table
        values = column.chunk(0).dictionary
        may_grow = kind.ordered or values.nbytes <= self._most_bytes
        is_kept = may_grow and values.slice(0, len(known)).equals(known)
        self._values[number] = values if is_kept else None
        return table.set_column(number, table.schema.field(number), column) if is_kept else table

    def given(self, table: pa.Table) -> pa.Table:
        """A table that ``grown_by`` returned, with the dictionaries as they are now."""
        for number, values in self._values.items():
            if values is None:
                continue
            chunks = [_with_values(chunk, values) for chunk in table.column(number).chunks]
            kind = table.schema.field(number).type
            table = table.set_column(number, table.schema.field(number), pa.chunked_array(chunks, type=kind))
        return table


def dictionary_in_one_piece(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A dictionary column in one chunk. Raises ``UsageError`` as ``in_one_dictionary``."""
    whole = in_one_dictionary(column)
    if whole.num_chunks <= 1:
        return whole
    indices = pa.concat_arrays([chunk.indices for chunk in whole.chunks])
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(indices, whole.chunk(0).dictionary, ordered=whole.type.ordered)]
    )


def has_dictionary_inside(kind: pa.DataType) -> bool:
    """Whether values of a type contain dictionary-encoded ones."""
    return not pa.types.is_dictionary(kind) and _has_dictionary(kind)


def _has_dictionary(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_dictionary(kind.storage_type)
    is_nested = pa.types.is_nested(kind)
    return pa.types.is_dictionary(kind) or (is_nested and any(map(_has_dictionary, types_inside(kind))))


def with_sound_dictionaries(rows: Any, *, but: Collection[str] = ()) -> Any:
    """The same table or batch, validated: PyArrow's Parquet reader does not check that indices are within range.

    Columns named ``but`` are not looked at.
    """
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if name not in but and _has_dictionary(column.type):
            column.validate(full=True)
    return rows
