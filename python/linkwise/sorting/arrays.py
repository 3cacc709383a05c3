"""Sorting NumPy arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from linkwise import _core
from linkwise._arrow import pa
from linkwise._core import UsageError
from linkwise._typing import Array
from linkwise.columns.key_types import arrow_of_numbers, key_type_of, keys_of_array, plain_array, times_of_keys
from linkwise.columns.row_checksum import RowChecksum, check_same_rows
from linkwise.columns.sort_keys import EVERYTHING, Selection, SortKey
from linkwise.interop.containers import ONE_COLUMN
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.host_memory import uninitialised
from linkwise.sorting.check import check_in_order
from linkwise.sorting.host_sort import row_number_bytes, sort_keys
from linkwise.sorting.report import SortReport


def codes_of_array(values: Array, *, descending: bool) -> Array:
    """Unsigned integers in the order of the values."""
    keys = keys_of_array(plain_array(values))
    return np.asarray(_core.encode_keys(key_type_of(keys.dtype), descending, keys))


def sort_array(
    values: Array,
    execution: ExecutionOptions,
    out: Array | None = None,
    selection: Selection = EVERYTHING,
    *,
    descending: bool = False,
) -> tuple[Array, SortReport]:
    """A new array in order, of the same type; or ``out``, filled."""
    plain = plain_array(values)
    if out is not None:
        _check_out(out, values)
    if selection.may_skip(len(plain)):
        assert selection.limit is not None
        codes = codes_of_array(plain, descending=descending)
        plain = plain[_core.positions_of_least(codes, selection.limit)]
    result = out if out is not None and out.dtype == plain.dtype else uninitialised(len(plain), plain.dtype)
    sorted_keys = result.view(keys_of_array(plain[:0]).dtype)
    _, report = sort_keys(keys_of_array(plain), execution, descending=descending, out_keys=sorted_keys)
    report = replace(report, rows=len(values), bytes=values.nbytes)
    if selection.unique:
        sorted_keys = sorted_keys[is_first_of_equal(sorted_keys.view(f"u{sorted_keys.itemsize}"))]
        result = sorted_keys.view(plain.dtype)
    if plain.dtype.kind in "mM":
        result[:] = times_of_keys(sorted_keys, plain.dtype)
    if execution.verify_all and selection.is_everything:
        _check_whole(plain, result, descending=descending)
    if out is None:
        return result[: selection.limit].astype(values.dtype, copy=False), report
    if out is not result:
        out[:] = result
    return out, report


def _check_whole(values: Array, result: Array, *, descending: bool) -> None:
    """Raise ``CorruptDataError`` unless the result has the values, in order."""
    before, after = (pa.table([arrow_of_numbers(keys_of_array(each))], [ONE_COLUMN]) for each in (values, result))
    check_same_rows(RowChecksum(before), RowChecksum(after))
    check_in_order(result, [SortKey(ONE_COLUMN, descending)])


def is_first_of_equal(in_order: Array) -> Array:
    """For sorted integers, whether each differs from its predecessor."""
    is_first = np.ones(len(in_order), bool)
    np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
    return is_first


def _check_out(out: Array, values: Array) -> None:
    if not isinstance(out, np.ndarray) or type(out).__name__ == "MaskedArray":
        raise UsageError(f"out must be a NumPy array, not a {type(out).__name__}")
    if out.dtype != values.dtype or out.shape != values.shape or not out.flags.c_contiguous:
        raise UsageError(f"out must be a contiguous array of {len(values)} {values.dtype}, like the input")
    if np.shares_memory(out, values):
        raise UsageError("out shares memory with the input, which is never changed; pass another array")
    if not out.flags.writeable:
        raise UsageError("out is read-only")


def order_of_array(values: Array, execution: ExecutionOptions, *, descending: bool) -> tuple[Array, SortReport]:
    """The row numbers that sort an array stably."""
    keys = keys_of_array(plain_array(values))
    rows, report = sort_keys(
        keys, execution, descending=descending, out_keys=None, row_number_bytes=row_number_bytes(len(keys))
    )
    assert rows is not None
    return rows, report
