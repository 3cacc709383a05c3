"""How much memory the host has, and whether a result fits into it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from linkwise import _core
from linkwise._core import OutOfMemoryError, UsageError
from linkwise._typing import Array
from linkwise.exceptions import FallbackWarning, warn_caller

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


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> Array:
    """An uninitialised array in pinned memory, which GPUs read and write at the full speed of the links.

    Where CUDA cannot be used it is ordinary memory. It is given back when the last array that uses it goes.
    """
    kind = np.dtype(dtype)
    dimensions = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(length < 0 for length in dimensions):
        raise UsageError(f"a shape has no negative lengths: {dimensions}")
    count = int(np.prod(dimensions, dtype=np.int64))
    try:
        memory = cast(Array, _core.pinned_bytes(max(count * kind.itemsize, 1)))
    except OutOfMemoryError as error:
        warn_caller(f"{error}: this array is in ordinary memory, which is slower", FallbackWarning)
        return np.empty(dimensions, kind)
    return memory[: count * kind.itemsize].view(kind).reshape(dimensions)
