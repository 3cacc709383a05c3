"""The contract of what joins are made of: probing, running sums and expansion, on every backend, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from data import DISTRIBUTIONS, keys
from linkwise import _core
from on_device import OnDevice

Array = NDArray[Any]
COUNTS = ((0, 5), (5, 0), (1, 1), (63, 1000), (5000, 700), (3, 20_000), (30_000, 30_000))
EMISSIONS = list(_core.Emission)


def sorted_keys(distribution: str, count: int, dtype: Any, seed: int) -> Array:
    """Of few enough different values that many match."""
    return np.sort(keys(distribution, count, dtype, seed) % dtype(max(count, 2)))


def emitted_by(emission: _core.Emission, matches: Array) -> Array:
    return {
        _core.Emission.pairs: matches,
        _core.Emission.pairs_or_one: np.maximum(matches, 1),
        _core.Emission.one_if_matched: matches > 0,
        _core.Emission.one_if_unmatched: matches == 0,
    }[emission].astype(np.uint32)


def run_probe(
    device: OnDevice,
    probing: Array,
    build: Array,
    emission: _core.Emission,
    values: Array,
    build_values: Array,
    *,
    keys_rise: bool = True,
) -> tuple[Array, Array, Array]:
    """``first``, ``emitted`` and the totals."""
    runtime, stream = device.runtime, device.stream
    kind = _core.IntegerType(values.itemsize, values.dtype.kind == "i")
    sums = device.memory(8 * (len(build) + 1))
    scratch = device.memory(_core.running_sums_scratch_bytes(runtime, len(build)))
    _core.running_sums(runtime, stream, kind, device.put(build_values), sums, scratch)
    expected = np.concatenate([[0], np.cumsum(build_values.astype(np.int64))]).astype(np.int64)
    assert (device.get(sums, np.int64) == expected).all()
    first, emitted = device.memory(4 * len(probing)), device.memory(4 * len(probing))
    totals = device.memory(32)
    scratch = device.memory(_core.probe_scratch_bytes(runtime, len(probing)))
    _core.probe(
        runtime, stream, probing.itemsize, device.put(probing), device.put(values), kind, device.put(build), sums,
        emission, first, emitted, scratch, totals, keys_rise,
    )  # fmt: skip
    return device.get(first, np.uint32), device.get(emitted, np.uint32), device.get(totals, np.int64)


@pytest.mark.parametrize("keys_rise", [True, False])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_probe(device: OnDevice, dtype: Any, distribution: str, keys_rise: bool) -> None:
    for number, (count, build_count) in enumerate(COUNTS):
        probing = sorted_keys(distribution, count, dtype, 1)
        if not keys_rise:
            np.random.default_rng(number).shuffle(probing)
        build = sorted_keys(distribution if number % 2 else "uniform", build_count, dtype, 2)
        value_type = [np.uint32, np.int32, np.int64, np.uint64][number % 4]
        random = np.random.default_rng(number)
        values, build_values = (random.integers(0, 99, n).astype(value_type) for n in (count, build_count))
        if np.dtype(value_type).kind == "i":
            values -= 50
        emission = EMISSIONS[number % 4]
        first, emitted, totals = run_probe(device, probing, build, emission, values, build_values, keys_rise=keys_rise)
        lower, upper = np.searchsorted(build, probing, "left"), np.searchsorted(build, probing, "right")
        matches = upper - lower
        assert ((first & ~np.uint32(_core.UNMATCHED_BIT)) == lower).all()
        assert ((first >= _core.UNMATCHED_BIT) == (matches == 0)).all()
        assert (emitted == emitted_by(emission, matches)).all()
        running = np.concatenate([[0], np.cumsum(build_values.astype(np.int64))])
        assert totals.tolist() == [
            matches.sum(), (matches > 0).sum(), (matches * values.astype(np.int64)).sum(),
            (running[upper] - running[lower]).sum(),
        ]  # fmt: skip


@pytest.mark.parametrize("each_key", [False, True])
@pytest.mark.parametrize("place", ["device", "host"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_find_ranges(device: OnDevice, dtype: Any, distribution: str, place: str, each_key: bool) -> None:
    """Tile by tile, the keys that both sides have, by rising key; tiles take their places in any order."""
    where = _core.Place.host() if place == "host" else None
    for number, (left_count, right_count) in enumerate(COUNTS):
        left = sorted_keys(distribution, left_count, dtype, 1)
        right = sorted_keys(distribution if number % 2 else "uniform", right_count, dtype, 2)
        ranges = device.memory(16 * min(left_count, right_count), where)
        tiles = device.memory(8 * _core.range_tiles(left_count, right_count), where)
        totals = device.memory(16)
        scratch = device.memory(_core.find_ranges_scratch_bytes(device.runtime, left_count, right_count))
        _core.find_ranges(
            device.runtime, device.stream, left.itemsize, device.put(left), device.put(right), ranges, tiles, scratch,
            totals, each_key,
        )  # fmt: skip
        both = np.intersect1d(left, right)
        expected = np.stack([np.searchsorted(of, both, side) for of in (left, right) for side in ("left", "right")], 1)
        found = device.get(ranges, np.uint32).reshape(-1, 4)
        parts = [found[begin : begin + count] for begin, count in device.get(tiles, np.uint32).reshape(-1, 2)]
        assert (np.concatenate([*parts, found[:0]]) == expected).all()
        pairs = (expected[:, 1] - expected[:, 0]) * (expected[:, 3] - expected[:, 2])
        assert device.get(totals, np.uint64).tolist() == [len(both), pairs.sum()]


def emitting(device: OnDevice, side: Array, other: Array, emission: _core.Emission) -> tuple[_core.Emitting, Array]:
    """A side as ``expand`` takes it, and what each of its rows emits."""
    none = np.zeros(len(side), np.uint32), np.zeros(len(other), np.uint32)
    first, emitted, _ = run_probe(device, side, other, emission, *none)
    offsets = device.memory(8 * (len(side) + 1))
    scratch = device.memory(_core.running_sums_scratch_bytes(device.runtime, len(side)))
    kind = _core.IntegerType(4, False)
    _core.running_sums(device.runtime, device.stream, kind, device.put(emitted), offsets, scratch)
    return _core.Emitting(device.put(first), offsets), emitted


def brute_force(left: Array, right: Array, how: str) -> list[tuple[int, int]]:
    none = _core.NO_POSITION
    rows = [(key, i, j) for i, key in enumerate(left) for j in np.flatnonzero(right == key)]
    if how in ("left", "full"):
        rows += [(key, i, none) for i, key in enumerate(left) if not (right == key).any()]
    if how in ("right", "full"):
        rows += [(key, none, j) for j, key in enumerate(right) if not (left == key).any()]
    return [(int(i), int(j)) for _, i, j in sorted(rows)]


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("distribution", ["uniform", "all_equal", "zipf"])
def test_expand(device: OnDevice, distribution: str, how: str) -> None:
    for left_count, right_count in ((0, 4), (4, 0), (40, 300), (300, 40), (200, 200)):
        left, right = (
            sorted_keys(distribution, n, np.uint32, n) % np.uint32(97) // np.uint32(2)
            for n in (left_count, right_count)
        )
        left, right = np.sort(left), np.sort(right)
        keeps_left = how in ("left", "full")
        of_left, emits = emitting(
            device, left, right, _core.Emission.pairs_or_one if keeps_left else _core.Emission.pairs
        )
        of_right, more = _core.Emitting(), np.zeros(0)
        if how in ("right", "full"):
            of_right, more = emitting(device, right, left, _core.Emission.one_if_unmatched)
        rows = int(emits.sum() + more.sum())
        found: list[tuple[int, int]] = []
        window = max(rows // 3, 1)
        for begin in range(0, rows, window):
            count = min(window, rows - begin)
            positions = device.memory(4 * count), device.memory(4 * count)
            _core.expand(device.runtime, device.stream, of_left, of_right, begin, *positions)
            if len(more):
                _core.expand_unmatched(device.runtime, device.stream, of_left, of_right, begin, *positions)
            found += zip(*(device.get(side, np.uint32).tolist() for side in positions), strict=True)
        assert found == brute_force(left, right, how)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_hash_keys(device: OnDevice, dtype: Any) -> None:
    """One hash a key, and those of neighbours far apart."""
    data = np.arange(100_000, dtype=dtype)
    to = device.memory(data.nbytes)
    _core.hash_keys(device.runtime, device.stream, data.itemsize, device.put(data), to)
    hashes = device.get(to, dtype)
    assert len(np.unique(hashes)) == len(data)
    upper = np.bincount((hashes >> dtype(8 * data.itemsize - 6)).astype(np.int64), minlength=64)
    assert upper.min() > 0.8 * len(data) / 64 and upper.max() < 1.2 * len(data) / 64


@pytest.mark.parametrize("bits", [1, 3, 9])
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("counts", COUNTS)
def test_hash_probe(device: OnDevice, dtype: Any, counts: tuple[int, int], bits: int) -> None:
    """Partitions longer than a table as well, and keys that occur often."""
    random = np.random.default_rng(bits)
    some = random.integers(0, np.iinfo(dtype).max, max(max(counts) // 3, 1), dtype=dtype)
    of_kind: dict[str, Any] = {"i": np.int32, "u": np.uint64}
    sides = []
    for count, kind in zip(counts, "iu", strict=True):
        side = random.choice(some, count)
        side = side[np.argsort(side >> dtype(8 * side.itemsize - bits), kind="stable")]
        sides.append((side, random.integers(0, 9, count).astype(of_kind[kind])))
    (keys, values), (build, build_values) = sides
    totals = device.memory(32)
    _core.hash_probe(
        device.runtime, device.stream, keys.itemsize, bits, device.put(keys), device.put(values),
        _core.IntegerType(4, True), device.put(build), device.put(build_values), _core.IntegerType(8, False), totals,
    )  # fmt: skip
    order = np.argsort(build, kind="stable")
    low, high = (np.searchsorted(build[order], keys, side) for side in ("left", "right"))
    sums = np.concatenate([[0], np.cumsum(build_values[order].astype(np.int64))])
    matches, _, probe_sum, build_sum = device.get(totals, np.int64)
    assert matches == (high - low).sum()
    assert probe_sum == ((high - low) * values).sum() and build_sum == (sums[high] - sums[low]).sum()
