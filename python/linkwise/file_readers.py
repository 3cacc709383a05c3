"""Reading files: at once, or a batch at a time."""

from __future__ import annotations

import io
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from linkwise._core import Error, UsageError
from linkwise.containers import Contents
from linkwise.file_formats import (
    ARRAY_FORMATS,
    PIPE,
    FileOptions,
    Format,
    arrow_type,
    format_of,
    is_pipe,
    known_format,
    name_of,
    one_clear_line,
    size_of,
)
from linkwise.host_sorting import Array
from linkwise.keys import key_type_of
from linkwise.pyarrow_gathering import bytes_of, compact_views

_BLOCK = 16 << 20  # bytes of text that are parsed at once, and whose first block tells the types
_MAGIC: dict[bytes, Format] = {
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"PAR1": "parquet",
    b"\x93NUMPY": "npy",
}
_ARROW_FILE, *_ = _MAGIC


class Reader(Protocol):
    """One or several files, from their beginning to their end."""

    format: Format
    size: int | None
    """Bytes in memory, about; ``None`` if nobody knows before all has been read."""
    compression: dict[str, str]
    """The codecs of a Parquet file's columns."""
    schema: pa.Schema | None
    """Of a table."""

    columns: list[str]
    """The names of the columns; none of an array."""

    def everything(self) -> Contents:
        """All of it at once; arrays are mapped, not loaded."""
        ...

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """Consecutive parts that take about that much memory."""
        ...


class _ArrayReader:
    def __init__(self, path: Path, kind: Format, dtype: str | None) -> None:
        self.columns: list[str] = []
        self.compression: dict[str, str] = {}
        self.schema: pa.Schema | None = None
        self.format = kind
        self._array = _map_array(path, kind, dtype)
        if self._array.ndim != 1:
            raise UsageError(f"{path}: an array to sort has one dimension, not {self._array.ndim}")
        self.size: int | None = self._array.nbytes

    def everything(self) -> Contents:
        return self._array

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        rows = max(most_bytes // self._array.itemsize, 1)
        for first in range(0, len(self._array), rows):
            yield np.array(self._array[first : first + rows])


def _map_array(path: Path, kind: Format, dtype: str | None) -> Array:
    with one_clear_line("read", path):
        path.open("rb").close()  # says what is wrong better than the libraries do
        if kind == "npy":
            array = cast(Array, np.load(path, mmap_mode="r", allow_pickle=False))
            _check_type(array.dtype)
            return array
    if dtype is None:
        raise UsageError(f"{path}: a .bin file is raw; name the type of its numbers with --dtype, as uint32 or f8")
    try:
        of_numbers = np.dtype(dtype)
    except Exception:  # NumPy evaluates what it is given
        raise UsageError(f"there is no type '{dtype}'; name one like uint32, int64 or f8") from None
    _check_type(of_numbers)
    with one_clear_line("read", path):
        return np.memmap(path, of_numbers, "r") if path.stat().st_size else np.empty(0, of_numbers)


def _check_type(kind: np.dtype[Any]) -> None:
    """Before anything is looked at: elements that are references would be followed."""
    key_type_of(np.dtype(np.uint64) if kind.kind in "bmM" else kind.newbyteorder("="))


class _TableReader(ABC):
    """What readers of tables share: they give record batches, and say how large all of them are."""

    def __init__(self, path: Path, kind: Format) -> None:
        self.format = kind
        self.path = path
        self.size: int | None = None
        self.compression: dict[str, str] = {}
        self.schema: pa.Schema
        self.columns: list[str]

    def _set_schema(self, schema: pa.Schema) -> None:
        self.schema = schema
        with one_clear_line("read", self.path):
            self.columns = list(schema.names)  # they may be no text

    @abstractmethod
    def _read(self) -> Iterator[pa.RecordBatch]:
        """All batches, in their order."""

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        with one_clear_line("read", self.path):
            yield from self._read()

    def everything(self) -> Contents:
        return pa.Table.from_batches(self.record_batches(), self.schema)

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        return _in_parts(self.record_batches(), self.schema, most_bytes)


def _in_parts(batches: Iterable[pa.RecordBatch], schema: pa.Schema, most_bytes: int) -> Iterator[pa.Table]:
    parts: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        whole = pa.RecordBatch.from_arrays([compact_views(column) for column in batch.columns], schema=batch.schema)
        rows = max(most_bytes * whole.num_rows // max(bytes_of(whole), 1), 1)  # a batch may be larger than a part
        for first in range(0, whole.num_rows, rows):
            parts.append(whole.slice(first, rows))
            held += bytes_of(parts[-1])
            if held >= most_bytes:
                yield pa.Table.from_batches(parts, schema)
                parts, held = [], 0
    if parts:
        yield pa.Table.from_batches(parts, schema)


class _ParquetReader(_TableReader):
    def __init__(self, path: Path) -> None:
        super().__init__(path, "parquet")
        with one_clear_line("read", path):
            path.open("rb").close()  # says what is wrong better than the library does
            self.file = pq.ParquetFile(path, pre_buffer=False)  # which would keep what was read
        self._set_schema(self.file.schema_arrow)
        metadata = self.file.metadata
        encoded = sum(metadata.row_group(g).total_byte_size for g in range(metadata.num_row_groups))
        self.size = max(2 * encoded, 8 * metadata.num_columns * metadata.num_rows)
        if metadata.num_row_groups and metadata.num_columns:
            with one_clear_line("read", path):  # damaged metadata of a column ends the process, unless it is read first
                next(self.file.iter_batches(1, row_groups=[0], columns=self.columns[:1]), None)
            first = metadata.row_group(0)
            columns = [first.column(number) for number in range(metadata.num_columns)]
            self.compression = {column.path_in_schema: column.compression for column in columns}

    def everything(self) -> Contents:
        with one_clear_line("read", self.path):
            return self.file.read()

    def _read(self) -> Iterator[pa.RecordBatch]:
        return cast(Iterator[pa.RecordBatch], self.file.iter_batches(1 << 17))


def _validated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch whose buffers are those of a file, into which nobody has looked."""
    batch.validate(full=True)
    return batch


class _ArrowReader(_TableReader):
    """Arrow's file format, mapped, or its stream format, also from a pipe."""

    def __init__(self, path: Path, source: Any, begins: bytes) -> None:
        super().__init__(path, "arrow")
        with one_clear_line("read", path):
            is_file = begins.startswith(_ARROW_FILE)
            self._source = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        self._set_schema(self._source.schema)
        self.size = size_of(path)

    def _read(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches():
            yield _validated(batch)

    def everything(self) -> Contents:
        with one_clear_line("read", self.path), ThreadPoolExecutor(os.cpu_count()) as pool:
            return pa.Table.from_batches(list(pool.map(_validated, self._batches())), self.schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if isinstance(self._source, pa.ipc.RecordBatchStreamReader):
            yield from self._source
        else:
            for number in range(self._source.num_record_batches):
                yield self._source.get_batch(number)


class _TextReader(_TableReader):
    def __init__(self, path: Path, source: Any, kind: Format, options: FileOptions) -> None:
        super().__init__(path, kind)
        types = {name: arrow_type(alias) for name, alias in options.column_types.items()}
        with one_clear_line("read", path):
            self._stream = pa.csv.open_csv(
                source,
                pa.csv.ReadOptions(block_size=_BLOCK, autogenerate_column_names=not options.header),
                pa.csv.ParseOptions(delimiter="\t" if kind == "tsv" else ",", newlines_in_values=True),
                pa.csv.ConvertOptions(column_types=types),
            )
        self._set_schema(self._stream.schema)
        size = size_of(path)
        self.size = None if size is None else 2 * size

    def _read(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._stream
        except pa.ArrowInvalid as error:
            raise Error(
                f"cannot read {self.path}: {str(error).splitlines()[0]}; types are those of the first lines: give the "
                "column's own with --type NAME=string"
            ) from None


class _Several:
    """Several files with the same columns, one behind the other."""

    def __init__(self, readers: Sequence[_TableReader], paths: Sequence[Path]) -> None:
        first = readers[0]
        self.format, self.columns, self.compression = first.format, first.columns, first.compression
        self.schema: pa.Schema | None = first.schema
        self._readers = readers
        for reader, path in zip(readers, paths, strict=True):
            if reader.schema != first.schema:
                raise UsageError(f"{path} has other columns or types than {paths[0]}; sort them apart, or cast them")
        sizes = [reader.size for reader in readers]
        self.size = None if None in sizes else sum(cast(list[int], sizes))

    def everything(self) -> Contents:
        return pa.concat_tables([cast(pa.Table, reader.everything()) for reader in self._readers])

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        every = (batch for reader in self._readers for batch in reader.record_batches())
        yield from _in_parts(every, self._readers[0].schema, most_bytes)


class _SeveralArrays:
    def __init__(self, readers: Sequence[_ArrayReader], paths: Sequence[Path]) -> None:
        self.columns: list[str] = []
        self.compression: dict[str, str] = {}
        self.schema: pa.Schema | None = None
        self.format, self._readers = readers[0].format, readers
        self.size: int | None = sum(cast(int, reader.size) for reader in readers)
        kinds = [cast(Array, reader.everything()).dtype for reader in readers]
        for kind, path in zip(kinds, paths, strict=True):
            if kind != kinds[0]:
                raise UsageError(f"{path} has numbers of type {kind}, and {paths[0]} of {kinds[0]}")

    def everything(self) -> Contents:
        arrays = [cast(Array, reader.everything()) for reader in self._readers]
        return np.concatenate(arrays, dtype=arrays[0].dtype)  # with its byte order

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        for reader in self._readers:
            yield from reader.batches(most_bytes)


def _open_pipe(path: Path, options: FileOptions) -> _TableReader:
    """Standard input, or a pipe with a name; its first bytes tell the format unless its name or the options do."""
    with one_clear_line("read", path):
        source = sys.stdin.buffer if path == PIPE else path.open("rb")
        begins = source.peek(len(_ARROW_FILE)) if isinstance(source, io.BufferedReader) else b""
    named = options.input_format or known_format(path)
    kind = format_of(path, named or next((kind for magic, kind in _MAGIC.items() if begins.startswith(magic)), "csv"))
    if kind in ("csv", "tsv"):
        return _TextReader(path, source, kind, options)
    if kind != "arrow":
        raise UsageError(f"{kind} cannot be read from {name_of(path, 'read')}; Arrow's formats, csv and tsv can")
    if begins.startswith(_ARROW_FILE):
        with one_clear_line("read", path):
            source = pa.BufferReader(source.read())
    return _ArrowReader(path, source, begins)


def _open_one(path: Path, options: FileOptions) -> Reader:
    if is_pipe(path):
        return cast(Reader, _open_pipe(path, options))
    kind = format_of(path, options.input_format)
    if kind in ARRAY_FORMATS:
        return _ArrayReader(path, kind, options.dtype)
    if kind == "parquet":
        return cast(Reader, _ParquetReader(path))
    with one_clear_line("read", path):
        with path.open("rb") as file:
            begins = file.read(len(_ARROW_FILE))
        source = pa.memory_map(str(path)) if begins else pa.BufferReader(b"")
    if kind == "arrow":
        return cast(Reader, _ArrowReader(path, source, begins))
    return cast(Reader, _TextReader(path, source, kind, options))


def open_reader(paths: Sequence[Path], options: FileOptions) -> Reader:
    """A reader of files of one kind. Raises ``Error`` with one clear line."""
    return open_readers([paths], options)[0]


def open_readers(groups: Sequence[Sequence[Path]], options: FileOptions) -> list[Reader]:
    """As ``open_reader``, of several groups of files; options may name the columns of any. Raises ``Error``."""
    readers = [_open_group(paths, options) for paths in groups]
    there_are = list(dict.fromkeys(name for reader in readers for name in reader.columns))
    for name in options.column_types:
        if name not in there_are:
            raise UsageError(f"there is no column '{name}', whose type is given; there are {', '.join(there_are)}")
    return readers


def _open_group(paths: Sequence[Path], options: FileOptions) -> Reader:
    readers = [_open_one(path, options) for path in paths]
    if len(readers) == 1:
        return readers[0]
    are_arrays = [isinstance(reader, _ArrayReader) for reader in readers]
    if any(are_arrays) and not all(are_arrays):
        raise UsageError("arrays and tables cannot be sorted together; name files of one kind")
    if any(are_arrays):
        return cast(Reader, _SeveralArrays(cast(Sequence[_ArrayReader], readers), paths))
    return cast(Reader, _Several(cast(Sequence[_TableReader], readers), paths))
