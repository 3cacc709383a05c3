"""Reading in-memory and lazy sources: tables, batch streams, datasets, lazy frames, DuckDB relations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from linkwise._core import UsageError
from linkwise.files.formats import one_clear_line
from linkwise.files.locations import TableSource
from linkwise.files.reading.reader import TableReader


class BatchReader(TableReader):
    """Any source of Arrow batches. Datasets and lazy frames are asked only for the columns that are needed.

    A stream can be read only once.
    """

    def __init__(self, location: TableSource) -> None:
        super().__init__(location, "arrow")
        with one_clear_line("read", location):
            self._source = _as_pyarrow(location.source)
            self._set_plain(_schema_of(self._source))  # even without a filter: string views are read as plain text
        if isinstance(self._source, pa.Table):
            self.size = self._source.nbytes

    def keep(self, columns: Sequence[str] | None, rows: Any | None) -> None:
        """See ``Reader``."""
        super().keep(columns, rows)
        if hasattr(self._source, "scanner") and self._plain is None:  # it filters by itself
            self._source = self._source.scanner(columns=self.columns, filter=rows)
            self._filter = None
            return
        needed = list(dict.fromkeys([*self.columns, *self._referenced]))
        if isinstance(self._source, pa.Table) or _is_lazy_frame(self._source):
            self._source = self._source.select(needed)
        elif hasattr(self._source, "scanner"):
            self._source = self._source.scanner(columns=needed)

    def _read(self, most_bytes: int | None) -> Iterator[pa.RecordBatch]:
        del most_bytes  # the source determines the size of batches
        source = self._source
        if _is_lazy_frame(source):
            for frame in source.collect_batches(maintain_order=True):
                yield from pa.table(frame).to_batches()
        else:
            yield from source.to_batches() if hasattr(source, "to_batches") else source

    def check_unchanged(self) -> None:
        """See ``Reader``. In-memory sources are assumed not to change meanwhile."""


def _is_lazy_frame(source: Any) -> bool:
    return hasattr(source, "collect_schema") and hasattr(source, "collect_batches")


def _as_pyarrow(source: Any) -> Any:
    """The source as a PyArrow table, batch reader, dataset or scanner; a lazy frame as it is."""
    if isinstance(source, pa.Table | pa.RecordBatchReader) or _is_lazy_frame(source) or hasattr(source, "scanner"):
        return source
    if hasattr(source, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(source)
    if hasattr(source, "to_reader"):
        return source.to_reader()
    raise UsageError(f"tables cannot be read from a {type(source).__name__}; collect() it first")


def _schema_of(source: Any) -> pa.Schema:
    if not _is_lazy_frame(source):
        return source.schema
    import polars  # noqa: PLC0415 - the frame is one of Polars

    return pa.table(polars.DataFrame(schema=source.collect_schema())).schema
