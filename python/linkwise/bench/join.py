"""Joins of the workloads of join25 (§4.1.3): counted, summed, materialised, out of core, presorted; and baselines.

Every result is checked against what the generator knows. On a machine without GPUs a described one is simulated.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np

from linkwise import _core
from linkwise._core import UsageError
from linkwise.bench.copy_bandwidth import best_wire, described_wire
from linkwise.bench.join_baselines import Baseline, DeviceJoin, by_duckdb, of_keys_on_gpus, on_cores
from linkwise.bench.join_workload import Relations, Workload
from linkwise.bench.results import Results, commit, cores, now
from linkwise.columns.key_types import key_type_of
from linkwise.joining.api import JoinRanges
from linkwise.machines.catalog import load_machine
from linkwise.planning.join import PricedJoin, plan_join
from linkwise.runtime.execution import Gpus
from linkwise.runtime.host_memory import empty
from linkwise.runtime.join_plan import JoinPlan
from linkwise.runtime.session import open_session
from linkwise.runtime.sort_plan import SortPlan, Strategy

_MOST_REPETITIONS = 100
_ROW_BYTES = 4  # bytes of a row number
_RANGE_BYTES = 16


@dataclass(frozen=True)
class Case:
    """A way of joining. ``crossings``: how often the keys cross between host and GPUs, for the wire time."""

    name: str
    wants: str  # "count", "sums", "rows" or "ranges"
    path: Literal["in_core", "sorted", "pairwise", "hybrid_radix"] = "in_core"
    chunksets: int = 1
    merges_runs: bool = False
    presorted: bool = False
    crossings: tuple[int, int] = (1, 0)  # in, out
    strategy: Strategy = "radix"
    searches_each_key: bool = False

    @property
    def has_values(self) -> bool:
        """Whether values cross with the keys."""
        return self.wants in ("sums", "rows")

    def value_bytes(self, workload: Workload) -> int:
        """Bytes that are sorted with each key: its value, or its row number."""
        return _ROW_BYTES if self.wants == "ranges" else workload.dtype.itemsize if self.has_values else 0


CASES = (
    Case("counted", "count"),
    Case("count and sums", "sums"),
    Case("materialised", "rows"),
    Case("presorted, counted", "count", "sorted", presorted=True),
    Case("presorted, count and sums", "sums", "sorted", presorted=True),
    Case("join25's path, counted", "count", "sorted", merges_runs=True, crossings=(2, 1)),
    Case("ranges", "ranges", "sorted", merges_runs=True, crossings=(2, 1)),
    # As the paper measures it (§3.3.3, §4.1.2): with its kernel, and ranges in host memory.
    Case("join25's path, ranges", "ranges", "sorted", merges_runs=True, crossings=(2, 1), searches_each_key=True),
    # The two joins of Rui et al. (join25 §4.1.4), in which no GPU sends to another. The first sorts chunks that fit
    # one GPU, then merges runs in pairs; each merge pass copies everything to the GPUs and back.
    Case("Rui et al.'s sort-merge, counted", "count", "pairwise", crossings=(3, 2), strategy="het"),
    Case("Rui et al.'s hybrid radix, counted", "count", "hybrid_radix", strategy="het"),
    Case("four chunksets, counted", "count", "sorted", chunksets=4, crossings=(2, 1)),
    Case("four chunksets, merged first, counted", "count", "sorted", 4, merges_runs=True, crossings=(3, 2)),
)


@dataclass(frozen=True)
class JoinRow:
    """What a way of joining took, beside what its bytes take on the links."""

    case: str
    plan: str
    seconds: float
    """The median by the wall clock, or the simulated time."""
    phases: dict[str, float]
    wire_seconds: float
    wall_seconds: list[float] | None = None
    device_seconds: list[float] | None = None
    spread: float | None = None
    wire_gb_per_s: dict[str, float] | None = None


@dataclass(frozen=True)
class JoinedWorkload:
    """Which workload was joined."""

    name: str
    scale: float
    selectivity: float
    skew: float
    heavy_hitter: bool
    rows: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class JoinResults(Results):
    """Every way of joining a workload."""

    cpu: str
    gpus: list[str]
    workload: JoinedWorkload
    wire_gb_per_s: dict[str, Any]
    rows: list[JoinRow]
    on_gpus: list[DeviceJoin]
    baselines: list[Baseline]


@dataclass(frozen=True)
class _Joined:
    machine: str
    wire_gb_per_s: dict[str, Any]
    rows: list[JoinRow]
    on_gpus: list[DeviceJoin] = field(default_factory=list)
    baselines: list[Baseline] = field(default_factory=list)


def _plan(machine: _core.Machine, workload: Workload, case: Case, gpus: Gpus) -> PricedJoin:
    """The plan for a case: the planner's choice of GPUs and ways, unless GPUs are given."""
    at_once = -(-max(workload.rows) // case.chunksets) if case.chunksets > 1 else None
    of_sorted: dict[str, Any] = {"merges_runs": case.merges_runs, "searches_each_key": case.searches_each_key}
    plan = JoinPlan(
        path=case.path,
        sort=SortPlan(strategy=case.strategy, chunkset_records=at_once),
        **(of_sorted if case.path == "sorted" else {}),
    )
    return plan_join(
        *workload.rows, workload.dtype.name, value_bytes=case.value_bytes(workload), wants_rows=case.wants == "rows",
        wants_ranges=case.wants == "ranges", matches=_expected(workload, case), left_presorted=case.presorted,
        right_presorted=case.presorted, machine=machine, gpus=gpus, plan=plan,
    ).best  # fmt: skip


def _expected(workload: Workload, case: Case) -> int:
    """The expected number of matching pairs of rows; for ranges, of keys."""
    return workload.expected_keys if case.wants == "ranges" else workload.expected_matches


def _once(runtime: _core.Runtime, pinned: JoinPlan, relations: Relations, case: Case) -> Callable[[], None]:
    """Run the join; returns a function that checks the result."""
    kind, plan = key_type_of(relations.workload.dtype), pinned.to_core()
    r_keys, r_values, s_keys, s_values = relations.columns(runtime, presorted=case.presorted)
    if case.wants == "rows":
        _core.join_rows(
            runtime, plan, kind, r_keys, s_keys, r_values, s_values, 0, "inner", True,
            lambda rows: tuple(array[:rows] for array in relations.out),
        )  # fmt: skip
        return relations.check_rows
    if case.wants == "ranges":
        ranges = JoinRanges(*_core.join_ranges(runtime, plan, kind, r_keys, s_keys, _ROW_BYTES, True))
        return lambda: relations.check_ranges(ranges)
    totals = _core.join_totals(
        runtime, plan, kind, r_keys, s_keys, r_values if case.has_values else None,
        s_values if case.has_values else None, left_presorted=case.presorted, right_presorted=case.presorted,
    )  # fmt: skip
    return lambda: relations.check_totals(totals, sums=case.has_values)


def timed_case(
    runtime: _core.Runtime, plan: JoinPlan, relations: Relations, case: Case, repetitions: int
) -> tuple[list[float], list[float], list[dict[str, float]]]:
    """Wall-clock seconds, GPU seconds and phases of each repetition after a warm-up."""
    wall, device, phases = [], [], []
    for repetition in range(repetitions + 1):
        began = time.perf_counter()
        check = _once(runtime, plan, relations, case)
        seconds = time.perf_counter() - began
        if repetition == repetitions or case.wants in ("count", "sums"):  # the others take longer to check
            check()
        del check  # frees the result, whose memory the next run reuses
        report = _core.report_of(runtime, _core.SortOptions())
        if repetition > 0:
            wall.append(seconds)
            device.append(report.seconds)
            phases.append({phase.phase: phase.seconds for phase in report.phases})
    return wall, device, phases


def _wire_seconds(workload: Workload, case: Case, matches: int, best: dict[str, float]) -> float:
    width = workload.dtype.itemsize
    row_bytes = width * (2 if case.has_values else 1)
    gigabytes = {"in": sum(workload.rows) * row_bytes * case.crossings[0] / 1e9}
    gigabytes["out"] = sum(workload.rows) * row_bytes * case.crossings[1] / 1e9
    if case.wants == "rows":
        gigabytes["out"] += 3 * width * matches / 1e9
    if case.wants == "ranges":
        gigabytes["out"] += (_ROW_BYTES * sum(workload.rows) + _RANGE_BYTES * workload.expected_keys) / 1e9
    return float(sum(gigabytes[side] / best[side] for side in gigabytes))


def _measured(workload: Workload, cases: list[Case], gpus: Gpus, repetitions: int) -> _Joined:
    with open_session("local"):
        pass  # raises without a GPU, before memory is filled
    relations = Relations(workload, wants_rows=any(case.wants == "rows" for case in cases))
    rows = []
    with open_session("local") as runtime:
        scratch = empty(len(relations.s_keys) * workload.dtype.itemsize // 4, np.uint32)
        scratch.fill(0)

        @cache
        def wire(*, presorted: bool) -> dict[str, Any]:  # other memory may be farther from the GPUs
            return best_wire(runtime, relations.columns(runtime, presorted=presorted)[2].view(np.uint32), scratch)

        for case in cases:
            plan = _plan(runtime.machine, workload, case, gpus)
            best = wire(presorted=case.presorted)["best"]
            wall, device, phases = timed_case(runtime, plan, relations, case, repetitions)
            runtime.trim()
            rows.append(
                JoinRow(
                    case.name, str(plan), statistics.median(wall),
                    {name: statistics.median(each.get(name, 0) for each in phases) for name in phases[-1]},
                    _wire_seconds(workload, case, relations.expected.matches, best), wall, device,
                    (max(wall) - min(wall)) / statistics.median(wall), best,
                )
            )  # fmt: skip
        on_gpus = of_keys_on_gpus(runtime, relations, repetitions)
        return _Joined(
            runtime.machine.name, wire(presorted=False), rows, on_gpus, [*on_cores(relations), *by_duckdb(relations)]
        )


def _simulated(machine: _core.Machine, workload: Workload, cases: list[Case], gpus: Gpus) -> _Joined:
    wire = described_wire(machine)
    rows = []
    for case in cases:
        plan = _plan(machine, workload, case, gpus)
        wire_seconds = _wire_seconds(workload, case, _expected(workload, case), wire["best"])
        rows.append(JoinRow(case.name, str(plan), plan.seconds, plan.phases, wire_seconds))
    return _Joined(machine.name, wire, rows)


def bench_join(
    workload: Workload,
    *,
    machine: str = "local",
    gpus: Gpus = "auto",
    only: Callable[[str], bool] = lambda _: True,
    repetitions: int = 5,
) -> JoinResults:
    """Join R and S of a workload in every way, and compare each with the time that its bytes take on the links.

    Parameters
    ----------
    workload
        A or B of join25, at any scale, selectivity and skew.
    machine
        ``"local"``, or a described machine to simulate.
    gpus
        ``"auto"``: what the planner chooses for each case.
    only
        Whether a case is wanted, by its name.
    repetitions
        Timed runs of each case, after a warm-up.

    Raises
    ------
    DeviceError, UsageError, OutOfMemoryError, CorruptDataError

    """
    cases = [case for case in CASES if only(case.name)]
    if not cases:
        raise UsageError(f"no case has a name like this; there are {', '.join(case.name for case in CASES)}")
    if not 1 <= repetitions <= _MOST_REPETITIONS:
        raise UsageError(f"there are from 1 to {_MOST_REPETITIONS} repetitions, not {repetitions}")
    is_measured = machine == "local"
    found = (
        _measured(workload, cases, gpus, repetitions)
        if is_measured
        else _simulated(load_machine(machine), workload, cases, gpus)
    )
    about = JoinedWorkload(
        workload.name, workload.scale, workload.selectivity, workload.skew, workload.heavy_hitter, workload.rows
    )
    return JoinResults(
        date=now(),
        commit=commit(),
        machine=found.machine,
        simulated=not is_measured,
        cpu=cores(),
        gpus=[gpu.name for gpu in _core.cuda_gpus()] if is_measured else [],
        workload=about,
        wire_gb_per_s=found.wire_gb_per_s,
        rows=found.rows,
        on_gpus=found.on_gpus,
        baselines=found.baselines,
    )
