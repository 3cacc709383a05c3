"""Sparse matrices in compressed sparse row (CSR) form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linkwise._core import UsageError
from linkwise._typing import Array
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.host_memory import host_memory
from linkwise.sorting.arrays import order_of_array

_ROW_BYTES = 24  # memory per row while entries are counted


@dataclass(frozen=True)
class Matrix:
    """A CSR matrix: row ``i`` has the entries from ``first[i]`` up to ``first[i + 1]``, in ascending column order."""

    first: Array
    column: Array
    value: Array
    columns: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.first) - 1

    def transposed(self) -> Matrix:
        """The transposed matrix."""
        return matrix_of(self.column, self.rows_of_entries(), self.value, self.columns, self.rows)

    @property
    def entries_of_rows(self) -> Array:
        """The number of entries of each row."""
        first = self.first.astype(np.int64)
        counts: Array = first[1:] - first[:-1]
        return counts

    def rows_of_entries(self) -> Array:
        """The row of each entry."""
        return np.repeat(np.arange(self.rows, dtype=np.int64), self.entries_of_rows)


def matrix_of(row: Array, column: Array, value: Array, rows: int, columns: int) -> Matrix:
    """Build a matrix from entries in any order; of duplicates in one place, the first is kept."""
    free = host_memory("MemAvailable")
    if rows * _ROW_BYTES > free:
        raise UsageError(f"a matrix of {rows} rows takes more than the {free >> 20} MiB that are free")
    place = row.astype(np.uint64) * np.uint64(columns) + column.astype(np.uint64)
    at, _ = order_of_array(place, ExecutionOptions(strategy="cpu"), descending=False)
    place = place[at]
    at = at[np.append(True, place[1:] != place[:-1])[: len(at)]]
    row, column, value = row[at], column[at], value[at]
    first = np.zeros(rows + 1, np.uint64)
    np.cumsum(np.bincount(row, minlength=rows), out=first[1:])
    return Matrix(first, column.astype(np.uint32), value.astype(np.float32), columns)
