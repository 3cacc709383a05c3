"""Opening files of any format for reading."""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from linkwise import _core
from linkwise._arrow import pc
from linkwise._core import Error, UsageError
from linkwise._typing import Format
from linkwise.columns.number_filter import number_filter_from_text
from linkwise.columns.row_filter import filter_from_text
from linkwise.columns.sort_keys import listed
from linkwise.encoders.type_casts import writable_schema
from linkwise.files.formats import (
    ARRAY_FORMATS,
    TEXT_FORMATS,
    FileOptions,
    check_delimiter,
    codec_of,
    format_of,
    known_format,
    one_clear_line,
)
from linkwise.files.locations import PIPE, Location, RemoteFile, TableSource, is_pipe, name_of, size_of
from linkwise.files.reading.array_reader import ArrayReader, SeveralArrays
from linkwise.files.reading.arrow_reader import ArrowReader
from linkwise.files.reading.arrow_sizes import ARROW_FILE
from linkwise.files.reading.batch_reader import BatchReader
from linkwise.files.reading.conformed import ConformedReader, in_one_schema
from linkwise.files.reading.parquet.parquet_reader import ParquetReader
from linkwise.files.reading.reader import Reader, TableReader
from linkwise.files.reading.several_tables import SeveralTables
from linkwise.runtime.parallel import in_order

_MAGIC: dict[bytes, Format] = {
    ARROW_FILE: "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"PAR1": "parquet",
    b"\x93NUMPY": "npy",
}

_REMOTE_AT_ONCE = 32  # files that are opened: each waits for its storage most of the time
_SPOOLED_AT_ONCE = 16 << 20  # bytes
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}


def _text_reader(path: Location, source: Any, kind: Format, options: FileOptions) -> TableReader:
    # Imported late: they load much that other formats do not need.
    if kind == "jsonl":
        from linkwise.files.reading.json_reader import JsonReader  # noqa: PLC0415

        return JsonReader(path, source, options)
    from linkwise.files.reading.text_reader import TextReader  # noqa: PLC0415

    check_delimiter(options.delimiter)
    return TextReader(path, source, kind, options)


def _open_pipe(path: Path, options: FileOptions) -> TableReader:
    """Open standard input or a named pipe; its first bytes give the format unless its name or the options do."""
    with one_clear_line("read", path):
        if path == PIPE and sys.stdin is None:
            raise Error("standard input is closed; name a file")
        source = sys.stdin.buffer if path == PIPE else path.open("rb")
        begins = source.peek(len(ARROW_FILE)) if isinstance(source, io.BufferedReader) else b""
        codec = next((codec for magic, codec in _COMPRESSED.items() if begins.startswith(magic)), None)
        if codec is not None:
            source = pa.CompressedInputStream(pa.PythonFile(source, "r"), codec)
            begins = b""  # text
    named = options.input_format or known_format(path)
    kind = format_of(path, named or next((kind for magic, kind in _MAGIC.items() if begins.startswith(magic)), "csv"))
    if kind in TEXT_FORMATS:
        return _text_reader(path, source, kind, options)
    if kind == "parquet":
        return _spooled(path, source)
    if kind != "arrow":
        raise UsageError(f"{kind} cannot be read from {name_of(path, 'read')}; tables can")
    if begins.startswith(ARROW_FILE):
        with one_clear_line("read", path):
            return ArrowReader(path, pa.BufferReader(source.read()), is_file=True)
    return ArrowReader(path, source)


def _spooled(path: Location, source: Any) -> TableReader:
    """A Parquet stream, copied to an unnamed temporary file: the footer that locates everything comes last."""
    from pyarrow.fs import LocalFileSystem  # noqa: PLC0415

    with one_clear_line("read", path):
        spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the reader
        shutil.copyfileobj(source, spool, _SPOOLED_AT_ONCE)
        spool.flush()
    file = RemoteFile(LocalFileSystem(), f"/proc/self/fd/{spool.fileno()}", name_of(path, "read"))
    return ParquetReader(file, spool=spool)


def _open_remote(file: RemoteFile, options: FileOptions) -> TableReader:
    kind = format_of(file, options.input_format)
    with one_clear_line("read", file):
        if kind == "parquet" and file.is_http:
            return _spooled(file, file.open_stream(None))
        if kind == "parquet":
            return ParquetReader(file)
        if kind == "arrow":
            source = pa.BufferReader(file.open_stream(None).read()) if file.is_http else file.open()
            return ArrowReader(file, source, is_file=source.read_at(len(ARROW_FILE), 0) == ARROW_FILE)
        if kind in ARRAY_FORMATS:
            raise UsageError(f"{file}: arrays are read from files of this machine; copy it, or make it a table")
        return _text_reader(file, file.open_stream(codec_of(file)), kind, options)


def _open_one(path: Location, options: FileOptions) -> Reader:
    if isinstance(path, TableSource):
        return BatchReader(path)
    if isinstance(path, RemoteFile):
        return _open_remote(path, options)
    return _open_pipe(path, options) if is_pipe(path) else _open_here(path, options)


def _open_here(path: Path, options: FileOptions) -> Reader:
    with one_clear_line("read", path):
        path.stat()  # before its name is doubted
    kind = format_of(path, options.input_format)
    if kind in ARRAY_FORMATS:
        return ArrayReader(path, kind, options.dtype)
    if kind == "parquet":
        return ParquetReader(path)
    with one_clear_line("read", path):
        path.open("rb").close()
        if kind == "arrow":
            return ArrowReader(path, None, _core.MappedFile(str(path)))
        codec = codec_of(path)
        source = None if codec is None else pa.CompressedInputStream(pa.OSFile(str(path)), codec)
        return _text_reader(path, source, kind, options)


def open_table(path: Location, options: FileOptions) -> TableReader:
    """A reader of one file that has columns. Raises ``Error`` with one clear line."""
    reader = _open_one(path, options)
    if not isinstance(reader, TableReader):
        raise UsageError(f"{path} is an array; tables can be read here")
    return reader


def open_reader(paths: Sequence[Location], options: FileOptions) -> Reader:
    """A reader of files of one kind. Raises ``Error`` with one clear line."""
    return open_readers([paths], options)[0]


def open_readers(groups: Sequence[Sequence[Location]], options: FileOptions) -> list[Reader]:
    """As ``open_reader``, for several groups of files; options may name columns of any group. Raises ``Error``."""
    if [path for paths in groups for path in paths].count(PIPE) > 1:
        raise UsageError("standard input can be named once")
    groups = [_with_contents(paths, options) for paths in groups]
    opened = [_open_all(paths, options) for paths in groups]
    _check_formats(options, {reader.format for of_group in opened for reader in of_group})
    readers = [_together(of_group, paths) for of_group, paths in zip(opened, groups, strict=True)]
    check_column_types(options, list(dict.fromkeys(name for reader in readers for name in reader.columns)))
    return readers


def _open_all(paths: Sequence[Location], options: FileOptions) -> list[Reader]:
    """Readers of the files, opened several at a time: each waits for its storage, or has types to be inferred."""
    opening = (partial(_open_one, path, options) for path in paths)
    if len(paths) == 1 or any(isinstance(path, TableSource) or is_pipe(path) for path in paths):
        return [opened() for opened in opening]
    is_remote = any(isinstance(path, RemoteFile) for path in paths)
    return list(in_order(opening, threads=_REMOTE_AT_ONCE if is_remote else None))


def is_empty_text(path: Location, options: FileOptions) -> bool:
    """Whether a file is text of no bytes, which other programs write for a part of a table without rows."""
    with one_clear_line("read", path):
        return size_of(path) == 0 and format_of(path, options.input_format) in TEXT_FORMATS


def _with_contents(paths: Sequence[Location], options: FileOptions) -> Sequence[Location]:
    """Of several files, those that are not empty text."""
    if len(paths) == 1:
        return paths
    return [path for path in paths if not is_empty_text(path, options)] or paths[:1]


def check_column_types(options: FileOptions, there_are: Sequence[str]) -> None:
    """Raise ``UsageError`` if a type is given for a column that does not exist."""
    for name in options.column_types:
        if name not in there_are:
            raise UsageError(
                f"there is no column {name!r}, whose type is given; there are {', '.join(map(repr, there_are))}"
            )


def _check_formats(options: FileOptions, formats: set[Format]) -> None:
    """Raise ``UsageError`` if an option is given that files of these formats do not have."""
    named = ", ".join(sorted(formats))
    if options.column_types and not formats & {*TEXT_FORMATS}:
        raise UsageError(f"types are given for columns of text, and the input is {named}; leave types out")
    if options.dtype is not None and not formats & {*ARRAY_FORMATS}:
        raise UsageError(f"dtype is the type of the numbers in a .bin file, and the input is {named}; leave it out")


def _together(readers: Sequence[Reader], paths: Sequence[Location]) -> Reader:
    arrays = [reader for reader in readers if isinstance(reader, ArrayReader)]
    tables = [reader for reader in readers if isinstance(reader, TableReader)]
    if arrays and tables:
        raise UsageError("arrays and tables cannot be sorted together; name files of one kind")
    if arrays:
        return arrays[0] if len(arrays) == 1 else SeveralArrays(arrays, paths)
    conformed = _in_one_schema(tables, paths)
    if not conformed[0].columns:
        raise UsageError(f"{', '.join(map(str, paths))} has no columns; name a file that has some")
    return conformed[0] if len(conformed) == 1 else SeveralTables(conformed)


def _in_one_schema(
    readers: Sequence[TableReader], paths: Sequence[Location]
) -> Sequence[TableReader | ConformedReader]:
    """Readers with one schema, for files whose columns may differ or be given by directory names."""
    schema, constants = in_one_schema(paths, [reader.schema for reader in readers])
    if not any(constants) and all(reader.schema == schema for reader in readers):
        return readers
    return [ConformedReader(reader, schema, of_file) for reader, of_file in zip(readers, constants, strict=True)]


def keep_of_tables(reader: Reader, columns: Sequence[str] | None, rows: Any | None) -> None:
    """Restrict a reader to these columns, and to rows by an expression or text. Raises ``UsageError``."""
    if columns is None and rows is None:
        return
    columns = None if columns is None else list(dict.fromkeys(listed(columns)))
    for name in columns or ():
        if name not in reader.columns:
            raise UsageError(f"there is no column '{name}' to keep; there are {', '.join(reader.columns)}")
        if reader.columns.count(name) > 1:
            raise UsageError(f"there are several columns '{name}'; rename them, or keep others")
    reader.keep(columns, _filter_of(reader, rows))


def _filter_of(reader: Reader, rows: Any | None) -> Any | None:
    if isinstance(rows, str) and reader.schema is not None:
        plain = writable_schema(reader.schema, "parquet")  # views are compared as plain text
        is_plain = plain.types == reader.schema.types
        of_numbers = number_filter_from_text(rows, plain) if reader.filters_numbers and is_plain else None
        return of_numbers or filter_from_text(rows, plain)
    if rows is not None and not isinstance(rows, str | pc.Expression):
        raise UsageError(f"a filter is text or an expression of PyArrow, not a {type(rows).__name__}")
    return rows
