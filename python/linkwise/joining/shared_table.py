"""Hash joins with a streamed probe side: its parts probe one shared hash table of the other side.

The table is built once, by all cores, and shared; each part is probed by one core (the probe phase of the parallel
radix hash join of Balkesen et al., ICDE 2013, join25 §4.1.4, over morsels of the probe side). So the longer side need
never be in memory as a whole, and the rows made of one part are encoded while others are read.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from linkwise import _core
from linkwise._arrow import pa, pc
from linkwise._core import UsageError
from linkwise._typing import Rows
from linkwise.columns.decode import decoded
from linkwise.columns.gather import in_one_array, with_long_chunks
from linkwise.columns.key_types import array_of_column, column_of_array, is_number
from linkwise.joining.hash_join import HashMatches
from linkwise.joining.joined_rows import JoinedRows, KeyPairs
from linkwise.joining.key_bits import base_of, bits_of, is_one_word, without_nulls
from linkwise.joining.type_promotion import common_type, comparable

# The kind of join with which each part probes, and which build-side rows follow all parts: those that some part has
# matched (True), or that none has (False). By whether the build side is the left one, and by the kind of join.
_OF_PARTS: dict[bool, dict[str, str | None]] = {
    False: {"inner": "inner", "left": "left", "right": "inner", "full": "left", "semi": "semi", "anti": "anti"},
    True: {"inner": "inner", "left": "inner", "right": "right", "full": "right", "semi": None, "anti": None},
}
_BEHIND = {
    False: {"right": False, "full": False},
    True: {"left": False, "full": False, "semi": True, "anti": False},
}


class SharedTable:
    """The build side of a join with its hash table. Raises ``UsageError`` for too many rows or unsupported keys."""

    def __init__(
        self, table: pa.Table, others: pa.Schema, keys: KeyPairs, how: str, *, is_left: bool, nulls_equal: bool
    ) -> None:
        table = with_long_chunks(table)
        self.table, self.is_left = table, is_left
        self._own, self._others = (0, 1) if is_left else (1, 0)
        self._keys, self._nulls_equal = keys, nulls_equal
        self._kinds = [
            common_type(table.schema.field(pair[self._own]).type, others.field(pair[self._others]).type, pair)
            for pair in keys.pairs
        ]
        self._how_of_parts = _OF_PARTS[is_left][how]
        self._behind = _BEHIND[is_left].get(how)
        self._base: int | None = None
        columns = self._columns(table, self._own)
        # A single number is its own key word, unless nulls match each other: then it is not the whole key.
        self._is_word = len(columns) == 1 and not nulls_equal and is_one_word(columns[0].type)
        self._core = _core.KeyTable(self._words(columns))
        self._found = None if self._behind is None else _core.FoundRows(self._core)

    @property
    def is_unique(self) -> bool:
        """Whether no key occurs twice among its rows that can match."""
        return bool(self._core.is_unique)

    @property
    def key_range(self) -> tuple[object, object] | None:
        """The minimum and maximum of a single key column as Python values; ``None`` if there is no usable range.

        Integers can be compared with integers of other types, dates and strings only with their own kind.
        """
        column = decoded(self.table[self._keys.pairs[0][self._own]])
        kind = column.type
        can_tell = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date32(kind)
        if len(self._keys.pairs) > 1 or not can_tell or column.null_count == len(column):
            return None
        if is_number(kind) and not column.null_count:  # without loading PyArrow's functions
            values = array_of_column(column)
            ends = np.array([values.min(axis=0), values.max(axis=0)], values.dtype)
            least, greatest = column_of_array(ends, kind).to_pylist()
            return least, greatest
        least, greatest = pc.min_max(column).values()
        try:
            return least.as_py(), greatest.as_py()
        except UnicodeDecodeError:  # not valid Unicode
            return None

    def look_up(self, part: pa.Table) -> HashMatches | None:
        """Probe the table with some rows of the other side; ``None`` if they contribute no rows of their own.

        Thread-safe.
        """
        rows = self.table.num_rows, part.num_rows
        found = HashMatches(
            _core.HashMatches(self._core, self._words(self._columns(part, self._others)), self.is_left),
            rows if self.is_left else rows[::-1],
            build_left=self.is_left,
        )
        if self._found is not None:
            self._found.add(found.core)
        return found if self._how_of_parts is not None and self.count(found) else None

    def count(self, matches: HashMatches) -> int:
        """The number of result rows that a part's matches make."""
        assert self._how_of_parts is not None
        return matches.count(self._how_of_parts)

    def rows(
        self, joined: JoinedRows, part: pa.Table, matches: HashMatches, first: int, count: int, *, whole_sides: bool
    ) -> pa.Table:
        """Some of the result rows that a part of the probe side makes.

        ``whole_sides``: whether both sides are gathered by row number even if every row of the part occurs once.
        """
        how = self._how_of_parts
        assert how is not None
        each_comes_once = not whole_sides and matches.core.keeps_each_row(how)
        wants = self.is_left or not each_comes_once, not self.is_left or not each_comes_once
        width = 4 if how in ("inner", "semi", "anti") and not whole_sides else 8
        left, right = matches.core.indices(how, first, count, row_bytes=width, left=wants[0], right=wants[1])
        if each_comes_once:
            part = part.slice(first, count)
        sides = (self.table, part) if self.is_left else (part, self.table)
        return joined.gathered(*sides, left, right)

    def rows_behind(self) -> tuple[Rows | None, Rows | None]:
        """The build-side rows that follow all parts, as numbers of left and right rows, -1 for a missing row."""
        numbers: Rows = np.empty(0, np.int64)
        if self._found is not None:
            numbers = cast(Rows, self._found.rows(bool(self._behind)))
        none = None if self._how_of_parts is None else np.full(len(numbers), -1)
        return (numbers, none) if self.is_left else (none, numbers)

    def _columns(self, table: pa.Table, side: int) -> list[pa.ChunkedArray]:
        pairs = zip(self._keys.pairs, self._kinds, strict=True)
        return [decoded(comparable(table[pair[side]], kind, pair)) for pair, kind in pairs]

    def _words(self, columns: list[pa.ChunkedArray]) -> _core.KeyWords:
        rows = len(columns[0])
        valid = None if self._nulls_equal else without_nulls(columns)
        if self._is_word:
            numbers = bits_of(columns[0])
            if self._base is None:  # from the build side, whose words are made first
                self._base = base_of(columns[0], numbers, valid)
            return _core.KeyWords(numbers, valid, [], self._base)
        hashes = np.zeros(rows, np.uint64)
        for column in columns:
            if rows and not _core.hash_rows([chunk for chunk in column.chunks if len(chunk)], hashes):
                raise UsageError(f"keys of type {column.type} are joined in memory only")
        return _core.KeyWords(hashes, valid, [in_one_array(column) for column in columns])
