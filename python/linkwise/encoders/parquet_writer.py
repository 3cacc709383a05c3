"""A Parquet file, written by all cores: row groups are made and encoded in parallel, and written in order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.sort_keys import SortKey
from linkwise.encoders import parquet_layout as layout
from linkwise.encoders.output_file import OutputFile
from linkwise.encoders.parquet_encodings import Encoding, encoding_of
from linkwise.encoders.parquet_footer import JoinedFile
from linkwise.encoders.parquet_options import ParquetOptions, codec_arguments
from linkwise.encoders.part_writer import PartWriter
from linkwise.encoders.thrift import BINARY, I64, TRUE, Struct

_MOST_ROWS = 1 << 18  # per row group, which then mostly fits into the caches of a core
_ROWS_ON_MANY_CORES = 1 << 19  # many cores wait for the GIL between steps, so that fewer steps are worth more
_MANY_CORES = 16
_LEAST_ROWS = 1 << 17  # of a group, if there are that many; with fewer, readers would spend their time between groups
_GROUPS_IN_MEMORY = 4  # rows that wait become a row group at memory / _GROUPS_IN_MEMORY
_GROUPS_ALIKE = 16  # whose columns have the same encodings: deciding holds the GIL, for which all cores wait
_ROOM = 1 << 17  # bytes for the encoding of rows, beyond their own and …
_ROOM_SHARE = 8  # … a part of these; an output that grows is copied several times
_LONGEST_VALUE = 1 << 12  # bytes, in statistics, as PyArrow has it
_GROWTH = 2  # bytes of the rows and their encoding, relative to those of the rows


class _RowGroup(NamedTuple):
    file: pa.Buffer
    """A Parquet file of its own."""
    statistics: dict[str, Struct]
    """Of columns of which the file has none."""


class ParquetWriter(PartWriter[_RowGroup]):
    """Row groups; see ``PartWriter``. Half of ``memory`` is for those that wait to be encoded and written.

    Tables may have dictionary columns where ``schema`` has strings; their dictionaries have the values that occur, in
    order. They may have integers where it has decimals, of 32 bits for up to 9 digits, or of 64 for up to 18.
    ``codecs`` are those of the input's columns; ``keys`` are recorded as the sort order for later readers, and so are
    the types that Arrow is told, ``arrow_schema``, where these are stored in the same way.
    Raises ``ArrowException`` for types that Parquet lacks.
    """

    def __init__(
        self, file: IO[bytes], schema: pa.Schema, options: ParquetOptions, *, codecs: dict[str, str],
        keys: Sequence[SortKey], memory: int, arrow_schema: pa.Schema | None = None,
    ) -> None:  # fmt: skip
        super().__init__(options.row_group_rows or _rows_of_groups(), memory // 2, _GROWTH)
        self._file, self._schema, self._options = OutputFile(file, memory // 8), schema, options
        self._most_bytes = memory
        self._arguments: dict[str, Any] = {
            "write_page_index": options.page_index, "sorting_columns": _sorting_columns(schema, keys),
            "store_decimal_as_integer": True,  # with up to 18 digits: faster to encode, and not larger
        }  # fmt: skip
        empty = memoryview(self._without_rows(schema if arrow_schema is None else arrow_schema))
        self._joined = JoinedFile(empty)
        leaves = pq.ParquetFile(pa.BufferReader(empty)).schema
        paths = [leaves.column(at).path for at in range(len(leaves))]
        self._leaves = _leaves(paths, schema.names)
        self._arguments |= codec_arguments(options, codecs, paths)
        self._deciding = threading.Lock()
        self._encodings: dict[str, Any] = {}
        self._encoded_alike = 0  # row groups begun so far
        self._file.write(self._joined.begin())
        self._waiting: list[pa.Table] = []  # rows that do not fill a row group yet
        self._waiting_rows = self._waiting_bytes = 0

    def write_table(self, table: pa.Table) -> None:
        """See ``PartWriter``."""
        self._waiting.append(table)
        self._waiting_rows += table.num_rows
        self._waiting_bytes += bytes_of(table)
        self._write_waiting(self.part_rows if self._waiting_bytes < self._most_bytes // _GROUPS_IN_MEMORY else 1)

    def expect(self, size: int) -> None:
        """See ``PartWriter``."""
        self._file.expect(size)

    def rows_of_parts(self, rows: int) -> int:
        """See ``PartWriter``. Groups are so large that all cores end together."""
        if self._options.row_group_rows is not None:
            return self.part_rows
        cores = len(os.sched_getaffinity(0))
        turns = -(-rows // (self.part_rows * cores))
        return -(-max(rows, 1) // max(min(turns * cores, rows // _LEAST_ROWS), 1))

    def write_made(self, make: Callable[[], pa.Table], expected_bytes: int) -> None:
        """See ``PartWriter``; a part is a row group."""
        self._write_waiting(1)
        super().write_made(make, expected_bytes)

    def _write_waiting(self, least_rows: int) -> None:
        """Form row groups from the waiting rows for as long as there are at least ``least_rows``."""
        if self._waiting_rows < least_rows:
            return
        waiting = pa.concat_tables(self._waiting)
        row_bytes = self._waiting_bytes // waiting.num_rows
        while waiting.num_rows >= least_rows:
            group, waiting = waiting.slice(0, self.part_rows), waiting.slice(self.part_rows)
            self._parts.submit(partial(self._encoded, group), _GROWTH * row_bytes * group.num_rows)
        self._waiting = [waiting] if waiting.num_rows else []
        self._waiting_rows, self._waiting_bytes = waiting.num_rows, row_bytes * waiting.num_rows

    def _encoded(self, table: pa.Table) -> _RowGroup:
        how = self._encodings_of(table)
        told: dict[str, Struct] = {}
        if not self._options.page_index:  # which needs statistics of pages
            columns = zip(self._schema, table.columns, strict=True)
            told = {
                field.name: _statistics_of(column) for field, column in columns
                if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(field.type)
            }  # fmt: skip
        if told:  # PyArrow would look at each value
            leaves = chain(*self._leaves.values())
            how = how | {"write_statistics": [leaf for leaf in leaves if leaf not in told]}
        return _RowGroup(self._file_of(table, **how), told)

    def _encodings_of(self, table: pa.Table) -> dict[str, Any]:
        """How the leaves are encoded, as PyArrow's arguments. A decision holds for several row groups."""
        if self._options.dictionary == "all":
            return {"use_dictionary": True}
        with self._deciding:
            if self._encoded_alike % _GROUPS_ALIKE == 0:
                leaves: dict[Encoding, list[str]] = {"plain": [], "dictionary": [], "delta": []}
                for name, column in zip(table.column_names, table.columns, strict=True):
                    encoding = encoding_of(
                        column, dictionary=self._options.dictionary == "auto", delta=self._options.delta
                    )
                    leaves[encoding] += self._leaves[name]
                self._encodings = {
                    "use_dictionary": leaves["dictionary"],
                    "column_encoding": dict.fromkeys(leaves["delta"], "DELTA_BINARY_PACKED"),
                }
            self._encoded_alike += 1
            return self._encodings

    def _file_of(self, table: pa.Table, **arguments: Any) -> pa.Buffer:
        """A Parquet file of its own with the table as one row group, or with none if it is empty."""
        size = bytes_of(table)
        room = pa.allocate_buffer(_ROOM + size + size // _ROOM_SHARE)
        out = pa.FixedSizeBufferWriter(room)
        try:
            self._write_file(out, table, arguments)
            return room.slice(0, out.tell())
        except OSError:  # it takes more than the rows do
            grown = pa.BufferOutputStream()
            self._write_file(grown, table, arguments)
            return grown.getvalue()

    def _without_rows(self, arrow_schema: pa.Schema) -> pa.Buffer:
        """A file that tells Arrow this schema."""
        out = pa.BufferOutputStream()
        try:
            with pq.ParquetWriter(out, arrow_schema, **self._arguments):
                pass
        except pa.ArrowNotImplementedError:  # older versions of PyArrow cannot write views
            return self._file_of(self._schema.empty_table())
        return out.getvalue()

    def _write_file(self, out: pa.NativeFile, table: pa.Table, arguments: dict[str, Any]) -> None:
        with pq.ParquetWriter(out, self._schema_of(table), **self._arguments, **arguments) as writer:
            if table.num_rows:
                writer.write_table(table, row_group_size=table.num_rows)

    def _schema_of(self, table: pa.Table) -> pa.Schema:
        """The file's schema, with dictionaries and integers for the columns that the table has as such."""
        if table.schema.types == self._schema.types:
            return self._schema

        def is_stored_alike(kind: pa.DataType, field: pa.Field) -> bool:
            is_decimal = pa.types.is_integer(kind) and pa.types.is_decimal(field.type)
            return is_decimal or bool(pa.types.is_dictionary(kind))

        columns = zip(self._schema, table.schema.types, strict=True)
        fields = [field.with_type(kind) if is_stored_alike(kind, field) else field for field, kind in columns]
        return pa.schema(fields, self._schema.metadata)

    def _append(self, encoded: _RowGroup) -> None:
        self._file.write(self._joined.add(memoryview(encoded.file), encoded.statistics))

    def flush(self) -> None:
        """See ``PartWriter``."""
        self._write_waiting(1)
        super().flush()
        self._file.flush()

    def close(self) -> None:
        """See ``PartWriter``; the metadata comes last."""
        self.flush()
        self._file.write(self._joined.end())
        self._file.flush()

    def cancel(self) -> None:
        """See ``PartWriter``."""
        super().cancel()
        self._file.cancel()


def _statistics_of(column: pa.ChunkedArray) -> Struct:
    """Of strings as dictionary columns in order."""
    told: Struct = {layout.NULLS: (I64, column.null_count)}
    present = [chunk.dictionary.view(pa.binary()) for chunk in column.chunks if len(chunk.dictionary)]
    if present:
        least = min(values[0].as_py() for values in present)
        greatest = max(values[len(values) - 1].as_py() for values in present)
        if max(len(least), len(greatest)) <= _LONGEST_VALUE:
            told |= {layout.GREATEST: (BINARY, greatest), layout.LEAST: (BINARY, least)}
            told |= dict.fromkeys(layout.ARE_EXACT, (TRUE, None))
    return told


def _rows_of_groups() -> int:
    return _ROWS_ON_MANY_CORES if len(os.sched_getaffinity(0)) >= _MANY_CORES else _MOST_ROWS


def _leaves(paths: list[str], names: list[str]) -> dict[str, list[str]]:
    """The paths of the leaves of each column; nested columns have several."""
    found: dict[str, list[str]] = {name: [] for name in names}
    at = 0
    for path in paths:
        while path != names[at] and not path.startswith(f"{names[at]}."):
            at += 1
        found[names[at]].append(path)
    return found


def _sorting_columns(schema: pa.Schema, keys: Sequence[SortKey]) -> list[pq.SortingColumn] | None:
    """The sort order to record, if Parquet numbers columns as the schema does and orders values as we do."""
    if any(pa.types.is_nested(field.type) for field in schema) or not keys:
        return None
    if any(key.column not in schema.names for key in keys):
        return None
    if any(pa.types.is_floating(schema.field(key.column).type) for key in keys):
        return None
    return [pq.SortingColumn(schema.names.index(key.column), key.descending, key.nulls_first) for key in keys]
