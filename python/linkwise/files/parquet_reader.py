"""Reading Parquet, by row groups and parts of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.take import types_inside
from linkwise.files.formats import one_clear_line
from linkwise.files.reader import TableReader, bytes_of_rows
from linkwise.interop.containers import Contents

_ROWS_AT_ONCE = 1 << 17
_PAGE = 1 << 16  # bytes that are fetched at once where little memory is to be used
_SAMPLED_GROUPS, _SAMPLED_ROWS = 8, 64  # which tell what a row takes when it is decoded
_PARTS = 4  # that are decoded of what may be in memory: rows may take more than those that were sampled


class ParquetReader(TableReader):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "parquet")
        with one_clear_line("read", path):
            path.open("rb").close()  # says what is wrong better than the library does
            self._metadata: pq.FileMetaData | None = None
            with self._open() as file:
                self._metadata = file.metadata
                self._set_schema(file.schema_arrow)
                self._row_bytes = self._sample(file)
                self.size = max(2 * self._encoded, self._row_bytes * self._metadata.num_rows)
                if self._metadata.num_row_groups and self._metadata.num_columns:
                    # Damaged metadata of a column ends the process when its codec is asked for, unless it was read.
                    first = self._metadata.row_group(0)
                    columns = [first.column(number) for number in range(self._metadata.num_columns)]
                    self.compression = {column.path_in_schema: column.compression for column in columns}

    def _open(self, *, in_pages: bool = False) -> pq.ParquetFile:
        # Buffering in advance would keep what was read, and whole row groups would be fetched for their first rows.
        buffer = _PAGE if in_pages else 0
        return pq.ParquetFile(self.path, metadata=self._metadata, pre_buffer=False, buffer_size=buffer)

    @property
    def _encoded(self) -> int:
        assert self._metadata is not None
        return sum(self._metadata.row_group(g).total_byte_size for g in range(self._metadata.num_row_groups))

    def _sample(self, file: pq.ParquetFile) -> int:
        """Bytes that a row takes in memory, of the first ones of some row groups."""
        groups, columns, rows = file.metadata.num_row_groups, file.metadata.num_columns, file.metadata.num_rows
        found: int = max(8 * columns, self._encoded // max(rows, 1))
        if not groups or not columns:
            return found
        if self._is_read_by_groups:
            first = file.read_row_group(0)
            return max(found, bytes_of(first) // max(int(first.num_rows), 1))
        with self._open(in_pages=True) as in_pages:
            for group in range(0, groups, -(-groups // _SAMPLED_GROUPS)):
                batch = next(in_pages.iter_batches(_SAMPLED_ROWS, row_groups=[group]), None)
                if batch is not None and batch.num_rows:
                    found = max(found, bytes_of_rows(batch) // batch.num_rows)
        return found

    def everything(self) -> Contents:
        """See ``Reader``."""
        with one_clear_line("read", self.path), self._open() as file:
            whole = pa.concat_tables(self._groups(file)) if self._is_read_by_groups else file.read()
            return _with_sound_dictionaries(whole)

    def _read(self, most_bytes: int | None) -> Iterator[pa.RecordBatch]:
        with self._open(in_pages=most_bytes is not None) as file:
            if self._is_read_by_groups:
                batches = (batch for group in self._groups(file) for batch in group.to_batches(_ROWS_AT_ONCE))
            else:
                fitting = _ROWS_AT_ONCE if most_bytes is None else most_bytes // (_PARTS * self._row_bytes)
                batches = file.iter_batches(min(max(fitting, 1), _ROWS_AT_ONCE))
            yield from map(_with_sound_dictionaries, batches)

    @property
    def _is_read_by_groups(self) -> bool:
        """PyArrow cannot read dictionaries inside of other types in any other way, and ends the process over some."""
        return any(not pa.types.is_dictionary(kind) and _has_dictionary(kind) for kind in self.schema.types)

    def _groups(self, file: pq.ParquetFile) -> Iterator[pa.Table]:
        numbers = range(file.metadata.num_row_groups)
        return (file.read_row_group(n) for n in numbers) if numbers else iter([self.schema.empty_table()])


def _has_dictionary(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_dictionary(kind.storage_type)
    is_nested = pa.types.is_nested(kind)
    return pa.types.is_dictionary(kind) or (is_nested and any(map(_has_dictionary, types_inside(kind))))


def _with_sound_dictionaries(rows: Any) -> Any:
    """Rows of Parquet, whose reader does not look whether a damaged file's indices are in their dictionaries."""
    for column in rows.columns:
        if _has_dictionary(column.type):
            column.validate(full=True)
    return rows
