"""Spilled runs on disk, protected by checksums.

All runs are in one unnamed file: nothing of it is left when the process ends, however it ends. Each block has a
checksum, which stays in memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pyarrow as pa
import xxhash

from linkwise._core import CorruptDataError, Error, UsageError
from linkwise._log import log
from linkwise._shown import format_bytes

_MOST_PIECES = 1024  # that are written at once (IOV_MAX of Linux)


class Chunk(NamedTuple):
    """Consecutive bytes of a run with one checksum: those of a block, or the end of the stream."""

    size: int
    checksum: int


@dataclass(frozen=True)
class Run:
    """Rows that were spilled together, as a stream in Arrow's format."""

    begin: int  # in the file
    rows: int
    blocks: int
    chunks: list[Chunk]


class SpillFile:
    """A file for runs in a directory, by default the system's temporary one. Raises ``UsageError``."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory or Path(tempfile.gettempdir())
        try:
            self._file = tempfile.TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"cannot spill to {self._directory}: {reason}; name an existing directory") from None
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the disk space."""
        self._file.close()

    def write(self, schema: pa.Schema, blocks: Iterable[pa.Table]) -> Run:
        """Append a run, which is read back block by block."""
        sink = _Sink(self._file.fileno(), self._end)
        rows = 0
        options = pa.ipc.IpcWriteOptions(unify_dictionaries=True)
        try:
            with pa.PythonFile(sink, "w") as file, pa.ipc.new_stream(file, schema, options=options) as stream:
                for block in blocks:
                    stream.write_table(block)
                    sink.end_chunk()
                    rows += block.num_rows
            sink.end_chunk()
        except (OSError, pa.ArrowException) as error:
            told = f"cannot spill a run to {self._directory}: {error}; name another directory"
            raise Error(told) from None
        run = Run(self._end, rows, stream.stats.num_record_batches, sink.chunks)
        self._end += sink.size
        log.info("spilled %d rows, %s, to %s", rows, format_bytes(sink.size), self._directory)
        return run

    def read(self, run: Run) -> Iterator[pa.Table]:
        """The blocks of a run. Raises ``CorruptDataError`` if they are not what was written."""
        source = _Source(self._file.fileno(), run, self._directory)
        with pa.PythonFile(source, "r") as file:
            try:
                yield from (pa.Table.from_batches([batch]) for batch in pa.ipc.open_stream(file))
            except (OSError, pa.ArrowException) as error:
                raise Error(f"cannot read a run back from {self._directory}: {error}") from None


class _Sink:
    """Takes the bytes of a run, and writes them a chunk at a time without copying them."""

    def __init__(self, descriptor: int, begin: int) -> None:
        self._descriptor, self._begin, self.size = descriptor, begin, 0
        self._pieces: list[memoryview] = []  # of the current chunk
        self.chunks: list[Chunk] = []
        self.closed = False

    def write(self, data: bytes | pa.Buffer) -> int:
        self._pieces.append(memoryview(data).cast("B"))
        return len(self._pieces[-1])

    def end_chunk(self) -> None:
        """Write the current chunk."""
        digest = xxhash.xxh3_64()
        for piece in self._pieces:
            digest.update(piece)
        left, begin = [piece for piece in self._pieces if piece], self.size
        while left:
            written = os.pwritev(self._descriptor, left[:_MOST_PIECES], self._begin + self.size)
            self.size += written
            left = _without_first(written, left)
        self.chunks.append(Chunk(self.size - begin, digest.intdigest()))
        self._pieces = []

    def flush(self) -> None:
        pass

    def tell(self) -> int:
        return self.size + sum(map(len, self._pieces))

    def close(self) -> None:
        self.closed = True


def _without_first(size: int, pieces: list[memoryview]) -> list[memoryview]:
    """All bytes of the pieces but the first ``size``."""
    for at, piece in enumerate(pieces):
        if size < len(piece):
            return [piece[size:], *pieces[at + 1 :]]
        size -= len(piece)
    return []


class _Source:
    """Reads the bytes of a run, after verifying their checksums."""

    def __init__(self, descriptor: int, run: Run, directory: Path) -> None:
        self._descriptor, self._directory = descriptor, directory
        self._chunks = iter(run.chunks)
        self._begin = run.begin  # of the next chunk, in the file
        self._unread = pa.py_buffer(b"")  # of the last one
        self.closed = False

    def read_buffer(self, size: int) -> pa.Buffer:
        """The next bytes; those of one message, which lie in one chunk, are not copied."""
        if not self._unread.size:
            self._unread = self._next_chunk()
        end = min(size, self._unread.size)
        there, self._unread = self._unread.slice(0, end), self._unread.slice(end)
        return there if end in (0, size) else pa.py_buffer(there.to_pybytes() + self.read(size - end))

    def read(self, size: int) -> bytes:
        return bytes(self.read_buffer(size))

    def _next_chunk(self) -> pa.Buffer:
        chunk = next(self._chunks, Chunk(0, 0))
        data = pa.allocate_buffer(chunk.size)
        left = memoryview(data).cast("B")
        while left and (size := os.preadv(self._descriptor, [left], self._begin)):
            self._begin += size
            left = left[size:]
        if chunk.size and xxhash.xxh3_64_intdigest(data) != chunk.checksum:
            raise CorruptDataError(
                f"a run that was spilled to {self._directory} is not what was written: the disk or the memory is at "
                "fault; nothing was written"
            )
        return data

    def close(self) -> None:
        self.closed = True
