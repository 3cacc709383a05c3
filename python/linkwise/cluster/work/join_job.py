"""A join: both sides are cut at the same bounds, and each partition is joined as files are.

If a key alone exceeds a partition, one side's rows of it are divided among several partitions, and the other side's
rows of it are lent (replicated) to each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linkwise.cluster.bounds import Bounds, Sample, bounds_of_join, cut, sample_of
from linkwise.cluster.engine import Fetch
from linkwise.cluster.job import Job
from linkwise.cluster.work.recorder import Recorder
from linkwise.cluster.work.shards import Shard, ShardReader, shards_of
from linkwise.cluster.work.splits import Split
from linkwise.cluster.work.stages import Output, WorkerLimits, facts_of
from linkwise.columns.decode import decoded
from linkwise.columns.gather import gather_rows
from linkwise.columns.inside import column_named, outer_columns, type_named
from linkwise.columns.row_checksum import RowChecksum
from linkwise.columns.sort_keys import Selection, SortKey
from linkwise.files.file_join import FileJoin, JoinRequest, OpenSides
from linkwise.files.formats import FileOptions
from linkwise.files.reading.fields_reader import FieldsReader
from linkwise.files.reading.reader import Reader
from linkwise.joining.joined_rows import KeyPairs
from linkwise.joining.matching import How, Order
from linkwise.joining.type_promotion import common_type, comparable
from linkwise.sorting.tables import order_of_table

_KEEP_UNMATCHED = ({"left", "full", "anti"}, {"right", "full"})
"""For each side, the kinds of join that keep its rows without a match."""


@dataclass(frozen=True)
class JoinJob(Job):
    """A join of two sides; see ``join_file``."""

    schemas: tuple[pa.Schema, pa.Schema]
    keys: KeyPairs
    how: How
    order: Order
    suffix: str
    nulls_equal: bool
    validate: str
    limits: WorkerLimits

    @property
    def kinds(self) -> list[pa.DataType]:
        """The types in which keys are compared. Raises ``UsageError`` if there are none."""
        left, right = self.schemas
        return [common_type(type_named(left, a), type_named(right, b), (a, b)) for a, b in self.keys.pairs]

    @property
    def by(self) -> list[SortKey]:
        """See ``Job``."""
        return [SortKey(str(number)) for number in range(len(self.keys.pairs))]

    def _keys_of(self, side: int, table: pa.Table) -> pa.Table:
        columns = [
            decoded(comparable(column_named(table, pair[side]), kind, pair))
            for pair, kind in zip(self.keys.pairs, self.kinds, strict=True)
        ]
        return pa.table(columns, [key.column for key in self.by])

    def _is_distinct(self, side: int) -> bool:
        """Whether one row of each key suffices."""
        return side == 1 and self.how in ("semi", "anti") and self.validate[2] != "1"

    def _read(self, fetch: Fetch, side: int, split: Split, columns: list[str] | None) -> tuple[pa.Table, pa.Table, int]:
        """The rows of a split that may be in the result, their keys, and how many were read."""
        table = split.read(columns, fetch)
        keys = self._keys_of(side, table)
        if self.nulls_equal or self.how in _KEEP_UNMATCHED[side] or not any(c.null_count for c in keys.columns):
            return table, keys, table.num_rows
        rows = np.ones(table.num_rows, bool)
        for column in keys.columns:
            rows &= np.asarray(pc.is_valid(column))
        kept = np.flatnonzero(rows)
        return gather_rows(table, kept), gather_rows(keys, kept), table.num_rows

    def sample(self, fetch: Fetch, side: int, split: Split, wanted: int) -> Sample:
        """See ``Job``."""
        names = outer_columns([pair[side] for pair in self.keys.pairs], self.schemas[side].names)
        _, keys, _ = self._read(fetch, side, split, names)
        if self._is_distinct(side):
            rows, _ = order_of_table(keys, self.by, self.limits.execution, Selection(unique=True))
            keys = gather_rows(keys, np.sort(rows))
        return sample_of(keys, split.number, wanted)

    def _divided(self) -> list[int]:
        """The sides whose rows of one key may be divided among several partitions."""
        is_left_alone = self.how in ("semi", "anti") or self.order == "key"
        must_be_unique = self.validate[0] == "1", self.validate[2] == "1"
        return [side for side in ([0] if is_left_alone else [0, 1]) if not must_be_unique[side]]

    def bounds(self, samples: Sequence[Sequence[Sample]], sizes: Sequence[int], partitions: int) -> Bounds:
        """See ``Job``."""
        row_bytes = [
            size / max(sum(sample.split_rows for sample in of_side), 1)
            for size, of_side in zip(sizes, samples, strict=True)
        ]
        return bounds_of_join(samples, row_bytes, partitions, self._divided(), nulls_equal=self.nulls_equal)

    def spread(
        self, fetch: Fetch, side: int, split: Split, bounds: Bounds, groups: Sequence[range], wanted: Sequence[bool]
    ) -> Iterator[Any]:
        """See ``Job``."""
        table, keys, read = self._read(fetch, side, split, None)
        rows, _ = order_of_table(keys, self.by, self.limits.execution, Selection(unique=self._is_distinct(side)))
        table = gather_rows(table, rows)
        ends = cut(gather_rows(keys, rows), rows, self.by, bounds, split.number, side)
        yield from shards_of(table, ends, groups, wanted)
        yield facts_of(table, read, ends)

    def make_partition(self, fetch: Fetch, output: Output, sides: Sequence[Sequence[Shard]]) -> Iterator[Any]:
        """See ``Job``."""
        limits, received = self.limits, [RowChecksum(), RowChecksum()]
        readers = [
            ShardReader(shards, schema, fetch, limits.fetched, output.compression)
            for shards, schema in zip(sides, self.schemas, strict=True)
        ]
        for reader, checksum in zip(readers, received, strict=True):
            reader.add_rows_to(checksum)
        join = self._join(readers)

        def write(recorder: Recorder) -> None:
            join.write(recorder, lambda _: None)
            for reader in readers:
                reader.see_the_rest()

        has_all_keys = self.how not in ("right", "full") or set(self.keys.pairs) <= set(self.keys.merged.items())
        is_checked = self.order == "key" and has_all_keys
        recorder = partial(Recorder, keys_of=partial(self._keys_of, 0) if is_checked else None, by=self.by)
        yield from output.write(readers[0], [], limits.memory, recorder, received, write)

    def _join(self, readers: Sequence[ShardReader]) -> FileJoin:
        asked = JoinRequest(
            left=(), right=(), on=None, left_on=None, right_on=None, how=self.how, options=FileOptions(),
            suffix=self.suffix, nulls_equal=self.nulls_equal, validate=self.validate, order=self.order,
            host_memory_limit=self.limits.memory, temporary_directory=self.limits.directory,
        )  # fmt: skip
        sides: list[Reader] = [
            FieldsReader(reader, list(fields)) if fields else reader
            for reader, fields in zip(readers, self.keys.inside, strict=True)
        ]
        return FileJoin(asked, OpenSides(sides, self.keys, ((), ())), self.limits.execution)

    def schema(self) -> pa.Schema:
        """The schema of the result. Raises ``UsageError`` if the sides cannot be joined."""
        nothing = [ShardReader([], schema, list, 1, {}) for schema in self.schemas]
        return self._join(nothing).schema()
