"""Joins Parquet files of one row group each into one: their metadata is merged, and its offsets are adjusted.

PyArrow encodes a table on one core, but releases the GIL meanwhile; so row groups are encoded as files of their own,
on all cores. Their columns are copied as they are. Every offset in the metadata is relative to the beginning of the
file: those of columns' pages, dictionaries, Bloom filters and indexes, and of each page in the offset indexes.
Source: Apache Parquet, ``parquet.thrift`` and ``PageIndex.md``.
"""

from __future__ import annotations

from linkwise.encoders.thrift import I16, I32, I64, LIST, STRUCT, Struct, parse, serialised

_MAGIC = b"PAR1"
_TAIL = 4 + len(_MAGIC)  # bytes after the metadata: its length, and the magic
_MOST_NUMBERED = 1 << 15  # row groups that get a number, which has 16 bits

# Field numbers. Of FileMetaData:
_FILE_ROWS, _ROW_GROUPS = 3, 4
# Of RowGroup:
_COLUMNS, _GROUP_OFFSET, _ORDINAL = 1, 5, 7
# Of ColumnChunk:
_CHUNK_OFFSET, _CHUNK_METADATA = 2, 3
_OFFSET_INDEX, _OFFSET_INDEX_SIZE, _COLUMN_INDEX, _COLUMN_INDEX_SIZE = 4, 5, 6, 7
# Of ColumnMetaData: offsets of data pages, index pages, the dictionary page, the Bloom filter.
_OFFSETS = (9, 10, 11, 14)
# Of OffsetIndex, and of the PageLocations in it:
_PAGES, _PAGE_OFFSET = 1, 1


def metadata_of(file: memoryview) -> tuple[Struct, int]:
    """The metadata of a file, and where it begins. Raises ``ValueError``."""
    size = int.from_bytes(file[-_TAIL : -len(_MAGIC)], "little")
    begin = len(file) - _TAIL - size
    if begin < len(_MAGIC) or bytes(file[-len(_MAGIC) :]) != _MAGIC:
        raise ValueError("no Parquet file, or a damaged one")
    found, _ = parse(bytes(file[begin : begin + size]))
    return found, begin


def _moved(fields: Struct, numbers: tuple[int, ...], by: int) -> None:
    """Add ``by`` to those of the offset fields that exist. For older writers, an offset of 0 means none."""
    for number in numbers:
        kind, offset = fields.get(number, (I64, 0))
        if offset:
            fields[number] = kind, offset + by


class JoinedFile:
    """A file to which row groups are appended. ``like`` is a file with its schema and no rows."""

    def __init__(self, like: memoryview) -> None:
        self._metadata, _ = metadata_of(like)
        self._size = 0
        self._rows = 0
        self._groups: list[Struct] = []
        self._indexes: list[tuple[Struct, tuple[int, int], bytes]] = []  # column chunk, fields of its index, bytes

    def begin(self) -> bytes:
        """The bytes to write first."""
        self._size = len(_MAGIC)
        return _MAGIC

    def add(self, file: memoryview) -> memoryview:
        """The bytes to append from a file with one row group. Raises ``ValueError``."""
        metadata, end = metadata_of(file)
        groups: list[Struct] = metadata[_ROW_GROUPS][1][1]
        chunks: list[Struct] = [chunk for group in groups for chunk in group[_COLUMNS][1][1]]
        indexes = [chunk[number][1] for chunk in chunks for number in (_COLUMN_INDEX, _OFFSET_INDEX) if number in chunk]
        end = min([end, *indexes])
        by = self._size - len(_MAGIC)
        for chunk in chunks:
            self._take_index(chunk, (_COLUMN_INDEX, _COLUMN_INDEX_SIZE), file)
            self._take_index(chunk, (_OFFSET_INDEX, _OFFSET_INDEX_SIZE), file, by)
            _moved(chunk, (_CHUNK_OFFSET,), by)
            _moved(chunk[_CHUNK_METADATA][1], _OFFSETS, by)
        for group in groups:
            _moved(group, (_GROUP_OFFSET,), by)
            group.pop(_ORDINAL, None)
            if len(self._groups) < _MOST_NUMBERED:
                group[_ORDINAL] = I16, len(self._groups)
            self._groups.append(group)
        self._rows += metadata[_FILE_ROWS][1]
        self._size += end - len(_MAGIC)
        return file[len(_MAGIC) : end]

    def _take_index(
        self, chunk: Struct, fields: tuple[int, int], file: memoryview, moved_by: int | None = None
    ) -> None:
        """Keep a page index for the end of the file; ``moved_by`` is added to the offsets in an offset index."""
        if fields[0] not in chunk:
            return
        begin, size = (chunk[number][1] for number in fields)
        index = bytes(file[begin : begin + size])
        if moved_by is not None:
            parsed, _ = parse(index)
            for page in parsed[_PAGES][1][1]:
                _moved(page, (_PAGE_OFFSET,), moved_by)
            index = serialised(parsed)
        self._indexes.append((chunk, fields, index))

    def end(self) -> bytes:
        """The bytes to write last: page indexes by kind, as readers find them fastest, and the metadata."""
        parts = []
        for chunk, (offset, size), index in sorted(self._indexes, key=lambda each: -each[1][0]):
            chunk[offset], chunk[size] = (I64, self._size), (I32, len(index))
            self._size += len(index)
            parts.append(index)
        metadata = self._metadata | {_FILE_ROWS: (I64, self._rows), _ROW_GROUPS: (LIST, (STRUCT, self._groups))}
        told = serialised(dict(sorted(metadata.items())))
        return b"".join([*parts, told, len(told).to_bytes(4, "little"), _MAGIC])
