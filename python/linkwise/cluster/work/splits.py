"""What a worker reads alone: some row groups of a file, a file of text, or a table that lies in the object store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from linkwise._core import Error, UsageError
from linkwise.cluster.engine import Fetch
from linkwise.cluster.sizing import batches_of
from linkwise.files.formats import TEXT_FORMATS, FileOptions
from linkwise.files.locations import PIPE, Location, RemoteFile, is_pipe
from linkwise.files.reading.conformed import ConformedReader, in_one_schema
from linkwise.files.reading.reader import Piece, TableReader, in_parts
from linkwise.files.reading.readers import is_empty_text, keep_of_tables, open_table

_TEXT_GROWS = 4  # the memory that a text file may take, as a multiple of its size


@dataclass(frozen=True)
class FileFacts:
    """What a worker has found about a file without reading its rows."""

    schema: pa.Schema
    pieces: list[Piece]
    is_text: bool
    compression: Mapping[str, str]
    version: tuple[object, ...]


@dataclass(frozen=True)
class Split(ABC):
    """Rows that one worker reads at once; ``number`` is its place in the order of all rows."""

    number: int
    size: int
    """Bytes in memory, about."""

    @property
    def inputs(self) -> list[Any]:
        """The handles whose values it is read from."""
        return []

    @abstractmethod
    def read(self, columns: Sequence[str] | None, fetch: Fetch) -> pa.Table:
        """Its rows, with some columns or all. Raises ``Error`` with one clear line."""


@dataclass(frozen=True)
class SourceFile:
    """A file that is part of a relation, and how it is read."""

    path: Location
    options: FileOptions
    """These also tell which of its columns and rows are kept."""
    schema: pa.Schema
    """The common schema of all files of the relation, before columns are selected."""
    constants: Mapping[str, pa.Scalar]
    """The values of columns that the names of its directories give."""
    version: tuple[object, ...]
    size: int
    """Bytes in memory, about."""

    def reader(self, columns: Sequence[str] | None) -> TableReader | ConformedReader:
        """Open the file, with the schema of its relation. Raises ``Error``."""
        self.check_unchanged()
        inner = open_table(self.path, self.options)
        conformed = bool(self.constants) or inner.schema != self.schema
        reader = ConformedReader(inner, self.schema, self.constants) if conformed else inner
        keep_of_tables(reader, self.options.columns if columns is None else columns, self.options.filter)
        return reader

    def check_unchanged(self) -> None:
        """Raise ``Error`` if the file has changed since it was inspected."""
        if version_of(self.path) != self.version:
            raise Error(f"{self.path} was changed while it was read; nothing was written: try again")


@dataclass(frozen=True)
class FileSplit(Split):
    """Consecutive pieces of a file."""

    file: SourceFile
    first: int
    end: int

    def read(self, columns: Sequence[str] | None, fetch: Fetch) -> pa.Table:
        """See ``Split``."""
        del fetch
        reader = self.file.reader(columns)
        reader.only(self.first, self.end)
        table = reader.everything()
        self.file.check_unchanged()
        assert isinstance(table, pa.Table)
        return table


@dataclass(frozen=True)
class ObjectSplit(Split):
    """A table, or its bytes as ``to_bytes`` makes them, in the object store."""

    handle: Any

    @property
    def inputs(self) -> list[Any]:
        """See ``Split``."""
        return [self.handle]

    def read(self, columns: Sequence[str] | None, fetch: Fetch) -> pa.Table:
        """See ``Split``."""
        found = fetch([self.handle])[0]
        table = found if isinstance(found, pa.Table) else from_bytes(found)
        return table if columns is None else table.select(list(columns))


@dataclass(frozen=True)
class Relation:
    """Rows in their order, with the columns of one schema."""

    schema: pa.Schema
    parts: list[Split | SourceFile]
    """A ``SourceFile`` is a text file, which can only be read sequentially; all else is splits."""
    size: int
    """Bytes in memory, about."""
    compression: Mapping[str, str]
    """The codecs of the columns of the first file."""


def version_of(path: Location) -> tuple[object, ...]:
    """A value that changes if a file does, and is the same on every node. Raises ``Error``."""
    if isinstance(path, RemoteFile):
        return path.version()
    assert isinstance(path, Path)
    try:
        told = path.stat()
    except OSError as error:
        raise Error(f"cannot read {path}: {error.strerror}; every node must be able to read it") from None
    return told.st_size, told.st_mtime_ns


def _file_size(path: Location) -> int:
    if isinstance(path, RemoteFile):
        return int(path.filesystem.get_file_info(path.path).size or 0)
    return path.stat().st_size if isinstance(path, Path) else 0


def everywhere(path: Location) -> Location:
    """The location for other processes, which have other working directories. Raises ``UsageError`` for a pipe."""
    if path == PIPE:
        raise _one_node_alone(path)
    return path.absolute() if isinstance(path, Path) else path


def _one_node_alone(path: Location) -> UsageError:
    return UsageError(f"{path} is a stream, which one node alone can read; name files")


def inspect(paths: Sequence[Location], options: FileOptions) -> list[FileFacts | None]:
    """The facts of some files, from their metadata; ``None`` for text of no bytes. Raises ``Error``."""
    found: list[FileFacts | None] = []
    for path in paths:
        if is_pipe(path):
            raise _one_node_alone(path)
        version = version_of(path)
        if is_empty_text(path, options):
            found.append(None)
            continue
        reader = open_table(path, options)
        is_text = reader.format in TEXT_FORMATS
        pieces = reader.pieces()
        if not any(piece.size for piece in pieces):  # sizes are unknown
            pieces = [Piece(0, (_TEXT_GROWS if is_text else 1) * _file_size(path))]
        found.append(FileFacts(reader.schema, pieces, is_text, reader.compression, version))
    return found


def relation_of(
    paths: Sequence[Location], facts: Sequence[FileFacts], options: FileOptions, split_bytes: int
) -> Relation:
    """Some files in splits of about ``split_bytes``. Raises ``UsageError`` if their schemas do not fit together."""
    schema, constants = in_one_schema(paths, [fact.schema for fact in facts])
    files = [
        SourceFile(everywhere(path), options, schema, of_file, fact.version, sum(piece.size for piece in fact.pieces))
        for path, fact, of_file in zip(paths, facts, constants, strict=True)
    ]
    parts: list[Split | SourceFile] = []
    for file, fact in zip(files, facts, strict=True):
        if fact.is_text:
            parts.append(file)
        else:
            sizes = [piece.size for piece in fact.pieces]
            for batch in batches_of(sizes, split_bytes):
                parts.append(FileSplit(0, sum(sizes[batch.start : batch.stop]), file, batch.start, batch.stop))
    if not parts:  # without rows there is still a schema
        parts.append(FileSplit(0, 0, files[0], 0, 0))
    size = sum(piece.size for fact in facts for piece in fact.pieces)
    return Relation(files[0].reader(None).schema, parts, size, facts[0].compression)


def parts_of_text(file: SourceFile, most_bytes: int) -> Iterator[pa.Buffer]:
    """A file that can only be read sequentially, in tables of about ``most_bytes``. Raises ``Error``."""
    reader = file.reader(None)
    parts = in_parts(reader.record_batches(most_bytes), reader.schema, most_bytes)
    yield to_bytes(next(parts, reader.schema.empty_table()))  # without rows there is still a schema
    for part in parts:  # not from a map: Ray sends to the generator, which a map cannot take
        yield to_bytes(part)
    file.check_unchanged()


def renumbered(splits: Sequence[Split]) -> list[Split]:
    """The same, each numbered by its place."""
    return [replace(split, number=number) for number, split in enumerate(splits)]


def to_bytes(table: pa.Table) -> pa.Buffer:
    """A table in Arrow's stream format; of slices, only their own rows are written."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(unify_dictionaries=True)) as stream:
        stream.write_table(table)
    return sink.getvalue()


def from_bytes(data: Any) -> pa.Table:
    """The table from ``to_bytes``, without a copy: it refers to these bytes."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()
