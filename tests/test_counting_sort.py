"""The order of keys with few distinct values on the cores, which are counted, against NumPy's stable order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwise
from data import expected_order
from linkwise import _core
from linkwise.columns.key_types import key_type_of

COUNT = 100_003
TYPES = ("u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8")


def limits(dtype: str) -> tuple[int, int]:
    """The least and the greatest integers of a type, or between which a float has all integers."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return -1024, 1024
    return int(np.iinfo(kind).min), int(np.iinfo(kind).max)


def few_values(kind: str, dtype: str) -> Any:
    random = np.random.default_rng(11)
    least, greatest = limits(dtype)
    span = min(greatest - least, 255)
    some = random.integers(0, span + 1, COUNT)
    if kind == "two, mostly one of them":
        return (random.random(COUNT) < 0.01).astype(dtype)
    if kind == "256, from the type's least on":
        return (least + some.astype(object)).astype(dtype)
    if kind == "256, up to the type's greatest":
        return (greatest - some.astype(object)).astype(dtype)
    if kind == "in runs":
        return np.sort(some // 40).astype(dtype)[::-1]
    if kind == "equal":
        return np.full(COUNT, 1, dtype)
    values = (some % 3).astype(dtype)
    values[-2 if kind == "an outlier that no sample has" else 17] = greatest
    return values


KINDS = [
    "two, mostly one of them", "256, from the type's least on", "256, up to the type's greatest", "in runs", "equal",
    "an outlier that no sample has", "an outlier among the first",
]  # fmt: skip


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TYPES)
def test_rows_and_keys_are_in_stable_order(dtype: str, kind: str, descending: bool) -> None:
    values = few_values(kind, dtype)
    order = expected_order(values, descending)
    for width, verify, wants_keys in ((4, True, True), (8, True, False), (4, False, False)):
        rows = np.full(COUNT, 7, f"u{width}")
        keys = np.full_like(values, 0) if wants_keys else None
        options = _core.SortOptions(descending, verify)
        _core.sort_on_cpu(key_type_of(values.dtype), values, None, keys, rows, width, options, _core.CpuAlgorithm.radix)
        assert np.array_equal(rows, order)
        assert keys is None or keys.tobytes() == values[order].tobytes()


@pytest.mark.parametrize("count", [0, 1, 65_535, 65_536, 69_632, 69_633])
def test_any_number_of_rows(count: int) -> None:
    """Around the fewest that are counted, and around whole blocks."""
    values = np.random.default_rng(count).integers(-3, 3, count, np.int32)
    assert np.array_equal(linkwise.sort_indices(values, strategy="cpu"), np.argsort(values, kind="stable"))
