"""Opening files of any format for reading."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from linkwise import _core
from linkwise._core import UsageError
from linkwise._typing import Format
from linkwise.columns.key_types import key_type_of
from linkwise.columns.row_filter import filter_from_text
from linkwise.files.arrow_reader import ArrowReader
from linkwise.files.arrow_sizes import ARROW_FILE
from linkwise.files.conformed import (
    ConformedReader,
    partition_of,
    partition_types,
    partition_values,
    unified_schema,
    with_constants,
)
from linkwise.files.formats import (
    ARRAY_FORMATS,
    PIPE,
    TEXT_FORMATS,
    FileOptions,
    check_delimiter,
    codec_of,
    format_of,
    is_pipe,
    known_format,
    name_of,
    one_clear_line,
)
from linkwise.files.parquet_reader import ParquetReader
from linkwise.files.reader import FileVersion, Reader, Seen, TableReader, not_looked_at
from linkwise.files.several_tables import SeveralTables
from linkwise.interop.containers import Contents

_MAGIC: dict[bytes, Format] = {
    ARROW_FILE: "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"PAR1": "parquet",
    b"\x93NUMPY": "npy",
}

_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}


class ArrayReader(Reader):
    """NumPy's ``.npy``, or raw numbers; mapped."""

    def __init__(self, path: Path, kind: Format, dtype: str | None) -> None:
        self._version = FileVersion(path)
        with one_clear_line("read", path):
            path.open("rb").close()  # says what is wrong better than the libraries do
            of_numbers, self._begin, shape = _header_of(path) if kind == "npy" else (_named_type(path, dtype), 0, None)
            _check_type(of_numbers)
            self._mapped = _core.MappedFile(str(path))
            contents = self._mapped.bytes[self._begin :]
            if shape is None and len(contents) % of_numbers.itemsize:
                raise UsageError(f"cannot read {path}: {len(contents)} bytes are no whole number of {of_numbers}")
            self.array = contents[: None if shape is None else math.prod(shape) * of_numbers.itemsize].view(of_numbers)
        if shape is not None and len(shape) != 1:
            raise UsageError(f"{path}: an array to sort has one dimension, not {len(shape)}")
        super().__init__(kind, size=self.array.nbytes)

    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """See ``Reader``."""
        seen(self.array)
        return self.array

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        width = self.array.itemsize
        rows = max(most_bytes // width, 1)
        for first in range(0, len(self.array), rows):
            yield np.array(self.array[first : first + rows])
            self._mapped.forget(0, self._begin + (first + rows) * width)

    def check_unchanged(self) -> None:
        """See ``Reader``."""
        self._version.check(is_whole=self._mapped.is_whole())


def _header_of(path: Path) -> tuple[np.dtype[Any], int, tuple[int, ...]]:
    """The type of a ``.npy`` file's numbers, where they begin, and their shape."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)  # also looks whether all of them are there
    if isinstance(array, np.memmap):
        return array.dtype, array.offset, array.shape
    raise UsageError(f"{path} is no .npy file")


def _named_type(path: Path, dtype: str | None) -> np.dtype[Any]:
    if dtype is None:
        raise UsageError(f"{path}: a .bin file is raw; name the type of its numbers with --dtype, as uint32 or f8")
    try:
        return np.dtype(dtype)
    except Exception:  # NumPy evaluates what it is given
        raise UsageError(f"there is no type '{dtype}'; name one like uint32, int64 or f8") from None


def _check_type(kind: np.dtype[Any]) -> None:
    """Before anything is looked at: elements that are references would be followed."""
    key_type_of(np.dtype(np.uint64) if kind.kind in "bmM" else kind.newbyteorder("="))


class SeveralArrays(Reader):
    """Several of them with numbers of one type, one behind the other."""

    def __init__(self, readers: Sequence[ArrayReader], paths: Sequence[Path]) -> None:
        super().__init__(readers[0].format, size=sum(reader.array.nbytes for reader in readers))
        self._readers = readers
        for reader, path in zip(readers, paths, strict=True):
            kind, first = reader.array.dtype, readers[0].array.dtype
            if kind != first:
                raise UsageError(f"{path} has numbers of type {kind}, and {paths[0]} of {first}")

    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """See ``Reader``."""
        arrays = [reader.array for reader in self._readers]
        whole = np.concatenate(arrays, dtype=arrays[0].dtype)  # with its byte order
        seen(whole)
        return whole

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        for reader in self._readers:
            yield from reader.batches(most_bytes)

    def check_unchanged(self) -> None:
        """See ``Reader``."""
        for reader in self._readers:
            reader.check_unchanged()


def _text_reader(path: Path, source: Any, kind: Format, options: FileOptions) -> TableReader:
    # They load much that other formats do without.
    if kind == "jsonl":
        from linkwise.files.json_reader import JsonReader  # noqa: PLC0415

        return JsonReader(path, source, options)
    from linkwise.files.text_reader import TextReader  # noqa: PLC0415

    check_delimiter(options.delimiter)
    return TextReader(path, source, kind, options)


def _open_pipe(path: Path, options: FileOptions) -> TableReader:
    """Standard input, or a pipe with a name; its first bytes tell the format unless its name or the options do."""
    with one_clear_line("read", path):
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
    if kind != "arrow":
        raise UsageError(f"{kind} cannot be read from {name_of(path, 'read')}; Arrow's formats and text can")
    if begins.startswith(ARROW_FILE):
        with one_clear_line("read", path):
            source = pa.BufferReader(source.read())
    return ArrowReader(path, source)


def _open_one(path: Path, options: FileOptions) -> Reader:
    if is_pipe(path):
        return _open_pipe(path, options)
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


def open_reader(paths: Sequence[Path], options: FileOptions) -> Reader:
    """A reader of files of one kind. Raises ``Error`` with one clear line."""
    return open_readers([paths], options)[0]


def open_readers(groups: Sequence[Sequence[Path]], options: FileOptions) -> list[Reader]:
    """As ``open_reader``, of several groups of files; options may name the columns of any. Raises ``Error``."""
    if [path for paths in groups for path in paths].count(PIPE) > 1:
        raise UsageError("standard input can be named once")
    readers = [_open_group(paths, options) for paths in groups]
    there_are = list(dict.fromkeys(name for reader in readers for name in reader.columns))
    for name in options.column_types:
        if name not in there_are:
            raise UsageError(
                f"there is no column {name!r}, whose type is given; there are {', '.join(map(repr, there_are))}"
            )
    return readers


def _open_group(paths: Sequence[Path], options: FileOptions) -> Reader:
    readers = [_open_one(path, options) for path in paths]
    arrays = [reader for reader in readers if isinstance(reader, ArrayReader)]
    tables = [reader for reader in readers if isinstance(reader, TableReader)]
    if arrays and tables:
        raise UsageError("arrays and tables cannot be sorted together; name files of one kind")
    if arrays:
        return arrays[0] if len(arrays) == 1 else SeveralArrays(arrays, paths)
    conformed = _in_one_schema(tables, paths)
    return conformed[0] if len(conformed) == 1 else SeveralTables(conformed)


def _in_one_schema(readers: Sequence[TableReader], paths: Sequence[Path]) -> Sequence[TableReader | ConformedReader]:
    """Files of one table, which may differ in some columns, and whose directories may tell some."""
    partitions = [partition_of(path) for path in paths]
    types = partition_types(partitions)
    # What a file has itself counts more than what its directories say.
    constants = [
        {name: value for name, value in partition_values(told, types).items() if name not in reader.columns}
        for told, reader in zip(partitions, readers, strict=True)
    ]
    if not any(constants) and all(reader.schema == readers[0].schema for reader in readers):
        return readers
    schema = unified_schema(
        [with_constants(reader.schema, of_file) for reader, of_file in zip(readers, constants, strict=True)], paths
    )
    return [ConformedReader(reader, schema, of_file) for reader, of_file in zip(readers, constants, strict=True)]


def keep_of_tables(reader: Reader, columns: Sequence[str] | None, rows: Any | None) -> None:
    """Have a reader give no more than these columns and rows: an expression or text. Raises ``UsageError``."""
    if columns is None and rows is None:
        return
    for name in columns or ():
        if name not in reader.columns:
            raise UsageError(f"there is no column '{name}' to keep; there are {', '.join(reader.columns)}")
    reader.keep(columns, filter_from_text(rows, reader.schema) if isinstance(rows, str) and reader.columns else rows)
