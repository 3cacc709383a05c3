"""Writing a directory of files: with a number of rows each, or partitioned by column values as in Hive."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from linkwise._core import Error, UsageError
from linkwise.columns.gather import gather_rows
from linkwise.columns.gather_pyarrow import empty_table
from linkwise.columns.sort_keys import SortKey
from linkwise.files.formats import ARRAY_FORMATS, FileOptions, one_clear_line
from linkwise.files.locations import PIPE, RemoteFile, is_pipe
from linkwise.files.reading.conformed import NO_VALUE
from linkwise.files.reading.reader import Reader
from linkwise.files.writing.writer import Writer, format_of_output
from linkwise.interop.containers import Contents
from linkwise.runtime.atomic_directory import AtomicDirectory
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.parallel import in_order
from linkwise.sorting.row_keys import RowKeys

_AT_ONCE = 1 << 18  # rows
_PLAIN = " ,:;()@!$&'+~"  # characters that need no escape in the name of a directory, beside letters and digits
_MOST_OPEN = 64  # files, where rows come in any order; beyond that, the least recently used one is completed


def _named(name: str, value: str | None) -> str:
    return f"{quote(name, safe=_PLAIN)}={NO_VALUE if value is None else quote(value, safe=_PLAIN)}"


def writer_of(
    path: Path | RemoteFile, options: FileOptions, *, like: Reader, schema: pa.Schema | None = None,
    keys: Sequence[SortKey] = (), memory: int = sys.maxsize, force: bool = False, is_grouped: bool = False,
    verify_all: bool = False, order: Sequence[SortKey] = (),
) -> Writer | DirectoryWriter:  # fmt: skip
    """A ``Writer`` or, where the options ask for a directory, a ``DirectoryWriter``."""
    if options.is_directory:
        return DirectoryWriter(
            path, options, like=like, schema=schema, keys=keys, memory=memory, force=force, is_grouped=is_grouped,
            verify_all=verify_all, order=order,
        )  # fmt: skip
    return Writer(
        path, options, like=like, schema=schema, keys=keys, memory=memory, force=force, verify_all=verify_all,
        order=order,
    )  # fmt: skip


class DirectoryWriter:
    """As ``Writer``; the directory appears complete or not at all. Files are numbered in the order of their rows.

    ``is_grouped``: whether the rows of each directory are consecutive.
    """

    takes_stored = False
    """See ``Writer``."""

    def __init__(
        self, path: Path | RemoteFile, options: FileOptions, *, like: Reader, schema: pa.Schema | None = None,
        keys: Sequence[SortKey] = (), memory: int = sys.maxsize, force: bool = False, is_grouped: bool = False,
        verify_all: bool = False, order: Sequence[SortKey] = (),
    ) -> None:  # fmt: skip
        if isinstance(path, RemoteFile) or path == PIPE or is_pipe(path):
            raise UsageError(
                f"{path}: partition_by and file_rows write into a directory of this machine; name one, or use a cluster"
            )
        if like.format in ARRAY_FORMATS:
            raise UsageError(f"{path}: several files are written of tables, and {like.format} has no columns")
        if options.file_rows is not None and options.file_rows < 1:
            raise UsageError(f"file_rows is {options.file_rows}; a file has one row at least")
        self.format = format_of_output(path, options, like)
        """The format of the files."""
        self._path, self._options, self._like = path, options, like
        self._by = list(options.partition_by)
        self._keys = [key for key in keys if key.column not in self._by]
        self._schema, self._verify_all = schema, verify_all
        # Values with the same directory name share a file; the rows of each are in order, but not those of the file.
        self._order = () if self._by else tuple(order)
        self._directory = AtomicDirectory(path, force=force)
        self._is_grouped = is_grouped or not self._by
        self._memory = memory if self._is_grouped else memory // _MOST_OPEN
        self._open: dict[str, _Files] = {}  # by directory, the least recently used first
        self._numbers: dict[str, int] = {}  # of the next file in each directory
        if schema is not None:
            self._check(schema)

    def _check(self, schema: pa.Schema) -> None:
        if len(set(self._by)) < len(self._by):
            raise UsageError(f"the output is partitioned by {', '.join(self._by)}; name each column once")
        for name in self._by:
            if name not in schema.names:
                raise UsageError(f"there is no column '{name}' to partition by; there are {', '.join(schema.names)}")
            try:
                pa.array([], schema.field(name).type).cast(pa.string())
            except pa.ArrowException:
                kind = schema.field(name).type
                raise UsageError(f"column '{name}' of {kind} has no text to name a directory by") from None
        if len(set(self._by)) == len(schema.names):
            raise UsageError("every column is partitioned by; files need one of their own")

    def expect_all_of(self, reader: Reader) -> None:
        """See ``Writer``. How the rows are divided among the files is not known yet."""

    def __enter__(self) -> Self:
        with one_clear_line("write", self._path):
            self._directory.__enter__()
        return self

    def write(self, contents: Contents) -> None:
        """See ``TableWriter``."""
        assert isinstance(contents, pa.Table)
        if self._schema is None:
            self._check(contents.schema)
            self._schema = contents.schema
        for directory, rows in self._by_directory(contents):
            self._files_of(directory).write(rows)

    def write_parts(
        self, rows: int, row_bytes: int, make: Callable[[int, int], pa.Table], *, of_many: bool = False
    ) -> None:
        """See ``TableWriter``."""
        del row_bytes, of_many
        self.write(make(0, 0))
        for part in in_order(partial(make, at, min(_AT_ONCE, rows - at)) for at in range(0, rows, _AT_ONCE)):
            self.write(part)

    def flush(self) -> None:
        """See ``TableWriter``."""
        for files in self._open.values():
            files.flush()

    def _by_directory(self, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """The rows of each directory, without the partition columns."""
        if not table.num_rows:
            return
        if not self._by:
            yield "", table
            return
        # Rows in any order are copied: buffered rows of one directory must not keep the whole table in memory.
        keys = RowKeys(table, [SortKey(name) for name in self._by])
        rows = None if self._is_grouped else keys.order(ExecutionOptions(strategy="cpu"))[0]
        numbers = np.arange(table.num_rows, dtype=np.uint64) if rows is None else rows.astype(np.uint64)
        starts = keys.core.starts_of_runs(numbers)
        texts = [table[name].take(pa.array(numbers[starts])).cast(pa.string()).to_pylist() for name in self._by]
        others = table.drop_columns(self._by)
        for number, (begin, end) in enumerate(zip(starts, [*starts[1:], table.num_rows], strict=True)):
            some = others.slice(begin, end - begin) if rows is None else gather_rows(others, rows[begin:end])
            yield "/".join(_named(name, of[number]) for name, of in zip(self._by, texts, strict=True)), some

    def _files_of(self, directory: str) -> _Files:
        files = self._open.pop(directory, None)
        if files is None:
            if len(self._open) >= (1 if self._is_grouped else _MOST_OPEN):
                self._end(next(iter(self._open)))
            files = self._files_in(directory)
        self._open[directory] = files
        return files

    def _files_in(self, directory: str) -> _Files:
        most_rows = self._options.file_rows or sys.maxsize
        return _Files(self._directory.path / directory, self._numbers.get(directory, 0), most_rows, self._new)

    def _end(self, directory: str) -> None:
        files = self._open[directory]
        files.end()
        del self._open[directory]
        self._numbers[directory] = files.number

    def _new(self, folder: Path, number: int) -> Writer:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"part-{number:05}.{self.format}"
        return Writer(
            path, self._options, like=self._like, keys=self._keys, memory=self._memory, verify_all=self._verify_all,
            order=self._order,
        )  # fmt: skip

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                with one_clear_line("write", self._path):
                    self._finish()
                return
        except BaseException:
            self._give_up()
            raise
        self._give_up()

    def _finish(self) -> None:
        for directory in list(self._open):
            self._end(directory)
        if not self._numbers and self._schema is not None:  # a result without rows still has columns
            with self._new(self._directory.path, 0) as nothing:
                nothing.write(empty_table(self._schema).drop_columns(self._by))
        self._directory.commit()

    def _give_up(self) -> None:
        for files in self._open.values():
            with suppress(Exception):
                files.give_up()
        self._directory.discard()


class _Files:
    """The files of one directory, of which one is open at a time."""

    def __init__(self, folder: Path, number: int, most_rows: int, new: Callable[[Path, int], Writer]) -> None:
        self._folder, self._most_rows, self._new = folder, most_rows, new
        self.number = number
        """The number of the next file."""
        self._writer: Writer | None = None
        self._left = 0  # rows that still fit into the open file

    def write(self, table: pa.Table) -> None:
        """Append rows, to as many files as they need."""
        first = 0
        while first < table.num_rows:
            if self._writer is None:
                self._writer = self._new(self._folder, self.number).__enter__()
                self.number += 1
                self._left = self._most_rows
            some = table.slice(first, min(self._left, table.num_rows))
            self._writer.write(some)
            first += some.num_rows
            self._left -= some.num_rows
            if not self._left:
                self.end()

    def flush(self) -> None:
        """Wait until all has been written."""
        if self._writer is not None:
            self._writer.flush()

    def end(self) -> None:
        """Complete the open file."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.__exit__(None, None, None)

    def give_up(self) -> None:
        """Discard the open file."""
        if self._writer is not None:
            self._writer.__exit__(Error, None, None)
