"""The order of a table's rows: sort by a 64-bit key prefix, then refine only the ties."""

from __future__ import annotations

from functools import cached_property
from typing import cast

import numpy as np

from linkwise import _core
from linkwise._arrow import pa
from linkwise._core import UsageError
from linkwise._typing import Array
from linkwise.columns.decode import check_key, decoded
from linkwise.columns.dictionaries import in_one_dictionary, in_one_order
from linkwise.columns.gather import gather_columns, in_one_array, rows_of_rows
from linkwise.columns.inside import column_named
from linkwise.columns.sort_keys import SortKey
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.host_memory import uninitialised
from linkwise.sorting.host_sort import row_number_bytes, sort_keys
from linkwise.sorting.report import SortReport, Steps

_SAMPLED_FOR_TIES = 1 << 12
_MANY_TIES = 0.25


def _ranks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The ranks of an unordered dictionary column's values, or the values themselves; other columns as they are."""
    if not pa.types.is_dictionary(column.type) or column.type.ordered or column.num_chunks == 0:
        return column
    try:
        column = in_one_dictionary(column)
    except UsageError:  # its chunks keep dictionaries of their own
        return decoded(column)
    values = column.chunk(0).dictionary
    if len(values) > len(column):
        return decoded(column)
    key = RowKeys(pa.table({"": values}), [SortKey("")])
    rows, _ = key.order(ExecutionOptions(strategy="cpu", verify=False))
    is_new = np.zeros(len(values), np.uint32)
    is_new[key.core.starts_of_runs(rows)[1:]] = 1
    ranks = np.empty(len(values), np.uint32)
    ranks[rows] = np.cumsum(is_new, dtype=np.uint32)
    in_order = pa.array(ranks, mask=values.is_null().to_numpy(zero_copy_only=False))
    return pa.chunked_array([in_order.take(chunk.indices) for chunk in column.chunks], type=pa.uint32())


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values to compare: category positions for ordered dictionaries, otherwise the decoded values."""
    if not pa.types.is_dictionary(column.type) or not column.type.ordered or column.num_chunks == 0:
        return decoded(column)
    column = in_one_order(column)
    values = column.chunk(0).dictionary
    places = pa.array(np.arange(len(values), dtype=np.uint32), mask=np.asarray(values.is_null()))
    return pa.chunked_array([places.take(chunk.indices) for chunk in column.chunks], type=pa.uint32())


class RowKeys:
    """The keys of a table's rows. Raises ``UsageError`` if a column cannot be a key.

    With ``comparable``, keys of another table with columns of the same types can be compared with these.
    """

    def __init__(self, table: pa.Table, keys: list[SortKey], *, comparable: bool = False) -> None:
        self._originals = [(key.column, column_named(table, key.column)) for key in keys]
        for name, column in self._originals:
            check_key(name, column.type)
        self._columns = [_comparable(c if comparable else _ranks(c)) for _, c in self._originals]
        self._gathered: list[pa.Array] = []  # the key columns in the order of their first words
        self._places: Array | None = None  # where each row of the order is in these
        self._directions = [key.descending for key in keys], [key.nulls_first for key in keys]

    @cached_property
    def core(self) -> _core.RowKeys:
        """The keys, each column in one piece."""
        return _core.RowKeys([[in_one_array(column) for column in self._columns]], *self._directions)

    @cached_property
    def _where_they_lie(self) -> _core.RowKeys:
        """The keys in parts, one per chunk if all columns have equal chunks; such keys only support words."""
        lengths = [[len(chunk) for chunk in column.chunks] for column in self._columns]
        if "core" in self.__dict__ or len(lengths[0]) <= 1 or any(other != lengths[0] for other in lengths):
            return self.core
        parts = [list(chunks) for chunks in zip(*(column.chunks for column in self._columns), strict=True)]
        return _core.RowKeys(parts, *self._directions)

    @property
    def decided_by_word(self) -> bool:
        """Whether the words tell all keys apart."""
        return self._where_they_lie.decided_by_word

    def words(self) -> Array:
        """The key prefixes as integers of up to 64 bits in key order, in which different keys may tie."""
        core = self._where_they_lie
        words = uninitialised(core.rows, np.uint32 if core.word_bits <= 32 else np.uint64)
        core.write_words(words)
        return words

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self._columns[0])

    def is_above(self, bound: RowKeys, *, or_equal: bool) -> bool:
        """Whether the first row's key is above that of the first row of ``bound``, or equal."""
        return not self.core.rows_before(bound.core, 0, or_equal=not or_equal)

    def hashes(self) -> Array | None:
        """64-bit hashes of the keys, equal for equal keys; ``None`` for types that the core does not support."""
        hashes = np.zeros(self.rows, np.uint64)
        for column in self._columns:
            if not _core.hash_rows([chunk for chunk in column.chunks if len(chunk)], hashes):
                return None
        return hashes

    def columns_of(self, part: slice) -> list[pa.Array]:
        """Some rows of the columns that the keys are made of, each column in one piece."""
        first, end, _ = part.indices(self.rows)
        return [in_one_array(column.slice(first, end - first)) for column in self._columns]

    def order(self, execution: ExecutionOptions) -> tuple[Array, SortReport]:
        """The row numbers that sort the rows stably."""
        rows, _, report = self._order(execution, wants_words=False)
        return rows, report

    def order_and_words(self, execution: ExecutionOptions) -> tuple[Array, Array | None, SortReport]:
        """As ``order``, and the sorted words where they tell all keys apart."""
        return self._order(execution, wants_words=True)

    def _order(self, execution: ExecutionOptions, *, wants_words: bool) -> tuple[Array, Array | None, SortReport]:
        # Single numbers are sorted without it, and start sooner.
        from linkwise.sorting.device.gpu_order import order_on_gpus  # noqa: PLC0415

        steps = Steps()
        found = order_on_gpus(self._columns, *self._directions, execution)
        if found is not None:
            steps.end("sort")
            return found[0], None, found[1].after(steps)
        words = self.words()
        width = row_number_bytes(len(words))
        decides = self.decided_by_word
        in_order = None if decides and not wants_words else uninitialised(len(words), words.dtype)
        steps.end("keys")
        rows, report = sort_keys(words, execution, out_keys=in_order, row_number_bytes=width)
        assert rows is not None
        steps.end("sort")
        if decides or in_order is None:
            return rows, in_order, report.after(steps)
        reports = [report]
        near = self._near(in_order, rows, execution)
        places = rows if near is None else cast(Array, _core.row_numbers(len(rows), width))
        steps.end("keys")
        ties = _core.TieRefinement(self.core if near is None else near, in_order, places)
        steps.end("ties")
        while ties.open_rows:
            reports.append(_sort_open_rows(ties, execution, width))
            steps.end("sort")
        if near is not None:
            self._places = places
            rows = rows_of_rows(rows, places)
            steps.end("ties")
        return rows, None, SortReport.together(reports).after(steps)

    def _near(self, in_order: Array, rows: Array, execution: ExecutionOptions) -> _core.RowKeys | None:
        """The keys gathered in the order of ``rows``, where tied keys are adjacent; ``None`` if there are few ties.

        Tied keys are compared several times; without this, every comparison accesses rows all over the table.
        """
        sampled = np.linspace(0, len(rows) - 1, min(len(rows), _SAMPLED_FOR_TIES), dtype=np.int64)[:-1]
        if not len(sampled) or np.mean(in_order[sampled] == in_order[sampled + 1]) < _MANY_TIES:
            return None
        gathered = [in_one_array(column) for column in gather_columns(self._columns, rows, execution)]
        wide = [pa.large_string(), pa.large_binary()]  # types of columns that outgrow 32-bit offsets in one piece
        if any(
            piece.type in wide and column.type not in wide
            for piece, column in zip(gathered, self._columns, strict=True)
        ):
            return None
        self._gathered = gathered
        return self._where_they_lie.like_these(gathered)

    def columns_nearby(self) -> tuple[dict[str, pa.ChunkedArray], Array | None]:
        """The key columns that ``order`` has gathered in nearly its order, and the sorted positions in them.

        Gathering from these is local, and does not access rows all over the table once more.
        """
        if self._places is None:
            return {}, None
        kept = {
            name: pa.chunked_array([near])
            for (name, original), column, near in zip(self._originals, self._columns, self._gathered, strict=True)
            if column is original and near.type == original.type
        }
        return kept, self._places

    def merged(self, first_rows: int) -> tuple[Array, Array] | None:
        """Merge two sorted runs, the first ``first_rows`` rows and the rest; returns the order and the sorted words.

        ``None`` if words do not tell all keys apart.
        """
        if not self.decided_by_word:
            return None
        words = self.words()
        numbers = np.arange(len(words), dtype=f"u{row_number_bytes(len(words))}")
        runs = [slice(0, first_rows), slice(first_rows, None)]
        in_order, rows = (uninitialised(len(words), like.dtype) for like in (words, numbers))
        _core.multiway_merge(
            words.itemsize, rows.itemsize, [words[run] for run in runs], [numbers[run] for run in runs], in_order, rows
        )
        return rows, in_order


def _sort_open_rows(ties: _core.TieRefinement, execution: ExecutionOptions, row_width: int) -> SortReport:
    words = uninitialised(ties.open_rows, np.uint64)
    ties.write_words(words)
    in_order = uninitialised(ties.open_rows, np.uint64)
    order, report = sort_keys(words, execution, out_keys=in_order, row_number_bytes=row_width)
    assert order is not None
    ties.place(in_order, order)
    return report
