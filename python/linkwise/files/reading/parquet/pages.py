"""Rows of a Parquet file by their numbers, for which only the pages that hold them are decoded.

PyArrow decodes whole column chunks. Here, the pages that are needed are copied, as they are encoded, into a file in
memory, and PyArrow decodes that. Source: Apache Parquet, ``parquet.thrift``.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linkwise import _core
from linkwise._core import Error
from linkwise._typing import Rows
from linkwise.encoders import parquet_layout as layout
from linkwise.encoders.thrift import BINARY, I32, I64, LIST, STRUCT, Struct, parse

_WORTH_IT = 2  # times the bytes of all pages, to those of the pages with wanted rows
_FOOTER = 1 << 16  # bytes of metadata in which most schemas end
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}  # "LZ4" means either of two
_BY_DICTIONARY = (2, 8)  # encodings
_DICTIONARY = -1  # of a page that has no values of the column


class FoundRows(NamedTuple):
    """A part of a column, and where in it the wanted rows are."""

    column: pa.ChunkedArray
    positions: Rows


class _Chunk(NamedTuple):
    """The pages of a column chunk that hold the wanted rows."""

    codec: int
    pages: list[list[int]]
    """Where each begins, with its header, and its bytes."""
    of_dictionary: int
    """Bytes of the first page if that is the dictionary."""
    rows: int
    """Of the data pages."""
    positions: Rows
    """Of the wanted rows among these."""

    @property
    def bytes(self) -> int:
        """Of all pages."""
        return sum(size for _, size in self.pages)


class PageReader:
    """Decodes single pages of an open file, with ``most_rows`` at once.

    ``schema`` is what PyArrow makes of the file's; its names are unique.
    """

    def __init__(self, file: int, metadata: pq.FileMetaData, schema: pa.Schema, most_rows: int) -> None:
        self._file, self._metadata, self._schema, self._most_rows = file, metadata, schema, most_rows
        columns = [metadata.schema.column(at) for at in range(metadata.num_columns)]
        self._places = {column.path: at for at, column in enumerate(columns) if column.max_repetition_level == 0}

    def find(self, name: str, wanted: Mapping[int, Rows]) -> FoundRows | None:
        """The part of a column that holds the wanted rows; ``None`` where whole chunks are to be decoded instead.

        ``wanted`` has the rows of each row group, in ascending order. What is damaged is left to be found there.
        """
        place = self._places.get(name)
        if place is None or not wanted:  # nested, or of no rows
            return None
        chunks = [self._metadata.row_group(group).column(place) for group in wanted]
        if any(chunk.compression not in _CODECS or chunk.file_path for chunk in chunks):
            return None
        field = self._schema.field(name)
        try:
            kept = [_pages_with(self._file, *each) for each in zip(chunks, wanted.values(), strict=True)]
            needed, whole = sum(chunk.bytes for chunk in kept), sum(chunk.total_compressed_size for chunk in chunks)
            if _WORTH_IT * needed > whole or sum(chunk.rows for chunk in kept) > self._most_rows:
                return None
            encoded = pa.py_buffer(_as_file(self._file, kept, field, self._schema_of(place)))
            column = pq.ParquetFile(encoded, page_checksum_verification=True).read(use_threads=False).column(0)
        except (Error, ValueError, KeyError, IndexError, TypeError, OSError, pa.ArrowException):
            return None
        firsts = np.cumsum([0, *(chunk.rows for chunk in kept)])
        if column.type != field.type or len(column) != firsts[-1]:
            return None
        positions = [chunk.positions + first for chunk, first in zip(kept, firsts, strict=False)]
        return FoundRows(column, np.concatenate(positions))

    def _schema_of(self, place: int) -> list[Struct]:
        """The elements of the schema of one column: the root and a leaf."""
        root, *elements = self._elements
        return [
            root | {layout.CHILDREN: (I32, 1)},
            [element for element in elements if layout.CHILDREN not in element][place],
        ]

    @cached_property
    def _elements(self) -> list[Struct]:
        """The elements of the file's schema."""
        size = os.fstat(self._file).st_size
        metadata_bytes = int.from_bytes(os.pread(self._file, 4, size - layout.TAIL), "little")
        begin = size - layout.TAIL - metadata_bytes
        try:
            metadata, _ = parse(os.pread(self._file, min(metadata_bytes, _FOOTER), begin), last=layout.SCHEMA)
        except ValueError:
            metadata, _ = parse(os.pread(self._file, metadata_bytes, begin), last=layout.SCHEMA)
        elements: list[Struct] = metadata[layout.SCHEMA][1][1]
        return elements


def _pages_with(file: int, chunk: pq.ColumnChunkMetaData, rows: Rows) -> _Chunk:
    """The pages of a column chunk with these rows. Raises ``Error`` if its pages do not add up."""
    begin = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
    pages = _core.parquet_pages(file, begin, begin + chunk.total_compressed_size)
    extents, values, encodings = pages[:, :2], pages[:, 2], pages[:, 3]
    is_data = values >= 0
    counts = values[is_data]
    ends = np.cumsum(counts)
    if not len(ends) or ends[-1] != chunk.num_values:
        raise Error("pages that do not add up to their column chunk")
    of_row = np.searchsorted(ends, rows, "right")
    is_first = np.diff(of_row, prepend=-1) > 0
    needed = of_row[is_first]
    shifts = np.cumsum(counts[needed]) - ends[needed]
    positions = rows + shifts[np.cumsum(is_first) - 1]
    by_dictionary = any(encoding in _BY_DICTIONARY for encoding in encodings[is_data][needed].tolist())
    dictionary = extents[(values == _DICTIONARY) & by_dictionary].tolist()
    kept = dictionary + extents[is_data][needed].tolist()
    of_dictionary = sum(size for _, size in dictionary)
    return _Chunk(_CODECS[chunk.compression], kept, of_dictionary, int(counts[needed].sum()), positions)


def _as_file(source: int, chunks: Sequence[_Chunk], field: pa.Field, schema: list[Struct]) -> bytearray:
    """A file of one column, with a row group for each chunk."""
    groups = []
    at = len(layout.MAGIC)
    for chunk in chunks:
        size = chunk.bytes
        told: Struct = {
            layout.CHUNK_TYPE: schema[1][layout.TYPE],
            layout.ENCODINGS: (LIST, (I32, [0])),
            layout.PATH: (LIST, (BINARY, [field.name.encode()])),
            layout.CODEC: (I32, chunk.codec),
            layout.CHUNK_VALUES: (I64, chunk.rows),
            layout.UNCOMPRESSED_BYTES: (I64, size),  # required, but not used
            layout.CHUNK_BYTES: (I64, size),
            layout.DATA_PAGES: (I64, at + chunk.of_dictionary),
        }
        if chunk.of_dictionary:
            told[layout.DICTIONARY_PAGE] = I64, at
        column = {layout.CHUNK_OFFSET: (I64, at), layout.CHUNK_METADATA: (STRUCT, told)}
        groups.append(
            {
                layout.COLUMNS: (LIST, (STRUCT, [column])),
                layout.GROUP_BYTES: (I64, size),
                layout.GROUP_ROWS: (I64, chunk.rows),
            }
        )
        at += size
    # With this, PyArrow makes the same type of the values as in the whole file.
    types = base64.b64encode(pa.schema([field]).serialize().to_pybytes())
    tail = layout.tail_of(
        {
            layout.VERSION: (I32, 2),
            layout.SCHEMA: (LIST, (STRUCT, schema)),
            layout.FILE_ROWS: (I64, sum(chunk.rows for chunk in chunks)),
            layout.ROW_GROUPS: (LIST, (STRUCT, groups)),
            layout.KEY_VALUES: (LIST, (STRUCT, [{1: (BINARY, b"ARROW:schema"), 2: (BINARY, types)}])),
        }
    )
    whole = bytearray(at + len(tail))
    whole[: len(layout.MAGIC)], whole[at:] = layout.MAGIC, tail
    left = memoryview(whole)[len(layout.MAGIC) :]
    for begin, size in (page for chunk in chunks for page in chunk.pages):
        if os.preadv(source, [left[:size]], begin) != size:
            raise Error("a page that ends early")
        left = left[size:]
    return whole
