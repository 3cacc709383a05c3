"""Verifies output files against what was written, before they appear: ``verify="all"``."""

from __future__ import annotations

import io
import os
import threading
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linkwise._core import CorruptDataError
from linkwise._typing import Format
from linkwise.columns.gather import gather_rows
from linkwise.columns.key_types import is_text
from linkwise.columns.row_checksum import RowChecksum
from linkwise.columns.sort_keys import SortKey
from linkwise.interop.containers import Contents
from linkwise.sorting.check import check_in_order

_AT_ONCE = 16 << 20  # bytes


class OutputCheck:
    """Records what is written to a file, and checks it when the file is read again, from the disk if there is one.

    The bytes must be those that were written; Parquet and Arrow files are also decoded, by PyArrow, and must have the
    rows that were written. ``order``: the sort keys of the rows, whose order is checked as they are written.
    """

    def __init__(self, kind: Format, order: Sequence[SortKey]) -> None:
        self._kind, self._order = kind, list(order)
        self._ends: dict[int, Contents] = {}  # the first and the last row of each part, by the number of the first
        self._given = RowChecksum()
        self._schema: pa.Schema | None = None
        self._lock = threading.Lock()
        self._sum, self._bytes, self._begin = 0, 0, 0

    @property
    def _decodes(self) -> bool:
        return self._kind in ("parquet", "arrow")

    def see(self, table: pa.Table) -> pa.Table:
        """Record a table that is written to the file, on any thread."""
        if self._decodes:
            with self._lock:
                self._schema = _as_read(table.schema) if self._kind == "parquet" else table.schema
            self._given.add(table if table.schema.equals(self._schema) else table.cast(self._schema))
        return table

    def see_in_order(self, contents: Contents, first: int) -> None:
        """Check the order of rows that are written from ``first`` on, on any thread. Raises ``CorruptDataError``."""
        if not self._order or not len(contents):
            return
        check_in_order(contents, self._order)
        ends = np.array([0, len(contents) - 1])
        of_both = contents[ends] if isinstance(contents, np.ndarray) else gather_rows(contents, ends)
        with self._lock:
            self._ends[first] = of_both

    def begin(self, header: int) -> None:
        """Exclude the bytes of a header, which is rewritten last."""
        self._begin = header

    def see_bytes(self, data: Any) -> None:
        """Record bytes that are written to the file, in order."""
        self._sum = zlib.crc32(data, self._sum)
        self._bytes += memoryview(data).nbytes

    def check(self, file: IO[bytes], name: object) -> None:
        """Raise ``CorruptDataError`` unless the complete file has what was written."""
        if self._ends:
            ends = [self._ends[first] for first in sorted(self._ends)]
            check_in_order(
                np.concatenate(ends) if isinstance(ends[0], np.ndarray) else pa.concat_tables(ends), self._order
            )
        file.flush()
        descriptor = file.fileno()
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)  # read from the disk, not from the page cache
        try:
            is_right = self._has_bytes(descriptor) and (not self._decodes or self._has_rows(descriptor))
        except (pa.ArrowException, OSError, EOFError) as error:
            raise CorruptDataError(f"{name} cannot be read again: {' '.join(str(error).split())}") from None
        if not is_right:
            raise CorruptDataError(
                f"{name} has not what was written into it when it is read again; check the disk and the host's memory, "
                "and run again"
            )

    def _has_bytes(self, descriptor: int) -> bool:
        found, at = 0, self._begin
        while data := os.pread(descriptor, _AT_ONCE, at):
            found = zlib.crc32(data, found)
            at += len(data)
        return (found, at - self._begin) == (self._sum, self._bytes)

    def _has_rows(self, descriptor: int) -> bool:
        found = RowChecksum()
        for table in self._tables(descriptor):
            found.add_on_all_cores(table)
        return found == self._given

    def _tables(self, descriptor: int) -> Iterator[pa.Table]:
        """The tables of the file, cast to the types that were written where they differ."""
        with open(descriptor, "rb", closefd=False) as file:
            if self._kind == "parquet":
                parquet = pq.ParquetFile(file)
                parts: Iterator[pa.Table] = (
                    parquet.read_row_group(group) for group in range(parquet.metadata.num_row_groups)
                )
            else:
                stream = pa.ipc.open_file(file)
                parts = (
                    pa.Table.from_batches([stream.get_batch(batch)], stream.schema)
                    for batch in range(stream.num_record_batches)
                )
            for table in parts:
                same = self._schema is None or table.schema.equals(self._schema)
                yield table if same else table.cast(self._schema)


def _as_read(schema: pa.Schema) -> pa.Schema:
    """The schema without dictionaries that PyArrow's Parquet reader does not restore: all but those of text."""
    return pa.schema([field.with_type(_type_as_read(field.type)) for field in schema], schema.metadata)


def _type_as_read(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind if is_text(kind.value_type) else kind.value_type

    def field(at: int) -> pa.Field:
        return kind.field(at).with_type(_type_as_read(kind.field(at).type))

    if pa.types.is_struct(kind):
        return pa.struct([field(at) for at in range(kind.num_fields)])
    for is_kind, make in ((pa.types.is_list, pa.list_), (pa.types.is_large_list, pa.large_list)):
        if is_kind(kind):
            return make(field(0))
    return pa.list_(field(0), kind.list_size) if pa.types.is_fixed_size_list(kind) else kind


class SeenFile(io.RawIOBase):
    """An open file whose bytes are recorded as they are written, in sequence.

    It has no descriptor by which the file could be written directly. Closing it leaves the file open.
    """

    def __init__(self, file: IO[bytes], check: OutputCheck) -> None:
        super().__init__()
        self._file, self._check = file, check

    def writable(self) -> bool:
        """Always true."""
        return True

    def write(self, data: Any) -> int:
        """Record bytes and write them."""
        self._check.see_bytes(data)
        return self._file.write(data)

    def tell(self) -> int:
        """The position in the file."""
        return self._file.tell()

    def flush(self) -> None:
        """Flush the file, if it is open."""
        if not self._file.closed:
            self._file.flush()
