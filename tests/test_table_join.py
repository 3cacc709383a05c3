"""Joins of what lies on the GPUs with one table of the shorter side: NumPy arrays stand in on virtual machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwise
from conftest import SEEDS, cuda_runtime
from data import DISTRIBUTIONS
from linkwise import UsageError, _core
from linkwise.machines.description import machine_from_dict, machine_to_dict
from test_device_join import check_join, check_rows, laid_out, phases
from test_host_join import HOWS, expected_rows, pair, plan_for, virtual

DTYPES = (np.uint32, np.int64, np.uint8, np.uint64, np.int16, np.int32)
WAYS = ("unpartitioned", "direct")


def sides_of(way: str, dtype: Any, build: int, probe: int, seed: int) -> tuple[Any, Any]:
    """For a direct table the shorter side's keys are unique and dense, and the longer side's also lie around them."""
    random = np.random.default_rng(seed)
    if way == "unpartitioned":
        return pair("uniform", build, probe, dtype, seed)
    info = np.iinfo(dtype)
    build = min(build, info.max // 4)
    least = [int(info.min), int(info.max) - 2 * build, -build if info.min else 0, 0][seed % 4]
    keys = random.choice(2 * build + 1, build, replace=False)
    others = random.integers(-build, 3 * build + 1, probe)
    # Around the ends of the type, keys of the longer side come from the other end.
    return tuple((side.astype(np.uint64) + np.uint64(least % 2**64)).astype(dtype) for side in (keys, others))  # type: ignore[return-value]


def check_way(runtime: _core.Runtime, num_gpus: int, left: Any, right: Any, how: str, seed: int, way: str) -> None:
    """Counts, sums and rows; or one line, where a table on each GPU would emit its rows several times."""
    left_probes = len(left) > len(right)
    emits_build_alone = how == "full" or how in (("right",) if left_probes else ("left", "semi", "anti"))
    if num_gpus > 1 and emits_build_alone:
        with pytest.raises(UsageError, match="would be found on all; join with way hash or sort_merge"):
            check_join(runtime, num_gpus, left, right, how, seed, way=way)
        return
    check_join(runtime, num_gpus, left, right, how, seed, way=way)
    check_rows(runtime, num_gpus, left, right, how, seed, way=way)


@pytest.mark.parametrize("num_gpus", [1, 2, 5])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("way", WAYS)
def test_every_kind(way: str, how: str, num_gpus: int) -> None:
    for number, dtype in enumerate(DTYPES):
        for build, probe in ((120, 900), (1, 7), (400, 500)):
            left, right = sides_of(way, dtype, build, probe, number)
            if number % 2:
                left, right = right, left
            check_way(virtual(number), num_gpus, left, right, how, number, way)


@pytest.mark.parametrize("how", HOWS)
def test_every_distribution(how: str) -> None:
    """Equal keys on both sides: several matches for a probe row, so that the memory for one each does not suffice."""
    for number, distribution in enumerate(DISTRIBUTIONS):
        dtype = [np.uint32, np.int64][number % 2]
        left, right = pair(distribution, 60, 400, dtype, number)
        try:
            check_way(virtual(number), 1, left, right, how, number, "unpartitioned")
        except UsageError as error:
            assert "have the same key for one table" in str(error)
            assert len(np.unique(left)) <= len(left) // 8


@pytest.mark.parametrize("seed", SEEDS)
def test_every_legal_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    way = WAYS[seed % 2]
    left, right = sides_of(way, DTYPES[seed % 6], int(random.integers(1, 300)), int(random.integers(300, 900)), seed)
    check_way(virtual(seed), int(random.integers(1, 9)), left, right, HOWS[seed % 6], seed, way)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats(dtype: Any) -> None:
    """Zeros of both signs are one key, and so are all NaNs."""
    random = np.random.default_rng(0)
    build = np.concatenate([random.permutation(40).astype(dtype), np.array([np.nan], dtype)])
    probe = random.choice(np.concatenate([build, np.array([-np.nan, -0.0], dtype)]), 300)
    for how in HOWS:
        sides = laid_out(virtual(), 1, 0, [build], [probe])
        totals = _core.join_device_totals(virtual(), plan_for(1), *sides, how, way="unpartitioned")
        assert totals.rows == linkwise.join_count(build, probe, how, strategy="cpu")


def test_empty_sides() -> None:
    keys, nobody = np.arange(9, dtype=np.int32), np.zeros(0, np.int32)
    for how in HOWS:
        for left, right in ((keys, nobody), (nobody, keys), (nobody, nobody)):
            for way in WAYS:
                check_way(virtual(), 1, left, right, how, 0, way)


def test_what_a_table_cannot_is_said() -> None:
    def count(left: Any, right: Any, way: str) -> Any:
        return _core.join_device_totals(virtual(), plan_for(1), *laid_out(virtual(), 1, 0, [left], [right]), way=way)

    probe = np.arange(1000, dtype=np.int64)
    with pytest.raises(UsageError, match="a key of the shorter side repeats, and a direct table has room for one"):
        count(np.array([1, 1, 2]), probe, "direct")
    with pytest.raises(UsageError, match="too many rows of the shorter side have the same key for one table"):
        count(np.ones(600, np.int64), probe, "unpartitioned")
    with pytest.raises(UsageError, match="a direct table is for integer keys; join with way hash or sort_merge"):
        count(np.ones(3), probe.astype(np.float64), "direct")
    with pytest.raises(UsageError, match="spread over more than 2\\^32 integers"):
        count(np.array([0, 2**40]), probe, "direct")


def test_a_hash_that_looks_like_a_free_slot() -> None:
    """Of 64-bit keys one cannot be told from a free slot: as a probe it finds nothing, and a table leaves it alone."""
    free = _unmixed(2**64 - 1)
    build, probe = np.arange(50, dtype=np.uint64), np.arange(100, dtype=np.uint64)
    probe[7] = free
    check_way(virtual(), 1, build, probe, "inner", 0, "unpartitioned")
    build[3] = free
    with pytest.raises(UsageError, match="for one table"):
        check_join(virtual(), 1, build, probe, "inner", way="unpartitioned")
    check_join(virtual(), 1, build, probe, "inner")


def _unmixed(hashed: int) -> int:
    """The key with this hash: the inverse of ``mix64``."""
    inverse, word = pow(0xDABA0B6EB09322E3, -1, 2**64), hashed
    for _ in range(2):
        word = (word ^ word >> 32) * inverse % 2**64
    word ^= 0x9E3779B97F4A7C15
    return word ^ word >> 32


def test_which_table_is_chosen() -> None:
    """A direct one for dense keys, if these turn out to be unique, and a hashed one for a short side."""
    plan = plan_for(1)
    random = np.random.default_rng(0)

    def phases_of(build: Any, probe: Any) -> set[str]:
        runtime = virtual()
        sides = laid_out(runtime, 1, 0, [build], [probe])
        ((of_left, _),) = _core.join_device_rows(runtime, plan, *sides, any_order=True)
        keys, counts = np.unique(build, return_counts=True)
        places = np.searchsorted(keys, probe).clip(max=len(keys) - 1)
        assert len(of_left.numpy()) == counts[places[keys[places] == probe]].sum()
        return phases(runtime)

    dense = random.permutation(5_000_000).astype(np.uint32)
    probe = random.integers(0, 6_000_000, 6_000_000).astype(np.uint32)
    assert {"range", "build"} <= phases_of(dense, probe)
    scattered = random.permutation(50_000).astype(np.uint32) * np.uint32(85_899)
    found = phases_of(scattered, probe)
    assert "build" in found and not {"partition", "range"} & found
    few = random.integers(0, 1 << 20, 5_000_000).astype(np.uint32)
    assert {"range", "build"} <= phases_of(few, probe)
    assert "build" in phases_of(np.full(5000, 7, np.uint32), probe)


def test_skewed_keys_stay_in_the_caches() -> None:
    """A slow GPU, which partitions faster than it looks up keys unless these are frequent ones."""
    described = machine_to_dict(linkwise.load_machine("h200x8"))
    gpu = described["gpu"]
    gpu["local_copy_gb_per_s"] /= 1000
    for name in ("partition", "checksum"):
        gpu["rates"][name] = [860 * number for number in gpu["rates"][name]]
    machine = machine_from_dict(described)
    random = np.random.default_rng(0)
    build = random.permutation(200_000).astype(np.uint32) * np.uint32(21_473)

    def phases_of(probe: Any) -> set[str]:
        runtime = _core.VirtualRuntime(machine, _core.VirtualMode.execute, 0)
        sides = laid_out(runtime, 1, 0, [build], [probe])
        assert _core.join_device_totals(runtime, plan_for(1), *sides).rows == len(probe)
        return phases(runtime)

    found = phases_of(build[random.integers(len(build), size=3_000_000)])
    assert {"sample", "partition"} <= found and "build" not in found
    found = phases_of(build[random.zipf(1.5, 3_000_000) % len(build)])
    assert {"sample", "build"} <= found and "partition" not in found


@pytest.mark.parametrize("wants_rows", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_every_flipped_bit_of_a_copy_is_found(way: str, wants_rows: bool) -> None:
    left, right = sides_of(way, np.uint32, 2000, 6000, 1)

    def join(number: int) -> int:
        runtime = virtual(number)
        sides = laid_out(runtime, 2, 3, [left], [right])
        runtime.set_faults(flipped_copy=number)
        of_sides = _core.join_device_rows if wants_rows else _core.join_device_totals
        of_sides(runtime, plan_for(2), *sides, "inner", way=way)
        return int(runtime.large_copies)

    copies = join(0)
    assert copies >= 2
    for number in range(1, copies + 1):
        with pytest.raises(linkwise.CorruptDataError, match="is not what came in"):
            join(number)


@pytest.mark.parametrize("wants_rows", [False, True])
def test_partitioning_takes_over_where_a_table_finds_no_memory(wants_rows: bool) -> None:
    left, right = pair("uniform", 3000, 40_000, np.uint32)
    for failing in range(1, 5):
        runtime = virtual(failing)
        sides = laid_out(runtime, 1, 3, [left], [right])
        runtime.set_faults(failing_allocation=failing)
        if wants_rows:
            found = _core.join_device_rows(runtime, plan_for(1), *sides, any_order=True)
            rows = sum(len(of_left.numpy()) for of_left, _ in found)
        else:
            rows = _core.join_device_totals(runtime, plan_for(1), *sides).rows
        assert rows == len(expected_rows(left, right, "inner"))


@pytest.mark.gpu
@pytest.mark.parametrize("way", WAYS)
def test_on_gpus(way: str) -> None:
    pytest.importorskip("cupy")
    runtime = cuda_runtime()
    for num_gpus in range(1, runtime.machine.num_gpus + 1):
        for number, how in enumerate(HOWS):
            for dtype in DTYPES:
                for build, probe in ((100, 5000), (3000, 20_000), (40_000, 300_000)):
                    if np.dtype(dtype).itemsize < 4 and probe > 5000:
                        continue
                    left, right = sides_of(way, dtype, build, probe, number)
                    check_way(runtime, num_gpus, left, right, how, number, way)
                    check_way(runtime, num_gpus, right, left, how, number, way)
    for number, distribution in enumerate(DISTRIBUTIONS):
        left, right = pair(distribution, 600, 4000, [np.uint32, np.int64][number % 2], number)
        try:
            check_way(runtime, 1, left, right, "inner", number, "unpartitioned")
        except UsageError as error:
            assert "for one table" in str(error)
