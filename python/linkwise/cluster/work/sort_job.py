"""A sort: splits are sorted and cut into shards, and the shards of a partition are sorted again, into a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from linkwise.cluster.bounds import (
    Bounds,
    Sample,
    bounds_of_keys,
    bounds_of_sort,
    cut,
    key_columns,
    numbered_keys,
    sample_of,
)
from linkwise.cluster.engine import Fetch
from linkwise.cluster.job import Job
from linkwise.cluster.work.recorder import Recorder
from linkwise.cluster.work.shards import Shard, ShardReader, shards_of
from linkwise.cluster.work.splits import Split
from linkwise.cluster.work.stages import Output, WorkerLimits, facts_of
from linkwise.columns.gather import gather_rows
from linkwise.columns.inside import outer_columns
from linkwise.columns.row_checksum import RowChecksum
from linkwise.columns.sort_keys import Selection, SortKey
from linkwise.files.file_sort import FileSort
from linkwise.sorting.tables import order_of_table


@dataclass(frozen=True)
class SortJob(Job):
    """A sort by some keys, and the selection of its rows that is wanted."""

    schema: pa.Schema
    """The schema of all columns."""
    keys: list[SortKey]
    """The sort keys, which may be nested inside columns."""
    selection: Selection
    limits: WorkerLimits

    @property
    def is_one_partition(self) -> bool:
        """See ``Job``. A limited number of first rows is small."""
        return self.selection.limit is not None

    @property
    def by(self) -> list[SortKey]:
        """See ``Job``."""
        return numbered_keys(self.keys)

    def _keys_of(self, table: pa.Table) -> pa.Table:
        return key_columns(table, self.keys)

    def sample(self, fetch: Fetch, side: int, split: Split, wanted: int) -> Sample:
        """See ``Job``."""
        del side
        keys = self._keys_of(split.read(outer_columns([key.column for key in self.keys], self.schema.names), fetch))
        if self.selection.unique:
            rows, _ = order_of_table(keys, self.by, self.limits.execution, Selection(unique=True))
            keys = gather_rows(keys, np.sort(rows))
        return sample_of(keys, split.number, wanted)

    def bounds(self, samples: Sequence[Sequence[Sample]], sizes: Sequence[int], partitions: int) -> Bounds:
        """See ``Job``."""
        del sizes
        of = bounds_of_keys if self.selection.unique else bounds_of_sort
        return of(samples[0], self.by, partitions)

    def spread(
        self, fetch: Fetch, side: int, split: Split, bounds: Bounds, groups: Sequence[range], wanted: Sequence[bool]
    ) -> Iterator[Any]:
        """See ``Job``."""
        del side
        table = split.read(None, fetch)
        rows, _ = order_of_table(table, self.keys, self.limits.execution, self.selection)
        read, table = table.num_rows, gather_rows(table, rows)
        ends = cut(self._keys_of(table), rows, self.by, bounds, split.number)
        yield from shards_of(table, ends, groups, wanted)
        yield facts_of(table, read, ends)

    def make_partition(self, fetch: Fetch, output: Output, sides: Sequence[Sequence[Shard]]) -> Iterator[Any]:
        """See ``Job``."""
        limits, received = self.limits, RowChecksum()
        reader = ShardReader(sides[0], self.schema, fetch, limits.fetched, output.compression)
        if not self.selection.is_everything:
            reader.add_rows_to(received)

        def write(recorder: Recorder) -> None:
            FileSort(reader, self.keys, self.selection, limits.execution, limits.memory, limits.directory).run(recorder)
            if self.selection.is_everything:  # then every row that was received is written
                received.add_value(recorder.written)

        recorder = partial(Recorder, keys_of=self._keys_of, by=self.by)
        yield from output.write(reader, self.keys, limits.memory, recorder, [received], write)
