"""What the stages of sorts and joins have in common: what they may take, and what they tell the driver.

Each stage is a function of its arguments, whichever worker calls it and however often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from linkwise._typing import Array
from linkwise.cluster.engine import Fetch
from linkwise.cluster.work.recorder import Recorder, RowSum
from linkwise.cluster.work.splits import FileFacts, SourceFile, inspect, parts_of_text
from linkwise.columns.row_checksum import RowChecksum
from linkwise.columns.sort_keys import SortKey
from linkwise.files.formats import FileOptions
from linkwise.files.locations import Location, RemoteFile
from linkwise.files.reading.reader import Reader, bytes_of_rows
from linkwise.files.writing.writer import TableWriter, Writer
from linkwise.interop.containers import Contents
from linkwise.runtime.execution import ExecutionOptions


@dataclass(frozen=True)
class WorkerLimits:
    """What a stage may take on its worker."""

    memory: int
    """Bytes."""
    fetched: int
    """Bytes that are fetched from the store at once."""
    strategy: str
    """How it sorts and joins: see ``options``."""
    directory: Path | None
    """Where runs are spilled; the system's place for it unless given."""

    @property
    def execution(self) -> ExecutionOptions:
        """What comes of it is checked by whoever asks."""
        return ExecutionOptions(strategy=self.strategy, verify=False)


@dataclass(frozen=True)
class SplitFacts:
    """What became of a split."""

    rows: int
    """That were read."""
    ends: Array
    """As ``cut`` has them."""
    row_bytes: float
    sent: RowSum
    """Of the rows of all shards."""


@dataclass(frozen=True)
class PartitionFacts:
    """What became of a partition."""

    name: str
    """Of its file."""
    rows: int
    """Of the result."""
    size: int
    """Bytes of the file."""
    received: list[RowSum]
    """Of the rows of all its shards, of each side."""
    ends: pa.Table | None
    """The keys of the first and of the last row; none of a join without an order."""


class KeptRows(TableWriter):
    """Keeps the rows of a partition that goes into the store."""

    def __init__(self, schema: pa.Schema) -> None:
        self._tables = [schema.empty_table()]

    def write(self, contents: Contents) -> None:
        """See ``TableWriter``."""
        self._tables.append(contents)

    def write_parts(self, rows: int, row_bytes: int, make: Callable[[int, int], pa.Table]) -> None:
        """See ``TableWriter``."""
        del row_bytes
        self.write(make(0, rows))

    def flush(self) -> None:
        """See ``TableWriter``."""

    def table(self) -> pa.Table:
        """All of them."""
        return pa.concat_tables(self._tables)


@dataclass(frozen=True)
class Output:
    """Where the rows of a partition go: into a file, or without a path into the store."""

    path: Path | RemoteFile | None
    options: FileOptions
    schema: pa.Schema
    compression: dict[str, str]

    def write(
        self, like: Reader, keys: list[SortKey], memory: int, recording: Callable[[TableWriter], Recorder],
        received: Sequence[RowChecksum], write: Callable[[Recorder], object],
    ) -> Iterator[Any]:  # fmt: skip
        """Have rows written, which are in the order of keys. Yields them, if they go into no file, and facts of them.

        ``received``: the sums of the rows of each side, when they are written.
        """
        if self.path is None:
            kept = KeptRows(self.schema)
            recorder = recording(kept)
            write(recorder)
            yield kept.table()
        else:
            with Writer(self.path, self.options, like=like, schema=self.schema, keys=keys, memory=memory) as writer:
                recorder = recording(writer)
                write(recorder)
        name = str(self.path).rpartition("/")[2]
        yield PartitionFacts(
            name, recorder.written[1], self._size(), [each.value for each in received], recorder.ends()
        )

    def _size(self) -> int:
        if isinstance(self.path, RemoteFile):
            return int(self.path.filesystem.get_file_info(self.path.path).size)
        return 0 if self.path is None else self.path.stat().st_size


def look_at(fetch: Fetch, paths: Sequence[Location], options: FileOptions) -> list[FileFacts]:
    """The first stage: see ``inspect``."""
    del fetch
    return inspect(paths, options)


def read_text(fetch: Fetch, file: SourceFile, most_bytes: int) -> Any:
    """The stage that reads what can be read from its beginning alone: see ``parts_of_text``."""
    del fetch
    return parts_of_text(file, most_bytes)


def describe(fetch: Fetch, handle: Any) -> tuple[pa.Schema, int]:
    """The columns of a table in the store, and its bytes."""
    table = fetch([handle])[0]
    return table.schema, int(bytes_of_rows(table))


def facts_of(table: pa.Table, read: int, ends: Array) -> SplitFacts:
    """Of the rows of a split that were cut so."""
    sent = RowChecksum()
    if (ends[1:, 0] == ends[:-1, 1]).all():
        sent.add_on_all_cores(table)
    else:
        for first, end in ends.tolist():
            sent.add_on_all_cores(table.slice(first, end - first))
    return SplitFacts(read, ends, bytes_of_rows(table) / max(table.num_rows, 1), sent.value)
