"""Keys in host memory to the core and back: on the runtime of a machine, or on the cores of this one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

from linkwise import _core
from linkwise._core import OutOfMemoryError, UsageError
from linkwise._typing import Array
from linkwise.columns.key_types import key_type_of
from linkwise.exceptions import FallbackWarning
from linkwise.planning.sort import choose_plan
from linkwise.runtime.host_memory import uninitialised
from linkwise.runtime.request import Request, memory_limit_of, parse_bytes
from linkwise.runtime.session import open_session, run_interruptibly
from linkwise.sorting.report import SortReport

_LEAST_ROUND = 1 << 16  # rows; a GPU that has no room even for them has none


def sort_keys(
    keys: Array,
    request: Request,
    *,
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
    workload.pageable = not _core.is_pinned(keys)
    workload.pageable_out = out_keys is None or not _core.is_pinned(out_keys)
    workload.verify = request.verify
    rows = uninitialised(len(keys), f"u{row_number_bytes}") if row_number_bytes else None
    row_size = row_bytes if row_bytes is not None else keys.itemsize
    if request.strategy == "cpu" and request.machine in ("auto", "local"):
        return rows, _sort_on_cpu(keys, workload, request, out_keys, rows, row_size)
    with open_session(request.machine) as runtime:
        plan, described = choose_plan(runtime, workload, request), runtime.machine
        limit = memory_limit_of(request, described)
        expected = _expected_operations(runtime, workload, plan, request)

        def show(progress: _core.Progress) -> None:
            if request.on_progress is not None:
                request.on_progress(min(progress.finished / expected, 1.0))

        options = _core.SortOptions(request.descending, request.verify)

        def work() -> _core.SortReport:
            return _core.sort_host(
                runtime, plan, workload.key_type, keys, None, out_keys, rows, row_number_bytes, options
            )

        report = _with_ever_less_memory(runtime, plan, len(keys), lambda: run_interruptibly(runtime, work, show))
        return rows, SortReport.of_core(
            report,
            runtime,
            plan,
            rows=len(keys),
            row_bytes=row_size,
            plan_text=str(plan),
            wall_seconds=time.perf_counter() - began,
            predict=lambda: _core.estimate_sort(described, workload, plan, limit),
        )


def _with_ever_less_memory(
    runtime: _core.Runtime, plan: _core.SortPlan, count: int, work: Callable[[], _core.SortReport]
) -> _core.SortReport:
    """Work again in smaller rounds where a GPU could not give what it had said was free; the input is as it was."""
    while True:
        try:
            return work()
        except OutOfMemoryError as error:
            rounds = plan.chunkset_records or count
            if rounds <= _LEAST_ROUND or plan.strategy == _core.SortStrategy.cpu:
                raise
            plan.chunkset_records = max(rounds // 2, _LEAST_ROUND)
            warnings.warn(f"{error}: sorting in rounds of {plan.chunkset_records} rows", FallbackWarning, stacklevel=4)
            runtime.trim()


def _sort_on_cpu(
    keys: Array,
    workload: _core.SortWorkload,
    request: Request,
    out_keys: Array | None,
    rows: Array | None,
    row_bytes: int,
) -> SortReport:
    """Really on the cores of this machine: nothing is simulated, whether there are GPUs or not."""
    if request.gpus != "auto":
        raise UsageError("the cpu strategy uses no GPUs; leave gpus at 'auto'")
    parse_bytes(request.memory_limit, 1)  # says what is wrong with it
    began = time.perf_counter()
    options = _core.SortOptions(request.descending, request.verify)
    _core.sort_on_cpu(workload.key_type, keys, None, out_keys, rows, workload.value_bytes, options)
    seconds = time.perf_counter() - began
    machine = _core.Machine()
    machine.name = "cpu"
    return SortReport(
        rows=len(keys),
        bytes=len(keys) * row_bytes,
        machine="cpu",
        simulated=False,
        gpus=[],
        strategy="cpu",
        plan="cpu, radix sort",
        seconds=seconds,
        phases={"sort": seconds},
        wall_seconds=seconds,
        verified=request.verify,
        machine_description=machine,
        timeline=[],
    )


def _expected_operations(
    runtime: _core.Runtime, workload: _core.SortWorkload, plan: _core.SortPlan, request: Request
) -> int:
    if request.on_progress is None or workload.count == 0:
        return 1
    limit = memory_limit_of(request, runtime.machine)
    return max(1, len(_core.estimate_sort(runtime.machine, workload, plan, limit).timeline))


def row_number_bytes(rows: int) -> int:
    """Of the narrowest type that numbers so many rows."""
    return 4 if rows < 1 << 32 else 8
