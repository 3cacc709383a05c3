"""The sort by the most significant digits first, called whether it suits the keys or not: every way through it."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest

from conftest import cuda_runtime
from data import DISTRIBUTIONS, expected_order, keys
from linkwise import _core
from on_device import KEY_TYPES, OnDevice

Array = np.ndarray[Any, Any]
COUNTS = (1, 2, 33, 5_121, 10_241, 100_003, 1_000_003)
VALUES = (0, 4, 8, 16)  # bytes
KINDS = {dtype: kind for kind, dtype in KEY_TYPES.items() if np.dtype(dtype).itemsize >= 4}


def records_of(view: _core.MemoryView, dtype: Any, count: int, skipped: int = 0) -> _core.Records:
    """Keys alone, behind some elements that are none of them."""
    size = np.dtype(dtype).itemsize
    keys_view = view.slice(skipped * size, count * size)
    return _core.Records(_core.RecordType(size, 0), count, keys_view, view.slice(0, 0))


def with_values(source: _core.Records, values: _core.MemoryView, value_bytes: int, skipped: int = 0) -> _core.Records:
    kind = _core.RecordType(source.type.key_bytes, value_bytes)
    view = values.slice(skipped * value_bytes, source.count * value_bytes)
    return _core.Records(kind, source.count, source.keys, view)


def numbered(count: int, value_bytes: int) -> Array:
    """As many values, which tell their positions."""
    values = np.zeros((count, value_bytes // 4), np.uint32)
    values[:, 0], values[:, -1] = np.arange(count), np.arange(count)
    return values


def sort(
    device: OnDevice,
    data: Array,
    buffers: _core.SortBuffers = _core.SortBuffers.three,
    descending: bool = False,
    skipped: int = 0,
    value_bytes: int = 0,
) -> Array:
    """Sorted on the device; its checksum is compared, the input where nothing may write to it, and any values."""
    dtype, count = data.dtype, len(data)
    values = numbered(count, value_bytes) if value_bytes else np.empty((count, 0), np.uint32)
    ahead = np.zeros((skipped, value_bytes // 4), np.uint32)
    lent = device.put(np.concatenate([np.zeros(skipped, dtype), data]))
    lent_values = device.put(np.concatenate([ahead, values]))
    source = with_values(records_of(lent, dtype, count, skipped), lent_values, value_bytes, skipped)
    new = [
        with_values(records_of(device.memory(data.nbytes), dtype, count), device.memory(values.nbytes), value_bytes)
        for _ in range(2)
    ]
    result = source if buffers == _core.SortBuffers.result_is_input else new[0]
    room = source if buffers == _core.SortBuffers.room_is_input else new[1]
    scratch = device.memory(_core.msd_sort_scratch_bytes(device.runtime, source.type, count))
    sums = [device.memory(8), device.memory(8)]
    _core.checksum(device.runtime, device.stream, source, sums[0])
    kind = KINDS[dtype.type]
    _, are_narrow = _core.look_at_keys(device.runtime, device.stream, kind, descending, source, buffers, scratch)
    _core.msd_sort(device.runtime, device.stream, kind, descending, source, result, room, are_narrow, scratch, sums[1])
    assert device.get(sums[0], np.uint64) == device.get(sums[1], np.uint64)
    if buffers == _core.SortBuffers.three:
        assert (device.get(source.keys, np.uint8) == data.view(np.uint8)).all()
        assert (device.get(source.values, np.uint32) == values.ravel()).all()
    found = device.get(result.keys, dtype)
    if value_bytes:
        order = expected_order(data, descending=descending)
        assert (device.get(result.values, np.uint32) == values[order].ravel()).all()
    return found


def same(found: Array, expected: Array) -> bool:
    return found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("value_bytes", VALUES)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64], ids=["u32", "u64"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_every_distribution_and_size(
    device: OnDevice, distribution: str, dtype: Any, count: int, value_bytes: int
) -> None:
    data = keys(distribution, count, dtype)
    assert same(sort(device, data, value_bytes=value_bytes), np.sort(data))


def clusters(random: np.random.Generator, dtype: Any, count: int) -> Array:
    """Seven hundred of them, which the first two levels cannot part."""
    return (random.integers(0, 700, count) * (1 << 20) + random.integers(0, 5_000, count)).astype(dtype)


def few_bits(random: np.random.Generator, dtype: Any, count: int) -> Array:
    """Bits that are seldom set: nearly all keys lie at the beginning of whatever range they are cut by."""
    words = [random.integers(0, np.iinfo(dtype).max, count, dtype=dtype) for _ in range(3)]
    return words[0] & words[1] & words[2]


def heavy_hitter(random: np.random.Generator, dtype: Any, count: int) -> Array:
    data = random.integers(0, np.iinfo(dtype).max, count, dtype=dtype)
    data[random.random(count) < 0.4] = 42
    return data


def gaps_that_double(random: np.random.Generator, dtype: Any, count: int) -> Array:
    """Each power of two has as many: however a bucket is cut, half of it stays together."""
    bits = random.integers(0, 8 * np.dtype(dtype).itemsize - 1, count)
    return (np.ones(count, dtype) << bits.astype(dtype)) + random.integers(0, 3, count).astype(dtype)


def beyond_the_sample(random: np.random.Generator, dtype: Any, count: int) -> Array:
    """A few keys on both sides of the range that a sample sees."""
    middle = np.iinfo(dtype).max // 2
    data = (middle + random.integers(0, 1_000_000, count)).astype(dtype)
    data[random.integers(0, count, 40)] = random.integers(0, middle // 2, 40).astype(dtype)
    data[random.integers(0, count, 40)] = np.iinfo(dtype).max - random.integers(0, 9, 40).astype(dtype)
    return data


def nearly_equal(random: np.random.Generator, dtype: Any, count: int) -> Array:
    """Pairs that only their last bit tells apart: too near for numbers of 64 bits that have positions too."""
    bits = 8 * np.dtype(dtype).itemsize
    return ((random.integers(0, 1 << 31, count) << (bits - 32)) + np.arange(count) % 2).astype(dtype)


@pytest.mark.parametrize("value_bytes", VALUES)
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64], ids=["u32", "u64"])
def test_few_records_apart_from_all_others(device: OnDevice, dtype: Any, value_bytes: int) -> None:
    """First or last, wherever the array ends in a unit of memory that is loaded at once."""
    for count, few in itertools.product(range(70_001, 70_009), (1, 2, 3)):
        for data in (np.full(count, 77, dtype), np.full(count, np.iinfo(dtype).max - 5, dtype)):
            data[1000 : 1000 + few] = np.iinfo(dtype).max if data[0] == 77 else 2
            assert same(sort(device, data, value_bytes=value_bytes), np.sort(data))


@pytest.mark.parametrize("value_bytes", VALUES)
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64], ids=["u32", "u64"])
@pytest.mark.parametrize("made", [clusters, few_bits, heavy_hitter, gaps_that_double, beyond_the_sample, nearly_equal])
def test_keys_that_do_not_suit_it(device: OnDevice, made: Any, dtype: Any, value_bytes: int) -> None:
    random = np.random.default_rng(7)
    for count in (70_001, 3_000_017):
        data = made(random, dtype, count)
        assert same(sort(device, data, value_bytes=value_bytes), np.sort(data))


@pytest.mark.parametrize("value_bytes", VALUES)
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64], ids=["u32", "u64"])
@pytest.mark.parametrize("times", [3, 10, 25, 40, 70, 200])
def test_keys_that_occur_some_times(device: OnDevice, times: int, dtype: Any, value_bytes: int) -> None:
    """As foreign keys do: a bin has several keys, each with as many records, and lies across a border between warps."""
    random = np.random.default_rng(times)
    for count in (70_001, 1_000_003):
        values = random.integers(0, np.iinfo(dtype).max, count // times, dtype=dtype)
        data = values[random.integers(0, len(values), count)]
        assert same(sort(device, data, value_bytes=value_bytes), np.sort(data))


@pytest.mark.gpu
def test_what_suits_it() -> None:
    """The question that decides between the sorts: not a matter of time, but of how keys lie."""
    device = OnDevice(cuda_runtime())
    random = np.random.default_rng(3)

    def suits(data: Array, value_bytes: int = 0) -> bool:
        keys_alone = records_of(device.put(data), data.dtype, len(data))
        source = with_values(keys_alone, device.memory(len(data) * value_bytes), value_bytes)
        scratch = device.memory(_core.msd_sort_scratch_bytes(device.runtime, source.type, len(data)))
        kind = KINDS[data.dtype.type]
        found = _core.look_at_keys(device.runtime, device.stream, kind, False, source, _core.SortBuffers.three, scratch)
        return bool(found[0])

    count = 5_000_000
    assert suits(random.integers(0, 1 << 63, count, dtype=np.uint64))
    assert suits(random.integers(0, 1_000_000_000, count))
    assert suits(random.standard_normal(count))
    assert suits(np.arange(count, dtype=np.uint64))
    assert suits(np.full(count, 77, np.uint64))
    assert suits(heavy_hitter(random, np.uint64, count)), "the others are evenly distributed"
    assert suits(heavy_hitter(random, np.uint64, count) ^ np.uint64(1 << 63))
    assert not suits(random.zipf(1.3, count).clip(0, 1 << 31).astype(np.uint32))
    assert not suits(few_bits(random, np.uint64, count))
    often = random.permutation(np.repeat(random.integers(0, 1 << 32, count // 100, dtype=np.uint32), 100))
    assert not any(suits(often, value_bytes) for value_bytes in (0, 4, 8))
    assert suits(often.astype(np.uint64) << np.uint64(32), 8) and not suits(often.astype(np.uint64) << np.uint64(32), 4)
    wide = clusters(random, np.uint64, 10 * count) << np.uint64(8)
    assert not suits(wide)
    assert suits(wide >> np.uint64(8)), "so many narrow keys always suit"


@pytest.mark.parametrize("value_bytes", VALUES)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", KINDS, ids=lambda dtype: np.dtype(dtype).name)
def test_native_keys(device: OnDevice, dtype: Any, descending: bool, value_bytes: int) -> None:
    data = keys("extremes", 50_021, dtype)
    found = sort(device, data, descending=descending, value_bytes=value_bytes)
    assert same(found, data[expected_order(data, descending=descending)])


@pytest.mark.parametrize("value_bytes", VALUES)
@pytest.mark.parametrize("buffers", list(_core.SortBuffers), ids=lambda buffers: buffers.name)
@pytest.mark.parametrize("count", [4_097, 200_003, 6_000_011])
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64], ids=["u32", "u64"])
def test_in_two_buffers_or_three(
    device: OnDevice, dtype: Any, count: int, buffers: _core.SortBuffers, value_bytes: int
) -> None:
    """Of one level, and of two."""
    data = keys("uniform", count, dtype)
    assert same(sort(device, data, buffers, value_bytes=value_bytes), np.sort(data))


def ids(random: np.random.Generator, count: int) -> Array:
    return random.integers(0, 1_000_000_000, count)


def around_zero(random: np.random.Generator, count: int) -> Array:
    return random.integers(-1_000_000, 1_000_000, count)


def over_all_distances(random: np.random.Generator, count: int) -> Array:
    """The widest range whose distances have 32 bits; a sample sees nearly all of it."""
    data = random.integers(0, 1 << 32, count) - 5_000_000_000
    data[[1, -1]] = -5_000_000_000, -5_000_000_000 + (1 << 32) - 1
    return data


def one_distance_too_wide(random: np.random.Generator, count: int) -> Array:
    """As a sample does not see: the last key is a distance of 2^32 away from the first."""
    data = random.integers(1 << 30, 1 << 31, count)
    data[[1, -1]] = 77, 77 + (1 << 32)
    return data


def one_far_away(random: np.random.Generator, count: int) -> Array:
    data = ids(random, count)
    data[count // 2] = np.iinfo(np.int64).min
    return data


def narrow_clusters(random: np.random.Generator, count: int) -> Array:
    """Which take all levels and more: within each, few keys are far from the others."""
    data = random.integers(0, 40, count) * 50_000_000 + random.integers(0, 3, count)
    far = random.random(count) < 0.001
    data[far] += random.integers(0, 1_000_000, int(far.sum()))
    return data


def narrow_and_heavy(random: np.random.Generator, count: int) -> Array:
    """Long runs of equal keys, some of which the first level finds already."""
    data = random.integers(0, 1 << 31, count)
    data[random.random(count) < 0.5] = 1 << 30
    data[random.random(count) < 0.1] = 0
    return data


def narrow_doubling_gaps(random: np.random.Generator, count: int) -> Array:
    return (1 << random.integers(0, 32, count)) - random.integers(0, 3, count)


def two_values(random: np.random.Generator, count: int) -> Array:
    return random.integers(0, 2, count) * 4_000_000_000


NARROW = [
    ids,
    around_zero,
    over_all_distances,
    one_distance_too_wide,
    one_far_away,
    narrow_clusters,
    narrow_and_heavy,
    narrow_doubling_gaps,
    two_values,
]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("buffers", list(_core.SortBuffers), ids=lambda buffers: buffers.name)
@pytest.mark.parametrize("made", NARROW)
def test_keys_that_are_narrow_after_the_first_level(
    device: OnDevice, made: Any, buffers: _core.SortBuffers, descending: bool
) -> None:
    """Or seem to be so, by the sample: in one level, in two, and with more."""
    random = np.random.default_rng(11)
    for count in (40_003, 2_000_003, 7_000_001):
        data = made(random, count)
        expected = np.sort(data)[::-1] if descending else np.sort(data)
        assert same(sort(device, data, buffers, descending, skipped=1), np.ascontiguousarray(expected))


@pytest.mark.gpu
def test_ranks_by_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tile is partitioned again, as if atomics had not served a warp's lanes in their order."""
    monkeypatch.setenv("LINKWISE_DOUBT_ATOMICS", "1")
    device = OnDevice(cuda_runtime())
    for dtype in (np.uint32, np.uint64):
        for value_bytes in VALUES[1:]:
            for distribution in DISTRIBUTIONS:
                data = keys(distribution, 1_000_003, dtype)
                assert same(sort(device, data, value_bytes=value_bytes), np.sort(data))


@pytest.fixture
def in_pages(monkeypatch: pytest.MonkeyPatch) -> OnDevice:
    """Where the first level of a sort of keys alone stores in pages, as it does of long arrays."""
    monkeypatch.delenv("LINKWISE_ALWAYS_IN_PAGES", raising=False)
    device = OnDevice(cuda_runtime())
    scratch = partial(_core.msd_sort_scratch_bytes, device.runtime, _core.RecordType(8, 0), 1_000_003)
    without = scratch()
    monkeypatch.setenv("LINKWISE_ALWAYS_IN_PAGES", "1")
    assert scratch() > 2 * without, "no pages in the scratch"
    return device


@pytest.mark.gpu
@pytest.mark.parametrize("buffers", list(_core.SortBuffers), ids=lambda buffers: buffers.name)
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64], ids=["u32", "u64"])
def test_pages_of_every_distribution(in_pages: OnDevice, dtype: Any, buffers: _core.SortBuffers) -> None:
    for distribution, count in itertools.product(DISTRIBUTIONS, (1, 33, 32_768, 100_003, 3_000_017)):
        data = keys(distribution, count, dtype)
        assert same(sort(in_pages, data, buffers, skipped=count % 4), np.sort(data))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64], ids=["u32", "u64"])
@pytest.mark.parametrize("made", [clusters, few_bits, heavy_hitter, gaps_that_double, beyond_the_sample, nearly_equal])
def test_pages_of_keys_that_do_not_suit_them(in_pages: OnDevice, made: Any, dtype: Any) -> None:
    random = np.random.default_rng(17)
    for count in (70_001, 3_000_017, 20_000_003):
        data = made(random, dtype, count)
        assert same(sort(in_pages, data), np.sort(data))


@pytest.mark.gpu
@pytest.mark.parametrize("key_bytes", [4, 8])
def test_scratch_for_most_records_suffices_for_fewer(key_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where chunks have room for more than they get. Pages are used from about 2^30 bytes of keys on."""
    monkeypatch.delenv("LINKWISE_ALWAYS_IN_PAGES", raising=False)
    runtime = cuda_runtime()
    kind = _core.RecordType(key_bytes, 0)
    around = [2**30 // key_bytes + 30_000 * step for step in range(-1000, 1000)]
    counts = sorted([*around, *(int(10_000 * 1.01**step) for step in range(1300))])
    sizes = [_core.msd_sort_scratch_bytes(runtime, kind, count) for count in counts if count < 2**32 - 2**25]
    assert sizes == sorted(sizes) and sizes[-1] > 0


@pytest.mark.gpu
@pytest.mark.parametrize("buffers", list(_core.SortBuffers), ids=lambda buffers: buffers.name)
@pytest.mark.parametrize("made", NARROW)
def test_pages_of_narrow_keys(in_pages: OnDevice, made: Any, buffers: _core.SortBuffers) -> None:
    """Or of keys that only seem to be so, which are found while they are stored."""
    random = np.random.default_rng(23)
    for count, descending in itertools.product((40_003, 2_000_003, 4_000_037, 7_000_001), (False, True)):
        data = made(random, count)
        expected = np.sort(data)[::-1] if descending else np.sort(data)
        assert same(sort(in_pages, data, buffers, descending, skipped=1), np.ascontiguousarray(expected))


@pytest.mark.gpu
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", KINDS, ids=lambda dtype: np.dtype(dtype).name)
def test_pages_of_native_keys(in_pages: OnDevice, dtype: Any, descending: bool) -> None:
    for distribution in ("extremes", "uniform"):
        data = keys(distribution, 1_000_003, dtype)
        found = sort(in_pages, data, descending=descending)
        assert same(found, data[expected_order(data, descending=descending)])


@pytest.mark.parametrize("skipped", [1, 2, 3, 5, 31])
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64], ids=["u32", "u64"])
def test_an_input_that_begins_anywhere(device: OnDevice, dtype: Any, skipped: int) -> None:
    """Bulk copies move aligned units: what is no whole one at either end comes otherwise."""
    for count in (7, 9_001, 150_001):
        data = keys("uniform", count, dtype, skipped)
        for buffers in _core.SortBuffers:
            for value_bytes in VALUES:
                found = sort(device, data, buffers, skipped=skipped, value_bytes=value_bytes)
                assert same(found, np.sort(data))
