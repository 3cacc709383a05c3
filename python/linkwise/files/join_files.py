"""Joining files into a file: in memory where they fit, by spilled runs where they do not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack, cast

import pyarrow as pa

from linkwise._core import UsageError
from linkwise._typing import Format
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.sort_keys import listed
from linkwise.encoders.parquet_options import Dictionary, ParquetOptions
from linkwise.files.directory_writer import writer_of
from linkwise.files.external_join import Side, SpilledJoin
from linkwise.files.external_sort import is_too_large, memory_to_use, read_within
from linkwise.files.formats import ARRAY_FORMATS, FileOptions, known_format
from linkwise.files.free_space import Outlook, check_room_for_output, check_room_for_runs
from linkwise.files.grace_join import GraceJoin
from linkwise.files.listing import expand
from linkwise.files.locations import RemoteFile, Source, target_of
from linkwise.files.reader import Reader, unchanged
from linkwise.files.readers import keep_of_tables, open_readers
from linkwise.files.streamed_join import StreamedJoin
from linkwise.files.writer import TableWriter
from linkwise.joining.joined_rows import KeyPairs
from linkwise.joining.matching import Columns, How, Order, Presorted, Validate, check_order, sides_of
from linkwise.joining.report import JoinReport
from linkwise.joining.tables import TableJoin, check_how, check_validate, count_matches, key_pairs
from linkwise.runtime.execution import ExecutionOptions, JoinExecution, Progress, takes_execution
from linkwise.runtime.join_plan import JoinPlan
from linkwise.sorting.report import Steps

_ROOM = 3  # times a part: its row numbers, its rows, and what writing them takes
_MOST_ROWS = 1 << 24  # of a part: more of them at once are no faster


@takes_execution(JoinExecution)
def join_file(
    left: Source | Sequence[Source],
    right: Source | Sequence[Source],
    out: str | Path | None,
    on: Columns = None,
    *,
    left_on: Columns = None,
    right_on: Columns = None,
    how: How = "inner",
    suffix: str = "_right",
    nulls_equal: bool = False,
    validate: Validate = "m:m",
    presorted: Presorted = False,
    order: Order = None,
    host_memory_limit: int | str | None = None,
    temporary_directory: str | Path | None = None,
    column_types: Mapping[str, str] | None = None,
    header: bool = True,
    input_format: str | None = None,
    output_format: str | None = None,
    delimiter: str | None = None,
    null_string: str = "",
    left_columns: Sequence[str] | None = None,
    right_columns: Sequence[str] | None = None,
    left_filter: Any | None = None,
    right_filter: Any | None = None,
    compression: str | None = None,
    row_group_rows: int | None = None,
    dictionary: Dictionary = "auto",
    page_index: bool = False,
    partition_by: str | Sequence[str] = (),
    file_rows: int | None = None,
    force: bool = False,
    on_progress: Progress | None = None,
    **execution: Unpack[JoinExecution],
) -> JoinReport:
    """Join two files, or several as one on either side, and write one; without ``out``, only count the rows.

    Of a side that fits into host memory a hash table is made, in which the other one is looked up as it is read, and
    the result is written as it comes. What does not fit is spilled. Counts read keys alone, and semi and anti joins
    those of the right side. The output appears complete or not at all. Parameters that are not named here, and errors:
    as ``linkwise.join`` and ``linkwise.sort_file``.

    Parameters
    ----------
    left, right, out
        File names, which tell the formats, patterns like ``part-*.parquet``, directories, URIs, or objects, as
        ``sort_file`` has them.
    left_columns, right_columns
        The columns that are read and come into the result, the keys among them.
    left_filter, right_filter
        The rows of a side that take part, as ``sort_file`` has its ``filter``.
    on_progress
        Told the fraction of the rows that have been joined, from 0 to 1.
    **execution
        Where and how it runs: see ``linkwise.options``.

    """
    parquet = ParquetOptions(compression, row_group_rows, dictionary, page_index)
    return join_files(
        left, right, None if out is None else target_of(out), ExecutionOptions.of(execution, JoinPlan, on_progress),
        on=on, left_on=left_on, right_on=right_on, how=how, suffix=suffix, nulls_equal=nulls_equal, validate=validate,
        presorted=presorted, order=order, host_memory_limit=host_memory_limit,
        temporary_directory=None if temporary_directory is None else Path(temporary_directory),
        sides=((left_columns, left_filter), (right_columns, right_filter)), force=force,
        options=FileOptions(
            None, dict(column_types or {}), header, input_format, output_format, None, None, delimiter, null_string,
            tuple(listed(partition_by)), file_rows, parquet,
        ),
    )  # fmt: skip


Kept = tuple[Sequence[str] | None, Any | None]
"""The columns and the rows of a side that are read."""
_EVERYTHING: Kept = (None, None)


def join_files(
    left: Source | Sequence[Source],
    right: Source | Sequence[Source],
    out: Path | RemoteFile | None,
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
    sides: tuple[Kept, Kept] = (_EVERYTHING, _EVERYTHING),
    force: bool = False,
) -> JoinReport:
    """Join files; see ``join_file``."""
    began = time.perf_counter()
    steps = Steps()
    check_how(how)
    check_order(order)
    check_validate(validate)
    groups = [expand(left), expand(right)]
    for path in (path for group in groups for path in group):
        if (options.input_format or known_format(path)) in ARRAY_FORMATS:
            raise UsageError(f"{path} has no columns; a join takes tables")
    readers = open_readers(groups, options)
    keys = key_pairs(readers[0].columns, readers[1].columns, on, left_on, right_on)
    for at, (reader, side) in enumerate(zip(readers, sides, strict=True)):
        only_keys = out is None or (how in ("semi", "anti") and at == 1)
        _keep(reader, [pair[at] for pair in keys.pairs], side, only_keys=only_keys)
    memory = memory_to_use(host_memory_limit)
    streamed = StreamedJoin.of(
        readers, keys, how, execution, steps, order=order, presorted=any(sides_of(presorted)), validate=validate,
        nulls_equal=nulls_equal, memory=memory,
    )  # fmt: skip
    in_memory = _FileJoin(
        keys, how, replace(execution, on_progress=None), nulls_equal, presorted, order, memory, temporary_directory
    )
    grace = None
    if streamed is not None and streamed.held is None:
        is_partitioned = order is None and is_too_large(readers, memory)
        grace = GraceJoin.of(streamed, temporary_directory) if is_partitioned else None
        streamed = None
    is_spilled = streamed is None and is_too_large(readers, memory)
    if not force and is_spilled:
        check_room_for_runs(readers, temporary_directory)
    by_runs = "sorted runs, spilled and merged" if is_spilled else "in memory"
    told = streamed.told if streamed is not None else grace.told if grace is not None else by_runs
    on_progress = execution.on_progress or (lambda _: None)
    if out is None:
        with unchanged(readers):
            counted = partial(in_memory.count, validate=validate)
            if streamed is not None:
                rows = streamed.count(on_progress)
            else:
                rows = counted(readers) if grace is None else grace.count(counted, on_progress)
    else:
        with (
            writer_of(out, options, like=readers[0], memory=memory, force=force) as writer,
            unchanged(readers),
        ):
            check_room = room_for(out, writer.format, force=force)
            otherwise = partial(in_memory.write, writer, check_room, suffix=suffix, validate=validate)
            if streamed is not None:
                rows = streamed.write(writer, suffix, check_room, on_progress)
            elif grace is not None:
                rows = grace.write(writer, suffix, check_room, otherwise, on_progress)
            else:
                rows = otherwise(readers)
    steps.begin("")
    return JoinReport(rows, how, told, time.perf_counter() - began, steps.seconds)


def _keep(reader: Reader, keys: list[str], side: Kept, *, only_keys: bool) -> None:
    """Have a side's columns and rows that are wanted. Raises ``UsageError`` if a key is not among them."""
    columns, rows = side
    if columns is not None:
        for name in keys:
            if name not in columns:
                raise UsageError(f"'{name}' is joined by, and not among the columns that are kept; name it as well")
    if only_keys and len(set(keys)) < len(reader.columns):
        columns = list(dict.fromkeys(keys))
    keep_of_tables(reader, columns, rows)


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

    def write(
        self, writer: TableWriter, check_room: Callable[[int], None], readers: Sequence[Reader], **how: Any
    ) -> int:
        rows = 0
        with self._rows(readers, check_room, **how) as tables:
            for table in tables:
                writer.write(table)
                rows += table.num_rows
        return rows

    @contextmanager
    def _rows(
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


def room_for(out: Path | RemoteFile, kind: Format, *, force: bool) -> Callable[[int], None]:
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
