"""String columns with few distinct values, as integer codes: rows are packed, moved and checked faster without strings.

A Parquet file stores such a column as indices into a dictionary, one for each row group. The indices are mapped to
codes that are the same in the whole table, and the output has dictionaries again: no string is copied.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np

from linkwise._arrow import pa
from linkwise.columns.gather import rows_of_rows
from linkwise.columns.key_types import is_valid, stored_numbers

_FIRST_LOOK = 1 << 12  # rows, among which a few values mostly occur


class StringCodes:
    """Codes for the strings of some columns; parts of the table that are coded add theirs. Thread-safe."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = {name: _Codes() for name in columns}

    def coded(self, table: pa.Table) -> pa.Table:
        """The table with codes in place of these columns, which must be dictionary columns.

        Raises ``ArrowInvalid`` if a dictionary lacks a value.
        """
        for name, codes in self._columns.items():
            at = table.schema.get_field_index(name)
            chunks = [codes.of(chunk) for chunk in table.column(at).chunks]
            field = table.schema.field(at).with_type(pa.int32())
            table = table.set_column(at, field, pa.chunked_array(chunks, pa.int32()))
        return table

    def with_dictionaries(self, table: pa.Table) -> pa.Table:
        """The table with dictionary columns again instead of the codes; call when all parts have been coded."""
        for name, codes in self._columns.items():
            at = table.schema.get_field_index(name)
            chunks = [codes.with_dictionary(chunk) for chunk in table.column(at).chunks]
            kind = pa.dictionary(pa.int32(), codes.kind)
            table = table.set_column(at, table.schema.field(at).with_type(kind), pa.chunked_array(chunks, kind))
        return table


class _Codes:
    """Codes for the strings of one column."""

    def __init__(self) -> None:
        self.kind: pa.DataType = pa.string()
        """What the values are: strings or binary."""
        self._known: dict[bytes, int] = {}
        self._ordered: tuple[list[bytes], Any] | None = None
        self._lock = threading.Lock()

    def of(self, chunk: pa.DictionaryArray) -> pa.Array:
        """The codes of a chunk's values."""
        values = chunk.dictionary.view(pa.binary()).to_pylist()  # strings may be invalid
        with self._lock:
            self.kind = chunk.type.value_type
            codes = np.array([self._known.setdefault(value, len(self._known)) for value in values], np.int32)
        indices, valid = _numbers_of(chunk.indices)
        if len(indices) and int(indices.view(np.uint32).max()) >= max(len(codes), valid is not None):
            raise pa.ArrowInvalid("an index that its dictionary does not have")
        return _array_of(_mapped(codes, indices) if len(codes) else indices, valid)

    def with_dictionary(self, codes: pa.Array) -> pa.DictionaryArray:
        """An array of the values with these codes; its dictionary has those that occur, in order."""
        values, ranks = self._in_order()
        numbers, valid = _numbers_of(codes)
        are_here = _occurring(numbers if valid is None else numbers[valid.view(bool)], len(ranks))
        is_here = are_here[ranks.argsort()]  # of each value, in order
        if not is_here.all():  # with fewer values, the file may number them by fewer bits
            ranks = np.maximum(np.cumsum(is_here, dtype=np.int32) - 1, 0)[ranks]
            values = list(compress(values, is_here))
        numbers = _mapped(ranks, numbers)
        offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
        dictionary = pa.Array.from_buffers(self.kind, len(values), buffers)
        return pa.DictionaryArray.from_arrays(_array_of(numbers, valid), dictionary, safe=False)

    def _in_order(self) -> tuple[list[bytes], Any]:
        """All values in order, so that the same rows make the same file, and the place of each code's value in it."""
        with self._lock:
            if self._ordered is None:
                values = sorted(self._known)
                ranks = np.zeros(max(len(values), 1), np.int32)  # nulls have code 0
                ranks[[self._known[value] for value in values]] = np.arange(len(values), dtype=np.int32)
                self._ordered = values, ranks
            return self._ordered


def _occurring(codes: Any, count: int) -> Any:
    """Which of ``count`` codes occur; mostly, the first rows show that all do."""
    are = np.zeros(count, bool)
    for some in (codes[:_FIRST_LOOK], codes[_FIRST_LOOK:]):
        are[some] = True
        if are.all():
            break
    return are


def _mapped(values: Any, places: Any) -> Any:
    """``values[places]``, of places that are there."""
    return rows_of_rows(values.view(np.uint32), places.view(np.uint32)).view(np.int32)


def _numbers_of(array: pa.Array) -> tuple[Any, Any]:
    """The integers of an array, 0 for nulls, and which are none; ``None`` if all are none."""
    numbers = stored_numbers(array)
    if not array.null_count:
        return numbers, None
    valid = is_valid(array)
    return numbers * valid, valid


def _array_of(numbers: Any, valid: Any) -> pa.Array:
    """The array that ``_numbers_of`` takes apart."""
    validity = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.int32(), len(numbers), [validity, pa.py_buffer(numbers)])
