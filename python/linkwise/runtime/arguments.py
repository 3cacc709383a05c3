"""Parses arguments: sizes in bytes, and GPU numbers."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from numbers import Number
from typing import Any, SupportsIndex, cast

import numpy as np

from linkwise._core import UsageError

_MOST_BYTES = 1 << 60
_MOST_GPUS = 1 << 20
_LONGEST_SHOWN = 80
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _is_whole(number: Any) -> bool:
    try:
        return bool(int(number) == number)
    except (ValueError, OverflowError, TypeError):  # nan, inf
        return False


def parse_bytes(size: int | str | None, whole: int = 0) -> int:
    """Bytes from ``4096``, ``"4GiB"``, or, of a ``whole``, ``"80%"``; 0 for ``None``. Raises ``UsageError``."""
    examples = "512MiB, 4GiB or 80%" if whole else "512KiB or 4MiB"
    if size is None:
        return 0
    if not isinstance(size, str):
        whole_number = isinstance(size, Number) and not isinstance(size, bool | complex) and _is_whole(size)
        if not whole_number:
            raise UsageError(f"{size!r} is not a size; write it like {examples}, or as a number of bytes")
        if not 0 < size < _MOST_BYTES:
            raise UsageError(f"a limit is {size}; it must be positive, and less than any memory has")
        return int(size)
    percent = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", size)
    if percent is not None and whole:
        if not 0 < float(percent[1]) <= 100:
            raise UsageError(f"{in_one_line(size)} is not a part of a memory; write it like 80%")
        return max(int(float(percent[1]) / 100 * whole), 1)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", size, re.IGNORECASE)
    if match is None or float(match[1]) <= 0:
        raise UsageError(f"{in_one_line(size)} is not a size; write it like {examples}")
    count = float(match[1]) * _UNITS[match[2].upper()]
    if count >= _MOST_BYTES:
        raise UsageError(f"{in_one_line(size)} is more than any memory has")
    return int(count)


def gpu_numbers(gpus: Iterable[int]) -> list[int]:
    """GPU numbers in a range that the core accepts. Raises ``UsageError``."""
    try:
        numbers = [_number(gpu) for gpu in gpus]
    except TypeError:
        raise no_gpus(gpus) from None
    for gpu in numbers:
        if abs(gpu) > _MOST_GPUS:
            raise UsageError(f"there is no GPU {gpu}")
    return numbers


def _number(gpu: object) -> int:
    if isinstance(gpu, bool | np.bool_):
        raise TypeError
    return operator.index(cast(SupportsIndex, gpu))


def in_one_line(value: object) -> str:
    """A value as messages show it: in one line, and shortened."""
    shown = " ".join(repr(value).split())
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"


def no_gpus(gpus: object) -> UsageError:
    """The error for a value that is no list of GPU numbers."""
    return UsageError(f"gpus= is a list of numbers, as [0, 1], or 'auto', not {in_one_line(gpus)}")
