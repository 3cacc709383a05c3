"""How much memory the host has, and whether a result fits into it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from linkwise import _core
from linkwise._core import UsageError

_HUGE = 1 << 21


def host_memory(what: str) -> int:
    """Bytes of ``MemTotal`` or ``MemAvailable``."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def uninitialised(count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """As ``numpy.empty``; large arrays on huge pages, which take little time to be handed out."""
    kind = np.dtype(dtype)
    if count * kind.itemsize < _HUGE:
        return np.empty(count, kind)
    return cast("npt.NDArray[Any]", _core.huge_bytes(count * kind.itemsize)).view(kind)


def check_rows_fit(rows: int, row_bytes: int) -> None:
    """Raise ``UsageError`` if so many rows of a join are more than the memory that is free."""
    free = host_memory("MemAvailable")
    if rows * row_bytes > free:
        raise UsageError(
            f"the join has {rows} rows, which take {rows * row_bytes >> 20} MiB where {free >> 20} are free; write it "
            "to a file with 'linkwise join', count it, or join by more columns"
        )
