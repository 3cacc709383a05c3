"""Sorting what lies on the GPUs: NumPy arrays stand in for them on virtual machines, CuPy's and torch's are real."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkwise
from conftest import HAVE_GPU, SEEDS, cuda_runtime
from data import DISTRIBUTIONS, expected_order, keys
from linkwise import _core
from sort_on import plan_for

Array = np.ndarray[Any, Any]
MACHINE = linkwise.load_machine("h200x8")
DTYPES = (np.uint32, np.uint64, np.int64, np.float32, np.float64, np.uint8, np.int16, np.float16)


def virtual(seed: int = 0) -> _core.Runtime:
    return _core.VirtualRuntime(MACHINE, _core.VirtualMode.execute, seed)


def on_gpu(array: Array, gpu: int) -> Any:
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Device(gpu):
        return cupy.asarray(array)


def check(
    runtime: _core.Runtime,
    plan: _core.SortPlan,
    data: list[Array],
    payload: list[Array] | None = None,
    *,
    descending: bool = False,
    donated: bool = False,
    verify: bool = True,
) -> list[int]:
    """Sorts, compares with a stable NumPy sort of everything, and returns how much each GPU holds."""

    def placed(arrays: list[Array]) -> list[Any]:
        return [a.copy() if runtime.simulated else on_gpu(a, gpu) for a, gpu in zip(arrays, plan.gpus, strict=False)]

    place, place_of_payload = placed(data), placed(payload or [])
    result = _core.sort_device(
        runtime, plan, place, place_of_payload, [None] * len(place), donated, _core.SortOptions(descending, verify)
    )
    everything = np.concatenate(data)
    order = expected_order(everything, descending)
    assert np.concatenate([part.numpy() for part, _ in result]).tobytes() == everything[order].tobytes()
    if payload is not None:
        carried = np.concatenate([part.numpy() for _, part in result])
        assert carried.tobytes() == np.concatenate(payload)[order].tobytes()
    if not donated:
        given = [*place, *place_of_payload]
        back = given if runtime.simulated else [a.get() for a in given]
        before = [*data, *(payload or [])]
        assert all(a.tobytes() == b.tobytes() for a, b in zip(back, before, strict=True)), "the input was changed"
    assert [part.gpu for part, _ in result] == plan.gpus
    return [len(part) for part, _ in result]


def spread(data: Array, parts: int, random: np.random.Generator) -> list[Array]:
    """Cut in pieces that are not equal, some of them perhaps empty."""
    cuts = np.sort(random.integers(0, len(data) + 1, parts - 1))
    return np.split(data, cuts)


def backends(num_gpus: int) -> list[_core.Runtime]:
    real = [cuda_runtime()] if HAVE_GPU and cuda_runtime().machine.num_gpus >= num_gpus else []
    return [virtual(num_gpus), *real]


def small(strategy: str, num_gpus: int, buckets: int, **fields: Any) -> _core.SortPlan:
    return plan_for(list(range(num_gpus)), strategy, "fused", device_buckets=buckets, slack=0.5, **fields)


@pytest.mark.parametrize("num_gpus", range(1, 9))
@pytest.mark.parametrize(("strategy", "buckets"), [("radix", 1), ("radix", 2), ("radix", 7), ("p2p_merge", 1)])
def test_every_size_and_distribution(strategy: str, buckets: int, num_gpus: int) -> None:
    if strategy == "p2p_merge" and num_gpus & (num_gpus - 1):
        return
    random = np.random.default_rng(num_gpus)
    for size, distribution in itertools.product((0, 1, 2, 3, 63, 1000, 5003), DISTRIBUTIONS):
        data = spread(keys(distribution, size, np.uint32), num_gpus, random)
        check(virtual(size), small(strategy, num_gpus, buckets, samples=512), data, donated=size % 2 == 1)


@pytest.mark.gpu
@pytest.mark.parametrize("num_gpus", range(1, 9))
@pytest.mark.parametrize(("strategy", "buckets"), [("radix", 1), ("radix", 2), ("radix", 7), ("p2p_merge", 1)])
def test_every_size_and_distribution_on_gpus(strategy: str, buckets: int, num_gpus: int) -> None:
    if num_gpus > cuda_runtime().machine.num_gpus or (strategy == "p2p_merge" and num_gpus & (num_gpus - 1)):
        return
    random = np.random.default_rng(num_gpus)
    for size, distribution in itertools.product((0, 1, 63, 70_001, 1_000_003), DISTRIBUTIONS):
        data = spread(keys(distribution, size, np.uint32), num_gpus, random)
        check(cuda_runtime(), small(strategy, num_gpus, buckets), data, donated=size % 2 == 0)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_cut_by_histograms(distribution: str) -> None:
    random = np.random.default_rng(1)
    for runtime, num_gpus, buckets in itertools.product(backends(4), (2, 3, 4), (1, 3)):
        if num_gpus > runtime.machine.num_gpus:
            continue
        data = spread(keys(distribution, 70_001, np.uint64), num_gpus, random)
        plan = small("radix", num_gpus, buckets, splitting=_core.Splitting.msb)
        held = check(runtime, plan, data)
        assert max(held) <= 1.01 * sum(held) / num_gpus


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("strategy", ["radix", "p2p_merge"])
def test_every_kind_of_key_in_both_directions(strategy: str, dtype: Any) -> None:
    for num_gpus, distribution in itertools.product((1, 2, 4), ("uniform", "extremes", "one_bit")):
        data = np.array_split(keys(distribution, 3001, dtype), num_gpus)
        rows = np.array_split(np.arange(3001, dtype=np.uint32), num_gpus)
        for descending, donated, runtime in itertools.product((False, True), (False, True), backends(num_gpus)):
            plan = small(strategy, num_gpus, 3)
            check(runtime, plan, data, rows, descending=descending, donated=donated)


@pytest.mark.parametrize("carrier", ["u4", "u8", "c16"])
@pytest.mark.parametrize("key", [np.uint32, np.uint64])
def test_payload_follows_its_keys_and_keeps_their_order(key: Any, carrier: str) -> None:
    random = np.random.default_rng(3)
    for num_gpus, buckets in itertools.product((1, 3, 4), (1, 4)):
        data = spread(keys("zipf", 6000, key), num_gpus, random)
        values = [np.arange(len(a)).astype(carrier) + g for g, a in enumerate(data)]
        for runtime in backends(num_gpus):
            check(runtime, small("radix", num_gpus, buckets), data, values)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_legal_order(seed: int) -> None:
    """Seeded random orders of execution; races, deadlocks and uses after free raise."""
    random = np.random.default_rng(seed)
    num_gpus = int(random.integers(1, 9))
    dtype = [np.uint32, np.uint64, np.float32, np.int16][seed % 4]
    data = keys(str(random.choice(DISTRIBUTIONS)), int(random.integers(0, 8000)), dtype, seed)
    plan = small("radix", num_gpus, int(random.integers(1, 9)), samples=int(random.integers(256, 2048)))
    plan.gpus = random.permutation(8)[:num_gpus].tolist()
    check(virtual(seed), plan, spread(data, num_gpus, random), donated=bool(seed % 2), descending=bool(seed % 3 == 0))


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=8),
    buckets=st.integers(1, 8),
    low_bits=st.integers(0, 32),
    seed=st.integers(0, 2**32),
)
def test_keys_that_differ_in_few_bits(lengths: list[int], buckets: int, low_bits: int, seed: int) -> None:
    """However many passes the local sorts make, the buckets end up one behind the other."""
    random = np.random.default_rng(seed)
    data = [random.integers(0, 1 << low_bits, n, dtype=np.uint64).astype(np.uint32) for n in lengths]
    check(virtual(seed), small("radix", len(lengths), buckets), data, donated=bool(seed % 2))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_result_is_balanced(distribution: str) -> None:
    data = np.array_split(keys(distribution, 400_000, np.uint32), 8)
    held = check(virtual(), plan_for(list(range(8)), "radix", "fused"), data)
    assert max(held) <= 1.01 * np.mean(held)


def peak(buckets: int, donated: bool) -> int:
    """The least memory limit with which two GPUs sort 8 MB each, to 100 kB."""
    data = [np.random.default_rng(g).integers(0, 2**64, 1_000_000, dtype=np.uint64) for g in range(2)]
    plan = plan_for([0, 1], "radix", "fused", device_buckets=buckets, samples=4096)
    too_little, enough = 0, 300  # times 100 kB
    while enough - too_little > 1:
        limit = (too_little + enough) // 2
        runtime = virtual()
        runtime.set_memory_limit(limit * 100_000)
        try:
            check(runtime, plan, data, donated=donated, verify=False)
            enough = limit
        except linkwise.OutOfMemoryError:
            too_little = limit
    return enough * 100_000


@pytest.mark.slow
def test_spare_memory_shrinks_with_buckets_and_donation() -> None:
    assert peak(8, False) < 0.75 * peak(1, False)
    assert peak(8, True) < 0.9 * peak(8, False)
    assert peak(2, True) < 0.75 * peak(1, False)


def test_bad_input_is_refused() -> None:
    plan = plan_for([0, 1], "radix", "fused")
    options = _core.SortOptions()
    one, two = np.zeros(3, np.uint32), np.zeros(3, np.uint64)

    def refused(match: str, arrays: list[Any], payload: list[Any], with_plan: _core.SortPlan = plan) -> None:
        with pytest.raises(linkwise.UsageError, match=match):
            _core.sort_device(virtual(), with_plan, arrays, payload, [None] * len(arrays), False, options)

    refused("differ in type", [one, two], [])
    refused("for each GPU", [one], [])
    refused("as many values", [one, one], [two, two[:1]])
    refused("contiguous", [one, np.zeros(6, np.uint32)[::2]], [])
    refused("cannot be sorted", [one.astype("c8"), one.astype("c8")], [])
    refused("work in host memory", [one, one], [], plan_for([0, 1], "het", "2n"))
    refused("named twice", [one, one], [], plan_for([1, 1], "radix", "fused"))


def radix_on_one(runtime: _core.Runtime, name: str, sizes: Sequence[int]) -> None:
    """Sorts by the most significant digits first: keys of 64 bits alone, on one GPU, that are not few."""
    dtype, keys_of = KEYS_OF_64_BITS[name]
    random = np.random.default_rng(len(sizes))
    for size, donated, descending in itertools.product(sizes, (False, True), (False, True)):
        data = [keys_of(random, size).astype(dtype)]
        check(runtime, small("radix", 1, 0), data, donated=donated, descending=descending)


def uints(random: np.random.Generator, below: int, size: int) -> Array:
    return random.integers(0, below, size, dtype=np.uint64)


def exponential_gaps(random: np.random.Generator, size: int) -> Array:
    """Most keys of any range lie at its beginning, however short it is."""
    return np.uint64(1) << uints(random, 64, size) | uints(random, 3, size)


def one_other(_: np.random.Generator, size: int) -> Array:
    return np.where(np.arange(size) == size // 3, np.uint64(1 << 62), np.uint64(3))


def outliers(random: np.random.Generator, size: int) -> Array:
    """A few keys beyond the range that a sample shows."""
    return np.where(random.random(size) < 1e-6, np.uint64(1 << 60), np.uint64(1 << 20)) + uints(random, 1 << 20, size)


# What the sort looks at: which bits keys share, how evenly they lie, how often they come.
KEYS_OF_64_BITS: dict[str, tuple[Any, Callable[[np.random.Generator, int], Array]]] = {
    "uniform": (np.uint64, lambda random, n: uints(random, 1 << 64, n)),
    "narrow": (np.int64, lambda random, n: random.integers(-5, 10**9, n)),
    "far from zero": (np.uint64, lambda random, n: np.uint64(1 << 63) + uints(random, 10**12, n)),
    "two values far apart": (np.uint64, lambda random, n: uints(random, 2, n) << np.uint64(63)),
    "few values": (np.uint64, lambda random, n: uints(random, 1 << 64, 99)[random.integers(99, size=n)]),
    "one value": (np.uint64, lambda _, n: np.full(n, 77, np.uint64)),
    "one other": (np.uint64, one_other),
    "outliers": (np.uint64, outliers),
    "clusters": (np.uint64, lambda random, n: uints(random, 8, n) << np.uint64(60) | uints(random, 1 << 12, n)),
    "exponential gaps": (np.uint64, exponential_gaps),
    "normal": (np.float64, lambda random, n: random.standard_normal(n)),
    "in order": (np.uint64, lambda _, n: np.arange(n, dtype=np.uint64)),
}


@pytest.mark.parametrize("name", KEYS_OF_64_BITS)
def test_keys_of_64_bits_on_one_gpu(name: str) -> None:
    radix_on_one(virtual(), name, (999, 1000, 5003, 40_000))


@pytest.mark.gpu
@pytest.mark.parametrize("name", KEYS_OF_64_BITS)
def test_many_keys_of_64_bits_on_one_gpu(name: str) -> None:
    radix_on_one(cuda_runtime(), name, (6_999_999, 7_000_000))


def shares_first_level(runtime: _core.Runtime) -> bool:
    """Whether the last sort's exchange was its first level."""
    return any(entry.name == "store leading digits" for entry in runtime.timeline())


@pytest.mark.parametrize("carrier", [None, "u4", "u8", "c16"])
@pytest.mark.parametrize("dtype", [np.uint32, np.int64, np.float64], ids=lambda dtype: np.dtype(dtype).name)
def test_the_exchange_is_the_first_level(dtype: Any, carrier: str | None) -> None:
    random = np.random.default_rng(5)
    for num_gpus, donated, descending in itertools.product((2, 3, 8), (False, True), (False, True)):
        # Floats in [1, 2) have codes that are uniformly distributed, too.
        made = 1 + random.random(2500 * num_gpus) if dtype == np.float64 else keys("uniform", 2500 * num_gpus, dtype)
        data = np.array_split(made, num_gpus) if donated else spread(made, num_gpus, random)
        values = carrier and [random.integers(99, size=len(part)).astype(carrier) for part in data]
        runtime = virtual(num_gpus)
        check(runtime, small("radix", num_gpus, 0), data, values or None, donated=donated, descending=descending)
        assert shares_first_level(runtime)


def sends_while_sorting(runtime: _core.Runtime) -> bool:
    """Whether a GPU began to send records before the first part was sorted."""
    timeline = runtime.timeline()
    sorted_at = min(entry.end_ps for entry in timeline if entry.name == "sort received digits")
    return any(entry.stream == "outgoing" and entry.start_ps < sorted_at for entry in timeline)


@pytest.mark.parametrize("carrier", [None, "u4", "u8", "c16"])
@pytest.mark.parametrize("dtype", [np.uint32, np.int64], ids=lambda dtype: np.dtype(dtype).name)
def test_parts_are_sent_while_others_are_sorted(dtype: Any, carrier: str | None) -> None:
    random = np.random.default_rng(6)
    for num_gpus, donated, descending in itertools.product((2, 3, 8), (False, True), (False, True)):
        made = keys("uniform", 8500 * num_gpus, dtype)
        data = np.array_split(made, num_gpus) if donated else spread(made, num_gpus, random)
        values = carrier and [random.integers(99, size=len(part)).astype(carrier) for part in data]
        runtime = virtual(num_gpus)
        check(runtime, small("radix", num_gpus, 0), data, values or None, donated=donated, descending=descending)
        assert sends_while_sorting(runtime)


def test_nothing_is_staged_where_memory_is_short() -> None:
    data = np.array_split(keys("uniform", 200_000, np.uint64), 2)
    runtime = virtual()
    runtime.set_memory_limit(3 << 19)  # enough for a result, 0.8 MB, and what sorting takes beside it
    check(runtime, small("radix", 2, 0), data, donated=True)
    assert shares_first_level(runtime)
    assert not sends_while_sorting(runtime)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_legal_order_of_a_shared_first_level(seed: int) -> None:
    random = np.random.default_rng(seed)
    num_gpus = int(random.integers(2, 9))
    each = int(random.choice([random.integers(2000, 3000), random.integers(8000, 9000)]))
    data = keys(str(random.choice(DISTRIBUTIONS)), each * num_gpus, np.uint64, seed)
    plan = small("radix", num_gpus, 0, samples=2048)
    plan.gpus = random.permutation(8)[:num_gpus].tolist()
    rows = [np.arange(len(part), dtype=np.uint32) for part in np.array_split(data, num_gpus)] if seed % 3 else None
    check(virtual(seed), plan, np.array_split(data, num_gpus), rows, donated=bool(seed % 2), verify=bool(seed % 5))


@pytest.mark.parametrize("distribution", ["all_equal", "one_bit", "zipf"])
def test_splitters_cut_where_digits_cannot(distribution: str) -> None:
    data = np.array_split(keys(distribution, 12_000, np.uint64), 4)
    runtime = virtual()
    held = check(runtime, small("radix", 4, 0, samples=4096), data)
    assert not shares_first_level(runtime)
    assert max(held) < 1.1 * np.mean(held)


@pytest.mark.gpu
@pytest.mark.parametrize("name", KEYS_OF_64_BITS)
def test_many_keys_of_64_bits_on_gpus(name: str) -> None:
    num_gpus = cuda_runtime().machine.num_gpus
    if num_gpus < 2:
        pytest.skip("takes two GPUs")
    dtype, keys_of = KEYS_OF_64_BITS[name]
    random = np.random.default_rng(7)
    plan = small("radix", num_gpus, 0)
    # If they are donated, each GPU sorts two parts, which must not be short.
    for donated, carrier, size in ((False, None, 1), (True, None, 2), (False, "u4", 1), (True, "u8", 1)):
        data = np.array_split(keys_of(random, size * 7_500_001 * num_gpus).astype(dtype), num_gpus)
        values = carrier and [random.integers(99, size=len(part)).astype(carrier) for part in data]
        check(cuda_runtime(), plan, data, values or None, donated=donated, descending=donated)
        assert shares_first_level(cuda_runtime()) or name != "uniform"
