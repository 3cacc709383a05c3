"""Counter-based random numbers: each depends only on its key and counter, not on which GPU draws it.

The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) over a counter and a key.
"""

from __future__ import annotations

from math import pi
from typing import Any

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def _mixed_number(number: int) -> int:
    number = (number + _STEP) & _MASK
    number = ((number ^ (number >> 30)) * _FIRST) & _MASK
    number = ((number ^ (number >> 27)) * _SECOND) & _MASK
    return number ^ (number >> 31)


def key_of(*parts: int) -> int:
    """Hash several numbers (the seed, the purpose of the draw, the step) into one key."""
    key = 0
    for part in parts:
        key = _mixed_number(key ^ (part & _MASK))
    return key


def uniform(xp: Any, key: int, counters: Any) -> Any:
    """Numbers above 0 and below 1, one for each counter (an array of integers)."""
    whole = xp.uint64
    constants = [xp.asarray([number], dtype=whole) for number in (key, _FIRST, _SECOND, 30, 27, 31, 11, _STEP)]
    key_, first, second, by30, by27, by31, by11, step = constants
    bits = xp.astype(counters, whole) * step + key_
    bits = (bits ^ (bits >> by30)) * first
    bits = (bits ^ (bits >> by27)) * second
    bits = bits ^ (bits >> by31)
    return (xp.astype(bits >> by11, xp.float64) + 0.5) * 2.0**-53


def normal(xp: Any, key: int, counters: Any) -> Any:
    """Normally distributed numbers, by the Box-Muller transform."""
    radius = xp.sqrt(-2.0 * xp.log(uniform(xp, key, counters)))
    return radius * xp.cos(2 * pi * uniform(xp, key_of(key, 1), counters))
