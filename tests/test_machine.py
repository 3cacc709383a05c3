"""Machines: the sharing rule by itself, and reading descriptions."""

from __future__ import annotations

import copy
import json
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import linkwise
from benchmark_on_machine import gb_per_s, host_transfers, peer_transfers
from linkwise import _core
from linkwise.machines.description import machine_from_dict


def plain(*gb_per_s: float) -> list[list[_core.CapacityPoint]]:
    return [[_core.CapacityPoint(1, value)] for value in gb_per_s]


def test_flows_share_equally() -> None:
    assert _core.fair_rates(plain(12), [[(0, 1)]] * 3) == pytest.approx([4, 4, 4])


def test_what_one_cannot_use_others_get() -> None:
    assert _core.fair_rates(plain(10, 2), [[(0, 1)], [(0, 1), (1, 1)]]) == pytest.approx([8, 2])


def test_a_weight_makes_bytes_cost_more() -> None:
    assert _core.fair_rates(plain(12), [[(0, 1)], [(0, 2)]]) == pytest.approx([4, 4])


def test_crowding_lowers_the_capacity() -> None:
    capacity = [[_core.CapacityPoint(1, 40), _core.CapacityPoint(3, 20)]]
    assert sum(_core.fair_rates(capacity, [[(0, 1)]])) == pytest.approx(40)
    assert sum(_core.fair_rates(capacity, [[(0, 1)]] * 2)) == pytest.approx(30)
    assert sum(_core.fair_rates(capacity, [[(0, 1)]] * 5)) == pytest.approx(20)


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[float], list[list[tuple[int, float]]]]:
    capacities = draw(st.lists(st.floats(0.5, 500), min_size=1, max_size=6))
    use = st.tuples(st.integers(0, len(capacities) - 1), st.sampled_from([0.5, 1.0, 1.0, 2.0]))
    flows = draw(st.lists(st.lists(use, min_size=1, max_size=4, unique_by=lambda u: u[0]), min_size=1, max_size=10))
    return capacities, flows


@given(networks())
def test_rates_are_feasible_and_max_min_fair(network: tuple[list[float], list[list[tuple[int, float]]]]) -> None:
    capacities, flows = network
    rates = _core.fair_rates(plain(*capacities), flows)
    load = [0.0] * len(capacities)
    for rate, flow in zip(rates, flows, strict=True):
        for resource, weight in flow:
            load[resource] += weight * rate
    for used, capacity in zip(load, capacities, strict=True):
        assert used <= capacity * (1 + 1e-6)
    for rate, flow in zip(rates, flows, strict=True):
        # Every flow has a bottleneck: a full resource on which nobody gets more than it does.
        assert any(
            load[resource] >= capacities[resource] * (1 - 1e-6)
            and all(
                rate >= other * (1 - 1e-6)
                for other, f in zip(rates, flows, strict=True)
                if any(r == resource for r, _ in f)
            )
            for resource, _ in flow
        )


def test_small_copies_are_slower() -> None:
    machine = linkwise.load_machine("dgx-a100")
    rates = [gb_per_s(machine, host_transfers([0], "htod", size)) for size in (4e3, 4e5, 4e7, 4e9)]
    assert rates == sorted(rates)
    assert rates[0] < 1 and rates[-1] == pytest.approx(24.5, rel=0.01)


def test_routes_prefer_nvlink_and_never_cross_another_gpu() -> None:
    delta = linkwise.load_machine("delta-d22x")
    assert gb_per_s(delta, peer_transfers([(0, 2)], False, 4e9)) == pytest.approx(48, rel=0.01)
    assert gb_per_s(delta, peer_transfers([(0, 3)], False, 4e9)) == pytest.approx(9, rel=0.01)


def test_a_second_copy_waits_for_the_copy_engine() -> None:
    machine = linkwise.load_machine("h200x8")
    runtime = _core.VirtualRuntime(machine, _core.VirtualMode.estimate, 0)
    gpu = _core.Place.gpu(4)
    for name in ("a", "b"):
        first, second = runtime.allocate(_core.Place.host(), 1 << 30), runtime.allocate(gpu, 1 << 30)
        runtime.copy(runtime.stream(gpu, name), second.view, first.view)
    one, two = runtime.timeline()
    assert two.start_ps == one.end_ps


@pytest.mark.parametrize("name", linkwise.described_machines())
def test_described_machines_load(name: str) -> None:
    machine = linkwise.load_machine(name)
    assert machine.name == name
    assert machine.num_gpus >= 2
    for rate in ("sort", "merge", "partition", "histogram", "gather", "encode", "checksum", "pivot"):
        assert rate in machine.gpu.rates


def description() -> dict:
    return json.loads((resources.files("linkwise.machines") / "described" / "ibm-ac922.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("name"), "'name' is missing"),
        (lambda d: d.update(colour="red"), "unknown field 'colour'"),
        (lambda d: d.update(links=3), "'links' has the wrong type"),
        (lambda d: d["links"][0].update(between=[["mem0", "moon"]]), "pairs of nodes"),
        (lambda d: d["links"][0].update(gb_per_s="fast"), "wrong type"),
        (lambda d: d["links"][0].update(gb_per_s=0), "not positive"),
        (lambda d: d["links"][0].update(gb_per_s={"two": 3}), "a capacity is"),
        (lambda d: d["constraints"][0]["terms"][0].update(traffic="smoke"), "traffic is one of"),
        (lambda d: d["constraints"][0]["terms"][0].update(weight=-1), "'weight' is -1"),
        (lambda d: d["nodes"].update(gpus=[]), "pairs of nodes"),
        (lambda d: d["nodes"].update(gpus=["gpu0", "gpu0"]), "two nodes"),
        (lambda d: d["gpu"]["rates"].update(sort=[1, 2]), "rate 'sort'"),
        (lambda d: d["gpu"].update(local_copy_gb_per_s=0), "must be positive"),
    ],
)
def test_a_wrong_description_is_refused_by_name(change, message: str) -> None:
    wrong = copy.deepcopy(description())
    change(wrong)
    with pytest.raises(linkwise.UsageError, match=message):
        machine_from_dict(wrong)


def test_files_that_are_no_machines(tmp_path: Path) -> None:
    with pytest.raises(linkwise.UsageError, match="no machine 'enterprise'; there are .*dgx-a100"):
        linkwise.load_machine("enterprise")
    with pytest.raises(linkwise.UsageError, match="cannot read the machine"):
        linkwise.load_machine(tmp_path / "none.json")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(linkwise.UsageError, match="not JSON"):
        linkwise.load_machine(tmp_path / "broken.json")
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(description() | {"name": "mine"}))
    assert linkwise.load_machine(path).name == "mine"


def test_copies_of_eight_gpus_take_longer_than_of_four_on_the_dgx_h100() -> None:
    """join25 §4.3: 1.3 times, since all traffic of the other socket's GPUs crosses one UPI."""
    machine = linkwise.load_machine("dgx-h100")
    for direction in (_core.Traffic.host_to_device, _core.Traffic.device_to_host):
        four, eight = (_core.even_host_rate(machine, list(range(n)), direction) for n in (4, 8))
        assert four / eight == pytest.approx(1.3, rel=0.05)
