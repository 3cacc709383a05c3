"""Sorting keys in host memory with the core: on a machine's GPUs, real or simulated, or on the cores of this one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from linkwise import _core
from linkwise._core import OutOfMemoryError, UsageError
from linkwise._typing import Array
from linkwise.columns.key_types import key_type_of
from linkwise.exceptions import FallbackWarning, warn_caller
from linkwise.planning.constraints import pinned_sort, pins_records
from linkwise.planning.sort import choose_plan
from linkwise.runtime.arguments import parse_bytes
from linkwise.runtime.execution import ExecutionOptions, memory_limit_of
from linkwise.runtime.gpu_start import is_left_to_cores
from linkwise.runtime.host_memory import uninitialised
from linkwise.runtime.session import open_session, run_interruptibly
from linkwise.runtime.sort_plan import SortPlan
from linkwise.sorting.bucket_sort import sort_in_buckets
from linkwise.sorting.report import SortReport, phases_of

_LEAST_ROUND = 1 << 16  # rows; if not even these fit, the out-of-memory error is raised


def sort_keys(
    keys: Array,
    execution: ExecutionOptions,
    *,
    descending: bool = False,
    out_keys: Array | None,
    row_number_bytes: int = 0,
    row_bytes: int | None = None,
) -> tuple[Array | None, SortReport]:
    """Sort the keys into ``out_keys``; returns the row numbers that follow them, if asked for."""
    began = time.perf_counter()
    workload = _core.SortWorkload()
    workload.key_type = key_type_of(keys.dtype)
    workload.count = len(keys)
    workload.value_bytes = row_number_bytes
    workload.keys_returned = out_keys is not None
    workload.verify = execution.verify
    rows = uninitialised(len(keys), f"u{row_number_bytes}") if row_number_bytes else None
    row_size = row_bytes if row_bytes is not None else keys.itemsize
    options = _core.SortOptions(descending, execution.verify)
    if is_left_to_cores(execution, len(keys) * (keys.itemsize + row_number_bytes)) or execution.on_cores:
        return rows, _sort_on_cpu(keys, workload, execution, options, out_keys, rows, row_size)
    with open_session(execution.machine) as runtime:
        workload.pageable = not _core.is_pinned(keys)
        workload.pageable_out = out_keys is None or not _core.is_pinned(out_keys)
        plan, described = choose_plan(runtime, workload, execution), runtime.machine
        limit = memory_limit_of(execution, described)
        expected = _expected_operations(runtime, workload, plan, execution)

        def show(progress: _core.Progress) -> None:
            if execution.on_progress is not None:
                execution.on_progress(min(progress.finished / expected, 1.0))

        def work() -> _core.SortReport:
            return _core.sort_host(
                runtime, plan, workload.key_type, keys, None, out_keys, rows, row_number_bytes, options
            )

        report = _with_ever_less_memory(
            runtime, plan, len(keys), lambda: run_interruptibly(runtime, work, show), pinned=pins_records(execution)
        )
        return rows, SortReport.of_core(
            report,
            runtime,
            plan,
            rows=len(keys),
            row_bytes=row_size,
            wall_seconds=time.perf_counter() - began,
            predict=lambda: phases_of(_core.estimate_sort(described, workload, plan, limit)),
        )


def _with_ever_less_memory(
    runtime: _core.Runtime,
    plan: _core.SortPlan,
    count: int,
    work: Callable[[], _core.SortReport],
    *,
    pinned: bool,
) -> _core.SortReport:
    """After an out-of-memory error, retry with half as many records at once, unless the caller has said how many."""
    while True:
        try:
            return work()
        except OutOfMemoryError as error:
            rounds = plan.chunkset_records or count
            if pinned or rounds <= _LEAST_ROUND or plan.strategy == _core.SortStrategy.cpu:
                raise
            plan.chunkset_records = max(rounds // 2, _LEAST_ROUND)
            warn_caller(f"{error}: sorting in rounds of {plan.chunkset_records} rows", FallbackWarning)
            runtime.trim()


def _sort_on_cpu(
    keys: Array,
    workload: _core.SortWorkload,
    execution: ExecutionOptions,
    options: _core.SortOptions,
    out_keys: Array | None,
    rows: Array | None,
    row_bytes: int,
) -> SortReport:
    """Sort on the cores of this machine; never simulated, whether there are GPUs or not."""
    if execution.gpus != "auto":
        raise UsageError("the cpu strategy uses no GPUs; leave gpus at 'auto'")
    parse_bytes(execution.memory_limit, 1)  # raises if it is invalid
    pinned = pinned_sort(execution) or SortPlan()
    pinned.check_for("host")
    algorithm: str | None = pinned.cpu_algorithm
    began = time.perf_counter()
    keys_alone = out_keys if rows is None else None
    if algorithm or keys_alone is None or not sort_in_buckets(workload.key_type, keys, keys_alone, options):
        algorithm = algorithm or "radix"
        _core.sort_on_cpu(
            workload.key_type, keys, None, out_keys, rows, workload.value_bytes, options,
            getattr(_core.CpuAlgorithm, algorithm),
        )  # fmt: skip
    seconds = time.perf_counter() - began
    return report_of_cores(len(keys), row_bytes, {"sort": seconds}, algorithm, verified=execution.verify)


def report_of_cores(
    rows: int, row_bytes: int, phases: dict[str, float], algorithm: Any = None, *, verified: bool
) -> SortReport:
    """The report of a sort on the cores of this machine."""
    machine = _core.Machine()
    machine.name = "cpu"
    seconds = sum(phases.values())
    return SortReport(
        rows=rows,
        bytes=rows * row_bytes,
        machine="cpu",
        simulated=False,
        gpus=[],
        strategy="cpu",
        plan=SortPlan(strategy="cpu", gpus=(), cpu_algorithm=algorithm),
        seconds=seconds,
        phases=phases,
        wall_seconds=seconds,
        verified=verified,
        machine_description=machine,
        timeline=[],
    )


def _expected_operations(
    runtime: _core.Runtime, workload: _core.SortWorkload, plan: _core.SortPlan, execution: ExecutionOptions
) -> int:
    if execution.on_progress is None or workload.count == 0:
        return 1
    limit = memory_limit_of(execution, runtime.machine)
    return max(1, len(_core.estimate_sort(runtime.machine, workload, plan, limit).timeline))


def row_number_bytes(rows: int) -> int:
    """Bytes (4 or 8) of the narrowest type that can number so many rows."""
    return 4 if rows < 1 << 32 else 8
