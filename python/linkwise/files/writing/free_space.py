"""Whether disks have room for what is to be written, before the work begins."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from linkwise._core import UsageError
from linkwise._typing import Format
from linkwise.files.locations import PIPE, Location, is_pipe
from linkwise.files.reading.reader import Reader

_LEAST_PART = {"npy": 1.0, "bin": 1.0, "arrow": 1.0, "csv": 0.25, "tsv": 0.25, "jsonl": 0.25, "parquet": 0.05}
"""Of the bytes that rows take in memory, what a file of them takes at least, however well it is compressed."""

_PARTS_THAT_TELL = 4  # of the others


def check_room_for_output(path: Location, kind: Format, size: int) -> None:
    """Raise ``UsageError`` if a file of rows that take ``size`` bytes in memory cannot be written."""
    if isinstance(path, Path) and path != PIPE and not is_pipe(path):
        _check(path.resolve().parent, int(size * _LEAST_PART[kind]), f"the output {path}")


def check_room_for_runs(readers: Sequence[Reader], directory: Path | None) -> None:
    """Raise ``UsageError`` if all of what is read cannot be spilled."""
    where = directory or Path(tempfile.gettempdir())
    _check(where, sum(map(_least_size, readers)), f"what is spilled to {where}")


class Outlook:
    """What a join takes in all whose parts are counted one by one, each before it is written, as those so far tell.

    The part that has given least for what was read of it speaks for all that are left: a key with many rows is no sign
    of others.
    """

    def __init__(self, check_room: Callable[[int], None], readers: Sequence[Reader]) -> None:
        self._check_room = check_room
        self._unread = sum(map(_least_size, readers)) // 2  # which may still be too much, and would refuse what fits
        self._least = math.inf  # bytes of rows by those of their part
        self._parts = 0

    def check(self, read: int, rows: int) -> None:
        """Raise ``UsageError`` if a part of ``read`` bytes, whose rows take so many, and those behind have no room."""
        if not read:
            return self._check_room(rows)
        self._parts += 1
        self._unread = max(self._unread - read, 0)
        self._least = min(self._least, rows / read)
        behind = int(self._least * self._unread) if self._parts >= _PARTS_THAT_TELL else 0
        return self._check_room(rows + behind)


def _least_size(reader: Reader) -> int:
    """Bytes in memory of what is read, about: what is known of text and of Parquet is mostly too large."""
    return (reader.size or 0) // (1 if _LEAST_PART[reader.format] == 1 else 4)


def _check(directory: Path, size: int, what: str) -> None:
    try:
        told = os.statvfs(directory)
    except OSError:  # whoever writes there says what is wrong
        return
    free = told.f_bavail * told.f_frsize
    if size > free:
        raise UsageError(
            f"{what} takes {size >> 20} MiB at least, and {free >> 20} are free there; make room, name another place, "
            "or begin all the same (--force)"
        )
