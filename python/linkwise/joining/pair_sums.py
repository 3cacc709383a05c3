"""Checksums of a join, computed from both sides without joining them, for ``verify="all"``.

Each row of a side has an odd hash h. Over all pairs of rows with equal keys, Σ h(left) · h(right) equals
Σ over keys of (Σ h(left)) · (Σ h(right)) modulo 2⁶⁴. So it is known from the per-key sums of both sides, and is
recomputed from the rows of the result. A lost or invented row, a changed value, or a left row paired with the wrong
right one changes it, except in about one of 2⁶² cases.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from linkwise._arrow import pa
from linkwise._core import CorruptDataError
from linkwise._typing import Array
from linkwise.columns.row_checksum import Hashes, row_hashes
from linkwise.runtime.execution import ExecutionOptions
from linkwise.sorting.arrays import is_first_of_equal, order_of_array

_LARGEST = 1 << 20  # keys of a side that are buffered before they are summed
_SUMS = 1 << 64
_EXACT = 2.0**62  # rows; larger counts are computed with Python's integers


class PairSum(NamedTuple):
    """A number of rows, and the checksum over them."""

    rows: int
    total: int


def odd_hashes(table: pa.Table) -> Hashes:
    """The hashes of a table's rows, made odd; all 1 for a table without columns."""
    return row_hashes(table) | np.uint64(1)


def hashes_of_rows(numbers: Array) -> Hashes:
    """The hashes of row numbers, for use where the rows themselves are not available."""
    return odd_hashes(pa.table([pa.array(numbers.astype(np.int64, copy=False))], ["row"]))


def of_rows(hashes: Hashes) -> PairSum:
    """The sum over rows of a single side, by their hashes."""
    return PairSum(len(hashes), _sum(hashes))


def of_pairs(left: Hashes, right: Hashes) -> PairSum:
    """The sum over result rows, by the hashes of their left and right rows."""
    return of_rows(left * right)


@dataclass
class SideSums:
    """How many rows a side has of each key, and the sums of their hashes."""

    _keys: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    _counts: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    _sums: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    _waiting: list[tuple[Hashes, Hashes, Hashes]] = field(default_factory=list)
    alone: PairSum = field(default_factory=lambda: PairSum(0, 0))
    """The sum over rows that can match nothing: those with a null in their key."""

    def add(self, keys: Hashes, can_match: Array, rows: Hashes) -> None:
        """Add rows, given the hashes of their keys, whether each can match at all, and the hashes of the rows."""
        self.alone = together_all([self.alone, of_rows(rows[~can_match])])
        self._waiting.append(_by_key(keys[can_match], np.ones(int(can_match.sum()), np.uint64), rows[can_match]))
        if sum(len(part[0]) for part in self._waiting) > max(_LARGEST, len(self._keys)):
            self._add_up()

    def _add_up(self) -> None:
        parts = [(self._keys, self._counts, self._sums), *self._waiting]
        columns = [np.concatenate(of_parts) for of_parts in zip(*parts, strict=True)]
        self._keys, self._counts, self._sums = _by_key(*columns)
        self._waiting = []

    def by_key(self) -> tuple[Hashes, Hashes, Hashes]:
        """The keys in ascending order, the number of rows of each, and the sums of their hashes."""
        if self._waiting:
            self._add_up()
        return self._keys, self._counts, self._sums


def _by_key(keys: Hashes, counts: Hashes, sums: Hashes) -> tuple[Hashes, Hashes, Hashes]:
    order, _ = order_of_array(keys, ExecutionOptions(strategy="cpu"), descending=False)
    keys = keys[order]
    if not len(keys):
        return keys, counts, sums
    starts = np.flatnonzero(is_first_of_equal(keys))
    return keys[starts], np.add.reduceat(counts[order], starts), np.add.reduceat(sums[order], starts)


def _sum(values: Hashes) -> int:
    return int(values.sum(dtype=np.uint64))


def _looked_up(keys: Hashes, others: Hashes) -> tuple[Array, Array]:
    """For each of some ascending keys, whether it is among others, also ascending, and at which position."""
    if not len(others):
        return np.zeros(len(keys), bool), np.zeros(len(keys), np.int64)
    at = np.minimum(np.searchsorted(others, keys), len(others) - 1)
    return others[at] == keys, at


def of_matches(left: SideSums, right: SideSums) -> PairSum:
    """The sum over all pairs of rows with equal keys."""
    left_keys, left_counts, left_sums = left.by_key()
    right_keys, right_counts, right_sums = right.by_key()
    is_there, at = _looked_up(left_keys, right_keys)
    of_left, of_right = left_counts[is_there], right_counts[at[is_there]]
    if len(of_left) and float(np.dot(of_left.astype(np.float64), of_right)) > _EXACT:
        rows = sum(map(operator.mul, of_left.tolist(), of_right.tolist()))
    else:
        rows = _sum(of_left * of_right)
    return PairSum(rows, _sum(left_sums[is_there] * right_sums[at[is_there]]))


def of_rows_that(match: bool, side: SideSums, other: SideSums) -> PairSum:
    """The sum over the rows of a side that have a match on the other side, or that have none."""
    keys, counts, sums = side.by_key()
    wanted = _looked_up(keys, other.by_key()[0])[0] == match
    found = PairSum(_sum(counts[wanted]), _sum(sums[wanted]))
    return found if match else together_all([found, side.alone])


def together_all(sums: Iterable[PairSum]) -> PairSum:
    """The total of several sums."""
    several = list(sums)
    return PairSum(sum(each.rows for each in several), sum(each.total for each in several) % _SUMS)


def check_pairs(wanted: PairSum, found: PairSum) -> None:
    """Raise ``CorruptDataError`` if a join's rows differ in number or checksum from those that both sides imply."""
    if wanted.rows != found.rows:
        raise CorruptDataError(
            f"the join has {found.rows} rows, and by the keys of both sides {wanted.rows}; check the host's memory and "
            "the links, and run again"
        )
    if wanted != found:
        raise CorruptDataError(
            "the rows of the join are not pairs of rows with equal keys, or their values changed; check the host's "
            "memory and the links, and run again"
        )
