"""Whether the metadata of column chunks is sound.

PyArrow ends the process when it is asked about a chunk whose metadata is damaged, for example with a codec that does
not exist. When it reads one, it raises an exception. So it is made to begin reading, from a file that stops it.
"""

from __future__ import annotations

import io
import os
from contextlib import suppress
from threading import Lock
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

_SIZE = 1 << 60  # bytes; whether a chunk is within the file is found where it is read
_BUFFER = 1 << 12  # bytes; without a buffer, PyArrow reads before it looks at all of the metadata


class _Stopped(Exception):
    """The bytes of a chunk are asked for, after its metadata was found to be sound."""


class _WithoutBytes(io.RawIOBase):
    """A file that cannot be read."""

    _at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: _SIZE}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> NoReturn:
        raise _Stopped


class CheckedChunks:
    """The column chunks that a file's metadata describes.

    Both the constructor and ``with_codec`` raise what PyArrow raises when it reads a chunk whose metadata is damaged.
    """

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self.metadata = metadata
        self._lock = Lock()
        self._file = self._opened(pre_buffer=False)
        groups, columns = list(range(metadata.num_row_groups)), list(range(metadata.num_columns))
        with suppress(_Stopped):  # with pre_buffer, PyArrow looks at all chunks before the first read
            self._opened(pre_buffer=True).reader.read_row_groups(groups, column_indices=columns, use_threads=False)

    def _opened(self, *, pre_buffer: bool) -> pq.ParquetFile:
        source = pa.PythonFile(_WithoutBytes(), mode="r")
        return pq.ParquetFile(source, metadata=self.metadata, pre_buffer=pre_buffer, buffer_size=_BUFFER)

    def with_codec(self, group: int, column: int) -> pq.ColumnChunkMetaData:
        """A chunk that may be asked for its codec. PyArrow looks at that of one chunk at a time."""
        with suppress(_Stopped), self._lock:
            self._file.reader.read_row_group(group, column_indices=[column], use_threads=False)
        return self.metadata.row_group(group).column(column)
