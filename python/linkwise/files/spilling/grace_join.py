"""Joins of files neither of which fits into memory: both are partitioned by hashes of their keys, and spilled.

All rows of a key are in one partition of each side. Of each pair of partitions one side fits into memory and is the
build side; the other one is streamed (the Grace hash join: Kitsuregawa et al., New Generation Computing 1, 1983).
Pairs that still do not fit are partitioned again by other hashes; where that does not help, as with very many rows of
one key, they are joined by another strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from linkwise import _core
from linkwise._typing import Array
from linkwise.columns.decode import decoded
from linkwise.columns.gather import gather_rows
from linkwise.columns.gather_pyarrow import empty_table
from linkwise.files.reading.reader import Part, Reader, Seen, bytes_of_rows, in_parts, not_looked_at
from linkwise.files.spilling.spill_file import Run, SpillFile
from linkwise.files.streamed_join import StreamedJoin, key_kinds, parts_of
from linkwise.files.writing.free_space import Outlook
from linkwise.files.writing.writer import TableWriter
from linkwise.interop.containers import Contents
from linkwise.joining.type_promotion import comparable
from linkwise.runtime.execution import Progress
from linkwise.runtime.parallel import in_order

_MOST_PARTITIONS = 256
_UNEVEN = 1.5  # a partition may be this many times the average
_WAITING = 8  # rows that wait to be spilled take memory / _WAITING
_MOST_LEVELS = 3  # of recursive partitioning
# Odd multipliers of the hashes, one per level; the leading bits of the product select the partition.
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)

Otherwise = Callable[[Sequence[Reader]], int]
"""Joins a pair of partitions by another strategy; returns the number of rows."""


@dataclass(frozen=True)
class GraceJoin:
    """A Grace hash join: partitions two relations and joins each pair of partitions."""

    join: StreamedJoin
    """The sides to partition; also the join of each pair, with the readers of that pair."""
    partitions: int
    directory: Path | None
    level: int = 0

    @classmethod
    def of(cls, join: StreamedJoin, directory: Path | None, level: int = 0) -> GraceJoin | None:
        """``None`` if no size is known, or the deepest level of partitioning is reached."""
        if join.smaller is None or level == _MOST_LEVELS:
            return None
        partitions = int(_UNEVEN * join.smaller[0] / join.most_held) + 1
        return cls(join, min(max(partitions, 2), _MOST_PARTITIONS), directory, level)

    @property
    def told(self) -> str:
        """The strategy, in words."""
        return f"{self.partitions} partitions by hashes of the keys, spilled, each joined by a hash table"

    def count(self, otherwise: Otherwise, on_progress: Progress) -> int:
        """The number of rows of the result."""
        return self._each(otherwise, on_progress, lambda join, progress: join.count(progress))

    def write(
        self, writer: TableWriter, suffix: str, outlook: Outlook, otherwise: Otherwise, on_progress: Progress
    ) -> int:
        """Write the result; returns its number of rows. ``outlook`` raises if it does not fit on the disk."""
        self.join.write_nothing(writer, suffix)  # raises errors before the work begins
        return self._each(otherwise, on_progress, lambda join, progress: join.write(writer, suffix, outlook, progress))

    def _each(
        self, otherwise: Otherwise, on_progress: Progress, joined: Callable[[StreamedJoin, Progress], int]
    ) -> int:
        """Join all pairs; returns the number of rows."""
        rows = 0
        with self._partitioned(lambda done: on_progress(done / 2)) as pairs:
            for at, pair in enumerate(pairs):

                def progress(done: float, at: int = at) -> None:
                    on_progress(0.5 + (at + done) / len(pairs) / 2)

                join = replace(self.join, readers=pair)
                if join.fits:
                    rows += joined(join, progress)
                    continue
                finer = GraceJoin.of(join, self.directory, self.level + 1)
                rows += otherwise(pair) if finer is None else finer._each(otherwise, progress, joined)
        return rows

    @contextmanager
    def _partitioned(self, on_progress: Progress) -> Iterator[list[list[Reader]]]:
        """The pairs of partitions, the largest first. Leaves no run behind."""
        with SpillFile(self.directory) as file:
            self.join.steps.begin("spill")
            left = self._spilled(0, file, lambda done: on_progress(done / 2))
            right = self._spilled(1, file, lambda done: on_progress((1 + done) / 2))
            # Largest first: if the disk has no room for a key with very many rows, that is found early.
            yield sorted(
                map(list, zip(left, right, strict=True)), key=lambda pair: -sum(side.size or 0 for side in pair)
            )

    def _spilled(self, side: int, file: SpillFile, on_progress: Progress) -> list[SpilledRows]:
        """Partition and spill a side."""
        reader, steps = self.join.readers[side], self.join.steps
        assert reader.schema is not None
        kinds = key_kinds(self.join.readers, self.join.keys)

        def partitioned(part: Part) -> tuple[int, pa.Table, Array]:
            with steps.span("decode"):
                table = part.decode(None)
            with steps.span("partition"):
                return part.rows, *self._by_partition(table, side, kinds)

        partitions = [SpilledRows(file, reader.schema) for _ in range(self.partitions)]
        waiting: list[tuple[pa.Table, Array]] = []  # until they are worth a run per partition
        waiting_bytes = done = 0
        all_rows = reader.rows
        for rows, table, ends in in_order(partial(partitioned, part) for part in parts_of(reader, self.join.memory)):
            waiting.append((table, ends))
            waiting_bytes += bytes_of_rows(table)
            if waiting_bytes >= self.join.memory // _WAITING:
                with steps.span("spill"):
                    _spill(waiting, partitions)
                waiting, waiting_bytes = [], 0
            done += rows
            if all_rows:
                on_progress(min(done / all_rows, 1.0))
        _spill(waiting, partitions)
        return partitions

    def _by_partition(self, table: pa.Table, side: int, kinds: Sequence[pa.DataType]) -> tuple[pa.Table, Array]:
        """The rows grouped by partition, and the offsets of the partitions, with the end of the last one."""
        hashes = np.zeros(table.num_rows, np.uint64)
        for pair, kind in zip(self.join.keys.pairs, kinds, strict=True):
            column = decoded(comparable(table[pair[side]], kind, pair))
            _core.hash_rows([chunk for chunk in column.chunks if len(chunk)], hashes)
        numbers = self._partition_of(hashes)
        ends = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=self.partitions))])
        return gather_rows(table, np.argsort(numbers, kind="stable")), ends

    def _partition_of(self, hashes: Array) -> Array:
        mixed = hashes * np.uint64(_MULTIPLIERS[self.level])
        return ((mixed >> np.uint64(32)) * np.uint64(self.partitions) >> np.uint64(32)).astype(np.uint8)


def _spill(tables: Sequence[tuple[pa.Table, Array]], partitions: Sequence[SpilledRows]) -> None:
    """Append a run to each partition, from tables grouped by partition and the offsets in each."""
    for number, partition in enumerate(partitions):
        parts = [table.slice(ends[number], ends[number + 1] - ends[number]) for table, ends in tables]
        if any(part.num_rows for part in parts):
            partition.append(pa.concat_tables(parts))


class SpilledRows(Reader):
    """The rows of a partition, spilled in several runs."""

    schema: pa.Schema

    def __init__(self, file: SpillFile, schema: pa.Schema) -> None:
        super().__init__("arrow", schema=schema, columns=list(schema.names), size=0)
        self._file = file
        self._runs: list[Run] = []

    def append(self, rows: pa.Table) -> None:
        """Spill one more run."""
        self._runs.append(self._file.write(rows.schema, [rows]))
        self.size = (self.size or 0) + bytes_of_rows(rows)

    def _tables(self) -> Iterator[pa.Table]:
        return (table for run in self._runs for table in self._file.read(run))

    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """See ``Reader``."""
        runs = in_order(partial(self._run, run) for run in self._runs)
        contents: Contents = seen(pa.concat_tables([empty_table(self.schema), *runs]))
        return contents

    def _run(self, run: Run) -> pa.Table:
        return pa.concat_tables(self._file.read(run))

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        return in_parts((batch for table in self._tables() for batch in table.to_batches()), self.schema, most_bytes)

    def parts(self, rows: int, most_bytes: int) -> Iterator[Part]:
        """See ``Reader``. Runs are combined up to that many rows."""
        held: list[Run] = []
        most_rows = min(rows, max(most_bytes * (self.rows or 1) // max(self.size or 1, 1), 1))
        for run in self._runs:
            if held and sum(each.rows for each in held) + run.rows > most_rows:
                yield self._part(held)
                held = []
            held.append(run)
        if held:
            yield self._part(held)

    def _part(self, runs: list[Run]) -> Part:
        def decode(columns: Sequence[str] | None) -> pa.Table:
            table = pa.concat_tables(map(self._run, runs))
            return table if columns is None else table.select(list(columns))

        return Part(sum(run.rows for run in runs), decode)

    @property
    def rows(self) -> int | None:
        """See ``Reader``."""
        return sum(run.rows for run in self._runs)

    def check_unchanged(self) -> None:
        """See ``Reader``. Runs have checksums."""
