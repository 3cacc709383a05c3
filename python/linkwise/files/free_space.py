"""Whether disks have room for what is to be written, before the work begins."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from linkwise._core import UsageError
from linkwise._typing import Format
from linkwise.files.formats import PIPE, is_pipe
from linkwise.files.reader import Reader

_LEAST_PART = {"npy": 1.0, "bin": 1.0, "arrow": 1.0, "csv": 0.25, "tsv": 0.25, "parquet": 0.05}
"""Of the bytes that rows take in memory, what a file of them takes at least, however well it is compressed."""


def check_room_for_output(path: Path, kind: Format, size: int) -> None:
    """Raise ``UsageError`` if a file of rows that take ``size`` bytes in memory cannot be written."""
    if path != PIPE and not is_pipe(path):
        _check(path.resolve().parent, int(size * _LEAST_PART[kind]), f"the output {path}")


def check_room_for_runs(readers: list[Reader], directory: Path | None) -> None:
    """Raise ``UsageError`` if all of what is read cannot be spilled."""
    # What is known of text and of Parquet is an estimate, which is mostly too large.
    sizes = [(reader.size or 0) // (1 if _LEAST_PART[reader.format] == 1 else 4) for reader in readers]
    where = directory or Path(tempfile.gettempdir())
    _check(where, sum(sizes), f"what is spilled to {where}")


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
