"""Joins by a hash table of one side, on the cores, against NumPy; sizes round what decides about partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import linkwise
from linkwise import _core

HOWS = ("inner", "left", "right", "full", "semi", "anti")
CPU: dict[str, Any] = {"strategy": "cpu"}
Array = NDArray[Any]


def expected_pairs(left: Array, right: Array, how: str) -> Array:
    """By left row and right row; rows without a left one at the end."""
    by_key = np.argsort(right, kind="stable")
    first, end = (np.searchsorted(right[by_key], left, side) for side in ("left", "right"))
    matches = end - first
    if how in ("semi", "anti"):
        rows = np.flatnonzero((matches > 0) == (how == "semi"))
        return np.column_stack([rows, np.full(len(rows), -1)])
    kept = np.maximum(matches, 1) if how in ("left", "full") else matches
    rows = np.repeat(np.arange(len(left)), kept)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(kept) - kept, kept)
    found = np.repeat(matches, kept) > 0
    partners = np.full(len(rows), -1)
    partners[found] = by_key[(np.repeat(first, kept) + within)[found]]
    pairs = np.column_stack([rows, partners])
    if how in ("right", "full"):
        alone = np.flatnonzero(~np.isin(right, left))
        pairs = np.concatenate([pairs, np.column_stack([np.full(len(alone), -1), alone])])
    return pairs


def sides(kind: str, left_rows: int, right_rows: int, dtype: Any) -> tuple[Array, Array]:
    random = np.random.default_rng(left_rows + 7 * right_rows)
    most = 2 * max(left_rows, right_rows, 1)
    if kind == "unique":
        return tuple(random.permutation(most)[:rows].astype(dtype) for rows in (left_rows, right_rows))  # type: ignore[return-value]
    if kind == "spread":  # over the whole width
        left, right = (random.integers(0, most, rows).astype(dtype) for rows in (left_rows, right_rows))
        far = np.dtype(f"u{left.itemsize}").type(0x9E3779B97F4A7C15 & (256**left.itemsize - 1))
        return tuple((side.view(far.dtype) * far).view(dtype) for side in (left, right))  # type: ignore[return-value]
    if kind == "few":
        return tuple(random.integers(0, max(rows // 3, 1), rows).astype(dtype) for rows in (left_rows, right_rows))  # type: ignore[return-value]
    left, right = (random.integers(0, most, rows).astype(dtype) for rows in (left_rows, right_rows))  # one key is heavy
    left[: left_rows // 100] = right[: right_rows // 300] = 5
    return left, right


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("dtype", [np.uint32, np.int64])
@pytest.mark.parametrize("kind", ["unique", "few", "heavy", "spread"])
def test_every_join(kind: str, dtype: Any, how: Any) -> None:
    for rows in ((0, 5), (5, 0), (1, 1), (40, 3000), (70_000, 4095), (16_384, 33_000), (100_000, 120_000)):
        left, right = sides(kind, *rows, dtype)
        expected = expected_pairs(left, right, how)
        found = np.column_stack(linkwise.join_indices(left, right, how, order="left", **CPU))
        assert (found == expected).all()
        anyhow = np.column_stack(linkwise.join_indices(left, right, how, **CPU))
        assert (anyhow[np.lexsort((anyhow[:, 1], anyhow[:, 0].astype(np.uint64)))] == expected).all()
        assert linkwise.join_count(left, right, how, **CPU) == len(expected)


@pytest.mark.parametrize("how", HOWS)
def test_windows_and_narrow_rows(how: str) -> None:
    """The same rows piece by piece, and in four bytes where none is missing."""
    left, right = sides("heavy", 30_000, 9_000, np.uint64)
    keys = [_core.KeyWords(side, None, []) for side in (left, right)]
    for build_left in (False, True):
        found = _core.HashMatches(*keys, build_left)
        whole = found.indices(how)
        count = found.count(how)
        assert len(whole[0]) == count
        for first, rows in ((0, count), (count // 3, 1), (7, 20_000), (count - 5, 100), (count, 1), (count + 9, 9)):
            part = found.indices(how, first, rows)
            for of_whole, of_part in zip(whole, part, strict=True):
                assert of_whole is of_part is None or (of_part == of_whole[first : first + rows]).all()
        if how in ("inner", "semi", "anti"):
            narrow = found.indices(how, row_bytes=4)
            assert all(a is b is None or (a == b).all() for a, b in zip(narrow, whole, strict=True))


def test_hashes_that_are_equal_by_chance_are_compared() -> None:
    same = np.zeros(6, np.uint64)
    texts = pa.array(["a", "b", "a", None, "c", "b"])
    keys = _core.KeyWords(same, None, [texts])
    found = _core.HashMatches(keys, keys, False)
    left, right = found.indices("inner")
    values = texts.to_pylist()
    expected = [(i, j) for i in range(6) for j in range(6) if values[i] == values[j]]
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == expected
    without_null = _core.KeyWords(same, np.array([1, 1, 1, 0, 1, 1], np.uint8), [texts])
    assert _core.HashMatches(without_null, without_null, True).count("inner") == len(expected) - 1
    assert _core.HashMatches(without_null, without_null, True).count("full") == len(expected) + 1


def test_a_side_that_is_kept_whole_is_not_copied() -> None:
    left = pa.table({"k": np.arange(50_000) % 900, "a": np.arange(50_000)})
    right = pa.table({"k": np.arange(900), "b": np.arange(900) * 2})
    joined = linkwise.join(left, right, "k", **CPU)
    assert joined["a"].chunk(0).buffers()[1].address == left["a"].chunk(0).buffers()[1].address
    assert (joined["b"].to_numpy() == left["k"].to_numpy() * 2).all()
    assert linkwise.join(left, right, "k", how="semi", **CPU) is not None
    some = linkwise.join(left, right.slice(1), "k", how="left", **CPU)
    assert some.num_rows == len(left) and some["b"].null_count == (left["k"].to_numpy() == 0).sum()


def test_pairs_that_nobody_can_count_are_refused() -> None:
    same = np.zeros(1 << 18, np.uint32)
    assert linkwise.join_count(same, same, **CPU) == 1 << 36
