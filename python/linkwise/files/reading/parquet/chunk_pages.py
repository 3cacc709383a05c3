"""The pages of a column chunk that hold some of its rows, told by their headers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from linkwise import _core
from linkwise._core import Error
from linkwise._typing import Rows

PLAIN, BY_DELTAS, BY_DICTIONARY = 0, 5, (2, 8)
"""Encodings."""

_DATA, _DATA_V2, _DICTIONARY = range(3)


class Page(NamedTuple):
    """A page as its header tells it, in the order of ``parquet_pages``."""

    begin: int
    header_bytes: int
    data_bytes: int
    plain_bytes: int
    """Of the data without compression."""
    kind: int
    values: int
    encoding: int
    checksum: int
    """CRC-32 of the data; -1 for none."""

    @property
    def bytes(self) -> int:
        """With the header."""
        return self.header_bytes + self.data_bytes

    @property
    def is_first_version(self) -> bool:
        """Whether this is a data page of the first version."""
        return self.kind == _DATA


_KIND, _VALUES = map(Page._fields.index, ("kind", "values"))  # columns of what the core tells


class ChunkPages(NamedTuple):
    """The pages of a column chunk that hold the wanted rows."""

    codec: str
    dictionary: list[Page]
    """The page of the dictionary, if it is needed."""
    data: list[Page]
    positions: Rows
    """Of the wanted rows among those of the data pages."""

    @property
    def all(self) -> list[Page]:
        """The dictionary, and the data."""
        return self.dictionary + self.data

    @property
    def bytes(self) -> int:
        """Of all pages."""
        return sum(page.bytes for page in self.all)

    @property
    def rows(self) -> int:
        """Of the data pages."""
        return sum(page.values for page in self.data)


def pages_with(file: int, chunk: pq.ColumnChunkMetaData, rows: Rows) -> ChunkPages:
    """The pages of a column chunk with these rows, which ascend. Raises ``Error`` if its pages do not add up."""
    begin = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
    told = _core.parquet_pages(file, begin, begin + chunk.total_compressed_size)
    of_data = told[told[:, _KIND] <= _DATA_V2]
    counts = of_data[:, _VALUES]
    ends = np.cumsum(counts)
    if not len(ends) or ends[-1] != chunk.num_values:
        raise Error("pages that do not add up to their column chunk")
    of_row = np.searchsorted(ends, rows, "right")
    is_first = np.diff(of_row, prepend=-1) > 0
    needed = of_row[is_first]
    shifts = np.cumsum(counts[needed]) - ends[needed]
    positions = rows + shifts[np.cumsum(is_first) - 1]
    data = [Page(*page) for page in of_data[needed].tolist()]
    dictionary = []
    if any(page.encoding in BY_DICTIONARY for page in data):
        dictionary = [Page(*page) for page in told[told[:, _KIND] == _DICTIONARY].tolist()]
    return ChunkPages(chunk.compression, dictionary, data, positions)
