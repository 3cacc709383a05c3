"""Collectives as rounds of hops, against NumPy; what they are priced at, against what is known of links."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkwise import UsageError, _core
from linkwise.machines.catalog import load_machine
from linkwise.machines.network import MessageCosts, message_costs
from linkwise.machines.variants import node_of_gpus
from linkwise.messages import numpy_ranks, schedules
from linkwise.messages.communicator import Communicator
from linkwise.messages.halos import with_halos
from linkwise.messages.numpy_ranks import NumpyRanks, Step
from linkwise.messages.pricing import PricedRanks, Work
from linkwise.messages.schedules import HOST, Hop
from linkwise.messages.ways import BETWEEN_NODES, WAYS, way_named
from linkwise.probing.mpi import between_described_nodes
from mpi_launch import launch, needs_mpi

DESCRIBED = resources.files("linkwise.machines") / "described"
RANKS = st.integers(1, 9)
KINDS = (("nccl", False), ("host", True), ("host-pinned", False), ("peer", False))


def ranks_of(size: int, kind: tuple[str, bool]) -> NumpyRanks:
    return NumpyRanks(size, WAYS[kind[0]], master=kind[1])


def arrays_of(comm: Communicator, rows: int, seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    return [random.integers(-99, 99, (rows, 3)).astype(np.float64) for _ in range(comm.size)]


@settings(max_examples=60, deadline=None)
@given(
    size=RANKS, rows=st.integers(0, 40), kind=st.sampled_from(KINDS), root=st.integers(0, 8), seed=st.integers(0, 99)
)
def test_collectives_do_what_they_say(size: int, rows: int, kind: tuple[str, bool], root: int, seed: int) -> None:
    comm, root = ranks_of(size, kind), root % size
    arrays = arrays_of(comm, rows, seed)
    before = [array.copy() for array in arrays]
    total = np.sum(arrays, axis=0)
    for operation, right in (("sum", total), ("min", np.min(arrays, axis=0)), ("max", np.max(arrays, axis=0))):
        assert all(np.array_equal(each, right) for each in comm.all_reduce("a", arrays, operation))
        assert np.array_equal(comm.reduce("r", arrays, root, operation)[root], right)
    assert all(np.array_equal(each, arrays[root]) for each in comm.broadcast("b", arrays, root))
    cuts = schedules.even_cuts(rows, size)
    for rank, part in enumerate(comm.reduce_scatter("rs", arrays)):
        assert np.array_equal(part, total[cuts[rank] : cuts[rank + 1]])
    for rank, part in enumerate(comm.scatter("s", arrays, root)):
        assert np.array_equal(part, arrays[root][cuts[rank] : cuts[rank + 1]])
    uneven = [array[: rank % (rows + 1)] for rank, array in enumerate(arrays)]
    assert all(np.array_equal(each, np.concatenate(uneven)) for each in comm.all_gather("g", uneven))
    gathered = comm.gather("ga", uneven, root)
    assert np.array_equal(gathered[root], np.concatenate(uneven))
    assert all(len(each) == 0 for rank, each in enumerate(gathered) if rank != root)
    assert all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))  # the caller's are as they were


@settings(max_examples=40, deadline=None)
@given(size=RANKS, kind=st.sampled_from(KINDS), seed=st.integers(0, 999))
def test_messages_arrive_where_they_are_sent(size: int, kind: tuple[str, bool], seed: int) -> None:
    comm, random = ranks_of(size, kind), np.random.default_rng(seed)
    sent = [
        {
            int(to): random.normal(size=(random.integers(0, 5), 2))
            for to in random.choice(size, random.integers(0, size + 1), replace=False)
        }
        for _ in range(size)
    ]
    received = comm.exchange("e", sent)
    for rank, got in enumerate(received):
        assert set(got) == {source for source in range(size) if rank in sent[source]}
        assert all(np.array_equal(got[source], sent[source][rank]) for source in got)
    parts = [[random.normal(size=(a + b) % 4) for b in range(size)] for a in range(size)]
    for rank, got_parts in enumerate(comm.all_to_all("t", parts)):
        assert all(np.array_equal(got_parts[source], parts[source][rank]) for source in range(size))


def test_messages_keep_their_types_and_shapes() -> None:
    """Also where a rank sends nothing, and where there are no columns."""
    comm = NumpyRanks(2)
    sent = np.arange(3, dtype=np.int32)
    assert comm.exchange("e", [{1: sent}, {}])[1][0].dtype == np.int32
    for empty in (np.zeros((4, 0)), np.zeros((0, 4))):
        both = [empty, empty]
        assert comm.all_gather("g", both)[0].shape == (2 * empty.shape[0], empty.shape[1])
        assert comm.scatter("s", both)[1].shape == (empty.shape[0] // 2, empty.shape[1])
        assert comm.reduce_scatter("r", both)[1].shape == (empty.shape[0] // 2, empty.shape[1])
        assert comm.gather("ga", both)[0].shape == (2 * empty.shape[0], empty.shape[1])
    with pytest.raises(UsageError, match="one data type"):
        comm.exchange("e", [{1: sent}, {0: np.zeros(3)}])
    with pytest.raises(UsageError, match="there is no rank -1"):
        comm.exchange("e", [{-1: sent}, {}])
    with pytest.raises(UsageError, match="too thin for halos of 2"):
        with_halos(comm, "halo", [np.zeros((1, 3)), np.zeros((2, 3))], 2)


def test_what_crosses_the_network_is_called_so() -> None:
    size = 1 << 20
    ranks = PricedRanks(load_machine("summit-node:2"), [0, 6], WAYS["rdma"])
    assert set(ranks.step_time(Step("exchange", "m", size, 0, ((0, 1, size),)), size).by_kind) == {"network"}
    hop = ((1, HOST, size),)
    for way in ("host", "rdma"):  # each process has a host of its own
        ranks = PricedRanks(load_machine("summit-node:2"), [0, 6], WAYS[way], master=True)
        assert set(ranks.step_time(Step("collect", "c", size, 0, hop), size).by_kind) == {"DtoH"}
    reduction = Step("all_reduce", "a", size)
    orders = ([0, 1, 2, 6, 7, 8], [0, 6, 1, 7, 2, 8])
    seconds = [
        PricedRanks(load_machine("summit-node:2"), order, WAYS["nccl"]).step_time(reduction, size).seconds
        for order in orders
    ]
    assert seconds[0] == pytest.approx(seconds[1])


def test_a_machines_file_may_name_its_network(tmp_path: Any) -> None:
    described = json.loads((DESCRIBED / "summitdev-node.json").read_text(encoding="utf-8"))
    (tmp_path / "m.json").write_text(json.dumps(described))
    assert load_machine(tmp_path / "m.json").num_gpus == 4
    assert message_costs(tmp_path / "m.json") == message_costs("summitdev-node")


def test_slabs_get_their_neighbours_planes() -> None:
    whole = np.arange(21.0).reshape(7, 3)
    for size in (1, 2, 3):
        cuts = schedules.even_cuts(7, size)
        slabs = [whole[cuts[rank] : cuts[rank + 1]] for rank in range(size)]
        for rank, wide in enumerate(with_halos(NumpyRanks(size), "halo", slabs, 2)):
            rows = np.arange(cuts[rank] - 2, cuts[rank + 1] + 2) % 7
            assert np.array_equal(wide, whole[rows])


def test_hops_whose_order_is_not_given_are_found() -> None:
    """The same as races between streams: a round is right only if its hops may run in any order."""
    with pytest.raises(_core.ProgramError, match="write the same elements"):
        numpy_ranks.check_round([Hop(0, 2, 0, 4, 0), Hop(1, 2, 0, 4, 3)], in_place=False)
    with pytest.raises(_core.ProgramError, match="reads what"):
        numpy_ranks.check_round([Hop(0, 1, 0, 4, 0), Hop(1, 2, 3, 5, 0)], in_place=True)
    numpy_ranks.check_round([Hop(0, 1, 0, 4, 0), Hop(1, 2, 4, 5, 0)], in_place=True)
    numpy_ranks.check_round([Hop(0, HOST, 0, 4, 0, True), Hop(1, HOST, 0, 4, 0, True)], in_place=True)


@pytest.mark.parametrize("change", ["drop a round", "shift a piece", "swap ranks"])
def test_a_wrong_schedule_gives_wrong_answers(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What moves NumPy's arrays is what is priced: nothing but the rounds carries data."""
    ring = schedules.ring_all_gather

    def changed(ranks: Any, cuts: Any) -> schedules.Rounds:
        rounds = ring(ranks, cuts)
        if change == "drop a round":
            return rounds[1:]
        if change == "swap ranks":
            return ring([ranks[1], ranks[0], *ranks[2:]], cuts)[:-1]
        return [[Hop(h.source, h.target, h.begin, h.end - 1, h.to) for h in hops] for hops in rounds]

    monkeypatch.setattr(schedules, "ring_all_gather", changed)
    comm = NumpyRanks(4)
    arrays = arrays_of(comm, 8, 0)
    assert not all(np.array_equal(each, np.sum(arrays, axis=0)) for each in comm.all_reduce("a", arrays))


def test_what_ranks_are_asked_for_is_checked() -> None:
    with pytest.raises(UsageError, match="reduce by sum, min, max"):
        NumpyRanks(2).all_reduce("a", [np.zeros(3)] * 2, "mean")
    with pytest.raises(UsageError, match="there is no way 'wire'"):
        way_named("wire")
    with pytest.raises(UsageError, match="leads from node to node"):
        way_named("rdma")
    with pytest.raises(UsageError, match="no peer access"):
        way_named("peer", nodes=2)
    with pytest.raises(UsageError, match="has no price"):
        PricedRanks(load_machine("dgx2"), [0], WAYS["nccl"]).run_time([Step("compute", "x")], {})


@pytest.mark.parametrize("gpus", [2, 3, 4, 8])
@pytest.mark.parametrize("machine", ["dgx1-p100", "dgx1-v100", "dgx2"])
def test_simulated_rings_are_as_fast_as_their_bound(machine: str, gpus: int) -> None:
    """NCCL's bus bandwidth: what all rings carry past each GPU together (``rings_of``)."""
    described = load_machine(machine)
    ranks = PricedRanks(described, range(gpus), WAYS["nccl"])
    rings = _core.rings_of(described, list(range(gpus)))
    size = 1 << 28
    for kind in ("all_reduce", "all_gather", "reduce_scatter"):
        bound = _core.collective_seconds(getattr(_core.Collective, kind), rings, gpus, size)
        assert ranks.step_time(Step(kind, kind, size), size).seconds == pytest.approx(bound, rel=0.02)
    for kind in ("broadcast", "reduce"):  # a chain fills in the beginning and empties in the end
        bound = _core.collective_seconds(getattr(_core.Collective, kind), rings, gpus, size)
        filling = 1 + (gpus - 2) / schedules.CHAINED_PIECES
        assert bound <= ranks.step_time(Step(kind, kind, size), size).seconds <= 1.05 * filling * bound


def test_messages_cost_what_their_links_carry() -> None:
    described, size = load_machine("dgx1-v100"), 10**8
    hops = ((0, 1, size),)

    def seconds(way: str) -> float:
        return PricedRanks(described, [0, 1], WAYS[way]).step_time(Step("exchange", "m", size, 0, hops), size).seconds

    assert seconds("peer") == pytest.approx(size / 24e9, rel=0.02)  # one NVLink
    assert seconds("host-pinned") == pytest.approx(2 * size / 12.5e9, rel=0.02)  # out, then in
    assert seconds("host") == pytest.approx(2 * size / 8e9, rel=0.02)  # pageable
    work = PricedRanks(described, [0], WAYS["peer"]).step_time(Step("compute", "w"), Work(760e9)).seconds
    assert work == pytest.approx(1, rel=1e-4)  # the copy rate, counted twice
    flops = PricedRanks(described, [0], WAYS["peer"]).step_time(Step("compute", "w"), Work(8, 7.45e12)).seconds
    assert flops == pytest.approx(1, rel=1e-2)  # table 1 of tartan20


def test_pageable_copies_of_two_nodes_do_not_share_a_core() -> None:
    one, two = load_machine("summit-node"), load_machine("summit-node:2")
    size = 10**8

    def out_of(machine: Any, gpus: list[int]) -> float:
        hops = tuple((rank, HOST, size) for rank in range(len(gpus)))
        ranks = PricedRanks(machine, gpus, WAYS["host"], master=True)
        return ranks.step_time(Step("collect", "c", size, 0, hops), size).seconds

    assert out_of(one, [0, 3]) == pytest.approx(2 * out_of(one, [0]), rel=0.01)
    copies = [_core.Transfer(_core.Place.gpu(gpu), _core.Place.host(node), size) for gpu, node in ((0, 0), (6, 2))]
    assert copies and len(set(node_of_gpus(two))) == 2
    runtime = _core.VirtualRuntime(two, _core.VirtualMode.estimate, 0)
    for gpu, node in ((0, 0), (6, 2)):
        memory = runtime.memory(_core.Place.host(node), size, pageable=True)
        runtime.copy(runtime.stream(_core.Place.gpu(gpu)), memory, runtime.memory(_core.Place.gpu(gpu), size))
    took = max(entry.end_ps for entry in runtime.timeline()) * 1e-12
    assert took == pytest.approx(out_of(one, [0]), rel=0.01)


def test_only_an_estimate_has_memory_without_contents() -> None:
    runtime = _core.VirtualRuntime(load_machine("volta4"), _core.VirtualMode.execute, 0)
    with pytest.raises(UsageError, match="only an estimate"):
        runtime.memory(_core.Place.gpu(0), 8)


def test_goodput_of_rdma_is_read_between_its_points() -> None:
    costs = MessageCosts(rdma_goodput={1024: 1.0, 4096: 0.5})
    shares = [costs.rdma_goodput_of(size) for size in (1, 1024, 2048, 4096, 10**9)]
    assert shares == pytest.approx([1, 1, 0.75, 0.5, 0.5])
    assert message_costs("summitdev-node:4").rdma_goodput_of(1 << 15) == pytest.approx(0.06)
    assert message_costs("dgx2") == MessageCosts()


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ("5", "an object with"),
        ('{"host_us": "x"}', "'host_us' is a number"),
        ('{"per_us": 1}', "an object with"),
        ('{"rdma_goodput": {"4k": 1}}', "by the bytes of a message"),
        ('{"rdma_goodput": {"4": 2}}', "at most 1"),
        ('{"part_bytes": 0}', "a byte at least"),
    ],
)
def test_wrong_costs_of_messages_are_told(messages: str, told: str, tmp_path: Any) -> None:
    (tmp_path / "m.json").write_text(f'{{"network": {{"messages": {messages}}}}}')
    with pytest.raises(UsageError, match=re.escape(told)):
        message_costs(tmp_path / "m.json")


def test_a_probe_of_described_nodes_tells_what_their_links_take() -> None:
    rows = between_described_nodes(load_machine("summit-node:2"))
    by_what = {(row["what"].split(", ")[0] + " " + row["what"].split(", ")[1], row["bytes"]): row for row in rows}
    largest = {way: by_what[f"message {way}", 4**14]["gb_per_s"] for way in (*BETWEEN_NODES, "nccl")}
    assert largest["rdma"] == max(largest.values())
    assert largest["rdma"] == pytest.approx(23.5, rel=0.02)
    assert by_what["all_reduce nccl", 4**13]["gb_per_s"] == pytest.approx(23.5, rel=0.05)
    assert "several nodes" in between_described_nodes(load_machine("dgx2"))[0]["cannot"]


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("way", ["host", "host-gpudirect"])
def test_processes_send_what_one_process_does(processes: int, way: str) -> None:
    names = ["convnet", "gmm", "langford", "ising", "molecular", "turbulence", "matmul"]
    told = launch("tartan_process.py", processes, way, ",".join(names)).splitlines()
    assert [line.split()[0] for line in told] == names
    assert all(float(line.split()[1]) <= 1 for line in told)
