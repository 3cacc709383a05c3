"""Matches found by a hash join on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from linkwise import _core
from linkwise._arrow import pa
from linkwise._typing import Array, Rows
from linkwise.joining.key_bits import base_of, bits_of, without_nulls
from linkwise.runtime.host_memory import check_rows_fit
from linkwise.sorting.row_keys import RowKeys

_NO_ROW = (1 << 32) - 1
_PAIR_BYTES = 16


class HashMatches:
    """Matches found by probing a hash table of one side's keys with every row of the other side.

    The build side is the smaller one, since building costs more than probing; if rows are to come in the order of the
    left side, it is the right one.
    """

    def __init__(self, core: _core.HashMatches, rows: tuple[int, int], *, build_left: bool) -> None:
        self.core, self._rows, self._build_left = core, rows, build_left
        self.phases: dict[str, float] = {}

    @classmethod
    def of(cls, keys: RowKeys, left_rows: int, valid: Array | None, *, is_by_left: bool) -> HashMatches | None:
        """Join the first ``left_rows`` rows of ``keys`` with the others; ``None`` if no hash table can be built.

        ``valid``: whether the key of each row may match. ``is_by_left``: whether rows come in the left side's order.
        """
        rows = left_rows, keys.rows - left_rows
        build_left = not is_by_left and rows[0] < rows[1]
        if rows[0 if build_left else 1] > _core.MOST_ROWS_OF_TABLE:
            return None
        words = keys.words() if keys.decided_by_word else keys.hashes()
        if words is None:
            return None
        sides = slice(0, left_rows), slice(left_rows, None)
        of_sides = []
        for side in sides:
            columns: list[pa.Array] = [] if keys.decided_by_word else keys.columns_of(side)
            is_valid = None if valid is None else valid[side].view(np.uint8)
            of_sides.append(_core.KeyWords(words[side], is_valid, columns))
        return cls(_core.HashMatches(of_sides[0], of_sides[1], build_left), rows, build_left=build_left)

    @classmethod
    def of_numbers(cls, columns: Sequence[pa.ChunkedArray], *, is_by_left: bool) -> HashMatches | None:
        """Join two columns of integers or times of one type by their bits; nulls match nothing."""
        rows = len(columns[0]), len(columns[1])
        build_left = not is_by_left and rows[0] < rows[1]
        table = 0 if build_left else 1
        if rows[table] > _core.MOST_ROWS_OF_TABLE:
            return None
        valid = [without_nulls([column]) for column in columns]
        bits = [bits_of(column) for column in columns]
        base = base_of(columns[table], bits[table], valid[table])
        left, right = (_core.KeyWords(words, of_side, [], base) for words, of_side in zip(bits, valid, strict=True))
        return cls(_core.HashMatches(left, right, build_left), rows, build_left=build_left)

    @property
    def left_is_unique(self) -> bool:
        """See ``Matches``."""
        return self.core.left_is_unique

    @property
    def right_is_unique(self) -> bool:
        """See ``Matches``."""
        return self.core.right_is_unique

    def count(self, how: str) -> int:
        """See ``Matches``."""
        return int(self.core.count(how))

    def indices(self, how: str) -> tuple[Rows, Rows | None]:
        """See ``Matches``."""
        check_rows_fit(self.count(how), _PAIR_BYTES)
        left, right = self.core.indices(how)
        return left, right

    def rows_to_gather(self, how: str) -> tuple[Rows | None, Rows | None]:
        """See ``Matches``."""
        rows = self.count(how)
        has_none = how not in ("inner", "semi", "anti")
        width = 8 if has_none or max(*self._rows) >= _NO_ROW else 4
        is_whole = how not in ("right", "full") and self.core.keeps_each_row(how)
        wants = [not (is_whole and looked_up) for looked_up in (not self._build_left, self._build_left)]
        check_rows_fit(rows, width * sum(wants))
        left, right = self.core.indices(how, row_bytes=width, left=wants[0], right=wants[1])
        return left, right

    def windows(self, how: str, rows: int) -> Iterator[tuple[Rows, Rows | None]]:
        """See ``Matches``."""
        for first in range(0, self.count(how), rows):
            left, right = self.core.indices(how, first, rows)
            yield left, right

    def ranges(self) -> tuple[Rows, Rows, Rows, Rows]:
        """See ``Matches``."""
        raise AssertionError("ranges come by key, in whose order a hash table has nothing")
