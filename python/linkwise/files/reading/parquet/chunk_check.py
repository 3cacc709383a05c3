"""Whether the metadata of a column chunk is sound.

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


class ChunkCheck:
    """Checks the chunks of a file with this metadata when they are asked for."""

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self.metadata = metadata
        self._lock = Lock()
        source = pa.PythonFile(_WithoutBytes(), mode="r")
        self._file = pq.ParquetFile(source, metadata=metadata, pre_buffer=False, buffer_size=_BUFFER)

    def of(self, group: int, column: int) -> pq.ColumnChunkMetaData:
        """The metadata of a chunk. Raises what PyArrow raises when it reads one that is damaged."""
        with suppress(_Stopped), self._lock:
            self._file.reader.read_row_group(group, column_indices=[column], use_threads=False)
        return self.metadata.row_group(group).column(column)
