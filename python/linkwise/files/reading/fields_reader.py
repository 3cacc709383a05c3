"""Struct fields that rows are joined by, read as columns of their own behind all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import pyarrow as pa

from linkwise._typing import Rows
from linkwise.columns.inside import outer_columns, type_named, with_fields
from linkwise.files.reading.reader import Candidates, Found, Part, Piece, Reader, Seen, not_looked_at
from linkwise.interop.containers import Contents


class FieldsReader(Reader):
    """The tables of another reader, followed by struct fields named by their paths, as ``address.city``."""

    schema: pa.Schema

    def __init__(self, inner: Reader, fields: Sequence[str]) -> None:
        assert inner.schema is not None
        schema = pa.schema([*inner.schema, *(pa.field(name, type_named(inner.schema, name)) for name in fields)])
        super().__init__(
            inner.format, schema=schema, columns=list(schema.names), size=inner.size, compression=inner.compression
        )
        self._inner, self._fields = inner, list(fields)

    def _with_fields(self, table: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        whole = with_fields(table, [name for name in self._fields if columns is None or name in columns])
        return whole if columns is None else whole.select(list(columns))

    def _needed(self, columns: Sequence[str]) -> list[str]:
        """The other reader's columns that contain these columns."""
        return outer_columns(columns, self._inner.columns)

    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """See ``Reader``."""
        contents: Contents = seen(self._with_fields(cast(pa.Table, self._inner.everything())))
        return contents

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        for table in self._inner.batches(most_bytes):
            yield self._with_fields(cast(pa.Table, table))

    def parts(self, rows: int, most_bytes: int) -> Iterator[Part]:
        """See ``Reader``."""
        for part in self._inner.parts(rows, most_bytes):

            def decode(columns: Sequence[str] | None, part: Part = part) -> pa.Table:
                needed = None if columns is None else self._needed(columns)
                return self._with_fields(part.decode(needed), columns)

            yield Part(part.rows, decode)

    def leave_out(self, column: str, least: object, greatest: object) -> None:
        """See ``Reader``. Statistics of struct fields are not used."""
        if column not in self._fields:
            self._inner.leave_out(column, least, greatest)

    def pieces(self) -> list[Piece]:
        """See ``Reader``."""
        return self._inner.pieces()

    def only(self, first: int, end: int) -> None:
        """See ``Reader``."""
        self._inner.only(first, end)
        self.size = self._inner.size

    @property
    def rows(self) -> int | None:
        """See ``Reader``."""
        return self._inner.rows

    def candidates(
        self, columns: Sequence[str], wanted: Candidates, most_bytes: int | None, first: int = 0
    ) -> Iterator[Found]:
        """See ``Reader``. Statistics of struct fields are not used."""
        inner = replace(
            wanted,
            column=None if wanted.column in self._fields else wanted.column,
            positions_in=lambda table: wanted.positions_in(self._with_fields(table, columns)),
        )
        for found in self._inner.candidates(self._needed(columns), inner, most_bytes, first):
            yield found._replace(rows=self._with_fields(found.rows, columns))

    def fetch(self, rows: Rows, most_bytes: int | None, columns: Sequence[str] | None = None) -> pa.Table:
        """See ``Reader``."""
        found = self._with_fields(self._inner.fetch(rows, most_bytes))
        return found if columns is None else found.select(list(columns))

    def check_unchanged(self) -> None:
        """See ``Reader``."""
        self._inner.check_unchanged()
