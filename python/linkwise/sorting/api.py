"""The public calls for sorting: arrays, tables and other containers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar, Unpack, cast

import numpy as np

from linkwise._arrow import pa
from linkwise._core import UsageError
from linkwise._typing import Array
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.row_checksum import RowChecksum, check_same_rows
from linkwise.columns.sort_keys import EVERYTHING, By, Descending, Nulls, Selection, SortKey, check_nulls, one_direction
from linkwise.interop.containers import FRAMES, hold, library_of
from linkwise.interop.device_arrays import list_of_arrays, single_array
from linkwise.interop.gpu_frames import columns_of_table, hold_keys
from linkwise.runtime.execution import ExecutionOptions, Progress, SortExecution, nothing_is_said, takes_execution
from linkwise.runtime.gpu_start import gpus_may_sort
from linkwise.runtime.sort_plan import SortPlan
from linkwise.sorting.arrays import order_of_array, sort_array
from linkwise.sorting.check import check_in_order, check_rows_in_order
from linkwise.sorting.device.device_sort import GpuSort
from linkwise.sorting.device.device_tables import SortedColumns, order_of_columns
from linkwise.sorting.device.resident_sort import may_be_resident, resident_sort
from linkwise.sorting.few_numbers import sorted_few
from linkwise.sorting.report import SortReport
from linkwise.sorting.tables import order_of_table, sort_table

_MANY_ROWS = 1 << 20  # whose checksum is worth a thread

Values = TypeVar("Values")


def sort_values(
    values: Values,
    options: ExecutionOptions,
    *,
    by: By = None,
    descending: Descending = False,
    nulls: Nulls = "last",
    out: Array | None = None,
    payload: Sequence[Any] | None = None,
    donate: bool = False,
    with_report: bool = True,
    selection: Selection = EVERYTHING,
) -> tuple[Values, SortReport | None]:
    """Sort anything that can be sorted. For arrays on GPUs, a report waits until all is done, so it is optional."""
    others = (out, payload, options.plan)
    is_plain = not donate and selection == EVERYTHING and all(argument is None for argument in others)
    of_cudf = hold_keys(values, by) if is_plain and not with_report else None
    if of_cudf is not None:
        held, on_gpu = of_cudf
        (order,) = order_of_columns(on_gpu, options, held.keys(by, descending, nulls))
        return cast(Any, held.take)(order), None
    columns, arrays = _on_gpus(values)
    if not selection.is_everything and (columns is not None or arrays is not None):
        raise UsageError("top_k and unique are for data in host memory, not for arrays and tables on GPUs")
    if columns is not None:
        if not is_plain:
            raise UsageError("of a dictionary of columns on GPUs, sort takes by=, descending= and nulls= alone")
        return cast(Values, SortedColumns(columns, options, by, descending, nulls).columns()), None
    if arrays is not None:
        if by is not None or out is not None:
            raise UsageError("by= and out= are for data in host memory, not for arrays on GPUs")
        check_nulls(nulls)
        direction = one_direction(descending)
        return _sort_on_gpus(values, arrays, payload, options, direction, donate=donate, with_report=with_report)
    if payload is not None or donate:
        raise UsageError("payload= and donate= are for arrays on GPUs")
    held = hold(values, by)
    keys = held.keys(by, descending, nulls, by_default_all=selection.unique)
    if isinstance(held.contents, np.ndarray):
        array, report = sort_array(held.contents, options, out, selection, descending=keys[0].descending)
        return cast(Values, array) if out is not None else held.give_back(array), report
    if out is not None:
        raise UsageError("out= is for arrays of numbers; everything else comes back as a new object")
    if held.take is not None:
        rows, report = order_of_table(held.contents, keys, options, selection)
        if options.verify_all and selection.is_everything:
            check_rows_in_order(held.contents, keys, rows)
        return held.take(rows.astype(np.int64, copy=False)), report
    table, of_table = _sort_table(held.contents, keys, options, selection, with_report=with_report)
    if options.verify_all:
        check_in_order(table, keys)
    return held.give_back(table), of_table


def _on_gpus(values: Any) -> tuple[Mapping[str, Any] | None, list[Any] | None]:
    """The columns of a table on GPUs, or the arrays there; neither for data in host memory."""
    if isinstance(values, Mapping):
        return values, None
    if library_of(values) in FRAMES:
        return None, None
    columns = columns_of_table(values)
    if columns is not None:
        return columns, None
    return None, list_of_arrays(values) or single_array(values)


def _sort_table(
    table: pa.Table, keys: list[SortKey], options: ExecutionOptions, selection: Selection, *, with_report: bool
) -> tuple[pa.Table, SortReport | None]:
    """The table in order, whose rows are those that came in."""
    if not (options.verify and selection.is_everything):
        return _sort_unchecked(table, keys, options, selection, with_report=with_report)
    with ThreadPoolExecutor(1) as beside:
        # Where GPUs sort, the cores have little else to do.
        is_beside = table.num_rows >= _MANY_ROWS and gpus_may_sort(options, bytes_of(table))
        before = beside.submit(RowChecksum, table) if is_beside else None
        in_order, report = _sort_unchecked(table, keys, options, selection, with_report=with_report)
        check_same_rows(RowChecksum(table) if before is None else before.result(), RowChecksum(in_order))
    return in_order, report


def _sort_unchecked(
    table: pa.Table, keys: list[SortKey], options: ExecutionOptions, selection: Selection, *, with_report: bool
) -> tuple[pa.Table, SortReport | None]:
    if not with_report and selection.is_everything and may_be_resident(table, keys, options):
        in_order = resident_sort(table, keys, options)
        if in_order is not None:
            return in_order, None
    return sort_table(table, keys, options, selection)


def _sort_on_gpus(
    values: Any,
    arrays: list[Any],
    payload: Any,
    options: ExecutionOptions,
    descending: bool,
    *,
    donate: bool,
    with_report: bool,
) -> tuple[Any, SortReport | None]:
    is_list = isinstance(values, list | tuple)
    carried = None if payload is None else list_of_arrays(payload if is_list else [payload])
    if payload is not None and carried is None:
        raise UsageError(f"payload must be a list of {len(arrays)} arrays, one for each array of keys")
    result, report = GpuSort(arrays, carried, options, descending=descending, donate=donate).run(
        with_report=with_report
    )
    if is_list:
        return result, report
    return (result[0] if payload is None else tuple(part[0] for part in result)), report


@takes_execution(SortExecution)
def sort_and_report(
    values: Values,
    *,
    by: By = None,
    descending: Descending = False,
    nulls: Nulls = "last",
    out: Array | None = None,
    payload: Sequence[Any] | None = None,
    donate: bool = False,
    on_progress: Progress | None = None,
    **execution: Unpack[SortExecution],
) -> tuple[Values, SortReport]:
    """As ``sort``, and a report of what happened where and how long it took.

    ``on_progress`` is called now and then with the fraction that is done.
    """
    began = time.perf_counter()
    options = ExecutionOptions.of(execution, SortPlan, on_progress)
    result, report = sort_values(
        values, options, by=by, descending=descending, nulls=nulls, out=out, payload=payload, donate=donate
    )
    if report is None:
        raise UsageError("tables on GPUs are sorted without a report; call sort")
    return result, replace(report, wall_seconds=time.perf_counter() - began)


@takes_execution(SortExecution)
def sort(
    values: Values,
    *,
    by: By = None,
    descending: Descending = False,
    nulls: Nulls = "last",
    out: Array | None = None,
    payload: Sequence[Any] | None = None,
    donate: bool = False,
    **execution: Unpack[SortExecution],
) -> Values:
    """Sort an array, a table by some of its columns, or arrays that lie on the GPUs. The sort is stable.

    Returns a new object of the same kind as the input.

    The order is total: numbers and times by value, strings and bytes by their bytes (UTF-8: by code point), false
    before true, -0.0 before 0.0, NaN and NaT last. ``descending`` reverses it. Nulls go to the end that ``nulls``
    names in either direction.

    Parameters
    ----------
    values
        Never changed. A one-dimensional NumPy array; a PyArrow array, chunked array, table, record batch or batch
        reader; a pandas, Polars or Narwhals frame or series; any object with Arrow's PyCapsule interface (a PyArrow
        object comes back) or DLPack. Keys may be bool, integers, floats, decimals, dates, times, timestamps,
        durations, strings, bytes of fixed or variable length, and dictionaries of these; other columns may have any
        type. Or what lies on the GPUs (``docs/gpu-arrays.md``): an array of torch, CuPy or another DLPack library, a
        list with one for each GPU, a dictionary of such columns, a table with Arrow's ``__arrow_c_device_array__``
        (see ``GpuTable``), or a frame or series of cuDF.
    by
        The column or columns to sort a table by, the most significant first.
    descending, nulls
        One value for all columns, or a list with one for each.
    out
        For arrays: the array to write the result to. Pinned memory (``linkwise.empty``) is written at the full rate of
        the links.
    payload
        For arrays on GPUs: an array with elements of 4, 8 or 16 bytes that is reordered with the keys, or for a list
        of arrays a list of these. Both come back, keys first.
    donate
        For lists of arrays on GPUs: the input may be overwritten, which saves memory.
    **execution
        Where and how it runs: see ``linkwise.options``.

    Raises
    ------
    UsageError, OutOfMemoryError, DeviceError, CorruptDataError

    """
    is_plain = by is None and out is None and payload is None and not donate and nulls == "last"
    # Not for subclasses: some, such as masked arrays, are refused later.
    if is_plain and type(values) is np.ndarray and nothing_is_said(execution):
        few = sorted_few(cast(Array, values), descending=one_direction(descending))
        if few is not None:
            return cast(Values, few)
    options = ExecutionOptions.of(execution, SortPlan)
    result, _ = sort_values(
        values, options, by=by, descending=descending, nulls=nulls, out=out, payload=payload, donate=donate,
        with_report=False,
    )  # fmt: skip
    return result


@takes_execution(SortExecution)
def sort_indices(
    values: Any,
    *,
    by: By = None,
    descending: Descending = False,
    nulls: Nulls = "last",
    **execution: Unpack[SortExecution],
) -> Any:
    """Return the row numbers that sort the values: ``values[sort_indices(values)]`` is sorted. Stable.

    Accepts what ``sort`` accepts. Returns an int64 array with one element for each row: of NumPy, in host memory, also
    for frames and series of cuDF. For arrays and columns on GPUs it lies there, and is of the library of the keys;
    several come back as a list, and number the rows of all, one array after the other.

    Raises
    ------
    UsageError, OutOfMemoryError, DeviceError, CorruptDataError

    """
    options = ExecutionOptions.of(execution, SortPlan)
    columns, arrays = _on_gpus(values)
    if columns is not None:
        return SortedColumns(columns, options, by, descending, nulls).row_numbers()
    if arrays is not None:
        if by is not None:
            raise UsageError("by= is for tables, not for arrays on GPUs")
        check_nulls(nulls)
        found = GpuSort(arrays, None, options, descending=one_direction(descending), donate=False).row_numbers()
        return found if isinstance(values, list | tuple) else found[0]
    held = hold(values, by)
    keys = held.keys(by, descending, nulls)
    if isinstance(held.contents, np.ndarray):
        rows, _ = order_of_array(held.contents, options, descending=keys[0].descending)
    else:
        rows, _ = order_of_table(held.contents, keys, options)
    if options.verify_all:
        check_rows_in_order(held.contents, keys, rows)
    return rows.astype(np.int64, copy=False)


@takes_execution(SortExecution)
def top_k(
    values: Values,
    k: int,
    *,
    by: By = None,
    descending: Descending = True,
    nulls: Nulls = "last",
    **execution: Unpack[SortExecution],
) -> Values:
    """Return the first ``k`` rows in sorted order: the greatest, or the least with ``descending=False``.

    Passes over the keys select the rows that can be among them; only those are sorted. Of equal keys, the first ones
    are taken. If there are fewer than ``k`` rows, all come back. Accepts what ``sort`` accepts, except arrays and
    tables on GPUs.

    Raises
    ------
    UsageError, OutOfMemoryError, DeviceError, CorruptDataError

    """
    if not isinstance(k, int | np.integer) or k < 0:
        raise UsageError(f"k is a number of rows, not {k!r}")
    options = ExecutionOptions.of(execution, SortPlan)
    return sort_values(values, options, by=by, descending=descending, nulls=nulls, selection=Selection(limit=int(k)))[0]


@takes_execution(SortExecution)
def unique(
    values: Values,
    *,
    by: By = None,
    descending: Descending = False,
    nulls: Nulls = "last",
    **execution: Unpack[SortExecution],
) -> Values:
    """Return the first row of each distinct key, in sorted order.

    Keys are equal if ``sort`` treats them as equal: all nulls are one key; -0.0 and 0.0 are two. The key of a table is
    all of its columns unless ``by`` names some. Accepts what ``sort`` accepts, except arrays and tables on GPUs.

    Raises
    ------
    UsageError, OutOfMemoryError, DeviceError, CorruptDataError

    """
    options = ExecutionOptions.of(execution, SortPlan)
    return sort_values(values, options, by=by, descending=descending, nulls=nulls, selection=Selection(unique=True))[0]
