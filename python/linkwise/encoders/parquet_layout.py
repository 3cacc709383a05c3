"""The frame of a Parquet file, and the numbers of the metadata's fields. Source: Apache Parquet, ``parquet.thrift``."""

from __future__ import annotations

from linkwise.encoders.thrift import Struct, serialised

MAGIC = b"PAR1"
"""The first and the last bytes of a file."""
TAIL = 4 + len(MAGIC)
"""Bytes after the metadata: its length, and the magic."""

# Of FileMetaData:
VERSION, SCHEMA, FILE_ROWS, ROW_GROUPS, KEY_VALUES = 1, 2, 3, 4, 5
# Of SchemaElement:
TYPE, NAME, CHILDREN = 1, 4, 5
OF_DECIMALS = (6, 7, 8, 10)  # converted type, scale, precision, logical type
# Of RowGroup:
COLUMNS, GROUP_BYTES, GROUP_ROWS, GROUP_OFFSET, ORDINAL = 1, 2, 3, 5, 7
# Of ColumnChunk:
CHUNK_OFFSET, CHUNK_METADATA = 2, 3
OFFSET_INDEX, OFFSET_INDEX_SIZE, COLUMN_INDEX, COLUMN_INDEX_SIZE = 4, 5, 6, 7
# Of ColumnMetaData:
CHUNK_TYPE, ENCODINGS, PATH, CODEC, CHUNK_VALUES, UNCOMPRESSED_BYTES, CHUNK_BYTES = 1, 2, 3, 4, 5, 6, 7
DATA_PAGES, INDEX_PAGES, DICTIONARY_PAGE, BLOOM_FILTER = 9, 10, 11, 14  # their offsets
STATISTICS = 12
# Of Statistics:
NULLS, GREATEST, LEAST, ARE_EXACT = 3, 5, 6, (7, 8)
# Of OffsetIndex, and of the PageLocations in it:
PAGES, PAGE_OFFSET = 1, 1


def tail_of(metadata: Struct) -> bytes:
    """The last bytes of a file with this metadata."""
    return with_tail(serialised(metadata))


def with_tail(metadata: bytes) -> bytes:
    """The same for metadata that are encoded already."""
    return metadata + len(metadata).to_bytes(4, "little") + MAGIC
