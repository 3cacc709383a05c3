"""What the stages of sorts and joins share: their resource limits, and the facts that they report to the driver.

Each stage depends only on its arguments, whichever worker calls it and however often.
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
    """The resources that a stage may use on its worker."""

    memory: int
    """Bytes."""
    fetched: int
    """Bytes that are fetched from the store at once."""
    strategy: str
    """How it sorts and joins: see ``options``."""
    directory: Path | None
    """Where runs are spilled; by default the system's temporary directory."""

    @property
    def execution(self) -> ExecutionOptions:
        """The options for sorts and joins; they verify nothing, since the driver checks the result."""
        return ExecutionOptions(strategy=self.strategy, verify=False)


@dataclass(frozen=True)
class SplitFacts:
    """The facts that the driver needs about a split."""

    rows: int
    """The number of rows that were read."""
    ends: Array
    """The ranges that ``cut`` returns."""
    row_bytes: float
    sent: RowSum
    """The checksum of the rows of all shards."""


@dataclass(frozen=True)
class PartitionFacts:
    """The facts that the driver needs about a partition."""

    name: str
    """The name of its file."""
    rows: int
    """Rows of the result."""
    size: int
    """Bytes of the file."""
    received: list[RowSum]
    """For each side, the checksum of the rows of all its shards."""
    ends: pa.Table | None
    """The keys of the first and of the last row; none of a join without an order."""


class KeptRows(TableWriter):
    """Keeps the rows of a partition that goes into the store."""

    def __init__(self, schema: pa.Schema) -> None:
        self._tables = [schema.empty_table()]

    def write(self, contents: Contents) -> None:
        """See ``TableWriter``."""
        self._tables.append(contents)

    def write_parts(
        self, rows: int, row_bytes: int, make: Callable[[int, int], pa.Table], *, of_many: bool = False
    ) -> None:
        """See ``TableWriter``."""
        del row_bytes, of_many
        self.write(make(0, rows))

    def flush(self) -> None:
        """See ``TableWriter``."""

    def table(self) -> pa.Table:
        """All rows."""
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
        """Write rows that are in key order. Yields them, if they are not written to a file, then ``PartitionFacts``.

        ``received``: the checksums of the rows of each side, which are complete once all rows are written.
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


def look_at(fetch: Fetch, paths: Sequence[Location], options: FileOptions) -> list[FileFacts | None]:
    """The first stage: see ``inspect``."""
    del fetch
    return inspect(paths, options)


def read_text(fetch: Fetch, file: SourceFile, most_bytes: int) -> Any:
    """The stage that reads files which can only be read sequentially: see ``parts_of_text``."""
    del fetch
    return parts_of_text(file, most_bytes)


def describe(fetch: Fetch, handle: Any) -> tuple[pa.Schema, int]:
    """The columns of a table in the store, and its bytes."""
    table = fetch([handle])[0]
    return table.schema, int(bytes_of_rows(table))


def facts_of(table: pa.Table, read: int, ends: Array) -> SplitFacts:
    """The facts of a split whose rows were cut at ``ends``."""
    sent = RowChecksum()
    if (ends[1:, 0] == ends[:-1, 1]).all():
        sent.add_on_all_cores(table)
    else:
        for first, end in ends.tolist():
            sent.add_on_all_cores(table.slice(first, end - first))
    return SplitFacts(read, ends, bytes_of_rows(table) / max(table.num_rows, 1), sent.value)
