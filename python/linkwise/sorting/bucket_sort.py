"""Sorting keys without values on the cores with NumPy: one scatter into buckets that fit a core's cache, each sorted.

In cache, NumPy (from version 2.0 on) sorts numbers with the widest vectors that a machine has: where these have 512
bits, in half the time of the core's radix passes. Keys with values, whose sort must be stable, and keys so skewed that
few buckets hold most of them, are left to the core.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import numpy as np

from linkwise import _core
from linkwise._typing import Array
from linkwise.runtime.parallel import in_order

_BUCKETS_AT_ONCE = 8  # per task of a core
_TRIED = 1 << 14  # keys


def sort_in_buckets(key_type: _core.KeyType, keys: Array, out: Array, options: _core.SortOptions) -> bool:
    """Sort into ``out`` if that pays, and return whether it did. Raises ``CorruptDataError``."""
    if keys.itemsize < 4 or not _pays(keys.itemsize):
        return False
    buckets = _core.RecordBuckets.scatter(key_type, keys, out, options)
    if buckets is None:
        return False
    begins = buckets.begins
    codes = out.view(f"u{out.itemsize}")

    def sort(first: int) -> None:
        for bucket in range(first, min(first + _BUCKETS_AT_ONCE, len(begins) - 1)):
            codes[begins[bucket] : begins[bucket + 1]].sort()
            buckets.finish(bucket)

    for _ in in_order(functools.partial(sort, first) for first in range(0, len(begins) - 1, _BUCKETS_AT_ONCE)):
        pass
    buckets.check()
    return True


@functools.cache
def _pays(width: int) -> bool:
    """Whether NumPy sorts codes of so many bytes in cache clearly faster than the core does; measured once."""
    # Without NumPy's random generators, which take longer to import than this measurement takes.
    mixed = np.arange(_TRIED, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    codes = (mixed >> np.uint64(64 - 8 * width)).astype(f"u{width}")
    out, options = np.empty_like(codes), _core.SortOptions(False, False)
    key_type = _core.KeyType.u32 if width == 4 else _core.KeyType.u64
    ours = _least_seconds(lambda: _core.sort_on_cpu(key_type, codes, None, out, None, 0, options))
    return _least_seconds(lambda: np.sort(codes)) < 0.75 * ours


def _least_seconds(call: Callable[[], object]) -> float:
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return min(seconds)
