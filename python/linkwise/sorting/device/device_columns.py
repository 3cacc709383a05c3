"""Columns of numbers that stay on the GPUs between steps: copied in or lent, sorted, and gathered from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import Any, NamedTuple, cast
from weakref import WeakValueDictionary

import numpy as np

from linkwise import _core
from linkwise._arrow import pa
from linkwise._typing import Array
from linkwise.columns.gather import filled_chunks
from linkwise.columns.key_types import number_dtype
from linkwise.planning.constraints import resident_plan
from linkwise.runtime.execution import ExecutionOptions, gpus_of, memory_limit_of
from linkwise.runtime.session import open_session

Parts = list[_core.DeviceArray]
"""A column as one array for each GPU, in the order of its rows."""


class Strings(NamedTuple):
    """A column of strings or bytes: on each GPU 64-bit offsets, one more than strings, into its bytes."""

    offsets: Parts
    bytes: Parts

    def then(self, other: Strings) -> Strings:
        """A column that consists of two, one after the other, to gather from."""
        return Strings([*self.offsets, *other.offsets], [*self.bytes, *other.bytes])

    @property
    def lengths(self) -> list[int]:
        """How many there are on each GPU."""
        return [len(part) - 1 for part in self.offsets]

    @property
    def ends(self) -> list[int]:
        """Where among the offsets of all those of each GPU end."""
        return list(itertools.accumulate(map(len, self.offsets)))


Column = Parts | Strings


def lengths_of(column: Column) -> list[int]:
    """How many rows a column has on each GPU."""
    return column.lengths if isinstance(column, Strings) else list(map(len, column))


MOST_ROWS = (1 << 32) - 1
"""That 4-byte row numbers can address."""

_ROWS_OF_GPU = 1 << 22  # fewer do not pay for another GPU
_OF_MEMORY = 0.25  # of the GPUs' memory may be taken by columns that are gathered into others, packed in between


def fit_there(columns: Sequence[pa.ChunkedArray], execution: ExecutionOptions) -> bool:
    """Whether columns can be gathered on the GPUs as a whole. If not, trying would cost the copies."""
    with open_session(execution.machine) as runtime:
        each = memory_limit_of(execution, runtime.machine) or int(runtime.machine.gpu.memory_gib * (1 << 30))
        gpus = gpus_of(runtime.machine, execution.gpus)
    return int(sum(column.nbytes for column in columns)) <= _OF_MEMORY * each * len(gpus)


def for_rows(execution: ExecutionOptions, rows: int) -> ExecutionOptions:
    """The options with as many of the GPUs as so many rows need, if these are left open."""
    if execution.gpus != "auto":
        return execution
    with open_session(execution.machine) as runtime:
        gpus = gpus_of(runtime.machine, "auto")
    return replace(execution, gpus=gpus[: max(1, min(len(gpus), rows // _ROWS_OF_GPU))])


class _Simulated:
    """The runtime of a described machine, which owns what lies on its simulated GPUs."""

    def __init__(self) -> None:
        self.runtime: _core.Runtime | None = None
        self.lock = RLock()  # one thread at a time may use it


_simulated: WeakValueDictionary[Any, _Simulated] = WeakValueDictionary()


class GpuColumns:
    """Operations on columns on the GPUs that a call's options select.

    Every method raises ``OutOfMemoryError`` if a GPU has not enough memory. On a described machine, columns of several
    objects go together if these are ``shared`` and exist at the same time.
    """

    def __init__(self, execution: ExecutionOptions, *, shared: bool = False) -> None:
        self.execution = execution
        self.reports: list[_core.SortReport] | None = None
        """What each operation took, if this is a list."""
        self._described = _simulated.setdefault(execution.machine, _Simulated()) if shared else _Simulated()

    @property
    def gpus(self) -> Any:
        """The GPUs that the options name."""
        return self.execution.gpus

    @property
    def found(self) -> list[int]:
        """The GPUs that are there, of those that the options name."""
        with self.session() as (_, gpus):
            return gpus

    @contextmanager
    def session(self) -> Iterator[tuple[_core.Runtime, list[int]]]:
        """The runtime that has the columns, and their GPUs, for this thread alone."""
        with self._described.lock:
            runtime = self._described.runtime
            if runtime is not None:
                yield runtime, gpus_of(runtime.machine, self.execution.gpus)
                self._report(runtime)
                return
            with open_session(self.execution.machine) as runtime:
                if runtime.simulated:
                    self._described.runtime = runtime
                runtime.set_memory_limit(memory_limit_of(self.execution, runtime.machine))
                yield runtime, gpus_of(runtime.machine, self.execution.gpus)
                self._report(runtime)

    def _report(self, runtime: _core.Runtime) -> None:
        if self.reports is not None:
            self.reports.append(_core.report_of(runtime, _core.SortOptions(verify=self.execution.verify)))

    def bring(self, column: Array) -> Parts:
        """Copy a column from host memory to the GPUs, an equal share to each."""
        with self.session() as (runtime, gpus):
            return _core.bring_column(runtime, gpus, column)

    def bring_nulls(self, column: pa.ChunkedArray) -> Parts:
        """Bytes that say of each row whether it is null, 255 if so, on the GPUs as ``bring`` puts a column there."""
        with self.session() as (runtime, gpus):
            return _core.bring_nulls(runtime, gpus, filled_chunks(column))

    def bring_values(self, column: pa.ChunkedArray, nulls: Parts | None) -> Parts:
        """Copy a column for which ``is_number`` holds, an equal share to each GPU. In null rows all bits are set."""
        like = np.empty(0, number_dtype(column.type))
        if not len(column):
            return self.bring(like)
        with self.session() as (runtime, gpus):
            return _core.bring_values(runtime, gpus, filled_chunks(column), like, nulls or [])

    def bring_strings(self, column: pa.ChunkedArray) -> Strings:
        """Copy a column of strings or bytes, an equal share to each GPU."""
        if not len(column):
            offsets, _ = self.wide_offsets(self.bring(np.empty(0, np.int64)), [0] * len(self.found))
            return Strings(offsets, self.bring(np.empty(0, np.uint8)))
        with self.session() as (runtime, gpus):
            return Strings(*_core.bring_strings(runtime, gpus, filled_chunks(column)))

    def words(self, strings: Strings, extent: tuple[int, int], nulls: Parts | None) -> list[Parts]:
        """Words that compare, one after the other, as strings do; those of null rows are equal.

        ``extent``: the bytes that all strings share, and how many words are made of what follows.
        """
        with self.session() as (runtime, gpus):
            return _core.words_of_strings(runtime, gpus, strings, *extent, nulls or [])

    def extent(self, strings: Strings, nulls: Parts | None) -> tuple[int, int]:
        """How many bytes all strings share that are not null, and how many the longest one has."""
        with self.session() as (runtime, gpus):
            return _core.extent_on_gpus(runtime, gpus, strings, nulls or [])

    def take_strings(self, strings: Strings, rows: Parts) -> Strings:
        """Gather strings by row number, as ``take`` does elements; of no row, an empty one."""
        with self.session() as (runtime, gpus):
            return Strings(*_core.take_strings(runtime, gpus, strings, rows))

    def lend(self, arrays: list[Any], streams: list[int | None] | None = None) -> Parts:
        """Take a column of another library's arrays, one on each GPU with its stream, without a copy."""
        with self.session() as (runtime, gpus):
            return _core.lend_arrays(runtime, gpus, arrays, streams or [None] * len(arrays))

    def bytes_of_bits(self, bits: Sequence[tuple[int, int, int]], of_set: int, of_clear: int) -> Parts:
        """A byte for each bit of columns on these GPUs: the address of their bits, the first one, and their number."""
        with self.session() as (runtime, gpus):
            return _core.bytes_of_bits(runtime, gpus, bits, of_set, of_clear)

    def wide_offsets(self, offsets: Parts, rows: Sequence[int]) -> tuple[Parts, list[int]]:
        """Offsets of so many strings on each GPU in 64 bits, and the last one of each."""
        with self.session() as (runtime, gpus):
            wide = _core.resized_offsets(runtime, gpus, offsets, rows, 8)
            return wide, _core.last_offsets(runtime, wide)

    def with_nulls_filled(self, column: Parts, nulls: Parts) -> Parts:
        """A copy of a column that is equal in all rows that are null, so that a sort takes these for equal."""
        with self.session() as (runtime, gpus):
            return _core.with_nulls_filled(runtime, gpus, column, nulls)

    def sorted(self, keys: Sequence[Parts], descending: Sequence[bool]) -> tuple[Parts, Parts]:
        """The row numbers that sort columns by these keys, the most significant first, and that key in order. Stable.

        Sorts by one key after the other, the least significant first, as a radix sort does with digits.
        """
        numbers = self.numbers([len(part) for part in keys[0]])
        in_order: Parts = []
        for number, (key, falls) in enumerate(reversed(list(zip(keys, descending, strict=True)))):
            column = key if number == 0 else self.take(key, numbers)
            in_order, numbers = self._sorted_by(column, numbers, descending=falls)
        return numbers, in_order

    def _sorted_by(self, keys: Parts, carried: Parts, *, descending: bool) -> tuple[Parts, Parts]:
        with self.session() as (runtime, gpus):
            plan = resident_plan(self.execution, gpus)
            options = _core.SortOptions(descending, self.execution.verify)
            arrays, values = cast(list[Any], keys), cast(list[Any], carried)
            parts = _core.sort_device(runtime, plan, arrays, values, [None] * len(gpus), False, options)
            return cast(tuple[Parts, Parts], tuple(map(list, zip(*parts, strict=True))))

    def in_order(self, columns: Sequence[Parts]) -> tuple[Parts, list[Parts]]:
        """The row numbers that sort by columns, the most significant first, and these in that order."""
        rows, first = self.sorted(columns, [False] * len(columns))
        return rows, [first, *(self.take(column, rows) for column in columns[1:])]

    def row_ranks(self, columns: Sequence[Parts]) -> Parts:
        """For each row, the number of distinct rows of these columns that are less, of 4 bytes."""
        rows, in_order = self.in_order(columns)
        return self.by_rows(rows, self.dense_ranks(in_order), [len(part) for part in columns[0]])

    def by_rows(self, rows: Parts, numbers: Parts, lengths: Sequence[int]) -> Parts:
        """Numbers of 4 or 8 bytes, one for each of these rows, in the order of the rows, so many on each GPU."""
        _, in_order = self._sorted_by(rows, numbers, descending=False)
        # A sort leaves its result where its splitters have it.
        return in_order if [len(part) for part in in_order] == lengths else self.take(in_order, self.numbers(lengths))

    def dense_ranks(self, columns: Sequence[Parts]) -> Parts:
        """Of columns in order, for each row how many different rows are before it, of 4 bytes."""
        with self.session() as (runtime, gpus):
            return _core.dense_ranks(runtime, gpus, columns)

    def tied(self, ranks: Parts, words: Parts) -> Parts:
        """The positions of strings in order that go on after words which are also those of others.

        ``ranks``: dense ranks of these words; ``words``: the last one of each string.
        """
        with self.session() as (runtime, gpus):
            return _core.tied_rows(runtime, gpus, ranks, words)

    def of_unequal_groups(self, groups: Parts, strings: Strings) -> Parts:
        """The positions of strings in whose group two differ; groups are in order, of 4 bytes.

        On several GPUs, that of strings which several may have a part of counts as one with a difference.
        """
        with self.session() as (runtime, gpus):
            return _core.rows_of_unequal_groups(runtime, gpus, groups, strings)

    def refined(self, ranks: Parts, positions: Parts, finer: Parts) -> Parts:
        """Ranks of 8 bytes, in which dense ranks at these positions are told apart by finer ones."""
        with self.session() as (runtime, gpus):
            return _core.refined_ranks(runtime, gpus, ranks, positions, finer)

    def take_all(self, columns: Sequence[Parts], rows: Parts) -> list[Parts]:
        """Gather the same rows of several columns, in random order."""
        with self.session() as (runtime, gpus):
            return _core.take_columns(runtime, gpus, list(columns), rows)

    def take(self, column: Parts, rows: Parts) -> Parts:
        """Gather elements of a column by row number; each result lies on the GPU that holds its row number.

        Of no row, all bits of the element are set. The column may consist of several, one after the other.
        """
        with self.session() as (runtime, gpus):
            return _core.take_rows(runtime, gpus, column, rows)

    def append(self, first: Parts, second: Parts) -> Parts:
        """On each GPU, its part of the first column and then that of the second."""
        with self.session() as (runtime, gpus):
            return _core.append_columns(runtime, gpus, first, second)

    def coalesced(self, first: Parts, second: Parts, offset: int) -> Parts:
        """The first of two row numbers or, where it stands for no row, the second + offset."""
        with self.session() as (runtime, gpus):
            return _core.coalesce_columns(runtime, gpus, first, second, offset)

    def numbers(self, lengths: Sequence[int], width: int = 4) -> Parts:
        """The numbers of all rows, of 4 or 8 bytes, so many on each GPU."""
        with self.session() as (runtime, gpus):
            return _core.number_rows(runtime, gpus, lengths, width)

    def no_rows(self, lengths: Sequence[int]) -> Parts:
        """Row numbers that stand for no row, so many on each GPU."""
        with self.session() as (runtime, gpus):
            return _core.missing_rows(runtime, gpus, lengths)

    def without_nulls(self, rows: int) -> Parts:
        """For each row the byte that says that it has a value."""
        with self.session() as (runtime, gpus):
            share = -(-rows // len(gpus))
            each = [max(0, min(share, rows - share * g)) for g in range(len(gpus))]
            return _core.column_without_nulls(runtime, gpus, each)

    def take_column(self, column: Column, rows: Parts) -> Column:
        """``take`` or ``take_strings``."""
        return self.take_strings(column, rows) if isinstance(column, Strings) else self.take(column, rows)

    def take_from_host(self, column: Array, rows: Parts) -> Parts | None:
        """The same from a column in host memory; ``None`` unless it is pinned, so that the GPUs can read it."""
        with self.session() as (runtime, gpus):
            return _core.take_rows_from_host(runtime, gpus, column, rows)

    def fetch(self, columns: Sequence[Parts]) -> list[Array]:
        """Copy several whole columns to host memory."""
        with self.session() as (runtime, _):
            return cast(list[Array], _core.fetch_columns(runtime, columns))
