"""Ways over other GPUs: which are chosen, and that copies over them lose nothing, race with nothing and are fast."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import linkwise
from benchmark_on_machine import gb_per_s
from conftest import SEEDS, cuda_runtime
from data import keys
from linkwise import UsageError, _core
from sort_on import VARIANTS, can_run, check_sort, plan_for

IN, OUT = _core.Traffic.host_to_device, _core.Traffic.device_to_host
HOST = _core.Place.host()
gpu = _core.Place.gpu


def crossed(gpus: list[int], fraction: float = 1.0) -> list[_core.Path]:
    """Every GPU's host traffic over its neighbour, and what goes between two GPUs over a third, or over two."""
    paths = []
    n = len(gpus)
    for i, g in enumerate(gpus):
        neighbour = gpus[(i + 1) % n]
        if n > 1:
            paths += [_core.Path(HOST, gpu(g), [neighbour], fraction), _core.Path(gpu(g), HOST, [neighbour], fraction)]
        if n > 3:
            further = gpus[(i + 2) % n]
            paths += [
                _core.Path(gpu(g), gpu(further), [neighbour], fraction / 2),
                _core.Path(gpu(g), gpu(further), [gpus[(i + 3) % n], neighbour], fraction / 2),
            ]
    return paths


@pytest.mark.parametrize("num_gpus", [2, 3, 4, 8])
@pytest.mark.parametrize(("strategy", "exchange"), [v for v in VARIANTS if v[0] != "cpu"])
def test_sorts_over_other_gpus(strategy: str, exchange: str, num_gpus: int) -> None:
    if not can_run(strategy, num_gpus):
        return
    for seed, fraction in enumerate((1.0, 0.6)):
        runtime = _core.VirtualRuntime(linkwise.load_machine("h200x8"), _core.VirtualMode.execute, seed)
        paths = crossed(list(range(num_gpus)), fraction)
        plan = plan_for(list(range(num_gpus)), strategy, exchange, paths=paths, relay_bytes=1024, piece_bytes=4000)
        check_sort(runtime, plan, keys("zipf", 20_011, np.uint64, seed))
        plan.chunkset_records = 7000
        check_sort(runtime, plan, keys("uniform", 20_011, np.float32, seed), descending=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_in_every_legal_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    for strategy, exchange in VARIANTS[:4]:
        gpus = random.permutation(8)[:4].tolist()
        plan = plan_for(
            gpus, strategy, exchange,
            paths=crossed(gpus, float(random.uniform(0.1, 1))), relay_bytes=int(2 ** random.integers(9, 14)),
        )  # fmt: skip
        runtime = _core.VirtualRuntime(linkwise.load_machine("h200x8"), _core.VirtualMode.execute, seed)
        check_sort(runtime, plan, keys("normal", int(random.integers(0, 9000)), np.uint32, seed), value_bytes=8)


@pytest.mark.gpu
@pytest.mark.parametrize(("strategy", "exchange"), [v for v in VARIANTS if v[0] != "cpu"])
def test_sorts_over_other_gpus_on_gpus(strategy: str, exchange: str) -> None:
    num_gpus = cuda_runtime().machine.num_gpus
    gpus = list(range(min(num_gpus, 4)))
    if num_gpus < 2 or not can_run(strategy, len(gpus)):
        return
    for seed, relay_bytes in enumerate((4096, 1 << 20)):
        plan = plan_for(gpus, strategy, exchange, paths=crossed(gpus, 0.8), relay_bytes=relay_bytes)
        check_sort(cuda_runtime(), plan, keys("zipf", 1_000_003, np.uint64, seed))
        plan.chunkset_records = 300_000
        check_sort(cuda_runtime(), plan, keys("normal", 1_000_003, np.float32, seed), descending=True)


def test_memory_of_the_relays_counts() -> None:
    """With a limit that is just enough, out of core, and again: the rings never take what the sort needs."""
    machine = linkwise.load_machine("h200x8")
    data = keys("uniform", 60_000, np.uint32)
    for strategy in ("radix", "p2p_merge", "het"):
        plan = plan_for(
            [0, 1, 4, 5], strategy, "3n" if strategy == "het" else "copies", relay_bytes=8192, samples=512, slack=1.0
        )
        runtime = _core.VirtualRuntime(machine)
        runtime.set_memory_limit(4 << 20)
        plan.paths = crossed(plan.gpus)
        plan.chunkset_records = min(_core.records_that_fit(runtime, plan, _core.RecordType(4, 4)), 50_000)
        for _ in range(2):
            check_sort(runtime, plan, data)
            plain = plan_for(plan.gpus, strategy, "3n" if strategy == "het" else "copies", samples=512, slack=1.0)
            plain.chunkset_records = plan.chunkset_records
            check_sort(runtime, plain, data)


def test_impossible_paths_are_refused() -> None:
    runtime = _core.VirtualRuntime(linkwise.load_machine("h200x8"))
    for paths, complaint in [
        ([_core.Path(HOST, gpu(0), [0])], "passes a GPU twice"),
        ([_core.Path(HOST, gpu(0), [1], 0.7), _core.Path(HOST, gpu(0), [1], 0.7)], "between nothing and all"),
        ([_core.Path(HOST, gpu(0), [5])], "which the plan does not use"),
    ]:
        with pytest.raises(UsageError, match=complaint):
            check_sort(runtime, plan_for([0, 1], "radix", "streamed", paths=paths), keys("uniform", 100, np.uint32))


def test_the_measured_machine_stages_through_four_gpus() -> None:
    """Measured: host traffic of all eight H200s is carried best by {4, 5, 6, 7}, at 177 and 142 GB/s."""
    machine = linkwise.load_machine("h200x8")
    for direction, rate in ((IN, 177), (OUT, 142)):
        shares = _core.best_host_shares(machine, list(range(8)), direction)
        assert shares.gb_per_s == pytest.approx(rate, rel=0.01)
        assert shares.share == pytest.approx([0] * 4 + [0.25] * 4, abs=0.002)
        paths = _core.host_relays(machine, list(range(8)), direction, shares)
        assert {tuple(path.over) for path in paths} == {(4,), (5,), (6,), (7,)}
        assert [path.fraction for path in paths] == pytest.approx([1, 1, 1, 1])


def test_all_eight_sort_as_fast_as_the_four_that_carry() -> None:
    workload, constraints = _core.SortWorkload(), _core.SortConstraints()
    workload.count = 2 * 10**9
    constraints.gpus = list(range(8))
    plans = _core.plan_sort(linkwise.load_machine("h200x8"), workload, constraints)
    straight = next(p for p in plans if not p.plan.paths and p.plan.strategy == _core.SortStrategy.radix)
    assert plans[0].plan.paths
    assert plans[0].seconds < 0.75 * straight.seconds
    constraints.gpus = [4, 5, 6, 7]
    four = _core.plan_sort(linkwise.load_machine("h200x8"), workload, constraints)[0]
    assert plans[0].seconds < 1.03 * four.seconds


def test_relays_where_gpus_have_no_direct_link() -> None:
    """sort22 §7: on the DELTA D22x GPUs 0 and 3, and 1 and 2, only meet over the host, at a quarter of NVLink."""
    machine = linkwise.load_machine("delta-d22x")
    over = {(p.source.index, p.target.index): p.over for p in _core.peer_relays(machine, [0, 1, 2, 3])}
    assert over[0, 3] == [2]
    assert over[1, 2] == [0]
    # tartan20 §3.1.1: on the DGX-1 there are two routes from G0 to G5 with a single stop, G1 and G4.
    for name in ("dgx1-p100", "dgx1-v100"):
        over = {
            (p.source.index, p.target.index): p.over
            for p in _core.peer_relays(linkwise.load_machine(name), list(range(8)))
        }
        assert len(over) == 24  # three of seven peers of each GPU are not its neighbours
        assert over[0, 5] in ([1], [4])
    for name in ("h200x8", "dgx-a100", "dgx-h100"):
        assert _core.peer_relays(linkwise.load_machine(name), list(range(8))) == []
    workload, constraints = _core.SortWorkload(), _core.SortConstraints()
    workload.count = 2 * 10**9
    constraints.gpus, constraints.strategy = [0, 1, 2, 3], _core.SortStrategy.p2p_merge
    plans = _core.plan_sort(machine, workload, constraints)
    straight = next(p for p in plans if not p.plan.paths)
    assert plans[0].seconds < 0.8 * straight.seconds


def machine_of(numbers: list[int], capacity: list[float], shared: float, weights: list[float]) -> _core.Machine:
    machine = linkwise.load_machine("h200x8")
    constraint = _core.Constraint()
    constraint.name, constraint.capacity = "shared", [_core.CapacityPoint(1, shared)]
    terms = []
    for i, g in enumerate(numbers):
        for traffic, end in ((IN, "target"), (OUT, "source")):
            term = _core.Term()
            term.traffic, term.weight = traffic, weights[i]
            setattr(term, end, [g])
            terms.append(term)
    constraint.terms = terms
    own = []
    for i, g in enumerate(numbers):
        each = _core.Constraint()
        each.name, each.capacity = f"gpu{g}", [_core.CapacityPoint(1, capacity[i])]
        term = _core.Term()
        term.traffic, term.target = IN, [g]
        each.terms = [term]
        own.append(each)
    machine.constraints = [constraint, *own]
    return machine


@settings(max_examples=60, deadline=None)
@example([(1.0, 2.0), (1.0, 2.0), (10.0, 1.25), (16.0, 0.5)], 16.0)
@given(
    st.lists(st.tuples(st.floats(1, 50), st.floats(0.5, 3)), min_size=2, max_size=4),
    st.floats(5, 80),
)
def test_shares_reach_the_best_rate(gpus: list[tuple[float, float]], shared: float) -> None:
    """One shared constraint with weights, and one for each GPU: no choice of carriers carries more."""
    capacity, weights = [c for c, _ in gpus], [w for _, w in gpus]
    near = [4, 5, 6, 7][: len(gpus)]  # the GPUs whose links to the host share nothing else
    machine = machine_of(near, capacity, shared, weights)

    def carried(carriers: list[int], share: list[float]) -> float:
        size = 1e10  # so much that latencies do not count
        return gb_per_s(machine, [(HOST, gpu(g), size * part) for g, part in zip(carriers, share, strict=True) if part])

    shares = _core.best_host_shares(machine, near, IN)
    assert sum(shares.share) == pytest.approx(1)
    assert carried(near, shares.share) == pytest.approx(shares.gb_per_s, rel=0.01)
    for size in range(1, len(near) + 1):
        for carriers in itertools.combinations(near, size):
            even = carried(list(carriers), [1 / size] * size)
            assert shares.gb_per_s >= 0.99 * even
    paths = _core.host_relays(machine, near, IN, shares)
    helped = [sum(p.fraction for p in paths if p.target.index == g) for g in near]
    assert all(0 <= h <= 1 + 1e-6 for h in helped)
