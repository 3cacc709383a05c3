"""Checks whether data is sorted: ``linkwise.is_sorted`` and ``linkwise sort --check``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from linkwise._arrow import pa
from linkwise._core import CorruptDataError
from linkwise._typing import Rows
from linkwise.columns.gather import gather_rows
from linkwise.columns.key_types import arrow_of_numbers, key_type_of, keys_of_array, plain_array
from linkwise.columns.sort_keys import By, Descending, Nulls, SortKey
from linkwise.interop.containers import ONE_COLUMN, Contents, hold
from linkwise.sorting.row_keys import RowKeys


def first_out_of_order(contents: Contents, keys: list[SortKey], *, unique: bool = False) -> int | None:
    """The number of the first row that should come before its predecessor; ``None`` if all are in order.

    With ``unique``, repeated keys are out of order as well. For an array, only the direction of the first key counts.
    """
    if isinstance(contents, np.ndarray):
        numbers = keys_of_array(plain_array(contents))
        key_type_of(numbers.dtype)  # raises an error if they have no order
        contents = pa.table({ONE_COLUMN: arrow_of_numbers(numbers)})
        keys = [SortKey(ONE_COLUMN, keys[0].descending)]
    rows, core = len(contents), RowKeys(contents, keys).core
    row: int = core.first_descent()
    if unique:
        starts = core.starts_of_runs(np.arange(row, dtype=np.uint64))
        row = int(next(iter(np.flatnonzero(starts != np.arange(len(starts)))), len(starts)))
    return row if row < rows else None


def check_in_order(contents: Contents, keys: list[SortKey]) -> None:
    """Raise ``CorruptDataError`` if a row should come before its predecessor."""
    row = first_out_of_order(contents, keys)
    if row is not None:
        raise CorruptDataError(
            f"row {row} of the result, counted from 0, is out of order; check the host's memory and the links, and run "
            "again"
        )


def check_rows_in_order(contents: Contents, keys: list[SortKey], rows: Rows) -> None:
    """Raise ``CorruptDataError`` unless ``rows`` is a permutation of all rows, in the order of the keys."""
    is_there = np.zeros(len(contents), bool)
    are_rows = not len(rows) or (rows.min() >= 0 and rows.max() < len(contents))
    if are_rows:
        is_there[rows] = True
    if not are_rows or len(rows) != len(contents) or not is_there.all():
        raise CorruptDataError("row numbers were lost or changed; check the host's memory and the links, and run again")
    check_in_order(contents[rows] if isinstance(contents, np.ndarray) else gather_rows(contents, rows), keys)


def each_checked(
    parts: Iterable[Contents], keys: list[SortKey], *, unique: bool = False
) -> Iterator[tuple[Contents, int | None]]:
    """Each part, and the number, counted across all parts, of its first row that is out of order, or ``None``."""
    before, last = 0, None
    for part in parts:
        if not len(part):
            yield part, None
            continue
        found = first_out_of_order(_behind(last, part), keys, unique=unique)
        yield part, None if found is None else before + found
        before += len(part) - (last is None)  # the last row is prepended to the next part
        last = part[-1:] if isinstance(part, np.ndarray) else part.slice(len(part) - 1)


def _behind(last: Contents | None, part: Contents) -> Contents:
    if last is None:
        return part
    return np.concatenate([last, part]) if isinstance(part, np.ndarray) else pa.concat_tables([last, part])


def is_sorted(values: Any, *, by: By = None, descending: Descending = False, nulls: Nulls = "last") -> bool:
    """Whether ``sort`` with the same arguments would leave all rows in place.

    Accepts what ``sort`` accepts, except arrays and tables on GPUs.

    Raises
    ------
    UsageError

    """
    held = hold(values, by)
    return first_out_of_order(held.contents, held.keys(by, descending, nulls)) is None
