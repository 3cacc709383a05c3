"""Joins Parquet files of one row group each into one: their metadata is merged, and its offsets are adjusted.

PyArrow encodes a table on one core, but releases the GIL meanwhile; so row groups are encoded as files of their own,
on all cores. Their columns are copied as they are. Every offset in the metadata is relative to the beginning of the
file: those of columns' pages, dictionaries, Bloom filters and indexes, and of each page in the offset indexes.
Source: Apache Parquet, ``parquet.thrift`` and ``PageIndex.md``.
"""

from __future__ import annotations

from collections.abc import Mapping

from linkwise.encoders import parquet_layout as layout
from linkwise.encoders.thrift import I16, I32, I64, LIST, STRUCT, Struct, parse, serialised

_MOST_NUMBERED = 1 << 15  # row groups that get a number, which has 16 bits
_OFFSETS = (layout.DATA_PAGES, layout.INDEX_PAGES, layout.DICTIONARY_PAGE, layout.BLOOM_FILTER)


def metadata_of(file: memoryview) -> tuple[Struct, int]:
    """The metadata of a file, and where it begins. Raises ``ValueError``."""
    size = int.from_bytes(file[-layout.TAIL : -len(layout.MAGIC)], "little")
    begin = len(file) - layout.TAIL - size
    if begin < len(layout.MAGIC) or bytes(file[-len(layout.MAGIC) :]) != layout.MAGIC:
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
        self._size = len(layout.MAGIC)
        return layout.MAGIC

    def add(self, file: memoryview, statistics: Mapping[str, Struct]) -> memoryview:
        """The bytes to append from a file with one row group. Raises ``ValueError``.

        ``statistics``: of columns that are not nested, by name, whose own metadata has none.
        """
        metadata, end = metadata_of(file)
        groups: list[Struct] = metadata[layout.ROW_GROUPS][1][1]
        chunks: list[Struct] = [chunk for group in groups for chunk in group[layout.COLUMNS][1][1]]
        indexes = [
            chunk[number][1]
            for chunk in chunks
            for number in (layout.COLUMN_INDEX, layout.OFFSET_INDEX)
            if number in chunk
        ]
        end = min([end, *indexes])
        by = self._size - len(layout.MAGIC)
        for chunk in chunks:
            self._take_index(chunk, (layout.COLUMN_INDEX, layout.COLUMN_INDEX_SIZE), file)
            self._take_index(chunk, (layout.OFFSET_INDEX, layout.OFFSET_INDEX_SIZE), file, by)
            _moved(chunk, (layout.CHUNK_OFFSET,), by)
            told: Struct = chunk[layout.CHUNK_METADATA][1]
            _moved(told, _OFFSETS, by)
            name, *inner = told[layout.PATH][1][1]
            if statistics and not inner and name.decode() in statistics:
                told[layout.STATISTICS] = STRUCT, statistics[name.decode()]
                chunk[layout.CHUNK_METADATA] = STRUCT, dict(sorted(told.items()))
        for group in groups:
            _moved(group, (layout.GROUP_OFFSET,), by)
            group.pop(layout.ORDINAL, None)
            if len(self._groups) < _MOST_NUMBERED:
                group[layout.ORDINAL] = I16, len(self._groups)
            self._groups.append(group)
        self._rows += metadata[layout.FILE_ROWS][1]
        self._size += end - len(layout.MAGIC)
        return file[len(layout.MAGIC) : end]

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
            for page in parsed[layout.PAGES][1][1]:
                _moved(page, (layout.PAGE_OFFSET,), moved_by)
            index = serialised(parsed)
        self._indexes.append((chunk, fields, index))

    def end(self) -> bytes:
        """The bytes to write last: page indexes by kind, as readers find them fastest, and the metadata."""
        parts = []
        for chunk, (offset, size), index in sorted(self._indexes, key=lambda each: -each[1][0]):
            chunk[offset], chunk[size] = (I64, self._size), (I32, len(index))
            self._size += len(index)
            parts.append(index)
        metadata = self._metadata | {
            layout.FILE_ROWS: (I64, self._rows),
            layout.ROW_GROUPS: (LIST, (STRUCT, self._groups)),
        }
        return b"".join([*parts, layout.tail_of(dict(sorted(metadata.items())))])
