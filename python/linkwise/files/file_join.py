"""One join of files: chooses between holding one side in memory, partitioning both, and sorting by spilled runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from linkwise._core import UsageError
from linkwise.columns.gather_pyarrow import bytes_of, empty_table
from linkwise.columns.inside import names_inside, outer_columns
from linkwise.files.formats import ARRAY_FORMATS, FileOptions, known_format
from linkwise.files.listing import expand
from linkwise.files.locations import Location, Source
from linkwise.files.reading.fields_reader import FieldsReader
from linkwise.files.reading.reader import Reader, unchanged
from linkwise.files.reading.readers import keep_of_tables, open_readers
from linkwise.files.reading.within_memory import is_too_large, memory_to_use, read_within
from linkwise.files.spilling.external_join import Side, SpilledJoin
from linkwise.files.spilling.grace_join import GraceJoin
from linkwise.files.streamed_join import StreamedJoin
from linkwise.files.writing.free_space import Outlook, check_room_for_runs
from linkwise.files.writing.writer import TableWriter
from linkwise.joining.joined_rows import KeyPairs
from linkwise.joining.matching import Columns, How, Order, Presorted, check_order, sides_of
from linkwise.joining.tables import TableJoin, check_how, check_validate, count_matches, key_pairs
from linkwise.runtime.execution import ExecutionOptions, Progress
from linkwise.sorting.report import Steps

_MOST_TIMES = 1 << 10  # the memory that a side may take; for larger ones, partitions would be too many
_READ = 0.5  # the share of a join in memory that is done when both sides have been read
_ROOM = 3  # times a window: its row numbers, its rows, and the memory to write them
_MOST_ROWS = 1 << 24  # per window: larger ones are no faster

Kept = tuple[Sequence[str] | None, Any | None]
"""The columns of a side to read, and the filter on its rows; ``None`` for all."""
EVERYTHING: Kept = (None, None)


@dataclass(frozen=True, kw_only=True)
class JoinRequest:
    """What to join and how; see the parameters of ``join_file``."""

    left: Source | Sequence[Source]
    right: Source | Sequence[Source]
    on: Columns
    left_on: Columns
    right_on: Columns
    how: How
    options: FileOptions
    suffix: str = "_right"
    nulls_equal: bool = False
    validate: str = "m:m"
    presorted: Presorted = False
    order: Order = None
    host_memory_limit: int | str | None = None
    temporary_directory: Path | None = None
    sides: tuple[Kept, Kept] = (EVERYTHING, EVERYTHING)
    force: bool = False

    def __post_init__(self) -> None:
        """Raise ``UsageError`` for invalid values."""
        check_how(self.how)
        check_order(self.order)
        check_validate(self.validate)


@dataclass(frozen=True)
class OpenSides:
    """Both sides of a join, restricted to the requested columns and rows."""

    readers: Sequence[Reader]
    keys: KeyPairs
    files: Sequence[Sequence[Location]]
    """Those of each side; none where it does not come from files."""


def open_sides(asked: JoinRequest, *, only_count: bool) -> OpenSides:
    """Open the files of both sides. Raises ``Error`` with one clear line."""
    if asked.left is asked.right and isinstance(asked.left, pa.RecordBatchReader):
        raise UsageError("both sides are one stream, which can be read once; read it into a table")
    groups = [expand(asked.left), expand(asked.right)]
    for path in (path for group in groups for path in group):
        if (asked.options.input_format or known_format(path)) in ARRAY_FORMATS:
            raise UsageError(f"{path} has no columns; a join takes tables")
    readers = open_readers(groups, asked.options)
    inside = names_inside(_schema(readers[0])), names_inside(_schema(readers[1]))
    keys = key_pairs(readers[0].columns, readers[1].columns, asked.on, asked.left_on, asked.right_on, inside)
    sides: list[Reader] = []
    for at, (reader, side) in enumerate(zip(readers, asked.sides, strict=True)):
        only_keys = only_count or (asked.how in ("semi", "anti") and at == 1)
        _keep(reader, outer_columns([pair[at] for pair in keys.pairs], reader.columns), side, only_keys=only_keys)
        fields = list(keys.inside[at])
        sides.append(FieldsReader(reader, fields) if fields else reader)
    return OpenSides(sides, keys, groups)


class FileJoin:
    """A join of files by the strategy that suits the available memory. Raises ``Error``."""

    def __init__(self, asked: JoinRequest, sides: OpenSides, execution: ExecutionOptions) -> None:
        self._files = [len(files) for files in sides.files]
        self.readers = sides.readers
        keys = sides.keys
        self.memory = memory_to_use(asked.host_memory_limit)
        self.steps = Steps()
        self._asked = asked
        self._on_progress = execution.on_progress or (lambda _: None)
        self._otherwise = _AtOnceOrByRuns(
            keys, asked.how, replace(execution, on_progress=None), asked.nulls_equal, asked.presorted, asked.order,
            self.memory, asked.temporary_directory,
        )  # fmt: skip
        self._streamed = StreamedJoin.of(
            self.readers, keys, asked.how, execution, self.steps, order=asked.order,
            presorted=any(sides_of(asked.presorted)), validate=asked.validate, nulls_equal=asked.nulls_equal,
            memory=self.memory,
        )  # fmt: skip
        is_too_much = is_too_large(self.readers, self.memory)
        size = max(reader.size or 0 for reader in self.readers)
        if is_too_much and size > _MOST_TIMES * self.memory:
            least = size // _MOST_TIMES + 1
            raise UsageError(
                f"{self.memory:,} bytes of host memory are too little for {size:,} bytes; give {least:,} at least"
            )
        self._by_hash: StreamedJoin | GraceJoin | None = self._streamed
        if self._streamed is not None and not self._streamed.fits:
            is_partitioned = asked.order is None and is_too_much
            self._by_hash = GraceJoin.of(self._streamed, asked.temporary_directory) if is_partitioned else None
        if self._by_hash is None:  # otherwise it joins single partitions
            self._otherwise = replace(self._otherwise, on_progress=self._on_progress)
        if not asked.force and is_too_much and not isinstance(self._by_hash, StreamedJoin):
            check_room_for_runs(self.readers, asked.temporary_directory)
        by_runs = "sorted runs, spilled and merged" if is_too_much else "in memory"
        self.told = by_runs if self._by_hash is None else self._by_hash.told
        """The strategy, in words."""

    def reasons(self) -> dict[str, str]:
        """What determined the strategy, in words."""
        told = {
            name: f"{count} file{'s' * (count != 1)}, {_size_of(reader)} in memory"
            for name, count, reader in zip(("left", "right"), self._files, self.readers, strict=True)
        }
        told["memory"] = f"{self.memory >> 20} MiB"
        told["held"] = f"{self._why()}: {self.told}"
        return told

    def _why(self) -> str:
        if self._streamed is None:
            return "an order, these keys or a plan ask for no hash table of a side"
        most = f"{self._streamed.most_held >> 20} MiB, which a side may take with its table"
        if self._streamed.smaller is None:
            return f"nobody knows whether a side fits into {most}"
        return f"the smaller side takes {'less' if self._streamed.fits else 'more'} than {most}"

    def schema(self) -> pa.Schema:
        """The schema of the result. Raises ``UsageError`` for what cannot be joined."""
        asked = self._asked
        return self._otherwise.nothing(self.readers, suffix=asked.suffix, validate=asked.validate).schema

    def count(self) -> int:
        """The number of rows of the result."""
        count = partial(self._otherwise.count, validate=self._asked.validate)
        with unchanged(self.readers):
            if isinstance(self._by_hash, StreamedJoin):
                return self._by_hash.count(self._on_progress)
            return count(self.readers) if self._by_hash is None else self._by_hash.count(count, self._on_progress)

    def write(self, writer: TableWriter, check_room: Callable[[int], None]) -> int:
        """Write the result; returns its number of rows. ``check_room`` raises if its bytes do not fit on the disk."""
        suffix = self._asked.suffix
        write = partial(self._otherwise.write, writer, check_room, suffix=suffix, validate=self._asked.validate)
        outlook = Outlook(check_room, self.readers)
        with unchanged(self.readers):
            if isinstance(self._by_hash, StreamedJoin):
                return self._by_hash.write(writer, suffix, outlook, self._on_progress)
            if self._by_hash is None:
                return write(self.readers)
            return self._by_hash.write(writer, suffix, outlook, write, self._on_progress)


def _size_of(reader: Reader) -> str:
    return "nobody knows how much" if reader.size is None else f"about {reader.size >> 20} MiB"


def _keep(reader: Reader, keys: list[str], side: Kept, *, only_keys: bool) -> None:
    """Restrict a side to the requested columns and rows. Raises ``UsageError`` if a key column is not requested."""
    columns, rows = side
    if columns is not None:
        for name in keys:
            if name not in columns:
                raise UsageError(f"'{name}' is joined by, and not among the columns that are kept; name it as well")
    if only_keys and len(keys) < len(reader.columns):
        columns = keys
    keep_of_tables(reader, columns, rows)


@dataclass(frozen=True)
class _AtOnceOrByRuns:
    """A join of sides that are read as a whole or, where they do not fit, sorted by spilled runs."""

    keys: KeyPairs
    how: How
    execution: ExecutionOptions
    nulls_equal: bool
    presorted: Presorted
    order: Order
    memory: int
    directory: Path | None
    on_progress: Progress = lambda _: None

    def count(self, readers: Sequence[Reader], *, validate: str) -> int:
        read = read_within(readers, self.memory)
        if read.everything is not None:
            self.on_progress(_READ)
            return self._count(*read.everything, presorted=self.presorted, validate=validate)
        left, right = _sides(readers, read.batches)
        with self._spilled().parts(left, right) as parts:
            return sum(self._count(*part, validate=validate) for part in parts)

    def nothing(self, readers: Sequence[Reader], **how: Any) -> pa.Table:
        """An empty table with the schema of the result. Raises ``UsageError`` for what cannot be joined."""
        return self._join(*(empty_table(_schema(reader)) for reader in readers), **how).table()

    def write(
        self, writer: TableWriter, check_room: Callable[[int], None], readers: Sequence[Reader], **how: Any
    ) -> int:
        rows = 0
        with self._rows(readers, check_room, **how) as tables:
            for table in tables:
                writer.write(table)
                rows += table.num_rows
        self.on_progress(1.0)
        return rows

    @contextmanager
    def _rows(
        self, readers: Sequence[Reader], check_room: Callable[[int], None], **how: Any
    ) -> Iterator[Iterator[pa.Table]]:
        """The result, a table at a time; ``check_room`` raises if its bytes do not fit on the disk."""
        self.nothing(readers, **how)  # raises errors before the work begins

        def joined(sides: Sequence[Any], check: Callable[[int], None], presorted: Presorted) -> Iterator[pa.Table]:
            rows = self._join(*sides, presorted=presorted, order=self.order, **how)
            return _windows(rows, self.how, self.memory, check)

        read = read_within(readers, self.memory)
        if read.everything is not None:
            self.on_progress(_READ)
            yield joined(read.everything, check_room, self.presorted)
            return
        outlook = Outlook(check_room, readers)

        def part(left: pa.Table, right: pa.Table) -> Iterator[pa.Table]:
            return joined((left, right), partial(outlook.check, bytes_of(left) + bytes_of(right)), presorted=False)

        left, right = _sides(readers, read.batches)
        with self._spilled().rows(left, right, part) as tables:
            yield tables

    def _count(self, left: Any, right: Any, *, validate: str, presorted: Presorted = False) -> int:
        return count_matches(
            left, right, self.keys, self.execution, self.how, nulls_equal=self.nulls_equal, presorted=presorted,
            validate=validate,
        )  # fmt: skip

    def _join(self, left: Any, right: Any, **how: Any) -> TableJoin:
        return TableJoin(left, right, self.keys, self.execution, self.how, nulls_equal=self.nulls_equal, **how)

    def _spilled(self) -> SpilledJoin:
        return SpilledJoin(
            self.keys, self.how, self.execution, self.memory, self.directory, sides_of(self.presorted), self.order,
            self.on_progress,
        )  # fmt: skip


def _schema(reader: Reader) -> pa.Schema:
    return cast(pa.Schema, reader.schema)


def _sides(readers: Sequence[Reader], batches: Sequence[Any]) -> list[Side]:
    return [Side(_schema(reader), of_one, reader.size) for reader, of_one in zip(readers, batches, strict=True)]


def _windows(joined: TableJoin, how: How, memory: int, check_room: Callable[[int], None]) -> Iterator[pa.Table]:
    """The result as one table or, where that would take too much memory, in windows; semi and anti joins as one."""
    at_once = memory // _ROOM // joined.row_bytes
    if how not in ("semi", "anti"):
        check_room(joined.count() * joined.row_bytes)  # before the first row is written
    if how in ("semi", "anti") or joined.count() <= at_once:
        yield joined.table()
    else:
        yield from joined.windows(max(min(at_once, _MOST_ROWS), 1))
