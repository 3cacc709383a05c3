"""Keys in NumPy arrays: as Arrow columns, and times in whatever units of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from linkwise._arrow import pa
from linkwise._core import UsageError

_OF_ARROW = ("s", "ms", "us", "ns")
_DATES = 1 << 31  # days that a date of Arrow reaches from 1970


def times_as_integers(left: Any, right: Any) -> tuple[Any, Any]:
    """Two arrays of times, or of durations, as integers of one unit, NaT as null; any others as they are.

    Raises ``UsageError`` if there is no such unit.
    """
    if not all(isinstance(side, np.ndarray) and side.dtype.kind in "mM" for side in (left, right)):
        return left, right
    if left.dtype.kind != right.dtype.kind:
        return left, right
    try:
        common = np.promote_types(left.dtype, right.dtype)
    except (TypeError, OverflowError):  # as of years and days
        raise UsageError(f"keys are {left.dtype} and {right.dtype}, which have no common unit; cast one") from None
    return _integers(_in_unit(left, common)), _integers(_in_unit(right, common))


def arrow_keys(values: npt.NDArray[Any]) -> pa.Array:
    """The keys as Arrow has them. Raises ``UsageError``."""
    try:
        return pa.array(_in_unit_of_arrow(values) if values.dtype.kind in "mM" else values)
    except (pa.ArrowNotImplementedError, TypeError):
        raise UsageError(f"keys of type {values.dtype} cannot be joined; numbers, times, texts and bytes can") from None


def _in_unit_of_arrow(times: npt.NDArray[Any]) -> npt.NDArray[Any]:
    unit, count = np.datetime_data(times.dtype)
    if count == 1 and (unit in _OF_ARROW or unit == "generic"):
        return times
    days = times.view(np.int64)
    is_nat = np.isnat(times)
    if times.dtype.kind == "M" and (unit, count) == ("D", 1) and np.all(is_nat | (abs(days) < _DATES)):
        return times
    finer = unit in ("ps", "fs", "as")
    return times if finer else _in_unit(times, np.dtype(f"{times.dtype.kind}8[{unit if unit in _OF_ARROW else 's'}]"))


def _in_unit(times: npt.NDArray[Any], kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """The times in another unit, in which they are exact. Raises ``UsageError`` for those that it does not reach."""
    try:
        cast = times.astype(kind)
        is_exact = bool(np.all(np.isnat(times) | (cast.astype(times.dtype) == times)))
    except OverflowError:
        is_exact = False
    if not is_exact:
        raise UsageError(f"a key of type {times.dtype} is beyond what 64 bits of {kind} hold; cast both sides")
    return cast


def _integers(times: npt.NDArray[Any]) -> Any:
    numbers, is_nat = times.view(np.int64), np.isnat(times)
    return pa.table({"": pa.array(numbers, mask=is_nat)}) if is_nat.any() else numbers
