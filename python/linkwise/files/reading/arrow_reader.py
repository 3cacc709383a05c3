"""Reading Arrow's formats."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pyarrow as pa

from linkwise import _core
from linkwise._core import UsageError
from linkwise.columns.gather_pyarrow import empty_table
from linkwise.files.formats import one_clear_line
from linkwise.files.locations import Location
from linkwise.files.reading.arrow_sizes import ARROW_FILE, decoded_sizes
from linkwise.files.reading.reader import Piece, Seen, TableReader, not_looked_at
from linkwise.interop.containers import Contents

_MOST_PARTS = 4  # times the limit that a record batch may take: it can only be decompressed as a whole
_ALWAYS_FITS = 1 << 20  # bytes


class ArrowReader(TableReader):
    """Arrow's file format or its stream format, from a mapped file or, without one, from an open source.

    ``is_file``: the open source has the file format and supports random access.
    """

    def __init__(
        self, path: Location, source: Any, mapped: _core.MappedFile | None = None, *, is_file: bool = False
    ) -> None:
        super().__init__(path, "arrow")
        self._mapped = mapped
        with one_clear_line("read", path):
            if mapped is not None:
                data = memoryview(cast(Any, mapped.bytes))
                self._is_file = bytes(data[: len(ARROW_FILE)]) == ARROW_FILE
                self._sizes = decoded_sizes(data)
                self.size = sum(self._sizes)
                source = pa.BufferReader(pa.py_buffer(mapped.bytes))
            else:
                self._is_file, self._sizes = is_file, []
            self._source = pa.ipc.open_file(source) if self._is_file else pa.ipc.open_stream(source)
            self._numbers = range(
                self._source.num_record_batches if self._is_file else 0
            )  # of the record batches to read
        self._set_schema(self._source.schema)

    def _read(self, most_bytes: int | None) -> Iterator[pa.RecordBatch]:
        if most_bytes is not None:
            self._check_fits(max(_MOST_PARTS * most_bytes, _ALWAYS_FITS))
        for batch in self._batches():
            yield _validated(batch)
            if most_bytes is not None and self._mapped is not None:
                self._mapped.forget(0, self._mapped.bytes.size)

    def _check_fits(self, most_bytes: int) -> None:
        """Mapped uncompressed batches are read piece by piece; compressed batches must fit as a whole."""
        largest = max(self._sizes, default=0)
        if self._mapped is not None and largest > most_bytes and self.size and self.size > self._mapped.bytes.size:
            raise UsageError(
                f"{self.path}: a record batch takes {largest >> 20} MiB when it is decompressed, which can be done "
                f"only as a whole; give {-(-2 * largest >> 20)} MiB of host memory at least, or write smaller batches"
            )

    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """See ``Reader``."""

        def kept(batch: pa.RecordBatch) -> pa.Table:
            return seen(pa.Table.from_batches([self._kept(_validated(batch))], self.schema))

        with (
            one_clear_line("read", self.path),
            ThreadPoolExecutor(os.cpu_count(), initializer=_core.work_alone) as pool,
        ):
            tables = list(pool.map(kept, self._batches()))
            return pa.concat_tables(tables) if tables else seen(empty_table(self.schema))

    def check_unchanged(self) -> None:
        """See ``Reader``."""
        self._version.check(is_whole=self._mapped is None or self._mapped.is_whole())

    def pieces(self) -> list[Piece]:
        """See ``Reader``. The record batches of a file that is mapped."""
        if not self._is_file or len(self._sizes) != self._source.num_record_batches:
            return super().pieces()
        return [Piece(0, size) for size in self._sizes]

    def only(self, first: int, end: int) -> None:
        """See ``Reader``."""
        if self._is_file and len(self._sizes) == self._source.num_record_batches:
            self._numbers = range(first, end)
            self.size = sum(self._sizes[first:end])

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self._is_file:
            for number in self._numbers:
                yield self._source.get_batch(number)
        else:
            yield from self._source


def _validated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Validate a batch: its buffers come from the file unchecked."""
    batch.validate(full=True)
    return batch
