"""Which rows of two tables on the GPUs match, where null keys match nothing."""

from __future__ import annotations

from collections.abc import Sequence

from linkwise.joining.device.device_columns import JoinableColumns
from linkwise.joining.matching import How, Order
from linkwise.sorting.device.device_columns import Column, Parts, lengths_of

KEEPS_LEFT, KEEPS_RIGHT = ("left", "full", "anti"), ("right", "full")
"""The kinds of joins that keep rows of a side without a partner."""


class SideKeys:
    """The key columns of one side, without the rows in which one is null.

    ``keys``: the column of each; ``nulls``: the bytes that tell where it has no value, or ``None``.
    """

    def __init__(self, gpus: JoinableColumns, keys: list[Column], nulls: Sequence[Parts | None]) -> None:
        self._gpus, self._lengths = gpus, lengths_of(keys[0])
        self._complete: Parts | None = None  # the rows without nulls; None for all rows
        for of_key in nulls:
            if of_key is not None:
                there = of_key if self._complete is None else gpus.take(of_key, self._complete)
                self._complete = self.in_all(gpus.rows_without_nulls(there))
        self.keys = list(map(self._at_complete, keys))

    @property
    def has_nulls(self) -> bool:
        """Whether keys may be null."""
        return self._complete is not None

    def in_all(self, rows: Parts) -> Parts:
        """The numbers among all rows of rows that are numbered among those without nulls."""
        return rows if self._complete is None else self._gpus.take(self._complete, rows)

    def rows_with_nulls(self) -> Parts | None:
        """The rows in which a key is null, in any order; ``None`` if none can be."""
        return None if self._complete is None else self._gpus.other_rows(self._complete, self._lengths)

    def _at_complete(self, column: Column) -> Column:
        return column if self._complete is None else self._gpus.take_column(column, self._complete)


Rows = tuple[Parts, Parts | None]


def matched_rows(
    gpus: JoinableColumns, sides: tuple[SideKeys, SideKeys], keys: tuple[Parts, Parts], how: How, order: Order
) -> Rows:
    """The row numbers of a join in both sides; in the left one alone of a semi or anti join.

    ``keys`` are those of the sides as a column each. If a key may be null, the order is that of the left rows or none:
    what ``order="key"`` asks for is left to the caller, who can sort by null keys.
    """
    if not sides[0].has_nulls and not sides[1].has_nulls:
        return gpus.matches(*keys, how, order)
    return _with_null_rows(gpus, sides, gpus.matches(*keys, how, None), how, order)


def matched_by_hash(
    gpus: JoinableColumns, sides: tuple[SideKeys, SideKeys], codes: tuple[list[Column], list[Column]], how: How,
    order: Order,
) -> Rows | None:  # fmt: skip
    """The same by hashes of ``codes``, columns that are equal where keys are; ``None`` if two keys have one hash.

    The kind of join has rows of both sides, and the order is not that of the keys.
    """
    hashes = gpus.row_hashes(codes[0]), gpus.row_hashes(codes[1])
    has_nulls = sides[0].has_nulls or sides[1].has_nulls
    left, right = gpus.matches(*hashes, how, None if has_nulls else order)
    assert right is not None
    if not gpus.are_equal(codes[0], left, codes[1], right):
        return None
    return _with_null_rows(gpus, sides, (left, right), how, order) if has_nulls else (left, right)


def _with_null_rows(
    gpus: JoinableColumns, sides: tuple[SideKeys, SideKeys], rows: Rows, how: How, order: Order
) -> Rows:
    """The rows of a join of those without null keys, numbered among all, and those with null keys that it keeps."""
    left, right = rows
    left = sides[0].in_all(left)
    right = None if right is None else sides[1].in_all(right)
    if how in KEEPS_LEFT and (others := sides[0].rows_with_nulls()) is not None:
        left = gpus.append(left, others)
        right = None if right is None else gpus.append(right, gpus.no_rows([len(part) for part in others]))
    if how in KEEPS_RIGHT and right is not None and (others := sides[1].rows_with_nulls()) is not None:
        left = gpus.append(left, gpus.no_rows([len(part) for part in others]))
        right = gpus.append(right, others)
    return (left, right) if order is None else gpus.by_left_rows(left, right)
