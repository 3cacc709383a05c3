"""Joining tables that do not fit into host memory: both are sorted by spilled runs, and joined by ranges of keys.

Rows whose keys are below both inputs' last-read keys can be joined; no more of them can arrive. All rows of a key are
in one part, whatever the kind of join; only the rows of a single key must fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pyarrow as pa

from linkwise._core import UsageError
from linkwise.columns.decode import decoded
from linkwise.columns.gather_pyarrow import empty_table
from linkwise.columns.sort_keys import SortKey
from linkwise.files.reading.reader import in_parts, numbered, unused_name
from linkwise.files.reading.within_memory import BATCHES_IN_MEMORY
from linkwise.files.spilling.external_sort import SpillSort
from linkwise.joining.joined_rows import KeyPairs
from linkwise.joining.matching import How, Order, not_presorted
from linkwise.joining.type_promotion import common_type, comparable, has_floats
from linkwise.runtime.execution import ExecutionOptions, Progress
from linkwise.sorting.check import each_checked
from linkwise.sorting.row_keys import RowKeys
from linkwise.sorting.tables import sort_table

Parts = tuple[pa.Table, pa.Table]
_PARTS = 16  # small parts are combined up to memory / _PARTS before they are joined
_SORTS = 3  # that may have blocks in memory at once: of both sides, and of results in left order


@dataclass(frozen=True)
class Side:
    """A relation: its schema, its rows, and their total bytes if known."""

    schema: pa.Schema
    batches: Iterable[pa.Table]
    size: int | None


def _with_numbers(side: Side, name: str) -> Side:
    """The side with its row numbers as another column."""
    schema = side.schema.append(pa.field(name, pa.int64()))
    return replace(side, schema=schema, batches=numbered(side.batches, name))


@dataclass(frozen=True)
class SpilledJoin:
    """A join of two relations by sorted, spilled runs, within a memory limit."""

    keys: KeyPairs
    how: How
    execution: ExecutionOptions
    memory: int  # bytes of host memory
    directory: Path | None
    presorted: tuple[bool, bool]
    order: Order = None
    on_progress: Progress = lambda _: None

    @contextmanager
    def rows(
        self, left: Side, right: Side, join: Callable[[pa.Table, pa.Table], Iterator[pa.Table]]
    ) -> Iterator[Iterator[pa.Table]]:
        """The result, a table at a time; ``join`` joins parts that fit into memory.

        Rows are in key order, or in left order for semi and anti joins and for ``order="left"``.
        """
        if self.how not in ("semi", "anti") and self.order != "left":
            with self.parts(left, right) as parts:
                yield (table for part in parts for table in join(*part))
            return
        names = [*left.schema.names, *right.schema.names]
        numbers = [unused_name("row", names)]
        left = _with_numbers(left, numbers[0])
        if self.how in ("right", "full"):  # rows without a left partner, in the order of the right side
            numbers.append(unused_name("row", [*names, *numbers]))
            right = _with_numbers(right, numbers[1])
        schema = next(join(empty_table(left.schema), empty_table(right.schema))).schema
        with self.parts(left, right) as parts:
            sort = self._sort([*map(SortKey, numbers)], left.size)
            batches = (batch for part in parts for table in join(*part) for batch in table.to_batches())
            of_parts = in_parts(batches, schema, max(sort.memory // BATCHES_IN_MEMORY, 1))
            with sort.merged(of_parts) as (runs, tables):
                yield (table.drop_columns(numbers) for table in (tables if runs else [empty_table(schema)]))

    @contextmanager
    def parts(self, left: Side, right: Side) -> Iterator[Iterator[Parts]]:
        """Consecutive parts of both sides; all rows of a key are in one part. Raises ``UsageError``."""
        done = [0.0, 0.0]  # of each side's sort

        def told(side: int) -> Progress:
            def tell(fraction: float) -> None:
                done[side] = fraction
                self.on_progress(sum(done) / len(done))

            return tell

        with ExitStack() as stack:
            cursors = []
            for at, (side, other) in enumerate(((left, right), (right, left))):
                keys = _KeyColumns(self.keys, at, side.schema, other.schema)
                tables: Iterator[pa.Table] = map(keys.added, side.batches)
                if self.presorted[at]:
                    tables = _checked(tables, keys.own if keys.order_otherwise else keys.by, ("left", "right")[at])
                if not self.presorted[at] or keys.order_otherwise:
                    sort = replace(self._sort(keys.by, side.size), on_progress=told(at))
                    _, tables = stack.enter_context(sort.merged(tables))
                cursors.append(_Cursor(tables, keys, side.schema))
            yield _at_least(_parts_of_equal_keys(*cursors), self.memory // _PARTS)

    def _sort(self, by: list[SortKey], size: int | None) -> SpillSort:
        return SpillSort(
            by,
            lambda table: sort_table(table, by, self.execution)[0],
            unique=False,
            memory=max(self.memory // _SORTS, 1),
            size=size,
            directory=self.directory,
            verify=self.execution.verify,
        )


class _KeyColumns:
    """The sort keys of one side: its own columns where they can be compared directly, otherwise converted copies."""

    def __init__(self, keys: KeyPairs, at: int, mine: pa.Schema, others: pa.Schema) -> None:
        self.by: list[SortKey] = []
        self.own = [SortKey(pair[at]) for pair in keys.pairs]
        # Sorted tables have -0.0 before 0.0, which joins treat as one key: later key columns are out of order then.
        self.order_otherwise = any(has_floats(mine.field(key.column).type) for key in self.own[:-1])
        self._made: list[tuple[str, str, pa.DataType, tuple[str, str]]] = []
        names = list(mine.names)
        for pair in keys.pairs:
            name, kind = pair[at], mine.field(pair[at]).type
            of_both = common_type(kind, others.field(pair[1 - at]).type, pair)
            if of_both != kind or has_floats(kind):
                name = unused_name(f"{name} as a key", names)
                names.append(name)
                self._made.append((name, pair[at], of_both, pair))
            self.by.append(SortKey(name))

    def added(self, table: pa.Table) -> pa.Table:
        """The table with the converted key columns appended."""
        for name, source, kind, pair in self._made:
            table = table.append_column(name, decoded(comparable(table[source], kind, pair)))
        return table

    def of(self, table: pa.Table) -> RowKeys:
        """The keys of a table's rows."""
        return RowKeys(table, self.by, comparable=True)


class _Cursor:
    """A position in the sorted rows of a side: those that are buffered, and those still to be read."""

    def __init__(self, tables: Iterator[pa.Table], keys: _KeyColumns, schema: pa.Schema) -> None:
        self._tables, self._keys, self._columns = tables, keys, schema.names
        self._next = next(tables, None)
        self._rows = keys.added(empty_table(schema))
        self._row_keys: RowKeys | None = None

    @property
    def is_last(self) -> bool:
        """Whether nothing is left to read."""
        return self._next is None

    @property
    def rows(self) -> int:
        """The number of buffered rows."""
        return int(self._rows.num_rows)

    def read(self) -> None:
        """Buffer the rows of the next table."""
        self._rows = pa.concat_tables([self._rows, self._next])
        self._next, self._row_keys = next(self._tables, None), None

    def last_key(self) -> RowKeys:
        """The key of the last buffered row."""
        return self._keys.of(self._rows.slice(self.rows - 1))

    def before(self, bound: RowKeys | None) -> int:
        """How many buffered rows come before ``bound``; all if it is ``None``."""
        if bound is None:
            return self.rows
        self._row_keys = self._row_keys or self._keys.of(self._rows)
        return int(self._row_keys.core.rows_before(bound.core, 0, or_equal=False))

    def take(self, rows: int) -> pa.Table:
        """Remove the first buffered rows and return them without the converted key columns."""
        taken = self._rows.slice(0, rows).select(self._columns)
        self._rows, self._row_keys = self._rows.slice(rows), None
        return taken


def _parts_of_equal_keys(left: _Cursor, right: _Cursor) -> Iterator[Parts]:
    """Parts whose keys are known to be complete on both sides, until all rows have been taken."""
    sides = left, right
    while True:
        for side in sides:
            while not side.rows and not side.is_last:
                side.read()
        # A side with unread rows is complete below its last buffered key; the smaller of these keys is the bound.
        last_keys = [(side.last_key(), side) for side in sides if not side.is_last]
        bound, least = min(
            last_keys, key=lambda last: sum(side.before(last[0]) for side in sides), default=(None, None)
        )
        rows = [side.before(bound) for side in sides]
        if any(rows) or least is None:
            yield left.take(rows[0]), right.take(rows[1])
            if least is None:
                return
        else:  # all buffered rows of that side have the same key
            least.read()


def _at_least(parts: Iterator[Parts], size: int) -> Iterator[Parts]:
    """Combine parts to at least ``size`` bytes, except for the last: every join has a fixed cost."""
    held: list[Parts] = []
    held_size = 0
    for part in parts:
        held.append(part)
        held_size += sum(side.nbytes for side in part)
        if held_size >= size:
            yield _together(held)
            held, held_size = [], 0
    if held:
        yield _together(held)


def _together(parts: list[Parts]) -> Parts:
    left, right = (pa.concat_tables(side) for side in zip(*parts, strict=True))
    return left, right


def _checked(tables: Iterable[pa.Table], by: list[SortKey], side: str) -> Iterator[pa.Table]:
    for table, row in each_checked(tables, by):
        if row is not None:
            raise UsageError(not_presorted(side, row))
        yield cast(pa.Table, table)
