"""What reads a file, or several of one kind, from the beginning to the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import pyarrow as pa

from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.files.formats import Format
from linkwise.interop.containers import Contents


class Reader(ABC):
    """A file, or several with the same columns, which are given as one."""

    def __init__(
        self, kind: Format, *, schema: pa.Schema | None = None, columns: list[str] | None = None,
        size: int | None = None, compression: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.format = kind
        self.schema = schema
        """Of a table; ``None`` of an array."""
        self.columns = columns or []
        """The names of the columns; none of an array."""
        self.size = size
        """Bytes in memory, about; ``None`` if nobody knows before all has been read."""
        self.compression = compression or {}
        """The codecs of a Parquet file's columns."""

    @abstractmethod
    def everything(self) -> Contents:
        """All of it at once; arrays are mapped, not loaded."""

    @abstractmethod
    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """Consecutive parts that take about that much memory."""


def slices_within(table: pa.Table, most_bytes: int) -> Iterator[pa.Table]:
    """The table in consecutive parts that take no more than that, but where a row alone does."""
    if table.num_rows <= 1 or bytes_of(table) <= most_bytes:
        if table.num_rows:
            yield table
        return
    # Rows are mostly much alike: as many as fit on average, and halves of what is still too large.
    rows = min(max(most_bytes * table.num_rows // bytes_of(table), 1), (table.num_rows + 1) // 2)
    for first in range(0, table.num_rows, rows):
        yield from slices_within(table.slice(first, rows), most_bytes)


def size_of_all(readers: list[Reader]) -> int | None:
    """Bytes of several in memory, about; ``None`` if nobody knows."""
    sizes = [reader.size for reader in readers if reader.size is not None]
    return sum(sizes) if len(sizes) == len(readers) else None
