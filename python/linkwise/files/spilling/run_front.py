"""The front of a spilled run: the blocks in memory, of which a merge takes the rows up to a bound."""

from __future__ import annotations

import heapq
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

    @property
    def blocks(self) -> int:
        """How many blocks are in memory."""
        return len(self._there)

    def read(self) -> None:
        """Read one more block."""
        self._there.append(next(self._blocks))
        self._unread -= 1

    def __lt__(self, other: RunFront) -> bool:
        """Whether the rows in memory end below those of another run."""
        return not self.last_key.is_above(other.last_key, or_equal=True)

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


def filled(fronts: list[RunFront], blocks: int) -> list[RunFront]:
    """Read until so many blocks are in memory, one of each run at least; returns the runs that have any.

    Each block is read of the run whose rows in memory end first, as a merge can go no further than that (Knuth, The Art
    of Computer Programming 3, section 5.4.6: forecasting). So of runs that follow each other, most memory is for one.
    """
    for front in fronts:
        if not front.blocks and not front.is_last:
            front.read()
    left = [front for front in fronts if front.blocks]
    unread = [front for front in left if not front.is_last]
    heapq.heapify(unread)
    missing = blocks - sum(front.blocks for front in left)
    while unread and missing > 0:
        front = heapq.heappop(unread)
        front.read()
        missing -= 1
        if not front.is_last:
            heapq.heappush(unread, front)
    return left


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
