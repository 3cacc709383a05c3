"""Sorting tables that do not fit into host memory: sorted runs on disk, merged back as a stream.

The input comes in batches; each is sorted as any table is and spilled as a run. Then the runs are read back a block
at a time: no more rows can arrive below the smallest last key of the blocks read, so these rows are merged, by one
more sort, and written. Rows with equal keys keep their order: batches are in input order, and so are runs in a merge.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from linkwise import _core
from linkwise._core import UsageError
from linkwise.columns.dictionaries import SharedDictionaries
from linkwise.columns.row_checksum import RowChecksum, check_same_rows
from linkwise.columns.sort_keys import SortKey
from linkwise.files.reading.reader import Reader, Seen, bytes_of_rows, not_looked_at, size_of_all, slices_within
from linkwise.files.spilling.spill_file import Run, SpillFile
from linkwise.interop.containers import Contents
from linkwise.runtime.arguments import parse_bytes
from linkwise.runtime.execution import Progress
from linkwise.runtime.host_memory import host_memory
from linkwise.sorting.row_keys import RowKeys

SortBatch = Callable[[pa.Table], pa.Table]
BATCHES_IN_MEMORY = 8  # those read ahead, the one being sorted, its sorted copy, and memory for sorting and writing
_BLOCKS_IN_MEMORY = 6  # per run: the one that was read, and memory for merging and writing it
_ROOM = 3  # times the size of the input: input, result and intermediate data
_DICTIONARIES = 16  # all values of a shared dictionary may take memory / _DICTIONARIES
_LEAST_BLOCK = 1 << 14  # bytes; with smaller blocks, the time goes into opening and closing them
_MOST_RUNS = 1024  # per sort; all of them may be read at the same time
_RUNS_OF_A_PIPE = 64  # runs merged at a time where the size of the input is unknown
_LEAST_MERGED = 8  # runs merged at a time: sizes are estimates, and merging single runs would never end


def memory_to_use(limit: int | str | None) -> int:
    """Bytes of host memory to use: the given limit, or all that is free. Raises ``UsageError``."""
    return host_memory("MemAvailable") if limit is None else parse_bytes(limit, host_memory("MemTotal"))


class ReadWithin(NamedTuple):
    """The contents of several files: everything, or the batches of each, which are still to be read."""

    everything: list[Contents] | None
    batches: list[Iterator[Contents]]


def is_too_large(readers: Sequence[Reader], memory: int) -> bool:
    """Whether the inputs are known not to fit into memory."""
    return _ROOM * (size_of_all(readers) or 0) > memory


def read_within(readers: Sequence[Reader], memory: int, seen: Seen = not_looked_at) -> ReadWithin:
    """Read everything, and pass it to ``seen``, if it can be processed in memory; otherwise return batches."""
    if size_of_all(readers) is not None and not is_too_large(readers, memory):
        return ReadWithin([reader.everything(seen) for reader in readers], [])
    most_bytes = max(memory // (BATCHES_IN_MEMORY * len(readers)), 1)
    batches = [reader.batches(most_bytes) for reader in readers]
    first = [list(itertools.islice(of_one, 2)) for of_one in batches]
    if all(len(some) < 2 for some in first):
        everything = [some[0] if some else of.everything() for some, of in zip(first, readers, strict=True)]
        return ReadWithin([seen(table) for table in everything], [])
    return ReadWithin(None, [itertools.chain(some, rest) for some, rest in zip(first, batches, strict=True)])


@dataclass(frozen=True)
class SpillSort:
    """An external sort. ``sort_batch`` sorts stably and, with ``unique``, keeps only the first row of each key."""

    keys: list[SortKey]
    sort_batch: SortBatch
    unique: bool
    memory: int  # bytes of host memory that batches and blocks may take
    size: int | None  # bytes of all batches; None if unknown
    directory: Path | None
    verify: bool = True
    on_progress: Progress = lambda _: None

    def run(self, batches: Iterable[pa.Table], write: Callable[[pa.Table], None]) -> int:
        """Sort everything; returns the number of runs. Leaves no run behind."""
        with self.merged(batches) as (runs, tables):
            for table in tables:
                write(table)
            return runs

    @contextmanager
    def merged(self, batches: Iterable[pa.Table]) -> Iterator[tuple[int, Iterator[pa.Table]]]:
        """The number of runs, and the sorted rows, a table at a time. Leaves no run behind.

        With ``verify``, and unless ``unique`` drops rows, checksums verify that the output has the rows of the input.
        """
        before, after = RowChecksum(), RowChecksum()
        is_checked = self.verify and not self.unique
        with ExitStack() as files:
            file = files.enter_context(SpillFile(self.directory))
            dictionaries = SharedDictionaries(self.memory // _DICTIONARIES)
            checked = map(before.add, batches) if is_checked else batches
            runs = self._spill(map(dictionaries.grown_by, checked), file)
            spilled = len(runs)
            while len(runs) > self._runs_at_once:
                merged_file = files.enter_context(SpillFile(self.directory))
                runs = self._merged_some(runs, file, merged_file, dictionaries)
                file.close()
                file = merged_file
            merged = self._merged([_Head(file, run, self.keys, dictionaries) for run in runs])
            tables = self._told(self._first_of_each(merged) if self.unique else merged, runs)
            yield spilled, (_checked(tables, before, after) if is_checked else tables)

    def _told(self, tables: Iterable[pa.Table], runs: list[Run]) -> Iterator[pa.Table]:
        rows, done = sum(run.rows for run in runs), 0
        for table in tables:
            yield table
            done += table.num_rows
            self.on_progress(0.5 + done / max(rows, 1) / 2)

    @property
    def _runs_at_once(self) -> int:
        """How many runs are merged at once."""
        if self.size is None:
            return _RUNS_OF_A_PIPE
        return max(1 + BATCHES_IN_MEMORY * self.size // self.memory, _LEAST_MERGED)

    @property
    def _block_bytes(self) -> int:
        # One block of every run is in memory, and merging takes several times as much.
        return max(self.memory // (_BLOCKS_IN_MEMORY * self._runs_at_once), _LEAST_BLOCK)

    def _spill(self, batches: Iterable[pa.Table], file: SpillFile) -> list[Run]:
        if self.size is not None and self._runs_at_once > _MOST_RUNS:
            raise self._too_little(self.size)
        runs: list[Run] = []
        done = 0
        for batch in batches:
            done += bytes_of_rows(batch)
            table = self.sort_batch(batch)
            del batch  # free its memory
            runs.append(file.write(table.schema, slices_within(table, self._block_bytes)))
            del table
            _release_unused()
            if len(runs) > _MOST_RUNS:
                raise self._too_little(done)
            self.on_progress(min(done / max(self.size or 2 * done, 1), 1.0) / 2)
        return runs

    def _merged_some(
        self, runs: list[Run], file: SpillFile, to: SpillFile, dictionaries: SharedDictionaries
    ) -> list[Run]:
        """Merge consecutive runs into fewer, larger ones."""
        fewer = []
        for first in range(0, len(runs), self._runs_at_once):
            heads = [_Head(file, run, self.keys, dictionaries) for run in runs[first : first + self._runs_at_once]]
            merged = self._merged(heads)
            table = next(merged, None)
            if table is not None:
                tables = itertools.chain([table], merged)
                blocks = (block for each in tables for block in slices_within(each, self._block_bytes))
                fewer.append(to.write(table.schema, blocks))
        return fewer

    def _too_little(self, size: int) -> UsageError:
        least = BATCHES_IN_MEMORY * size // (_MOST_RUNS - 1)
        return UsageError(
            f"{self.memory} bytes of host memory are too little for {size}, which take over {_MOST_RUNS} runs; "
            f"give {max(least >> 20, 1)} MiB at least"
        )

    def _merged(self, heads: list[_Head]) -> Iterator[pa.Table]:
        """The rows of all runs in order; rows with equal keys in the order of the runs."""
        while alive := [head for head in heads if head.fill()]:
            unread = [head for head in alive if not head.is_last]
            bound = _least([head.last_key for head in unread]) if unread else None
            parts = []
            inclusive = True
            for head in alive:
                part, ends_in_bound = head.take(bound, inclusive=inclusive)
                parts.append(part)
                # A run whose block ends with the bound's key may have more such rows, which precede later runs' rows.
                inclusive = inclusive and not ends_in_bound
            yield self.sort_batch(pa.concat_tables(part for part in parts if part.num_rows))
            del parts, part
            _release_unused()

    def _first_of_each(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Drop rows whose key ended the previous table; within a table, keys are unique already."""
        last: RowKeys | None = None
        for table in tables:
            keys = RowKeys(table, self.keys, comparable=True)
            known = keys.core.rows_before(last.core, 0, or_equal=True) if last is not None else 0
            last = RowKeys(table.slice(table.num_rows - 1), self.keys, comparable=True)
            if known < table.num_rows:
                yield table.slice(known)


def _release_unused() -> None:
    """Release memory that allocators would otherwise retain in addition to the next allocations."""
    pa.default_memory_pool().release_unused()
    _core.drop_spare_memory()


def _least(keys: list[RowKeys]) -> RowKeys:
    """The smallest of several keys of one row each."""
    least = keys[0]
    for other in keys[1:]:
        if other.core.rows_before(least.core, 0, or_equal=False):
            least = other
    return least


def _checked(tables: Iterable[pa.Table], before: RowChecksum, after: RowChecksum) -> Iterator[pa.Table]:
    yield from map(after.add, tables)
    check_same_rows(before, after)


class _Head:
    """A run's current block in memory, and how far it has been merged."""

    def __init__(self, file: SpillFile, run: Run, keys: list[SortKey], dictionaries: SharedDictionaries) -> None:
        self._blocks = map(dictionaries.given, file.read(run))
        self._keys = keys
        self._unread = run.blocks
        self._block: pa.Table | None = None
        self._first = 0  # first row of the block that has not been merged
        self._row_keys: RowKeys
        self.last_key: RowKeys
        """The key of the last row of the block."""

    @property
    def is_last(self) -> bool:
        """Whether nothing of the run is left to read."""
        return not self._unread

    def fill(self) -> bool:
        """Make sure that unmerged rows are in memory; false if the run is at its end."""
        if self._block is None or self._first == self._block.num_rows:
            self._block = None  # free its memory
            if not self._unread:
                return False
            self._block, self._first = next(self._blocks), 0
            self._unread -= 1
            self._row_keys = RowKeys(self._block, self._keys, comparable=True)
            self.last_key = RowKeys(self._block.slice(self._block.num_rows - 1), self._keys, comparable=True)
        return True

    def take(self, bound: RowKeys | None, *, inclusive: bool) -> tuple[pa.Table, bool]:
        """The block's rows below ``bound`` (``inclusive``: or equal), or all; and if unread ones may equal it."""
        assert self._block is not None
        begin, end = self._first, self._block.num_rows
        if bound is None:
            self._first = end
            return self._block.slice(begin), False
        up_to = self._row_keys.core.rows_before(bound.core, 0, or_equal=True)
        self._first = up_to if inclusive else self._row_keys.core.rows_before(bound.core, 0, or_equal=False)
        return self._block.slice(begin, self._first - begin), up_to == end and not self.is_last
