"""A file that is written while the next parts are still being made."""

from __future__ import annotations

import fcntl
import os
import stat
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Condition, Thread
from typing import IO, Any

import numpy as np

from linkwise import _core

_MANY_CORES = 8  # at least so many make parts faster than one thread writes them
_ALLOCATED_AT_ONCE = 1 << 26  # bytes; meanwhile, the file is locked
_MOST_AHEAD = 1 << 28  # bytes allocated beyond what is to be written, where its size is not known
_WRITERS = 8  # threads; more are not faster, as they share the memory's bandwidth


class OutputFile:
    """An open file that is written in the background, part by part, by one thread or, on many cores, by several.

    Errors of these threads are raised by a later call, ``flush`` at the latest. At most ``most_bytes`` wait to be
    written, unless one part alone is larger. ``side_by_side`` forces one or several threads, for tests.
    """

    def __init__(self, file: IO[bytes], most_bytes: int, *, side_by_side: bool | None = None) -> None:
        self._file = file
        self._most_bytes = most_bytes
        has_many_cores = len(os.sched_getaffinity(0)) >= _MANY_CORES
        self._side_by_side = _has_places(file) and (has_many_cores if side_by_side is None else side_by_side)
        self._begin = self._end = file.tell() if self._side_by_side else 0
        self._is_expected = False
        self._room: _Room | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: deque[tuple[Future[object], int]] = deque()
        self._bytes = 0

    def expect(self, size: int) -> None:
        """Begin to allocate the space for about so many bytes, if several threads are going to write them."""
        if self._side_by_side:
            self._is_expected = True
            self._allocate_to(self._end + size)

    def _allocate_to(self, end: int) -> None:
        if self._room is None:
            self._room = _Room(self._file.fileno(), self._begin)
        self._room.reach(end)

    def write(self, data: Any) -> None:
        """Append bytes; ``data`` must not change afterwards. After an error, nothing more is written."""
        try:
            self._write(data, memoryview(data).nbytes)
        except BaseException:
            self.cancel()  # queued parts could be written to another file that reuses the descriptor
            raise

    def _write(self, data: Any, size: int) -> None:
        while self._waiting and (self._waiting[0][0].done() or self._bytes + size > self._most_bytes):
            self._take_first()
        if not size:
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_WRITERS if self._side_by_side else 1, "linkwise")
        self._bytes += size
        if self._side_by_side:
            work: Any = partial(self._write_at, self._end, np.frombuffer(data, np.uint8))
            self._end += size
            written = self._end - self._begin
            if not self._is_expected and written >= _ALLOCATED_AT_ONCE:  # there may be as much again
                self._allocate_to(self._end + min(written, _MOST_AHEAD))
        else:
            work = partial(self._file.write, data)
        self._waiting.append((self._pool.submit(work), size))

    def _write_at(self, offset: int, data: Any) -> None:
        is_allocated = self._room is not None and self._room.has(offset + len(data))
        _core.write_at(self._file.fileno(), offset, data, is_allocated)

    def _take_first(self) -> None:
        job, size = self._waiting.popleft()
        self._bytes -= size
        job.result()

    def flush(self) -> None:
        """Wait until all is written."""
        try:
            while self._waiting:
                self._take_first()
        finally:
            self.cancel()
        if self._side_by_side:
            self._file.seek(self._end)
            if self._room is not None:
                self._file.truncate()
                self._room = None

    def cancel(self) -> None:
        """Write nothing more; waits for what is being written."""
        self._waiting.clear()
        self._bytes = 0
        if self._room is not None:
            self._room.close()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


class _Room:
    """Space in a file that a thread allocates ahead of those that write: meanwhile, they would wait for each other."""

    def __init__(self, file: int, begin: int) -> None:
        self._file = file
        self._allocated = self._end = begin
        self._is_closed = False
        self._changed = Condition()
        self._thread = Thread(target=self._allocate, name="linkwise", daemon=True)
        self._thread.start()

    def reach(self, end: int) -> None:
        """Allocate all up to ``end``, in the background."""
        if end > self._end:
            with self._changed:
                self._end = end
                self._changed.notify()

    def _allocate(self) -> None:
        with suppress(OSError):  # those who write report it, if the space is really needed
            while self._has_more():
                size = min(_ALLOCATED_AT_ONCE, self._end - self._allocated)
                if not _core.allocate(self._file, self._allocated, size):
                    return
                self._allocated += size

    def _has_more(self) -> bool:
        """Wait until there is more to allocate; False once it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._allocated < self._end)
            return not self._is_closed

    def has(self, end: int) -> bool:
        """Whether all up to ``end`` is allocated."""
        return end <= self._allocated

    def close(self) -> None:
        """Allocate nothing more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()


def _has_places(file: IO[bytes]) -> bool:
    """Whether a file can be mapped and written at any offset: a regular one, open to read and write, not append."""
    try:
        descriptor = file.fileno()
    except OSError:  # a file in memory
        return False
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    is_open_for_both = flags & os.O_ACCMODE == os.O_RDWR and not flags & os.O_APPEND
    return is_open_for_both and stat.S_ISREG(os.fstat(descriptor).st_mode)
