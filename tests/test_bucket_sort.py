"""Sorts on the cores in buckets: NumPy's sort of keys alone, the core's of all records, and what is verified."""

from __future__ import annotations

import os

import numpy as np
import pytest

import linkwise
from linkwise import _core
from linkwise.columns.key_types import key_type_of
from linkwise.sorting import bucket_sort, few_numbers

TYPES = ("uint32", "int32", "float32", "uint64", "int64", "float64")


@pytest.fixture(autouse=True)
def _numpy_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_sort, "_pays", lambda width: True)


def in_order(values: np.ndarray, *, descending: bool = False) -> np.ndarray:
    """By the core's passes, which tests of their own hold against NumPy's order."""
    out = np.empty_like(values)
    options = _core.SortOptions(descending, False)
    _core.sort_on_cpu(key_type_of(values.dtype), values, None, out, None, 0, options, _core.CpuAlgorithm.comparison)
    return out


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    assert np.array_equal(found.view(f"u{found.itemsize}"), expected.view(f"u{expected.itemsize}"))


def sorted_in_buckets(values: np.ndarray, *, descending: bool = False, verify: bool = True) -> np.ndarray | None:
    out = np.full_like(values, 7)
    options = _core.SortOptions(descending, verify)
    if bucket_sort.sort_in_buckets(key_type_of(values.dtype), values, out, options):
        return out
    assert (out == 7).all()  # what is declined is untouched
    return None


def spread_out(kind: str, dtype: str, count: int) -> np.ndarray:
    random = np.random.default_rng(3)
    whole = np.dtype(f"u{np.dtype(dtype).itemsize}")
    bits = random.integers(0, np.iinfo(whole).max, count, whole, endpoint=True)
    if kind == "all bits":  # NaNs of all kinds, infinities and both zeros among the floats
        return bits.view(dtype)
    if kind == "normal":
        middle = 0 if np.dtype(dtype).kind == "f" else 1 << 24
        return (middle + (1 << 20) * random.standard_normal(count)).astype(dtype)
    if kind == "narrow":
        return random.integers(0, 1 << 20, count).astype(dtype)
    if kind == "clusters":
        return (random.integers(0, 500, count) * 4_000_000 + random.integers(0, 300, count)).astype(dtype)
    assert kind == "far outliers"
    values = random.integers(0, 1 << 16, count).astype(dtype)
    values[:3] = np.iinfo(dtype).max if np.dtype(dtype).kind in "iu" else np.finfo(dtype).max
    return values


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", ["all bits", "normal", "narrow", "clusters", "far outliers"])
@pytest.mark.parametrize("dtype", TYPES)
def test_it_is_the_order_of_the_passes(dtype: str, kind: str, descending: bool) -> None:
    values = spread_out(kind, dtype, 300_001)
    found = sorted_in_buckets(values, descending=descending)
    assert found is not None
    assert_same_bits(found, in_order(values, descending=descending))


@pytest.mark.parametrize("count", [0, 1, 63, 64, 1000, 4097, 65_536])
@pytest.mark.parametrize("dtype", ["uint32", "float64"])
def test_any_number_of_keys(dtype: str, count: int) -> None:
    values = spread_out("all bits", dtype, count)
    found = sorted_in_buckets(values)
    if count >= (4097 if len(os.sched_getaffinity(0)) <= 4 else 65_536):  # fewer are too few for many cores
        assert found is not None
    if found is not None:
        assert_same_bits(found, in_order(values))


@pytest.mark.parametrize("wanted", ["rows", "keys and rows", "keys and values"])
@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", ["all bits", "normal", "narrow", "far outliers"])
@pytest.mark.parametrize("dtype", TYPES)
def test_values_follow_their_keys(dtype: str, kind: str, descending: bool, width: int, wanted: str) -> None:
    """Stable: of equal keys, the first rows come first."""
    keys = spread_out(kind, dtype, 140_001)
    key_type = key_type_of(keys.dtype)
    order = np.argsort(_core.encode_keys(key_type, descending, keys), kind="stable")
    values = np.random.default_rng(5).integers(0, 1 << 30, len(keys)).astype(f"u{width}")
    given = values if wanted == "keys and values" else None
    out_keys = None if wanted == "rows" else np.empty_like(keys)
    out_values = np.empty_like(values)
    numbers = 0 if given is not None else width
    options = _core.SortOptions(descending, True)
    _core.sort_on_cpu(key_type, keys, given, out_keys, out_values, numbers, options)
    assert np.array_equal(out_values, order if given is None else values[order])
    if out_keys is not None:
        assert_same_bits(out_keys, keys[order])


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("value_type", ["u4", "u8", "c16"])
def test_values_that_begin_elsewhere_in_a_line_than_their_keys(value_type: str, first: int) -> None:
    count = 140_001
    keys = spread_out("normal", "uint32", count)
    order = np.argsort(keys, kind="stable")
    values = np.frombuffer(np.random.default_rng(6).bytes(16 * count), value_type)[:count]
    room = np.zeros(count + 9, value_type)
    out_keys = np.empty_like(keys)
    out_values = room[first : first + count]
    _core.sort_on_cpu(_core.KeyType.u32, keys, values, out_keys, out_values, 0, _core.SortOptions(False, True))
    assert np.array_equal(out_keys, keys[order])
    assert out_values.tobytes() == values[order].tobytes()
    assert not any(room[:first].tobytes() + room[first + count :].tobytes())


@pytest.mark.parametrize("first", [0, 1, 3, 5])
def test_arrays_that_begin_anywhere(first: int) -> None:
    values = spread_out("all bits", "uint32", 200_000)[first:]
    room = np.full(200_010, 9, np.uint32)
    out = room[first + 2 : first + 2 + len(values)]
    assert bucket_sort.sort_in_buckets(_core.KeyType.u32, values, out, _core.SortOptions(False, True))
    assert np.array_equal(out, np.sort(values))
    assert (room[: first + 2] == 9).all() and (room[first + 2 + len(values) :] == 9).all()


@pytest.mark.parametrize(
    "values",
    [
        np.full(100_000, 5, np.uint32),
        np.repeat(np.arange(2, dtype=np.int64), 50_000),
        np.where(np.arange(100_000) % 2, 1e300, np.arange(100_000)),
    ],
    ids=["equal", "two values", "half of them equal"],
)
def test_what_few_buckets_would_hold_is_declined(values: np.ndarray) -> None:
    assert sorted_in_buckets(values) is None


def test_what_lies_across_words_is_declined() -> None:
    count = 1 << 20
    values = np.random.default_rng(4).permutation(count)
    across = np.frombuffer(bytearray(8 * count + 64), np.uint8)[4 : 4 + 8 * count].view(np.int64)
    assert not across.flags.aligned
    assert _core.RecordBuckets.scatter(_core.KeyType.i64, values, across, _core.SortOptions(False, True)) is None
    assert (linkwise.sort(values, out=across, strategy="cpu") == np.arange(count)).all()


def test_keys_of_one_and_two_bytes_are_declined() -> None:
    assert sorted_in_buckets(spread_out("all bits", "uint16", 100_000)) is None


def buckets_of(values: np.ndarray) -> tuple[_core.RecordBuckets, np.ndarray]:
    codes = np.empty_like(values)
    buckets = _core.RecordBuckets.scatter(_core.KeyType.u32, values, codes, _core.SortOptions(False, True))
    assert buckets is not None
    return buckets, codes


@pytest.mark.parametrize("fault", ["changed", "lost", "not sorted", "wrong bucket"])
def test_what_goes_wrong_in_between_is_found(fault: str) -> None:
    buckets, codes = buckets_of(spread_out("all bits", "uint32", 100_000))
    begins = buckets.begins
    middle = len(begins) // 2
    if fault == "changed":
        codes[begins[middle]] ^= 1 << 3
    elif fault == "lost":
        codes[begins[middle]] = codes[begins[middle] + 1]
    elif fault == "wrong bucket":
        codes[begins[middle]], codes[begins[middle + 1]] = codes[begins[middle + 1]], codes[begins[middle]]
    for bucket in range(len(begins) - 1):
        of_bucket = codes[begins[bucket] : begins[bucket + 1]]
        of_bucket.sort()
        if fault == "not sorted" and bucket == middle:
            of_bucket[[0, -1]] = of_bucket[[-1, 0]]
        buckets.finish(bucket)
    with pytest.raises(linkwise.CorruptDataError, match="in host memory|came in"):
        buckets.check()


def test_a_call_with_its_defaults_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_numbers, "MOST_FEW", 1000)
    taken = []
    scatter = _core.RecordBuckets.scatter

    class Seen:
        @staticmethod
        def scatter(*arguments: object) -> _core.RecordBuckets | None:
            taken.append(True)
            return scatter(*arguments)

    monkeypatch.setattr(_core, "RecordBuckets", Seen)
    values = spread_out("all bits", "float64", 200_000)
    assert_same_bits(linkwise.sort(values, machine="auto", strategy="cpu"), in_order(values))
    assert taken


def test_a_named_algorithm_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "RecordBuckets", None)
    values = spread_out("all bits", "uint64", 100_000)
    plan = linkwise.SortPlan(strategy="cpu", cpu_algorithm="radix")
    assert np.array_equal(linkwise.sort(values, plan=plan), np.sort(values))
