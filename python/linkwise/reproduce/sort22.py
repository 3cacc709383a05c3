"""Evaluating Multi-GPU Sorting with Modern Interconnects, SIGMOD 2022: figures 1 to 7, 12 to 16, and table 2.

Uniform 32-bit integers between pinned memory of NUMA node 0; 2·10⁹ of them where phases are shown (§6.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from linkwise._core import Machine
from linkwise.reproduce.experiment import Experiment, Lab, Row, attempt

AC922, D22X, A100 = "ibm-ac922", "delta-d22x", "dgx-a100"
_TWO_BILLION = 2 * 10**9
Paper = dict[tuple[tuple[int, ...], str], float]


def _host_transfers(name: str, sets: Sequence[tuple[int, ...]], paper: Paper) -> Callable[[Lab], list[Row]]:
    def run(lab: Lab) -> list[Row]:
        machine = lab.machine(name)
        return [
            attempt(
                f"{gpus}, {direction}",
                "GB/s",
                partial(lab.host, machine, gpus, direction),
                paper.get((gpus, direction)),
            )
            for gpus in sets
            for direction in ("htod", "dtoh", "bidir")
        ]

    return run


_fig2 = _host_transfers(
    AC922,
    [(0,), (1,), (2,), (3,), (0, 1), (2, 3), (0, 1, 2, 3)],
    {
        **{((g,), d): 72.0 for g in (0, 1) for d in ("htod", "dtoh")},
        **{((g,), "htod"): 41.0 for g in (2, 3)},
        **{((g,), "dtoh"): 35.0 for g in (2, 3)},
        ((0,), "bidir"): 127,
        ((1,), "bidir"): 127,
        ((0, 1), "dtoh"): 109,
        ((0, 1), "bidir"): 136,
    },
)

_fig3 = _host_transfers(
    D22X, [(0,), (2,), (0, 1), (0, 1, 2, 3)], {((g,), d): 12.5 for g in (0, 2) for d in ("htod", "dtoh")}
)

_fig4 = _host_transfers(
    A100,
    [(0,), (4,), (0, 1), (0, 2), (4, 6), (0, 2, 4, 6), tuple(range(8))],
    {
        **{((g,), d): 24.5 for g in (0, 4) for d in ("htod", "dtoh")},
        ((0,), "bidir"): 39,
        ((4,), "bidir"): 32,
        ((0, 2), "bidir"): 82,
        ((4, 6), "bidir"): 61,
    },
)


def _mirrored(gpus: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(gpus[: len(gpus) // 2], reversed(gpus[len(gpus) // 2 :]), strict=True))


def _peer_transfers(
    name: str,
    pairs: dict[tuple[int, int], float | None],
    sets: dict[tuple[int, ...], tuple[float | None, str]],
) -> Callable[[Lab], list[Row]]:
    def run(lab: Lab) -> list[Row]:
        machine = lab.machine(name)
        rows = [
            attempt(f"{a} → {b}", "GB/s", partial(lab.peers, machine, [(a, b)]), paper)
            for (a, b), paper in pairs.items()
        ]
        for gpus, (paper, note) in sets.items():
            rows.append(
                attempt(
                    f"{gpus}, mirrored pairs both ways",
                    "GB/s",
                    partial(lab.peers, machine, _mirrored(gpus), both=True),
                    paper,
                    note,
                )
            )
        return rows

    return run


_fig5 = _peer_transfers(
    AC922,
    {(0, 1): 72, (0, 2): 0.46 * 72, (0, 3): 0.46 * 72},
    {(0, 1): (None, "optimal"), (0, 1, 2, 3): (53, "")},
)

_fig6 = _peer_transfers(
    D22X, {(0, 1): 48, (0, 2): 48, (0, 3): 9}, {(0, 1): (None, "optimal"), (0, 1, 2, 3): (None, "0↔3, 1↔2: no links")}
)

_fig7 = _peer_transfers(
    A100,
    {(0, 1): 279, (0, 7): 279},
    {(0, 1): (None, ""), (0, 2, 4, 6): (1060, "894 to 1060, by set"), tuple(range(8)): (2116, "")},
)


def _sorts(
    name: str,
    sets: Sequence[tuple[int, ...]],
    speedups: dict[tuple[str, int], float],
    seconds: dict[tuple[str, int], float],
    shares: dict[tuple[str, int, str], float],
) -> Callable[[Lab], list[Row]]:
    """P2P sort and HET sort of 2·10⁹ keys by set: seconds, speed-up over one GPU, and phases."""

    def run(lab: Lab) -> list[Row]:
        machine = lab.machine(name)
        rows: list[Row] = []
        for strategy, called in (("p2p_merge", "P2P sort"), ("het", "HET sort")):
            one: dict[str, float] = {}
            for gpus in sets:
                key = strategy, len(gpus)
                if max(gpus) >= machine.num_gpus:
                    rows.append(Row(f"{called} on {gpus}", "s", None, seconds.get(key), "too few GPUs"))
                    continue
                # With one GPU there is nothing to merge, on the host or between GPUs: both are its local sort.
                took = lab.sort(machine, strategy if len(gpus) > 1 else "p2p_merge", gpus, _TWO_BILLION)
                one = one or took
                rows.append(Row(f"{called} on {gpus}", "s", took["total"], seconds.get(key)))
                for phase, value in took.items():
                    if phase != "total":
                        share = shares.get((strategy, len(gpus), phase))
                        rows.append(Row(f"  {phase}, share", "of 1", value / took["total"], share))
                if len(gpus) > 1:
                    rows.append(Row("  speed-up over one GPU", "×", one["total"] / took["total"], speedups.get(key)))
        return rows

    return run


_fig12 = _sorts(
    AC922,
    [(0,), (0, 1), (0, 1, 2, 3)],
    {("p2p_merge", 2): 1.5, ("p2p_merge", 4): 1.5 / 1.9},
    {("p2p_merge", 2): 0.24},
    {("p2p_merge", 2, "merge"): 0.20, ("het", 2, "merge"): 0.46, ("p2p_merge", 1, "HtoD"): 1 / 3},
)

_fig13 = _sorts(
    D22X,
    [(0,), (0, 1), (0, 1, 2, 3)],
    {("p2p_merge", 2): 1.86, ("p2p_merge", 4): 2.1, ("het", 2): 1.52, ("het", 4): 2.1},
    {},
    {("p2p_merge", 4, "merge"): 0.45},
)

_fig14 = _sorts(
    A100,
    [(0,), (0, 2), (0, 2, 4, 6), tuple(range(8))],
    {
        ("p2p_merge", 2): 1.9,
        ("p2p_merge", 4): 2.9,
        ("p2p_merge", 8): 3.0,
        ("het", 2): 1.3,
        ("het", 4): 1.84,
        ("het", 8): 1.95,
    },
    {("p2p_merge", 8): 0.24},
    {("p2p_merge", 2, "merge"): 0.04, ("p2p_merge", 4, "merge"): 0.13, ("p2p_merge", 8, "merge"): 0.23},
)


def _fitting(machine: Machine, gpus: Sequence[int]) -> list[int]:
    return [gpu for gpu in gpus if gpu < machine.num_gpus]


def _fig1(lab: Lab) -> list[Row]:
    machine = lab.machine(A100)
    gpus, count = _fitting(machine, range(8)), 4 * 10**9
    gpus = gpus[: 1 << (len(gpus).bit_length() - 1)]
    p2p = lab.sort(machine, "p2p_merge", gpus, count)["total"]
    het = lab.sort(machine, "het", gpus, count)["total"]
    cpu = lab.sort(machine, "cpu", [], count)["total"]
    return [
        Row("CPU alone", "s", cpu, note="the paper's is PARADIS"),
        Row("HET sort", "s", het),
        Row("P2P sort", "s", p2p),
        Row("P2P sort over HET sort", "×", het / p2p, 1.65, "up to"),
        Row("P2P sort over the CPU", "×", cpu / p2p, note="up to 7.8, at any size"),
    ]


def _fig15(lab: Lab) -> list[Row]:
    machine = lab.machine(A100)
    gpus = _fitting(machine, range(8))
    rows: list[Row] = []
    for billions in (15, 30, 60):
        count = billions * 10**9
        if lab.measures and count * 8 > machine.host.memory_gib * 2**30 / 2:
            rows.append(Row(f"{billions}·10⁹ keys", "s", None, None, "too much for the host's memory"))
            continue
        took: dict[str, dict[str, float]] = {}
        for name, fields in (
            ("2n", {"het_buffers": 2}),
            ("3n", {"het_buffers": 3}),
            ("2n eager", {"het_buffers": 2, "eager_merge": True}),
        ):
            took[name] = lab.sort(machine, "het", gpus, count, **fields)
            paper = 10.0 if (billions, name) == (60, "2n") else None
            rows.append(Row(f"{billions}·10⁹ keys, HET sort, {name}", "s", took[name]["total"], paper))
        cpu = lab.sort(machine, "cpu", [], count)["total"]
        paper = 2.6 if billions == 60 else None
        rows.append(Row(f"{billions}·10⁹ keys, HET sort over the CPU", "×", cpu / took["2n"]["total"], paper))
        rows.append(
            Row(
                f"{billions}·10⁹ keys, 3n to 2n",
                "×",
                took["3n"]["total"] / took["2n"]["total"],
                1.0,
                "almost identical",
            )
        )
        eager = took["2n eager"]["total"] / took["2n"]["total"]
        stated = 1.6 if billions == 60 else None  # of 15 there is one group, and nothing to merge early
        rows.append(Row(f"{billions}·10⁹ keys, eager merging to not", "×", eager, stated, "1.5 to 1.75"))
    return rows


def _fig16(lab: Lab) -> list[Row]:
    machine = lab.machine(AC922)
    gpus = _fitting(machine, [0, 1])
    notes = {
        "uniform": "as normal",
        "normal": "as uniform",
        "sorted": "9 to 20 % shorter",
        "reversed": "the slowest: most is swapped",
        "nearly sorted": "9 to 20 % shorter",
    }
    if not lab.measures:
        return [
            Row(name, "s", lab.sort(machine, "p2p_merge", gpus, _TWO_BILLION)["total"] if name == "uniform" else None,
                note=note if name == "uniform" else f"{note}; an estimate has no data: --machine local measures it")
            for name, note in notes.items()
        ]  # fmt: skip
    count = min(_TWO_BILLION, int(machine.host.memory_gib * 2**30 / 32))
    random = np.random.default_rng(0)
    ascending = np.linspace(0, 2**32 - 1, count, dtype=np.uint64).astype(np.uint32)
    nearly = ascending.copy()
    nearly[random.integers(0, count, count // 100)] = random.integers(0, 1 << 32, count // 100, dtype=np.uint32)
    data = {
        "uniform": None,
        "normal": np.clip(random.normal(2**31, 2**28, count), 0, 2**32 - 1).astype(np.uint32),
        "sorted": ascending,
        "reversed": ascending[::-1],
        "nearly sorted": nearly,
    }
    return [
        Row(name, "s", lab.sort(machine, "p2p_merge", gpus, count, data=data[name])["total"], note=note)
        for name, note in notes.items()
    ]


def _table2(lab: Lab) -> list[Row]:
    machine, count = lab.machine(A100), 10**9
    took = lab.sort(machine, "radix", [0], count)
    return [
        Row("CUB's radix sort, 10⁹ keys on one GPU", "ms", 1e3 * took["sort"], 36, "Thrust's is the same"),
        Row("Stehle and Jacobsen's radix sort", "ms", None, 57, "not part of Linkwise"),
        Row("MGPU's merge sort", "ms", None, 200, "not part of Linkwise"),
    ]


SORT22 = (
    Experiment("sort22-fig1", "16 GB on the DGX A100: CPU, HET sort, P2P sort", _fig1),
    Experiment("sort22-fig2", "CPU–GPU transfers on the IBM AC922", _fig2),
    Experiment("sort22-fig3", "CPU–GPU transfers on the DELTA D22x", _fig3),
    Experiment("sort22-fig4", "CPU–GPU transfers on the DGX A100", _fig4),
    Experiment("sort22-fig5", "P2P transfers on the IBM AC922", _fig5),
    Experiment("sort22-fig6", "P2P transfers on the DELTA D22x", _fig6),
    Experiment("sort22-fig7", "P2P transfers on the DGX A100", _fig7),
    Experiment("sort22-fig12", "sorting 2·10⁹ keys on the IBM AC922", _fig12),
    Experiment("sort22-fig13", "sorting 2·10⁹ keys on the DELTA D22x", _fig13),
    Experiment("sort22-fig14", "sorting 2·10⁹ keys on the DGX A100", _fig14),
    Experiment("sort22-fig15", "sorting more than the GPUs hold on the DGX A100", _fig15),
    Experiment("sort22-fig16", "P2P sort of several distributions on the IBM AC922", _fig16),
    Experiment("sort22-table2", "sorting 10⁹ keys on one A100", _table2),
)
