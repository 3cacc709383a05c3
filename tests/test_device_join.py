"""Joins of what lies on the GPUs: NumPy arrays stand in for them on virtual machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import linkwise
from conftest import SEEDS, cuda_runtime
from data import DISTRIBUTIONS
from linkwise import UsageError, _core
from linkwise.interop.device_arrays import copied_to_host
from test_device_sort import on_gpu
from test_host_join import HOWS, expected_rows, pair, plan_for, virtual

Array = NDArray[Any]
FEW_KEYS = ("zipf", "all_equal", "one_bit")


def parts_of(side: Array, count: int, seed: int) -> list[Array]:
    """As unequal parts, some of them empty."""
    cuts = np.sort(np.random.default_rng(seed).integers(0, len(side) + 1, count - 1))
    return [np.ascontiguousarray(part) for part in np.split(side, cuts)]


def laid_out(runtime: _core.Runtime, num_gpus: int, seed: int, *sides: list[Array]) -> list[Any]:
    """Sides of one column of keys, and of one of values or none, in unequal parts on the GPUs."""
    on_gpus = []
    for number, columns in enumerate(sides):
        parts = [parts_of(column, num_gpus, seed + number) for column in columns]
        if not runtime.simulated:
            parts = [[on_gpu(p, g) for g, p in enumerate(of)] for of in parts]
        on_gpus.append(_core.ArraysOfSide(parts[0], parts[1] if len(parts) > 1 else [], [None] * num_gpus))
    return on_gpus


def check_join(
    runtime: _core.Runtime, num_gpus: int, left: Array, right: Array, how: str, seed: int = 0, **way: Any
) -> None:
    plan = plan_for(num_gpus, samples=20_000)
    matched = expected_rows(left, right, "inner")
    random = np.random.default_rng(seed)
    values = [random.integers(-9, 9, len(side)).astype([np.int32, np.int64][seed % 2]) for side in (left, right)]
    sides = laid_out(runtime, num_gpus, seed, [left, values[0]], [right, values[1]])
    totals = _core.join_device_totals(runtime, plan, *sides, how, **way)
    assert totals.rows == len(expected_rows(left, right, how))
    sums = [int(side[rows].sum()) for side, rows in zip(values, matched.T, strict=True)]
    assert [totals.left_sum, totals.right_sum] == [total % 2**64 for total in sums]
    keys_alone = laid_out(runtime, num_gpus, seed, [left], [right])
    assert _core.join_device_totals(runtime, plan, *keys_alone, how, **way).rows == totals.rows


def check_rows(
    runtime: _core.Runtime,
    num_gpus: int,
    left: Array,
    right: Array,
    how: str,
    seed: int = 0,
    **way: Any,
) -> None:
    """Row numbers of the result, and values that come with the keys instead of them."""
    plan = plan_for(num_gpus, samples=20_000)
    plan.window_rows = 64 if runtime.simulated else 1 << 16
    expected = expected_rows(left, right, how)
    for carries in (False, True):
        numbers = [np.int64, np.int32][seed % 2]
        columns = [[side, np.arange(len(side), dtype=numbers)][: 1 + carries] for side in (left, right)]
        sides = laid_out(runtime, num_gpus, seed, *columns)
        found = _core.join_device_rows(runtime, plan, *sides, how, **way)
        assert len(found) == num_gpus
        rows = np.concatenate([of_left.numpy() for of_left, _ in found])
        if how in ("semi", "anti"):
            assert all(of_right is None for _, of_right in found)
            assert (np.sort(rows) == np.sort(expected[:, 0])).all()
            continue
        pairs = np.stack([rows, np.concatenate([of_right.numpy() for _, of_right in found])], axis=1)
        assert len(pairs) == len(expected)
        assert (pairs[np.lexsort(pairs.T)] == expected[np.lexsort(expected.T)]).all()


TABLE_ROWS = (8, 64, 0)
"""Of the build side in a table at once: with few, parts take several turns, and two passes are needed; 0: as usual."""


@pytest.mark.parametrize("num_gpus", range(1, 9))
@pytest.mark.parametrize("how", HOWS)
def test_hash_join_of_every_kind(how: str, num_gpus: int) -> None:
    """Of either side the shorter one, and of every distribution."""
    for number, distribution in enumerate(DISTRIBUTIONS):
        dtype = [np.uint32, np.int64, np.uint8, np.uint64][number % 4]
        counts = [(400, 700), (700, 400), (0, 9), (1000, 30), (30, 1000)][(number + num_gpus) % 5]
        left, right = pair(distribution, *counts, dtype, number)
        way = {"way": "hash", "table_rows": TABLE_ROWS[number % 3]}
        with spread_or_told(distribution):
            check_join(virtual(number), num_gpus, left, right, how, number, **way)
        with spread_or_told(distribution):
            check_rows(virtual(number), num_gpus, left, right, how, number, **way)


@contextmanager
def spread_or_told(distribution: str) -> Iterator[None]:
    """Keys that are few do not spread over the GPUs by their hashes."""
    try:
        yield
    except UsageError as error:
        assert distribution in FEW_KEYS and "more than its share of the hashed keys" in str(error), distribution


@pytest.mark.parametrize("seed", SEEDS)
def test_hash_join_in_every_legal_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    left, right = pair("uniform", *map(int, random.integers(0, 3000, 2)), [np.uint32, np.int64][seed % 2], seed)
    num_gpus, how = int(random.integers(1, 9)), HOWS[seed % 6]
    way = {"way": "hash", "table_rows": TABLE_ROWS[seed % 3]}
    check_join(virtual(seed), num_gpus, left, right, how, seed, **way)
    check_rows(virtual(seed), num_gpus, left, right, how, seed, **way)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hash_join_of_floats(dtype: Any) -> None:
    """Zeros of both signs are one key, and so are all NaNs."""
    nans = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5], dtype)
    random = np.random.default_rng(0)
    sides = [random.choice(nans, count) for count in (300, 200)]
    plan = plan_for(1)
    for how in HOWS:
        on_gpus = laid_out(virtual(), 1, 0, *([side] for side in sides))
        totals = _core.join_device_totals(virtual(), plan, *on_gpus, how, way="hash", table_rows=8)
        assert totals.rows == linkwise.join_count(*sides, how, strategy="cpu")


def phases(runtime: _core.Runtime) -> set[str]:
    return {entry.phase for entry in runtime.timeline()}


def test_which_way_is_chosen() -> None:
    """Hashing, unless rows are to come by key, or samples see a key with too many rows."""
    plan = plan_for(2)
    random = np.random.default_rng(0)
    even = [random.permutation(60_000).astype(np.uint32) for _ in range(2)]
    heavy = [np.where(random.random(60_000) < 0.2, np.uint32(7), side) for side in even]
    one_heavy = [even[0], heavy[1]]
    for sides, any_order, sorts in ((even, True, False), (even, False, True), (heavy, True, True)):
        runtime = virtual()
        few = [side[:4000] for side in sides]
        found = _core.join_device_rows(
            runtime, plan, *laid_out(runtime, 2, 0, *([side] for side in few)), any_order=any_order, table_rows=8
        )
        assert ("sort" in phases(runtime)) == sorts
        assert sum(len(of_left.numpy()) for of_left, _ in found) == counted(*few)
    for sides, sorts in ((even, False), (heavy, True), (one_heavy, False)):
        runtime = virtual()
        totals = _core.join_device_totals(runtime, plan, *laid_out(runtime, 2, 0, *([side] for side in sides)))
        assert totals.rows == counted(*sides)
        assert ("sort" in phases(runtime)) == sorts


def test_keys_that_are_all_a_little_frequent_are_sorted() -> None:
    """Pairs of which counting would see each; samples have few of any one key."""
    random = np.random.default_rng(0)
    for dtype in (np.uint32, np.float64):
        sides = [random.integers(0, 600, 60_000).astype(dtype) for _ in range(2)]
        if dtype == np.float64:
            sides = [np.where(random.random(60_000) < 0.1, np.array([0.0, -0.0]).take(side % 2), sides[0])
                     for side in random.integers(0, 2, (2, 60_000))]  # fmt: skip
        runtime = virtual()
        totals = _core.join_device_totals(runtime, plan_for(2), *laid_out(runtime, 2, 0, *([side] for side in sides)))
        assert totals.rows == counted(*sides)
        assert "sort" in phases(runtime)


@pytest.mark.parametrize("wants_rows", [False, True])
def test_sorting_takes_over_where_hashing_finds_no_memory(wants_rows: bool) -> None:
    left, right = pair("uniform", 3000, 4000, np.uint32)

    def join(failing: int, way: str) -> tuple[int, bool]:
        runtime = virtual(failing)
        sides = laid_out(runtime, 2, 3, [left], [right])
        runtime.set_faults(failing_allocation=failing)
        asked: dict[str, Any] = {"way": way, "table_rows": 64}
        if wants_rows:
            found = _core.join_device_rows(runtime, plan_for(2), *sides, any_order=True, **asked)
            rows = sum(len(of_left.numpy()) for of_left, _ in found)
        else:
            rows = _core.join_device_totals(runtime, plan_for(2), *sides, **asked).rows
        return rows, "sort" in phases(runtime)

    with pytest.raises(linkwise.OutOfMemoryError):
        join(1, "hash")
    number, sorts = 0, True
    while sorts:
        number += 1
        rows, sorts = join(number, "auto")
        assert rows == counted(left, right)
    assert number > 10


def counted(left: Array, right: Array) -> int:
    keys = np.union1d(left, right)
    return int((np.searchsorted(np.sort(left), keys, "right") - np.searchsorted(np.sort(left), keys)) @
               (np.searchsorted(np.sort(right), keys, "right") - np.searchsorted(np.sort(right), keys)))  # fmt: skip


def test_hash_join_says_what_it_cannot() -> None:
    alike = [np.zeros(60_000, np.uint32)] * 2
    for table_rows in (8, 0):
        with pytest.raises(UsageError, match="more than its share of the hashed keys"):
            _core.join_device_totals(
                virtual(), plan_for(4), *laid_out(virtual(), 4, 0, *([side] for side in alike)), way="hash",
                table_rows=table_rows,
            )  # fmt: skip
    sides = laid_out(virtual(), 1, 0, *([side] for side in alike))
    with pytest.raises(UsageError, match="a table takes at most 8192 rows"):
        _core.join_device_totals(virtual(), plan_for(1), *sides, way="hash", table_rows=8193)
    with pytest.raises(UsageError, match="way is 'both'; it is auto, sort_merge, hash, unpartitioned or direct"):
        _core.join_device_totals(virtual(), plan_for(1), *sides, way="both")


@pytest.mark.parametrize("how", ["inner", "full", "semi"])
@pytest.mark.parametrize("counts", [(6000, 6000), (800, 6000)])
def test_every_flipped_bit_of_an_exchange_is_found(how: str, counts: tuple[int, int]) -> None:
    """Of rows that go to their GPU, and of copies of a short side, which go to all."""
    left, right = pair("uniform", *counts, np.uint32)
    plan = plan_for(2)

    def join(number: int, *, wants_rows: bool) -> int:
        runtime = virtual(number)
        sides = laid_out(runtime, 2, 3, [left], [right])
        runtime.set_faults(flipped_copy=number)
        of_sides = _core.join_device_rows if wants_rows else _core.join_device_totals
        of_sides(runtime, plan, *sides, how, way="hash", table_rows=400)
        return int(runtime.large_copies)

    for wants_rows in (False, True):
        copies = join(0, wants_rows=wants_rows)
        assert copies >= 2
        for number in range(1, copies + 1):
            with pytest.raises(linkwise.CorruptDataError, match=r"not (those that|what) came in"):
                join(number, wants_rows=wants_rows)


@pytest.mark.gpu
def test_hash_join_on_gpus() -> None:
    pytest.importorskip("cupy")
    runtime = cuda_runtime()
    for num_gpus in range(1, runtime.machine.num_gpus + 1):
        for number, how in enumerate(HOWS):
            for dtype in (np.uint32, np.int64, np.uint8, np.float64):
                for rows in (
                    (1000, 5000),
                    (5000, 1000),
                    (0, 9),
                    (12_000, 50_000),
                    (300_000, 200_000),
                    (20_000, 2_000_000),
                ):
                    if dtype == np.uint8 and rows[1] > 5000:
                        continue
                    left, right = pair("uniform", *rows, dtype, num_gpus)
                    way = {"way": "hash", "table_rows": TABLE_ROWS[number % 3]}
                    if rows[1] > 5000 and way["table_rows"]:
                        way["table_rows"] = 512
                    check_join(runtime, num_gpus, left, right, how, number, **way)
                    check_rows(runtime, num_gpus, left, right, how, number, **way)


@pytest.mark.parametrize("num_gpus", [1, 2, 3, 8])
@pytest.mark.parametrize("how", HOWS)
def test_rows_of_every_kind(how: str, num_gpus: int) -> None:
    for number, distribution in enumerate(DISTRIBUTIONS):
        dtype = [np.uint32, np.int64, np.uint8][number % 3]
        left, right = pair(distribution, 400, [700, 0, 30][number % 3], dtype, number)
        check_rows(virtual(number), num_gpus, left, right, how, number)


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_in_every_legal_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = random.integers(0, 500, 2)
    dtype = [np.uint32, np.int64, np.uint64, np.int16][seed % 4]
    left, right = pair(str(random.choice(DISTRIBUTIONS)), int(sizes[0]), int(sizes[1]), dtype, seed)
    check_rows(virtual(seed), int(random.integers(1, 9)), left, right, HOWS[seed % 6], seed)


SHORT_AND_LONG = ((0, 9), (1, 1), (3, 700), (700, 3), (30, 1000), (1000, 120))


def check_any_order(runtime: _core.Runtime, num_gpus: int, distribution: str, seed: int) -> None:
    for number, (count, other) in enumerate(SHORT_AND_LONG):
        left, right = pair(distribution, count, other, [np.uint32, np.int64, np.uint16][number % 3], seed)
        check_rows(runtime, num_gpus, left, right, "inner", seed, any_order=True)
        if runtime.simulated:
            assert "partition" not in phases(runtime)


@pytest.mark.parametrize("num_gpus", range(1, 9))
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_short_side_goes_everywhere(distribution: str, num_gpus: int) -> None:
    """If rows may stand in any order; the long side stays where it is."""
    check_any_order(virtual(num_gpus), num_gpus, distribution, num_gpus)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_short_side_goes_everywhere_in_every_legal_order(seed: int) -> None:
    check_any_order(virtual(seed), [2, 3, 5, 8][seed % 4], DISTRIBUTIONS[seed % len(DISTRIBUTIONS)], seed)


@pytest.mark.parametrize(("most", "is_exchanged"), [(30_000, True), (50_000, False)])
def test_two_long_sides_are_exchanged(most: int, is_exchanged: bool) -> None:
    runtime = virtual()
    left, right = np.arange(10_000, dtype=np.uint32), np.arange(most, dtype=np.uint32)
    found = _core.join_device_rows(
        runtime, plan_for(2), *laid_out(runtime, 2, 0, [left], [right]), "inner", any_order=True, table_rows=64
    )
    of_left, of_right = (np.concatenate([rows[side].numpy() for rows in found]) for side in range(2))
    assert (np.sort(of_left) == left).all() and (of_left == of_right).all()
    moved = sum(entry.bytes for entry in runtime.timeline() if entry.phase == "exchange" and entry.is_copy)
    assert (moved > 4 * most) == is_exchanged


@pytest.mark.gpu
def test_a_short_side_goes_everywhere_on_gpus() -> None:
    pytest.importorskip("cupy")
    runtime = cuda_runtime()
    for num_gpus in range(1, runtime.machine.num_gpus + 1):
        for number, distribution in enumerate(DISTRIBUTIONS):
            check_any_order(runtime, num_gpus, distribution, number)


@pytest.mark.parametrize("num_gpus", range(1, 9))
@pytest.mark.parametrize("how", HOWS)
def test_every_kind_and_distribution(how: str, num_gpus: int) -> None:
    for number, distribution in enumerate(DISTRIBUTIONS):
        dtype = [np.uint32, np.int64, np.uint8][number % 3]
        left, right = pair(distribution, 400, [700, 0, 30][number % 3], dtype, number)
        check_join(virtual(number), num_gpus, left, right, how, number)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_legal_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = random.integers(0, 900, 2)
    dtype = [np.uint32, np.int64, np.uint64, np.int16][seed % 4]
    left, right = pair(str(random.choice(DISTRIBUTIONS)), int(sizes[0]), int(sizes[1]), dtype, seed)
    check_join(virtual(seed), int(random.integers(1, 9)), left, right, HOWS[seed % 6], seed)


def test_public_call() -> None:
    left, right = pair("uniform", 500, 800, np.int32)
    lists = [parts_of(side, 4, 1) for side in (left, right)]
    for how in HOWS:
        assert linkwise.join_count(*lists, how, machine="dgx-a100") == len(expected_rows(left, right, how))
        found = linkwise.join_indices(*lists, how, machine="dgx-a100")
        expected = expected_rows(left, right, how)
        of_left = np.concatenate(found[0]).tolist()
        if how in ("semi", "anti"):
            assert found[1] is None and sorted(of_left) == sorted(expected[:, 0].tolist())
        else:
            assert sorted(zip(of_left, np.concatenate(found[1]).tolist(), strict=True)) == sorted(map(tuple, expected))
        by_left = linkwise.join_indices(*lists, how, order="left", machine="dgx-a100")
        in_host_memory = linkwise.join_indices(left, right, how, order="left", strategy="cpu")
        for ours, theirs in zip(by_left, in_host_memory, strict=True):
            assert ours is None or (np.concatenate(ours) == theirs).all()
            assert ours is None or ours[0].dtype == np.int64
    with pytest.raises(UsageError, match="one side of the join lies on GPUs"):
        linkwise.join_count(lists[0], right, machine="dgx-a100")
    with pytest.raises(UsageError, match="4 arrays on the left and 3 on the right"):
        linkwise.join_count(lists[0], lists[1][:3], machine="dgx-a100")
    with pytest.raises(UsageError, match="strategy= is 'cpu', and joins on the GPUs hash, or sort with radix"):
        linkwise.join_count(*lists, machine="dgx-a100", strategy="cpu")
    with pytest.raises(UsageError, match="presorted= is for keys in host memory"):
        linkwise.join_indices(*lists, machine="dgx-a100", presorted=True)
    with pytest.raises(UsageError, match="type <U1 is no array of numbers"):
        linkwise.join_count([np.array(["a"])], [np.array(["b"])], machine="dgx-a100")
    swapped = [[part.astype(part.dtype.newbyteorder()) for part in parts] for parts in lists]
    for part in swapped[0]:
        part.flags.writeable = False
    assert linkwise.join_count(*swapped, machine="dgx-a100") == linkwise.join_count(*lists, machine="dgx-a100")


def check_ranges(left: Array, right: Array, sides: list[Any], machine: str) -> None:
    found, expected = linkwise.join_ranges(*sides, machine=machine), linkwise.join_ranges(left, right, strategy="cpu")
    for field in fields(expected):
        of_gpus = copied_to_host(getattr(found, field.name))
        assert of_gpus.dtype == np.int64 and of_gpus.tolist() == getattr(expected, field.name).tolist()
    assert len(found) == len(expected) and found.matches == expected.matches


@pytest.mark.parametrize("num_gpus", [1, 2, 3])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_ranges(distribution: str, num_gpus: int) -> None:
    """The same as of keys in host memory, from one GPU to the next."""
    for dtype in (np.int64, np.uint32, np.float32):
        left, right = pair(distribution, 300, 500, dtype, num_gpus)
        lists = [parts_of(side, num_gpus, at) for at, side in enumerate((left, right))]
        check_ranges(left, right, lists, "dgx-a100")
    check_ranges(left, right[:0], [lists[0], [part[:0] for part in lists[1]]], "dgx-a100")
    with pytest.raises(UsageError, match="presorted= is for keys in host memory"):
        linkwise.join_ranges(*lists, machine="dgx-a100", presorted=True)


@pytest.mark.gpu
def test_ranges_on_gpus() -> None:
    cupy = pytest.importorskip("cupy")
    for number, distribution in enumerate(DISTRIBUTIONS):
        left, right = pair(distribution, 3000, 5000, [np.int64, np.float32][number % 2])
        arrays = [on_gpu(side, 0) for side in (left, right)]
        check_ranges(left, right, arrays, "auto")
        assert isinstance(linkwise.join_ranges(*arrays).left_first, cupy.ndarray)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("machine", ["dgx-a100", pytest.param("local", marks=pytest.mark.gpu)])
def test_floats_join_as_numbers(dtype: Any, machine: str) -> None:
    """Zeros of both signs are one key, and so are all NaNs, as in joins of host memory."""
    nans = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5], dtype)
    random = np.random.default_rng(0)
    sides = [random.choice(nans, count) for count in (300, 200)]
    of_gpus = [side if machine == "dgx-a100" else on_gpu(side, 0) for side in sides]
    for how in HOWS:
        expected = linkwise.join_count(*sides, how, strategy="cpu")
        assert linkwise.join_count(*([side] for side in of_gpus), how, machine=machine) == expected


@pytest.mark.gpu
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("is_left_long", [True, False])
def test_unique_keys_and_a_long_probe_side(how: str, is_left_long: bool) -> None:
    """Of a side so long that the table's state is read first, each row makes one row at most."""
    cupy = pytest.importorskip("cupy")
    random = np.random.default_rng(0)
    short, long = random.permutation(3000).astype(np.uint32) * 7, random.integers(0, 25_000, 5_000_000, np.uint32)
    sides = (long, short) if is_left_long else (short, long)
    found = linkwise.join_indices(*map(cupy.asarray, sides), how)
    left, right = (np.full(len(found[0]), -1) if rows is None else rows.get() for rows in found)
    has_left, has_right = left >= 0, right >= 0
    pairs = has_left & has_right
    assert (sides[0][left[pairs]] == sides[1][right[pairs]]).all()
    matches = [np.isin(sides[0], sides[1]), np.isin(sides[1], sides[0])]
    expected_left = {"semi": matches[0], "anti": ~matches[0]}.get(how)
    if expected_left is not None:
        assert (np.sort(left) == np.flatnonzero(expected_left)).all()
        return
    assert pairs.sum() == matches[0 if is_left_long else 1].sum()  # each row of the long side has one partner at most
    lonely = [np.sort(left[~has_right]), np.sort(right[~has_left])]
    for rows, is_matched, kinds in zip(lonely, matches, (("left", "full"), ("right", "full")), strict=True):
        assert rows.tolist() == (np.flatnonzero(~is_matched) if how in kinds else np.empty(0)).tolist()


@pytest.mark.gpu
@pytest.mark.parametrize("how", HOWS)
def test_on_gpus(how: str) -> None:
    pytest.importorskip("cupy")
    runtime = cuda_runtime()
    for num_gpus in range(1, runtime.machine.num_gpus + 1):
        for number, distribution in enumerate(DISTRIBUTIONS):
            left, right = pair(distribution, 1500, 2500, [np.uint32, np.int64][number % 2], num_gpus)
            check_join(runtime, num_gpus, left, right, how, number)
            check_rows(runtime, num_gpus, left, right, how, number)
    left, right = pair("uniform", 1000, 1000, np.uint32)
    arrays = on_gpu(left, 0), on_gpu(right, 0)
    assert linkwise.join_count(*arrays, how) == len(expected_rows(left, right, how))
    found = linkwise.join_indices(*arrays, how)
    assert sorted(found[0].get().tolist()) == sorted(expected_rows(left, right, how)[:, 0].tolist())
