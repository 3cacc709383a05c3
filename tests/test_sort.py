"""The sorts: every strategy, number of GPUs, distribution and size, on every backend, under many seeds."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkwise
from conftest import SEEDS, cuda_runtime
from data import DISTRIBUTIONS, keys
from linkwise import _core
from sort_on import VARIANTS, can_run, check_sort, plan_for

MACHINE = linkwise.load_machine("dgx-a100")
GPU_COUNTS = range(1, 9)
SIZES = (0, 1, 2, 3, 63, 1000, 5003)
DTYPES = (np.uint32, np.int64, np.float64, np.float32, np.uint8, np.int16, np.float16)


def virtual(seed: int = 0) -> _core.Runtime:
    return _core.VirtualRuntime(MACHINE, _core.VirtualMode.execute, seed)


@pytest.mark.parametrize("num_gpus", GPU_COUNTS)
@pytest.mark.parametrize(("strategy", "exchange"), VARIANTS)
def test_every_size_and_distribution(strategy: str, exchange: str, num_gpus: int) -> None:
    if not can_run(strategy, num_gpus):
        return
    for size in SIZES:
        for distribution in DISTRIBUTIONS:
            # Few samples, so that splitters are estimates already at this size; and room for their error.
            plan = plan_for(list(range(num_gpus)), strategy, exchange, samples=512, slack=1.0, piece_bytes=500)
            check_sort(virtual(size), plan, keys(distribution, size, np.uint32))


SORTS_OF_PARTS = [variant for variant in VARIANTS if variant[0] != "cpu" and not variant[1].endswith("buckets")]


def sorts_by_msd(runtime: _core.Runtime) -> int:
    """How many of the last sort's parts were sorted by their leading digits; one more look was at a sample of all."""
    return sum(entry.name == "look at keys" for entry in runtime.timeline()) - 1


@pytest.mark.parametrize("value_bytes", [0, 8])
@pytest.mark.parametrize("dtype", [np.uint32, np.float64], ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize(("strategy", "exchange"), SORTS_OF_PARTS)
def test_parts_are_sorted_by_leading_digits(strategy: str, exchange: str, dtype: Any, value_bytes: int) -> None:
    random = np.random.default_rng(3)
    bits = 8 * np.dtype(dtype).itemsize
    for num_gpus, descending in itertools.product((1, 2, 4), (False, True)):
        # Sorted in runs and pieces by the streamed sort, in chunks by the others.
        fields: dict[str, Any] = {"piece_bytes": 9000, "samples": 2048, "buckets": 3, "slack": 0.3}
        if strategy == "het" and num_gpus > 1:
            fields["chunkset_records"] = 2500 * num_gpus
        plan = plan_for(list(range(num_gpus)), strategy, exchange, **fields)
        runtime = virtual(num_gpus)
        uniform = keys("uniform", 9001 * num_gpus, dtype) if dtype == np.uint32 else 1 + random.random(9001 * num_gpus)
        check_sort(runtime, plan, uniform, value_bytes=value_bytes, descending=descending)
        assert sorts_by_msd(runtime) >= num_gpus
        # Half of any range's keys lie at its beginning, so that cutting it evenly divides few of them.
        word = np.dtype(f"u{bits // 8}")
        powers = (np.ones(len(uniform), word) << random.integers(0, bits - 2, len(uniform)).astype(word)).view(dtype)
        runtime.clear_timeline()
        check_sort(runtime, plan, powers, value_bytes=value_bytes, descending=descending)
        assert sorts_by_msd(runtime) == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize(("strategy", "exchange"), VARIANTS)
def test_every_kind_of_key_in_both_directions(strategy: str, exchange: str, dtype: Any) -> None:
    for num_gpus in (1, 2, 4):
        for distribution in ("uniform", "extremes", "one_bit"):
            for descending in (False, True):
                plan = plan_for(list(range(num_gpus)), strategy, exchange)
                check_sort(virtual(), plan, keys(distribution, 2001, dtype), descending=descending)


@pytest.mark.parametrize("value_bytes", [0, 4, 8, 16])
@pytest.mark.parametrize(("strategy", "exchange"), VARIANTS)
def test_values_from_the_host_follow_their_keys(strategy: str, exchange: str, value_bytes: int) -> None:
    data = keys("zipf", 3000, np.uint64)
    carrier = {0: None, 4: np.dtype("u4"), 8: np.dtype("u8"), 16: np.dtype("c16")}[value_bytes]
    values = (
        None
        if carrier is None
        else np.random.default_rng(0).integers(0, 255, (3000, value_bytes), dtype=np.uint8).view(carrier).ravel()
    )
    out_keys, out_values = np.empty_like(data), None if values is None else np.empty_like(values)
    plan = plan_for([3, 1, 2, 0], strategy, exchange)
    _core.sort_host(virtual(), plan, _core.KeyType.u64, data, values, out_keys, out_values)
    order = np.argsort(data, kind="stable")
    assert (out_keys == data[order]).all()
    if values is not None:
        assert out_values.tobytes() == values[order].tobytes()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_legal_order(seed: int) -> None:
    """Seeded random orders of execution; races, deadlocks and uses after free raise."""
    random = np.random.default_rng(seed)
    for strategy, exchange in VARIANTS:
        num_gpus = int(2 ** random.integers(1, 4)) if strategy == "p2p_merge" else int(random.integers(1, 9))
        gpus = random.permutation(8)[:num_gpus].tolist()
        dtype = [np.uint32, np.int64, np.float32, np.float64, np.uint8][seed % 5]
        data = keys(str(random.choice(DISTRIBUTIONS)), int(random.integers(0, 4000)), dtype, seed)
        piece_bytes = int(2 ** random.integers(6, 16))
        samples = int(random.integers(256, 2048))
        at_once = int(random.choice([0, 0, 500, 1500]))
        plan = plan_for(
            gpus, strategy, exchange, samples=samples, slack=1.0, piece_bytes=piece_bytes, chunkset_records=at_once
        )
        plan.merge_on_gpus = bool(random.integers(0, 2))
        check_sort(virtual(seed), plan, data)


@settings(max_examples=200, deadline=None)
@given(
    data=st.lists(st.integers(0, 20) | st.integers(0, 2**32 - 1), max_size=300),
    num_gpus=st.integers(1, 8),
    variant=st.sampled_from(VARIANTS),
    chunkset=st.sampled_from([0, 0, 7, 64]),
    merge_on_gpus=st.booleans(),
    piece_bytes=st.sampled_from([16, 100, 1 << 20]),
    seed=st.integers(0, 2**32),
)
def test_any_input(
    data: list[int],
    num_gpus: int,
    variant: tuple[str, str],
    chunkset: int,
    merge_on_gpus: bool,
    piece_bytes: int,
    seed: int,
) -> None:
    if can_run(variant[0], num_gpus):
        plan = plan_for(list(range(num_gpus)), *variant, chunkset_records=chunkset, piece_bytes=piece_bytes)
        plan.merge_on_gpus = merge_on_gpus
        check_sort(virtual(seed), plan, np.array(data, np.uint32))


@pytest.mark.parametrize("dtype", [np.uint32, np.int64, np.int8, np.float32])
@pytest.mark.parametrize(("strategy", "exchange"), [variant for variant in VARIANTS if variant[0] != "cpu"])
def test_chunksets_become_runs_that_are_merged(strategy: str, exchange: str, dtype: Any) -> None:
    for at_once in (1, 999, 1000, 2500):
        for merge_on_gpus in (False, True):
            plan = plan_for([0, 1], strategy, exchange, chunkset_records=at_once, merge_on_gpus=merge_on_gpus)
            report = check_sort(virtual(), plan, keys("uniform", 4000 if at_once > 1 else 20, dtype), descending=True)
            assert {"merge runs", "merge"} & {phase.phase for phase in report.phases}


ZIPF = tuple(f"zipf {exponent}" for exponent in (0, 0.5, 1, 1.5, 2, 3))


@pytest.mark.parametrize("exchange", ["streamed", "copies", "streamed msb", "fused msb"])
@pytest.mark.parametrize("distribution", [*DISTRIBUTIONS, *ZIPF])
def test_radix_gives_every_gpu_its_share(distribution: str, exchange: str) -> None:
    """Max/mean ≤ 1.01 in one round, all-equal included: what arrives is seen in what each GPU copies out."""
    for num_gpus in (2, 3, 8):
        data = keys(distribution, 400_000, np.uint32)
        plan = plan_for(list(range(num_gpus)), "radix", exchange, samples=1 << 18, buckets=1)
        report = check_sort(virtual(), plan, data, value_bytes=0)
        received = [entry.bytes for entry in report.timeline if entry.is_copy and entry.phase == "DtoH"]
        assert len(received) == num_gpus
        assert max(received) <= 1.01 * sum(received) / num_gpus


def test_msb_refines_only_what_spans() -> None:
    """join25 §3.1.2: one pass of eight bits a level, and a level more only for a bucket that a cut would split."""

    def passes(distribution: str, num_gpus: int) -> tuple[int, list[int]]:
        data = keys(distribution, 400_000, np.uint32)
        report = check_sort(
            virtual(), plan_for(list(range(num_gpus)), "radix", "streamed msb", buckets=1), data, value_bytes=0
        )
        assert "histogram" in [phase.phase for phase in report.phases]
        on_first = [e for e in report.timeline if e.name == "histogram" and e.place.index == 0]
        return len(on_first), [e.bytes for e in report.timeline if e.is_copy and e.phase == "DtoH"]

    levels, received = passes("uniform", 2)  # a cut in the middle of the range, where two buckets meet
    assert levels == 1
    levels, received = passes("uniform", 7)  # a seventh of 256 buckets is no whole number
    assert levels == 2
    assert max(received) <= (1 + 2 * 0.005) * sum(received) / 7
    assert passes("zipf 1", 4)[0] > 2
    assert passes("all_equal", 4)[0] == 4  # then samples have to cut the one key


def test_a_last_round_that_is_smaller_but_not_small() -> None:
    """3000 records are three pieces of 1000; the remaining 1900, cut alone, would be one piece that has no room."""
    plan = plan_for([0], "radix", "streamed", chunkset_records=3000, piece_bytes=8000)
    check_sort(virtual(), plan, keys("uniform", 4900, np.uint32))


def test_unlucky_samples_only_cost_time() -> None:
    """Far too few samples: a bucket overflows, and the sort goes another way."""
    data = keys("uniform", 50_000, np.uint32)
    plan = plan_for([0, 1, 2, 3], "radix", "streamed", samples=8, slack=0.9, piece_bytes=4096, buckets=4)
    report = check_sort(virtual(), plan, data)
    assert [phase.phase for phase in report.phases].count("sample") == 1


def test_a_run_arrives_while_the_one_before_leaves() -> None:
    """join25 §3.1.3, figure 6: both directions of the links at once, and the exchange does not wait for the way out."""
    workload = _core.SortWorkload()
    workload.count = 1_200_000_000
    plan = plan_for([4, 5], "radix", "streamed", chunkset_records=workload.count // 4)
    report = _core.estimate_sort(linkwise.load_machine("h200x8"), workload, plan)
    runs = [e for e in report.timeline if e.phase != "merge runs" and e.place.index == 4]
    out = [e for e in runs if e.is_copy and e.phase == "DtoH"]

    def while_others_leave(entries: list[Any]) -> float:
        """The share of them that are under way while something leaves."""
        return sum(any(e.start_ps < o.end_ps and o.start_ps < e.end_ps for o in out) for e in entries) / len(entries)

    assert while_others_leave([e for e in runs if e.is_copy and e.phase == "HtoD"]) > 0.45
    assert while_others_leave([e for e in runs if e.name == "partition"]) > 0.45


def test_streaming_overlaps_transfers_with_work() -> None:
    """Pieces are exchanged while others arrive, and buckets leave while others are sorted."""
    plan = plan_for([0, 2], "radix", "streamed", piece_bytes=1 << 18)
    report = check_sort(virtual(), plan, keys("uniform", 1 << 20, np.uint32))
    copies_in = [entry for entry in report.timeline if entry.phase == "HtoD"]
    exchanges = [entry for entry in report.timeline if entry.name == "partition"]
    copies_out = [entry for entry in report.timeline if entry.phase == "DtoH" and entry.is_copy]
    sorts = [entry for entry in report.timeline if entry.name == "sort" and entry.phase == "sort"]
    assert min(entry.start_ps for entry in exchanges) < max(entry.start_ps for entry in copies_in)
    assert min(entry.start_ps for entry in copies_out) < max(entry.start_ps for entry in sorts)


def het_entries(exchange: str) -> list[_core.TimelineEntry]:
    plan = plan_for([0, 2], "het", exchange, chunkset_records=200_000)
    return list(check_sort(virtual(), plan, keys("uniform", 1_000_000, np.uint32)).timeline)


def overlaps(entries: list[_core.TimelineEntry], one: str, other: str) -> bool:
    """Whether an operation of one phase runs, on some GPU, while one of the other phase does."""
    first, second = ([e for e in entries if e.phase == phase] for phase in (one, other))
    return any(a.start_ps < b.end_ps and b.start_ps < a.end_ps and a.place == b.place for a in first for b in second)


def test_het_overlaps_as_its_variant_says() -> None:
    """sort22 §5.3, figures 10 and 11."""
    two, three, eager = (het_entries(exchange) for exchange in ("2n", "3n", "3n eager"))
    assert overlaps(two, "HtoD", "DtoH") and overlaps(three, "HtoD", "DtoH")
    assert not overlaps(two, "sort", "HtoD"), "two buffers: copies wait for the sort"
    assert overlaps(three, "sort", "HtoD") and overlaps(three, "sort", "DtoH")
    merges = [entry for entry in eager if entry.phase == "eager merge"]
    assert len(merges) == 4, "all groups but the last"
    assert merges[0].start_ps < max(entry.start_ps for entry in eager if entry.phase == "sort")


def test_p2p_merge_skips_swaps_of_what_is_in_order() -> None:
    """sort22 §5.2: a pivot of zero exchanges nothing."""
    plan = plan_for([0, 1, 2, 3], "p2p_merge", "copies")

    def exchanged(distribution: str) -> int:
        report = check_sort(virtual(), plan, keys(distribution, 4000, np.uint32))
        return sum(
            entry.bytes
            for entry in report.timeline
            if entry.is_copy and entry.phase == "merge" and entry.source != entry.target and entry.target.is_gpu
        )

    assert exchanged("sorted") == exchanged("all_equal") == 0
    assert 0 < exchanged("uniform") <= exchanged("reversed")


@pytest.mark.parametrize(
    ("gpus", "strategy", "message"),
    [
        ([], "radix", "at least one GPU"),
        ([0, 8], "radix", "no GPU 8"),
        ([0, -1], "radix", "no GPU -1"),
        ([1, 1], "radix", "named twice"),
        ([0, 1, 2], "p2p_merge", "2, 4, 8, … GPUs, not on 3; use radix"),
    ],
)
def test_impossible_plans_are_refused(gpus: list[int], strategy: str, message: str) -> None:
    plan = plan_for(gpus, strategy, "copies")
    data = keys("uniform", 100, np.uint32)
    with pytest.raises(linkwise.UsageError, match=message):
        _core.sort_host(virtual(), plan, _core.KeyType.u32, data, None, np.empty_like(data))


def test_a_corrupted_result_is_found() -> None:
    """Verification is itself tested: what a faulty sort or link would leave does not go unnoticed."""
    data = np.arange(1000, dtype=np.uint32)
    swapped, changed = data.copy(), data.copy()
    swapped[[5, 6]] = swapped[[6, 5]]
    changed[7] = 6
    _core.verify_parts(virtual(), data, data, 2)
    for result, message in (
        (swapped, "out of order"),
        (changed, "checksums differ"),
        (np.roll(data, 500), "begins before"),
    ):
        with pytest.raises(linkwise.CorruptDataError, match=message):
            _core.verify_parts(virtual(), data, result, 2)
    _core.verify_parts(virtual(), data, np.concatenate([data, data]), 2, copies=True)
    for copy, message in ((swapped, "GPU 1 is out of order"), (changed, "checksums differ")):
        with pytest.raises(linkwise.CorruptDataError, match=message):
            _core.verify_parts(virtual(), data, np.concatenate([data, copy]), 2, copies=True)


# ---- The same on real GPUs.


@pytest.mark.gpu
@pytest.mark.parametrize("num_gpus", GPU_COUNTS)
@pytest.mark.parametrize(("strategy", "exchange"), VARIANTS)
def test_gpus_every_distribution(strategy: str, exchange: str, num_gpus: int) -> None:
    runtime = cuda_runtime()
    if not can_run(strategy, num_gpus) or num_gpus > runtime.machine.num_gpus:
        return
    gpus = list(range(num_gpus))
    for size in (0, 1, 5003, 1_000_003):
        for distribution in DISTRIBUTIONS:
            slack = 1.0 if size < 100_000 else 0.02
            check_sort(runtime, plan_for(gpus, strategy, exchange, slack=slack), keys(distribution, size, np.uint32))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize(("strategy", "exchange"), VARIANTS)
def test_gpus_every_kind_of_key(strategy: str, exchange: str, dtype: Any) -> None:
    runtime = cuda_runtime()
    num_gpus = 1 << (runtime.machine.num_gpus.bit_length() - 1)
    for descending in (False, True):
        for distribution in ("uniform", "extremes"):
            for value_bytes in (0, 4, 8, 16)[: 3 if descending else 2]:
                plan = plan_for(list(range(num_gpus)), strategy, exchange)
                check_sort(
                    runtime, plan, keys(distribution, 20_001, dtype), value_bytes=value_bytes, descending=descending
                )


@pytest.mark.gpu
@pytest.mark.parametrize(("strategy", "exchange"), VARIANTS)
def test_gpus_chunksets(strategy: str, exchange: str) -> None:
    runtime = cuda_runtime()
    gpus = [0] if runtime.machine.num_gpus == 1 else [0, 1]
    for merge_on_gpus in (False, True):
        plan = plan_for(gpus, strategy, exchange, chunkset_records=30_000, merge_on_gpus=merge_on_gpus)
        check_sort(runtime, plan, keys("uniform", 100_000, np.int32))


@pytest.mark.parametrize("limit_mib", [100, 200, 300, 420, 500, 700, 1000, 1600])
@pytest.mark.parametrize("num_gpus", [1, 4])
def test_what_fits_fits_in_less_as_well(num_gpus: int, limit_mib: int) -> None:
    """Any number of records up to what is said to fit can be sorted at once: the plan relies on it."""
    machine = linkwise.load_machine("h200x8")
    plan = plan_for(list(range(num_gpus)), "radix", "streamed")
    estimating = _core.VirtualRuntime(machine, _core.VirtualMode.estimate)
    estimating.set_memory_limit(limit_mib << 20)
    fitting = _core.records_that_fit(estimating, plan, _core.RecordType(4, 0))
    workload = _core.SortWorkload()
    for part in range(1, 40):
        workload.count = fitting * part // 40
        _core.estimate_sort(machine, workload, plan, limit_mib << 20)
