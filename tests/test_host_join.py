"""Joins of host columns on the GPUs: every kind, number of GPUs and distribution, under many seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import linkwise
from conftest import SEEDS, cuda_runtime
from data import DISTRIBUTIONS, keys
from linkwise import _core
from linkwise.columns.key_types import key_type_of

Array = NDArray[Any]
MACHINE = linkwise.load_machine("dgx-a100")
HOWS = ("inner", "left", "right", "full", "semi", "anti")
SIZES = ((0, 0), (0, 7), (7, 0), (1, 1), (300, 40), (40, 300), (500, 500))


def virtual(seed: int = 0) -> _core.Runtime:
    return _core.VirtualRuntime(MACHINE, _core.VirtualMode.execute, seed)


def plan_for(num_gpus: int, **fields: Any) -> _core.JoinPlan:
    """Many pieces, batches and windows already at these sizes, and few samples."""
    plan = _core.JoinPlan()
    sort = _core.SortPlan()
    sort.gpus = list(range(num_gpus))
    sort.samples, sort.piece_bytes = 1024, 300
    plan.batches, plan.window_rows = 3, 100
    for name, value in fields.items():
        setattr(sort if hasattr(sort, name) else plan, name, value)
    plan.sort = sort
    return plan


def expected_rows(left: Array, right: Array, how: str) -> Array:
    """Pairs of row numbers in the documented order, -1 for none; right rows of a semi or anti join are -1."""
    of_left, of_right = np.argsort(left, kind="stable"), np.argsort(right, kind="stable")
    low, high = (np.searchsorted(right[of_right], left[of_left], side) for side in ("left", "right"))
    if how in ("semi", "anti"):
        rows = of_left[(high > low) == (how == "semi")]
        return np.stack([rows, np.full(len(rows), -1)], axis=1)
    counts = high - low
    repeated = np.maximum(counts, 1) if how in ("left", "full") else counts
    within = np.arange(repeated.sum()) - np.repeat(np.cumsum(repeated) - repeated, repeated)
    matched = np.repeat(counts > 0, repeated)
    right_rows = np.full(len(within), -1)
    right_rows[matched] = of_right[(np.repeat(low, repeated) + within)[matched]]
    rows = np.stack([np.repeat(of_left, repeated), right_rows], axis=1)
    if how not in ("right", "full"):
        return rows
    alone = of_right[~np.isin(right[of_right], left)]
    rows = np.concatenate([rows, np.stack([np.full(len(alone), -1), alone], axis=1)])
    keys_of_rows = np.concatenate([left[rows[: len(within), 0]], right[alone]])
    return rows[np.argsort(keys_of_rows, kind="stable")]  # within a key, rows are of one side


def ranks(left: Array, right: Array) -> tuple[Array, Array]:
    """Integers that compare as the keys do in a join: -0.0 is 0.0, and NaN is NaN, behind all others."""
    if left.dtype.kind != "f":
        return left, right
    both = np.unique(np.concatenate([left, right]), return_inverse=True)[1]
    return both[: len(left)], both[len(left) :]


def special_floats(dtype: Any, count: int, seed: int) -> Array:
    """With NaNs of many bit patterns, infinities and zeros of both signs."""
    random = np.random.default_rng(seed)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.5, -2.0], dtype)
    bits = special.view(f"u{special.itemsize}")
    noise = random.integers(0, 4, count).astype(bits.dtype)
    drawn = random.choice(bits, count)
    return np.where(np.isnan(drawn.view(dtype)), drawn | noise, drawn).view(dtype)  # type: ignore[no-any-return]


def check_join(runtime: _core.Runtime, plan: _core.JoinPlan, left: Array, right: Array, how: str) -> None:
    kind = key_type_of(left.dtype)
    made: list[Array] = []

    def outputs(rows: int) -> tuple[None, Array, Array]:
        made.extend(np.empty(rows, np.uint32) for _ in range(2))
        return None, made[0], made[1]

    rows = _core.join_rows(runtime, plan, kind, left, right, None, None, 4, how, True, outputs)
    as_numbers = ranks(left, right)
    expected = expected_rows(*as_numbers, how)
    assert rows == len(expected)
    assert (made[0].astype(np.int32) == expected[:, 0]).all()
    if how not in ("semi", "anti"):
        assert (made[1].astype(np.int32) == expected[:, 1]).all()
    random = np.random.default_rng(rows)
    values = [random.integers(-50, 50, len(side)).astype(np.int32) for side in (left, right)]
    totals = _core.join_totals(runtime, plan, kind, left, right, *values, how)
    assert totals.rows == len(expected)
    matched = expected_rows(*as_numbers, "inner")
    sums = [int(side[rows].astype(np.int64).sum()) for side, rows in zip(values, matched.T, strict=True)]
    assert [totals.left_sum, totals.right_sum] == [total % 2**64 for total in sums]
    assert _core.join_totals(runtime, plan, kind, left, right, how=how).rows == len(expected)


def pair(distribution: str, left: int, right: int, dtype: Any, seed: int = 0) -> tuple[Array, Array]:
    """Keys of both sides, of which many match: few different ones."""
    sides = (keys(distribution, left, dtype, seed), keys(distribution, right, dtype, seed + 1))
    if np.dtype(dtype).kind == "f":
        return sides
    fewer = max(left, right, 2) * 2 // 3 + 1
    most = min(fewer, np.iinfo(dtype).max)
    return tuple((side % dtype(most)).astype(dtype) for side in sides)  # type: ignore[return-value]


@pytest.mark.parametrize("num_gpus", range(1, 9))
@pytest.mark.parametrize("how", HOWS)
def test_every_kind_size_and_distribution(how: str, num_gpus: int) -> None:
    for number, distribution in enumerate(DISTRIBUTIONS):
        left, right = pair(distribution, *SIZES[(number + num_gpus) % len(SIZES)], np.uint32)
        check_join(virtual(number), plan_for(num_gpus), left, right, how)


@pytest.mark.parametrize(
    "dtype", [np.uint64, np.int64, np.int32, np.int16, np.uint8, np.float16, np.float32, np.float64]
)
def test_every_kind_of_key(dtype: Any) -> None:
    is_float = np.dtype(dtype).kind == "f"
    left, right = (
        (special_floats(dtype, 200, 1), special_floats(dtype, 150, 2)) if is_float else pair("uniform", 400, 300, dtype)
    )
    for how in HOWS:
        check_join(virtual(), plan_for(3), left, right, how)


@pytest.mark.parametrize("num_gpus", [2, 3, 8])
@pytest.mark.parametrize("how", HOWS)
def test_heavy_keys_are_shared(how: str, num_gpus: int) -> None:
    """A key, or two, that alone would overload a GPU, on either side or on both."""
    random = np.random.default_rng(num_gpus)
    for heavy_left, heavy_right in ((0.0, 0.5), (0.5, 0.0), (0.6, 0.3), (1.0, 1.0)):
        left, right = (random.integers(0, 400, n).astype(np.uint32) for n in (600, 500))
        for side, share in ((left, heavy_left), (right, heavy_right)):
            chosen = random.random(len(side)) < share
            side[chosen] = np.where(random.random(chosen.sum()) < 0.7, 77, 78)
        check_join(virtual(), plan_for(num_gpus), left, right, how)


def looks_at_keys(runtime: _core.Runtime) -> int:
    return sum(entry.name == "look at keys" for entry in runtime.timeline())


@pytest.mark.parametrize("num_gpus", [1, 2, 4])
@pytest.mark.parametrize("how", HOWS)
def test_sides_are_sorted_by_leading_digits(how: str, num_gpus: int) -> None:
    left, right = pair("uniform", 5000 * num_gpus, 4001 * num_gpus, np.uint64)
    runtime = virtual(num_gpus)
    check_join(runtime, plan_for(num_gpus, piece_bytes=9000, samples=4096), left, right, how)
    # In the last join, each side's sample, and then on each GPU what it has of a side.
    assert looks_at_keys(runtime) >= 2 + 2 * num_gpus
    # Half of any range's keys lie at its beginning, so that cutting it evenly divides few of them.
    powers = [
        (np.uint64(1) << (side % np.uint64(50) + np.uint64(10))) + side % np.uint64(997) for side in (left, right)
    ]
    runtime = virtual(num_gpus)
    check_join(runtime, plan_for(num_gpus, piece_bytes=9000, samples=4096), *powers, how)
    assert looks_at_keys(runtime) == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_every_legal_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    dtype = [np.uint32, np.int64, np.uint64, np.int16][seed % 4]
    sizes = random.integers(0, 700, 2)
    left, right = pair(str(random.choice(DISTRIBUTIONS)), int(sizes[0]), int(sizes[1]), dtype, seed)
    if seed % 3 == 0:
        left.sort()
    if seed % 5 == 0:
        right.sort()
    plan = plan_for(
        int(random.integers(1, 9)), batches=int(random.integers(1, 6)), piece_bytes=int(2 ** random.integers(6, 12)),
        window_rows=int(random.integers(1, 400)), samples=int(random.integers(600, 6000)),
    )  # fmt: skip
    check_join(virtual(seed), plan, left, right, HOWS[seed % 6])


def samples_of(split: Array, whole: Array) -> tuple[Array, Array]:
    """All keys of two relations as samples: codes and tags, in order, those of the split relation first."""
    codes = np.concatenate([split, whole]).astype(np.uint64)
    tags = np.concatenate(
        [np.arange(len(split), dtype=np.uint64), np.arange(len(whole), dtype=np.uint64) | np.uint64(_core.WHOLE_BIT)]
    )
    order = np.argsort(codes, kind="stable")
    return codes[order], tags[order]


@pytest.mark.parametrize("parts", [2, 5, 8])
@pytest.mark.parametrize("heavy", [0.0, 0.3, 0.9, 1.0])
def test_cuts_balance_and_keep_what_matches_together(heavy: float, parts: int) -> None:
    random = np.random.default_rng(parts)
    split, whole = random.integers(0, 1 << 40, 20_000), random.integers(0, 1 << 40, 5000)
    split[random.random(len(split)) < heavy] = 1 << 39
    whole[random.random(len(whole)) < heavy / 2] = 1 << 39
    found = _core.cut_join_samples(*samples_of(split, whole), len(split), len(whole), parts, 0.0)
    assert [(cut.code, cut.tag) for cut in found.cuts] == sorted((cut.code, cut.tag) for cut in found.cuts)
    rows = np.zeros((2, parts), np.int64)
    for part in range(parts):
        low = found.cuts[part - 1] if part > 0 else None
        high = found.cuts[part] if part < parts - 1 else None
        at = np.arange(len(split))
        after = (
            np.ones(len(split), bool) if low is None else (split > low.code) | ((split == low.code) & (at >= low.tag))
        )
        before = (
            np.ones(len(split), bool)
            if high is None
            else (split < high.code) | ((split == high.code) & (at < high.tag))
        )
        rows[0, part] = (after & before).sum()
        assert rows[0, part] <= found.split_room[part].rows
        if found.borrows(part):
            assert low is not None
            owner = found.owner(part)
            assert (found.cuts[owner].code, found.cuts[owner].tag > 0) == (low.code, True)
            assert ((split == low.code) & after & before).any()
            assert (whole == low.code).sum() <= found.whole_room[part].borrowed
    assert rows.sum() == len(split)
    borrowing = sum(found.borrows(part) for part in range(parts))
    assert (borrowing > 0) == (heavy > 0)
    assert rows[0].max() < 1.3 * (len(split) + len(whole)) / parts


@pytest.mark.gpu
@pytest.mark.parametrize("how", HOWS)
def test_on_gpus(how: str) -> None:
    runtime = cuda_runtime()
    for num_gpus in range(1, runtime.machine.num_gpus + 1):
        for number, distribution in enumerate(DISTRIBUTIONS):
            dtype = [np.uint32, np.int64][number % 2]
            left, right = pair(distribution, 1500, 2500, dtype, num_gpus)
            check_join(runtime, plan_for(num_gpus, window_rows=30_000, piece_bytes=2000), left, right, how)
