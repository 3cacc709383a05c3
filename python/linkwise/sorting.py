"""Sorting arrays, tables, and lists of arrays on GPUs: the public calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkwise import _core
from linkwise._core import UsageError
from linkwise.gpu_arrays import GpuSort, is_list_of_arrays
from linkwise.host_sorting import Array, row_number_bytes, sort_keys
from linkwise.keys import array_of_column, keys_of_array, plain_array, times_of_keys
from linkwise.planning import Gpus, MachineLike, Progress, Request
from linkwise.sort_report import SortReport
from linkwise.tables import check_nulls, place_nulls, sort_table, split_nulls

Values = TypeVar("Values")  # a NumPy array or a pyarrow.Table


def _sort_array(values: Array, request: Request, out: Array | None) -> tuple[Array, SortReport]:
    plain = plain_array(values)
    if out is None:
        out = np.empty_like(plain)
    elif out.dtype != plain.dtype or out.shape != plain.shape or not out.flags.c_contiguous:
        raise UsageError(f"out must be a contiguous array of {len(plain)} {plain.dtype}, like the input")
    elif np.shares_memory(out, plain):
        raise UsageError("out shares memory with the input, which is never changed; pass another array")
    elif not out.flags.writeable:
        raise UsageError("out is read-only")
    keys = keys_of_array(plain)
    sorted_keys = out.view(keys.dtype)
    _, report = sort_keys(keys, request, out_keys=sorted_keys)
    if plain.dtype.kind in "mM":
        out[:] = times_of_keys(sorted_keys, plain.dtype)
    return out, report


def sort_values(
    values: Values,
    request: Request,
    *,
    by: str | None = None,
    nulls: str = "last",
    out: Array | None = None,
    payload: Sequence[Any] | None = None,
    donate: bool = False,
    with_report: bool = True,
) -> tuple[Values, SortReport | None]:
    """Sort whatever can be sorted. A report of arrays on GPUs waits until all is done, so it can be done without."""
    check_nulls(nulls)
    if is_list_of_arrays(values):
        if by is not None or out is not None:
            raise UsageError("by= is for tables and out= for arrays in host memory, not for lists of arrays on GPUs")
        on_gpus = GpuSort(cast(Sequence[Any], values), payload, request, donate=donate)
        return cast(tuple[Values, SortReport | None], on_gpus.run(with_report=with_report))
    if payload is not None or donate:
        raise UsageError("payload= and donate= are for lists of arrays on GPUs")
    if isinstance(values, pa.Table):
        if out is not None:
            raise UsageError("out= is for arrays; a table comes back as a new table")
        return sort_table(values, by, request, nulls)
    if isinstance(values, np.ndarray):
        if by is not None:
            raise UsageError("by= is for tables; an array is sorted by its values")
        return cast(tuple[Values, SortReport], _sort_array(values, request, out))
    raise _cannot_sort(values)


def _cannot_sort(values: object) -> UsageError:
    return UsageError(f"cannot sort a {type(values).__name__}; NumPy arrays and PyArrow tables can be sorted")


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
    request = Request(machine, gpus, strategy, memory_limit, descending, verify, on_progress)
    result, report = sort_values(values, request, by=by, nulls=nulls, out=out, payload=payload, donate=donate)
    assert report is not None
    return result, report


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

    The order is total: numbers and times by value, false before true, -0.0 before 0.0, NaN and NaT last of all;
    ``descending`` turns all of that round.
    Rows with equal keys keep their order. Nulls go to the end that ``nulls`` says, whatever the direction.

    Parameters
    ----------
    values
        A one-dimensional array of bool, any integer or float, datetime64 or timedelta64, or a ``pyarrow.Table``, whose
        key may be a bool, number, date, time, timestamp, duration, decimal of up to 18 digits, or a dictionary of
        these. Never changed. Or a list of
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
        What a GPU may use, in bytes or like ``"4GiB"``. What does not fit is sorted in rounds, whose runs are
        merged on the GPUs or the host.
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
    request = Request(machine, gpus, strategy, memory_limit, descending, verify)
    result, _ = sort_values(
        values, request, by=by, nulls=nulls, out=out, payload=payload, donate=donate, with_report=False
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
    check_nulls(nulls)
    request = Request(machine, gpus, strategy, memory_limit, descending, verify)
    valid_rows = null_rows = None
    if isinstance(values, pa.Table):
        column, valid_rows, null_rows = split_nulls(values, by)
        keys = array_of_column(column, str(by))
    elif isinstance(values, np.ndarray):
        keys = keys_of_array(plain_array(values))
    else:
        raise _cannot_sort(values)
    rows, _ = sort_keys(keys, request, out_keys=None, row_number_bytes=row_number_bytes(len(keys)))
    assert rows is not None
    placed: Array = place_nulls(rows, valid_rows, null_rows, nulls).astype(np.int64, copy=False)
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
