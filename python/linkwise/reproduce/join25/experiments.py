"""Efficiently Joining Large Relations on Multi-GPU Systems, PVLDB 2025: figures 1 and 11 to 17.

Workload A has ten times as many 8-byte tuples in S as in R, B as many 16-byte tuples in both; they are joined without
materialising (§4.1). The relations are sorted in chunksets, merged by the host where there are several, and joined pair
by pair, and the ranges of rows that match go to the host: §3 as it is written, its radix sort in MSB buckets. Beside it
stand Rui et al.'s two joins (§4.1.4): their algorithms, and not their code, whose times the paper states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from linkwise._core import Machine
from linkwise.bench.join_workload import Workload
from linkwise.bench.tpch import joins_of_queries, shares_of_phases
from linkwise.reproduce.experiment import Experiment, Lab, Row, TooFewGpusError
from linkwise.reproduce.join25.lab import HYBRID_RADIX, MERGE, PAIRWISE, RADIX, Joined, Way, join_of, joins_on_cores
from linkwise.reproduce.join25.statements import STATEMENTS

AC922, H100 = "ibm-ac922", "dgx-h100"
_CHUNK_BYTES = {AC922: 12 * 10**9, H100: 32 * 10**9}  # of tuples that a GPU sorts at once (§4.2, §4.3)
_BEST = {AC922: 2, H100: 8}  # GPUs of ours (§4.4)
_RUI = {AC922: {PAIRWISE: 2, HYBRID_RADIX: 4}, H100: {PAIRWISE: 4, HYBRID_RADIX: 8}}  # of theirs (§4.2)
_LARGEST_OF_FIG14 = 16  # billions
_MAIN_MEMORY = "its host's memory holds no more"
_HOST_RATES = "the host's rates of copying and merging are from this"


def _joined(lab: Lab, name: str, way: Way, gpus: int, workload: Workload) -> Joined:
    machine = lab.machine(name)
    if gpus > machine.num_gpus and lab.instead is None:
        raise TooFewGpusError(f"{machine.name} has {machine.num_gpus} GPUs")
    return join_of(lab, machine, way, min(gpus, machine.num_gpus), workload, _CHUNK_BYTES[name])


def _of_size(lab: Lab, workload: Workload) -> str:
    scale = lab.scaled(workload)
    return f"{workload.name}, f = {workload.scale:g}" + (
        f" at {scale.scale / workload.scale:g} of it" if lab.measures else ""
    )


def _row(
    lab: Lab, name: str, way: Way, gpus: int, billions: float, paper: float | None, against: int | None = None
) -> list[Row]:
    """Seconds, and the shares of the phases; with ``against``, only the speed-up over that many GPUs."""
    workload = Workload("B", billions)
    what = f"{way.called}, {billions:g}·10⁹ ⋈ {billions:g}·10⁹ on {gpus} GPUs"
    machine = lab.machine(name)
    if gpus > machine.num_gpus:
        return [Row(what, "s", None, paper, "too few GPUs")]
    found = _joined(lab, name, way, gpus, workload)
    stated = None if lab.measures else paper
    if against is not None:
        before = _joined(lab, name, way, against, workload)
        return [Row(f"{what}, as fast as on {against}", "×", before.seconds / found.seconds, stated)]
    rows = [Row(what, "s", found.seconds, stated)]
    for phase, seconds in found.phases.items():
        rows.append(Row(f"{what}, {phase}", "of 1", seconds / found.seconds))
    return rows


def _breakdown(lab: Lab, name: str, billions: float, stated: dict[tuple[Way, int], float | None]) -> list[Row]:
    return [
        row for (way, gpus), paper in stated.items() for row in _row(lab, name, way, gpus, billions, paper)
    ]  # fmt: skip


def _fig13(lab: Lab) -> list[Row]:
    radix = {(RADIX, 1): None, (RADIX, 2): 0.80 * 2.89, (RADIX, 4): 0.83 * 3.46}  # 20 % and 17 % faster than by merging
    return _breakdown(lab, AC922, 1.5, {(MERGE, 1): 5.89, (MERGE, 2): 2.89, (MERGE, 4): 3.46, **radix})


def _fig14(lab: Lab) -> list[Row]:
    stated: dict[tuple[Way, int], float | None] = {
        (MERGE, 1): 40.01, (MERGE, 2): None, (MERGE, 4): None, (MERGE, 8): 11.55,
        (RADIX, 1): 40.01, (RADIX, 2): None, (RADIX, 4): None, (RADIX, 8): 10.16,
    }  # fmt: skip
    fitted = "on 1 GPUs", "merge, 16·10⁹ ⋈ 16·10⁹ on 8 GPUs"
    return [
        row.fitted_to(_HOST_RATES) if row.what.endswith(fitted) else row for row in _breakdown(lab, H100, 16, stated)
    ]


def _fig15(lab: Lab) -> list[Row]:
    """Curves over the size by number of GPUs, and the ratios that the paper states of them."""
    curves: Sequence[tuple[str, Sequence[int], Sequence[float]]] = (
        (AC922, (1, 2, 4), (0.5, 1, 1.5, 2, 3, 4, 5)),
        (H100, (1, 2, 4, 8), (2, 4, 8, 12, 16, 20)),
    )
    if lab.measures:
        curves = [(H100, (1, 2, 4, 8), (2, 8))]
    rows = []
    for name, counts, sizes in curves:
        for gpus in (gpus for gpus in counts if gpus <= lab.machine(name).num_gpus):
            for billions in sizes:
                seconds = _joined(lab, name, RADIX, gpus, Workload("B", billions)).seconds
                rows.append(Row(f"{name}, {billions:g}·10⁹ on {gpus} GPUs", "s", seconds))
    stated: Sequence[tuple[str, int, int, float, float]] = (
        (AC922, 2, 1, 1.5, 2.6), (AC922, 2, 1, 5, 1.4),
        (H100, 2, 1, 4, 2.4), (H100, 4, 1, 8, 3.9),
        (H100, 8, 1, 16, 3.9), (H100, 8, 2, 16, 2.6), (H100, 8, 4, 16, 2.1),
    )  # fmt: skip
    if not lab.measures:
        for name, gpus, against, billions, paper in stated:
            found = _row(lab, name, RADIX, gpus, billions, paper, against)
            is_fitted = name == H100 and billions < _LARGEST_OF_FIG14
            rows += [row.fitted_to(_HOST_RATES) for row in found] if is_fitted else found
    return rows


def _baselines(
    name: str, sizes: dict[str, Sequence[float]], stated: Mapping[tuple[str, float], str]
) -> Callable[[Lab], list[Row]]:
    """The paper's join over the sizes, and Rui et al.'s beside it: how many times as long they take."""

    def run(lab: Lab) -> list[Row]:
        rows = []
        for which, scales in sizes.items():
            for f in scales if not lab.measures else scales[:2]:
                workload = Workload(which, f)
                what = f"{name}, {_of_size(lab, workload)}"
                ours = _joined(lab, name, RADIX, _BEST[name], workload)
                rows.append(Row(what, "s", ours.seconds))
                for way, gpus in _RUI[name].items():
                    theirs = _joined(lab, name, way, gpus, workload)
                    note = stated.get((which, f), "")
                    said = f"in the paper, of their code, {note}" if note else ""
                    rows.append(Row(f"{what}: {way.called}", "×", theirs.seconds / ours.seconds, None, said))
                rows += joins_on_cores(lab, workload, what, ours.seconds)
        return rows

    return run


def _fig1(lab: Lab) -> list[Row]:
    stated: dict[tuple[str, float], str] = {
        ("A", 3): "5.9 by sort-merge and 2.5 by hybrid radix",
        ("A", 10): "7.0 and 2.4",
    }
    rows = _baselines(AC922, {"A": (1, 3)}, stated)(lab)
    return rows if lab.measures else rows + _baselines(H100, {"A": (1, 10)}, stated)(lab)


_fig11 = _baselines(
    AC922, {"A": (1, 2, 3, 4, 6, 8, 10), "B": (0.5, 1, 1.5, 2, 3, 4, 5)},
    {("A", 3): "5.9 by sort-merge and 2.5 by hybrid radix", ("A", 10): "2.8 and 1.1", ("B", 1.5): "4.2 and 2.5",
     ("B", 5): "2.4 and 1.1 to 1.2"},
)  # fmt: skip
_fig12 = _baselines(
    H100, {"A": (5, 10, 20, 30, 38), "B": (4, 8, 12, 16, 20)},
    {("A", 10): "7.0 by sort-merge and 2.4 by hybrid radix", ("A", 30): "7.0 and 2.4", ("A", 38): "at worst 1.2",
     ("B", 8): "8.7 and 2.2", ("B", 16): "8.7 and 2.2"},
)  # fmt: skip


def _fig16(lab: Lab) -> list[Row]:
    """Times over the share of S with a match, and over the Zipf skew, and the ratios of their ends."""
    rows = []
    for name, selectivity, skew in (
        ((AC922, 1.28, 0.88), (H100, 1.09, 0.95)) if not lab.measures else ((H100, 1.09, 0.95),)
    ):
        steps = (0, 0.25, 0.5, 0.75, 1) if not lab.measures else (0, 1)
        what = f"{name}, {min(_BEST[name], lab.machine(name).num_gpus)} GPUs"
        for called, paper, workloads in (
            ("selectivity", selectivity, [Workload("B", 1.5, step) for step in steps]),
            ("skew", skew, [Workload("B", 1.5, skew=step) for step in steps]),
        ):
            times = [_joined(lab, name, RADIX, _BEST[name], workload).seconds for workload in workloads]
            rows += [
                Row(f"{what}, {called} {step:g}", "s", seconds) for step, seconds in zip(steps, times, strict=True)
            ]
            stated = None if lab.measures else paper
            rows.append(Row(f"{what}, {called} 0 → 1", "×", times[-1] / times[0], stated))
    return rows


def _fig17(lab: Lab) -> list[Row]:
    """The joins of two queries at three scales: seconds, and the shares of the phases at the first."""
    stated = {
        "Q3": {"sort": 0.56, "join": 0.28, "materialise": 0.16},
        "Q5": {"sort": 0.32, "join": 0.22, "materialise": 0.46},
    }
    if lab.measures:
        return [Row(query, "s", None, None, "it takes TPC-H's tables: 'linkwise bench tpch' makes and joins them")
                for query in stated]  # fmt: skip
    machine: Machine = lab.machine(H100)
    rows = []
    for query, joins in joins_of_queries().items():
        totals: list[tuple[float, dict[str, float]]] = [
            shares_of_phases(machine, joins, scale, path="sorted") for scale in (100, 200, 400)
        ]
        for scale, (seconds, _) in zip((100, 200, 400), totals, strict=True):
            rows.append(Row(f"{query}, scale factor {scale}", "s", seconds))
        rows.append(Row(f"{query}, scale factor 100 → 400", "×", totals[2][0] / totals[0][0], 4.0, "linear in it"))
        seconds, shares = totals[0]
        rows += [
            Row(f"{query}, share of {name}", "", shares[name] / seconds, paper) for name, paper in stated[query].items()
        ]
    return rows


_RUNS: dict[int, tuple[str, Callable[[Lab], list[Row]]]] = {
    1: ("8-byte tuples, beside Rui et al.'s joins", _fig1),
    11: ("a join on the IBM AC922 beside Rui et al.'s", _fig11),
    12: ("a join on the DGX H100 beside Rui et al.'s", _fig12),
    13: ("a join on the IBM AC922 by strategy and number of GPUs, and its phases", _fig13),
    14: ("a join on the DGX H100 by strategy and number of GPUs, and its phases", _fig14),
    15: ("how joins scale with the number of GPUs", _fig15),
    16: ("selectivity and skew", _fig16),
    17: ("the joins of TPC-H Q3 and Q5 on the DGX H100", _fig17),
}

JOIN25 = tuple(
    Experiment(f"join25-fig{figure}", title, run, STATEMENTS.get(figure, ())) for figure, (title, run) in _RUNS.items()
)
