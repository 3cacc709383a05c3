"""The contract of primitives/: one suite, every backend, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwise
from data import DISTRIBUTIONS, expected_order, keys, total_order
from linkwise import _core
from on_device import KEY_TYPES, OnDevice

COUNTS = (0, 1, 2, 31, 1000, 4097, 70_001)
KEYS = (np.uint32, np.uint64)
VALUES = (None, np.uint32, np.uint64, np.dtype([("low", "u8"), ("high", "u8")]))
RECORDS = [(key, value) for key in KEYS for value in VALUES]


def row_values(count: int, dtype: Any) -> np.ndarray | None:
    if dtype is None:
        return None
    values = np.zeros(count, dtype)
    if values.dtype.names:
        values["low"], values["high"] = np.arange(count), np.arange(count)[::-1]
        return values
    values[:] = np.arange(count)
    return values


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("key", "value"), RECORDS)
def test_sort_is_stable(device: OnDevice, key: Any, value: Any, count: int) -> None:
    data = keys("zipf", count, key)
    values = row_values(count, value)
    primary = device.records(data, values)
    secondary = device.records_like(primary, data.itemsize, 0 if values is None else values.itemsize)
    record = _core.RecordType(data.itemsize, 0 if values is None else values.itemsize)
    scratch = device.memory(_core.sort_scratch_bytes(device.runtime, record, count))
    result = _core.sort(device.runtime, device.stream, primary, secondary, 0, 8 * data.itemsize, scratch)
    order = np.argsort(data, kind="stable")
    assert (device.get(result.keys, key) == data[order]).all()
    if values is not None:
        assert (device.get(result.values, values.dtype) == values[order]).all()


@pytest.mark.parametrize("bits", [(0, 8), (3, 17), (0, 29), (24, 32), (5, 5), (31, 32)])
@pytest.mark.parametrize("count", [0, 1, 1000, 70_001])
def test_sort_by_some_bits(device: OnDevice, count: int, bits: tuple[int, int]) -> None:
    data = keys("uniform", count, np.uint32)
    rows = np.arange(count, dtype=np.uint32)
    primary = device.records(data, rows)
    scratch = device.memory(_core.sort_scratch_bytes(device.runtime, _core.RecordType(4, 4), count))
    result = _core.sort(device.runtime, device.stream, primary, device.records_like(primary, 4, 4), *bits, scratch)
    digits = (data.astype(np.uint64) >> np.uint64(bits[0])) & np.uint64((1 << (bits[1] - bits[0])) - 1)
    order = np.argsort(digits, kind="stable")
    assert (device.get(result.values, np.uint32) == rows[order]).all()


@pytest.mark.parametrize(("left_count", "right_count"), [(0, 0), (0, 5), (5, 0), (1, 1), (1000, 3), (4096, 70_000)])
@pytest.mark.parametrize(("key", "value"), RECORDS)
def test_merge_takes_the_left_of_equals_first(
    device: OnDevice, key: Any, value: Any, left_count: int, right_count: int
) -> None:
    data = keys("zipf", left_count + right_count, key)
    values = row_values(len(data), value)
    left_order, right_order = (np.argsort(part, kind="stable") for part in (data[:left_count], data[left_count:]))
    order = np.concatenate([left_order, right_order + left_count])
    data, values = data[order], None if values is None else values[order]
    value_bytes = 0 if values is None else values.itemsize
    both = device.records(data, values)
    result = device.records_like(both, data.itemsize, value_bytes)
    record = _core.RecordType(data.itemsize, value_bytes)
    scratch = device.memory(_core.merge_scratch_bytes(device.runtime, record, left_count, right_count))
    _core.merge(
        device.runtime, device.stream, both.slice(0, left_count), both.slice(left_count, right_count), result, scratch
    )
    merged = np.argsort(data, kind="stable")
    assert (device.get(result.keys, key) == data[merged]).all()
    if values is not None:
        assert (device.get(result.values, values.dtype) == values[merged]).all()


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("distribution", ["uniform", "extremes", "one_bit"])
@pytest.mark.parametrize("key_type", KEY_TYPES, ids=lambda key_type: key_type.name)
def test_codes_have_the_documented_order_and_come_back(
    device: OnDevice, key_type: Any, distribution: str, descending: bool
) -> None:
    data = keys(distribution, 3001, KEY_TYPES[key_type])
    code = np.dtype(np.uint64 if data.itemsize == 8 else np.uint32)
    codes, native = device.memory(len(data) * code.itemsize), device.memory(data.nbytes)
    _core.encode(device.runtime, device.stream, key_type, descending, device.put(data), codes)
    _core.decode(device.runtime, device.stream, key_type, descending, codes, native)
    assert device.runtime.read_back(device.stream, native) == data.tobytes()
    by_code = np.argsort(device.get(codes, code), kind="stable")
    assert (by_code == expected_order(data, descending)).all()


@pytest.mark.parametrize("key_type", [_core.KeyType.u32, _core.KeyType.f32, _core.KeyType.i64, _core.KeyType.f64])
def test_encoding_in_place(device: OnDevice, key_type: Any) -> None:
    data = keys("extremes", 1000, KEY_TYPES[key_type])
    view = device.put(data)
    _core.encode(device.runtime, device.stream, key_type, True, view, view)
    _core.decode(device.runtime, device.stream, key_type, True, view, view)
    assert device.runtime.read_back(device.stream, view) == data.tobytes()


@pytest.mark.parametrize("count", COUNTS)
def test_iota(device: OnDevice, count: int) -> None:
    first = (1 << 32) - 5
    for width, dtype in ((4, np.uint32), (8, np.uint64)):
        view = device.memory(count * width)
        _core.iota(device.runtime, device.stream, width, view, first)
        expected = (np.arange(count, dtype=np.uint64) + np.uint64(first)).astype(dtype)
        assert (device.get(view, dtype) == expected).all()


@pytest.mark.parametrize("key_type", KEY_TYPES, ids=lambda key_type: key_type.name)
@pytest.mark.parametrize(("count", "samples"), [(1, 1), (10, 10), (1000, 37), (70_001, 4096), (100, 0)])
def test_samples_are_one_of_each_stratum(device: OnDevice, key_type: Any, count: int, samples: int) -> None:
    data = keys("uniform", count, KEY_TYPES[key_type])
    code = np.dtype(np.uint64 if data.itemsize == 8 else np.uint32)
    codes, tags, all_codes = (
        device.memory(size) for size in (samples * code.itemsize, samples * 8, count * code.itemsize)
    )
    tag_base = 5 << 48
    source = device.put(data)
    _core.sample(device.runtime, device.stream, key_type, True, source, 3, tag_base, codes, tags)
    _core.encode(device.runtime, device.stream, key_type, True, source, all_codes)
    positions = (device.get(tags, np.uint64) - np.uint64(tag_base)).astype(np.int64)
    assert (device.get(codes, code) == device.get(all_codes, code)[positions]).all()
    strata = np.arange(samples + 1) * count // max(samples, 1)
    assert ((strata[:-1] <= positions) & (positions < strata[1:])).all()


@pytest.mark.parametrize("bits", [(0, 1), (24, 32), (8, 20), (0, 16)])
@pytest.mark.parametrize("key", KEYS)
def test_histogram(device: OnDevice, key: Any, bits: tuple[int, int]) -> None:
    data = keys("normal", 70_001, key)
    num_digits = 1 << (bits[1] - bits[0])
    counts = device.memory(8 * num_digits)
    _core.histogram(device.runtime, device.stream, data.itemsize, device.put(data), *bits, counts)
    digits = (data.astype(np.uint64) >> np.uint64(bits[0])) & np.uint64(num_digits - 1)
    assert (device.get(counts, np.uint64) == np.bincount(digits.astype(np.int64), minlength=num_digits)).all()


@pytest.mark.parametrize("distribution", ["uniform", "zipf", "all_equal"])
@pytest.mark.parametrize("num_prefixes", [1, 2, 63])
@pytest.mark.parametrize("key", KEYS)
def test_histogram_of_some_prefixes(device: OnDevice, key: Any, num_prefixes: int, distribution: str) -> None:
    data = keys(distribution, 70_001, key)
    end = 8 * data.itemsize - 8
    above = (data >> key(end)).astype(np.int64)
    prefixes = sorted({*above[:1].tolist(), *np.random.default_rng(0).permutation(256)[:num_prefixes].tolist()})
    prefixes = prefixes[:num_prefixes]
    counts = device.memory(8 * 256 * len(prefixes))
    _core.histogram(device.runtime, device.stream, data.itemsize, device.put(data), end - 8, end, counts, prefixes)
    digits = (data >> key(end - 8)).astype(np.int64) & 255
    expected = [np.bincount(digits[above == prefix], minlength=256) for prefix in prefixes]
    assert (device.get(counts, np.uint64).reshape(-1, 256) == expected).all()


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    "cuts", [[], [(5, 0)], [(1, 1 << 63), (2, 0), (2, 600), (2, 601), (9, 3), (1 << 31, 0), ((1 << 32) - 1, 0)]]
)
@pytest.mark.parametrize(("key", "value"), RECORDS)
def test_partition_is_stable_and_breaks_ties_by_position(
    device: OnDevice, key: Any, value: Any, cuts: list, count: int
) -> None:
    data = keys("zipf", count, key)
    values = row_values(count, value)
    value_bytes = 0 if values is None else values.itemsize
    source = device.records(data, values)
    scratch = device.memory(
        _core.partition_scratch_bytes(
            device.runtime, _core.RecordType(data.itemsize, value_bytes), count, len(cuts) + 1
        )
    )
    totals = device.memory(8 * (len(cuts) + 1))
    _core.partition_count(device.runtime, device.stream, source, cuts, scratch, totals)
    destination = np.zeros(count, np.int64)
    for cut_key, cut_position in cuts:
        at_or_before = (data > cut_key) | (
            (data == cut_key) & (np.arange(count, dtype=np.uint64) >= np.uint64(cut_position))
        )
        destination += at_or_before
    found = device.get(totals, np.uint64).astype(np.int64)
    assert (found == np.bincount(destination, minlength=len(cuts) + 1)).all()
    parts = [device.records_like(source, data.itemsize, value_bytes, int(total)) for total in found]
    _core.partition(device.runtime, device.stream, source, cuts, scratch, parts)
    for number, part in enumerate(parts):
        assert (device.get(part.keys, key) == data[destination == number]).all()
        if values is not None:
            assert (device.get(part.values, values.dtype) == values[destination == number]).all()


@pytest.mark.parametrize(("key", "value"), RECORDS)
def test_checksum_sees_every_change_and_no_order(device: OnDevice, key: Any, value: Any) -> None:
    def checksum(data: np.ndarray, values: np.ndarray | None) -> int:
        total = device.memory(8)
        _core.checksum(device.runtime, device.stream, device.records(data, values), total)
        return int(device.get(total, np.uint64)[0])

    data = keys("uniform", 5000, key)
    values = row_values(len(data), value)
    original = checksum(data, values)
    shuffle = np.random.default_rng(0).permutation(len(data))
    assert checksum(data[shuffle], None if values is None else values[shuffle]) == original
    changed = data.copy()
    changed[77] ^= key(1 << 9)
    assert checksum(changed, values) != original
    twice = data.copy()
    twice[1] = twice[0]
    assert checksum(twice, values) != original
    if values is not None:
        assert checksum(data[::-1].copy(), values) != original, "values must stay with their keys"
    assert checksum(data[:0], None if values is None else values[:0]) == 0


@pytest.mark.parametrize("count", [c for c in COUNTS if c > 1])
@pytest.mark.parametrize("key", KEYS)
def test_order_check_counts_every_step_down(device: OnDevice, key: Any, count: int) -> None:
    violations = device.memory(8)
    for data in (
        keys("sorted", count, key),
        keys("all_equal", count, key),
        keys("uniform", count, key),
        keys("reversed", count, key),
    ):
        _core.check_order(device.runtime, device.stream, data.itemsize, device.put(data), violations)
        assert int(device.get(violations, np.uint64)[0]) == int((data[1:] < data[:-1]).sum())


@pytest.mark.parametrize("count", [1, 2, 33, 5000, 100_000])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("key", ["u4", "i4", "f4", "u8", "i8", "f8"])
def test_a_part_is_checked_in_one_reading(device: OnDevice, key: str, descending: bool, count: int) -> None:
    kind = np.dtype(key)
    key_type = getattr(_core.KeyType, f"{key[0]}{8 * kind.itemsize}")
    numbers, codes, total = device.memory(32), device.memory(count * kind.itemsize), device.memory(8)
    for distribution in ("sorted", "all_equal", "extremes", "uniform", "reversed"):
        for values in (None, row_values(count, np.uint64)):
            data = keys(distribution, count, kind)
            records = device.records(data, values)
            _core.check_part(device.runtime, device.stream, key_type, descending, records, numbers)
            _core.encode(device.runtime, device.stream, key_type, descending, device.put(data), codes)
            _core.checksum(device.runtime, device.stream, records, total)
            coded = device.get(codes, np.dtype(f"u{kind.itemsize}"))
            steps = total_order(data)
            down = steps[1:] > steps[:-1] if descending else steps[1:] < steps[:-1]
            expected = [int(device.get(total, np.uint64)[0]), int(down.sum()), int(coded[0]), int(coded[-1])]
            assert device.get(numbers, np.uint64).tolist() == expected, distribution


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(
    "shape",
    [
        ([10], [10]),
        ([1000], [1000]),
        ([5, 0, 700], [300, 300]),
        ([1], [999]),
        ([0], [4]),
        ([64, 64, 64, 64], [64, 64, 64, 64]),
    ],
)
def test_pivot_is_the_leftmost(device: OnDevice, shape: tuple[list[int], list[int]], distribution: str) -> None:
    left_lengths, right_lengths = shape
    data = keys(distribution, sum(left_lengths) + sum(right_lengths), np.uint32)
    left, right = np.sort(data[: sum(left_lengths)]), np.sort(data[sum(left_lengths) :])

    def segments(values: np.ndarray, lengths: list[int]) -> list[_core.Records]:
        return [device.records(part) for part in np.split(values, np.cumsum(lengths)[:-1])]

    pivot = device.memory(8)
    _core.select_pivot(
        device.runtime, device.stream, segments(left, left_lengths), segments(right, right_lengths), pivot
    )

    def is_valid(p: int) -> bool:
        low = np.concatenate([left[: len(left) - p], right[:p]])
        high = np.concatenate([left[len(left) - p :], right[p:]])
        return len(low) == 0 or len(high) == 0 or low.max() <= high.min()

    leftmost = next(p for p in range(min(len(left), len(right)) + 1) if is_valid(p))
    assert int(device.get(pivot, np.uint64)[0]) == leftmost


def test_wrong_arguments_are_refused(device: OnDevice) -> None:
    runtime, stream = device.runtime, device.stream
    data = device.records(keys("uniform", 100, np.uint32))
    other = device.records(keys("uniform", 50, np.uint32))
    scratch = device.memory(1 << 21)
    with pytest.raises(linkwise.Error, match="differ in shape"):
        _core.sort(runtime, stream, data, other, 0, 32, scratch)
    with pytest.raises(linkwise.Error, match="bits outside"):
        _core.sort(runtime, stream, data, data, 0, 33, scratch)
    with pytest.raises(linkwise.Error, match="scratch is too small"):
        _core.sort(runtime, stream, data, device.records_like(data, 4, 0), 0, 32, device.memory(0))
    with pytest.raises(linkwise.Error, match="as many records"):
        _core.merge(runtime, stream, data, other, data, scratch)
    with pytest.raises(linkwise.Error, match="4, 8 or 16 bytes"):
        _core.gather(runtime, stream, 3, 4, [data.keys], data.keys, data.keys)
    with pytest.raises(linkwise.UsageError, match="4 or 8 bytes"):
        _core.RecordType(5)
    assert (total_order(np.array([1.0, -1.0]))[1]) < total_order(np.array([1.0, -1.0]))[0]


@pytest.mark.parametrize("word", [np.uint32, np.uint64])
@pytest.mark.parametrize("count", [1, 1000, 16_384, 100_003])
@pytest.mark.parametrize("distribution", [*DISTRIBUTIONS, "high every 24th"])
def test_positions_of_the_least_words(word: Any, count: int, distribution: str) -> None:
    words = np.arange(count, dtype=word) if distribution == "high every 24th" else keys(distribution, count, word)
    if distribution == "high every 24th":  # a sample of every so many sees these, or none of them
        words[::24] += word(1 << 30)
    for k in {1, min(10, count), count // 100 + 1, count // 3 + 1, count}:
        positions = _core.positions_of_least(words, k)
        least = np.flatnonzero(words <= np.partition(words, k - 1)[k - 1])
        assert np.isin(least, positions).all()
        assert len(positions) <= len(least) + 2 * k
        assert (np.diff(positions.astype(np.int64)) > 0).all()
