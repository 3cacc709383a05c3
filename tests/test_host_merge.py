"""Host primitives: multisequence selection and multiway merge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import linkwise
from linkwise import _core

small_runs = st.lists(st.lists(st.integers(0, 9), max_size=20).map(sorted), min_size=1, max_size=9)


def as_arrays(runs: list[list[int]], dtype: Any) -> list[np.ndarray]:
    return [np.array(run, dtype) for run in runs]


@given(small_runs, st.sampled_from([np.uint32, np.uint64]), st.integers(0, 200))
def test_selection_cuts_stably(runs: list[list[int]], dtype: Any, number: int) -> None:
    arrays = as_arrays(runs, dtype)
    total = sum(map(len, runs))
    rank = number % (total + 1)
    cuts = _core.multisequence_select(np.dtype(dtype).itemsize, arrays, rank)
    in_order = sorted((key, run, position) for run, keys in enumerate(runs) for position, key in enumerate(keys))
    expected = [sum(1 for _, r, _ in in_order[:rank] if r == run) for run in range(len(runs))]
    assert cuts == expected


@given(small_runs, st.sampled_from([np.uint32, np.uint64]), st.sampled_from([0, 4, 8, 16]), st.integers(1, 7))
def test_merge_is_a_stable_sort(runs: list[list[int]], dtype: Any, value_bytes: int, threads: int) -> None:
    arrays = as_arrays(runs, dtype)
    together = np.concatenate(arrays)
    rows = np.arange(len(together))
    values = np.zeros((len(together), max(value_bytes, 1)), np.uint8)
    values[:, 0] = rows
    packed = values.reshape(-1).view(f"V{value_bytes}" if value_bytes else np.uint8)
    parts = np.split(packed, np.cumsum([len(run) for run in runs])[:-1]) if value_bytes else []
    # An opaque type of that size: bytes are moved, not read.
    carriers = {4: np.dtype("u4"), 8: np.dtype("u8"), 16: np.dtype("c16")}
    parts = [part.view(carriers[value_bytes]) for part in parts]
    to_keys = np.empty_like(together)
    to_values = np.empty(len(together), carriers.get(value_bytes, np.uint8))
    _core.multiway_merge(together.itemsize, value_bytes, arrays, parts, to_keys, to_values, threads)
    order = np.argsort(together, kind="stable")
    assert (to_keys == together[order]).all()
    if value_bytes and len(together):
        assert (to_values.view(np.uint8).reshape(len(together), -1)[:, 0] == rows[order]).all()


@pytest.mark.parametrize("num_runs", [1, 2, 3, 4, 5, 16])
def test_many_records_with_the_extreme_keys(num_runs: int) -> None:
    random = np.random.default_rng(num_runs)
    runs = [np.sort(random.choice(np.array([0, 1, 2**63, 2**64 - 1], np.uint64), 50_000)) for _ in range(num_runs)]
    result, values = np.empty(50_000 * num_runs, np.uint64), np.empty(0, np.uint8)
    _core.multiway_merge(8, 0, runs, [], result, values)
    assert (result == np.sort(np.concatenate(runs))).all()


def test_a_rank_beyond_the_end_is_refused() -> None:
    with pytest.raises(linkwise.UsageError, match="rank 4 of 3"):
        _core.multisequence_select(4, [np.arange(3, dtype=np.uint32)], 4)
