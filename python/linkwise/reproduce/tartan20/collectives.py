"""Tartan's figures 18 to 27: collectives within a machine.

Collectives go along NCCL's rings (machine/rings). The paper's bandwidth is NCCL's bus bandwidth: what its rings carry
past each GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from linkwise import _core
from linkwise._core import Machine
from linkwise.reproduce.experiment import Experiment, Lab, Row, powers_of_two, saturation
from linkwise.reproduce.tartan20.statements import COLLECTIVES

P100, V100, DGX2, SLI = "dgx1-p100", "dgx1-v100", "dgx2", "sli-rtx2080"
_LARGEST = 1e9
_SIZES = powers_of_two(8, 1 << 30)

_OPERATIONS = {
    "broadcast": _core.Collective.broadcast,
    "all-gather": _core.Collective.all_gather,
    "reduce": _core.Collective.reduce,
    "all-reduce": _core.Collective.all_reduce,
    "reduce-scatter": _core.Collective.reduce_scatter,
}


def _measured(lab: Lab) -> list[Row]:
    """Rows measured by NCCL on this machine, for all sizes."""
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
                    stated = paper.get(label)
                    fitted = "NCCL's launch of 10 µs is from this figure" if stated is not None else ""
                    rows.append(Row(f"{label}, {name}, {gpus} GPUs", "µs", 1e6 * seconds, stated, fitted=fitted))
        return rows

    return run


def _bandwidths(names: Sequence[str]) -> Callable[[Lab], list[Row]]:
    def run(lab: Lab) -> list[Row]:
        rows, found = [], {}
        for label, machine in _kinds(lab, names):
            for gpus in range(2, machine.num_gpus + 1):
                for name, operation in _OPERATIONS.items():
                    rate = _bandwidth(machine, range(gpus), operation, _LARGEST)
                    rows.append(Row(f"{label}, {name}, {gpus} GPUs", "GB/s", rate))
                found[label, gpus] = _bandwidth(machine, range(gpus), _core.Collective.all_reduce, _LARGEST)
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
            stated = next((value for how, value in paper.items() if label.endswith(how)), None)
            for name, operation in _OPERATIONS.items():
                rates = [_bandwidth(machine, gpus, operation, size) for size in _SIZES]
                rows += [
                    Row(f"{label}, {name}, {size} B", "GB/s", rate)
                    for size, rate in zip(_SIZES[1::2], rates[1::2], strict=True)
                ]
                of_all = stated if name == "all-reduce" else None
                rows.append(saturation(f"{label}, {name}", _SIZES, rates, of_all))
        return rows

    return run


_RUNS: dict[int, tuple[str, Callable[[Lab], list[Row]]]] = {
    18: ("NCCL's rings in the DGX-1s", _rings),
    19: ("collectives of the DGX-1s, latency", _latencies([P100, V100], {})),
    20: ("collectives of the DGX-1s, bandwidth", _bandwidths([P100, V100])),
    21: ("collectives of the DGX-1s over the size", _over_sizes([P100, V100], {"PCIe": 16, "NVLink": 256})),
    22: ("collectives over NV-SLI, latency", _latencies([SLI], {f"{SLI}, NVLink": 18.0})),
    23: ("collectives over NV-SLI, bandwidth", _bandwidths([SLI])),
    24: ("collectives over NV-SLI over the size", _over_sizes([SLI], {"PCIe": 1, "NVLink": 1})),
    25: ("collectives of the DGX-2, latency", _latencies([DGX2], {})),
    26: ("collectives of the DGX-2, bandwidth", _bandwidths([DGX2])),
    27: ("collectives of the DGX-2 over the size", _over_sizes([DGX2], {})),
}

TARTAN20_COLLECTIVES = tuple(
    Experiment(f"tartan20-fig{figure}", title, _simulated(run), COLLECTIVES[figure])
    for figure, (title, run) in _RUNS.items()
)
