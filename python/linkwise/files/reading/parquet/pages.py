"""Rows of a Parquet file by their numbers, for which only the pages that hold them are read.

PyArrow decodes whole column chunks. Here, of numbers and strings in the usual encodings, single values are taken from
the pages; of other columns, the pages that are needed are copied, as they are encoded, into a file in memory, and
PyArrow decodes that. Source: Apache Parquet, ``parquet.thrift``.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linkwise._core import Error
from linkwise._typing import Rows
from linkwise.columns.gather import gather_rows
from linkwise.encoders import parquet_layout as layout
from linkwise.encoders.thrift import BINARY, I32, I64, LIST, STRUCT, Struct, parse
from linkwise.files.reading.parquet.checked_chunks import CheckedChunks
from linkwise.files.reading.parquet.chunk_pages import ChunkPages, pages_with
from linkwise.files.reading.parquet.single_values import CODECS, may_take_values, values_in, width_of

_WORTH_IT = 2  # times the bytes of all pages, to those of the pages with wanted rows
_FOOTER = 1 << 16  # bytes of metadata in which most schemas end
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}  # "LZ4" means either of two
# Encodings of values and of levels.
_USUAL = {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED"}
_FEW = 4  # rows of the pages, to one that is wanted, from which single values are taken


class PageReader:
    """Reads rows from single pages of an open file, of which ``most_rows`` rows are decoded at once.

    ``schema`` is what PyArrow makes of the file's; its names are unique.
    """

    def __init__(self, file: int, chunks: CheckedChunks, schema: pa.Schema, most_rows: int) -> None:
        metadata = chunks.metadata
        self._file, self._metadata, self._schema, self._most_rows = file, metadata, schema, most_rows
        self._chunks = chunks
        columns = [metadata.schema.column(at) for at in range(metadata.num_columns)]
        self._places = {column.path: at for at, column in enumerate(columns) if column.max_repetition_level == 0}

    def may_take(self, name: str) -> bool:
        """Whether single values can be taken of a column, as far as the metadata of its first row group tells."""
        place = self._places.get(name)
        if place is None or not self._metadata.num_row_groups:
            return False
        chunk = self._chunks.with_codec(0, place)
        is_usual = chunk.compression in CODECS and {*chunk.encodings} <= _USUAL
        return is_usual and width_of(self._metadata.schema.column(place), self._schema.field(name).type) is not None

    def find(self, name: str, wanted: Mapping[int, Rows]) -> pa.ChunkedArray | None:
        """The wanted rows of a column; ``None`` where whole chunks are to be decoded instead.

        ``wanted`` has the rows of each row group, in ascending order. What is damaged is left to be found there.
        """
        place = self._places.get(name)
        if place is None or not wanted:  # nested, or of no rows
            return None
        try:
            chunks = [self._chunks.with_codec(group, place) for group in wanted]
            if any(chunk.compression not in _CODECS or chunk.file_path for chunk in chunks):
                return None
            kept = [pages_with(self._file, *each) for each in zip(chunks, wanted.values(), strict=True)]
            found = self._single_values(kept, name)
            is_worth_it = _WORTH_IT * sum(chunk.bytes for chunk in kept) <= sum(c.total_compressed_size for c in chunks)
            return self._by_pages(kept, name) if found is None and is_worth_it else found
        except (Error, ValueError, KeyError, IndexError, TypeError, OSError, pa.ArrowException):
            return None

    def _single_values(self, kept: Sequence[ChunkPages], name: str) -> pa.ChunkedArray | None:
        if _FEW * sum(len(chunk.positions) for chunk in kept) > sum(chunk.rows for chunk in kept):
            return None
        column = self._metadata.schema.column(self._places[name])
        if not all(may_take_values(chunk, column) for chunk in kept):
            return None
        values = values_in(self._file, kept, column, self._schema.field(name).type)
        return None if values is None else pa.chunked_array([values])

    def _by_pages(self, kept: Sequence[ChunkPages], name: str) -> pa.ChunkedArray | None:
        field = self._schema.field(name)
        firsts = np.cumsum([0, *(chunk.rows for chunk in kept)])
        if firsts[-1] > self._most_rows:
            return None
        encoded = pa.py_buffer(_as_file(self._file, kept, field, self._schema_of(self._places[name])))
        decoded = pq.ParquetFile(encoded, page_checksum_verification=True).read(use_threads=False)
        if decoded.schema.types != [field.type] or decoded.num_rows != firsts[-1]:
            return None
        positions = [chunk.positions + first for chunk, first in zip(kept, firsts, strict=False)]
        return gather_rows(decoded, np.concatenate(positions)).column(0)

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


def _as_file(source: int, chunks: Sequence[ChunkPages], field: pa.Field, schema: list[Struct]) -> bytearray:
    """A file of one column, with a row group for each chunk."""
    groups = []
    at = len(layout.MAGIC)
    for chunk in chunks:
        size, of_dictionary = chunk.bytes, sum(page.bytes for page in chunk.dictionary)
        told: Struct = {
            layout.CHUNK_TYPE: schema[1][layout.TYPE],
            layout.ENCODINGS: (LIST, (I32, [0])),
            layout.PATH: (LIST, (BINARY, [field.name.encode()])),
            layout.CODEC: (I32, _CODECS[chunk.codec]),
            layout.CHUNK_VALUES: (I64, chunk.rows),
            layout.UNCOMPRESSED_BYTES: (I64, size),  # required, but not used
            layout.CHUNK_BYTES: (I64, size),
            layout.DATA_PAGES: (I64, at + of_dictionary),
        }
        if of_dictionary:
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
    for page in (page for chunk in chunks for page in chunk.all):
        if os.preadv(source, [left[: page.bytes]], page.begin) != page.bytes:
            raise Error("a page that ends early")
        left = left[page.bytes :]
    return whole
