"""Joins of the workloads of join25 (§4.1.3): counted, summed, materialised, out of core, presorted; and baselines.

Every result is checked against what the generator knows. On a machine without GPUs a described one is simulated.
"""

from __future__ import annotations

import datetime
import importlib
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from linkwise import _core
from linkwise._core import CorruptDataError, UsageError
from linkwise.join_planning import join_workload
from linkwise.join_workloads import Expected, Workload
from linkwise.keys import key_type_of
from linkwise.machine import load_machine
from linkwise.planning import Gpus, gpu_numbers
from linkwise.session import open_session
from linkwise.sorting import empty
from linkwise.wire import best_wire, described_wire

Array = np.ndarray[Any, Any]
_MOST_REPETITIONS = 100


@dataclass(frozen=True)
class Case:
    """A way of joining. ``crossings``: how often the keys cross between host and GPUs, for the wire time."""

    name: str
    wants: str  # "count", "sums" or "rows"
    path: str = "in_core"
    chunksets: int = 1
    merges_runs: bool = False
    presorted: bool = False
    crossings: tuple[int, int] = (1, 0)  # in, out
    strategy: _core.SortStrategy = _core.SortStrategy.radix

    @property
    def has_values(self) -> bool:
        """Whether values cross as well."""
        return self.wants != "count"


CASES = (
    Case("counted", "count"),
    Case("count and sums", "sums"),
    Case("materialised", "rows"),
    Case("presorted, counted", "count", "sorted", presorted=True),
    Case("presorted, count and sums", "sums", "sorted", presorted=True),
    Case("join25's path, counted", "count", "sorted", merges_runs=True, crossings=(2, 1)),
    # As Rui et al. (join25 §4.1.4): no GPU sends to another, and the host's memory is where their runs meet.
    Case(
        "shared-nothing sort-merge, counted",
        "count",
        "sorted",
        merges_runs=True,
        crossings=(2, 1),
        strategy=_core.SortStrategy.het,
    ),
    Case("four chunksets, counted", "count", "sorted", chunksets=4, crossings=(2, 1)),
    Case("four chunksets, merged first, counted", "count", "sorted", 4, merges_runs=True, crossings=(3, 2)),
)


def _plan(machine: _core.Machine, workload: Workload, case: Case, gpus: Gpus) -> tuple[_core.JoinPlan, Any]:
    """The plan for a case: the planner's choice of GPUs and ways, unless GPUs are given."""
    shape = join_workload(
        key_type_of(workload.dtype), workload.rows, "inner",
        value_bytes=workload.dtype.itemsize if case.has_values else 0, wants_rows=case.wants == "rows",
    )  # fmt: skip
    shape.expected_matches = workload.expected_matches
    shape.left_presorted = shape.right_presorted = case.presorted
    constraints = _core.JoinConstraints()
    constraints.path = getattr(_core.JoinPath, case.path)
    constraints.gpus = [] if gpus == "auto" else gpu_numbers(gpus)
    plan = _core.plan_join(machine, shape, constraints)[0].plan
    plan.merges_runs = case.merges_runs
    sort = plan.sort
    sort.strategy = case.strategy
    if case.chunksets > 1:
        sort.chunkset_records = -(-max(workload.rows) // case.chunksets)
    plan.sort = sort
    return plan, shape


class _Relations:
    """The workload in pinned memory, and where rows go."""

    def __init__(self, workload: Workload, cases: list[Case]) -> None:
        self.workload = workload
        r, s = workload.rows
        self.r_keys, self.r_values, self.s_keys, self.s_values = (empty(n, workload.dtype) for n in (r, r, s, s))
        self.expected = workload.fill(self.r_keys, self.r_values, self.s_keys, self.s_values)
        if workload.heavy_hitter and any(case.wants == "rows" for case in cases):
            raise UsageError("the rows of a heavy hitter are more than memory holds; ask for 'counted' with --only")
        wants_rows = any(case.wants == "rows" for case in cases)
        self.out = [empty(max(self.expected.matches, 1), workload.dtype) for _ in range(3)] if wants_rows else []
        for array in self.out:
            array.fill(0)
        self._sorted: tuple[Array, ...] | None = None

    def columns(self, runtime: _core.Runtime, *, presorted: bool) -> tuple[Array, ...]:
        """Keys and values of R, and of S; sorted on demand."""
        if not presorted:
            return self.r_keys, self.r_values, self.s_keys, self.s_values
        if self._sorted is None:
            plan = _core.SortPlan()
            plan.gpus = list(range(runtime.machine.num_gpus))
            kind = key_type_of(self.workload.dtype)
            made: list[Array] = []
            for keys, values in ((self.r_keys, self.r_values), (self.s_keys, self.s_values)):
                in_order, followed = empty(len(keys), keys.dtype), empty(len(keys), keys.dtype)
                _core.sort_host(runtime, plan, kind, keys, values, in_order, followed)
                made += [in_order, followed]
            self._sorted = tuple(made)
        return self._sorted

    def check_rows(self) -> None:
        """Stop unless the rows are in order, and each joins what it says."""
        keys, r_rows, s_rows = self.out
        sums = [int(side.sum(dtype=np.uint64)) for side in (r_rows, s_rows)]
        some = slice(None, None, max(len(keys) // 1_000_000, 1))
        if (
            not (keys[:-1] <= keys[1:]).all()
            or sums != [self.expected.r_sum, self.expected.s_sum]
            or not (self.r_keys[r_rows[some]] == keys[some]).all()
            or not (self.s_keys[s_rows[some]] == keys[some]).all()
        ):
            raise CorruptDataError("a join that was measured is wrong: do not trust this machine")


def _check(expected: Expected, totals: _core.JoinTotals, case: Case) -> None:
    found = (totals.rows, totals.left_sum, totals.right_sum)
    wanted = (expected.matches, expected.r_sum, expected.s_sum)
    if found[: 3 if case.has_values else 1] != wanted[: 3 if case.has_values else 1]:
        raise CorruptDataError("a join that was measured is wrong: do not trust this machine")


def _once(runtime: _core.Runtime, plan: _core.JoinPlan, relations: _Relations, case: Case) -> None:
    kind = key_type_of(relations.workload.dtype)
    r_keys, r_values, s_keys, s_values = relations.columns(runtime, presorted=case.presorted)
    if case.wants == "rows":
        _core.join_rows(
            runtime, plan, kind, r_keys, s_keys, r_values, s_values, 0, "inner", True,
            lambda rows: tuple(array[:rows] for array in relations.out),
        )  # fmt: skip
        return
    totals = _core.join_totals(
        runtime, plan, kind, r_keys, s_keys, r_values if case.has_values else None,
        s_values if case.has_values else None, left_presorted=case.presorted, right_presorted=case.presorted,
    )  # fmt: skip
    _check(relations.expected, totals, case)


def _wire_seconds(workload: Workload, case: Case, matches: int, wire: dict[str, Any]) -> float:
    width = workload.dtype.itemsize
    row_bytes = width * (2 if case.has_values else 1)
    gigabytes = {"in": sum(workload.rows) * row_bytes * case.crossings[0] / 1e9}
    gigabytes["out"] = sum(workload.rows) * row_bytes * case.crossings[1] / 1e9
    if case.wants == "rows":
        gigabytes["out"] += 3 * width * matches / 1e9
    return float(sum(gigabytes[side] / wire["best"][side] for side in gigabytes))


def _measured(workload: Workload, cases: list[Case], gpus: Gpus, repetitions: int) -> dict[str, Any]:
    with open_session("local"):
        pass  # without a GPU there is nothing to fill memory for
    relations = _Relations(workload, cases)
    rows = []
    with open_session("local") as runtime:
        scratch = empty(len(relations.s_keys) * workload.dtype.itemsize // 4, np.uint32)
        scratch.fill(0)
        wire = best_wire(runtime, relations.s_keys.view(np.uint32), scratch)
        for case in cases:
            plan, _ = _plan(runtime.machine, workload, case, gpus)
            wall, device, phases = [], [], []
            for repetition in range(repetitions + 1):
                began = time.perf_counter()
                _once(runtime, plan, relations, case)
                seconds = time.perf_counter() - began
                report = _core.report_of(runtime, _core.SortOptions())
                if repetition > 0:  # the first one warms up
                    wall.append(seconds)
                    device.append(report.seconds)
                    phases.append({phase.phase: phase.seconds for phase in report.phases})
            if case.wants == "rows":
                relations.check_rows()
            runtime.trim()
            rows.append(
                {
                    "case": case.name,
                    "plan": str(plan),
                    "wall_seconds": wall,
                    "device_seconds": device,
                    "seconds": statistics.median(wall),
                    "spread": (max(wall) - min(wall)) / statistics.median(wall),
                    "phases": {name: statistics.median(each.get(name, 0) for each in phases) for name in phases[-1]},
                    "wire_seconds": _wire_seconds(workload, case, relations.expected.matches, wire),
                }
            )
        name = runtime.machine.name
        on_gpus = _on_gpus(runtime, relations, repetitions)
    measured = {"machine": name, "simulated": False, "wire_gb_per_s": wire, "rows": rows}
    return {**measured, "on_gpus": on_gpus, "baselines": _duckdb(relations)}


def _ways(workload: Workload) -> list[tuple[str, Callable[..., _core.JoinTotals]]]:
    """Linkwise's own join of what lies on the GPUs, and the baseline where no key overloads a GPU."""
    ways: list[tuple[str, Callable[..., _core.JoinTotals]]] = [
        ("sorted", lambda runtime, plan, r, s: _core.join_device_totals(runtime, plan, r, s, "inner", False))
    ]
    if workload.skew == 0 and not workload.heavy_hitter:
        ways.append(("partitioned hash join", _core.hash_join_device_totals))
    return ways


def _on_gpus(runtime: _core.Runtime, relations: _Relations, repetitions: int) -> list[dict[str, Any]]:
    """Counted where the keys lie in equal parts on 1, 2, 4, … GPUs, if CuPy is there to put them there."""
    if find_spec("cupy") is None:
        return []
    cupy = importlib.import_module("cupy")

    rows: list[dict[str, Any]] = []
    for gpus in (g for g in (1, 2, 4, 8) if g <= runtime.machine.num_gpus):
        plan, sort = _core.JoinPlan(), _core.SortPlan()
        sort.gpus = list(range(gpus))
        plan.sort = sort
        sides = []
        for keys in (relations.r_keys, relations.s_keys):
            parts = []
            for gpu in range(gpus):
                with cupy.cuda.Device(gpu):
                    parts.append(cupy.asarray(keys[len(keys) * gpu // gpus : len(keys) * (gpu + 1) // gpus]))
                    cupy.cuda.Device(gpu).synchronize()
            sides.append(_core.ArraysOfSide(parts, [], [None] * gpus))
        for way, join in _ways(relations.workload):
            wall = []
            for repetition in range(repetitions + 1):
                began = time.perf_counter()
                found = join(runtime, plan, *sides)
                if repetition > 0:
                    wall.append(time.perf_counter() - began)
                if found.rows != relations.expected.matches:
                    raise CorruptDataError("a join that was measured is wrong: do not trust this machine")
            report = _core.report_of(runtime, _core.SortOptions())
            seconds = statistics.median(wall)
            alone = next((row["seconds"] for row in rows if row["way"] == way), seconds)
            rows.append(
                {
                    "way": way,
                    "gpus": gpus,
                    "wall_seconds": wall,
                    "seconds": seconds,
                    "spread": (max(wall) - min(wall)) / seconds,
                    "phases": {phase.phase: phase.seconds for phase in report.phases},
                    "efficiency": alone / seconds / gpus,
                }
            )
        del sides, parts
        for gpu in range(gpus):
            with cupy.cuda.Device(gpu):
                cupy.get_default_memory_pool().free_all_blocks()
        runtime.trim()
    return rows


def _duckdb(relations: _Relations) -> list[dict[str, Any]]:
    """Count and sums by DuckDB on all cores, if it is installed."""
    if find_spec("duckdb") is None:
        return []
    import duckdb  # noqa: PLC0415 - where it is
    import pyarrow as pa  # noqa: PLC0415

    r = pa.table({"k": relations.r_keys, "v": relations.r_values})  # noqa: F841 - DuckDB finds it by its name
    s = pa.table({"k": relations.s_keys, "v": relations.s_values})  # noqa: F841
    connection = duckdb.connect()
    connection.execute("create table r1 as select * from r; create table s1 as select * from s")
    wall = []
    for _ in range(3):
        began = time.perf_counter()
        found = connection.execute(
            "select count(*), sum(r1.v::hugeint), sum(s1.v::hugeint) from r1 join s1 on r1.k = s1.k"
        ).fetchone()
        wall.append(time.perf_counter() - began)
    expected = relations.expected
    assert found is not None
    if [int(value or 0) % 2**64 for value in found] != [expected.matches, expected.r_sum, expected.s_sum]:
        raise CorruptDataError("DuckDB found something else: one of the two is wrong")
    return [{"case": f"DuckDB {duckdb.__version__}, count and sums", "wall_seconds": wall, "seconds": min(wall)}]


def _simulated(machine: _core.Machine, workload: Workload, cases: list[Case], gpus: Gpus) -> dict[str, Any]:
    wire = described_wire(machine)
    rows = []
    for case in cases:
        plan, shape = _plan(machine, workload, case, gpus)
        report = _core.estimate_join(machine, shape, plan)
        rows.append(
            {
                "case": case.name,
                "plan": str(plan),
                "seconds": report.seconds,
                "phases": {phase.phase: phase.seconds for phase in report.phases},
                "wire_seconds": _wire_seconds(workload, case, int(shape.expected_matches), wire),
            }
        )
    return {
        "machine": machine.name,
        "simulated": True,
        "wire_gb_per_s": wire,
        "rows": rows,
        "on_gpus": [],
        "baselines": [],
    }


def bench_join(
    workload: Workload,
    *,
    machine: str = "local",
    gpus: Gpus = "auto",
    only: Callable[[str], bool] = lambda _: True,
    repetitions: int = 5,
) -> dict[str, Any]:
    """Join R and S of a workload in every way, and set each beside the time that its bytes take on the links.

    Parameters
    ----------
    workload
        A or B of join25, at any scale, selectivity and skew.
    machine
        ``"local"``, or a described machine to simulate.
    gpus
        ``"auto"``: what the planner chooses for each case.
    only
        Says of a case's name whether it is wanted.
    repetitions
        Of each case, after one that warms up.

    Returns
    -------
    dict
        ``rows`` (of each case: seconds, phases, plan and wire time), ``on_gpus`` (counted where the keys lie on so many
        GPUs), and ``baselines``.

    Raises
    ------
    DeviceError, UsageError, OutOfMemoryError, CorruptDataError

    """
    cases = [case for case in CASES if only(case.name)]
    if not cases:
        raise UsageError(f"no case has a name like this; there are {', '.join(case.name for case in CASES)}")
    if not 1 <= repetitions <= _MOST_REPETITIONS:
        raise UsageError(f"there are from 1 to {_MOST_REPETITIONS} repetitions, not {repetitions}")
    found = (
        _measured(workload, cases, gpus, repetitions)
        if machine == "local"
        else _simulated(load_machine(machine), workload, cases, gpus)
    )
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).isoformat(),
        "commit": os.environ.get("LINKWISE_COMMIT", ""),
        "cpu": f"{platform.machine()}, {os.cpu_count()} cores",
        "gpus": [] if found["simulated"] else [gpu.name for gpu in _core.cuda_gpus()],
        "workload": {
            "name": workload.name, "scale": workload.scale, "selectivity": workload.selectivity,
            "skew": workload.skew, "heavy_hitter": workload.heavy_hitter, "rows": workload.rows,
        },
        **found,
    }  # fmt: skip
