"""The front of a spilled run: the blocks in memory, of which a merge takes the rows up to a bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cached_property

import pyarrow as pa

from linkwise.columns.dictionaries import SharedDictionaries
from linkwise.columns.sort_keys import SortKey
from linkwise.files.spilling.spill_file import Run, SpillFile
from linkwise.sorting.row_keys import RowKeys


class RunFront:
    """The next blocks of a run, and the rows of these that have not been merged."""

    def __init__(self, file: SpillFile, run: Run, keys: list[SortKey], dictionaries: SharedDictionaries) -> None:
        self._unread = run.blocks
        self._blocks = (_Block(table, keys) for table in map(dictionaries.given, file.read(run)))
        self._there: deque[_Block] = deque()

    @property
    def is_last(self) -> bool:
        """Whether nothing of the run is left to read."""
        return not self._unread

    @property
    def last_key(self) -> RowKeys:
        """The key of the last row in memory."""
        return self._there[-1].last_key

    def fill(self, blocks: int) -> bool:
        """Read until so many blocks are in memory; returns whether there is any."""
        while self._unread and len(self._there) < blocks:
            self._there.append(next(self._blocks))
            self._unread -= 1
        return bool(self._there)

    def take(self, bound: RowKeys | None, *, inclusive: bool) -> tuple[list[pa.Table], bool]:
        """The rows below ``bound`` (``inclusive``: or equal), or all; and whether unread ones may equal it."""
        may_equal = bound is not None and not self.is_last and not self.last_key.is_above(bound, or_equal=False)
        return list(self._taken(bound, inclusive=inclusive)), may_equal

    def _taken(self, bound: RowKeys | None, *, inclusive: bool) -> Iterator[pa.Table]:
        while self._there:
            block = self._there[0]
            if bound is not None and block.last_key.is_above(bound, or_equal=not inclusive):
                yield block.rows_before(bound, or_equal=inclusive)
                return
            yield block.rest()
            self._there.popleft()


class _Block:
    def __init__(self, table: pa.Table, keys: list[SortKey]) -> None:
        self._table, self._keys = table, keys
        self._first = 0  # row that has not been merged

    @cached_property
    def _row_keys(self) -> RowKeys:
        return RowKeys(self._table, self._keys, comparable=True)

    @cached_property
    def last_key(self) -> RowKeys:
        return RowKeys(self._table.slice(self._table.num_rows - 1), self._keys, comparable=True)

    def rest(self) -> pa.Table:
        return self._table.slice(self._first)

    def rows_before(self, bound: RowKeys, *, or_equal: bool) -> pa.Table:
        begin, self._first = self._first, self._row_keys.core.rows_before(bound.core, 0, or_equal=or_equal)
        return self._table.slice(begin, self._first - begin)
