"""Checks that disks have room for the output and for spilled runs, before the work begins."""

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
"""The least size of a file, as a fraction of the bytes of its rows in memory, however well it compresses."""

_PARTS_THAT_TELL = 4  # after which the rest is estimated


def check_room_for_output(path: Location, kind: Format, size: int) -> None:
    """Raise ``UsageError`` if a file of rows that take ``size`` bytes in memory cannot be written."""
    if isinstance(path, Path) and path != PIPE and not is_pipe(path):
        _check(path.resolve().parent, int(size * _LEAST_PART[kind]), f"the output {path}")


def check_room_for_runs(readers: Sequence[Reader], directory: Path | None) -> None:
    """Raise ``UsageError`` if the disk has no room to spill the whole input."""
    where = directory or Path(tempfile.gettempdir())
    _check(where, sum(map(_least_size, readers)), f"what is spilled to {where}")


class Outlook:
    """An estimate of the output of a join whose parts are counted one by one, each before it is written.

    The remaining parts are estimated by the part with the least output per byte of input: one key with many rows does
    not imply that others have many.
    """

    def __init__(self, check_room: Callable[[int], None], readers: Sequence[Reader]) -> None:
        self._check_room = check_room
        self._unread = sum(map(_least_size, readers)) // 2  # halved: too high an estimate would refuse what fits
        self._least = math.inf  # output bytes per input byte
        self._parts = 0

    def check(self, read: int, rows: int) -> None:
        """Raise ``UsageError`` if a part (``read`` bytes in, ``rows`` out) and the estimated rest do not fit."""
        if not read:
            return self._check_room(rows)
        self._parts += 1
        self._unread = max(self._unread - read, 0)
        self._least = min(self._least, rows / read)
        behind = int(self._least * self._unread) if self._parts >= _PARTS_THAT_TELL else 0
        return self._check_room(rows + behind)


def _least_size(reader: Reader) -> int:
    """A low estimate of the input's bytes in memory: the known sizes of text and Parquet are mostly too large."""
    return (reader.size or 0) // (1 if _LEAST_PART[reader.format] == 1 else 4)


def _check(directory: Path, size: int, what: str) -> None:
    try:
        told = os.statvfs(directory)
    except OSError:  # the writer reports the error
        return
    free = told.f_bavail * told.f_frsize
    if size > free:
        raise UsageError(
            f"{what} takes {size >> 20} MiB at least, and {free >> 20} are free there; make room, name another place, "
            "or begin all the same (--force)"
        )
