"""Rows of a Parquet file by their numbers, for which only the pages that hold them are decoded.

PyArrow decodes whole column chunks. Here, the pages that are needed are copied, as they are encoded, into a file in
memory, and PyArrow decodes that. Source: Apache Parquet, ``parquet.thrift``.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linkwise import _core
from linkwise._core import Error
from linkwise._typing import Rows
from linkwise.encoders.thrift import BINARY, I32, I64, LIST, STRUCT, Struct, parse, serialised

_PAGE = 1 << 20  # bytes that most writers put into a page at most, before compression
_WORTH_IT = 2  # rows are few if this many times their pages are fewer than all
_FOOTER = 1 << 16  # bytes of metadata in which most schemas end
_MAGIC = b"PAR1"
_TAIL = 4 + len(_MAGIC)  # bytes after the metadata: its length, and the magic

_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}  # "LZ4" means either of two
_BY_DICTIONARY = (2, 8)  # encodings

# Field numbers. Of FileMetaData:
_VERSION, _SCHEMA, _FILE_ROWS, _GROUPS, _KEY_VALUES = 1, 2, 3, 4, 5
# Of SchemaElement:
_TYPE, _CHILDREN = 1, 5
# Of RowGroup, ColumnChunk and ColumnMetaData:
_COLUMNS, _GROUP_BYTES, _GROUP_ROWS = 1, 2, 3
_CHUNK_OFFSET, _CHUNK_METADATA = 2, 3
_CHUNK_TYPE, _ENCODINGS, _PATH, _CODEC, _CHUNK_VALUES, _UNCOMPRESSED, _COMPRESSED = 1, 2, 3, 4, 5, 6, 7
_DATA_OFFSET, _DICTIONARY_OFFSET = 9, 11


class Found(NamedTuple):
    """A part of a column, and where in it the wanted rows are."""

    column: pa.ChunkedArray
    positions: Rows


class _Chunk(NamedTuple):
    """The pages of a column chunk that hold the wanted rows."""

    codec: int
    dictionary: list[tuple[int, int]]  # where such a page begins, with its header, and its bytes
    data: list[tuple[int, int]]
    rows: int  # of the data pages
    positions: Rows  # of the wanted rows among them


def are_few(rows: int, chunks: Sequence[pq.ColumnChunkMetaData]) -> bool:
    """Whether so many rows are in few of the pages of these column chunks."""
    encoded: int = sum(chunk.total_uncompressed_size for chunk in chunks)
    return _WORTH_IT * rows * _PAGE < encoded


def find_rows(path: Path, metadata: pq.FileMetaData, field: pa.Field, wanted: Mapping[int, Rows]) -> Found | None:
    """The part of a column that holds the wanted rows; ``None`` where whole chunks are to be decoded instead.

    ``wanted`` has the rows of each row group, in ascending order. What is damaged is left to be found there.
    """
    columns = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    places = [at for at, column in enumerate(columns) if column.path == field.name]
    if len(places) != 1 or columns[places[0]].max_repetition_level > 0:  # nested, or not the only one of this name
        return None
    chunks = [metadata.row_group(group).column(places[0]) for group in wanted]
    is_readable = all(chunk.compression in _CODECS and not chunk.file_path for chunk in chunks)
    if not is_readable or not are_few(sum(map(len, wanted.values())), chunks):
        return None
    try:
        with path.open("rb", buffering=0) as file:
            schema = _schema_of(file.fileno(), places[0])
            kept = [_pages_with(file.fileno(), *each) for each in zip(chunks, wanted.values(), strict=True)]
            encoded = pa.py_buffer(_as_file(file.fileno(), kept, field, schema))
        column = pq.ParquetFile(encoded, page_checksum_verification=True).read(use_threads=False).column(0)
    except (Error, ValueError, KeyError, TypeError, OSError, pa.ArrowException):
        return None
    firsts = np.cumsum([0, *(chunk.rows for chunk in kept)])
    if column.type != field.type or len(column) != firsts[-1]:
        return None
    return Found(column, np.concatenate([chunk.positions + first for chunk, first in zip(kept, firsts, strict=False)]))


def _schema_of(file: int, column: int) -> list[Struct]:
    """The elements of a schema that has this column alone."""
    size = os.fstat(file).st_size
    metadata_bytes = int.from_bytes(os.pread(file, 4, size - _TAIL), "little")
    begin = size - _TAIL - metadata_bytes
    try:
        metadata, _ = parse(os.pread(file, min(metadata_bytes, _FOOTER), begin), last=_SCHEMA)
    except ValueError:
        metadata, _ = parse(os.pread(file, metadata_bytes, begin), last=_SCHEMA)
    root, *elements = metadata[_SCHEMA][1][1]
    return [root | {_CHILDREN: (I32, 1)}, [element for element in elements if _CHILDREN not in element][column]]


def _pages_with(file: int, chunk: pq.ColumnChunkMetaData, rows: Rows) -> _Chunk:
    """The pages of a column chunk with these rows. Raises ``Error`` if its pages do not add up."""
    at = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
    dictionary: list[tuple[int, int]] = []
    data: list[tuple[int, int]] = []
    positions = []
    is_by_dictionary = False
    first = kept = 0
    for page in _core.parquet_pages(file, at, at + chunk.total_compressed_size):
        extent = at, page.header_bytes + page.bytes
        if page.kind is _core.ParquetPage.Kind.dictionary:
            dictionary = [extent]
        elif page.kind is _core.ParquetPage.Kind.data:
            of_page = rows[slice(*np.searchsorted(rows, (first, first + page.values)))]
            if len(of_page):
                data.append(extent)
                positions.append(of_page - first + kept)
                kept += page.values
                is_by_dictionary |= page.encoding in _BY_DICTIONARY
            first += page.values
        at += extent[1]
    if first != chunk.num_values:
        raise Error("pages that do not add up to their column chunk")
    codec = _CODECS[chunk.compression]
    return _Chunk(codec, dictionary if is_by_dictionary else [], data, kept, np.concatenate(positions))


def _as_file(source: int, chunks: Sequence[_Chunk], field: pa.Field, schema: list[Struct]) -> bytearray:
    """A file of one column, with a row group for each chunk."""
    groups = []
    at = len(_MAGIC)
    for chunk in chunks:
        of_dictionary, size = (
            sum(size for _, size in pages) for pages in (chunk.dictionary, [*chunk.dictionary, *chunk.data])
        )
        told: Struct = {
            _CHUNK_TYPE: schema[1][_TYPE], _ENCODINGS: (LIST, (I32, [0])),
            _PATH: (LIST, (BINARY, [field.name.encode()])), _CODEC: (I32, chunk.codec),
            _CHUNK_VALUES: (I64, chunk.rows), _UNCOMPRESSED: (I64, size), _COMPRESSED: (I64, size),
            _DATA_OFFSET: (I64, at + of_dictionary),
        }  # fmt: skip
        if of_dictionary:
            told[_DICTIONARY_OFFSET] = I64, at
        column = {_CHUNK_OFFSET: (I64, at), _CHUNK_METADATA: (STRUCT, told)}
        groups.append({
            _COLUMNS: (LIST, (STRUCT, [column])), _GROUP_BYTES: (I64, size), _GROUP_ROWS: (I64, chunk.rows),
        })  # fmt: skip
        at += size
    # With this, PyArrow makes the same type of the values as in the whole file.
    types = base64.b64encode(pa.schema([field]).serialize().to_pybytes())
    metadata = serialised({
        _VERSION: (I32, 2), _SCHEMA: (LIST, (STRUCT, schema)), _FILE_ROWS: (I64, sum(chunk.rows for chunk in chunks)),
        _GROUPS: (LIST, (STRUCT, groups)),
        _KEY_VALUES: (LIST, (STRUCT, [{1: (BINARY, b"ARROW:schema"), 2: (BINARY, types)}])),
    })  # fmt: skip
    tail = metadata + len(metadata).to_bytes(4, "little") + _MAGIC
    whole = bytearray(at + len(tail))
    whole[: len(_MAGIC)], whole[at:] = _MAGIC, tail
    left = memoryview(whole)[len(_MAGIC) :]
    for begin, size in (page for chunk in chunks for page in [*chunk.dictionary, *chunk.data]):
        if os.preadv(source, [left[:size]], begin) != size:
            raise Error("a page that ends early")
        left = left[size:]
    return whole
