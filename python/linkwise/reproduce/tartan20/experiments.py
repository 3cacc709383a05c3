"""Evaluating Modern GPU Interconnect (Tartan), TPDS 2020: figures 5 to 17, from GPU to GPU within a machine.

Its code copies 40 MB; "PCIe" is without peer access, through the host's memory; GPUs without a link of their own are
reached by two copies, one after the other (§3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from linkwise import _core
from linkwise._core import Machine
from linkwise.reproduce.experiment import (
    Experiment,
    Lab,
    Row,
    Rows,
    TooFewGpusError,
    alike_pairs,
    attempt,
    powers_of_two,
    saturation,
)  # fmt: skip
from linkwise.reproduce.tartan20.statements import BETWEEN_GPUS

P100, V100, DGX2, SLI = "dgx1-p100", "dgx1-v100", "dgx2", "sli-rtx2080"
_BYTES = 40e6
_SIZES = powers_of_two(4, 256 << 20)
_SHOWN = _SIZES[::2]


def _has_link(machine: Machine, a: int, b: int) -> bool:
    links = _core.route_links(machine, a, b)
    return bool(links) and all(machine.links[link].kind.startswith("nvlink") for link in links)


def _route(machine: Machine, a: int, b: int) -> list[int]:
    """The direct link, or else a route through the first GPU linked to both, or else the direct path."""
    if _has_link(machine, a, b):
        return [a, b]
    over = (m for m in range(machine.num_gpus) if m not in (a, b) and _has_link(machine, a, m))
    return next(([a, m, b] for m in over if _has_link(machine, m, b)), [a, b])


def _one_after_the_other(lab: Lab, machine: Machine, route: Sequence[int], both: bool) -> float:
    """GB/s of whole copies along the route, hop by hop; with ``both``, each hop carries as much back."""
    return 1 / sum(1 / lab.peers(machine, [hop], both=both, size=_BYTES) for hop in pairwise(route))


def _kind_of(machine: Machine, a: int, b: int) -> tuple[object, ...]:
    """The kinds of links between two GPUs, and how often the route crosses each."""
    there = _core.route_links(machine, a, b)
    return tuple(sorted((machine.links[link].kind, there.count(link)) for link in there))


def _each_pair(lab: Lab, machine: Machine, value: Callable[[int, int], float]) -> dict[tuple[int, int], float]:
    pairs = [(a, b) for a in range(machine.num_gpus) for b in range(machine.num_gpus) if a != b]
    if lab.measures:
        return {pair: value(*pair) for pair in pairs}
    # On described machines, pairs of the same kind have the same value: evaluate one of each kind.
    known: dict[tuple[object, ...], float] = {}
    found = {}
    for a, b in pairs:
        key = tuple(_kind_of(machine, x, y) for x, y in pairwise(_route(machine, a, b)))
        if key not in known:
            known[key] = value(a, b)
        found[a, b] = known[key]
    return found


def _machines(lab: Lab, names: Sequence[str]) -> list[tuple[str, Machine]]:
    """Each machine with and without its NVLinks; the measured one only as it is."""
    if lab.measures:
        machine = lab.machine(names[0])
        return [(machine.name, machine)]
    names = names[:1] if lab.instead else names
    return [variant for name in names for variant in lab.variants(name)]


def _latency_map(
    names: Sequence[str], paper: dict[str, dict[str, float]], fitted: str = ""
) -> Callable[[Lab], list[Row]]:
    def run(lab: Lab) -> list[Row]:
        rows = []
        for label, machine in _machines(lab, names):
            stated = paper.get(label, {})

            def latency(a: int, b: int, machine: Machine = machine) -> float:
                return lab.latency_us(machine, _route(machine, a, b))

            rows.append(attempt(f"{label}, within GPU 0", "µs", partial(lab.latency_us, machine, [0]), stated.get("0")))
            rows += alike_pairs(label, "µs", _each_pair(lab, machine, latency), stated)
        return [row.fitted_to(fitted) for row in rows]

    return run


def _bandwidth_map(names: Sequence[str], both: bool) -> Callable[[Lab], list[Row]]:
    def run(lab: Lab) -> list[Row]:
        rows = []
        for label, machine in _machines(lab, names):

            def rate(a: int, b: int, machine: Machine = machine) -> float:
                return _one_after_the_other(lab, machine, _route(machine, a, b), both)

            rows += alike_pairs(label, "GB/s", _each_pair(lab, machine, rate), {})
        return rows

    return run


_ROUTES = ((0, 1, 5), (0, 4, 5), (0, 2, 6), (0, 4, 6), (0, 3, 7), (0, 4, 7))


def _twice(name: str, pair: str) -> Callable[[Lab], list[Row]]:
    """Rates of both directions together, and relative to one direction (§3.1.2: "the bandwidth doubles")."""

    def run(lab: Lab) -> list[Row]:
        rows, one = _bandwidth_map([name], both=True)(lab), Rows(_bandwidth_map([name], both=False)(lab))
        if lab.instead is None:
            label = f"{name}, NVLink"
            ratio = Rows(rows).pair(label, pair) / one.pair(label, pair)
            rows.append(Row(f"{label}: {pair}, both ways to one", "×", ratio, 2.0))
        return rows

    return run


def _routing(lab: Lab) -> list[Row]:
    """Figure 14: from GPU 0 over one GPU to those it has no link to, one way and both, and the latency."""
    rows = []
    for name in [P100, V100] if lab.instead is None else [V100]:
        machine = lab.machine(name)
        for route in _ROUTES:
            what = f"{machine.name}, {' → '.join(map(str, route))}"
            for both in (False, True):
                measure = partial(_one_after_the_other, lab, machine, route, both)
                rows.append(attempt(f"{what}{', both ways' if both else ''}", "GB/s", measure))
            rows.append(attempt(f"{what}, latency", "µs", partial(lab.latency_us, machine, route)))
    return rows


def _sizes(
    names: Sequence[str], pairs: dict[str, dict[str, tuple[int, int]]], saturates: float | None
) -> Callable[[Lab], list[Row]]:
    """Figures 15 to 17: rates by message size, one way and both, and the size at which a link saturates."""

    def run(lab: Lab) -> list[Row]:
        rows = []
        for label, machine in _machines(lab, names):
            for kind, pair in next((found for key, found in pairs.items() if key in label), {"0→1": (0, 1)}).items():
                for both in (False, True):
                    what = f"{label}, {kind}{', both ways' if both else ''}"
                    try:
                        rates = [lab.peers(machine, [pair], both=both, size=size) for size in _SIZES]
                    except TooFewGpusError as error:
                        rows.append(Row(what, "GB/s", None, note=str(error)))
                        continue
                    shown = list(zip(_SHOWN, rates[::2], strict=True))
                    rows += [Row(f"{what}, {size} B", "GB/s", rate) for size, rate in shown]
                    if not both:
                        rows += [Row(f"{what}, {size} B, latency", "µs", size / rate / 1e3) for size, rate in shown]
                    stated = saturates if "NVLink" in label else None
                    rows.append(saturation(what, _SIZES, rates, stated))
        return rows

    return run


_DGX1_LATENCIES = {
    "dgx1-p100, NVLink": {"0→1": 9.0, "0→5": 18.0},
    "dgx1-v100, NVLink": {"0→1": 9.0, "0→5": 27.0},
}

_SLI_LATENCIES = {"sli-rtx2080, NVLink": {"0": 5.0, "0→1": 8.0}, "sli-rtx2080, PCIe": {"0": 5.0, "0→1": 13.0}}

_NEAR_AND_FAR = {
    "PCIe": {"same switch, 0→1": (0, 1), "other switch, 0→2": (0, 2), "other socket, 0→7": (0, 7)},
    "v100, NVLink": {"double link, 0→3": (0, 3), "single link, 0→1": (0, 1)},
}

_BOARDS = {
    "PCIe": {"level 1, 0→1": (0, 1), "level 2, 0→2": (0, 2), "remote, 0→4": (0, 4)},
    "NVLink": {"one hop, 0→1": (0, 1), "two hops, 0→8": (0, 8)},
}

_RUNS: dict[int, tuple[str, Callable[[Lab], list[Row]]]] = {
    5: ("latency of the DGX-1s", _latency_map([P100, V100], _DGX1_LATENCIES)),
    6: ("bandwidth of the DGX-1s, one way", _bandwidth_map([P100, V100], both=False)),
    7: ("bandwidth of the DGX-1s, both ways", _bandwidth_map([P100, V100], both=True)),
    8: ("latency of NV-SLI", _latency_map([SLI], _SLI_LATENCIES, "the machine's start-ups are these")),
    9: ("bandwidth of NV-SLI, one way", _bandwidth_map([SLI], both=False)),
    10: ("bandwidth of NV-SLI, both ways", _twice(SLI, "0→1")),
    11: ("latency of the DGX-2", _latency_map([DGX2], {})),
    12: ("bandwidth of the DGX-2, one way", _bandwidth_map([DGX2], both=False)),
    13: ("bandwidth of the DGX-2, both ways", _twice(DGX2, "0→1")),
    14: ("routes over one GPU in the DGX-1s", _routing),
    15: ("the DGX-1s over the size", _sizes([P100, V100], _NEAR_AND_FAR, 4.0)),
    16: ("NV-SLI over the size", _sizes([SLI], {}, None)),
    17: ("the DGX-2 over the size", _sizes([DGX2], _BOARDS, None)),
}

TARTAN20 = tuple(
    Experiment(f"tartan20-fig{figure}", title, run, BETWEEN_GPUS[figure]) for figure, (title, run) in _RUNS.items()
)
