"""Baselines for joins: device-resident keys, sorted or hashed, joins on the cores, and DuckDB."""

from __future__ import annotations

import importlib
import statistics
import time
from dataclasses import dataclass
from importlib.util import find_spec

from linkwise import _core
from linkwise._core import CorruptDataError
from linkwise.bench.join_workload import Relations
from linkwise.joining.api import join_count, join_indices
from linkwise.runtime.join_plan import JoinPlan
from linkwise.runtime.sort_plan import SortPlan


@dataclass(frozen=True)
class DeviceJoin:
    """A join of device-resident keys on some number of GPUs."""

    way: str
    gpus: int
    wall_seconds: list[float]
    seconds: float
    """The median."""
    spread: float
    phases: dict[str, float]
    efficiency: float
    """Relative to linear scaling from one GPU."""


@dataclass(frozen=True)
class Baseline:
    """What another engine took."""

    case: str
    wall_seconds: list[float]
    seconds: float
    """The minimum."""


WAYS = {"sorted": "sort_merge", "hashed": "hash", "chosen": "auto"}
"""The ways of joining device-resident keys, by their names in the report."""


def of_keys_on_gpus(runtime: _core.Runtime, relations: Relations, repetitions: int) -> list[DeviceJoin]:
    """Count joins of keys in equal parts on 1, 2, 4, … GPUs; nothing without CuPy, which puts them there."""
    if find_spec("cupy") is None:
        return []
    cupy = importlib.import_module("cupy")

    rows: list[DeviceJoin] = []
    for gpus in (g for g in (1, 2, 4, 8) if g <= runtime.machine.num_gpus):
        plan = JoinPlan(sort=SortPlan(gpus=tuple(range(gpus)))).to_core()
        sides = []
        for keys in (relations.r_keys, relations.s_keys):
            parts = []
            for gpu in range(gpus):
                with cupy.cuda.Device(gpu):
                    parts.append(cupy.asarray(keys[len(keys) * gpu // gpus : len(keys) * (gpu + 1) // gpus]))
                    cupy.cuda.Device(gpu).synchronize()
            sides.append(_core.ArraysOfSide(parts, [], [None] * gpus))
        for way, name in WAYS.items():
            wall = []
            for repetition in range(repetitions + 1):
                began = time.perf_counter()
                found = _core.join_device_totals(runtime, plan, sides[0], sides[1], verify=False, way=name)
                if repetition > 0:
                    wall.append(time.perf_counter() - began)
                relations.check_totals(found, sums=False)
            report = _core.report_of(runtime, _core.SortOptions())
            seconds = statistics.median(wall)
            alone = next((row.seconds for row in rows if row.way == way), seconds)
            phases = {phase.phase: phase.seconds for phase in report.phases}
            spread = (max(wall) - min(wall)) / seconds
            rows.append(DeviceJoin(way, gpus, wall, seconds, spread, phases, alone / seconds / gpus))
        del sides, parts
        for gpu in range(gpus):
            with cupy.cuda.Device(gpu):
                cupy.get_default_memory_pool().free_all_blocks()
        runtime.trim()
    return rows


def by_duckdb(relations: Relations) -> list[Baseline]:
    """Count and sums by DuckDB on all cores, if it is installed."""
    if find_spec("duckdb") is None:
        return []
    import duckdb  # noqa: PLC0415 - only where it is installed
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
    return [Baseline(f"DuckDB {duckdb.__version__}, count and sums", wall, min(wall))]


def on_cores(relations: Relations) -> list[Baseline]:
    """Joins on the cores of this machine, as by Balkesen et al.: by radix partitions and hash tables, and by sorting.

    Theirs is AVX code (join25 §4.1.4); these are our own joins, which a user gets without a GPU.
    """
    keys = relations.r_keys, relations.s_keys

    def by_hash() -> int:
        return join_count(*keys, strategy="cpu")

    def by_sorting() -> int:
        return len(join_indices(*keys, strategy="cpu", order="key")[0])

    rows = []
    for case, join in (("radix hash join on the cores, counted", by_hash),
                       ("sort-merge join on the cores, row numbers", by_sorting)):  # fmt: skip
        wall = []
        for _ in range(3):
            began = time.perf_counter()
            found = join()
            wall.append(time.perf_counter() - began)
            if found != relations.expected.matches:
                raise CorruptDataError("a join on the cores is wrong: do not trust this machine")
        rows.append(Baseline(case, wall, min(wall)))
    return rows
