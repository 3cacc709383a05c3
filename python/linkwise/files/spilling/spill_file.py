"""Spilled runs on disk, protected by checksums.

All runs are in one unnamed file: nothing of it is left when the process ends, however it ends. Each chunk has a
checksum, which stays in memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import xxhash

from linkwise._core import CorruptDataError, Error, UsageError
from linkwise._log import log
from linkwise._shown import format_bytes

_CHUNK = 1 << 18  # bytes with one checksum


@dataclass(frozen=True)
class Run:
    """Rows that were spilled together, as a stream in Arrow's format."""

    begin: int  # in the file
    size: int
    rows: int
    blocks: int
    checksums: list[int]


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
                    rows += block.num_rows
            sink.finish()
        except (OSError, pa.ArrowException) as error:
            told = f"cannot spill a run to {self._directory}: {error}; name another directory"
            raise Error(told) from None
        run = Run(self._end, sink.size, rows, stream.stats.num_record_batches, sink.checksums)
        self._end += run.size
        log.info("spilled %d rows, %s, to %s", rows, format_bytes(run.size), self._directory)
        return run

    def read(self, run: Run) -> Iterator[pa.Table]:
        """The blocks of a run. Raises ``CorruptDataError`` if they are not what was written."""
        source = _Source(self._file.fileno(), run, self._directory)
        with pa.PythonFile(source, "r") as file:
            try:
                yield from (pa.Table.from_batches([batch]) for batch in pa.ipc.open_stream(file))
            except (OSError, pa.ArrowException) as error:
                raise Error(f"cannot read a run back from {self._directory}: {error}") from None


@dataclass
class _Sink:
    """Takes the bytes of a run, and writes them chunk by chunk."""

    descriptor: int
    begin: int
    size: int = 0
    checksums: list[int] = field(default_factory=list)
    closed: bool = False
    _chunk: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes) -> int:
        view = memoryview(data).cast("B")
        taken = 0
        while taken < len(view):
            part = view[taken : taken + _CHUNK - len(self._chunk)]
            self._chunk += part
            taken += len(part)
            if len(self._chunk) == _CHUNK:
                self.finish()
        return taken

    def finish(self) -> None:
        """Write the current chunk, full or not."""
        left = memoryview(self._chunk)
        if left:
            self.checksums.append(xxhash.xxh3_64_intdigest(left))
        while left:
            written = os.pwrite(self.descriptor, left, self.begin + self.size)
            self.size += written
            left = left[written:]
        left.release()
        self._chunk = bytearray()

    def flush(self) -> None:
        pass

    def tell(self) -> int:
        return self.size + len(self._chunk)

    def close(self) -> None:
        self.closed = True


class _Source:
    """Reads the bytes of a run, after verifying their checksums."""

    def __init__(self, descriptor: int, run: Run, directory: Path) -> None:
        self._descriptor, self._run, self._directory = descriptor, run, directory
        self._next = 0  # number of the next chunk
        self._chunk = memoryview(b"")  # the unread rest of the last chunk
        self.closed = False

    def read(self, size: int) -> bytes:
        parts: list[memoryview] = []
        while size > 0 and (self._chunk or self._next < len(self._run.checksums)):
            if not self._chunk:
                self._chunk = memoryview(self._checked())
            parts.append(self._chunk[:size])
            self._chunk = self._chunk[size:]
            size -= len(parts[-1])
        return b"".join(parts)

    def _checked(self) -> bytes:
        at = self._next * _CHUNK
        chunk = b""
        while more := os.pread(
            self._descriptor, min(_CHUNK, self._run.size - at) - len(chunk), self._run.begin + at + len(chunk)
        ):
            chunk += more
        if xxhash.xxh3_64_intdigest(chunk) != self._run.checksums[self._next]:
            raise CorruptDataError(
                f"a run that was spilled to {self._directory} is not what was written: the disk or the memory is at "
                "fault; nothing was written"
            )
        self._next += 1
        return chunk

    def close(self) -> None:
        self.closed = True
