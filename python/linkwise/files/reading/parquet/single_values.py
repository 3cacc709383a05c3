"""Single values of a Parquet column, taken from its pages without decoding the other values."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linkwise import _core
from linkwise._core import Error
from linkwise.columns.key_types import has_narrow_offsets, is_text
from linkwise.files.reading.parquet.chunk_pages import BY_DELTAS, BY_DICTIONARY, PLAIN, ChunkPages, Page
from linkwise.files.reading.parquet.statistics import has_unit_of_file

_MOST_OF_NARROW = 1 << 31  # bytes
_BITS = {"INT32": 32, "INT64": 64, "FLOAT": 32, "DOUBLE": 64}


CODECS = ("UNCOMPRESSED", "SNAPPY", "ZSTD")
"""Those by which data of another size than its header says is noticed."""


def may_take_values(chunk: ChunkPages, column: pq.ColumnSchema) -> bool:
    """Whether the pages are of a version, a codec and in encodings of which single values can be taken."""
    if chunk.codec not in CODECS:
        return False
    has_dictionary = len(chunk.dictionary) == 1 and chunk.dictionary[0].encoding in (PLAIN, BY_DICTIONARY[0])
    are_integers = column.physical_type in ("INT32", "INT64")
    encodings = (PLAIN, *(BY_DICTIONARY if has_dictionary else ()), *([BY_DELTAS] if are_integers else ()))
    return all(page.is_first_version and page.encoding in encodings for page in chunk.data)


def values_in(file: int, chunks: Sequence[ChunkPages], column: pq.ColumnSchema, kind: pa.DataType) -> pa.Array | None:
    """The wanted values of column chunks of an open file, one chunk after the other; ``None`` for other types.

    Raises ``Error`` and ``ArrowException`` for damaged pages.
    """
    width = width_of(column, kind)
    if width is None:
        return None
    values = _core.ParquetValues(width, column.max_definition_level == 1)
    for chunk in chunks:
        for page in chunk.dictionary:
            data, size = _data_of(file, page, chunk.codec)
            values.set_dictionary(data, page.values, size)
        begin = 0
        ends = np.cumsum([page.values for page in chunk.data])
        for page, end in zip(chunk.data, ends.tolist(), strict=True):
            here = slice(*np.searchsorted(chunk.positions, [begin, end]))
            data, size = _data_of(file, page, chunk.codec)
            values.add(data, page.values, page.encoding, chunk.positions[here] - begin, size)
            begin = end
    return _array_of(values, kind)


def width_of(column: pq.ColumnSchema, kind: pa.DataType) -> int | None:
    """Bytes of a value in a page where it is as in memory, 0 for strings; ``None`` for other types."""
    if column.max_repetition_level or column.max_definition_level > 1:
        return None
    if column.physical_type == "BYTE_ARRAY":
        return 0 if is_text(kind) else None
    bits = _BITS.get(column.physical_type)
    is_same = pa.types.is_floating(kind) or has_unit_of_file(kind, json.loads(column.logical_type.to_json()))
    return bits // 8 if bits is not None and is_same and kind.bit_width == bits else None


def _data_of(file: int, page: Page, codec: str) -> tuple[Any, int | None]:
    """The bytes of a page behind its header; where they are compressed by Snappy, their number without compression."""
    data = os.pread(file, page.data_bytes, page.begin + page.header_bytes)
    if len(data) != page.data_bytes:
        raise Error("a page that ends early")
    if page.checksum >= 0 and zlib.crc32(data) != page.checksum:
        raise Error("a page whose checksum is another")
    if codec == "SNAPPY":
        return np.frombuffer(data, np.uint8), page.plain_bytes
    if codec != "UNCOMPRESSED":
        data = pa.decompress(data, page.plain_bytes, codec=codec.lower())
    if len(data) != page.plain_bytes:
        raise Error("a page of another size than its header says")
    return np.frombuffer(data, np.uint8), None


def _array_of(values: _core.ParquetValues, kind: pa.DataType) -> pa.Array:
    is_valid, offsets, data = values.parts()
    nulls = len(is_valid) - int(np.count_nonzero(is_valid))
    buffers = [pa.py_buffer(np.packbits(is_valid, bitorder="little")) if nulls else None]
    if is_text(kind):
        if has_narrow_offsets(kind):
            if offsets[-1] >= _MOST_OF_NARROW:
                raise Error("more bytes than offsets of 32 bits can tell")
            offsets = offsets.astype(np.int32)
        buffers.append(pa.py_buffer(offsets))
    return pa.Array.from_buffers(kind, len(is_valid), [*buffers, pa.py_buffer(data)], null_count=nulls)
