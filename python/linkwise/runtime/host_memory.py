"""How much memory the host has, and whether a result fits into it."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from linkwise import _core
from linkwise._core import OutOfMemoryError, UsageError
from linkwise._typing import Array
from linkwise.exceptions import FallbackWarning, warn_caller

_HUGE = 1 << 21
_MOST_NODES = 1023  # the most that Linux supports
_NO_LIMIT = 1 << 62  # version 1 of control groups says nearly 2⁶³


def host_memory(what: Literal["MemTotal", "MemAvailable"]) -> int:
    """Total or free bytes for this process, within the limits of the host, its container and ``ulimit``."""
    limits = [*cgroup_limits(), *_own_limits()]
    if what == "MemTotal":
        return min([_of_host(what), *(limit for limit, _ in limits)])
    return min([_of_host(what), *(max(limit - used, 0) for limit, used in limits)])


def _of_host(what: str) -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def cgroup_limits(own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> list[tuple[int, int]]:
    """Limit and usage in bytes of each control group that this process is in, version 1 or 2.

    Inactive file cache counts as free, since it is reclaimed when memory is needed.
    """
    found = []
    limits: tuple[str, ...]
    for line in _text(own).splitlines():
        _, controllers, name = line.split(":", 2)
        if not controllers:  # version 2
            top, limits, used, cached = root, ("memory.max", "memory.high"), "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top, limits = root / "memory", ("memory.limit_in_bytes",)
            used, cached = "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        # A container may see its own group as the root, whatever its name outside; a missing file means no limit.
        inner = top / name.lstrip("/")
        for group in [inner, *inner.parents]:
            limit = min((_number(group / each) for each in limits), default=_NO_LIMIT)
            if limit < _NO_LIMIT:
                stat = dict(pair.split() for pair in _text(group / "memory.stat").splitlines())
                found.append((limit, max(_number(group / used) - int(stat.get(cached, 0)), 0)))
            if group == top:
                break
    return found


def _own_limits() -> list[tuple[int, int]]:
    """The same for the limits that ``ulimit`` sets."""
    status = dict(line.split(":", 1) for line in _text(Path("/proc/self/status")).splitlines())
    kinds = ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData"))
    return [
        (resource.getrlimit(kind)[0], int(status.get(name, "0").split()[0]) << 10)
        for kind, name in kinds
        if resource.getrlimit(kind)[0] != resource.RLIM_INFINITY
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:  # there is no such group, or no such file system
        return ""


def _number(path: Path) -> int:
    text = _text(path).strip()
    return int(text) if text.isdigit() else _NO_LIMIT


def resident_memory() -> int:
    """The bytes of this process that are in memory; 0 if the system does not say."""
    pages = _text(Path("/proc/self/statm")).split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if pages else 0


def uninitialised(count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """As ``numpy.empty``, but with huge pages for large arrays, which take fewer page faults."""
    kind = np.dtype(dtype)
    if count * kind.itemsize < _HUGE:
        return np.empty(count, kind)
    return cast("npt.NDArray[Any]", _core.huge_bytes(count * kind.itemsize)).view(kind)


def check_rows_fit(rows: int, row_bytes: int) -> None:
    """Raise ``UsageError`` if this many rows of a join do not fit into free memory."""
    free = host_memory("MemAvailable")
    if rows * row_bytes > free:
        raise UsageError(
            f"the join has {rows} rows, which take {rows * row_bytes >> 20} MiB where {free >> 20} are free; write it "
            "to a file with 'linkwise join', count it, or join by more columns"
        )


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float64, *, numa: int | None = None) -> Array:
    """An uninitialised array in pinned memory, which GPUs read and write at the full speed of the links.

    Without CUDA the memory is pageable. It is freed with the last array that uses it.

    Parameters
    ----------
    shape, dtype
        As for ``numpy.empty``.
    numa
        The NUMA node to allocate on; by default, each page is placed on the node that touches it first. The node that
        a GPU is attached to is the fastest for it (sort22 §4.2): ``nvidia-smi topo -m`` shows which.

    Raises
    ------
    UsageError
        If there is no such node, or a length is negative.

    """
    if numa is not None and not 0 <= numa <= _MOST_NODES:
        raise UsageError(f"numa is a NUMA node from 0 on, not {numa}")
    kind = np.dtype(dtype)
    dimensions = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(length < 0 for length in dimensions):
        raise UsageError(f"a shape has no negative lengths: {dimensions}")
    count = int(np.prod(dimensions, dtype=np.int64))
    try:
        memory = cast(Array, _core.pinned_bytes(max(count * kind.itemsize, 1), -1 if numa is None else numa))
    except OutOfMemoryError as error:
        warn_caller(f"{error}: this array is in pageable memory, which is slower", FallbackWarning)
        return np.empty(dimensions, kind)
    return memory[: count * kind.itemsize].view(kind).reshape(dimensions)
