"""Records of the rows that stages write: their checksum, that they are in order, and the first and last keys."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa

from linkwise._core import CorruptDataError
from linkwise.columns.row_checksum import RowChecksum
from linkwise.columns.sort_keys import SortKey
from linkwise.files.writing.writer import TableWriter
from linkwise.interop.containers import Contents
from linkwise.sorting.check import first_out_of_order

RowSum = tuple[int, int]
"""As ``RowChecksum.value``."""


class Recorder:
    """A ``TableWriter`` that passes rows on to another one. Raises ``CorruptDataError`` if they are not in order.

    ``keys_of`` gives the columns that rows are compared ``by``; it is ``None`` for a result without an order.
    """

    def __init__(self, writer: TableWriter, keys_of: Callable[[pa.Table], pa.Table] | None, by: list[SortKey]) -> None:
        self._writer, self._keys_of, self._by = writer, keys_of, by
        self._checksum = RowChecksum()
        self._rows = 0  # submitted so far: the number of the next row
        self._ends: list[tuple[int, pa.Table]] = []  # for each part: the number of its first row, its end keys
        self._lock = threading.Lock()

    def write(self, contents: Contents) -> None:
        """See ``TableWriter``."""
        assert isinstance(contents, pa.Table)
        self._note(self._rows, contents)
        self._rows += contents.num_rows
        self._writer.write(contents)

    def write_parts(
        self, rows: int, row_bytes: int, make: Callable[[int, int], pa.Table], *, of_many: bool = False
    ) -> None:
        """See ``TableWriter``."""
        before = self._rows
        self._rows += rows

        def made(first: int, count: int) -> pa.Table:
            table = make(first, count)
            self._note(before + first, table)
            return table

        self._writer.write_parts(rows, row_bytes, made, of_many=of_many)

    def flush(self) -> None:
        """See ``TableWriter``."""
        self._writer.flush()

    def _note(self, number: int, table: pa.Table) -> None:
        if not table.num_rows:
            return
        self._checksum.add(table)
        if self._keys_of is None:
            return
        keys = self._keys_of(table)
        self._check(keys)
        with self._lock:
            ends = [keys.slice(0, 1), keys.slice(keys.num_rows - 1)]
            self._ends.append((number, pa.concat_tables(ends).combine_chunks()))

    def _check(self, keys: pa.Table) -> None:
        if first_out_of_order(keys, self._by) is not None:
            raise CorruptDataError("rows of a partition are not in order; memory or a disk may be faulty")

    @property
    def written(self) -> RowSum:
        """The checksum of all rows, once they are written."""
        return self._checksum.value

    def ends(self) -> pa.Table | None:
        """The keys of the first and of the last row, when all are written; ``None`` without rows, or without keys."""
        if not self._ends:
            return None
        in_order = [ends for _, ends in sorted(self._ends, key=lambda each: each[0])]
        every = pa.concat_tables(in_order)
        self._check(every)
        return pa.concat_tables([every.slice(0, 1), every.slice(every.num_rows - 1)]).combine_chunks()
