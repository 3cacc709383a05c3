"""Reading Parquet, by row groups and parts of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linkwise._typing import Rows
from linkwise.columns.dictionaries import with_sound_dictionaries
from linkwise.columns.gather import gather_rows
from linkwise.files.formats import one_clear_line
from linkwise.files.reading.filtered_part import FilteredPart, rows_that_pass
from linkwise.files.reading.parquet.pages import PageReader
from linkwise.files.reading.parquet.parquet_file import ParquetFile, fixed_bytes
from linkwise.files.reading.parquet.statistics import Bounds, integer_bounds, is_clustered
from linkwise.files.reading.parquet.stored_decimals import with_integers
from linkwise.files.reading.reader import Candidates, Found, Part, Seen, not_looked_at
from linkwise.interop.containers import Contents
from linkwise.runtime.parallel import in_order

_ROWS_AT_ONCE = 1 << 17
_WORTH_A_CORE = 1 << 16  # average rows per row group; with fewer, the cores divide columns among them instead
_TURNS = 2  # row groups that each core decodes at least; the last ones end at different times
_SINGLE_PAGES = 1 << 28  # bytes of rows, of all columns, that may be on single pages
_LARGE = 8  # times the rows of a part; larger row groups are decoded incrementally instead
_PARTS = 4  # memory / _PARTS is decoded at once: rows may take more than the sampled ones


class ParquetReader(ParquetFile):
    """A Parquet file."""

    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """See ``Reader``."""

        def kept(table: pa.Table) -> pa.Table:
            wanted: pa.Table = seen(self._kept(table))
            return wanted

        with one_clear_line("read", self.path):
            return pa.concat_tables(self._decoded(kept))

    def _decoded(self, kept: Callable[[pa.Table], pa.Table]) -> Iterator[pa.Table]:
        """What ``kept`` returns for each row group, or for all of them as one table, decoded by all cores."""

        def decoded(groups: list[int]) -> pa.Table:
            use_threads = len(groups) > 1 or self._columns_are_divided
            with self._open_stored() as file:
                table = file.read_row_groups(groups, columns=self._named, use_threads=use_threads)
            return kept(self._as_integers(with_sound_dictionaries(table, but=self._as_stored.strings)))

        if not self._groups:
            with self._open_stored() as file:
                return iter([kept(self._as_integers(file.schema_arrow.empty_table()))])
        if self._is_read_by_groups or self._are_divided:
            return in_order((partial(decoded, [group]) for group in self._groups), most_ahead=len(self._groups))
        return iter([decoded(self._groups)])

    def _as_integers(self, table: pa.Table) -> pa.Table:
        return with_integers(table, self.schema, self._as_stored.decimals)

    def parts(self, rows: int, most_bytes: int) -> Iterator[Part]:
        """See ``Reader``. Row groups, small ones combined; if one is too large, all are decoded in sequence."""
        lengths = self._lengths[self._groups]
        most_rows = min(_LARGE * rows, max(most_bytes // self._row_bytes, 1))
        if not len(lengths) or int(lengths.max()) > most_rows:
            yield from super().parts(rows, most_bytes)
            return
        groups: list[int] = []
        held = 0
        for group, length in zip(self._groups, lengths.tolist(), strict=True):
            if groups and held + length > rows:
                yield self._part(held, groups)
                groups, held = [], 0
            groups.append(group)
            held += length
        yield self._part(held, groups)

    def _part(self, rows: int, groups: list[int]) -> Part:
        of_columns: Callable[[list[str]], pa.Table] = partial(self._decoded_groups, groups)
        if self._filter is not None:
            of_columns = FilteredPart(of_columns, self.schema, self._filter, self._referenced)

        def decode(columns: Sequence[str] | None) -> pa.Table:
            if columns is not None and self._are_found_by_name:
                return of_columns(list(columns))
            with one_clear_line("read", self.path):
                whole = self._kept(self._decoded_groups(groups, self._named))
            return whole if columns is None else whole.select(list(columns))

        return Part(rows, decode)

    def _decoded_groups(self, groups: list[int], columns: list[str] | None) -> pa.Table:
        """All rows of some row groups; ``None`` for all columns."""
        with one_clear_line("read", self.path), self._open() as file:
            at_once = [[group] for group in groups] if self._is_read_by_groups else [groups]
            tables = [
                file.read_row_groups(some, columns=columns, use_threads=self._columns_are_divided) for some in at_once
            ]
            whole = self._as_plain(with_sound_dictionaries(pa.concat_tables(tables)))
            return whole if columns is None else whole.select(columns)

    def _read(self, most_bytes: int | None) -> Iterator[pa.RecordBatch]:
        with self._open(in_pages=most_bytes is not None) as file:
            if self._is_read_by_groups:
                batches = (batch for group in self._tables(file) for batch in group.to_batches(_ROWS_AT_ONCE))
            else:
                fitting = _ROWS_AT_ONCE if most_bytes is None else most_bytes // (_PARTS * self._row_bytes)
                at_once = min(max(fitting, 1), _ROWS_AT_ONCE)
                batches = file.iter_batches(at_once, row_groups=self._groups, columns=self._named)
            yield from map(with_sound_dictionaries, batches)

    def is_read_sooner_by_keys(self, wanted: int, first_key: str) -> bool:
        """See ``Reader``. Not if keys and filtered columns would be decoded twice, from most pages."""
        if not super().is_read_sooner_by_keys(wanted, first_key):
            return False
        if self._filter is None or wanted < max(len(self._groups), self._pages // 2):
            return True
        return self._may_take([first_key, *self._referenced]) or is_clustered(self._bounds_of(first_key), self._groups)

    def _may_take(self, columns: Sequence[str]) -> bool:
        """Whether rows need not be decoded for single values of these columns."""
        if not isinstance(self._file, Path) or not self._are_found_by_name:
            return False
        with one_clear_line("read", self.path), self._file.open("rb") as file:
            return all(map(self._page_reader(file, 0).may_take, columns))

    def _page_reader(self, file: IO[bytes], most_rows: int) -> PageReader:
        assert self._metadata is not None
        with self._open() as opened:
            return PageReader(file.fileno(), self._chunks, opened.schema_arrow, most_rows)

    def candidates(
        self, columns: Sequence[str], wanted: Candidates, most_bytes: int | None, first: int = 0
    ) -> Iterator[Found]:
        """See ``Reader``. Row groups come by their statistics, the most promising first, and may be ruled out."""
        needed = list(dict.fromkeys([*columns, *self._referenced]))
        bounds = {} if wanted.column is None else self._bounds_of(wanted.column)
        groups = self._groups
        if len(bounds) == len(groups):
            end = 1 if wanted.descending else 0
            groups = sorted(groups, key=lambda group: bounds[group][end], reverse=wanted.descending)

        def is_ruled_out(group: int) -> bool:
            return group in bounds and not wanted.may_lie_between(*bounds[group])

        def found(groups: list[int], decoded: pa.Table, begin: int = 0) -> Found:
            table, passed = self._as_plain(with_sound_dictionaries(decoded)), None
            if self._filter is not None:
                passed = rows_that_pass(table, self._filter)
            table = table.select(list(columns))
            if passed is not None:
                table = gather_rows(table, passed)
            at = wanted.positions_in(table).astype(np.int64)
            numbers = first + self._numbers(groups, begin + (at if passed is None else passed[at]))
            return Found(gather_rows(table, at), numbers, table.num_rows)

        def ruled_out(group: int) -> Found:
            nothing = self.schema.empty_table().select(list(columns))
            return Found(nothing, np.empty(0, np.int64), 0 if self._filter is not None else int(self._lengths[group]))

        def of_group(group: int) -> Found:
            if is_ruled_out(group):
                return ruled_out(group)
            with self._open() as file:
                return found([group], file.read_row_group(group, columns=needed, use_threads=self._columns_are_divided))

        with one_clear_line("read", self.path):
            if not groups:
                with self._open() as file:
                    yield found([], file.schema_arrow.empty_table().select(needed))
            elif self._is_worth_a_core(needed, most_bytes):
                yield from in_order(partial(of_group, group) for group in groups)
            elif most_bytes is None:
                with self._open() as file:
                    yield found(self._groups, file.read_row_groups(self._groups, columns=needed))
            else:
                at_once = min(max(most_bytes // (_PARTS * self._row_bytes), 1), _ROWS_AT_ONCE)
                with self._open(in_pages=True) as file:
                    for group in groups:
                        if is_ruled_out(group):
                            yield ruled_out(group)
                            continue
                        begin = 0
                        for batch in file.iter_batches(at_once, row_groups=[group], columns=needed):
                            yield found([group], pa.Table.from_batches([batch]), begin)
                            begin += batch.num_rows

    def _bounds_of(self, column: str) -> Bounds:
        assert self._metadata is not None
        if column not in self.columns:
            return {}
        with one_clear_line("read", self.path):
            return integer_bounds(self._chunks.metadata, column, self.schema.field(column).type, self._groups)

    def _is_worth_a_core(self, columns: Sequence[str], most_bytes: int | None) -> bool:
        """Whether each core decodes these columns of one row group after the other, within ``most_bytes``."""
        if not self._are_divided or most_bytes is None:
            return self._are_divided
        widths = [fixed_bytes(self.schema.field(name).type) if name in self.columns else None for name in columns]
        row_bytes = self._row_bytes if None in widths else sum(filter(None, widths))
        in_flight = (len(os.sched_getaffinity(0)) + 1) * int(self._lengths[self._groups].max())
        return 2 * row_bytes * in_flight <= _PARTS * most_bytes

    @property
    def _are_divided(self) -> bool:
        """Whether row groups are so many and so large that the cores divide them among them."""
        worth_a_core = int(self._lengths[self._groups].sum()) // _WORTH_A_CORE
        return 1 < len(self._groups) <= worth_a_core

    @property
    def _columns_are_divided(self) -> bool:
        """Whether row groups are so few that some cores would idle, unless several decode the columns of each."""
        return len(self._groups) < _TURNS * len(os.sched_getaffinity(0))

    def _numbers(self, groups: list[int], positions: Rows) -> Rows:
        """The row numbers of positions among the rows of some row groups, one after the other."""
        ends = np.cumsum(self._lengths[groups])
        shifts = self._ends[groups] - ends
        numbers: Rows = positions + shifts[np.searchsorted(ends, positions, "right")]
        return numbers

    @property
    def filtered_by(self) -> list[str]:
        """See ``Reader``."""
        return self._referenced

    def fetch(self, rows: Rows, most_bytes: int | None, columns: Sequence[str] | None = None) -> pa.Table:
        """See ``Reader``. Row groups without any of these rows are not read; of few rows, only their pages are."""
        ends = self._ends
        of_row = np.searchsorted(ends, rows, "right")
        groups = of_row[np.diff(of_row, prepend=-1) > 0].tolist()  # np.unique would load numpy.ma
        wanted = {group: rows[of_row == group] - (ends[group] - self._lengths[group]) for group in groups}
        names = self.columns if columns is None else list(columns)
        with one_clear_line("read", self.path):
            found = self._from_pages(wanted, names, most_bytes)
            if not found.num_columns:
                return self._from_groups(wanted, self._named if columns is None else names, names, most_bytes)
            others = [name for name in names if name not in found.schema.names]
            if others:
                left = self._from_groups(wanted, others, others, most_bytes)
            schema = pa.schema([self.schema.field(name) for name in names], self.schema.metadata)
            return pa.table([(left if name in others else found)[name] for name in names], schema=schema)

    def _from_pages(self, wanted: dict[int, Rows], columns: list[str], most_bytes: int | None) -> pa.Table:
        """The wanted rows of each row group, of the columns in which they are on few of the pages, or easily taken."""
        found: dict[str, pa.ChunkedArray] = {}
        if isinstance(self._file, Path) and self._are_found_by_name:
            groups = list(wanted.items())
            at_once = max(-(-len(groups) // len(os.sched_getaffinity(0))), 1)
            some = [dict(groups[first : first + at_once]) for first in range(0, len(groups), at_once)]
            most_rows = (_SINGLE_PAGES if most_bytes is None else most_bytes // _PARTS) // self._row_bytes
            with self._file.open("rb") as file:
                pages = self._page_reader(file, most_rows // max(len(some), 1))
                parts = in_order(partial(pages.find, name, each) for name in columns for each in some)
                for name in columns:
                    of_column = list(islice(parts, len(some)))
                    present = [part for part in of_column if part is not None]
                    if present and len(present) == len(of_column):
                        found[name] = pa.chunked_array([chunk for part in present for chunk in part.chunks])
        return self._as_plain(with_sound_dictionaries(pa.table(found)))

    def _from_groups(
        self, wanted: dict[int, Rows], named: list[str] | None, columns: list[str], most_bytes: int | None
    ) -> pa.Table:
        """Some columns of the wanted rows of each row group, of which those ``named`` are decoded, ``None`` for all."""
        one_by_one = most_bytes is not None or len(wanted) == 1

        def fetched(group: int) -> pa.Table:
            """The wanted rows of a row group, decoded batch by batch up to the last of them."""
            rows = wanted[group]
            parts, begin = [], 0
            with self._open(in_pages=True) as file:
                for batch in file.iter_batches(
                    _ROWS_AT_ONCE, row_groups=[group], columns=named, use_threads=one_by_one
                ):
                    of_batch = slice(*np.searchsorted(rows, [begin, begin + batch.num_rows]))
                    some = rows[of_batch] - begin
                    if len(some):
                        whole = self._as_plain(with_sound_dictionaries(pa.Table.from_batches([batch])))
                        parts.append(gather_rows(whole.select(columns), some))
                    begin += batch.num_rows
                    if begin > rows[-1]:
                        break
            return pa.concat_tables(parts)

        parts = map(fetched, wanted) if one_by_one else in_order(partial(fetched, group) for group in wanted)
        return pa.concat_tables([self.schema.empty_table().select(columns), *parts])

    def _tables(self, file: pq.ParquetFile) -> Iterator[pa.Table]:
        groups = (file.read_row_group(group, columns=self._named) for group in self._groups)
        return groups if self._groups else iter([file.schema_arrow.empty_table()])
