"""Verification of joins against checksums of both inputs, for ``verify="all"``; see ``pair_sums``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from linkwise._arrow import pa
from linkwise._core import CorruptDataError, UsageError
from linkwise._typing import Array, Rows
from linkwise.columns.decode import decoded
from linkwise.columns.gather import gather_rows
from linkwise.columns.row_checksum import Hashes, row_hashes
from linkwise.joining.joined_rows import KeyPairs
from linkwise.joining.key_bits import without_nulls
from linkwise.joining.matches import Matches
from linkwise.joining.pair_sums import (
    PairSum,
    SideSums,
    check_pairs,
    hashes_of_rows,
    odd_hashes,
    of_matches,
    of_pairs,
    of_rows,
    of_rows_that,
    together_all,
)
from linkwise.joining.type_promotion import in_one_type, together

Batches = Callable[[], Iterable[pa.Table]]
_ONE_SIDED = ("semi", "anti")
_BY_KEY = 24  # bytes for each key: its hash, count and sum


class JoinCheck:
    """Compares the checksum of a join's rows with the one expected from both inputs.

    ``left`` and ``right`` return the tables of a side from the beginning on each call; ``schemas`` are those of the
    left side, the right side and the result. Keys are summed in ``parts`` passes, each of which takes less memory.
    """

    def __init__(
        self, left: Batches, right: Batches, schemas: tuple[pa.Schema, pa.Schema, pa.Schema], keys: KeyPairs, how: str,
        *, nulls_equal: bool, parts: int = 1,
    ) -> None:  # fmt: skip
        self._sides, self._keys, self._how = (left, right), keys, how
        self._schemas, self._nulls_equal, self._parts = schemas[:2], nulls_equal, parts
        # The columns of each side that the result shows, by position, since names on the left may repeat.
        once = keys.merged.values()
        of_left, of_right = (keys.shown(schema, side) for side, schema in enumerate(schemas[:2]))
        self._columns = of_left, [at for at in of_right if schemas[1].names[at] not in once]
        self._shown = pa.schema(list(schemas[2])[: len(of_left)]), pa.schema(list(schemas[2])[len(of_left) :])
        self._one_key = keys.merged if how in ("right", "full") else {}
        self._found = PairSum(0, 0)
        self._lock = threading.Lock()

    def see(self, table: pa.Table) -> pa.Table:
        """Add rows of the result to the checksum, and return them. Thread-safe."""
        lefts = len(self._shown[0])
        shown = odd_hashes(table.select(range(lefts)))
        if self._how in _ONE_SIDED:
            more = of_rows(shown)
        else:
            more = of_pairs(shown, odd_hashes(table.select(range(lefts, table.num_columns))))
        with self._lock:
            self._found = together_all([self._found, more])
        return table

    def check(self) -> None:
        """Raise ``CorruptDataError`` unless all rows of the join were seen, and no others."""
        check_pairs(self.expected(), self._found)

    def expected(self) -> PairSum:
        """The checksum of the result that both sides imply."""
        return together_all(self._expected_of(part) for part in range(self._parts))

    def _expected_of(self, part: int) -> PairSum:
        sums = SideSums(), SideSums()
        for side in (0, 1):
            for table in self._sides[side]():
                keys, can = self._keys_of(table, side)
                rows = self._hashes(table, side)
                mine = keys % np.uint64(self._parts) == part
                sums[side].add(keys[mine], can[mine], rows[mine])
        left, right = sums
        if self._how in _ONE_SIDED:
            return of_rows_that(self._how == "semi", left, right)
        found = [of_matches(left, right)]
        if self._how in ("left", "full"):
            alone = of_rows_that(False, left, right)
            found.append(PairSum(alone.rows, alone.total * self._nothing(1)))
        if self._how in ("right", "full"):
            found.append(self._of_right_alone(part, left))
        return together_all(found)

    def _of_right_alone(self, part: int, left: SideSums) -> PairSum:
        """The sum over right rows without a match; if the key columns are merged, these rows fill them."""
        known = left.by_key()[0]
        found = []
        for some in self._sides[1]():
            keys, can = self._keys_of(some, 1)
            alone = (keys % np.uint64(self._parts) == part) & (~can | ~np.isin(keys, known))
            table = gather_rows(some, np.flatnonzero(alone))
            columns = [
                self._in_one_type(field.name, right=table) if field.name in self._one_key else _nulls(table, field)
                for field in self._shown[0]
            ]
            found.append(of_pairs(odd_hashes(_numbered(columns)), self._hashes(table, 1)))
        return together_all(found)

    def _keys_of(self, table: pa.Table, side: int) -> tuple[Hashes, Array]:
        """The hash of each row's key, equal for matching keys, and whether the key can match at all."""
        tables = (table, None) if side == 0 else (None, table)
        columns = [together(*self._pair(pair, *tables), pair) for pair in self._keys.pairs]
        own = [table[pair[side]] for pair in self._keys.pairs]
        return row_hashes(_numbered(columns)), _can_match(own, nulls_equal=self._nulls_equal)

    def _hashes(self, table: pa.Table, side: int) -> Hashes:
        """The hashes of a side's rows as the result shows them."""
        shown = self._columns[side] if self._how not in _ONE_SIDED or side == 0 else []
        columns = [
            self._in_one_type(table.field(at).name, left=table)
            if side == 0 and table.field(at).name in self._one_key
            else table.column(at)
            for at in shown
        ]
        return odd_hashes(_numbered(columns)) if columns else np.ones(table.num_rows, np.uint64)

    def _in_one_type(self, name: str, *, left: pa.Table | None = None, right: pa.Table | None = None) -> Any:
        """The key of some rows in the type that the result has for the keys of both sides."""
        pair = name, self._one_key[name]
        return in_one_type(*self._pair(pair, left, right), pair)

    def _pair(
        self, pair: tuple[str, str], left: pa.Table | None, right: pa.Table | None
    ) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """A key's columns of both sides, of which one may have no rows."""
        one, other = (
            pa.chunked_array([], schema.field(name).type) if table is None else table[name]
            for name, table, schema in zip(pair, (left, right), self._schemas, strict=True)
        )
        return one, other

    def _nothing(self, side: int) -> int:
        one = pa.table([pa.array([0])], ["row"])
        columns = [_nulls(one, field) for field in self._shown[side]]
        return int(odd_hashes(_numbered(columns))[0]) if columns else 1


def check_join(
    left: pa.Table, right: pa.Table, result: pa.Table, keys: KeyPairs, how: str, *, nulls_equal: bool
) -> None:
    """Raise ``CorruptDataError`` unless a table is the join of two others."""
    schemas = left.schema, right.schema, result.schema
    check = JoinCheck(lambda: [left], lambda: [right], schemas, keys, how, nulls_equal=nulls_equal)
    check.see(result)
    check.check()


def parts_for(rows: int, memory: int) -> int:
    """The number of passes in which the per-key sums of this many rows take at most a quarter of the memory."""
    return max(1, -(-rows * _BY_KEY * 4 // max(memory, 1)))


def _numbered(columns: Sequence[Any]) -> pa.Table:
    return pa.table(list(columns), [str(at) for at in range(len(columns))])


def _nulls(table: pa.Table, field: pa.Field) -> pa.Array:
    """A column of nulls with as many rows as the table."""
    try:
        return pa.nulls(table.num_rows, field.type)
    except pa.ArrowNotImplementedError:
        raise UsageError(
            f"verify='all' cannot check rows without a match where column '{field.name}' is a {field.type}; leave the "
            "column out, or verify=True"
        ) from None


def _can_match(columns: Sequence[pa.ChunkedArray], *, nulls_equal: bool) -> Array:
    # The null count of dictionary and run-end encoded columns omits nulls among their values.
    valid = None if nulls_equal else without_nulls([decoded(column) for column in columns])
    return np.ones(len(columns[0]), bool) if valid is None else valid.view(np.bool_)


class CheckedMatches:
    """Matches whose results are all checked against the checksums of both sides."""

    def __init__(
        self, found: Matches, sides: Sequence[Sequence[pa.ChunkedArray]], names: Sequence[tuple[str, str]], *,
        nulls_equal: bool,
    ) -> None:  # fmt: skip
        self._found = found
        columns = [together(one, other, of_both) for one, other, of_both in zip(*sides, names, strict=True)]
        keys, lefts = row_hashes(_numbered(columns)), len(sides[0][0])
        self._sums: list[SideSums] = []
        for side, of_side in zip(sides, (keys[:lefts], keys[lefts:]), strict=True):
            self._sums.append(SideSums())
            rows = hashes_of_rows(np.arange(len(of_side)))
            self._sums[-1].add(of_side, _can_match(side, nulls_equal=nulls_equal), rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)

    def _expected(self, how: str) -> PairSum:
        left, right = self._sums
        if how in _ONE_SIDED:
            return of_rows_that(how == "semi", left, right)
        nothing = int(hashes_of_rows(np.array([-1]))[0])
        found = [of_matches(left, right)]
        for side, other, hows in ((left, right, ("left", "full")), (right, left, ("right", "full"))):
            if how in hows:
                alone = of_rows_that(False, side, other)
                found.append(PairSum(alone.rows, alone.total * nothing))
        return together_all(found)

    def count(self, how: str) -> int:
        """See ``Matches``."""
        rows = int(self._found.count(how))
        wanted = self._expected(how)
        check_pairs(wanted, PairSum(rows, wanted.total))
        return rows

    def indices(self, how: str) -> tuple[Rows, Rows | None]:
        """See ``Matches``."""
        left, right = self._found.indices(how)
        of_left = hashes_of_rows(left)
        found = of_rows(of_left) if right is None else of_pairs(of_left, hashes_of_rows(right))
        check_pairs(self._expected(how), found)
        return left, right

    def ranges(self) -> tuple[Rows, Rows, Rows, Rows]:
        """See ``Matches``."""
        left_rows, left_first, right_rows, right_first = self._found.ranges()
        for first, of_side in ((left_first, left_rows), (right_first, right_rows)):
            if len(first) and (first[0] < 0 or first[-1] > len(of_side) or (np.diff(first) < 0).any()):
                raise CorruptDataError(
                    "ranges of rows came back that no key has; check the host's memory and the links, and run again"
                )
        rows, total = 0, 0
        if len(left_first) > 1 and len(left_rows) and len(right_rows):
            left, right = (
                np.add.reduceat(hashes_of_rows(of_side), first[:-1])
                for of_side, first in ((left_rows, left_first), (right_rows, right_first))
            )
            total = int((left * right).sum(dtype=np.uint64))
            rows = sum(a * b for a, b in zip(np.diff(left_first).tolist(), np.diff(right_first).tolist(), strict=True))
        check_pairs(self._expected("inner"), PairSum(rows, total))
        return left_rows, left_first, right_rows, right_first
