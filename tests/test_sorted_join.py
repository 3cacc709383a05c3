"""Joins of sorted relations in host memory: how they are cut (join25 §3.3.1), and what they find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from conftest import SEEDS, cuda_runtime
from data import DISTRIBUTIONS
from linkwise import UsageError, _core
from linkwise.columns.key_types import key_type_of
from test_host_join import HOWS, expected_rows, pair, plan_for, ranks, special_floats, virtual

Array = NDArray[Any]


def keys_of(runs: list[Array], ranges: list[_core.RunRange]) -> list[int]:
    return sorted(
        int(key) for run, rows in zip(runs, ranges, strict=True) for key in run[rows.begin : rows.end].tolist()
    )


def check_cut(left: list[Array], right: list[Array], parts: int) -> _core.MergePathPartitions:
    """Everything is in one place, no key in two, parts rise and are no larger than their share."""
    found = _core.cut_sorted(_core.KeyType.u32, left, right, parts)
    total = sum(map(len, [*left, *right]))
    seen: dict[int, int] = {}
    everything: tuple[list[int], list[int]] = ([], [])
    for number, pair_of in enumerate([*found.parts, *found.taken_out]):
        sides = keys_of(left, pair_of.left), keys_of(right, pair_of.right)
        for key in {*sides[0], *sides[1]}:
            assert seen.setdefault(key, number) == number
        if number < parts:
            assert len(sides[0]) + len(sides[1]) <= total / parts + 1
        else:
            assert len({*sides[0], *sides[1]}) == 1
        everything[0].extend(sides[0])
        everything[1].extend(sides[1])
    assert sorted(everything[0]) == sorted(np.concatenate([[], *left]).tolist())
    assert sorted(everything[1]) == sorted(np.concatenate([[], *right]).tolist())
    bounds = [keys_of([*left, *right], [*part.left, *part.right]) for part in found.parts]
    flat = [key for part in bounds for key in part]
    assert flat == sorted(flat)
    return found


def array(*numbers: int) -> Array:
    return np.array(numbers, np.uint32)


def test_figure_7() -> None:
    """The second cut of four parts runs between two rows of key 9 in S: the key is taken out, with its ranges."""
    left, right = array(2, 7, 9, 11, 12, 14, 15, 18), array(1, 2, 3, 5, 9, 9, 10, 16)
    found = check_cut([left], [right], 4)
    assert [(key.left[0].begin, key.left[0].end, key.right[0].begin, key.right[0].end) for key in found.taken_out] == [
        (2, 3, 4, 6)
    ]
    assert (keys_of([left], found.parts[0].left), keys_of([right], found.parts[0].right)) == ([2], [1, 2, 3])
    assert (keys_of([left], found.parts[1].left), keys_of([right], found.parts[1].right)) == ([7], [5])


def test_figure_8a() -> None:
    """A part of one key that begins before it and ends behind it: the whole key is taken out."""
    left, right = array(1, 4, 4, 4, 4, 4, 4, 6), array(2, 4, 5, 7)
    found = check_cut([left], [right], 3)
    assert [(key.left[0].begin, key.left[0].end, key.right[0].begin, key.right[0].end) for key in found.taken_out] == [
        (1, 7, 1, 2)
    ]


def test_figure_8b() -> None:
    """A part between two keys that both go on outside of it: both are taken out, and what is left matches nothing."""
    left, right = array(1, 3, 3, 3, 4, 5, 5, 5, 8), array(3, 5, 9)
    found = check_cut([left], [right], 3)
    assert [left[key.left[0].begin] for key in found.taken_out] == [3, 5]
    middle = found.parts[1]
    assert (middle.left[0].begin, middle.left[0].end) == (4, 5)
    assert middle.right[0].begin == middle.right[0].end


@settings(max_examples=300, deadline=None)
@given(
    left=st.lists(st.lists(st.integers(0, 9) | st.integers(0, 2**32 - 1), max_size=40), max_size=4),
    right=st.lists(st.lists(st.integers(0, 9) | st.integers(0, 2**32 - 1), max_size=40), max_size=4),
    parts=st.integers(1, 20),
)
def test_any_runs_are_cut(left: list[list[int]], right: list[list[int]], parts: int) -> None:
    check_cut(*([np.sort(np.array(run, np.uint32)) for run in side] for side in (left, right)), parts)


def check_totals(
    runtime: _core.Runtime, plan: _core.JoinPlan, left: Array, right: Array, how: str, presorted: tuple[bool, bool]
) -> None:
    plan.path = _core.JoinPath.sorted
    left, right = (np.sort(side) if claimed else side for side, claimed in zip((left, right), presorted, strict=True))
    as_numbers = ranks(left, right)
    matched = expected_rows(*as_numbers, "inner")
    random = np.random.default_rng(len(matched))
    values = [random.integers(-50, 50, len(side)).astype(np.int64) for side in (left, right)]
    totals = _core.join_totals(runtime, plan, key_type_of(left.dtype), left, right, *values, how, True, *presorted)
    assert totals.rows == len(expected_rows(*as_numbers, how))
    sums = [int(side[rows].sum()) for side, rows in zip(values, matched.T, strict=True)]
    assert [totals.left_sum, totals.right_sum] == [total % 2**64 for total in sums]
    if not any(presorted):  # of which no row numbers are known
        check_rows(runtime, plan, left, right, how)
    if how == "inner":
        check_ranges(runtime, plan, left, right)


def check_rows(runtime: _core.Runtime, plan: _core.JoinPlan, left: Array, right: Array, how: str) -> None:
    expected = expected_rows(*ranks(left, right), how)
    is_filter = how in ("semi", "anti")
    made: list[Array | None] = []

    def outputs(rows: int) -> tuple[Array | None, ...]:
        made.extend([np.empty(rows, left.dtype), np.empty(rows, np.int64)])
        made.append(None if is_filter else np.empty(rows, np.int64))
        return tuple(made)

    kind = key_type_of(left.dtype)
    assert _core.join_rows(runtime, plan, kind, left, right, None, None, 8, how, True, outputs) == len(expected)
    keys, of_left, of_right = made
    assert (of_left == expected[:, 0]).all()
    shown = [left[i] if i >= 0 else right[j] for i, j in expected]
    assert np.array_equal(keys, np.array(shown, left.dtype), equal_nan=left.dtype.kind == "f")
    assert is_filter or (of_right == expected[:, 1]).all()


def check_ranges(runtime: _core.Runtime, plan: _core.JoinPlan, left: Array, right: Array) -> None:
    """Key by key, all rows of either side in their order."""
    as_numbers = ranks(left, right)
    both = np.intersect1d(*as_numbers)
    for width in (4, 8):
        plan.searches_each_key = width == 4
        found = _core.join_ranges(runtime, plan, key_type_of(left.dtype), left, right, width, True)
        for side, rows, first in ((as_numbers[0], *found[:2]), (as_numbers[1], *found[2:])):
            wanted = [np.flatnonzero(side == key) for key in both]
            assert (first == np.cumsum([0, *map(len, wanted)])).all()
            assert (rows == np.concatenate([*wanted, []])).all()


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("merges_runs", [False, True])
def test_every_kind(how: str, merges_runs: bool) -> None:
    for number, distribution in enumerate(DISTRIBUTIONS):
        num_gpus = number % 8 + 1
        left, right = pair(distribution, 300 + 100 * (number % 3), 500, [np.uint32, np.int64, np.int16][number % 3])
        for presorted in ((False, False), (True, False), (True, True)):
            plan = plan_for(num_gpus, chunkset_records=[0, 130][number % 2], slack=1.0, pair_bytes=500)
            plan.merges_runs = merges_runs
            check_totals(virtual(number), plan, left, right, how, presorted)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_match_as_numbers(dtype: Any, how: str) -> None:
    for seed, presorted in enumerate([(False, False), (False, False), (False, True), (True, True)]):
        left, right = special_floats(dtype, 300, seed), special_floats(dtype, 200, seed + 10)
        plan = plan_for(seed + 1, chunkset_records=[0, 90][seed % 2], slack=1.0, pair_bytes=300)
        check_totals(virtual(seed), plan, left, right, how, presorted)


def test_pairs_of_several_runs_are_sorted_by_leading_digits() -> None:
    left, right = pair("uniform", 12_000, 9_000, np.uint64)
    for num_gpus in (1, 2):
        plan = plan_for(num_gpus, chunkset_records=2000, slack=1.0, pair_bytes=1 << 20, merges_runs=False)
        plan.path = _core.JoinPath.sorted
        runtime = virtual(num_gpus)
        totals = _core.join_totals(runtime, plan, _core.KeyType.u64, left, right, how="inner")
        assert totals.rows == len(expected_rows(left, right, "inner"))
        looks = [entry for entry in runtime.timeline() if entry.name == "look at keys" and entry.phase == "join"]
        assert len(looks) > 2


@pytest.mark.parametrize("seed", SEEDS)
def test_every_legal_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = random.integers(0, 700, 2)
    dtype = [np.uint32, np.int64, np.uint64, np.int16][seed % 4]
    left, right = pair(str(random.choice(DISTRIBUTIONS)), int(sizes[0]), int(sizes[1]), dtype, seed)
    plan = plan_for(
        int(random.integers(1, 9)), chunkset_records=int(random.choice([0, 90, 300])), slack=1.0,
        pair_bytes=int(2 ** random.integers(6, 14)), merges_runs=bool(seed % 2),
    )  # fmt: skip
    presorted = bool(random.integers(0, 2)), bool(random.integers(0, 2))
    check_totals(virtual(seed), plan, left, right, HOWS[seed % 6], presorted)


@pytest.mark.parametrize("side", ["left", "right"])
def test_what_is_claimed_to_be_sorted_is_checked(side: str) -> None:
    random = np.random.default_rng(0)
    for trial in range(20):
        sides = {name: np.sort(random.integers(0, 300, 400).astype(np.int32)) for name in ("left", "right")}
        a, b = np.sort(random.choice(400, 2, replace=False))
        broken = sides[side]
        if broken[a] == broken[b]:
            continue
        broken[a], broken[b] = broken[b], broken[a]
        plan = plan_for(trial % 4 + 1, path=_core.JoinPath.sorted, pair_bytes=400)
        with pytest.raises(UsageError, match=f"the {side} side is not presorted"):
            _core.join_totals(
                virtual(), plan, _core.KeyType.i32, sides["left"], sides["right"], left_presorted=True,
                right_presorted=True,
            )  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("how", HOWS)
def test_on_gpus(how: str) -> None:
    runtime = cuda_runtime()
    for num_gpus in range(1, runtime.machine.num_gpus + 1):
        for number, distribution in enumerate(DISTRIBUTIONS):
            left, right = pair(distribution, 1500, 2500, [np.uint32, np.int64][number % 2], num_gpus)
            plan = plan_for(num_gpus, chunkset_records=[0, 700][number % 2], slack=1.0, pair_bytes=4000)
            check_totals(runtime, plan, left, right, how, (number % 3 == 0, number % 2 == 0))
