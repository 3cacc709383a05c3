"""Shards, which pass between stages: the sorted rows that a split has of a partition, in Arrow's stream format.

Small shards are slow to read back from the disk to which the store spills. So splits are large and, if shards would
still be too small, rows are first cut into groups of partitions, and then the groups of several splits together into
partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from linkwise._typing import Array
from linkwise.cluster.engine import Fetch, Handle
from linkwise.cluster.sizing import batches_of
from linkwise.cluster.work.splits import from_bytes, to_bytes
from linkwise.columns.row_checksum import RowChecksum
from linkwise.files.reading.reader import Part, Reader, Seen, not_looked_at, slices_within
from linkwise.interop.containers import Contents


class Shard(NamedTuple):
    """Rows in the store."""

    handle: Handle
    rows: int
    size: int
    """Bytes in memory, about."""


class ShardReader(Reader):
    """The rows of some shards, fetched ``at_once`` bytes at a time, since more would not fit into the store."""

    schema: pa.Schema

    def __init__(
        self, shards: Sequence[Shard], schema: pa.Schema, fetch: Fetch, at_once: int, compression: dict[str, str]
    ) -> None:
        size = sum(shard.size for shard in shards)
        super().__init__("arrow", schema=schema, columns=list(schema.names), size=size, compression=compression)
        self._shards = [shard for shard in shards if shard.rows]
        self._fetch = fetch
        self._at_once = at_once
        self._received: RowChecksum | None = None
        self._unseen: set[int] = set()  # id() of the shards that have not been fetched yet

    def add_rows_to(self, received: RowChecksum) -> None:
        """Add all rows to a checksum as they are fetched, each once."""
        self._received = received
        self._unseen = set(map(id, self._shards))

    def _groups(self, most_bytes: int) -> Iterator[list[Shard]]:
        for batch in batches_of([shard.size for shard in self._shards], most_bytes):
            yield self._shards[batch.start : batch.stop]

    def _fetched(self, shards: Sequence[Shard]) -> pa.Table:
        # Copied, so that the store need not keep the bytes.
        data = self._fetch([shard.handle for shard in shards])
        tables = [from_bytes(pa.py_buffer(each).to_pybytes()) for each in data]
        for shard, table in zip(shards, tables, strict=True):
            if self._received is not None and id(shard) in self._unseen:
                self._unseen.remove(id(shard))
                self._received.add_on_all_cores(table)
        return pa.concat_tables(tables)

    def see_the_rest(self) -> None:
        """Add the rows of shards that have not been fetched to the checksum."""
        for shard in [shard for shard in self._shards if id(shard) in self._unseen]:
            self._fetched([shard])

    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """See ``Reader``."""
        tables = [seen(self._fetched(group)) for group in self._groups(self._at_once)]
        return pa.concat_tables(tables) if tables else seen(self.schema.empty_table())

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        for group in self._groups(min(most_bytes, self._at_once)):
            yield from slices_within(self._fetched(group), most_bytes)

    def parts(self, rows: int, most_bytes: int) -> Iterator[Part]:
        """See ``Reader``."""
        for group in self._groups(min(most_bytes, self._at_once)):
            decode = partial(self._decoded, group)
            yield Part(sum(shard.rows for shard in group), decode)

    def _decoded(self, shards: Sequence[Shard], columns: Sequence[str] | None) -> pa.Table:
        table = self._fetched(shards)
        return table if columns is None else table.select(list(columns))

    @property
    def rows(self) -> int | None:
        """See ``Reader``."""
        return sum(shard.rows for shard in self._shards)

    def is_read_sooner_by_keys(self, wanted: int, first_key: str) -> bool:
        """See ``Reader``. Single rows are not fetched."""
        del wanted, first_key
        return False

    def check_unchanged(self) -> None:
        """See ``Reader``. What lies in the store does not change."""


def shards_of(table: pa.Table, ends: Array, groups: Sequence[range], wanted: Sequence[bool]) -> Iterator[Any]:
    """The bytes of each group of partitions, with rows cut at ``ends``; empty for groups that are not wanted."""
    for group in groups:
        if any(wanted[number] for number in group):
            first, end = int(ends[group[0], 0]), int(ends[group[-1], 1])
            yield to_bytes(table.slice(first, end - first))
        else:
            yield b""


def regroup(fetch: Fetch, handles: Sequence[Handle], ends: Sequence[Array]) -> Iterator[Any]:
    """The shards of each partition of a group, cut out of the shards of the group from several splits.

    ``ends``: for each split, the range of rows of each of the group's partitions.
    """
    tables = [from_bytes(pa.py_buffer(each).to_pybytes()) for each in fetch(handles)]
    for number in range(len(ends[0])):
        parts = []
        for table, of_split in zip(tables, ends, strict=True):
            begin, end = (int(at) - int(of_split[0, 0]) for at in of_split[number])
            parts.append(table.slice(begin, end - begin))
        yield to_bytes(pa.concat_tables(parts))
