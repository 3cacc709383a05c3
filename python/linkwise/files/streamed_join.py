"""Joins of files where one side fits into memory: the other one is streamed, part by part, and probes its table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from linkwise import _core
from linkwise._core import UsageError
from linkwise.columns.gather_pyarrow import empty_table
from linkwise.files.reading.reader import Part, Reader
from linkwise.files.writing.free_space import Outlook
from linkwise.files.writing.writer import TableWriter
from linkwise.joining.hash_join import HashMatches
from linkwise.joining.host_join import may_hash
from linkwise.joining.joined_rows import JoinedRows, KeyPairs
from linkwise.joining.shared_table import SharedTable
from linkwise.joining.type_promotion import common_type
from linkwise.runtime.execution import ExecutionOptions, Progress
from linkwise.runtime.parallel import in_order
from linkwise.sorting.report import Steps

_PART_ROWS, _MOST_PART_ROWS = 1 << 18, 1 << 20
_PARTS_PER_CORE = 4  # or more, so that all cores are busy until the end
_TABLE_BYTES = 40  # per row of the build side: its entry in the hash table, and what building it takes
_OF_MEMORY = 3  # the build side may take memory / _OF_MEMORY
_PARTS_AHEAD = 4  # per core: one being decoded, one joined, one encoded, and one that waits
_ON_CORES = ExecutionOptions(strategy="cpu")
Result = TypeVar("Result")


@dataclass(frozen=True)
class _PartOfResult:
    """What a part of the probe side makes of the result."""

    of_rows: int
    """The rows of the part."""
    count: int
    """The rows of the result."""
    rows: pa.Table | Callable[[int, int], pa.Table] | None
    """Few rows themselves, gathered where the part was probed; of many, what gathers some of them."""


@dataclass(frozen=True)
class StreamedJoin:
    """A hash join of a build side in memory with a probe side that is streamed, never in memory as a whole."""

    readers: Sequence[Reader]
    keys: KeyPairs
    how: str
    sides: list[int]
    """The sides that may be the build side, whatever their size."""
    nulls_equal: bool
    memory: int
    validate: str
    steps: Steps

    @classmethod
    def of(
        cls, readers: Sequence[Reader], keys: KeyPairs, how: str, execution: ExecutionOptions, steps: Steps, *,
        order: str | None, presorted: bool, validate: str, nulls_equal: bool, memory: int,
    ) -> StreamedJoin | None:  # fmt: skip
        """``None`` where another strategy is requested, or needed for these keys."""
        if order == "key" or presorted or not may_hash(execution) or not _can_be_hashed(readers, keys):
            return None
        if how in ("right", "full") and _merges_dictionaries(readers, keys):
            return None  # the result's dictionary needs the values of both sides
        sides = [side for side in (0, 1) if _is_unique_by_table(side, validate)]
        if order == "left" and how not in ("semi", "anti"):
            sides = [side for side in sides if side == 1]
        return cls(readers, keys, how, sides, nulls_equal, memory, validate, steps) if sides else None

    @property
    def most_held(self) -> int:
        """Bytes that the build side may take, including its hash table."""
        return max(self.memory // _OF_MEMORY, 1)

    @cached_property
    def smaller(self) -> tuple[int, int] | None:
        """The smallest possible build side: its bytes and its number; ``None`` if no size is known."""
        sized = [(size, side) for side in self.sides if (size := _held_bytes(self.readers[side])) is not None]
        return min(sized, default=None)

    @property
    def fits(self) -> bool:
        """Whether the smaller side is known to fit into memory."""
        return self.smaller is not None and self.smaller[0] <= self.most_held

    @property
    def _held(self) -> int:
        assert self.smaller is not None
        return self.smaller[1]

    @property
    def told(self) -> str:
        """The strategy, in words."""
        return f"hash table of the {('left', 'right')[self._held]} side, the other one streamed"

    def count(self, on_progress: Progress) -> int:
        """The number of rows of the result."""
        table = self._table()

        def count_of(_: pa.Table, matches: HashMatches | None) -> int:
            return 0 if matches is None else table.count(matches)

        rows = sum(self._looked_up(table, count_of, on_progress))
        left, right = table.rows_behind()
        return rows + len(left if left is not None else right if right is not None else ())

    def write(self, writer: TableWriter, suffix: str, outlook: Outlook, on_progress: Progress) -> int:
        """Write the result; returns its number of rows. ``outlook`` raises if it does not fit on the disk."""
        joined = self.write_nothing(writer, suffix)  # raises errors before the work begins
        nothing = [empty_table(reader.schema) for reader in self.readers]
        held, table = self._held, self._table()
        whole_sides = self.how in ("right", "full") and bool(self.keys.merged)
        row_bytes = [_row_bytes(reader) for reader in self.readers]
        of_result = row_bytes[0] if self.how in ("semi", "anti") else sum(row_bytes)
        rows = 0

        def rows_of(part: pa.Table, matches: HashMatches, first: int, count: int) -> pa.Table:
            with self.steps.span("gather"):
                return table.rows(joined, part, matches, first, count, whole_sides=whole_sides)

        def made_of(part: pa.Table, matches: HashMatches | None) -> _PartOfResult:
            count = 0 if matches is None else table.count(matches)
            if matches is None or count < _PART_ROWS // 4:
                few = None if matches is None else rows_of(part, matches, 0, count)
                return _PartOfResult(part.num_rows, count, few)
            return _PartOfResult(part.num_rows, count, partial(rows_of, part, matches))

        for made in self._looked_up(table, made_of, on_progress):
            outlook.check(made.of_rows * row_bytes[1 - held], made.count * of_result)
            if isinstance(made.rows, pa.Table):
                writer.write(made.rows)
            elif made.rows is not None:
                writer.write_parts(made.count, of_result, made.rows, of_many=True)
            rows += made.count
        left, right = table.rows_behind()
        numbers = left if held == 0 else right
        if numbers is not None and len(numbers):
            sides = [table.table if side == held else nothing[side] for side in (0, 1)]

            def behind(first: int, count: int) -> pa.Table:
                some = slice(first, first + count)
                of_sides = [None if all_rows is None else all_rows[some] for all_rows in (left, right)]
                return joined.gathered(*sides, *of_sides)

            writer.write_parts(len(numbers), of_result, behind)
            rows += len(numbers)
        self.steps.begin("write")
        writer.flush()
        return rows

    def write_nothing(self, writer: TableWriter, suffix: str) -> JoinedRows:
        """Write an empty table with the result's schema; returns what gathers the rows of the result."""
        left, right = (reader.schema for reader in self.readers)
        assert left is not None and right is not None
        joined = JoinedRows(left, right, self.keys, self.how, suffix, _ON_CORES)
        no_rows = np.empty(0, np.int64)
        writer.write(joined.gathered(empty_table(left), empty_table(right), no_rows, no_rows))
        return joined

    def _table(self) -> SharedTable:
        self.steps.begin("read")
        with self.steps.span("read"):
            held = self.readers[self._held].everything()
        self.steps.begin("table")
        others = self.readers[1 - self._held]
        with self.steps.span("table"):
            table = SharedTable(
                held, others.schema, self.keys, self.how, is_left=self._held == 0, nulls_equal=self.nulls_equal
            )
        if self.validate[2 * self._held] == "1" and not table.is_unique:
            side = ("left", "right")[self._held]
            raise UsageError(f"a key occurs more than once on the {side}, which validate='{self.validate}' rules out")
        if self._drops_unmatched and not self.nulls_equal:
            self._leave_out_others(table)
        self.steps.begin("join")
        return table

    def _leave_out_others(self, table: SharedTable) -> None:
        """Skip row groups of the probe side whose statistics exclude every key of the table."""
        others, name = self.readers[1 - self._held], self.keys.pairs[0][1 - self._held]
        assert others.schema is not None
        key_range = table.key_range
        if key_range is not None:
            others.leave_out(name, *key_range)

    @property
    def _drops_unmatched(self) -> bool:
        """Whether the result has no probe-side rows without a match."""
        return self.how in ("inner", ("left", "right")[self._held]) or (
            self.how == "semi" or (self.how == "anti" and self._held == 0)
        )

    def _looked_up(
        self, table: SharedTable, made_of: Callable[[pa.Table, HashMatches | None], Result], on_progress: Progress
    ) -> Iterator[Result]:
        """What ``made_of`` makes of each part of the probe side and its matches, on all cores, in order."""
        reader = self.readers[1 - self._held]
        names = list(dict.fromkeys(pair[1 - self._held] for pair in self.keys.pairs))
        are_distinct = len({*reader.columns}) == len(reader.columns)
        keys_first = self._drops_unmatched and len(names) < len(reader.columns) and are_distinct
        all_rows, done = reader.rows, 0

        def looked_up(part: Part) -> tuple[int, Result]:
            with self.steps.span("decode"):
                of_keys = part.decode(names if keys_first else None)
            with self.steps.span("look up"):
                matches = table.look_up(of_keys)
            if matches is None or not keys_first:
                return part.rows, made_of(of_keys, matches)
            with self.steps.span("decode"):
                others = part.decode([name for name in reader.columns if name not in names])
            columns = [(of_keys if name in names else others)[name] for name in reader.columns]
            return part.rows, made_of(pa.table(columns, schema=reader.schema), matches)

        for rows, made in in_order(partial(looked_up, part) for part in parts_of(reader, self.memory)):
            yield made
            done += rows
            if all_rows:
                on_progress(min(done / all_rows, 1.0))


def parts_of(reader: Reader, memory: int) -> Iterator[Part]:
    """Parts of a streamed side, so small that all those in flight on the cores fit into its share of the memory.

    A long side is cut into longer parts: each call waits for the interpreter's lock, however many rows it is for.
    """
    cores = len(os.sched_getaffinity(0))
    most_bytes = max(memory // _OF_MEMORY // (_PARTS_AHEAD * cores), 1)
    wanted = min((reader.rows or 0) // (_PARTS_PER_CORE * cores), _MOST_PART_ROWS, most_bytes // _row_bytes(reader))
    return reader.parts(max(_PART_ROWS, wanted), most_bytes)


def _is_unique_by_table(side: int, validate: str) -> bool:
    """Whether a hash table of that side suffices for ``validate``: the other side's keys need not be unique."""
    return validate[2 * (1 - side)] != "1"


def _held_bytes(reader: Reader) -> int | None:
    """Bytes that a side takes in memory with its hash table; ``None`` if unknown."""
    return None if reader.size is None else reader.size + _TABLE_BYTES * (reader.size // _row_bytes(reader))


def _row_bytes(reader: Reader) -> int:
    rows = reader.rows
    if rows and reader.size:
        return max(reader.size // rows, 1)
    return 8 * max(len(reader.columns), 1)


def key_kinds(readers: Sequence[Reader], keys: KeyPairs) -> list[pa.DataType]:
    """The types that the keys of both sides have in common."""
    left, right = (reader.schema for reader in readers)
    assert left is not None and right is not None
    return [common_type(left.field(pair[0]).type, right.field(pair[1]).type, pair) for pair in keys.pairs]


def _can_be_hashed(readers: Sequence[Reader], keys: KeyPairs) -> bool:
    for kind in key_kinds(readers, keys):
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not _core.hash_rows([pa.array([], plain)], np.zeros(0, np.uint64)):
            return False
    return True


def _merges_dictionaries(readers: Sequence[Reader], keys: KeyPairs) -> bool:
    kinds = zip(keys.pairs, key_kinds(readers, keys), strict=True)
    return any(pa.types.is_dictionary(kind) for (name, _), kind in kinds if name in keys.merged)
