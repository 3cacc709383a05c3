"""Interface of readers: one file, or several of one kind read as one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from linkwise._core import Error, UsageError
from linkwise._typing import Format, Rows
from linkwise.columns.gather import gather_rows
from linkwise.columns.gather_pyarrow import bytes_of, empty_table
from linkwise.columns.number_filter import NumberFilter
from linkwise.columns.take import compact_views
from linkwise.encoders.type_casts import writable, writable_schema
from linkwise.files.formats import one_clear_line
from linkwise.files.locations import Location, RemoteFile, is_pipe
from linkwise.interop.containers import Contents

Seen = Callable[[Any], Any]
"""Called with each part of the contents on the thread that decoded it, while it is in that core's caches.

It returns what is kept of the part.
"""


def not_looked_at(part: Contents) -> Contents:
    """Keep the part as it is."""
    return part


_PART_BYTES = 1 << 23  # of a part, so that cores begin with the first while others are read
_FEW = 16  # if at most one row in so many is wanted, keys are read first and rows are fetched


class CarriedRows(NamedTuple):
    """Rows of text that are copied verbatim from file to file."""

    column: str
    """The column with the raw rows, each with its line end."""
    header: bytes
    """The text before the rows."""


@dataclass(frozen=True)
class Candidates:
    """Which rows may be among the first of a sort. Its functions may be called on any thread."""

    column: str | None
    """The column of the first key; ``None`` if the file's statistics do not apply to it."""
    descending: bool
    """The order of the first key."""
    may_lie_between: Callable[[int, int], bool]
    """Whether rows may be among the first whose first key is an integer from the one to the other."""
    positions_in: Callable[[pa.Table], Rows]
    """Of the rows of a table with the keys, the positions of those that may be among the first, in order."""


class Found(NamedTuple):
    """Candidates in a part of a file."""

    rows: pa.Table
    """Their keys."""
    numbers: Rows
    """Their row numbers in the whole, for ``Reader.fetch``."""
    of: int
    """How many rows of the part passed the filter; of a part that statistics ruled out, 0 if there is a filter."""


class Part(NamedTuple):
    """Consecutive rows that any thread may decode."""

    rows: int
    """The number of rows before filtering."""
    decode: Callable[[Sequence[str] | None], pa.Table]
    """Makes a table of the named columns, or of all requested ones for ``None``; may be called several times."""


class Stored(NamedTuple):
    """Columns that are read as Parquet files store them, which is faster than what PyArrow makes of them."""

    strings: list[str]
    """Of strings or bytes with few distinct values: as dictionary columns."""
    decimals: list[str]
    """As the integers of their digits: of 32 bits for up to 9 digits, otherwise of 64."""


class Piece(NamedTuple):
    """A part of a file that can be read independently."""

    rows: int
    """0 if unknown."""
    size: int
    """Approximate bytes in memory."""


class Reader(ABC):
    """A file, or several with the same columns read as one. Files are open only while they are being read."""

    filters_numbers = False
    """Whether ``keep`` takes a ``NumberFilter``."""

    def __init__(
        self, kind: Format, *, schema: pa.Schema | None = None, columns: list[str] | None = None,
        size: int | None = None, compression: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.format = kind
        self.schema = schema
        """The schema of a table; ``None`` for an array."""
        self.columns = columns or []
        """The names of the columns; empty for an array."""
        self.size = size
        """Approximate bytes in memory; ``None`` if unknown before everything has been read."""
        self.compression = compression or {}
        """The codecs of a Parquet file's columns."""
        self.carried: CarriedRows | None = None
        """Set for text whose rows are read verbatim, beside the columns that are parsed."""

    @abstractmethod
    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """Read everything at once: what ``seen`` returns for each part. A single array is mapped, not loaded."""

    @abstractmethod
    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """Consecutive parts that take about ``most_bytes`` of memory each."""

    def parts(self, rows: int, most_bytes: int) -> Iterator[Part]:
        """Consecutive parts of about ``rows`` rows and at most about ``most_bytes`` of memory. Only for tables."""
        raise NotImplementedError

    def carry_rows(self, columns: Sequence[str]) -> None:  # noqa: B027 - only text is carried
        """For text: parse only these columns and those filtered by, and read rows verbatim into one more column."""

    def leave_out(self, column: str, least: Any, greatest: Any) -> None:  # noqa: B027 - most have no statistics
        """Skip what, by its statistics, has no value of ``column`` from ``least`` to ``greatest``, both included.

        What is read may still contain other values.
        """

    @property
    def stored_bytes(self) -> int:
        """Approximate bytes, in the files, of what is read; 0 if unknown."""
        return 0

    def storable(self, least_rows: int) -> Stored:
        """The columns for ``read_stored``; none if the files have fewer rows on average: it would not save time."""
        del least_rows
        return Stored([], [])

    def read_stored(self, columns: Stored) -> None:  # noqa: B027 - only what ``storable`` returns
        """Have ``everything`` read these columns as they are stored; ``schema`` stays as it is."""

    def pieces(self) -> list[Piece]:
        """The independently readable pieces, in order. Call before ``keep`` and ``leave_out``."""
        return [Piece(0, self.size or 0)]

    def only(self, first: int, end: int) -> None:
        """Read only the pieces from ``first`` to ``end``, exclusive. Call last."""
        assert (first, end) == (0, 1), "this is read as a whole"

    @property
    def rows(self) -> int | None:
        """The number of rows if single rows can be fetched, otherwise ``None``."""
        return None

    def is_read_sooner_by_keys(self, wanted: int, first_key: str) -> bool:
        """Whether it is faster to read the keys first, and then fetch ``wanted`` rows by number."""
        return self.rows is not None and wanted <= self.rows // _FEW

    def keep(self, columns: Sequence[str] | None, rows: Any | None) -> None:
        """Keep only these columns, and the rows for which an expression or a ``NumberFilter`` is true.

        Raises ``UsageError``.
        """
        if columns is not None or rows is not None:
            raise UsageError("an array has no columns: it is sorted as a whole")

    def candidates(
        self, columns: Sequence[str], wanted: Candidates, most_bytes: int | None, first: int = 0
    ) -> Iterator[Found]:
        """The candidates among all rows, with some columns: parts in any order, at least one.

        Row numbers begin with ``first``. With ``most_bytes``, about as much is in memory at once. Only where single
        rows can be fetched.
        """
        raise NotImplementedError

    @property
    def filtered_by(self) -> list[str]:
        """The columns of the filter."""
        return []

    def fetch(self, rows: Rows, most_bytes: int | None, columns: Sequence[str] | None = None) -> pa.Table:
        """Fetch rows by their numbers, in ascending order, with all or some columns.

        Only where single rows can be fetched. With ``most_bytes``, as little as possible is in memory besides.
        """
        raise NotImplementedError

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise ``Error`` if the input has changed since it was opened: results made from it are unreliable."""


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
        """Raise ``Error`` if the file has changed, or if it could not be read completely."""
        if self._now() != self._version:
            raise Error(f"{self._path} was changed while it was read; nothing was written: try again")
        if not is_whole:
            raise Error(f"cannot read {self._path}: its disk has failed, or it was changed; nothing was written")


@contextmanager
def unchanged(readers: Sequence[Reader]) -> Iterator[None]:
    """Run a block that reads, and check at its end that the input has not changed. Raises ``Error``."""
    try:
        yield
    except Error:  # its cause may be a file that has changed
        for reader in readers:
            reader.check_unchanged()
        raise
    for reader in readers:
        reader.check_unchanged()


def size_of_all(readers: Sequence[Reader]) -> int | None:
    """Approximate bytes of several readers in memory; ``None`` if one is unknown."""
    sizes = [reader.size for reader in readers if reader.size is not None]
    return sum(sizes) if len(sizes) == len(readers) else None


def bytes_of_rows(data: pa.Table | pa.RecordBatch) -> int:
    """Bytes of the rows without their dictionaries, whose size does not depend on the number of rows."""
    parts: list[Any] = []
    for column in data.columns:
        if not pa.types.is_dictionary(column.type):
            parts.append(column)
        else:
            parts += [chunk.indices for chunk in getattr(column, "chunks", [column])]
    return sum(map(bytes_of, parts))


def slices_within(table: pa.Table, most_bytes: int, size: int | None = None) -> Iterator[pa.Table]:
    """Consecutive slices of the table of at most ``most_bytes``, unless a single row takes more.

    ``size``: the table's ``bytes_of_rows``, if they are known.
    """
    size = bytes_of_rows(table) if size is None else size
    if table.num_rows <= 1 or size <= most_bytes:
        if table.num_rows:
            yield table
        return
    # Rows are mostly similar in size: slice by a little more than the average, and split slices that are too large.
    rows = min(max(most_bytes * table.num_rows * 7 // (8 * size), 1), (table.num_rows + 1) // 2)
    for first in range(0, table.num_rows, rows):
        part = table.slice(first, rows)
        # Nested dictionaries count in full in every slice, so that splitting does not help.
        part_size = bytes_of_rows(part)
        if part_size > size * 3 // 4:
            yield part
        else:
            yield from slices_within(part, most_bytes, part_size)


class TableReader(Reader):
    """A reader of one table."""

    schema: pa.Schema

    def __init__(self, path: Location, kind: Format) -> None:
        super().__init__(kind)
        self.path = path
        with one_clear_line("read", path):
            self._version = FileVersion(path)
        self.header_as_it_is = b""
        """The header of text, with its line end."""
        self._filter: Any | None = None  # an expression, or where ``filters_numbers`` a NumberFilter
        self._referenced: list[str] = []  # the columns in the filter
        self._plain: pa.Schema | None = None  # of all columns, if some are read as other types than the file's

    def keep(self, columns: Sequence[str] | None, rows: Any | None) -> None:
        """See ``Reader``."""
        if isinstance(rows, NumberFilter):
            self._referenced = rows.columns
        elif rows is not None:
            self._set_plain(self.schema)
            try:
                self._referenced = columns_in(rows, self.schema)
            except pa.ArrowException as error:
                raise UsageError(f"{self.path}: the filter does not suit its columns: {error}") from None
        self._filter = rows
        if columns is not None:
            self._set_schema(pa.schema([self.schema.field(name) for name in columns], self.schema.metadata))

    def _set_plain(self, schema: pa.Schema) -> None:
        """Read views and run-end encoded columns as plain types, which PyArrow's filters support."""
        plain = writable_schema(schema, "parquet")
        if plain.types != schema.types:
            self._plain = plain
        self._set_schema(plain)

    def _as_plain(self, rows: Any) -> Any:
        """A table or batch cast to the plain types."""
        if self._plain is None:
            return rows
        plain = pa.schema([self._plain.field(name) for name in rows.schema.names], rows.schema.metadata)
        if isinstance(rows, pa.Table):
            return writable(rows, plain)
        columns = writable(pa.Table.from_batches([rows]), plain).columns
        # Of a batch without rows, a cast column has no chunk.
        arrays = [column.chunk(0) if column.num_chunks else column.combine_chunks() for column in columns]
        return pa.record_batch(arrays, schema=plain)

    def _kept(self, rows: Any) -> Any:
        """The requested rows and columns of a table or batch."""
        rows = self._as_plain(rows)
        if isinstance(self._filter, NumberFilter):
            if isinstance(rows, pa.Table):
                rows = gather_rows(rows, self._filter.rows_of(rows))
            else:
                rows = rows.filter(self._filter.expression)
        elif self._filter is not None:
            rows = rows.filter(self._filter)
        return rows if rows.schema.names == self.columns else rows.select(self.columns)

    def _set_schema(self, schema: pa.Schema) -> None:
        self.schema = schema
        with one_clear_line("read", self.path):
            self.columns = list(schema.names)  # names may be invalid UTF-8

    @abstractmethod
    def _read(self, most_bytes: int | None) -> Iterator[pa.RecordBatch]:
        """All batches in order, with at most ``most_bytes`` in memory at once where possible."""

    def record_batches(self, most_bytes: int | None = None) -> Iterator[pa.RecordBatch]:
        """The requested rows and columns of ``_read``, with errors in one line."""
        with one_clear_line("read", self.path):
            yield from map(self._kept, self._read(most_bytes))

    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """See ``Reader``."""
        contents: Contents = seen(pa.Table.from_batches(self.record_batches(), self.schema))
        return contents

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        return in_parts(self.record_batches(most_bytes), self.schema, most_bytes)

    def parts(self, rows: int, most_bytes: int) -> Iterator[Part]:
        """See ``Reader``. Here, parts are decoded one after the other, on demand."""
        for table in in_parts(self.record_batches(most_bytes), self.schema, min(most_bytes, _PART_BYTES)):
            for first in range(0, table.num_rows, rows):
                yield _decoded_part(table.slice(first, rows))

    def check_unchanged(self) -> None:
        """See ``Reader``."""
        self._version.check()


def in_parts(batches: Iterable[pa.RecordBatch], schema: pa.Schema, most_bytes: int) -> Iterator[pa.Table]:
    """Batches as tables of about ``most_bytes``."""
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
    """The columns that an expression refers to: those without which it fails. Raises ``ArrowException``."""
    empty = empty_table(schema)
    empty.filter(rows)

    def is_needed(name: str) -> bool:
        try:
            empty.drop_columns(name).filter(rows)
        except pa.ArrowException:
            return True
        return False

    # One of several columns with a name cannot be referred to.
    return [name for name in schema.names if schema.names.count(name) == 1 and is_needed(name)]


def unused_name(name: str, names: Sequence[str]) -> str:
    """A name for one more column that none of the others has."""
    while name in names:
        name += "_"
    return name


def numbered(tables: Iterable[pa.Table], name: str) -> Iterator[pa.Table]:
    """Tables with one more column of row numbers, counted across all tables."""
    before = 0
    for table in tables:
        yield table.append_column(name, pa.array(np.arange(before, before + table.num_rows)))
        before += table.num_rows
