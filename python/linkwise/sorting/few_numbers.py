"""Small arrays of numbers: NumPy has sorted them before any other way would have begun."""

from __future__ import annotations

import os

import numpy as np

from linkwise._typing import Array

MOST_FEW = 1 << (18 if len(os.sched_getaffinity(0)) >= 8 else 20)
"""The most numbers that NumPy sorts; more are sorted faster by all cores together."""


def sorted_few(values: Array, *, descending: bool) -> Array | None:
    """The sorted numbers; ``None`` for larger or other arrays, and for NaNs with a sign or different bits."""
    kind = values.dtype
    if values.ndim != 1 or len(values) > MOST_FEW or not kind.isnative:
        return None
    if kind.kind in "iub":
        found = np.sort(values)
    elif kind.char in "fd":
        in_order = _sorted_floats(values)
        if in_order is None:
            return None
        found = in_order
    else:
        return None
    return np.ascontiguousarray(found[::-1]) if descending else found


def _sorted_floats(values: Array) -> Array | None:
    """Sort sign-magnitude floats as integers in the same order: -0.0 before 0.0, NaN last."""
    of_bits = np.dtype(f"i{values.itemsize}")
    magnitude = np.iinfo(of_bits).max
    bits = np.ascontiguousarray(values).view(of_bits)
    codes = np.sort(bits ^ ((bits >> (8 * values.itemsize - 1)) & magnitude))
    if len(codes):
        infinity = int(np.array(np.inf, values.dtype).view(of_bits))
        if codes[0] < ~infinity:  # a NaN with a sign
            return None
        if codes[-1] > infinity and codes[np.searchsorted(codes, infinity, "right")] != codes[-1]:  # NaNs that differ
            return None
    codes ^= (codes >> (8 * values.itemsize - 1)) & magnitude
    found: Array = codes.view(values.dtype)
    return found
