"""The cores' own sort: every way that it goes, by NumPy's stable one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwise
from linkwise import UsageError
from linkwise._typing import Array

# Records that are put in order one by one, that one core sorts, and that all share, by one digit and by several.
COUNTS = (0, 1, 32, 33, 1_000, 70_001, 300_007, 1_200_003)


def uniform(count: int, kind: Any, random: np.random.Generator) -> Array:
    info = np.iinfo(kind)
    return random.integers(info.min, info.max, count, dtype=kind, endpoint=True)


def mostly_one_value(count: int, kind: Any, random: np.random.Generator) -> Array:
    values = uniform(count, kind, random)
    values[random.random(count) < 0.9] = 7
    return values


def few_prefixes(count: int, kind: Any, random: np.random.Generator) -> Array:
    """Leading bits that hardly tell any apart, and others that do."""
    bits = 8 * np.dtype(kind).itemsize
    prefixes = random.integers(0, 8, count, dtype=np.uint64) << np.uint64(bits - 5)
    return (prefixes | random.integers(0, 1 << 10, count, dtype=np.uint64)).astype(kind)


def one_bit(count: int, kind: Any, random: np.random.Generator) -> Array:
    bits = 8 * np.dtype(kind).itemsize
    return (np.uint64(1) << random.integers(0, bits - 1, count, dtype=np.uint64)).astype(kind)


def two_values_far_apart(count: int, kind: Any, random: np.random.Generator) -> Array:
    return random.choice(np.array([0, np.iinfo(kind).max], kind), count)


def in_order(count: int, kind: Any, _: np.random.Generator) -> Array:
    return np.arange(count).astype(kind)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", [np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("draw", [uniform, mostly_one_value, few_prefixes, one_bit, two_values_far_apart, in_order])
def test_on_the_cores(draw: Any, kind: Any, count: int) -> None:
    values = draw(count, kind, np.random.default_rng(count))
    assert np.array_equal(linkwise.sort(values, strategy="cpu"), np.sort(values))
    expected = np.argsort(values, kind="stable")
    assert np.array_equal(linkwise.sort_indices(values, strategy="cpu"), expected)


@pytest.mark.parametrize("kind", ["uint32", "uint64", "int64", "float32", "uint8"])
@pytest.mark.parametrize("rows", [0, 1, 63, 65, 1000, 100_000, 700_000])
def test_paradis_sorts_in_place(kind: str, rows: int) -> None:
    """By sort22's CPU baseline: keys of any order, few values, and all the same."""
    random = np.random.default_rng(rows)
    for most in (2, 300, 2**31 - 1):
        keys = random.integers(0, most, rows).astype(kind)
        plan = linkwise.SortPlan(strategy="cpu", cpu_algorithm="paradis")
        np.testing.assert_array_equal(linkwise.sort(keys, plan=plan), np.sort(keys))
        np.testing.assert_array_equal(linkwise.sort(np.sort(keys)[::-1].copy(), plan=plan), np.sort(keys))


def test_paradis_keeps_no_order_of_rows() -> None:
    plan = linkwise.SortPlan(strategy="cpu", cpu_algorithm="paradis")
    with pytest.raises(UsageError, match="paradis, which would not keep the order of equal keys"):
        linkwise.sort_indices(np.arange(5, dtype=np.uint32), plan=plan)
