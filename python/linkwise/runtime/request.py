"""From what a caller asked for to a plan of the core."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Number
from pathlib import Path
from typing import Literal

from linkwise import _core
from linkwise._core import UsageError

Gpus = Literal["auto"] | Sequence[int]
MachineLike = str | Path | _core.Machine
Progress = Callable[[float], None]
_MOST_BYTES = 1 << 60
_MOST_GPUS = 1 << 20
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class Request:
    """What a caller asked for, apart from the data."""

    machine: MachineLike
    gpus: Gpus
    strategy: str
    memory_limit: int | str | None
    descending: bool
    verify: bool
    on_progress: Progress | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, str):
            raise UsageError(f"strategy= is a name like 'radix', or 'auto', not {self.strategy!r}")
        if not isinstance(self.gpus, str):  # NumPy's arrays do not compare as one would think
            object.__setattr__(self, "gpus", gpu_numbers(self.gpus))
        elif self.gpus != "auto":
            raise _no_gpus(self.gpus)


def _no_gpus(gpus: object) -> UsageError:
    return UsageError(f"gpus= is a list of numbers, as [0, 1], or 'auto', not {gpus!r}")


def parse_bytes(size: int | str | None, whole: int = 0) -> int:
    """Bytes from ``4096``, ``"4GiB"``, or, of a ``whole``, ``"80%"``; 0 for ``None``. Raises ``UsageError``."""
    examples = "512MiB, 4GiB or 80%" if whole else "512KiB or 4MiB"
    if size is None:
        return 0
    if not isinstance(size, str):
        whole_number = isinstance(size, Number) and not isinstance(size, bool | complex) and int(size) == size
        if not whole_number:
            raise UsageError(f"{size!r} is not a size; write it like {examples}, or as a number of bytes")
        if not 0 < size < _MOST_BYTES:
            raise UsageError(f"a limit is {size}; it must be positive, and no more than a memory has")
        return int(size)
    percent = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", size)
    if percent is not None and whole:
        if not 0 < float(percent[1]) <= 100:
            raise UsageError(f"'{size}' is not a part of a memory; write it like 80%")
        return max(int(float(percent[1]) / 100 * whole), 1)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", size, re.IGNORECASE)
    if match is None or float(match[1]) <= 0:
        raise UsageError(f"'{size}' is not a size; write it like {examples}")
    count = float(match[1]) * _UNITS[match[2].upper()]
    if count >= _MOST_BYTES:
        raise UsageError(f"'{size}' is more than any memory has")
    return int(count)


def memory_limit_of(request: Request, machine: _core.Machine) -> int:
    """Bytes that a GPU may use; 0 for all that are free. Raises ``UsageError``."""
    return parse_bytes(request.memory_limit, int(machine.gpu.memory_gib * (1 << 30)))


def gpu_numbers(gpus: Sequence[int]) -> list[int]:
    """GPU numbers that the core can look at. Raises ``UsageError``."""
    try:
        numbers = [operator.index(gpu) for gpu in gpus]
    except TypeError:
        raise _no_gpus(gpus) from None
    for gpu in numbers:
        if abs(gpu) > _MOST_GPUS:
            raise UsageError(f"there is no GPU {gpu}")
    return numbers


def gpus_of(machine: _core.Machine, gpus: Gpus) -> list[int]:
    """The GPUs that are named, or all of the machine's. Raises ``UsageError``."""
    numbers = list(range(machine.num_gpus)) if gpus == "auto" else gpu_numbers(gpus)
    if not numbers:
        raise UsageError("gpus is empty; name at least one GPU, or leave it at 'auto'")
    return numbers
