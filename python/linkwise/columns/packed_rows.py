"""Columns of fixed width packed into one column of records: a row is then gathered by one access to memory.

In random order, a column at a time, every value costs a cache line and often a walk through the page tables. Rows are
packed while they are in a core's caches, part by part as they are read, and unpacked where they are gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

from linkwise import _core
from linkwise._arrow import pa
from linkwise._typing import Rows
from linkwise.columns.gather import array_of, filled_chunks

Unpack = Callable[[Mapping[int, Any], Rows], Any]
"""Makes a table from the kept columns of some rows, by their numbers in a packed table, and these rows' numbers."""

_LEAST_COLUMNS = 2
_MOST_GROWTH = 1.25  # bytes of a record, relative to those of its values in columns


class PackedColumns:
    """Which columns are packed, how, and what was packed so far."""

    def __init__(self, schema: pa.Schema, kept: Collection[str]) -> None:
        """``kept``: columns that are not packed, such as keys."""
        self.schema = schema
        widths = [None if field.name in kept else _width_of(field.type) for field in schema]
        self._packed = [at for at, width in enumerate(widths) if width is not None]
        self._kept = [at for at, width in enumerate(widths) if width is None]
        self._widths = [width for width in widths if width is not None]
        self._may_have_nulls = [False] * len(self._packed)
        self._records = pa.binary((len(self._packed) + 7) // 8 + sum(max(width, 1) for width in self._widths))
        self._name = "records"
        while self._name in schema.names:
            self._name += "_"

    @property
    def pays(self) -> bool:
        """Whether there are several columns, and records do not take much more memory than these."""
        in_columns = sum(width or 1 / 8 for width in self._widths)
        return len(self._packed) >= _LEAST_COLUMNS and self._records.byte_width <= _MOST_GROWTH * in_columns

    def pack(self, table: pa.Table) -> pa.Table:
        """The columns that are kept, and the records as the last column. Thread-safe."""
        columns = [filled_chunks(table.column(at)) for at in self._packed]
        for number, at in enumerate(self._packed):
            if table.column(at).null_count:
                self._may_have_nulls[number] = True
        records = pa.array([], self._records)
        if table.num_rows:
            packed = pa.py_buffer(_core.pack_rows(self._widths, columns))
            records = pa.Array.from_buffers(self._records, table.num_rows, [None, packed], null_count=0)
        fields = [self.schema.field(at) for at in self._kept]
        return pa.table(
            [*(table.column(at) for at in self._kept), records],
            schema=pa.schema([*fields, pa.field(self._name, self._records)]),
        )

    def unpacked(self, kept: Mapping[int, pa.ChunkedArray], packed: Sequence[pa.ChunkedArray]) -> pa.Table:
        """A table from some rows of the kept columns, by their numbers in a packed table, and of ``rows``."""
        columns = dict(zip(self._packed, packed, strict=True))
        columns |= {at: kept[number] for number, at in enumerate(self._kept)}
        return pa.table([columns[at] for at in range(len(self.schema))], schema=self.schema)

    def rows(self, records: _core.PackedRows, rows: Rows) -> list[pa.ChunkedArray]:
        """These rows of the packed columns, on the calling thread or on all cores."""
        found = cast(list[tuple[Any, ...]], records.gather(rows, self._may_have_nulls))
        kinds = [self.schema.field(at).type for at in self._packed]
        return [pa.chunked_array([array_of(parts, kind, len(rows))]) for parts, kind in zip(found, kinds, strict=True)]

    def unpacker(self, column: pa.ChunkedArray) -> Unpack:
        """What makes tables of rows from the column of records and the kept columns of these rows."""
        records = self.records_of(column)
        return lambda kept, rows: self.unpacked(kept, self.rows(records, rows))

    def records_of(self, column: pa.ChunkedArray) -> _core.PackedRows:
        """The column of records, which is not empty, prepared for ``rows``."""
        return _core.PackedRows(self._widths, filled_chunks(column))


def _width_of(kind: pa.DataType) -> int | None:
    """Bytes of a column's values, 0 for bools; ``None`` for types that are not packed."""
    if pa.types.is_boolean(kind):
        return 0
    is_plain = pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind)
    return int(kind.bit_width) // 8 or None if is_plain else None
