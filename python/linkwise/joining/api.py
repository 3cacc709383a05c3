"""Joining two relations: the public calls.

Keys of up to 64 bits are joined on the GPUs; for wider keys the GPUs sort both sides together, and the CPU matches them
in one pass. Rows are gathered on the GPUs or the host's cores.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, Unpack, cast

import numpy as np

from linkwise._arrow import pa
from linkwise._core import UsageError
from linkwise.columns.inside import names_inside, with_fields
from linkwise.columns.sort_keys import listed
from linkwise.interop.containers import hold_table, is_cudf_frame, is_frame, labels_named, labels_of, native_of
from linkwise.interop.device_arrays import copied_to_host
from linkwise.interop.gpu_frames import columns_of_frame, columns_of_table, frame_of, with_labels
from linkwise.interop.pandas_frames import PandasFrames
from linkwise.joining.device.device_join import GpuJoin, arrays_on_gpus
from linkwise.joining.device.gpu_table import GpuTable
from linkwise.joining.device.resident_join import resident_join
from linkwise.joining.join_check import check_join
from linkwise.joining.matching import Columns, How, Order, Presorted, Validate, check_order, matches_of_keys, sides_of
from linkwise.joining.tables import TableJoin, check_how, key_pairs
from linkwise.runtime.execution import ExecutionOptions, JoinExecution, takes_execution
from linkwise.runtime.join_plan import JoinPlan

Relation = TypeVar("Relation")


@takes_execution(JoinExecution)
def join(
    left: Relation,
    right: Any,
    on: Columns | None = None,
    *,
    left_on: Columns | None = None,
    right_on: Columns | None = None,
    how: How = "inner",
    suffix: str = "_right",
    nulls_equal: bool = False,
    validate: Validate = "m:m",
    presorted: Presorted = False,
    order: Order = None,
    **execution: Unpack[JoinExecution],
) -> Relation:
    """Join two tables by equal keys. Returns a table of the left one's kind.

    Rows come in any order unless ``order`` names one; those of semi and anti joins keep the left table's order, except
    on GPUs. Floats match as numbers: -0.0 equals 0.0, and NaN equals NaN except in pandas, where it is a null.

    Parameters
    ----------
    left, right
        Tables of PyArrow, Polars, pandas or Narwhals, or any object with Arrow's PyCapsule interface. Never changed.
        Two pandas frames may have columns of any type, Python objects included; the result has a fresh index. Or two
        dictionaries of columns that lie on the GPUs, tables there with Arrow's ``__arrow_c_device_array__`` (see
        ``GpuTable``), or frames of cuDF, whose rows stay there.
    on, left_on, right_on
        The columns whose values must be equal, by one name or by a name for each side. Their types may differ in
        width, unit or layout. Columns named by ``on`` appear once in the result. A field of a struct is named by its
        path, as ``"address.city"``; it stays in its struct, and is not made one column with what it is joined to.
    how
        ``"inner"``; ``"left"``, ``"right"``, ``"full"``: also the rows of that side without a match, with nulls;
        ``"semi"``, ``"anti"``: the left rows with a match, or without one.
    suffix
        Appended to the names of right columns that the left table has as well.
    nulls_equal
        Whether null keys match each other; otherwise they match nothing.
    validate
        ``"1:m"``: raise an error if a key occurs twice on the left; ``"m:1"``: on the right; ``"1:1"``: on either side.
    presorted
        ``"left"``, ``"right"``, or ``"both"`` (``True``): that side is already sorted by its keys, ascending with nulls
        last. This is checked, and the side is not sorted again.
    order
        ``"key"``: by key in the order of ``sort``, nulls last; within a key by left row, then by right row. ``"left"``:
        by left row, then by right row; rows without a left partner come last. ``None``: any order, which saves
        sorting for it. Semi and anti joins of data in host memory keep the left table's order whatever it is.
    **execution
        Where and how it runs: see ``linkwise.options``.

    Raises
    ------
    UsageError, OutOfMemoryError, DeviceError, CorruptDataError

    """
    check_how(how)
    options = ExecutionOptions.of(execution, JoinPlan)
    is_plain = (nulls_equal, validate, presorted) == (False, "m:m", False)
    (left, as_given), (right, _) = native_of(left), native_of(right)
    labels = labels_of(right) | labels_of(left)
    named = [_named(columns, labels) for columns in (on, left_on, right_on)]
    on, left_on, right_on = named
    on_gpus = _columns_there((left, right), with_frames=is_plain and options.plan is None)
    if on_gpus != [None, None]:
        if not is_plain:
            raise UsageError("of dictionaries of columns on GPUs, join takes on=, how=, suffix= and order=")
        if options.plan is not None:
            raise UsageError("plan= is for data in host memory and for single arrays, not for dictionaries of columns")
        if None in on_gpus:
            raise UsageError("one side lies on GPUs, and the other does not; bring both to one place")
        tables = [GpuTable(side, **execution) for side in on_gpus]
        joined = tables[0].join(tables[1], on, left_on=left_on, right_on=right_on, how=how, suffix=suffix, order=order)
        there: Any = joined.to_dict()
        return cast(Relation, as_given(with_labels(frame_of(there, left), labels) if is_cudf_frame(left) else there))
    compared = {str(name) for columns in named if columns is not None for name in columns}
    left_table, right_table, give_back = _hold_both(left, right, compared)
    inside = names_inside(left_table.schema), names_inside(right_table.schema)
    keys = key_pairs(left_table.column_names, right_table.column_names, on, left_on, right_on, inside)
    left_table, right_table = with_fields(left_table, keys.inside[0]), with_fields(right_table, keys.inside[1])
    result = None
    if is_plain:
        check_order(order)
        result = resident_join(left_table, right_table, keys, how, order, suffix, options)
    if result is None:
        result = TableJoin(
            left_table, right_table, keys, options, how, suffix=suffix, nulls_equal=nulls_equal, validate=validate,
            presorted=presorted, order=order,
        ).table()  # fmt: skip
    if options.verify_all:
        check_join(left_table, right_table, result, keys, how, nulls_equal=nulls_equal)
    given_back = give_back(result)
    return cast(Relation, as_given(with_labels(given_back, labels) if is_cudf_frame(left) else given_back))


def _columns_there(sides: tuple[Any, Any], *, with_frames: bool) -> list[Mapping[str, Any] | None]:
    """The columns of each side that lies on the GPUs.

    Frames of cuDF, which can also be joined in host memory, are among these if asked for and if both sides lie there.
    """
    alone = [side if isinstance(side, Mapping) else columns_of_table(side) for side in sides]
    if not with_frames:
        return alone
    found = [columns_of_frame(side) or columns for side, columns in zip(sides, alone, strict=True)]
    return alone if None in found else found


def _hold_both(left: Any, right: Any, keys: set[str]) -> tuple[pa.Table, pa.Table, Callable[[pa.Table], Any]]:
    if not is_frame(left):
        table, give_back = hold_table(left)
        return table, hold_table(right)[0], give_back
    frames = PandasFrames()
    left_table = frames.table(left, keys)
    return left_table, frames.table(right, keys) if is_frame(right) else hold_table(right)[0], frames.frame


def _named(columns: Any, labels: dict[str, Any]) -> list[Any] | None:
    """Column names as Arrow has them."""
    if columns is None:
        return None
    if not labels or isinstance(columns, str):
        return listed(columns)
    return [str(label) for label in labels_named(columns, list(labels.values()))]


@takes_execution(JoinExecution)
def join_indices(
    left_keys: Any,
    right_keys: Any,
    how: How = "inner",
    *,
    nulls_equal: bool = False,
    presorted: Presorted = False,
    order: Order = None,
    **execution: Unpack[JoinExecution],
) -> tuple[Any, Any]:
    """Return the row numbers of the left and the right side for each row of the join, -1 for a missing partner.

    Keys are arrays, columns, or tables, whose columns are compared by position. The result is two int64 arrays; for a
    semi or anti join, the second is all -1. Order and errors are as for ``join``.

    Keys may be device-resident: one array for each side, or a list with one array for each GPU. Rows are then
    numbered consecutively through the list, and the result is two arrays, or lists of arrays, on the GPUs, each GPU
    with a part of it; for a semi or anti join the second is ``None``. If an order is asked for, it goes on from one GPU
    to the next.
    """
    check_how(how)
    options = ExecutionOptions.of(execution, JoinPlan)
    on_gpus = arrays_on_gpus(left_keys, right_keys)
    if on_gpus is not None:
        _check_no_presorted(presorted=presorted)
        check_order(order)
        found_on_gpus = GpuJoin(*on_gpus, how, options).indices(order)
        if isinstance(left_keys, list | tuple):
            return found_on_gpus
        return tuple(side if side is None else side[0] for side in found_on_gpus)  # type: ignore[return-value]
    check_order(order)
    found = matches_of_keys(left_keys, right_keys, options, nulls_equal=nulls_equal, presorted=presorted, order=order)
    left, right = found.indices(how)
    return left, np.full(len(left), -1) if right is None else right


@takes_execution(JoinExecution)
def join_count(
    left_keys: Any,
    right_keys: Any,
    how: How = "inner",
    *,
    nulls_equal: bool = False,
    presorted: Presorted = False,
    **execution: Unpack[JoinExecution],
) -> int:
    """Return the number of rows of the join. Parameters are as for ``join_indices``.

    Keys may be device-resident: one array for each side, or a list with one array for each GPU.
    """
    check_how(how)
    options = ExecutionOptions.of(execution, JoinPlan)
    on_gpus = arrays_on_gpus(left_keys, right_keys)
    if on_gpus is not None:
        _check_no_presorted(presorted=presorted)
        return GpuJoin(*on_gpus, how, options).count()
    return int(matches_of_keys(left_keys, right_keys, options, nulls_equal=nulls_equal, presorted=presorted).count(how))


def _check_no_presorted(*, presorted: Presorted) -> None:
    if any(sides_of(presorted)):
        raise UsageError("presorted= is for keys in host memory; keys on GPUs are sorted there")


@dataclass(frozen=True, eq=False)
class JoinRanges:
    """The matches of two relations by key: every row in a key's left range matches every row in its right range.

    Key ``k`` has the left rows ``left_rows[left_first[k]:left_first[k + 1]]`` and the right rows
    ``right_rows[right_first[k]:right_first[k + 1]]``, all int64. Keys are in the order of ``sort``, and the rows of a
    key in input order. So a key with many rows on both sides takes space for its rows only, not for its pairs.

    Of keys that lie on GPUs, these are arrays there, or lists with one for each GPU, which go on from one to the next.
    """

    left_rows: Any
    left_first: Any
    right_rows: Any
    right_first: Any

    def __len__(self) -> int:
        """How many keys match."""
        first = self.left_first if isinstance(self.left_first, list) else [self.left_first]
        return sum(map(len, first)) - 1

    @property
    def matches(self) -> int:
        """How many pairs of rows match."""
        left, right = (np.diff(copied_to_host(first)) for first in (self.left_first, self.right_first))
        pairs = int((left.astype(np.float64) * right).sum())
        return int(np.dot(left, right)) if pairs < 2**62 else sum(map(operator.mul, left.tolist(), right.tolist()))


@takes_execution(JoinExecution)
def join_ranges(
    left_keys: Any,
    right_keys: Any,
    *,
    nulls_equal: bool = False,
    presorted: Presorted = False,
    **execution: Unpack[JoinExecution],
) -> JoinRanges:
    """Return the matches of an inner join as ranges of rows with equal keys instead of pairs (join25 §3.3.3).

    The result is no larger than both sides, however many pairs there are. Parameters and errors: as ``join_indices``;
    keys may be device-resident as there.
    """
    options = ExecutionOptions.of(execution, JoinPlan)
    on_gpus = arrays_on_gpus(left_keys, right_keys)
    if on_gpus is not None:
        _check_no_presorted(presorted=presorted)
        ranges = GpuJoin(*on_gpus, "inner", options).ranges()
        return JoinRanges(*(ranges if isinstance(left_keys, list | tuple) else [parts[0] for parts in ranges]))
    found = matches_of_keys(left_keys, right_keys, options, nulls_equal=nulls_equal, presorted=presorted, order="key")
    return JoinRanges(*found.ranges())
