"""Efficiently Joining Large Relations on Multi-GPU Systems, PVLDB 2025: figures 13 to 15.

Workload B: as many 16-byte tuples in R as in S, joined by their 64-bit keys without materialising (§4.1). The relations
are sorted in chunksets, merged by the host where there are several, and joined pair by pair: §3 as it is written, but
that our join counts matches with a kernel of its own, and brings no ranges back.
"""

from __future__ import annotations

from collections.abc import Sequence

from linkwise import _core
from linkwise._core import Machine
from linkwise.reproduce.experiment import Experiment, Lab, Row

AC922, H100 = "ibm-ac922", "dgx-h100"
_CHUNK = {AC922: 750_000_000, H100: 2_000_000_000}  # tuples that a GPU sorts at once (§4.3)
_MERGE, _RADIX = "p2p_merge", "radix"


def _seconds(machine: Machine, chunk: int, strategy: str, gpus: int, billions: float) -> float:
    tuples = int(billions * 1e9)
    workload = _core.JoinWorkload()
    workload.key_type = _core.KeyType.u64
    workload.left_rows = workload.right_rows = tuples
    workload.value_bytes = 8
    workload.verify = False
    sort, plan = _core.SortPlan(), _core.JoinPlan()
    sort.gpus = list(range(gpus))
    sort.strategy = getattr(_core.SortStrategy, strategy)
    sort.merge_on_gpus = False
    sort.exchange = _core.Exchange.copies
    # §3.1.3: one chunkset comes while another leaves. Of a single one, §3.1 overlaps less than ours would.
    sort.streamed = chunk * gpus < tuples
    estimating = _core.VirtualRuntime(machine, _core.VirtualMode.estimate)
    at_once = min(chunk * gpus, _core.records_that_fit(estimating, sort, _core.RecordType(8, 8)))
    sort.chunkset_records = at_once if at_once < tuples else 0
    plan.path, plan.merges_runs, plan.sort = _core.JoinPath.sorted, True, sort
    return float(_core.estimate_join(machine, workload, plan).seconds)


def _row(
    lab: Lab, name: str, strategy: str, gpus: int, billions: float, paper: float | None, against: int | None = None
) -> Row:
    """Seconds; or, ``against`` fewer GPUs, how many times as fast."""
    machine = lab.machine(name)
    called = {_MERGE: "merge", _RADIX: "radix"}[strategy]
    what = f"{called}, {billions:g}·10⁹ ⋈ {billions:g}·10⁹ on {gpus} GPUs"
    unit = "s" if against is None else "×"
    if against is not None:
        what += f", as fast as on {against}"
    if lab.measures:
        return Row(what, unit, None, paper, "'linkwise bench join' measures joins")
    if gpus > machine.num_gpus:
        return Row(what, unit, None, paper, "too few GPUs")
    seconds = _seconds(machine, _CHUNK[name], strategy, gpus, billions)
    if against is None:
        return Row(what, unit, seconds, paper)
    return Row(what, unit, _seconds(machine, _CHUNK[name], strategy, against, billions) / seconds, paper)


def _breakdown(lab: Lab, name: str, billions: float, stated: dict[tuple[str, int], float]) -> list[Row]:
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


JOIN25 = (
    Experiment("join25-fig13", "a join on the IBM AC922 by strategy and number of GPUs", _fig13),
    Experiment("join25-fig14", "a join on the DGX H100 by strategy and number of GPUs", _fig14),
    Experiment("join25-fig15", "how joins scale with the number of GPUs", _fig15),
)
