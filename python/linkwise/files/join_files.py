"""Joining files into a file: in memory where they fit, by spilled runs where they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from linkwise._core import UsageError
from linkwise._typing import Format
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.files.external_join import Side, SpilledJoin
from linkwise.files.external_sort import is_too_large, memory_to_use, read_within
from linkwise.files.formats import ARRAY_FORMATS, FileOptions, expand, known_format
from linkwise.files.free_space import Outlook, check_room_for_output, check_room_for_runs
from linkwise.files.reader import Reader, unchanged
from linkwise.files.readers import open_readers
from linkwise.files.writer import Writer
from linkwise.joining.matching import Columns, How, Order, Presorted, check_order, sides_of
from linkwise.joining.tables import KeyPairs, TableJoin, check_how, count_matches, key_pairs
from linkwise.runtime.execution import ExecutionOptions

_ROOM = 3  # times a part: its row numbers, its rows, and what writing them takes
_MOST_ROWS = 1 << 24  # of a part: more of them at once are no faster


def join_files(
    left: str | Path,
    right: str | Path,
    out: Path | None,
    execution: ExecutionOptions,
    *,
    on: Columns,
    left_on: Columns,
    right_on: Columns,
    how: How,
    options: FileOptions,
    suffix: str = "_right",
    nulls_equal: bool = False,
    validate: str = "m:m",
    presorted: Presorted = False,
    order: Order = None,
    host_memory_limit: int | str | None = None,
    temporary_directory: Path | None = None,
    force: bool = False,
) -> int:
    """Join two files (or patterns of files) into one; returns the number of rows. Without ``out``, only counts them.

    What does not fit into host memory is spilled. Parameters and errors: as ``linkwise.join`` and ``sort_file``.
    """
    check_how(how)
    check_order(order)
    groups = [expand(left), expand(right)]
    for path in (path for group in groups for path in group):
        if (options.input_format or known_format(path)) in ARRAY_FORMATS:
            raise UsageError(f"{path} has no columns; a join takes tables")
    readers = open_readers(groups, options)
    keys = key_pairs(readers[0].columns, readers[1].columns, on, left_on, right_on)
    memory = memory_to_use(host_memory_limit)
    join = _FileJoin(keys, how, execution, nulls_equal, presorted, order, memory, temporary_directory)
    if not force and is_too_large(readers, memory):
        check_room_for_runs(readers, temporary_directory)
    if out is None:
        with unchanged(readers):
            return join.count(readers, validate=validate)
    rows = 0
    with (
        Writer(out, options, like=readers[0], memory=memory, force=force) as writer,
        unchanged(readers),
        join.rows(readers, room_for(out, writer.format, force=force), suffix=suffix, validate=validate) as tables,
    ):
        for table in tables:
            writer.write(table)
            rows += table.num_rows
    return rows


@dataclass(frozen=True)
class _FileJoin:
    keys: KeyPairs
    how: How
    execution: ExecutionOptions
    nulls_equal: bool
    presorted: Presorted
    order: Order
    memory: int
    directory: Path | None

    def count(self, readers: Sequence[Reader], *, validate: str) -> int:
        read = read_within(readers, self.memory)
        if read.everything is not None:
            return self._count(*read.everything, presorted=self.presorted, validate=validate)
        left, right = _sides(readers, read.batches)
        with self._spilled().parts(left, right) as parts:
            return sum(self._count(*part, validate=validate) for part in parts)

    @contextmanager
    def rows(
        self, readers: Sequence[Reader], check_room: Callable[[int], None], **how: Any
    ) -> Iterator[Iterator[pa.Table]]:
        """The result, some of it at a time; there is room for what it takes, in bytes, if that is checked."""
        self._join(*(_schema(reader).empty_table() for reader in readers), **how)  # says what is wrong before the work

        def joined(sides: Sequence[Any], check: Callable[[int], None], presorted: Presorted) -> Iterator[pa.Table]:
            rows = self._join(*sides, presorted=presorted, order=self.order, **how)
            return _windows(rows, self.how, self.memory, check)

        read = read_within(readers, self.memory)
        if read.everything is not None:
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
            self.keys, self.how, self.execution, self.memory, self.directory, sides_of(self.presorted), self.order
        )


def _schema(reader: Reader) -> pa.Schema:
    return cast(pa.Schema, reader.schema)


def _sides(readers: Sequence[Reader], batches: Sequence[Any]) -> list[Side]:
    return [Side(_schema(reader), of_one, reader.size) for reader, of_one in zip(readers, batches, strict=True)]


def room_for(out: Path, kind: Format, *, force: bool) -> Callable[[int], None]:
    """Checks whether some bytes of rows can be written."""
    return (lambda size: None) if force else (lambda size: check_room_for_output(out, kind, size))


def _windows(joined: TableJoin, how: How, memory: int, check_room: Callable[[int], None]) -> Iterator[pa.Table]:
    """The result at once, or, where it would take most of the memory that there is, in row groups."""
    at_once = memory // _ROOM // joined.row_bytes
    if how not in ("semi", "anti"):
        check_room(joined.count() * joined.row_bytes)  # before the first row is written
    if how in ("semi", "anti") or joined.count() <= at_once:
        yield joined.table()
    else:
        yield from joined.windows(max(min(at_once, _MOST_ROWS), 1))
