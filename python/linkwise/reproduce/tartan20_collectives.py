"""Tartan's figures 18 to 27: collectives within a machine.

Collectives go along NCCL's rings (machine/rings). The paper's bandwidth is NCCL's bus bandwidth: what its rings carry
past each GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from linkwise import _core
from linkwise._core import Machine
from linkwise.reproduce.experiment import Experiment, Lab, Row, saturation

P100, V100, DGX2, SLI = "dgx1-p100", "dgx1-v100", "dgx2", "sli-rtx2080"
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
)
