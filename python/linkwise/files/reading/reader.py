"""What reads a file, or several of one kind, from the beginning to the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from linkwise._core import Error, UsageError
from linkwise._typing import Format, Rows
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.take import compact_views
from linkwise.encoders.type_casts import writable_schema
from linkwise.files.formats import one_clear_line
from linkwise.files.locations import Location, RemoteFile, is_pipe
from linkwise.interop.containers import Contents

NumbersOf = Callable[[Rows], Rows]
"""The numbers that rows of a part have in the whole, as ``Reader.fetch`` takes them."""

Seen = Callable[[Any], object]
"""What is given each part of the contents by the thread that has decoded it, in whose caches it lies."""


def not_looked_at(_: Contents) -> None:
    """Nobody wants to see parts."""


_FEW = 16  # one row of so many: those are fetched when their keys are known


class CarriedRows(NamedTuple):
    """How rows of text go from file to file as they are, letter by letter."""

    column: str
    """That holds them, each with its end."""
    header: bytes
    """What comes before them."""


class Part(NamedTuple):
    """Consecutive rows that any thread may decode."""

    rows: int
    """Before they are filtered."""
    decode: Callable[[Sequence[str] | None], pa.Table]
    """Makes a table of some columns, by their names, or of all that are wanted; it may be asked several times."""


class Piece(NamedTuple):
    """A part of a file that can be read alone."""

    rows: int
    """0 if nobody knows."""
    size: int
    """Bytes in memory, about."""


class Reader(ABC):
    """A file, or several with the same columns, which are given as one. No file stays open while none of it is read."""

    def __init__(
        self, kind: Format, *, schema: pa.Schema | None = None, columns: list[str] | None = None,
        size: int | None = None, compression: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.format = kind
        self.schema = schema
        """Of a table; ``None`` of an array."""
        self.columns = columns or []
        """The names of the columns; none of an array."""
        self.size = size
        """Bytes in memory, about; ``None`` if nobody knows before all has been read."""
        self.compression = compression or {}
        """The codecs of a Parquet file's columns."""
        self.carried: CarriedRows | None = None
        """Of text, if rows are read as they are, beside the columns that somebody looks at."""

    @abstractmethod
    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """All of it at once, of which ``seen`` is given each part once; arrays are mapped, not loaded."""

    @abstractmethod
    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """Consecutive parts that take about that much memory."""

    def parts(self, rows: int, most_bytes: int) -> Iterator[Part]:
        """Consecutive parts of about so many rows, that take about so much memory at most. Only of tables."""
        raise NotImplementedError

    def carry_rows(self, columns: Sequence[str]) -> None:  # noqa: B027 - only text is carried
        """Of text, read these columns alone, and each row as it is in one more column."""

    def leave_out(self, column: str, least: Any, greatest: Any) -> None:  # noqa: B027 - most have no statistics
        """Do not read what holds no value of a column from the least to the greatest, as far as statistics tell.

        What is read may still hold others.
        """

    def pieces(self) -> list[Piece]:
        """What can be read without the rest, in its order. To be asked before anything is kept or left out."""
        return [Piece(0, self.size or 0)]

    def only(self, first: int, end: int) -> None:
        """Read these of the pieces alone. To be asked last."""
        assert (first, end) == (0, 1), "this is read as a whole"

    @property
    def rows(self) -> int | None:
        """How many there are, where single ones can be fetched."""
        return None

    def is_read_sooner_by_keys(self, wanted: int) -> bool:
        """Whether to read the keys first, and then to fetch so many rows by their numbers."""
        return self.rows is not None and wanted <= self.rows // _FEW

    def keep(self, columns: Sequence[str] | None, rows: Any | None) -> None:
        """Have no more than these columns, and the rows for which an expression is true. Raises ``UsageError``."""
        if columns is not None or rows is not None:
            raise UsageError("an array has no columns: it is sorted as a whole")

    def numbered(
        self, columns: Sequence[str], most_bytes: int | None, first: int = 0
    ) -> Iterator[tuple[pa.Table, NumbersOf]]:
        """All rows of some columns in parts that take about so much memory, one at least, and what numbers their rows.

        Only where single rows can be fetched.
        """
        raise NotImplementedError

    def fetch(self, rows: Rows, most_bytes: int | None) -> pa.Table:
        """Rows by their numbers, which ascend. Only where single rows can be fetched.

        With ``most_bytes``, no more than needs to be is in memory besides.
        """
        raise NotImplementedError

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise ``Error`` if what was read is no longer what is there: whatever was made of it may be anything."""


def _decoded_part(table: pa.Table) -> Part:
    return Part(table.num_rows, lambda columns: table if columns is None else table.select(list(columns)))


class FileVersion:
    """A file as it was when it was opened."""

    def __init__(self, path: Location) -> None:
        self._path = path
        self._version = self._now()

    def _now(self) -> tuple[object, ...] | None:
        if isinstance(self._path, RemoteFile):
            return self._path.version()
        if not isinstance(self._path, Path) or is_pipe(self._path):
            return None
        try:
            told = self._path.stat()
        except OSError:
            return ()
        return told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns

    def check(self, *, is_whole: bool = True) -> None:
        """Raise ``Error`` if it is another one now, or all of it could not be read."""
        if self._now() != self._version:
            raise Error(f"{self._path} was changed while it was read; nothing was written: try again")
        if not is_whole:
            raise Error(f"cannot read {self._path}: its disk has failed, or it was changed; nothing was written")


@contextmanager
def unchanged(readers: Sequence[Reader]) -> Iterator[None]:
    """Work on what is read, at whose end it must still be what it was. Raises ``Error``."""
    try:
        yield
    except Error:  # of which a file that was changed may be the cause
        for reader in readers:
            reader.check_unchanged()
        raise
    for reader in readers:
        reader.check_unchanged()


def size_of_all(readers: Sequence[Reader]) -> int | None:
    """Bytes of several in memory, about; ``None`` if nobody knows."""
    sizes = [reader.size for reader in readers if reader.size is not None]
    return sum(sizes) if len(sizes) == len(readers) else None


def bytes_of_rows(data: pa.Table | pa.RecordBatch) -> int:
    """What the rows take without their dictionaries, which do not grow with them."""
    columns = pa.Table.from_batches([data]).columns if isinstance(data, pa.RecordBatch) else data.columns
    chunks = (chunk for column in columns for chunk in column.chunks)
    return sum(bytes_of(chunk.indices if pa.types.is_dictionary(chunk.type) else chunk) for chunk in chunks)


def slices_within(table: pa.Table, most_bytes: int) -> Iterator[pa.Table]:
    """The table in consecutive parts whose rows take no more than that, but where a row alone does."""
    size = bytes_of_rows(table)
    if table.num_rows <= 1 or size <= most_bytes:
        if table.num_rows:
            yield table
        return
    # Rows are mostly much alike: as many as fit on average, and fewer of what is still too large.
    rows = min(max(most_bytes * table.num_rows // size, 1), (table.num_rows + 1) // 2)
    for first in range(0, table.num_rows, rows):
        part = table.slice(first, rows)
        # Dictionaries inside of other types are part of every part.
        if bytes_of_rows(part) > size * 3 // 4:
            yield part
        else:
            yield from slices_within(part, most_bytes)


class TableReader(Reader):
    """A file of a table."""

    schema: pa.Schema

    def __init__(self, path: Location, kind: Format) -> None:
        super().__init__(kind)
        self.path = path
        with one_clear_line("read", path):
            self._version = FileVersion(path)
        self.header_as_it_is = b""
        """Of text, up to the end of the line."""
        self._filter: Any | None = None  # an expression,
        self._referenced: list[str] = []  # and the columns in it
        self._plain: pa.Schema | None = None  # of all columns, where some are read as other types than they have

    def keep(self, columns: Sequence[str] | None, rows: Any | None) -> None:
        """See ``Reader``."""
        if rows is not None:
            self._set_plain(self.schema)
            try:
                self._referenced = columns_in(rows, self.schema)
            except pa.ArrowException as error:
                raise UsageError(f"{self.path}: the filter does not suit its columns: {error}") from None
        self._filter = rows
        kept = [self.schema.field(name) for name in (self.columns if columns is None else columns)]
        self._set_schema(pa.schema(kept, self.schema.metadata))

    def _set_plain(self, schema: pa.Schema) -> None:
        """Read views, and runs of equal values, as PyArrow's filters know them."""
        plain = writable_schema(schema, "parquet")
        if plain.types != schema.types:
            self._plain = plain
        self._set_schema(plain)

    def _as_plain(self, rows: Any) -> Any:
        """A table or batch in the types in which it is read."""
        if self._plain is None:
            return rows
        return rows.cast(pa.schema([self._plain.field(name) for name in rows.schema.names], rows.schema.metadata))

    def _kept(self, rows: Any) -> Any:
        """Of a table or batch, the rows and columns that are wanted."""
        rows = self._as_plain(rows)
        if self._filter is not None:
            rows = rows.filter(self._filter)
        return rows if rows.schema.names == self.columns else rows.select(self.columns)

    def _set_schema(self, schema: pa.Schema) -> None:
        self.schema = schema
        with one_clear_line("read", self.path):
            self.columns = list(schema.names)  # they may be no text

    @abstractmethod
    def _read(self, most_bytes: int | None) -> Iterator[pa.RecordBatch]:
        """All batches, in their order; without more at once than ``most_bytes``, if that can be."""

    def record_batches(self, most_bytes: int | None = None) -> Iterator[pa.RecordBatch]:
        """As ``_read``, with what is wrong in one line."""
        with one_clear_line("read", self.path):
            yield from map(self._kept, self._read(most_bytes))

    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """See ``Reader``."""
        table = pa.Table.from_batches(self.record_batches(), self.schema)
        seen(table)
        return table

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        return in_parts(self.record_batches(most_bytes), self.schema, most_bytes)

    def parts(self, rows: int, most_bytes: int) -> Iterator[Part]:
        """See ``Reader``. Here they are decoded one after the other, when they are asked for."""
        for table in in_parts(self.record_batches(most_bytes), self.schema, most_bytes):
            for first in range(0, table.num_rows, rows):
                yield _decoded_part(table.slice(first, rows))

    def check_unchanged(self) -> None:
        """See ``Reader``."""
        self._version.check()


def in_parts(batches: Iterable[pa.RecordBatch], schema: pa.Schema, most_bytes: int) -> Iterator[pa.Table]:
    """Batches as tables of about so many bytes."""
    parts: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        columns = [compact_views(column) for column in batch.columns]
        whole = pa.Table.from_batches([pa.RecordBatch.from_arrays(columns, schema=batch.schema)])
        del batch, columns
        for part in slices_within(whole, most_bytes):  # a batch may be larger than a part
            size = bytes_of_rows(part)
            if parts and held + size > most_bytes:
                yield pa.Table.from_batches(parts, schema)
                parts, held = [], 0
            parts += part.to_batches()
            held += size
        del whole
    if parts:
        yield pa.Table.from_batches(parts, schema)


def columns_in(rows: Any, schema: pa.Schema) -> list[str]:
    """The columns that an expression names: those without which it cannot be had. Raises ``ArrowException``."""
    empty = schema.empty_table()
    empty.filter(rows)

    def is_needed(name: str) -> bool:
        try:
            empty.drop_columns(name).filter(rows)
        except pa.ArrowException:
            return True
        return False

    return [name for name in schema.names if is_needed(name)]


def unused_name(name: str, names: Sequence[str]) -> str:
    """A name for one more column beside others."""
    while name in names:
        name += "_"
    return name


def numbered(tables: Iterable[pa.Table], name: str) -> Iterator[pa.Table]:
    """Tables with the numbers of their rows in a column of that name, counted through."""
    before = 0
    for table in tables:
        yield table.append_column(name, pa.array(np.arange(before, before + table.num_rows)))
        before += table.num_rows
