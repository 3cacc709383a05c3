"""TPC-H: whole queries from files, and the joins of Q3 and Q5 as join25 (§4.6) runs them, on filtered inputs.

The data come from tpchgen-cli; group-by and order-by complete the queries, whose results are compared with DuckDB's.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linkwise._core import CorruptDataError, Machine, UsageError
from linkwise.bench.duckdb_baseline import Baseline, Tables, interruptible, run_duckdb
from linkwise.bench.results import Results, commit, cores, now
from linkwise.bench.tpch_files import TABLES, FromFiles, run_from_files
from linkwise.bench.tpch_joins import Joiner
from linkwise.bench.tpch_queries import QUERIES, TABLE_COLUMNS, Query
from linkwise.columns.gather import one_array
from linkwise.machines.catalog import load_machine
from linkwise.planning.join import plan_join
from linkwise.runtime.execution import ExecutionOptions, Gpus
from linkwise.runtime.host_memory import empty

_SORTING_PHASES = ("encode", "sample", "HtoD", "partition", "exchange", "sort", "borrow", "verify", "verify input")
"""Phases of a predicted join that count as sorting. Of the others, ``probe`` finds matches, and the rest make rows."""

_SAMPLED = 0.05  # the scale at which rows are counted, to be extrapolated in simulations
_MOST_SCALE = 10_000.0


@contextmanager
def _generated(scale: float, folder: Path | None) -> Iterator[Path]:
    """A folder with the tables, which are generated unless they exist."""
    if folder is not None and all((folder / f"{name}.parquet").exists() for name in TABLES):
        yield folder
        return
    beside = Path(sys.executable).parent / "tpchgen-cli"
    generator = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if generator is None:
        raise UsageError("TPC-H data are made by tpchgen-cli, which is not here; run: pip install tpchgen-cli")
    with tempfile.TemporaryDirectory(prefix="linkwise-tpch-") as temporary:
        target = folder or Path(temporary)
        done = subprocess.run(
            [generator, "parquet", "-s", f"{scale:g}", f"--tables={','.join(TABLES)}", f"--output-dir={target}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise UsageError(f"tpchgen-cli failed: {' '.join(done.stderr.split())}")
        yield target


def _read(folder: Path) -> Tables:
    def plain(table: pa.Table) -> pa.Table:
        # PyArrow does not compare string views: cast them to strings. A contiguous column is handed on in one call,
        # but one in chunks, one per row group of the file, takes a call for each.
        fields = [f.with_type(pa.string()) if pa.types.is_string_view(f.type) else f for f in table.schema]
        return table.cast(pa.schema(fields)).combine_chunks()

    return {
        name: plain(pq.read_table(folder / f"{name}.parquet", columns=cols)) for name, cols in TABLE_COLUMNS.items()
    }


def _page_locked(table: pa.Table) -> pa.Table:
    """The same table, with columns of fixed width and without nulls in pinned memory."""
    columns = []
    for column in table.columns:
        whole = one_array(column) if column.null_count == 0 and not pa.types.is_string(column.type) else None
        if whole is None or whole.buffers()[1] is None or whole.type.bit_width % 8:
            columns.append(column)
            continue
        width = whole.type.bit_width // 8
        values = np.frombuffer(whole.buffers()[1], np.uint8)[whole.offset * width :][: len(whole) * width]
        pinned = empty(len(values), np.uint8)
        pinned[:] = values
        columns.append(pa.Array.from_buffers(whole.type, len(whole), [None, pa.py_buffer(pinned)]))
    return pa.table(columns, table.column_names)


def _check(query: Query, joined: pa.Table, result: pa.Table, expected: Baseline) -> None:
    found = [tuple(row.values()) for row in result.to_pylist()]
    same = [tuple(map(str, row)) for row in found] == [tuple(map(str, row)) for row in expected.rows]
    if not same or joined.num_rows != expected.joined_rows:
        raise CorruptDataError(f"{query.name} has another result than DuckDB finds: one of the two is wrong")


@dataclass(frozen=True, kw_only=True)
class TimedQuery:
    """The times of a query's joins, and of the whole query."""

    query: str
    seconds: dict[str, float]
    """``joins``, and, where it was run, ``whole``: medians."""
    shares: dict[str, float]
    """Seconds of joining and materialising and, where they are predicted, of sorting before."""
    joins: list[tuple[int, int, int]]
    """Rows of the left side, the right one and the result of each."""
    join_seconds: list[float] | None = None
    rows: int | None = None
    checked: bool | None = None
    duckdb_seconds: list[float] | None = None
    duckdb_join_seconds: list[float] | None = None


@dataclass(frozen=True, kw_only=True)
class TpchResults(Results):
    """The queries at a scale."""

    cpu: str
    scale: float
    queries: list[TimedQuery]
    from_files: list[FromFiles] = field(default_factory=list)
    """Only on a real machine; these run on its cores, whatever does the joins of the other queries."""


def bench_tpch(
    scale: float = 1.0, *, machine: str = "auto", gpus: Gpus = "auto", data: Path | None = None, repetitions: int = 5
) -> TpchResults:
    """Run the joins of Q3 and Q5, and whole queries, and compare with DuckDB where it is installed.

    Q3, Q5, Q9, Q18 and Q21 run from Parquet files to their results, with nothing prepared. For the joins alone, both
    sides have the filtered tables in memory (DuckDB in its own tables, we in pinned memory), and the result is
    written to memory.

    Parameters
    ----------
    scale
        The scale factor; 1 is about a gigabyte.
    machine, gpus
        As for ``join``. On a described machine, only the joins are simulated, at any scale.
    data
        A folder with the tables as Parquet files, which are generated there if missing; by default a temporary one.
    repetitions
        Timed runs of each query, after an uncounted one.

    Raises
    ------
    UsageError, DeviceError, OutOfMemoryError, CorruptDataError

    """
    if not 0 < scale <= _MOST_SCALE:
        raise UsageError(f"the scale factor is {scale:g}; it is more than 0, and {_MOST_SCALE:g} at most")
    if repetitions < 1:
        raise UsageError(f"there is at least one repetition, not {repetitions}")
    described = machine not in ("auto", "local", "cpu")

    def results(queries: list[TimedQuery], from_files: Sequence[FromFiles] = ()) -> TpchResults:
        return TpchResults(
            date=now(), commit=commit(), cpu=cores(), scale=scale, machine=machine, simulated=described,
            queries=queries, from_files=list(from_files),
        )  # fmt: skip

    if described:
        return results(_simulated(load_machine(machine), scale, gpus))
    where = "auto" if machine == "cpu" else machine
    execution = ExecutionOptions(machine=where, gpus=gpus, strategy="cpu" if machine == "cpu" else "auto")
    with _generated(scale, data) as folder, interruptible():
        from_files = run_from_files(folder, repetitions)
        tables = _read(folder)
        baseline = run_duckdb(QUERIES, tables, repetitions)
        queries = [_run(query, tables, execution, baseline.get(query.name), repetitions) for query in QUERIES]
        return results(queries, from_files)


def _run(
    query: Query, tables: Tables, execution: ExecutionOptions, baseline: Baseline | None, repetitions: int
) -> TimedQuery:
    began = time.perf_counter()
    filtered = query.filtered(tables)
    filtering = time.perf_counter() - began
    filtered = {name: _page_locked(table) for name, table in filtered.items()}
    runs = []
    for repetition in range(repetitions + 1):
        joiner = Joiner(execution)
        began = time.perf_counter()
        joined = query.joins(filtered, joiner)
        joining = time.perf_counter() - began
        result = query.rest(joined)
        if repetition > 0:  # the first one loads kernels and allocates memory
            runs.append((joining, filtering + time.perf_counter() - began, joiner.shares))
    runs.sort(key=lambda run: run[0])
    joins, whole, shares = runs[len(runs) // 2]
    if baseline is not None:
        _check(query, joined, result, baseline)
    return TimedQuery(
        query=query.name,
        seconds={"joins": joins, "whole": whole},
        shares={"join": shares.join, "materialise": shares.materialise},
        joins=shares.joins,
        join_seconds=[run[0] for run in runs],
        rows=joined.num_rows,
        checked=baseline is not None,
        duckdb_seconds=None if baseline is None else baseline.seconds,
        duckdb_join_seconds=None if baseline is None else baseline.join_seconds,
    )


def joins_of_queries() -> dict[str, list[tuple[int, int, int]]]:
    """Rows of the left side, the right one and the result of each join, by query, at a scale factor of 1."""
    with _generated(_SAMPLED, None) as folder:
        tables = _read(folder)
    found = {}
    for query in QUERIES:
        joiner = Joiner(ExecutionOptions(strategy="cpu"))
        query.joins(query.filtered(tables), joiner)
        found[query.name] = [tuple(int(rows / _SAMPLED) for rows in sizes) for sizes in joiner.shares.joins]
    return found  # type: ignore[return-value]


def shares_of_phases(
    machine: Machine, joins: list[tuple[int, int, int]], scale: float, gpus: Gpus = "auto", path: str = "auto"
) -> tuple[float, dict[str, float]]:
    """Seconds that joins would take at a scale factor, in all and by phase; ``joins`` has the rows at 1."""
    seconds, phases = 0.0, dict.fromkeys(("sort", "join", "materialise"), 0.0)
    for sizes in joins:
        left, right, matches = (max(int(rows * scale), 1) for rows in sizes)
        best = plan_join(
            left, right, "i64", value_bytes=8, wants_rows=True, matches=matches, path=path, machine=machine, gpus=gpus
        ).best
        seconds += best.seconds
        # On the sorted path, DtoH before the join itself copies the sorted relations to host memory: it counts as
        # sorting.
        sorting = (*_SORTING_PHASES, "DtoH") if best.path == "sorted" else _SORTING_PHASES
        for phase, taken in best.phases.items():
            share = "sort" if phase in sorting else "join" if phase in ("probe", "join") else "materialise"
            phases[share] += taken
    return seconds, phases


def _simulated(machine: Machine, scale: float, gpus: Gpus) -> list[TimedQuery]:
    """Predicted times of the joins, with rows extrapolated from a small scale."""
    found = []
    for query, joins in joins_of_queries().items():
        seconds, phases = shares_of_phases(machine, joins, scale, gpus)
        sizes = [(max(int(a * scale), 1), max(int(b * scale), 1), max(int(c * scale), 1)) for a, b, c in joins]
        found.append(TimedQuery(query=query, seconds={"joins": seconds}, shares=phases, joins=sizes))
    return found
