"""Evaluating Multi-GPU Sorting with Modern Interconnects, SIGMOD 2022: figures 1, 12 to 14 and 16, and table 2.

Uniform 32-bit integers between pinned memory of NUMA node 0; 2·10⁹ of them where phases are shown (§6.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from linkwise._core import Machine
from linkwise.bench.local_primitives import local_primitives
from linkwise.planning.sort import ExpectedOrder
from linkwise.reproduce.experiment import Experiment, Lab, Row
from linkwise.reproduce.sort22.out_of_core import CPU_RATE, HOST_MERGES, fitting, on_cores, out_of_core
from linkwise.reproduce.sort22.statements import STATEMENTS
from linkwise.reproduce.sort22.transfers import A100, AC922, D22X, TRANSFERS

_TWO_BILLION = 2 * 10**9
_CALLED = (("p2p_merge", "P2P sort"), ("het", "HET sort"))
_GPU_RATES = "the GPUs' rates of sorting and merging are from §6.1"
_SIZES = (1, 2, 4, 8, 16)  # billions of keys; at most two billion per GPU


def _sorts(
    name: str,
    sets: Sequence[tuple[int, ...]],
    speedups: dict[tuple[str, int], float],
    seconds: dict[tuple[str, int], float],
    shares: dict[tuple[str, int, str], float],
    over_cores: dict[str, tuple[float, str]],
    more: Callable[[Lab, Machine], list[Row]] | None = None,
) -> Callable[[Lab], list[Row]]:
    """P2P sort and HET sort by set of GPUs: curves over the size; for 2·10⁹ keys, speed-ups and phases.

    ``over_cores``: the most that the paper states by strategy, and what of it is fitted.
    """

    def run(lab: Lab) -> list[Row]:
        machine = lab.machine(name)
        rows: list[Row] = []
        for strategy, called in _CALLED:
            one: dict[str, float] = {}
            best = math.inf
            for gpus in sets:
                key = strategy, len(gpus)
                if max(gpus) >= machine.num_gpus:
                    rows.append(Row(f"{called} on {gpus}", "s", None, seconds.get(key), "too few GPUs"))
                    continue
                # With one GPU there is nothing to merge, on the host or between GPUs: both are its local sort.
                by = strategy if len(gpus) > 1 else "p2p_merge"
                took = lab.sort(machine, by, gpus, _TWO_BILLION)
                one, best = one or took, min(best, took["total"])
                fitted = HOST_MERGES if strategy == "het" and len(gpus) > 1 else ""
                stated = seconds.get(key)
                rows.append(Row(f"{called} on {gpus}", "s", took["total"], stated,
                                fitted=fitted if stated is not None else ""))  # fmt: skip
                for phase, value in took.items():
                    if phase == "total":
                        continue
                    share = shares.get((strategy, len(gpus), phase))
                    of = fitted or _GPU_RATES if share is not None else ""
                    rows.append(Row(f"{called} on {gpus}, {phase}, share", "of 1", value / took["total"], share,
                                    fitted=of))  # fmt: skip
                gain = speedups.get(key)
                if len(gpus) > 1:
                    rows.append(Row(f"{called} on {gpus}, over one GPU", "×", one["total"] / took["total"], gain,
                                    fitted=fitted if gain is not None else ""))  # fmt: skip
                if not lab.measures:
                    rows += _curve(lab, machine, by, called, gpus)
            most, fitted = over_cores.get(strategy, (None, ""))
            cores = on_cores(lab, machine, _TWO_BILLION, of_one_node=True)
            rows.append(Row(f"{called} over the cores, at most", "×", cores / best, most, "up to", fitted))
        if more is not None and not lab.measures:
            rows += more(lab, machine)
        return rows

    return run


def _curve(lab: Lab, machine: Machine, strategy: str, called: str, gpus: tuple[int, ...]) -> list[Row]:
    return [
        Row(f"{called} on {gpus}, {size}·10⁹", "s", lab.sort(machine, strategy, gpus, size * 10**9)["total"])
        for size in _SIZES if size <= 2 * len(gpus)
    ]  # fmt: skip


def _orders(*orders: tuple[int, ...]) -> Callable[[Lab, Machine], list[Row]]:
    """P2P sort by the order of its GPUs (§5.4); HET sort does not depend on it."""

    def run(lab: Lab, machine: Machine) -> list[Row]:
        if lab.instead is not None:
            return []
        return [
            Row(f"{called} in the order {order}", "s", lab.sort(machine, strategy, order, _TWO_BILLION)["total"])
            for strategy, called in _CALLED for order in orders
        ]  # fmt: skip

    return run


_fig12 = _sorts(
    AC922,
    [(0,), (0, 1), (0, 1, 2, 3)],
    {("p2p_merge", 2): 1.5, ("p2p_merge", 4): 1.5 / 1.9},
    {("p2p_merge", 2): 0.24},
    {("p2p_merge", 2, "merge"): 0.20, ("het", 2, "merge"): 0.46, ("p2p_merge", 1, "HtoD"): 1 / 3},
    {"p2p_merge": (14.0, CPU_RATE), "het": (9.0, HOST_MERGES)},
    _orders((0, 1, 2, 3), (0, 2, 1, 3)),
)

_fig13 = _sorts(
    D22X,
    [(0,), (0, 1), (0, 1, 2, 3)],
    {("p2p_merge", 2): 1.86, ("p2p_merge", 4): 2.1, ("het", 2): 1.52, ("het", 4): 2.1},
    {},
    {("p2p_merge", 4, "merge"): 0.45},
    {"p2p_merge": (9.0, CPU_RATE)},
    _orders((0, 1, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2)),
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
    {"p2p_merge": (7.8, ""), "het": (5.0, HOST_MERGES)},
    _orders(tuple(range(8)), (0, 4, 1, 5, 2, 6, 3, 7), (0, 2, 4, 6, 1, 3, 5, 7)),
)


def _fig1(lab: Lab) -> list[Row]:
    machine = lab.machine(A100)
    count = 4 * 10**9 if not lab.measures else _TWO_BILLION
    cpu = on_cores(lab, machine, count, of_one_node=True)
    rows = [Row("PARADIS on the cores", "s", cpu)]
    if lab.measures:
        for algorithm in ("radix", "comparison"):
            took = lab.sort(machine, "cpu", [], count, cpu_algorithm=algorithm)["total"]
            called = {"radix": "our radix sort", "comparison": "libstdc++'s parallel sort"}[algorithm]
            rows.append(Row(f"{called} on the cores", "s", took))
    rows.append(Row("one GPU", "s", lab.sort(machine, "p2p_merge", [0], min(count, _TWO_BILLION))["total"]))
    for gpus in ((0, 2), (0, 2, 4, 6)):
        there = tuple(fitting(machine, gpus if not lab.measures else range(len(gpus))))
        if len(there) < len(gpus):
            rows.append(Row(f"{gpus}", "s", None, note="too few GPUs"))
            continue
        total = {name: lab.sort(machine, name, there, count)["total"] for name, _ in _CALLED}
        rows += [Row(f"{called} on {there}", "s", total[name]) for name, called in _CALLED]
        stated = 1.65 if len(gpus) == 4 and lab.instead is None else None
        rows.append(Row(f"P2P sort over HET sort on {there}", "×", total["het"] / total["p2p_merge"], stated, "up to",
                        fitted=HOST_MERGES if stated else ""))  # fmt: skip
        rows.append(Row(f"P2P sort over the cores on {there}", "×", cpu / total["p2p_merge"]))
    return rows


_ORDERS: dict[str, ExpectedOrder] = {
    "uniform": "random", "normal": "random", "sorted": "sorted", "reversed": "reversed",
    "nearly sorted": "nearly_sorted",
}  # fmt: skip


def _fig16(lab: Lab) -> list[Row]:
    """Both sorts by order of the keys, which estimates model by how many keys change sides (p2p_merge_sort.cpp)."""
    machine = lab.machine(AC922)
    rows = []
    if not lab.measures:
        for gpus in ((0, 1), (0, 1, 2, 3)):
            if max(gpus) >= machine.num_gpus:
                rows.append(Row(f"{gpus}", "s", None, note="too few GPUs"))
                continue
            for strategy, called in _CALLED:
                took = {
                    name: lab.sort(machine, strategy, gpus, _TWO_BILLION, order=order)["total"]
                    for name, order in _ORDERS.items()
                }
                rows += [Row(f"{called} on {gpus}, {name}", "s", seconds) for name, seconds in took.items()]
                if strategy == "p2p_merge":
                    rows.append(Row(f"{called} on {gpus}, uniform to sorted", "×", took["uniform"] / took["sorted"],
                                    1.5 if len(gpus) == 4 else None, "1.4 to 1.6 on four"))  # fmt: skip
        return rows
    here = tuple(fitting(machine, [0, 1]))
    count = _TWO_BILLION // 10  # keys that are not uniform take NumPy long to make
    for name in _ORDERS:
        data = _data_of(name, count)
        for strategy, called in _CALLED:
            by = strategy if len(here) > 1 else "p2p_merge"
            seconds = lab.sort(machine, by, here, count, data=data)["total"]
            rows.append(Row(f"{called} on {here}, {count / 1e9:g}·10⁹ keys, {name}", "s", seconds))
    return rows


def _data_of(name: str, count: int) -> Any:
    """32-bit keys of that distribution; ``None``: uniform ones. Nearly sorted keys are a few positions off."""
    random = np.random.default_rng(0)
    if name == "uniform":
        return None
    if name == "normal":
        return np.clip(random.normal(2**31, 2**29, count), 0, 2**32 - 1).astype(np.uint32)
    ascending = np.linspace(0, 2**32 - 1, count, dtype=np.uint64).astype(np.uint32)
    if name == "nearly sorted":
        gap = 2**32 / count
        return np.clip(ascending + np.abs(random.normal(0, 2 * gap, count)), 0, 2**32 - 1).astype(np.uint32)
    return ascending if name == "sorted" else ascending[::-1]


def _table2(lab: Lab) -> list[Row]:
    """One GPU's primitives: CUB's LSD sort, our MSD sort, which goes back to Stehle and Jacobsen's, and merges."""
    if lab.measures:
        return [
            Row(what, "ms", None if seconds is None else 1e3 * seconds, note=note)
            for what, seconds, note in local_primitives(10**9)
        ]  # fmt: skip
    machine, count = lab.machine(A100), 10**9
    took = lab.sort(machine, "radix", [0], count)
    stated = lab.instead is None
    measured = "--machine local measures {} on your GPU"
    return [
        Row("CUB's radix sort, 10⁹ keys on one GPU", "ms", 1e3 * took["sort"], 36 if stated else None,
            "Thrust's is the same", fitted="the GPU's rate of sorting is this" if stated else ""),
        Row("Stehle and Jacobsen's MSD radix sort", "ms", None, 57 if stated else None,
            measured.format("ours, which sorts by most significant digits as theirs,")),
        Row("MGPU's merge sort", "ms", None, 200 if stated else None, measured.format("CUB's")),
    ]  # fmt: skip


_RUNS: dict[str, tuple[str, Callable[[Lab], list[Row]]]] = {
    "fig1": ("16 GB on the DGX A100: cores, HET sort, P2P sort", _fig1),
    **TRANSFERS,
    "fig12": ("sorting on the IBM AC922 by set, size and phase", _fig12),
    "fig13": ("sorting on the DELTA D22x by set, size and phase", _fig13),
    "fig14": ("sorting on the DGX A100 by set, size and phase", _fig14),
    "fig15": ("sorting more than the GPUs hold on the DGX A100", out_of_core),
    "fig16": ("both sorts by distribution on the IBM AC922", _fig16),
    "table2": ("sorting 10⁹ keys on one A100", _table2),
}

SORT22 = tuple(
    Experiment(f"sort22-{figure}", title, run, STATEMENTS.get(figure, ())) for figure, (title, run) in _RUNS.items()
)
