"""Splitters between partitions: rows of the input, so that one key may span several partitions.

A bound (splitter) is the key of a sampled row with that row's split and number. Rows are ordered by key, split and
row number, so that partitions are balanced even if many or all rows have one key. Samples are spread over all rows of
every split (regular sampling, Shi and Schaeffer, JPDC 1992).

A join's partitions begin at the first row of a key. If a key alone would fill several partitions, one side's rows of
it are divided among them, and the other side's rows of it are lent (replicated) to each: see ``bounds_of_join``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from linkwise._core import UsageError
from linkwise._typing import Array
from linkwise.columns.decode import decoded
from linkwise.columns.gather import gather_rows
from linkwise.columns.inside import column_named
from linkwise.columns.sort_keys import SortKey
from linkwise.runtime.execution import ExecutionOptions
from linkwise.sorting.row_keys import RowKeys
from linkwise.sorting.tables import order_of_table

ON_CORES = ExecutionOptions(strategy="cpu", verify=False)
WHOLE_KEY = -1  # instead of a split: the bound lies before all rows of its key


def numbered_keys(keys: Sequence[SortKey]) -> list[SortKey]:
    """The same sort keys, for a table whose columns are named 0, 1, …: see ``key_columns``."""
    return [SortKey(str(number), key.descending, key.nulls) for number, key in enumerate(keys)]


def key_columns(table: pa.Table, keys: Sequence[SortKey]) -> pa.Table:
    """The columns that rows are compared by, named 0, 1, … Raises ``UsageError``."""
    columns = []
    for key in keys:
        column = column_named(table, key.column)
        if pa.types.is_dictionary(column.type) and column.type.ordered:
            raise UsageError(f"'{key.column}' has categories in an order that one node alone knows; cast it to text")
        columns.append(decoded(column))
    return pa.table(columns, [str(number) for number in range(len(columns))])


@dataclass(frozen=True)
class Sample:
    """Some rows of a split."""

    keys: pa.Table
    rows: Array
    """Their numbers in the split, ascending."""
    split_rows: int
    """The number of rows in the split."""


def sample_of(keys: pa.Table, split: int, wanted: int) -> Sample:
    """A stratified sample: one random row from each of up to ``wanted`` equal parts of the split."""
    rows = keys.num_rows
    parts = min(wanted, rows)
    begins = np.arange(parts + 1, dtype=np.float64) * rows / max(parts, 1)
    jitter = np.random.default_rng(split).random(parts)
    numbers = np.minimum((begins[:-1] + jitter * np.diff(begins)).astype(np.int64), max(rows - 1, 0))
    numbers = np.unique(numbers)
    return Sample(gather_rows(keys, numbers), numbers, rows)


@dataclass(frozen=True)
class Bounds:
    """The rows at which all partitions but the first begin, in order."""

    keys: pa.Table
    splits: Array
    """The split of each row, or ``WHOLE_KEY``."""
    rows: Array
    sides: Array
    """For a join, the side of each row; otherwise 0."""
    are_lent: Array
    """For a join, whether the other side's rows of that key go to the partitions on both sides of the bound."""

    @classmethod
    def none(cls) -> Bounds:
        """No bounds: a single partition."""
        nothing = np.zeros(0, np.int64)
        return cls(pa.table({}), nothing, nothing, nothing, nothing.astype(bool))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def partitions(self) -> int:
        """The number of partitions, one more than bounds."""
        return len(self) + 1


@dataclass(frozen=True)
class _Samples:
    """The samples of all splits in order of key, split and row."""

    keys: pa.Table
    splits: Array
    rows: Array
    sides: Array
    weights: Array  # rows that each stands for, times its side's scale
    begins: Array  # the first sample of each key

    def bounds(self, chosen: Sequence[int] | Array, are_whole: Sequence[bool], are_lent: Sequence[bool] = ()) -> Bounds:
        at = np.asarray(chosen, np.int64)
        splits = np.where(np.asarray(are_whole, bool), WHOLE_KEY, self.splits[at])
        lent = np.asarray(are_lent or [False] * len(at), bool)
        return Bounds(gather_rows(self.keys, at), splits, self.rows[at], self.sides[at], lent)


def _in_order(sides: Sequence[Sequence[Sample]], by: list[SortKey], scales: Sequence[float]) -> _Samples:
    everything = [(side, number, sample) for side, of in enumerate(sides) for number, sample in enumerate(of)]
    keys = pa.concat_tables([sample.keys for _, _, sample in everything])
    order = order_of_table(keys, by, ON_CORES)[0].astype(np.int64) if keys.num_rows else np.zeros(0, np.int64)
    keys = gather_rows(keys, order)

    def each(values: Sequence[float], kind: type) -> Array:
        counts = [len(sample.rows) for _, _, sample in everything]
        return np.repeat(np.asarray(values, kind), counts)[order]

    weights = [scales[side] * sample.split_rows / max(len(sample.rows), 1) for side, _, sample in everything]
    rows = np.concatenate([sample.rows for _, _, sample in everything])[order]
    begins = RowKeys(keys, by).core.starts_of_runs(np.arange(len(order), dtype=np.uint64)) if len(order) else order
    return _Samples(
        keys, each([number for _, number, _ in everything], np.int64), rows,
        each([side for side, _, _ in everything], np.int64), each(weights, np.float64), begins.astype(np.int64),
    )  # fmt: skip


def bounds_of_sort(samples: Sequence[Sample], by: list[SortKey], partitions: int) -> Bounds:
    """Bounds of partitions that have equal shares of all rows."""
    found = _in_order([samples], by, [1.0])
    before = np.cumsum(found.weights) - found.weights
    shares = np.arange(1, partitions) * (found.weights.sum() / partitions)
    chosen = np.unique(np.searchsorted(before, shares))
    chosen = chosen[(chosen > 0) & (chosen < len(before))]
    return found.bounds(chosen, [False] * len(chosen))


def bounds_of_keys(samples: Sequence[Sample], by: list[SortKey], partitions: int) -> Bounds:
    """Bounds of partitions with equal shares of the distinct keys, each of which occurs at most once in a split."""
    found = _in_order([samples], by, [1.0])
    shares = np.arange(1, partitions) * len(found.begins) // partitions
    chosen = [int(found.begins[share]) for share in np.unique(shares) if share > 0]
    return found.bounds(chosen, [True] * len(chosen))


def bounds_of_join(
    sides: Sequence[Sequence[Sample]], row_bytes: Sequence[float], partitions: int, divided: Sequence[int], *,
    nulls_equal: bool,
) -> Bounds:  # fmt: skip
    """Bounds of partitions with about equal shares of both sides' bytes. ``divided``: the sides that may be divided.

    A partition begins at the first row of a key, or within a key that alone exceeds a share. Such a key is cut at
    rows of the side with more bytes of it, so that each of its partitions has at least one of them. The other side's
    rows of the key, which are lent to each, then have a match in each, and outer joins report none of them as
    unmatched. Rows with null keys that match nothing may be cut anywhere; the right side's come after the left
    side's.
    """
    by = [SortKey(name) for name in sides[0][0].keys.column_names]
    found = _in_order(sides, by, row_bytes)
    ends = np.append(found.begins[1:], len(found.weights))
    before = np.concatenate([[0.0], np.cumsum(found.weights)])
    share = before[-1] / max(partitions, 1)
    match_nothing = np.zeros(len(found.weights), bool)
    if not nulls_equal:
        for column in found.keys.columns:
            match_nothing |= np.asarray(column.is_null())
    chosen: dict[int, tuple[bool, bool]] = {}  # by sample: (bound is before its whole key, key is lent)
    filled_from = 0  # the first sample of the partition being filled
    for begin, end in _keys_that_matter(found.begins, ends, before, share):
        if before[begin] - before[filled_from] >= share / 2:
            chosen.setdefault(begin, (True, False))
            filled_from = begin
        if before[end] - before[begin] <= share:
            continue
        pieces = round((before[end] - before[begin]) / share)
        is_lent = not match_nothing[begin]
        cuts = _cuts_within(found, begin, end, pieces, divided if is_lent else None)
        if cuts:
            chosen.setdefault(begin, (True, False))
            chosen |= {cut: (False, is_lent) for cut in cuts}
        chosen.setdefault(end, (True, False))
        filled_from = end
    chosen.pop(0, None)
    chosen.pop(len(found.weights), None)
    are = list(chosen.values())
    return found.bounds(list(chosen), [whole for whole, _ in are], [lent for _, lent in are])


def _keys_that_matter(begins: Array, ends: Array, before: Array, share: float) -> list[tuple[int, int]]:
    """The keys that exceed a share, and of the others those nearest to multiples of a share."""
    heavy = before[ends] - before[begins] > share
    nearest = np.searchsorted(before[begins], np.arange(1, before[-1] / max(share, 1e-300)) * share)
    wanted = np.unique(np.concatenate([np.flatnonzero(heavy), nearest[nearest < len(begins)]]))
    return [(int(begins[at]), int(ends[at])) for at in wanted]


def _cuts_within(found: _Samples, begin: int, end: int, pieces: int, divided: Sequence[int] | None) -> list[int]:
    """Samples that cut a key into ``pieces``: of the heavier one of the ``divided`` sides, or if ``None`` of both."""
    there = np.arange(begin, end)
    if divided is not None:
        of_sides = [there[found.sides[begin:end] == side] for side in divided]
        if not of_sides:
            return []
        there = max(of_sides, key=lambda each: float(found.weights[each].sum()))
    before = np.cumsum(found.weights[there]) - found.weights[there]
    shares = np.arange(1, pieces) * (found.weights[there].sum() / max(pieces, 1))
    return [int(there[at]) for at in np.unique(np.searchsorted(before, shares)) if 0 < at < len(there)]


def cut(sorted_keys: pa.Table, rows: Array, by: list[SortKey], bounds: Bounds, split: int, side: int = 0) -> Array:
    """The half-open range of each partition's rows among the sorted rows of a split: (partitions, 2).

    ``rows`` are the numbers of the sorted rows in the split. Rows that are lent belong to several partitions.
    """
    ends = np.zeros((bounds.partitions, 2), np.int64)
    ends[-1, 1] = sorted_keys.num_rows
    if not sorted_keys.num_rows or not len(bounds):
        return ends  # without rows, all ranges are empty; without bounds, there is only one
    keys = RowKeys(sorted_keys, by, comparable=True).core
    of_bounds = RowKeys(bounds.keys, by, comparable=True).core
    for number in range(len(bounds)):
        first = keys.rows_before(of_bounds, number, or_equal=False)
        behind = keys.rows_before(of_bounds, number, or_equal=True)
        begins = ends_at = first
        if bounds.splits[number] != WHOLE_KEY:
            if bounds.sides[number] != side and bounds.are_lent[number]:
                ends_at = behind
            elif bounds.sides[number] != side:
                begins = ends_at = first if side > bounds.sides[number] else behind
            elif split < bounds.splits[number]:
                begins = ends_at = behind
            elif split == bounds.splits[number]:
                within = np.searchsorted(rows[first:behind], bounds.rows[number])
                begins = ends_at = first + int(within)
        ends[number, 1], ends[number + 1, 0] = ends_at, begins
    return ends
