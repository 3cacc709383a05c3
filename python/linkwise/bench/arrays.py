"""Arrays to sort, filled and checked on all cores."""

from __future__ import annotations

import numpy as np

from linkwise._typing import Array
from linkwise.runtime.parallel import BLOCK, in_blocks


def fill_uniform(keys: Array) -> None:
    """Uniform random numbers over the whole range of an array of unsigned integers; the same every time."""

    def fill(first: int) -> None:
        part = keys[first : first + BLOCK]
        part[:] = np.random.default_rng(first + 1).integers(0, 1 << 8 * keys.itemsize, len(part), dtype=keys.dtype)

    in_blocks(fill, len(keys))


def total(array: Array) -> int:
    """The sum of the bit patterns, modulo 2^64."""
    bits = array.view(f"u{array.itemsize}")
    sums: list[int] = in_blocks(lambda first: int(bits[first : first + BLOCK].sum(dtype=np.uint64)), len(bits))
    return sum(sums) % (1 << 64)


def is_sorted_from(before_sum: int, result: Array) -> bool:
    """Whether a result is in order and has the sum that its input had."""

    def in_order(first: int) -> bool:
        part = result[max(first - 1, 0) : first + BLOCK]
        return bool((part[:-1] <= part[1:]).all())

    return all(in_blocks(in_order, len(result))) and total(result) == before_sum
