"""Tartan's figures 28 to 31: messages between GPUs of two nodes in five ways, and collectives (§3.3, §3.4)."""

from __future__ import annotations

from collections.abc import Callable

from linkwise import _core
from linkwise.machines.catalog import load_machine
from linkwise.machines.network import message_costs
from linkwise.machines.variants import node_of_gpus
from linkwise.messages.numpy_ranks import Step
from linkwise.messages.pricing import PricedRanks
from linkwise.messages.schedules import COLLECTIVES
from linkwise.messages.ways import BETWEEN_NODES, WAYS
from linkwise.probing.mpi import between_processes
from linkwise.reproduce.experiment import Experiment, Lab, Row
from linkwise.reproduce.tartan20.scale_statements import NODES
from linkwise.runtime.session import open_session

SUMMITDEV, SUMMIT = "summitdev-node", "summit-node"
_SIZES = [4**power for power in range(1, 16)]  # 4 B to 1 GiB
_LARGEST = 1 << 30
_STATED_AT = 64_000_000  # bytes


def ranks_on_nodes(name: str, nodes: int, way: str) -> PricedRanks:
    """Ranks on one GPU of each node of a described machine with this many nodes."""
    machine = load_machine(f"{name}:{nodes}")
    return PricedRanks(machine, sorted(set(node_of_gpus(machine)))[:nodes], WAYS[way], message_costs(name))


def seconds_of_message(name: str, way: str, size: int) -> float:
    """Seconds of a message between GPUs of two nodes."""
    step = Step("exchange", "message", size, 0, ((0, 1, size),))
    return ranks_on_nodes(name, 2, way).step_time(step, size).seconds


def _elsewhere(lab: Lab) -> list[Row] | None:
    """If another machine is asked for: rates measured between processes, or a row that says why there are none."""
    if lab.measures:
        with open_session("local") as runtime:
            found = between_processes(runtime)
        return [
            Row(f"{row['what']}, {row['bytes']} bytes", "GB/s", row["gb_per_s"])
            if "bytes" in row
            else Row(row["what"], "GB/s", None, note=row["cannot"])
            for row in found
        ]
    if lab.instead is not None:
        return [Row("between nodes", "GB/s", None, note="it takes nodes: run it on the paper's")]
    return None


def _messages(name: str, stated: dict[str, tuple[float, str]]) -> Callable[[Lab], list[Row]]:
    def run(lab: Lab) -> list[Row]:
        other = _elsewhere(lab)
        if other is not None:
            return other
        rows = []
        for way in BETWEEN_NODES:
            paper, note = stated.get(way, (None, ""))
            seconds = seconds_of_message(name, way, _STATED_AT)
            rows.append(Row(f"{way}, 64 MB", "GB/s", _STATED_AT / seconds / 1e9, paper, note))
        for size in _SIZES:
            for way in BETWEEN_NODES:
                seconds = seconds_of_message(name, way, size)
                rows.append(Row(f"{way}, {size} B, latency", "µs", 1e6 * seconds))
                rows.append(Row(f"{way}, {size} B", "GB/s", size / seconds / 1e9))
        return rows

    return run


def _collectives(name: str, peak: float, note: str) -> Callable[[Lab], list[Row]]:
    def run(lab: Lab) -> list[Row]:
        other = _elsewhere(lab)
        if other is not None:
            return other
        rows = []

        def bus_rate(nodes: int, collective: str, size: int) -> float:
            """Bus bandwidth as NCCL's own benchmark counts it (see ``collective_factor``)."""
            seconds = ranks_on_nodes(name, nodes, "nccl").step_time(Step(collective, collective, size), size).seconds
            return _core.collective_factor(getattr(_core.Collective, collective), nodes) * size / seconds / 1e9

        for nodes in range(2, 9):
            ranks = ranks_on_nodes(name, nodes, "nccl")
            for collective in COLLECTIVES:
                seconds = ranks.step_time(Step(collective, collective, 4), 4).seconds
                rows.append(Row(f"{collective}, {nodes} nodes, 4 B", "µs", 1e6 * seconds))
                stated = (peak, note) if (nodes, collective) == (8, "all_reduce") else (None, "")
                rate = bus_rate(nodes, collective, _LARGEST)
                rows.append(Row(f"{collective}, {nodes} nodes, 1 GiB", "GB/s", rate, *stated))
        rows += [
            Row(f"{collective}, 8 nodes, {size} B", "GB/s", bus_rate(8, collective, size))
            for collective in COLLECTIVES
            for size in _SIZES[2:]
        ]
        return rows

    return run


_RUNS: dict[int, tuple[str, Callable[[Lab], list[Row]]]] = {
    28: ("between nodes of SummitDev", _messages(SUMMITDEV, {"rdma": (12.0, "the most")})),
    29: ("between nodes of Summit", _messages(SUMMIT, {})),
    30: ("collectives between nodes of SummitDev", _collectives(SUMMITDEV, 16, "nearly")),
    31: (
        "collectives between nodes of Summit",
        _collectives(SUMMIT, 32, "more than its two rails of EDR could carry"),
    ),
}

TARTAN20_NODES = tuple(
    Experiment(f"tartan20-fig{figure}", title, run, NODES[figure]) for figure, (title, run) in _RUNS.items()
)
