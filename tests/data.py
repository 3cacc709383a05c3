"""Key distributions: those of the papers and those that break sorts."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

DISTRIBUTIONS = (
    "uniform", "normal", "zipf", "sorted", "reversed", "nearly_sorted", "all_equal", "one_bit", "staggered",
    "bucket_sorted", "extremes",
)  # fmt: skip


def keys(distribution: str, count: int, dtype: Any, seed: int = 0) -> Array:  # noqa: PLR0912
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return _floats(distribution, count, kind, random)
    info = np.iinfo(kind)
    low, high = int(info.min), int(info.max)
    uniform = random.integers(low, high, count, dtype=kind, endpoint=True)
    match distribution:
        case "uniform":
            return uniform
        case "normal":
            spread = (high - low) / 8
            values = random.normal((high + low) / 2, spread, count)
            return np.clip(values, low / 2, high / 2).astype(kind)
        case "zipf":
            return np.minimum(random.zipf(1.3, count), min(high, 1 << 62)).astype(kind)
        case "sorted":
            return np.sort(uniform)
        case "reversed":
            return np.sort(uniform)[::-1].copy()
        case "nearly_sorted":
            values = np.sort(uniform)
            for a, b in random.integers(0, max(count, 1), (count // 50, 2)):
                values[[a, b]] = values[[b, a]]
            return values
        case "all_equal":
            return np.full(count, high // 3, kind)
        case "one_bit":
            return random.integers(0, 2, count).astype(kind)
        case "staggered":  # every source's keys belong to another destination
            return np.roll(np.sort(uniform), count // 3)
        case "bucket_sorted":  # eight blocks, in each of which the keys of one eighth of the range follow another's
            return np.concatenate([block[np.argsort(block >> (8 * kind.itemsize - 3), kind="stable")]
                                   for block in np.array_split(uniform, 8)])  # fmt: skip
        case "extremes":
            return random.choice(np.array([low, low + 1, 0, 1, high - 1, high], kind), count)
    if distribution.startswith("zipf "):  # its exponent: 0 is uniform over 65,536 keys, 3 is nearly all one key
        weights = 1.0 / np.arange(1, 1 << 16) ** float(distribution.split()[1])
        ranks = np.searchsorted(np.cumsum(weights / weights.sum()), random.random(count))
        return random.integers(low, high, 1 << 16, dtype=kind, endpoint=True)[ranks]
    raise AssertionError(distribution)


def _floats(distribution: str, count: int, kind: np.dtype[Any], random: np.random.Generator) -> Array:
    normal = random.normal(0, 100, count).astype(kind)
    match distribution:
        case "sorted":
            return np.sort(normal)
        case "reversed":
            return np.sort(normal)[::-1].copy()
        case "all_equal":
            return np.full(count, -1.5, kind)
        case "one_bit":
            return random.choice(np.array([-0.0, 0.0], kind), count)
        case "extremes":
            info = np.finfo(kind)
            special = [-np.inf, np.inf, np.nan, -np.nan, 0.0, -0.0, info.min, info.max, info.tiny, -info.tiny]
            return random.choice(np.array([*special, info.smallest_subnormal], kind), count)
    return normal


def total_order(values: Array) -> Array:
    """Unsigned codes in the documented order, computed in another way than the core does: by distances of magnitudes.

    Negative numbers by falling magnitudes, then positive by rising ones, then NaNs: those without a sign by rising
    magnitudes, then those with one by falling ones. A magnitude is the bits but the sign, and infinity is the greatest
    of a number.
    """
    if values.dtype.kind == "u":
        return values.astype(np.uint64)
    if values.dtype.kind == "i":
        return (values.astype(np.int64) ^ np.int64(-(1 << 63))).view(np.uint64)
    unsigned = f"u{values.itemsize}"
    bits = values.view(unsigned).astype(np.uint64)
    sign = np.uint64(1 << (8 * values.itemsize - 1))
    infinity = np.array(np.inf, values.dtype).view(unsigned).astype(np.uint64)
    magnitudes, is_negative = bits & (sign - np.uint64(1)), (bits & sign) != 0
    behind = infinity + sign  # of the last NaN without a sign
    negative = np.where(np.isnan(values), behind + (sign - magnitudes), infinity - magnitudes)
    return np.where(is_negative, negative, infinity + np.uint64(1) + magnitudes)


def expected_order(values: Array, descending: bool = False) -> Array:
    """Row numbers that sort the values stably in the documented order."""
    codes = total_order(values)
    if descending:
        codes = codes.max(initial=0) - codes if len(codes) else codes
    return np.argsort(codes, kind="stable")
