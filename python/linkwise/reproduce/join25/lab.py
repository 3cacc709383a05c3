"""Joins for the papers' experiments: priced on described machines, timed on this one at a smaller size."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from linkwise._core import Machine, OutOfMemoryError
from linkwise.bench.join import Case, timed_case
from linkwise.bench.join_baselines import on_cores
from linkwise.bench.join_workload import Relations, Workload
from linkwise.planning.join import PricedJoin, plan_join
from linkwise.reproduce.experiment import Lab, Row
from linkwise.runtime.join_plan import JoinPlan
from linkwise.runtime.session import open_session
from linkwise.runtime.sort_plan import SortPlan, Strategy

_REPETITIONS = 5
_ROW_BYTES = 4  # bytes of a row number


@dataclass(frozen=True)
class Way:
    """One of the paper's joins: its path, and how both sides are sorted."""

    called: str
    path: Literal["sorted", "pairwise", "hybrid_radix"] = "sorted"
    strategy: Strategy = "het"

    @property
    def wants(self) -> Literal["ranges", "count"]:
        """The hybrid radix join counts pairs; the others find ranges of rows (§3.3.3)."""
        return "count" if self.path == "hybrid_radix" else "ranges"


MERGE = Way("merge", strategy="p2p_merge")
RADIX = Way("radix", strategy="radix")
PAIRWISE = Way("Rui et al.'s sort-merge", "pairwise")
HYBRID_RADIX = Way("Rui et al.'s hybrid radix", "hybrid_radix")


@dataclass(frozen=True)
class Joined:
    """What a join took, without writing rows, and its phases."""

    seconds: float
    phases: dict[str, float]


def join_of(lab: Lab, machine: Machine, way: Way, gpus: int, workload: Workload, chunk_bytes: int) -> Joined:
    """A join on the first GPUs of a machine, with chunks of ``chunk_bytes`` of tuples per GPU (§3.1.3)."""
    asked = lab.scaled(workload)
    best = _priced(machine, way, gpus, asked, chunk_bytes, _ROW_BYTES if lab.measures else 0)
    if not lab.measures:
        phases = {name: seconds for name, seconds in best.phases.items() if name != "materialise"}
        return Joined(best.seconds - best.phases.get("materialise", 0.0), phases)
    case = Case(way.called, way.wants, way.path, merges_runs=True, strategy=way.strategy, searches_each_key=True)
    with open_session("local") as runtime:
        _, device, phases_of_each = timed_case(runtime, best, _relations(asked), case, _REPETITIONS)
        runtime.trim()
    seconds = statistics.median(device)
    return Joined(seconds, phases_of_each[device.index(min(device, key=lambda each: abs(each - seconds)))])


def _priced(machine: Machine, way: Way, gpus: int, workload: Workload, chunk_bytes: int, row_bytes: int) -> PricedJoin:
    chunk = chunk_bytes // workload.tuple_bytes
    tuples = max(workload.rows)
    # §3.1.3: one chunkset is copied in while another is copied out. Within a chunkset, §3.1.2 sorts buckets while
    # others are copied out; merging overlaps with nothing.
    of_radix: dict[str, Any] = {"splitting": "buckets", "streamed": False} if way.strategy == "radix" else {}
    of_runs: dict[str, Any] = {"merge_on_gpus": False} if way.strategy != "het" else {}
    sort = SortPlan(
        strategy=way.strategy, gpus=tuple(range(gpus)), paths=(),
        chunkset_records=chunk * gpus if chunk * gpus < tuples else 0, **of_radix, **of_runs,
    )  # fmt: skip
    of_path: dict[str, Any] = {"merges_runs": True, "searches_each_key": True} if way.path == "sorted" else {}
    plan = JoinPlan(path=way.path, sort=sort, **of_path)

    def price(plan: JoinPlan) -> PricedJoin:
        return plan_join(
            *workload.rows, workload.dtype.name,
            value_bytes=row_bytes or workload.dtype.itemsize,
            wants_ranges=way.wants == "ranges", matches=workload.expected_keys, machine=machine,
            verify=False, plan=plan,
        ).best  # fmt: skip

    try:
        return price(plan)
    except OutOfMemoryError:  # the paper's chunks do not fit
        return price(plan.replace(sort=sort.replace(chunkset_records=None)))


@lru_cache(maxsize=1)
def _relations(workload: Workload) -> Relations:
    return Relations(workload, wants_rows=False)


def joins_on_cores(lab: Lab, workload: Workload, what: str, ours: float) -> list[Row]:
    """Joins on the cores, relative to the GPUs; only where the GPUs are measured."""
    if not lab.measures:
        return []
    return [
        Row(f"{what}: {row.case}", "×", row.seconds / ours) for row in on_cores(_relations(lab.scaled(workload)))
    ]  # fmt: skip
