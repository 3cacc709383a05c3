"""Tartan's figures 18 to 31: collectives within a machine and between nodes, and messages between nodes.

Collectives go along NCCL's rings (machine/rings). The paper's bandwidth is NCCL's bus bandwidth: what its rings carry
past each GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from linkwise import _core
from linkwise._core import Machine
from linkwise.machines.catalog import load_machine
from linkwise.reproduce.experiment import Experiment, Lab, Row, saturation

P100, V100, DGX2, SLI = "dgx1-p100", "dgx1-v100", "dgx2", "sli-rtx2080"
SUMMITDEV, SUMMIT = "summitdev-node", "summit-node"
_LARGEST = 1e9
_SIZES = [8 * 4**power for power in range(14)]  # 8 B to 512 MiB

_OPERATIONS = {
    "broadcast": _core.Collective.broadcast,
    "all-gather": _core.Collective.all_gather,
    "reduce": _core.Collective.reduce,
    "all-reduce": _core.Collective.all_reduce,
    "reduce-scatter": _core.Collective.reduce_scatter,
}


def _measured(lab: Lab) -> list[Row]:
    """By NCCL on this machine, all sizes."""
    rows = []
    for row in lab.families(["collectives"]):
        what = f"{row.what}, {row.bytes} bytes" if row.bytes else row.what
        rows.append(Row(what, "GB/s", None if row.why_not else row.measured.gb_per_s, note=row.why_not))
        if not row.why_not and row.bytes <= 4096:
            rows.append(Row(f"{row.what}, start-up", "µs", 1e6 * row.measured.seconds))
    return rows


def _simulated(run: Callable[[Lab], list[Row]]) -> Callable[[Lab], list[Row]]:
    """Where GPUs are measured, NCCL itself takes the place of its model."""

    def either(lab: Lab) -> list[Row]:
        rows = _measured(lab) if lab.measures else run(lab)
        return rows or [Row("collectives", "GB/s", None, note="they take two GPUs")]

    return either


def _kinds(lab: Lab, names: Sequence[str]) -> list[tuple[str, Machine]]:
    names = names[:1] if lab.instead else names
    return [variant for name in names for variant in lab.variants(name) if variant[1].num_gpus > 1]


def _bandwidth(machine: Machine, gpus: Sequence[int], operation: _core.Collective, size: float) -> float:
    rings = _core.rings_of(machine, list(gpus))
    seconds = _core.collective_seconds(operation, rings, len(gpus), size)
    return _core.collective_factor(operation, len(gpus)) * size / seconds / 1e9


def _rings(lab: Lab) -> list[Row]:
    """Figure 18: the rings of eight GPUs, and what they carry together."""
    rows = []
    for label, machine in _kinds(lab, [P100, V100]):
        rings = _core.rings_of(machine, list(range(machine.num_gpus)))
        shown = "; ".join("–".join(map(str, ring)) for ring in rings.rings[:4])
        rows.append(Row(f"{label}, {len(rings.rings)} rings", "GB/s", rings.gb_per_s, note=shown))
    return rows


def _latencies(names: Sequence[str], paper: dict[str, float]) -> Callable[[Lab], list[Row]]:
    def run(lab: Lab) -> list[Row]:
        rows = []
        for label, machine in _kinds(lab, names):
            for gpus in range(2, machine.num_gpus + 1):
                rings = _core.rings_of(machine, list(range(gpus)))
                for name, operation in _OPERATIONS.items():
                    seconds = _core.collective_seconds(operation, rings, gpus, 8)
                    rows.append(Row(f"{label}, {name}, {gpus} GPUs", "µs", 1e6 * seconds, paper.get(label)))
        return rows

    return run


def _bandwidths(names: Sequence[str]) -> Callable[[Lab], list[Row]]:
    def run(lab: Lab) -> list[Row]:
        rows, found = [], {}
        for label, machine in _kinds(lab, names):
            for gpus in range(2, machine.num_gpus + 1):
                rate = _bandwidth(machine, range(gpus), _core.Collective.all_reduce, _LARGEST)
                found[label, gpus] = rate
                note = "a bad number of GPUs" if gpus == 5 and "NVLink" in label else ""
                rows.append(Row(f"{label}, all-reduce, {gpus} GPUs", "GB/s", rate, note=note))
        for gpus, paper in ((4, 1.6), (8, 2.0)):
            newer, older = found.get((f"{V100}, NVLink", gpus)), found.get((f"{P100}, NVLink", gpus))
            if newer and older:
                rows.append(Row(f"NVLink 2 to NVLink 1, {gpus} GPUs", "×", newer / older, paper, "about"))
        return rows

    return run


def _over_sizes(names: Sequence[str], paper: dict[str, float]) -> Callable[[Lab], list[Row]]:
    def run(lab: Lab) -> list[Row]:
        rows = []
        for label, machine in _kinds(lab, names):
            gpus = range(machine.num_gpus)
            rates = [_bandwidth(machine, gpus, _core.Collective.all_reduce, size) for size in _SIZES]
            full = saturation(_SIZES, rates) / 2**20
            stated = next((value for how, value in paper.items() if label.endswith(how)), None)
            rows.append(Row(f"{label}, all-reduce, 512 MiB", "GB/s", rates[-1]))
            rows.append(Row(f"{label}, all-reduce, full from", "MiB", full, stated))
        return rows

    return run


def _nodes(name: str, nodes: int) -> Machine:
    return load_machine(f"{name}:{nodes}")


def _between_nodes(name: str, paper: dict[str, tuple[float | None, str]]) -> Callable[[Lab], list[Row]]:
    """Figures 28 and 29: from a GPU of one node to one of another, in five ways (§3.3)."""

    def run(lab: Lab) -> list[Row]:
        if lab.instead:
            return [Row("between nodes", "GB/s", None, note="it takes two nodes: run it on the paper's")]
        machine = _nodes(name, 2)
        gpus, memories = machine.num_gpus // 2, machine.num_host_memories // 2
        host, gpu = _core.Place.host, _core.Place.gpu
        size = 64 * 10**6

        def rate(a: _core.Place, b: _core.Place) -> float:
            return lab.transfers(machine, [_core.Transfer(a, b, size)])

        straight = rate(gpu(0), gpu(gpus))
        network = rate(host(0), host(memories))
        legs = rate(gpu(0), host(0)), rate(host(memories), gpu(gpus))
        staged = min(network, *legs)  # MPI sends in chunks that follow each other
        pageable = min(staged, machine.pageable_gb_per_s)
        ours = {
            "GPUDirect RDMA": straight,
            "pinned memory, GPUDirect": staged,
            "pinned memory": 1 / (1 / network + sum(1 / leg for leg in legs)),
            "unpinned memory, GPUDirect": pageable,
            "unpinned memory": 1 / (1 / network + 2 / machine.pageable_gb_per_s),
        }
        return [
            Row(f"{mode}, 64 MB", "GB/s", value, paper.get(mode, (None, ""))[0], paper.get(mode, (None, ""))[1])
            for mode, value in ours.items()
        ]

    return run


def _collectives_between_nodes(name: str, peak: float, note: str) -> Callable[[Lab], list[Row]]:
    """Figures 30 and 31: one GPU a node, two nodes to eight."""

    def run(lab: Lab) -> list[Row]:
        if lab.instead:
            return [Row("between nodes", "GB/s", None, note="it takes nodes: run it on the paper's")]
        rows = []
        for nodes in range(2, 9):
            machine = _nodes(name, nodes)
            every = [machine.num_gpus // nodes * node for node in range(nodes)]
            rings = _core.rings_of(machine, every)
            # NCCL stages in pinned memory where that is faster than from GPU to GPU.
            host = [_core.Place.host(machine.num_host_memories // nodes * node) for node in range(nodes)]
            pattern = [_core.Transfer(host[n], host[(n + 1) % nodes], 1 << 28) for n in range(nodes)]
            rate = max(rings.gb_per_s, lab.transfers(machine, pattern) / nodes)
            steps = 2 * (nodes - 1)
            stated = (peak, note) if nodes == 8 else (None, "")
            rows.append(Row(f"all-reduce, {nodes} nodes, 1 GB", "GB/s", rate, *stated))
            rows.append(Row(f"all-reduce, {nodes} nodes, start-up", "µs", steps * rings.step_us))
        return rows

    return run


_SUMMITDEV_MODES: dict[str, tuple[float | None, str]] = {
    "GPUDirect RDMA": (12.0, "the most, at 64 MB"),
    "pinned memory, GPUDirect": (14.0, "more than that, at large sizes"),
}

_SUMMIT_MODES: dict[str, tuple[float | None, str]] = {"GPUDirect RDMA": (None, "always the fastest")}

TARTAN20_COLLECTIVES = (
    Experiment("tartan20-fig18", "NCCL's rings in the DGX-1s", _simulated(_rings)),
    Experiment("tartan20-fig19", "collectives of the DGX-1s, latency", _simulated(_latencies([P100, V100], {}))),
    Experiment("tartan20-fig20", "collectives of the DGX-1s, bandwidth", _simulated(_bandwidths([P100, V100]))),
    Experiment(
        "tartan20-fig21",
        "collectives of the DGX-1s over the size",
        _simulated(_over_sizes([P100, V100], {"PCIe": 16, "NVLink": 256})),
    ),
    Experiment(
        "tartan20-fig22", "collectives over NV-SLI, latency", _simulated(_latencies([SLI], {f"{SLI}, NVLink": 18.0}))
    ),
    Experiment("tartan20-fig23", "collectives over NV-SLI, bandwidth", _simulated(_bandwidths([SLI]))),
    Experiment(
        "tartan20-fig24",
        "collectives over NV-SLI over the size",
        _simulated(_over_sizes([SLI], {"PCIe": 1, "NVLink": 1})),
    ),
    Experiment("tartan20-fig25", "collectives of the DGX-2, latency", _simulated(_latencies([DGX2], {}))),
    Experiment("tartan20-fig26", "collectives of the DGX-2, bandwidth", _simulated(_bandwidths([DGX2]))),
    Experiment("tartan20-fig27", "collectives of the DGX-2 over the size", _simulated(_over_sizes([DGX2], {}))),
    Experiment("tartan20-fig28", "between nodes of SummitDev", _between_nodes(SUMMITDEV, _SUMMITDEV_MODES)),
    Experiment("tartan20-fig29", "between nodes of Summit", _between_nodes(SUMMIT, _SUMMIT_MODES)),
    Experiment(
        "tartan20-fig30", "collectives between nodes of SummitDev", _collectives_between_nodes(SUMMITDEV, 16, "nearly")
    ),
    Experiment(
        "tartan20-fig31",
        "collectives between nodes of Summit",
        _collectives_between_nodes(SUMMIT, 32, "more than its two rails of EDR could carry"),
    ),
)
