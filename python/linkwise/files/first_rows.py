"""The first rows of a sorted file: their keys are read first, and then the rows themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from linkwise._typing import Rows
from linkwise.columns.gather import gather_rows
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.inside import outer_columns
from linkwise.columns.key_types import arrow_of_numbers, is_number
from linkwise.columns.sort_keys import Selection, SortKey
from linkwise.files.reading.parquet.statistics import integer_of
from linkwise.files.reading.reader import Candidates, Found, Reader, unused_name
from linkwise.runtime.execution import ExecutionOptions
from linkwise.sorting.report import SortReport, Steps
from linkwise.sorting.tables import candidates_for, sort_table

_AT_ONCE = 1 << 20  # rows among which candidates are selected at once, in cache
_HELD = 1 << 14  # rows that are held before the best of them are selected


class FirstRows:
    """A search for the first rows of a reader's, by their keys."""

    def __init__(self, reader: Reader, keys: list[SortKey], limit: int, execution: ExecutionOptions) -> None:
        self._reader, self._keys, self._limit, self._execution = reader, keys, limit, execution
        sorted_by = outer_columns([key.column for key in keys], reader.columns)
        # Those of the filter are decoded with them anyway, and kept if they are small.
        filtered_by = [name for name in reader.filtered_by if name in reader.columns and self._is_number(name)]
        self._columns = list(dict.fromkeys([*sorted_by, *filtered_by]))
        self._number = unused_name("number", self._columns)
        self._reports: list[SortReport] = []
        self._are_enough = False  # the best rows so far: as many as are wanted
        self._last: int | None = None  # the first key of the last of these, if statistics can tell what is beyond it

    def _is_number(self, name: str) -> bool:
        assert self._reader.schema is not None
        return is_number(self._reader.schema.field(name).type)

    def fetch(self, most_bytes: int | None, steps: Steps) -> tuple[pa.Table, SortReport]:
        """The rows in order. With ``most_bytes``, about as much is in memory at once."""
        wanted = Candidates(self._keys[0].column, self._keys[0].descending, self._may_lie_between, self._positions_in)
        found = self._reader.candidates(self._columns, wanted, most_bytes)
        with steps.within("sort"):
            count, best = self._best_of(steps.timed("read", found))
        in_order = self._with_all_columns(best, most_bytes, steps)
        report = SortReport.together(self._reports)
        size = bytes_of(in_order) // max(in_order.num_rows, 1) * count
        return in_order, dataclasses.replace(report, rows=count, bytes=size)

    def _with_all_columns(self, best: pa.Table, most_bytes: int | None, steps: Steps) -> pa.Table:
        """The best rows, with the columns that have not been decoded yet."""
        columns = self._reader.columns
        others = [name for name in columns if name not in self._columns]
        found = best
        if others:
            rows = best[self._number].to_numpy()
            with steps.within("read"):
                fetched = self._reader.fetch(np.sort(rows), most_bytes, others)
            steps.begin("rows")
            found = gather_rows(fetched, np.argsort(np.argsort(rows)))
        return pa.table([(found if name in others else best)[name] for name in columns], schema=self._reader.schema)

    def _best_of(self, parts: Iterator[Found]) -> tuple[int, pa.Table]:
        """The number of all rows, and the first of them with their numbers."""
        held: list[pa.Table] = []
        count = rows = 0
        for part in parts:
            held.append(part.rows.append_column(self._number, arrow_of_numbers(part.numbers)))
            count, rows = count + part.of, rows + part.rows.num_rows
            if not self._are_enough or rows > _HELD + 4 * self._limit:
                held = [self._best(held)]
                rows = held[0].num_rows
        return count, self._best(held)

    def _best(self, held: list[pa.Table]) -> pa.Table:
        whole = pa.concat_tables(held)
        # Parts come in any order, but of rows with equal keys the first are wanted.
        in_file = gather_rows(whole, np.argsort(whole[self._number].to_numpy()))
        best, report = sort_table(in_file, self._keys, self._execution, Selection(limit=self._limit))
        self._reports.append(report)
        self._are_enough = best.num_rows == self._limit
        if self._are_enough and self._limit > 0 and self._keys[0].column in self._columns:
            self._last = integer_of(best[self._keys[0].column][self._limit - 1])
        return best

    def _may_lie_between(self, least: int, greatest: int) -> bool:
        last = self._last
        return last is None or (greatest >= last if self._keys[0].descending else least <= last)

    def _positions_in(self, table: pa.Table) -> Rows:
        slices = range(0, max(table.num_rows, 1), _AT_ONCE)
        return np.concatenate([
            candidates_for(table.slice(first, _AT_ONCE), self._keys, self._limit).astype(np.int64) + first
            for first in slices
        ])  # fmt: skip
