"""Reading files of tables: Parquet, Arrow's formats, and text."""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from linkwise._core import Error, UsageError
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.take import compact_views, types_inside
from linkwise.files.formats import FileOptions, Format, arrow_type, name_of, one_clear_line, size_of
from linkwise.files.reader import Reader, size_of_all
from linkwise.interop.containers import Contents

ARROW_FILE = b"ARROW1"
"""What Arrow's file format begins with; its stream format does not."""

_BLOCK = 16 << 20  # bytes of text that are parsed at once, and whose first block tells the types
_ROWS_AT_ONCE = 1 << 17  # of a Parquet file
_PAGE = 1 << 16  # bytes


class TableReader(Reader):
    """What readers of tables share: they give record batches."""

    schema: pa.Schema

    def __init__(self, path: Path, kind: Format) -> None:
        super().__init__(kind)
        self.path = path

    def _set_schema(self, schema: pa.Schema) -> None:
        self.schema = schema
        with one_clear_line("read", self.path):
            self.columns = list(schema.names)  # they may be no text

    @abstractmethod
    def _read(self) -> Iterator[pa.RecordBatch]:
        """All batches, in their order."""

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """As ``_read``, with what is wrong in one line."""
        with one_clear_line("read", self.path):
            yield from self._read()

    def everything(self) -> Contents:
        """See ``Reader``."""
        return pa.Table.from_batches(self.record_batches(), self.schema)

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        return in_parts(self.record_batches(), self.schema, most_bytes)


class SeveralTables(Reader):
    """Several tables with the same columns, one behind the other."""

    schema: pa.Schema

    def __init__(self, readers: Sequence[TableReader], paths: Sequence[Path]) -> None:
        first = readers[0]
        super().__init__(
            first.format, schema=first.schema, columns=first.columns, size=size_of_all([*readers]),
            compression=first.compression,
        )  # fmt: skip
        self._readers = readers
        for reader, path in zip(readers, paths, strict=True):
            if reader.schema != first.schema:
                raise UsageError(f"{path} has other columns or types than {paths[0]}; sort them apart, or cast them")

    def everything(self) -> Contents:
        """See ``Reader``."""
        return pa.concat_tables([reader.everything() for reader in self._readers])

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        every = (batch for reader in self._readers for batch in reader.record_batches())
        yield from in_parts(every, self.schema, most_bytes)


def in_parts(batches: Iterable[pa.RecordBatch], schema: pa.Schema, most_bytes: int) -> Iterator[pa.Table]:
    """Batches as tables of about so many bytes."""
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


def _has_dictionary(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_dictionary(kind.storage_type)
    is_nested = pa.types.is_nested(kind)
    return pa.types.is_dictionary(kind) or (is_nested and any(map(_has_dictionary, types_inside(kind))))


class ParquetReader(TableReader):
    """Parquet, by row groups."""

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
            with one_clear_line("read", path):
                # Damaged metadata of a column ends the process when its codec is asked for, unless it is read first.
                if self._is_read_by_groups:
                    self.file.read_row_group(0)
                else:
                    # In small reads: otherwise all of the first row group would be fetched for its first row.
                    in_pages = pq.ParquetFile(path, pre_buffer=False, buffer_size=_PAGE)
                    next(in_pages.iter_batches(1, row_groups=[0]), None)
                first = metadata.row_group(0)
                columns = [first.column(number) for number in range(metadata.num_columns)]
                self.compression = {column.path_in_schema: column.compression for column in columns}

    def everything(self) -> Contents:
        """See ``Reader``."""
        with one_clear_line("read", self.path):
            whole = pa.concat_tables(self._groups()) if self._is_read_by_groups else self.file.read()
            return _with_sound_dictionaries(whole)

    def _read(self) -> Iterator[pa.RecordBatch]:
        if self._is_read_by_groups:
            batches = (batch for group in self._groups() for batch in group.to_batches(_ROWS_AT_ONCE))
        else:
            batches = self.file.iter_batches(_ROWS_AT_ONCE)
        return map(_with_sound_dictionaries, batches)

    @property
    def _is_read_by_groups(self) -> bool:
        """PyArrow cannot read dictionaries inside of other types in any other way, and ends the process over some."""
        return any(not pa.types.is_dictionary(kind) and _has_dictionary(kind) for kind in self.schema.types)

    def _groups(self) -> Iterator[pa.Table]:
        numbers = range(self.file.metadata.num_row_groups)
        return (self.file.read_row_group(n) for n in numbers) if numbers else iter([self.schema.empty_table()])


def _with_sound_dictionaries(rows: Any) -> Any:
    """Rows of Parquet, whose reader does not look whether a damaged file's indices are in their dictionaries."""
    for column in rows.columns:
        if _has_dictionary(column.type):
            column.validate(full=True)
    return rows


def _validated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch whose buffers are those of a file, into which nobody has looked."""
    batch.validate(full=True)
    return batch


class ArrowReader(TableReader):
    """Arrow's file format, mapped, or its stream format, also from a pipe."""

    def __init__(self, path: Path, source: Any, begins: bytes) -> None:
        super().__init__(path, "arrow")
        with one_clear_line("read", path):
            is_file = begins.startswith(ARROW_FILE)
            self._source = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        self._set_schema(self._source.schema)
        self.size = size_of(path)

    def _read(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches():
            yield _validated(batch)

    def everything(self) -> Contents:
        """See ``Reader``."""
        with one_clear_line("read", self.path), ThreadPoolExecutor(os.cpu_count()) as pool:
            return pa.Table.from_batches(list(pool.map(_validated, self._batches())), self.schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if isinstance(self._source, pa.ipc.RecordBatchStreamReader):
            yield from self._source
        else:
            for number in range(self._source.num_record_batches):
                yield self._source.get_batch(number)


class TextReader(TableReader):
    """Lines of text with commas or tabs."""

    def __init__(self, path: Path, source: Any, kind: Format, options: FileOptions) -> None:
        super().__init__(path, kind)
        types = {name: arrow_type(alias) for name, alias in options.column_types.items()}
        with one_clear_line("read", path):
            self._stream = pa.csv.open_csv(
                source,
                pa.csv.ReadOptions(block_size=_BLOCK, autogenerate_column_names=not options.header),
                pa.csv.ParseOptions(delimiter="\t" if kind == "tsv" else ",", newlines_in_values=True),
                # Nothing between two commas is null, as in other engines; "" is a text, and nan a number.
                pa.csv.ConvertOptions(
                    column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
                ),
            )
        self._set_schema(self._stream.schema)
        for field in self._stream.schema:
            if pa.types.is_binary(field.type) and field.name not in types:
                raise UsageError(f"{path}: column {field.name!r} is not UTF-8; convert it, or give it the type binary")
        size = size_of(path)
        self.size = None if size is None else 2 * size

    def _read(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._stream
        except pa.ArrowInvalid as error:
            told = re.sub(r"CSV column #(\d+)", self._named, str(error).splitlines()[0])
            raise Error(
                f"cannot read {name_of(self.path, 'read')}: {told}; types are those of the first lines: give the "
                "column's own with --type NAME=string"
            ) from None

    def _named(self, number: re.Match[str]) -> str:
        return f"column {self.columns[int(number[1])]!r}" if int(number[1]) < len(self.columns) else number[0]
