"""Sorting files that do not fit into host memory: sorted runs in a directory, merged back as a stream.

The input comes in batches; each is sorted as any table or array is and spilled as a run. Then the runs come back a
block at a time: what is less than the last key of every block that was read is complete, so it is merged, by one more
sort, and written. Rows with equal keys keep their order: batches are in input order, and so are runs in a merge.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkwise import _core
from linkwise._core import Error, UsageError
from linkwise.files import Contents, Reader, Writer
from linkwise.keys import array_of_column, key_type_of, plain_array
from linkwise.planning import Progress

Codes = npt.NDArray[np.uint64]
SortBatch = Callable[[Contents], Contents]
_LEAST_ROWS = 1024  # of a block; with fewer, the time goes into opening and closing them


@dataclass(frozen=True)
class SpillSort:
    """What to sort by, and how a batch is sorted (stably, and with nulls where ``nulls`` says)."""

    by: str | None
    descending: bool
    nulls: str
    sort_batch: SortBatch
    memory: int  # bytes of host memory that batches and blocks may take
    directory: Path | None
    on_progress: Progress = lambda _: None

    def run(self, source: Reader, out: Writer) -> int:
        """Sort everything that ``source`` reads into ``out``; returns the number of runs. Leaves no run behind."""
        with _run_directory(self.directory) as directory:
            runs = self._spill(source, directory)
            self._merge(runs, source, out)
            return len(runs)

    def _spill(self, source: Reader, directory: Path) -> list[_Run]:
        # A batch, its sorted copy, and what sorting it takes.
        rows = max(self.memory // (4 * source.row_bytes), _LEAST_ROWS)
        runs: list[_Run] = []
        done = 0
        for batch in source.batches(rows):
            path = directory / f"run-{len(runs):06}.arrow"
            table = _as_table(self.sort_batch(batch))
            try:
                with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as stream:
                    stream.write_table(table, max_chunksize=self._block_rows(source))
            except (OSError, pa.ArrowException) as error:
                raise Error(f"cannot spill a run to {directory}: {error}; name another directory") from None
            runs.append(_Run(path))
            done += len(batch)
            self.on_progress(done / max(source.rows, 1) / 2)
        return runs

    def _block_rows(self, source: Reader) -> int:
        # All runs have a block in memory, and what is merged takes as much again.
        num_runs = 1 + 4 * source.rows * source.row_bytes // self.memory
        return int(max(self.memory // (8 * num_runs * source.row_bytes), _LEAST_ROWS))

    def _merge(self, runs: list[_Run], source: Reader, out: Writer) -> None:
        done = 0
        for merged in self._merged_blocks(runs):
            out.write(merged if source.is_table else merged.column(0).to_numpy())
            done += merged.num_rows
            self.on_progress(0.5 + done / max(source.rows, 1) / 2)

    def _merged_blocks(self, runs: list[_Run]) -> Iterator[pa.Table]:
        """The rows of all runs in order: rows without a key at their end, equal keys by run."""
        if self.nulls == "first":
            yield from self._rows_without_key(runs)
        heads = [_Head(run, self) for run in runs]
        while True:
            alive = [head for head in heads if head.fill()]
            if not alive:
                break
            unread = [head.codes[-1] for head in alive if not head.is_last]
            bound = min(unread) if unread else None
            # A run that ends in the bound's key may have more rows with it, which come before those of later runs.
            ends_in_bound = (i for i, head in enumerate(alive) if not head.is_last and head.codes[-1] == bound)
            first = next(ends_in_bound, len(alive))
            parts = [head.take(bound, inclusive=i <= first) for i, head in enumerate(alive)]
            yield self._as_sorted(pa.concat_tables([part for part in parts if part.num_rows]))
        if self.nulls == "last":
            yield from self._rows_without_key(runs)

    def _as_sorted(self, table: pa.Table) -> pa.Table:
        merged = self.sort_batch(table if self.by is not None else table.column(0).to_numpy())
        return _as_table(merged)

    def _rows_without_key(self, runs: list[_Run]) -> Iterator[pa.Table]:
        for run in runs if self.by is not None else []:
            for block in run.blocks():
                missing = block.filter(block[self.by].is_null())
                if missing.num_rows:
                    yield missing

    def with_keys(self, block: pa.Table) -> pa.Table:
        """The rows of a block that have a key."""
        return block if self.by is None else block.filter(block[self.by].is_valid())

    def codes(self, block: pa.Table) -> Codes:
        """Unsigned integers in the order of the block's keys."""
        keys = array_of_column(block[self.by], self.by) if self.by is not None else plain_array(block[0].to_numpy())
        return np.asarray(_core.encode_keys(key_type_of(keys.dtype), self.descending, keys)).astype(
            np.uint64, copy=False
        )


@dataclass(frozen=True)
class _Run:
    path: Path

    def blocks(self) -> Iterator[pa.Table]:
        with pa.memory_map(str(self.path)) as source:
            reader = pa.ipc.open_file(source)
            for index in range(reader.num_record_batches):
                yield pa.Table.from_batches([reader.get_batch(index)])


class _Head:
    """The block of a run that is in memory, and how far it has been merged."""

    def __init__(self, run: _Run, sort: SpillSort) -> None:
        self._blocks = run.blocks()
        self._sort = sort
        self._next = self._read()
        self._block: pa.Table | None = None
        self.codes: Codes = np.empty(0, np.uint64)

    def _read(self) -> pa.Table | None:
        for block in self._blocks:
            rows = self._sort.with_keys(block)
            if rows.num_rows:
                return rows
        return None

    @property
    def is_last(self) -> bool:
        """Whether nothing of the run is left to read."""
        return self._next is None

    def fill(self) -> bool:
        """Have rows at hand; false if the run is at its end."""
        if self._block is None or not self._block.num_rows:
            if self._next is None:
                return False
            self._block, self._next = self._next, self._read()
            self.codes = self._sort.codes(self._block)
        return True

    def take(self, bound: np.uint64 | None, *, inclusive: bool) -> pa.Table:
        """The rows at hand before the bound, or all."""
        assert self._block is not None
        side = "right" if inclusive else "left"
        count = len(self.codes) if bound is None else int(np.searchsorted(self.codes, bound, side))  # type: ignore[call-overload]
        taken = self._block.slice(0, count)
        self._block, self.codes = self._block.slice(count), self.codes[count:]
        return taken


def _as_table(contents: Contents) -> pa.Table:
    return contents if isinstance(contents, pa.Table) else pa.table({"": pa.array(contents)})


@contextmanager
def _run_directory(parent: Path | None) -> Iterator[Path]:
    try:
        directory = Path(tempfile.mkdtemp(prefix="linkwise-", dir=parent))
    except OSError as error:
        raise UsageError(f"cannot spill to {parent}: {error.strerror}; name an existing directory") from None
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
