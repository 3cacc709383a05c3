"""Sorting tables that do not fit into host memory: sorted runs on disk, merged back as a stream.

The input comes in batches; each is sorted as any table is and spilled as a run. Then the runs are read back some
blocks at a time: no more rows can arrive below the smallest last key of those read, so these rows are merged, by one
more sort, and written. All runs are read up to about the same key: so most rows that are in memory are merged at once.
Rows with equal keys keep their order: batches are in input order, and so are runs in a merge.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from linkwise import _core
from linkwise._core import UsageError
from linkwise.columns.dictionaries import SharedDictionaries
from linkwise.columns.row_checksum import RowChecksum, check_same_rows
from linkwise.columns.sort_keys import SortKey
from linkwise.files.reading.reader import bytes_of_rows, slices_within
from linkwise.files.reading.within_memory import BATCHES_IN_MEMORY
from linkwise.files.spilling.run_front import RunFront, filled
from linkwise.files.spilling.spill_file import Run, SpillFile
from linkwise.runtime.execution import Progress
from linkwise.runtime.host_memory import resident_memory
from linkwise.sorting.row_keys import RowKeys

SortBatch = Callable[[pa.Table], pa.Table]
_FRONTS_IN_MEMORY = 6  # per run: the one that is merged, the next one, and memory for sorting and writing
_SMALL = 256 << 20  # bytes; within less memory, allocators retain nothing
_BLOCKS = 4  # of a front, so that most of what is read is merged each time
_LEAST_BLOCKS = 2  # of a front, where there are more runs than expected: better than merging some of them twice
_DICTIONARIES = 16  # all values of a shared dictionary may take memory / _DICTIONARIES
_LEAST_BLOCK = 1 << 14  # bytes; with smaller blocks, the time goes into opening and closing them
_MOST_RUNS = 1024  # per sort; all of them may be read at the same time
_RUNS_OF_A_PIPE = 64  # runs merged at a time where the size of the input is unknown
_LEAST_MERGED = 8  # runs merged at a time: sizes are estimates, and merging single runs would never end


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
        unused = _UnusedMemory(self.memory)
        with ExitStack() as files:
            file = files.enter_context(SpillFile(self.directory))
            dictionaries = SharedDictionaries(self.memory // _DICTIONARIES)
            checked = map(before.add, batches) if is_checked else batches
            runs = self._spill(map(dictionaries.grown_by, checked), file, unused)
            spilled = len(runs)
            while len(runs) > self._runs_at_once * max(self._front_blocks // _LEAST_BLOCKS, 1):
                merged_file = files.enter_context(SpillFile(self.directory))
                runs = self._merged_some(runs, file, merged_file, dictionaries, unused)
                file.close()
                file = merged_file
            fronts = [RunFront(file, run, self.keys, dictionaries) for run in runs]
            merged = files.enter_context(closing(self._merged(fronts, unused)))
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
    def _front_bytes(self) -> int:
        # One front of every run is in memory, and merging takes several times as much.
        return self.memory // (_FRONTS_IN_MEMORY * self._runs_at_once)

    @property
    def _front_blocks(self) -> int:
        return min(max(self._front_bytes // _LEAST_BLOCK, 1), _BLOCKS)

    @property
    def _block_bytes(self) -> int:
        return max(self._front_bytes // self._front_blocks, _LEAST_BLOCK)

    def _spill(self, batches: Iterable[pa.Table], file: SpillFile, unused: _UnusedMemory) -> list[Run]:
        """Sort and spill each batch; it is written while the next one is sorted."""
        if self.size is not None and self._runs_at_once > _MOST_RUNS:
            raise self._too_little(self.size)
        runs: list[Future[Run]] = []
        done = 0

        def write(table: pa.Table) -> Run:
            return file.write(table.schema, slices_within(table, self._block_bytes))

        with ThreadPoolExecutor(1, "linkwise") as pool:
            for batch in batches:
                done += bytes_of_rows(batch)
                table = self.sort_batch(batch)
                del batch  # free its memory
                if runs:
                    runs[-1].result()
                runs.append(pool.submit(write, table))
                del table
                unused.release()
                if len(runs) > _MOST_RUNS:
                    raise self._too_little(done)
                self.on_progress(min(done / max(self.size or 2 * done, 1), 1.0) / 2)
        return [run.result() for run in runs]

    def _merged_some(
        self, runs: list[Run], file: SpillFile, to: SpillFile, dictionaries: SharedDictionaries, unused: _UnusedMemory
    ) -> list[Run]:
        """Merge consecutive runs into fewer, larger ones."""
        fewer = []
        for first in range(0, len(runs), self._runs_at_once):
            some = runs[first : first + self._runs_at_once]
            fronts = [RunFront(file, run, self.keys, dictionaries) for run in some]
            with closing(self._merged(fronts, unused)) as merged:
                table = next(merged, None)
                if table is not None:
                    tables = itertools.chain([table], merged)
                    blocks = (block for each in tables for block in slices_within(each, self._block_bytes))
                    fewer.append(to.write(table.schema, blocks))
        return fewer

    def _too_little(self, size: int) -> UsageError:
        least = BATCHES_IN_MEMORY * size // (_MOST_RUNS - 1)
        return UsageError(
            f"the host memory is too little for {size:,} bytes of rows; give {max(least >> 20, 1)} MiB at least"
        )

    def _merged(self, fronts: list[RunFront], unused: _UnusedMemory) -> Generator[pa.Table, None, None]:
        """The rows of all runs in order; rows with equal keys in the order of the runs.

        What is merged next is read meanwhile.
        """

        blocks = self._front_blocks * self._runs_at_once
        with ThreadPoolExecutor(1, "linkwise") as pool:
            there = filled(fronts, blocks)
            while there:
                rows = _rows_that_come_next(there)
                filling = pool.submit(filled, there, blocks)
                yield self.sort_batch(rows)
                del rows
                unused.release()
                there = filling.result()

    def _first_of_each(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Drop rows whose key ended the previous table; within a table, keys are unique already."""
        last: RowKeys | None = None
        for table in tables:
            keys = RowKeys(table, self.keys, comparable=True)
            known = keys.core.rows_before(last.core, 0, or_equal=True) if last is not None else 0
            last = RowKeys(table.slice(table.num_rows - 1), self.keys, comparable=True)
            if known < table.num_rows:
                yield table.slice(known)


class _UnusedMemory:
    """Memory that allocators retain. Most of it is used again, which saves page faults, but it adds to the limit."""

    def __init__(self, limit: int) -> None:
        self._most = resident_memory() + (limit // 2 if limit >= _SMALL else 0)

    def release(self) -> None:
        """Return it to the operating system if the process has grown much."""
        if resident_memory() > self._most:
            pa.default_memory_pool().release_unused()
            _core.drop_spare_memory()


def _rows_that_come_next(fronts: list[RunFront]) -> pa.Table:
    """The rows in memory that come before all rows that are still to be read, run by run."""
    unread = [front for front in fronts if not front.is_last]
    bound = _least([front.last_key for front in unread]) if unread else None
    parts: list[pa.Table] = []
    inclusive = True
    for front in fronts:
        taken, may_equal = front.take(bound, inclusive=inclusive)
        parts += taken
        # A run may have more rows with the bound's key than were read, which precede later runs' rows.
        inclusive = inclusive and not may_equal
    return pa.concat_tables(part for part in parts if part.num_rows)


def _least(keys: list[RowKeys]) -> RowKeys:
    """The smallest of several keys of one row each."""
    least = keys[0]
    for other in keys[1:]:
        if not other.is_above(least, or_equal=True):
            least = other
    return least


def _checked(tables: Iterable[pa.Table], before: RowChecksum, after: RowChecksum) -> Iterator[pa.Table]:
    yield from map(after.add, tables)
    check_same_rows(before, after)
