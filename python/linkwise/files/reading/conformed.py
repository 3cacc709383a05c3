"""Files of one table whose columns differ slightly: in order, in compatible types, or by a missing column.

Columns are matched by name. Directories like ``day=2024-05-01`` add one column each, as in Hive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from linkwise._core import Error, UsageError
from linkwise._typing import Rows
from linkwise.columns.decode import decoded
from linkwise.files.locations import Location
from linkwise.files.reading.reader import (
    Candidates,
    Found,
    Part,
    Piece,
    Reader,
    Seen,
    TableReader,
    columns_in,
    in_parts,
    not_looked_at,
)
from linkwise.interop.containers import Contents
from linkwise.joining.type_promotion import common_value_type

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The value that stands for null in names of directories."""
_ADDED_BYTES = 8  # per value of a column that the file lacks
_HIVE = re.compile(r"([^=/]+)=(.*)")


def partition_of(path: Location) -> dict[str, str | None]:
    """The columns that a file's directories name, and their values as text; ``None`` for null."""
    found = [match for part in path.parts[:-1] if (match := _HIVE.fullmatch(part))]
    return {unquote(name): None if value == NO_VALUE else unquote(value) for name, value in map(re.Match.groups, found)}


def partition_types(partitions: Sequence[Mapping[str, str | None]]) -> dict[str, pa.DataType]:
    """The type of each partition column: integer or date where all values are, otherwise text."""
    types: dict[str, pa.DataType] = {}
    for name in dict.fromkeys(name for each in partitions for name in each):
        values = [value for each in partitions if (value := each.get(name)) is not None]
        fits = (kind for kind, of in _OF_TEXT.items() if values and all(of(value) is not None for value in values))
        types[name] = next(fits, pa.string())
    return types


def partition_values(partition: Mapping[str, str | None], types: Mapping[str, pa.DataType]) -> dict[str, pa.Scalar]:
    """The partition values of one file, in these types."""
    made: dict[str, pa.Scalar] = {}
    for name, text in partition.items():
        of_text = _OF_TEXT.get(types[name])
        made[name] = pa.scalar(text if text is None or of_text is None else of_text(text), types[name])
    return made


def with_constants(schema: pa.Schema, constants: Mapping[str, pa.Scalar]) -> pa.Schema:
    """A file's schema, followed by the columns that its directories name."""
    told = [pa.field(name, value.type) for name, value in constants.items()]
    return pa.schema([*schema, *told], schema.metadata)


def _as_integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?(0|[1-9]\d{0,17})", text) else None


def _as_date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else None
    except ValueError:
        return None


_OF_TEXT: dict[pa.DataType, Callable[[str], Any]] = {pa.int64(): _as_integer, pa.date32(): _as_date}


def unified_schema(schemas: Sequence[pa.Schema], paths: Sequence[Location]) -> pa.Schema:
    """The union of the columns of all files by name, those of the first file first. Raises ``UsageError``."""
    fields: dict[str, tuple[pa.Field, Location]] = {}
    for schema, path in zip(schemas, paths, strict=True):
        if len({*schema.names}) < len(schema.names):
            raise UsageError(f"{path} has several columns of one name, and other columns than {paths[0]}; rename them")
        for field in schema:
            known, first = fields.get(field.name, (field, path))
            kind = common_value_type(known.type, field.type)
            if kind is None:
                raise UsageError(
                    f"column '{field.name}' is {known.type} in {first} and {field.type} in {path}; cast one of them"
                )
            fields[field.name] = known.with_type(kind).with_nullable(True), first
    return pa.schema([field for field, _ in fields.values()], schemas[0].metadata)


def in_one_schema(
    paths: Sequence[Location], schemas: Sequence[pa.Schema]
) -> tuple[pa.Schema, list[dict[str, pa.Scalar]]]:
    """The common schema of the files of one table, and the partition values of each.

    Raises ``UsageError`` if the files are incompatible.
    """
    partitions = [partition_of(path) for path in paths]
    types = partition_types(partitions)
    # A file's own column takes precedence over its directories.
    constants = [
        {name: value for name, value in partition_values(told, types).items() if name not in schema.names}
        for told, schema in zip(partitions, schemas, strict=True)
    ]
    if not any(constants) and all(schema == schemas[0] for schema in schemas):
        return schemas[0], constants
    whole = [with_constants(schema, of_file) for schema, of_file in zip(schemas, constants, strict=True)]
    return unified_schema(whole, paths), constants


class ConformedReader(Reader):
    """A file's rows with the columns of a schema: cast where types differ, null or constant where it lacks one."""

    schema: pa.Schema
    header_as_it_is = None
    """Rows of text are parsed here, and not carried verbatim."""

    def __init__(self, inner: TableReader, schema: pa.Schema, constants: Mapping[str, pa.Scalar]) -> None:
        super().__init__(inner.format, schema=schema, columns=list(schema.names), compression=inner.compression)
        self._inner, self._all, self._constants = inner, schema, constants
        self._of_file = dict(zip(inner.schema.names, inner.schema.types, strict=True))
        self._filter: Any | None = None  # unless the file's own reader applies it
        self._referenced: list[str] = []  # the columns in the filter
        self._set_size()

    def _set_size(self) -> None:
        added = sum(name not in self._of_file for name in self.columns)
        self.size = None if self._inner.size is None else self._inner.size + _ADDED_BYTES * added * (self.rows or 0)

    def keep(self, columns: Sequence[str] | None, rows: Any | None) -> None:
        """See ``Reader``."""
        kept = self.columns if columns is None else list(columns)
        if rows is not None:
            try:
                self._referenced = columns_in(rows, self._all)
            except pa.ArrowException as error:
                raise UsageError(f"{self._inner.path}: the filter does not suit its columns: {error}") from None
        is_of_file = all(self._of_file.get(name) == self._all.field(name).type for name in self._referenced)
        self._filter = None if is_of_file else rows
        needed = [*kept, *(name for name in self._referenced if name not in kept)] if not is_of_file else kept
        # At least one column is read: without any, the number of rows would be unknown.
        in_file = [name for name in needed if name in self._of_file] or self._inner.columns[:1]
        self._inner.keep(in_file, rows if is_of_file else None)
        self.schema = pa.schema([self._all.field(name) for name in kept], self._all.metadata)
        self.columns = kept
        self._set_size()

    def _conformed(self, table: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        """The requested rows of a table of the file, with ``columns`` or all requested ones, in the common schema."""
        wanted = self.columns if columns is None else list(columns)
        names = wanted if self._filter is None else list(dict.fromkeys([*wanted, *self._referenced]))
        made = pa.table([self._column(table, name) for name in names], self._schema_of(names))
        return made if self._filter is None else made.filter(self._filter).select(wanted)

    def _schema_of(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self._all.field(name) for name in names], self._all.metadata)

    def _column(self, table: pa.Table, name: str) -> Any:
        kind = self._all.field(name).type
        if name in self._constants:
            return pa.repeat(self._constants[name], table.num_rows).cast(kind)
        if name not in self._of_file:
            return pa.nulls(table.num_rows, kind)
        column = table[name]
        if column.type == kind:
            return column
        try:
            return decoded(column).cast(kind)
        except pa.ArrowException as error:
            raise Error(
                f"cannot read {self._inner.path}: column '{name}' of {column.type} as {kind}: {error}"
            ) from None

    def _names_in_file(self, columns: Sequence[str] | None) -> list[str] | None:
        """The columns to request from the file's own reader."""
        if columns is None:
            return None
        asked = dict.fromkeys([*columns, *self._referenced])
        return [name for name in asked if name in self._inner.columns] or self._inner.columns[:1]

    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """See ``Reader``."""
        contents: Contents = seen(self._conformed(self._inner.everything()))
        return contents

    def record_batches(self, most_bytes: int | None = None) -> Iterator[pa.RecordBatch]:
        """See ``TableReader``."""
        for batch in self._inner.record_batches(most_bytes):
            yield from self._conformed(pa.Table.from_batches([batch])).to_batches()

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        return in_parts(self.record_batches(most_bytes), self.schema, most_bytes)

    def parts(self, rows: int, most_bytes: int) -> Iterator[Part]:
        """See ``Reader``."""
        for part in self._inner.parts(rows, most_bytes):

            def decode(columns: Sequence[str] | None, part: Part = part) -> pa.Table:
                return self._conformed(part.decode(self._names_in_file(columns)), columns)

            yield Part(part.rows, decode)

    def leave_out(self, column: str, least: Any, greatest: Any) -> None:
        """See ``Reader``."""
        if column in self._of_file:
            self._inner.leave_out(column, least, greatest)

    def pieces(self) -> list[Piece]:
        """See ``Reader``."""
        return self._inner.pieces()

    def only(self, first: int, end: int) -> None:
        """See ``Reader``."""
        self._inner.only(first, end)
        self._set_size()

    @property
    def rows(self) -> int | None:
        """See ``Reader``."""
        return None if self._filter is not None else self._inner.rows

    def is_read_sooner_by_keys(self, wanted: int, first_key: str) -> bool:
        """See ``Reader``."""
        return self._filter is None and self._inner.is_read_sooner_by_keys(wanted, first_key)

    def candidates(
        self, columns: Sequence[str], wanted: Candidates, most_bytes: int | None, first: int = 0
    ) -> Iterator[Found]:
        """See ``Reader``. Statistics are not used of a column that is read as another type."""
        in_file = [name for name in columns if name in self._of_file] or self._inner.columns[:1]
        inner = replace(
            wanted,
            column=wanted.column if self._has_type_of_file(wanted.column) else None,
            positions_in=lambda table: wanted.positions_in(self._conformed(table, columns)),
        )
        for found in self._inner.candidates(in_file, inner, most_bytes, first):
            yield found._replace(rows=self._conformed(found.rows, columns))

    def _has_type_of_file(self, column: str | None) -> bool:
        return column in self._of_file and self._inner.schema.field(column).type == self.schema.field(column).type

    def fetch(self, rows: Rows, most_bytes: int | None, columns: Sequence[str] | None = None) -> pa.Table:
        """See ``Reader``."""
        found = self._conformed(self._inner.fetch(rows, most_bytes))
        return found if columns is None else found.select(list(columns))

    def check_unchanged(self) -> None:
        """See ``Reader``."""
        self._inner.check_unchanged()
