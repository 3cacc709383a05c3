"""Sorting NumPy arrays and Arrow tables."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from linkwise import _core
from linkwise._core import UsageError
from linkwise.gpu_arrays import GpuSort, is_list_of_arrays
from linkwise.keys import array_of_column, key_type_of, plain_array
from linkwise.planning import Gpus, MachineLike, Progress, Request, choose_plan, parse_bytes
from linkwise.session import open_session, run_interruptibly

Array = npt.NDArray[Any]
Values = TypeVar("Values")  # a NumPy array or a pyarrow.Table


@dataclass(frozen=True)
class SortReport:
    """What a sort did, and how long each part took.

    ``seconds`` and ``phases`` come from the machine's clock: CUDA events, or the simulated clock where ``simulated``.
    ``wall_seconds`` is what the caller waited.
    """

    rows: int
    bytes: int
    machine: str
    simulated: bool
    gpus: list[int]
    strategy: str
    plan: str
    seconds: float
    phases: dict[str, float]
    wall_seconds: float
    verified: bool
    machine_description: _core.Machine = field(repr=False)
    timeline: list[_core.TimelineEntry] = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, as ``linkwise sort --json`` prints it."""
        return {
            "rows": self.rows,
            "bytes": self.bytes,
            "machine": self.machine,
            "simulated": self.simulated,
            "gpus": self.gpus,
            "strategy": self.strategy,
            "plan": self.plan,
            "seconds": {"end_to_end": self.seconds, "wall": self.wall_seconds, "phases": self.phases},
            "verified": self.verified,
        }


def _sort_keys(
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
    rows = np.empty(len(keys), f"u{row_number_bytes}") if row_number_bytes else None
    row_size = row_bytes if row_bytes is not None else keys.itemsize
    if request.strategy == "cpu" and request.machine in ("auto", "local"):
        return rows, _sort_on_cpu(keys, workload, request, out_keys, rows, row_size)
    with open_session(request.machine) as runtime:
        plan = choose_plan(runtime, workload, request)
        expected = _expected_operations(runtime, workload, plan, request)

        def show(progress: _core.Progress) -> None:
            if request.on_progress is not None:
                request.on_progress(min(progress.finished / expected, 1.0))

        report = run_interruptibly(
            runtime,
            lambda: _core.sort_host(
                runtime,
                plan,
                workload.key_type,
                keys,
                None,
                out_keys,
                rows,
                row_number_bytes,
                _core.SortOptions(request.descending, request.verify),
            ),
            show,
        )
        machine, simulated = runtime.machine, runtime.simulated
    return rows, SortReport(
        rows=len(keys),
        bytes=len(keys) * row_size,
        machine=machine.name,
        simulated=simulated,
        gpus=list(plan.gpus),
        strategy=plan.strategy.name,
        plan=str(plan),
        seconds=report.seconds,
        phases={phase.phase: phase.seconds for phase in report.phases},
        wall_seconds=time.perf_counter() - began,
        verified=report.verified,
        machine_description=machine,
        timeline=report.timeline,
    )


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
    parse_bytes(request.memory_limit)
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
    limit = parse_bytes(request.memory_limit)
    return max(1, len(_core.estimate_sort(runtime.machine, workload, plan, limit).timeline))


def _row_number_bytes(rows: int) -> int:
    return 4 if rows < 1 << 32 else 8


def _sort_array(values: Array, request: Request, out: Array | None) -> tuple[Array, SortReport]:
    keys = plain_array(values)
    if out is None:
        out = np.empty_like(keys)
    elif out.dtype != keys.dtype or out.shape != keys.shape or not out.flags.c_contiguous:
        raise UsageError(f"out must be a contiguous array of {len(keys)} {keys.dtype}, like the input")
    elif np.shares_memory(out, keys):
        raise UsageError("out shares memory with the input, which is never changed; pass another array")
    elif not out.flags.writeable:
        raise UsageError("out is read-only")
    _, report = _sort_keys(keys, request, out_keys=out)
    return out, report


def _split_nulls(table: pa.Table, by: str) -> tuple[pa.ChunkedArray, Array | None, Array | None]:
    """The column without nulls, the rows that those come from, and the rows of the nulls; None for all and none."""
    if by not in table.column_names:
        raise UsageError(f"there is no column '{by}'; there are {', '.join(map(repr, table.column_names))}")
    column = table[by]
    if column.null_count == 0:
        return column, None, None
    is_null = column.is_null().to_numpy()
    return column.drop_null(), np.flatnonzero(~is_null), np.flatnonzero(is_null)


def _place_nulls(rows: Array, valid_rows: Array | None, null_rows: Array | None, nulls: str) -> Array:
    if valid_rows is None or null_rows is None:
        return rows
    parts = [valid_rows[rows], null_rows]
    return np.concatenate(parts if nulls == "last" else parts[::-1])


def _take(table: pa.Table, rows: Array, columns: list[str]) -> dict[str, pa.ChunkedArray | pa.Array]:
    indices = pa.array(rows)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # A column in one piece is gathered several times faster than one in many.
        taken = pool.map(lambda name: pc.take(table[name].combine_chunks(), indices), columns)
        return dict(zip(columns, taken, strict=True))


def _sort_table(table: pa.Table, by: str, request: Request, nulls: str) -> tuple[pa.Table, SortReport]:
    column, valid_rows, null_rows = _split_nulls(table, by)
    keys = array_of_column(column, by)
    sorted_keys = np.empty_like(keys)
    others = [name for name in table.column_names if name != by]
    width = _row_number_bytes(table.num_rows) if others else 0
    row_bytes = table.nbytes // max(table.num_rows, 1)
    rows, report = _sort_keys(keys, request, out_keys=sorted_keys, row_number_bytes=width, row_bytes=row_bytes)
    key_parts = [pa.array(sorted_keys, type=column.type)]
    if null_rows is not None:
        key_parts.insert(0 if nulls == "first" else 1, pa.nulls(len(null_rows), column.type))
    columns: dict[str, Any] = {by: pa.chunked_array(key_parts)}
    if rows is not None:
        columns |= _take(table, _place_nulls(rows, valid_rows, null_rows, nulls), others)
    report = replace(report, rows=table.num_rows)  # with those that have no key
    return pa.table([columns[name] for name in table.column_names], schema=table.schema), report


def _check_nulls(nulls: str) -> None:
    if nulls not in ("first", "last"):
        raise UsageError(f"nulls is 'first' or 'last', not {nulls!r}")


def sort_and_report(
    values: Values,
    *,
    by: str | None = None,
    descending: bool = False,
    nulls: str = "last",
    machine: MachineLike = "auto",
    gpus: Gpus = "auto",
    strategy: str = "auto",
    memory_limit: int | str | None = None,
    out: Array | None = None,
    verify: bool = True,
    payload: Sequence[Any] | None = None,
    donate: bool = False,
    on_progress: Progress | None = None,
) -> tuple[Values, SortReport]:
    """As ``sort``, and a report of what happened where and how long it took.

    ``on_progress`` is called now and then with the fraction that is done.
    """
    _check_nulls(nulls)
    request = Request(machine, gpus, strategy, memory_limit, descending, verify, on_progress)
    if is_list_of_arrays(values):
        result, fields = _sort_on_gpus(values, request, by, out, payload, donate=donate, with_report=True)
        return result, SortReport(**fields)
    if payload is not None or donate:
        raise UsageError("payload= and donate= are for lists of arrays on GPUs")
    if isinstance(values, pa.Table):
        if by is None:
            raise UsageError(f"by= must name a column: {', '.join(map(repr, values.column_names))}")
        if out is not None:
            raise UsageError("out= is for arrays; a table comes back as a new table")
        return _sort_table(values, by, request, nulls)
    if isinstance(values, np.ndarray):
        if by is not None:
            raise UsageError("by= is for tables; an array is sorted by its values")
        return cast(tuple[Values, SortReport], _sort_array(values, request, out))
    raise UsageError(f"cannot sort a {type(values).__name__}; NumPy arrays and PyArrow tables can be sorted")


def _sort_on_gpus(
    values: Any,
    request: Request,
    by: str | None,
    out: Array | None,
    payload: Sequence[Any] | None,
    *,
    donate: bool,
    with_report: bool,
) -> tuple[Any, Any]:
    if by is not None or out is not None:
        raise UsageError("by= is for tables and out= for arrays in host memory, not for lists of arrays on GPUs")
    return GpuSort(values, payload, request, donate=donate).run(with_report=with_report)


def sort(
    values: Values,
    *,
    by: str | None = None,
    descending: bool = False,
    nulls: Literal["first", "last"] = "last",
    machine: MachineLike = "auto",
    gpus: Gpus = "auto",
    strategy: str = "auto",
    memory_limit: int | str | None = None,
    out: Array | None = None,
    verify: bool = True,
    payload: Sequence[Any] | None = None,
    donate: bool = False,
) -> Values:
    """Sort a NumPy array, an Arrow table by one of its columns, or arrays that lie on the GPUs.

    Returns what came in, as a new object.

    The order is total: numbers by value, -0.0 before 0.0, NaN last of all; ``descending`` turns all of that round.
    Rows with equal keys keep their order. Nulls go to the end that ``nulls`` says, whatever the direction.

    Parameters
    ----------
    values
        A one-dimensional array of any integer or float type, or a ``pyarrow.Table``. Never changed. Or a list of
        arrays of torch, CuPy or another library with DLPack, one for each GPU: see ``docs/gpu-arrays.md``.
    by
        The column to sort a table by.
    machine
        ``"auto"``: this machine's GPUs, or the default virtual machine (with a ``NoGpuWarning``); ``"local"``: GPUs or
        an error; the name of a described machine or a ``.json`` file: simulated.
    gpus
        GPU numbers in the order in which they hold the result, or ``"auto"``: those that the plan finds fastest.
    strategy
        ``"radix"``, ``"p2p_merge"`` (2, 4, 8, … GPUs), ``"het"`` (merged on the CPU), ``"cpu"`` (no GPU
        at all; what small inputs take) or ``"auto"``.
    memory_limit
        What a GPU may use, in bytes or like ``"4GiB"``. What does not fit is sorted in rounds and merged on the host.
    out
        For arrays: where the result goes. Pinned memory (``linkwise.empty``) is filled at the speed of the links.
    verify
        Check order and checksum of the result on the GPUs.
    payload
        For lists of arrays on GPUs: as many arrays, of 4, 8 or 16 bytes an element, that follow their keys. Then two
        lists come back.
    donate
        For lists of arrays on GPUs: the input may be overwritten, which saves memory.

    Raises
    ------
    UsageError, OutOfMemoryError, DeviceError, CorruptDataError

    """
    if is_list_of_arrays(values):  # a report would wait until all is done
        request = Request(machine, gpus, strategy, memory_limit, descending, verify)
        sorted_arrays, _ = _sort_on_gpus(values, request, by, out, payload, donate=donate, with_report=False)
        return cast(Values, sorted_arrays)
    result, _ = sort_and_report(
        values,
        by=by,
        descending=descending,
        nulls=nulls,
        machine=machine,
        gpus=gpus,
        strategy=strategy,
        memory_limit=memory_limit,
        out=out,
        verify=verify,
        payload=payload,
        donate=donate,
    )
    return result


def sort_indices(
    values: Array | pa.Table,
    *,
    by: str | None = None,
    descending: bool = False,
    nulls: Literal["first", "last"] = "last",
    machine: MachineLike = "auto",
    gpus: Gpus = "auto",
    strategy: str = "auto",
    memory_limit: int | str | None = None,
    verify: bool = True,
) -> npt.NDArray[np.int64]:
    """The row numbers that would sort the values: ``values[sort_indices(values)]`` is sorted. Stable.

    Takes what ``sort`` takes and returns an int64 array.
    """
    _check_nulls(nulls)
    request = Request(machine, gpus, strategy, memory_limit, descending, verify)
    valid_rows = null_rows = None
    if isinstance(values, pa.Table):
        if by is None:
            raise UsageError(f"by= must name a column: {', '.join(map(repr, values.column_names))}")
        column, valid_rows, null_rows = _split_nulls(values, by)
        keys = array_of_column(column, by)
    elif isinstance(values, np.ndarray):
        keys = plain_array(values)
    else:
        raise UsageError(f"cannot sort a {type(values).__name__}; NumPy arrays and PyArrow tables can be sorted")
    rows, _ = _sort_keys(keys, request, out_keys=None, row_number_bytes=_row_number_bytes(len(keys)))
    assert rows is not None
    placed: Array = _place_nulls(rows, valid_rows, null_rows, nulls).astype(np.int64, copy=False)
    return placed


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> Array:
    """An uninitialised array in pinned memory, which GPUs read and write at the full speed of the links.

    Where CUDA cannot be used it is ordinary memory. It is given back when the last array that uses it goes.
    """
    kind = np.dtype(dtype)
    dimensions = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(length < 0 for length in dimensions):
        raise UsageError(f"a shape has no negative lengths: {dimensions}")
    count = int(np.prod(dimensions, dtype=np.int64))
    memory = cast(Array, _core.pinned_bytes(max(count * kind.itemsize, 1)))
    return memory[: count * kind.itemsize].view(kind).reshape(dimensions)
