"""Efficiently Joining Large Relations on Multi-GPU Systems, PVLDB 2025: figures 1 and 11 to 17.

Workload A has ten times as many 8-byte tuples in S as in R, B as many 16-byte tuples in both; they are joined without
materialising (§4.1). The relations are sorted in chunksets, merged by the host where there are several, and joined pair
by pair, and the ranges of rows that match go to the host: §3 as it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from linkwise._core import Machine, OutOfMemoryError
from linkwise.bench.join_workload import Workload
from linkwise.bench.tpch import joins_of_queries, shares_of_phases
from linkwise.planning.join import PricedJoin, plan_join
from linkwise.reproduce.experiment import Experiment, Lab, Row
from linkwise.runtime.join_plan import JoinPlan
from linkwise.runtime.sort_plan import SortPlan, Strategy

AC922, H100 = "ibm-ac922", "dgx-h100"
_CHUNK_BYTES = {AC922: 12 * 10**9, H100: 32 * 10**9}  # of tuples that a GPU sorts at once (§4.2, §4.3)
_BEST = {AC922: 2, H100: 8}  # GPUs (§4.4)
_MERGE: Strategy = "p2p_merge"
_RADIX: Strategy = "radix"
_NO_P2P: Strategy = "het"
_MEASURED_ELSEWHERE = "'linkwise bench join' measures joins"


def _seconds(
    machine: Machine, name: str, strategy: Strategy, gpus: int, workload: Workload, *, presorted: bool = False
) -> float:
    """Of the paper's join on the first GPUs of a machine, with chunks as large as it has them on the named one."""
    chunk = _CHUNK_BYTES[name] // workload.tuple_bytes
    tuples = max(workload.rows)
    # §3.1.3: one chunkset comes while another leaves. Of a single one, §3.1.2 sorts buckets while others leave, as our
    # streamed radix sort does; merging overlaps nothing.
    of_radix: dict[str, Any] = {"streamed": True} if strategy == _RADIX else {}
    of_runs: dict[str, Any] = {"merge_on_gpus": False} if strategy != _NO_P2P else {}
    sort = SortPlan(
        strategy=strategy, gpus=tuple(range(gpus)), paths=(),
        chunkset_records=chunk * gpus if chunk * gpus < tuples else 0, **of_radix, **of_runs,
    )  # fmt: skip
    plan = JoinPlan(path="sorted", merges_runs=True, searches_each_key=True, sort=sort)

    def price(plan: JoinPlan) -> PricedJoin:
        return plan_join(
            *workload.rows, workload.dtype.name, value_bytes=workload.dtype.itemsize, wants_ranges=True,
            matches=workload.expected_keys, left_presorted=presorted, right_presorted=presorted, machine=machine,
            verify=False, plan=plan,
        ).best  # fmt: skip

    try:
        best = price(plan)
    except OutOfMemoryError:  # less than the paper's chunks fit
        best = price(plan.replace(sort=sort.replace(chunkset_records=None)))
    return best.seconds - best.phases.get("materialise", 0.0)


def _row(
    lab: Lab, name: str, strategy: Strategy, gpus: int, billions: float, paper: float | None, against: int | None = None
) -> Row:
    """Seconds; or, ``against`` fewer GPUs, how many times as fast."""
    machine = lab.machine(name)
    called = {_MERGE: "merge", _RADIX: "radix"}[strategy]
    what = f"{called}, {billions:g}·10⁹ ⋈ {billions:g}·10⁹ on {gpus} GPUs"
    unit = "s" if against is None else "×"
    if against is not None:
        what += f", as fast as on {against}"
    if lab.measures:
        return Row(what, unit, None, paper, _MEASURED_ELSEWHERE)
    if gpus > machine.num_gpus:
        return Row(what, unit, None, paper, "too few GPUs")
    workload = Workload("B", billions)
    seconds = _seconds(machine, name, strategy, gpus, workload)
    if against is None:
        return Row(what, unit, seconds, paper)
    return Row(what, unit, _seconds(machine, name, strategy, against, workload) / seconds, paper)


def _breakdown(lab: Lab, name: str, billions: float, stated: dict[tuple[Strategy, int], float]) -> list[Row]:
    return [_row(lab, name, strategy, gpus, billions, paper) for (strategy, gpus), paper in stated.items()]


def _fig13(lab: Lab) -> list[Row]:
    radix = {(_RADIX, 2): 0.80 * 2.89, (_RADIX, 4): 0.83 * 3.46}  # 20 % and 17 % faster than by merging
    return _breakdown(lab, AC922, 1.5, {(_MERGE, 1): 5.89, (_MERGE, 2): 2.89, (_MERGE, 4): 3.46, **radix})


def _fig14(lab: Lab) -> list[Row]:
    return _breakdown(lab, H100, 16, {(_MERGE, 8): 11.55, (_RADIX, 1): 40.01, (_RADIX, 8): 10.16})


def _fig15(lab: Lab) -> list[Row]:
    stated: Sequence[tuple[str, int, int, float, float]] = (
        (AC922, 2, 1, 1.5, 2.6), (AC922, 2, 1, 5, 1.4),
        (H100, 2, 1, 4, 2.4), (H100, 4, 1, 8, 3.9),
        (H100, 8, 1, 16, 3.9), (H100, 8, 2, 16, 2.6), (H100, 8, 4, 16, 2.1),
    )  # fmt: skip
    return [_row(lab, name, _RADIX, gpus, billions, paper, against) for name, gpus, against, billions, paper in stated]


def _baselines(lab: Lab, name: str, stated: Sequence[tuple[str, float, float | None]]) -> list[Row]:
    """The paper's join, and how many times as long one takes whose GPUs send each other nothing.

    The paper's baselines are other people's code, which nothing here describes; this one is our own.
    """
    rows = []
    for which, f, times in stated:
        workload = Workload(which, f)
        what = f"{name}, {which}, f = {f:g}"
        if lab.measures:
            rows.append(Row(what, "s", None, None, _MEASURED_ELSEWHERE))
            continue
        machine = lab.machine(name)
        gpus = min(_BEST[name], machine.num_gpus)
        ours, alone = (_seconds(machine, name, strategy, gpus, workload) for strategy in (_RADIX, _NO_P2P))
        said = "the host between its GPUs"
        if times:
            said += f"; Rui et al.'s, in the paper, {times:g} ×"
        rows += [
            Row(what, "s", ours),
            Row(f"{what}: without P2P", "×", alone / ours, None, said),
        ]
    return rows


def _fig1(lab: Lab) -> list[Row]:
    return [
        *_baselines(lab, AC922, [("A", f, times) for f, times in ((1, None), (3, 5.9))]),
        *_baselines(lab, H100, [("A", f, times) for f, times in ((1, None), (10, 7.0))]),
    ]


def _fig11(lab: Lab) -> list[Row]:
    return _baselines(
        lab, AC922, [("A", 1, None), ("A", 3, 5.9), ("A", 6, None), ("A", 10, 2.8), ("B", 1.5, 4.2), ("B", 5, None)]
    )


def _fig12(lab: Lab) -> list[Row]:
    return _baselines(
        lab, H100, [("A", 10, 7.0), ("A", 30, 7.0), ("A", 38, None), ("B", 8, 8.7), ("B", 16, 8.7), ("B", 20, None)]
    )


def _fig16(lab: Lab) -> list[Row]:
    """What a join takes with matches for all rows of S, against none, and with Zipf's keys, against uniform ones."""
    rows = []
    for name, selectivity, skew in ((AC922, 1.28, 0.88), (H100, 1.09, 0.95)):
        what = f"{name}, {_BEST[name]} GPUs"
        stated = (("selectivity 0 → 1", Workload("B", 1.5, 0), Workload("B", 1.5), selectivity),
                  ("skew 0 → 1", Workload("B", 1.5), Workload("B", 1.5, skew=1), skew))  # fmt: skip
        for change, before, after, paper in stated:
            if lab.measures:
                rows.append(Row(f"{what}, {change}", "×", None, paper, _MEASURED_ELSEWHERE))
                continue
            machine = lab.machine(name)
            gpus = min(_BEST[name], machine.num_gpus)
            times = [_seconds(machine, name, _RADIX, gpus, workload) for workload in (before, after)]
            rows.append(Row(f"{what}, {change}", "×", times[1] / times[0], paper))
    return rows


def _fig17(lab: Lab) -> list[Row]:
    """The joins of two queries at three scales: seconds, and the shares of the phases at the first."""
    stated = {
        "Q3": {"sort": 0.56, "join": 0.28, "materialise": 0.16},
        "Q5": {"sort": 0.32, "join": 0.22, "materialise": 0.46},
    }
    if lab.measures:
        return [Row(query, "s", None, None, "'linkwise bench tpch' measures them") for query in stated]
    machine = lab.machine(H100)
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


JOIN25 = (
    Experiment("join25-fig1", "8-byte tuples, with and without transfers between GPUs", _fig1),
    Experiment("join25-fig11", "a join on the IBM AC922, with and without transfers between GPUs", _fig11),
    Experiment("join25-fig12", "a join on the DGX H100, with and without transfers between GPUs", _fig12),
    Experiment("join25-fig13", "a join on the IBM AC922 by strategy and number of GPUs", _fig13),
    Experiment("join25-fig14", "a join on the DGX H100 by strategy and number of GPUs", _fig14),
    Experiment("join25-fig15", "how joins scale with the number of GPUs", _fig15),
    Experiment("join25-fig16", "selectivity and skew", _fig16),
    Experiment("join25-fig17", "the joins of TPC-H Q3 and Q5 on the DGX H100", _fig17),
)
