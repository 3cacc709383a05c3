"""Writing files. Output is written beside its target and renamed, so that no incomplete file is ever visible."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa

from linkwise._core import Error, UsageError
from linkwise._typing import Format
from linkwise.columns.sort_keys import SortKey
from linkwise.encoders.arrow_writer import ArrowWriter
from linkwise.encoders.output_file import OutputFile
from linkwise.encoders.parquet_options import ParquetOptions
from linkwise.encoders.parquet_writer import ParquetWriter
from linkwise.encoders.part_writer import PartWriter
from linkwise.encoders.type_casts import with_views, writable, writable_schema
from linkwise.files.formats import (
    ARRAY_FORMATS,
    FileOptions,
    codec_of,
    format_of,
    known_format,
    one_clear_line,
)
from linkwise.files.locations import PIPE, RemoteFile, is_pipe, name_of
from linkwise.files.reading.reader import Reader
from linkwise.files.writing.output_check import OutputCheck, SeenFile
from linkwise.files.writing.remote_output import RemoteOutput
from linkwise.interop.containers import Contents
from linkwise.runtime.atomic_file import AtomicFile

_AT_ONCE = 16 << 20  # bytes of an array
_PARTS = 4  # data that waits to be encoded and written takes memory / _PARTS


def format_of_output(path: Path | RemoteFile, options: FileOptions, like: Reader) -> Format:
    """The output format: as named, or by the file name; for standard output and directories, else the input's.

    Raises ``UsageError``.
    """
    named = options.output_format
    if options.is_directory:
        kind = format_of(path, named or known_format(path) or like.format)
    elif isinstance(path, Path) and os.path.isdir(path):
        raise UsageError(f"{path} is a directory; name a file in it, or partition_by or file_rows for a directory")
    else:
        kind = format_of(path, named or (like.format if path == PIPE else None))
    if kind != "parquet" and options.parquet != ParquetOptions():
        raise UsageError(
            f"codec, row groups, encodings and page index are chosen for Parquet, and {path} is {kind}; leave them out"
        )
    return kind


class TableWriter(Protocol):
    """Interface for writing the rows of a result, in order."""

    def write(self, contents: Contents) -> None:
        """Append rows."""

    def write_parts(
        self, rows: int, row_bytes: int, make: Callable[[int, int], pa.Table], *, of_many: bool = False
    ) -> None:
        """Append ``rows`` rows of a table, which the cores make in parts by calling ``make(first, count)``.

        Until ``flush`` returns, some parts may not have been made. ``of_many``: whether these are some rows of many,
        so that others keep the cores busy, and parts need not be small.
        """

    def flush(self) -> None:
        """Wait until all that was appended has been made and written."""


class SeenWriter:
    """Wraps a writer, and passes each table through ``see`` on the thread that makes it."""

    def __init__(self, writer: TableWriter, see: Callable[[pa.Table], pa.Table]) -> None:
        self._writer, self._see = writer, see

    def write(self, contents: Contents) -> None:
        """See ``TableWriter``."""
        self._writer.write(self._see(contents) if isinstance(contents, pa.Table) else contents)

    def write_parts(
        self, rows: int, row_bytes: int, make: Callable[[int, int], pa.Table], *, of_many: bool = False
    ) -> None:
        """See ``TableWriter``."""
        self._writer.write_parts(rows, row_bytes, lambda first, count: self._see(make(first, count)), of_many=of_many)

    def flush(self) -> None:
        """See ``TableWriter``."""
        self._writer.flush()


class Writer:
    """Writes a file that appears complete or not at all. It must be entered before rows are written.

    ``like`` is the reader that the rows come from; ``schema`` and ``keys``, what tables are sorted by, are optional.
    ``memory`` is how many bytes the whole work may take. With ``force``, a read-only file is replaced as well. With
    ``verify_all``, the file is read again before it appears, and its rows must be in the order of ``order``.
    """

    def __init__(
        self,
        path: Path | RemoteFile,
        options: FileOptions,
        *,
        like: Reader,
        schema: pa.Schema | None = None,
        keys: Sequence[SortKey] = (),
        memory: int = sys.maxsize,
        force: bool = False,
        verify_all: bool = False,
        order: Sequence[SortKey] = (),
    ) -> None:
        kind = format_of_output(path, options, like)
        if (kind in ARRAY_FORMATS) != (like.format in ARRAY_FORMATS):
            raise UsageError(
                f"{path}: {like.format} cannot become {kind}: arrays stay arrays (.npy, .bin), and tables stay tables"
            )
        if path == PIPE and kind in ARRAY_FORMATS:
            raise UsageError(f"{kind} cannot be written to standard output; tables can")
        self._path = path
        with one_clear_line("write", path):
            # A pipe or a device is written directly: it cannot be replaced by a file.
            self._is_special = path != PIPE and is_pipe(path)
            self._atomic: AtomicFile | RemoteOutput | None = None
            if isinstance(path, RemoteFile):
                self._atomic = RemoteOutput(path)
            elif path != PIPE and not self._is_special:
                self._atomic = AtomicFile(path, force=force)
            if self._is_special and kind == "npy":
                raise UsageError(f"{path} is no regular file, and .npy says its length first; write .bin or .arrow")
        self._kind, self._options, self._keys = kind, options, keys
        self._check = OutputCheck(kind, order) if verify_all and self._atomic is not None else None
        self._schema = schema
        self._codecs = like.compression
        self._carried = like.carried if kind == like.format else None
        self._file: Any = None
        self._stream: PartWriter[Any] | None = None  # encodes tables into the file
        self._rows = 0
        self._memory = memory
        self._dtype: np.dtype[Any] | None = None

    @property
    def format(self) -> Format:
        """The format of the file."""
        return self._kind

    @property
    def takes_stored(self) -> bool:
        """Whether tables may have dictionary columns for strings, and integers for decimals; see ``Stored``."""
        return self._kind == "parquet" and self._check is None

    def __enter__(self) -> Self:
        with one_clear_line("write", self._path):  # reports a missing directory before the work begins
            if self._atomic is not None:
                self._file = self._atomic.__enter__().file
            else:
                if self._path == PIPE and sys.stdout is None:
                    raise Error("standard output is closed; name a file")
                self._file = sys.stdout.buffer if self._path == PIPE else open(str(self._path), "wb")
        if self._schema is not None and self._path != PIPE:  # reports types that the format lacks as early
            try:
                with one_clear_line("write", self._path):
                    self._stream = self._open_stream(self._schema)
            except BaseException:
                self._give_up()
                raise
        return self

    def expect_all_of(self, reader: Reader) -> None:
        """Prepare for a file about as large as those that are read."""
        if self._stream is not None and reader.format == self._kind and self._options.parquet.compression is None:
            self._stream.expect(reader.stored_bytes)

    def write(self, contents: Contents) -> None:
        """See ``TableWriter``."""
        with one_clear_line("write", self._path):
            if self._check is not None:
                self._check.see_in_order(contents, self._rows)
            if isinstance(contents, np.ndarray):
                self._write_array(contents)
                return
            if self._stream is None:
                self._stream = self._open_stream(self._schema or contents.schema)
            self._rows += contents.num_rows
            self._stream.write_table(self._writable(contents))

    def _writable(self, table: pa.Table) -> pa.Table:
        table = table if self._carried else writable(table, writable_schema(table.schema, self._kind))
        return table if self._check is None else self._check.see(table)

    def write_parts(
        self, rows: int, row_bytes: int, make: Callable[[int, int], pa.Table], *, of_many: bool = False
    ) -> None:
        """See ``TableWriter``."""
        with one_clear_line("write", self._path):
            if self._stream is None:
                self._stream = self._open_stream(self._schema or make(0, 0).schema)
            before = self._rows
            self._rows += rows
            at_once = self._stream.part_rows if of_many else self._stream.rows_of_parts(rows)
            for first in range(0, rows, at_once):
                count = min(at_once, rows - first)

                def made(first: int = first, count: int = count) -> pa.Table:
                    table = make(first, count)
                    if self._check is not None:
                        self._check.see_in_order(table, before + first)
                    return self._writable(table)

                self._stream.write_made(made, count * row_bytes)

    def flush(self) -> None:
        """See ``TableWriter``."""
        with one_clear_line("write", self._path):
            if self._stream is not None:
                self._stream.flush()

    def _write_array(self, contents: np.ndarray[Any, Any]) -> None:
        if self._dtype is None:
            self._dtype = contents.dtype
            self._write_header()
        self._rows += len(contents)
        data = np.ascontiguousarray(contents).view(np.uint8).data
        out = OutputFile(self._file, sys.maxsize)  # unlimited, as no copies are made
        for first in range(0, len(data), _AT_ONCE):
            out.write(data[first : first + _AT_ONCE])
            if self._check is not None:
                self._check.see_bytes(data[first : first + _AT_ONCE])
        out.flush()

    def _write_header(self) -> None:
        """Write the header of a ``.npy`` file; its length does not depend on the number of rows."""
        if self._kind == "npy" and self._dtype is not None:
            header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._rows,)}
            np.lib.format.write_array_header_2_0(self._file, header)
            if self._check is not None:
                self._check.begin(self._file.tell())

    def _open_stream(self, schema: pa.Schema) -> PartWriter[Any]:
        file = self._file if self._check is None else SeenFile(self._file, self._check)
        try:
            return self._new_stream(file, schema)
        except (pa.ArrowException, OSError) as error:
            if getattr(error, "errno", None):  # an error of the disk
                raise
            which = next((field.name for field in schema if not self._has(field)), "")
            name = name_of(self._path, "write")
            raise UsageError(f"{name}, column {which!r}: {error}; write .arrow instead, or leave it out") from None

    def _has(self, field: pa.Field) -> bool:
        """Whether the format has a type for a field."""
        try:
            self._new_stream(io.BytesIO(), pa.schema([field])).close()
        except (pa.ArrowException, OSError):
            return False
        return True

    def _new_stream(self, file: Any, of_rows: pa.Schema) -> PartWriter[Any]:
        schema = of_rows if self._carried else writable_schema(of_rows, self._kind)
        memory = self._memory // _PARTS
        if self._kind == "parquet":
            return ParquetWriter(
                file, schema, self._options.parquet, codecs=self._codecs, keys=self._keys, memory=memory,
                arrow_schema=with_views(schema, of_rows),
            )  # fmt: skip
        if self._kind == "arrow":
            return ArrowWriter(file, schema, stream=self._path == PIPE, memory=memory)
        # Imported late: they load what other formats do not need.
        from linkwise.encoders.text_writer import CarriedTextWriter, JsonWriter, TextWriter  # noqa: PLC0415

        codec = codec_of(self._path)
        if self._carried is not None:
            return CarriedTextWriter(file, *self._carried, memory=memory, codec=codec)
        if self._kind == "jsonl":
            return JsonWriter(file, schema, memory=memory, codec=codec)
        delimiter = self._options.delimiter or ("\t" if self._kind == "tsv" else ",")
        header = self._options.header
        return TextWriter(file, schema, delimiter=delimiter, header=header, memory=memory, codec=codec)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._give_up()
            return
        try:
            with one_clear_line("write", self._path):
                if self._stream is not None:
                    self._stream.close()
                if self._path == PIPE:
                    self._file.flush()
                    return
                if self._kind == "npy":
                    self._file.seek(0)
                    self._write_header()
                if self._check is not None:
                    self._check.check(self._file, self._path)
                if self._atomic is not None:
                    self._atomic.commit()
                self._file.close()
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        if self._path == PIPE:
            return
        if self._stream is not None:
            self._stream.cancel()
        with suppress(OSError, ValueError):  # closing may still write, to a disk that is full
            if self._file is not None:
                self._file.close()
        if self._atomic is not None:
            self._atomic.discard()
