"""Joins of columns that stay on the GPUs between steps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

from linkwise import _core
from linkwise._core import UsageError
from linkwise.joining.device.device_join import Pairs, by_left_rows, found_rows
from linkwise.joining.host_join import leaves_to_gpus
from linkwise.joining.matching import Order
from linkwise.planning.constraints import resident_plan
from linkwise.sorting.device.brought import TextExtent
from linkwise.sorting.device.device_columns import MOST_ROWS, Column, GpuColumns, Parts, Strings, lengths_of
from linkwise.sorting.device.text_keys import text_keys


class JoinableColumns(GpuColumns):
    """The same, with joins."""

    def can_join(self, left_rows: int, right_rows: int) -> bool:
        """Whether the options leave a join of this size to GPUs, and these can read each other's memory."""
        if not leaves_to_gpus(self.execution, left_rows, right_rows) or max(left_rows, right_rows) > MOST_ROWS:
            return False
        if self.execution.machine in ("auto", "local") and _core.cuda_unavailable_reason():
            return False
        with self.session() as (runtime, gpus):
            return runtime.reach_each_other(gpus)

    def pack(self, left: list[Parts], right: list[Parts]) -> tuple[Parts, Parts] | None:
        """Pack the integers of each row into one key of 4 or 8 bytes; ``None`` if they do not fit into 64 bits.

        The columns of a pair are both signed or both unsigned; all columns of a side have the same rows on each GPU.
        """
        with self.session() as (runtime, gpus):
            return _core.pack_keys(runtime, gpus, left, right)

    def matches(self, left: Parts, right: Parts, how: str, order: Order) -> tuple[Parts, Parts | None]:
        """The row numbers of a join of any kind: of the left side alone for semi and anti joins."""
        with self.session() as (runtime, gpus):
            return self._matches(runtime, gpus, left, right, how, order)

    def joined_codes(self, column: Parts) -> Parts:
        """Unsigned integers in the order of a column's values, equal for values that joins take for equal."""
        with self.session() as (runtime, gpus):
            return _core.joined_codes(runtime, gpus, column)

    def codes_of_key(self, key: Column) -> Column:
        """What is equal where keys are: strings themselves, and ``joined_codes`` of numbers."""
        return key if isinstance(key, Strings) else self.joined_codes(key)

    def common_ranks(self, left: Sequence[Column], right: Sequence[Column]) -> tuple[Parts, Parts]:
        """Both sides' rows as numbers of 4 bytes, in the order of the columns, and equal where all columns are.

        The columns of a pair are strings, or have elements of one type; they are sorted together. The sides have fewer
        than 2**32 rows together.
        """
        lengths = lengths_of(left[0]), lengths_of(right[0])
        all_rows = self._all_rows(*lengths)
        both = [self._of_both_sides(*pair, all_rows) for pair in zip(left, right, strict=True)]
        return self._apart(self.row_ranks(list(itertools.chain(*both))), *lengths)

    def _of_both_sides(self, left: Column, right: Column, all_rows: Parts) -> list[Parts]:
        """Both sides' rows as columns to sort by."""
        if not isinstance(left, Strings) or not isinstance(right, Strings):
            return [self.take([*left, *right], all_rows)]
        strings = self.take_strings(left.then(right), all_rows)
        return text_keys(self, strings, TextExtent.of(*self.extent(strings, None)), None)

    def _all_rows(self, left: Sequence[int], right: Sequence[int]) -> Parts:
        """The numbers of both sides' rows, the left ones first, on GPUs that have so many of each."""
        if sum(left) + sum(right) > MOST_ROWS:
            raise UsageError("wide keys are joined on the GPUs if both tables have fewer than 2**32 rows together")
        return self.numbers([sum(each) for each in zip(left, right, strict=True)])

    def _apart(self, column: Parts, left: Sequence[int], right: Sequence[int]) -> tuple[Parts, Parts]:
        """A column of both sides' rows as one of each side."""
        after_left = self.coalesced(self.no_rows(right), self.numbers(right), sum(left))
        return self.take(column, self.numbers(left)), self.take(column, after_left)

    def row_hashes(self, columns: Sequence[Column]) -> Parts:
        """A hash of 64 bits of each row of these columns, which are strings or have elements of 4 or 8 bytes."""
        with self.session() as (runtime, gpus):
            return _core.row_hashes(runtime, gpus, columns)

    def are_equal(self, left: Sequence[Column], left_rows: Parts, right: Sequence[Column], right_rows: Parts) -> bool:
        """Whether in all pairs of rows the columns of both sides are equal; a pair without one side is."""
        with self.session() as (runtime, gpus):
            return _core.unequal_pairs(runtime, gpus, left, left_rows, right, right_rows) == 0

    def by_left_rows(self, left: Parts, right: Parts | None) -> tuple[Parts, Parts | None]:
        """A join's rows in the order of the left side, and of a row's partners that of the right; no row comes last."""
        with self.session() as (runtime, gpus):
            rights: list[Any] = right or [None] * len(left)
            pairs = list(zip(left, rights, strict=True))
            plan = resident_plan(self.execution, gpus)
            return _sides_of(by_left_rows(runtime, plan, pairs, verify=self.execution.verify))

    def rows_without_nulls(self, nulls: Parts) -> Parts:
        """The row numbers of the zeros among such bytes, in any order: a semi join with a single 0 finds them."""
        with self.session() as (runtime, gpus):
            zero = _core.column_without_nulls(runtime, gpus, [int(g == 0) for g in range(len(gpus))])
            return self._matches(runtime, gpus, nulls, zero, "semi", None)[0]

    def other_rows(self, rows: Parts, lengths: Sequence[int]) -> Parts:
        """The numbers of the other rows of a column with so many on each GPU, in any order."""
        with self.session() as (runtime, gpus):
            return self._matches(runtime, gpus, _core.number_rows(runtime, gpus, lengths), rows, "anti", None)[0]

    def _matches(
        self, runtime: _core.Runtime, gpus: list[int], left: Parts, right: Parts, how: str, order: Order
    ) -> tuple[Parts, Parts | None]:
        plan = _core.JoinPlan()
        plan.sort = resident_plan(self.execution, gpus)
        no_streams = [None] * len(gpus)
        of_left, of_right = (_core.ArraysOfSide(cast(list[Any], keys), [], no_streams) for keys in (left, right))
        found = found_rows(
            runtime, plan, of_left, of_right, how, order, verify=self.execution.verify, row_number_bytes=4
        )
        return _sides_of(found)


def _sides_of(pairs: Pairs) -> tuple[Parts, Parts | None]:
    rights = [rows for _, rows in pairs]
    return [rows for rows, _ in pairs], None if rights[0] is None else rights
