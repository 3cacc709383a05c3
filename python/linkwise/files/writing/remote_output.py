"""Remote output files, which appear complete or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import IO, Self

from linkwise.files.locations import RemoteFile

_SENT_AT_ONCE = 16 << 20  # bytes
_MOST_MOVED = 5 << 30  # bytes of the largest file that S3 can rename


class RemoteOutput:
    """A file that is written locally and, when it is complete, uploaded under a temporary name and renamed.

    A file too large to be renamed is uploaded under its final name, and deleted if that fails.
    """

    def __init__(self, target: RemoteFile) -> None:
        self._filesystem, self._path = target.filesystem, target.path
        self.file: IO[bytes]

    def __enter__(self) -> Self:
        self.file = tempfile.TemporaryFile()
        return self

    def commit(self) -> None:
        """Put the file in its place."""
        self.file.flush()
        size = self.file.seek(0, 2)
        self.file.seek(0)
        is_moved = size <= _MOST_MOVED
        name = f"{self._path}.{os.urandom(4).hex()}.linkwise-tmp" if is_moved else self._path
        try:
            self._sent(name)
            if is_moved:
                self._filesystem.move(name, self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                self._filesystem.delete_file(name)
            raise
        self.file.close()

    def _sent(self, name: str) -> None:
        with self._filesystem.open_output_stream(name, compression=None) as stream:
            while some := self.file.read(_SENT_AT_ONCE):
                stream.write(some)

    def discard(self) -> None:
        """Leave everything as it was."""
        self.file.close()
