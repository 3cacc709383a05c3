"""What readers of tables share: they give record batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from linkwise._core import UsageError
from linkwise.columns.take import compact_views
from linkwise.files.formats import Format, one_clear_line
from linkwise.files.reader import FileVersion, Reader, bytes_of_rows, size_of_all, slices_within
from linkwise.interop.containers import Contents


class TableReader(Reader):
    """A file of a table."""

    schema: pa.Schema

    def __init__(self, path: Path, kind: Format) -> None:
        super().__init__(kind)
        self.path = path
        self._version = FileVersion(path)

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
            yield from self._read(most_bytes)

    def everything(self) -> Contents:
        """See ``Reader``."""
        return pa.Table.from_batches(self.record_batches(), self.schema)

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        return in_parts(self.record_batches(most_bytes), self.schema, most_bytes)

    def check_unchanged(self) -> None:
        """See ``Reader``."""
        self._version.check()


class SeveralTables(Reader):
    """Several tables with the same columns, one behind the other."""

    schema: pa.Schema

    def __init__(self, readers: Sequence[TableReader], paths: Sequence[Path]) -> None:
        first = readers[0]
        super().__init__(
            first.format, schema=first.schema, columns=first.columns, size=size_of_all(readers),
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
        every = (batch for reader in self._readers for batch in reader.record_batches(most_bytes))
        yield from in_parts(every, self.schema, most_bytes)

    def check_unchanged(self) -> None:
        """See ``Reader``."""
        for reader in self._readers:
            reader.check_unchanged()


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
