"""Reading Parquet, by row groups and parts of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linkwise._typing import Rows
from linkwise.columns.dictionaries import has_dictionary_inside, with_sound_dictionaries
from linkwise.columns.gather import gather_rows
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.files.formats import one_clear_line
from linkwise.files.locations import RemoteFile
from linkwise.files.reading.filtered_part import FilteredPart, rows_that_pass
from linkwise.files.reading.parquet.pages import PageReader
from linkwise.files.reading.parquet.statistics import Bounds, groups_with, integer_bounds, is_clustered
from linkwise.files.reading.reader import (
    Candidates,
    Found,
    Part,
    Piece,
    Seen,
    TableReader,
    bytes_of_rows,
    not_looked_at,
)
from linkwise.interop.containers import Contents
from linkwise.runtime.parallel import in_order

_ROWS_AT_ONCE = 1 << 17
_WORTH_A_CORE = 1 << 16  # average rows per row group; with fewer, the cores divide columns among them instead
_TURNS = 2  # row groups that each core decodes at least; the last ones end at different times
_LONG_PAGE = 1 << 20  # bytes that most writers put into a page at most, before compression
_PAGE = 1 << 16  # bytes that are read at once where memory is limited, …
_BUFFER = 1 << 17  # … and of a local file where it is not
_SINGLE_PAGES = 1 << 28  # bytes of rows, of all columns, that may be on single pages
_SAMPLED_GROUPS, _SAMPLED_ROWS = 8, 64  # to estimate the decoded size of a row
_LARGE = 8  # times the rows of a part; larger row groups are decoded incrementally instead
_PARTS = 4  # memory / _PARTS is decoded at once: rows may take more than the sampled ones


class ParquetReader(TableReader):
    """A Parquet file."""

    def __init__(self, path: Path | RemoteFile, *, spool: IO[bytes] | None = None) -> None:
        super().__init__(path, "parquet")
        self._file = path
        self._spool = spool  # an unnamed temporary file, closed with this reader
        with one_clear_line("read", path):
            if isinstance(path, Path):
                path.open("rb").close()  # its error message is clearer than that of the library
            self._metadata: pq.FileMetaData | None = None
            with self._open() as file:
                self._metadata = file.metadata
                self._set_schema(file.schema_arrow)
                self._needed, self._all_columns = self.columns, len(self.columns)
                self._groups = list(range(file.metadata.num_row_groups))
                # PyArrow can read nested dictionaries only by whole row groups; otherwise, some crash the process.
                self._is_read_by_groups = any(map(has_dictionary_inside, self.schema.types))
                self._estimate(file)
                if self._metadata.num_row_groups and self._metadata.num_columns:
                    # Only after the sampling above: asking for the codec of damaged metadata crashes the process.
                    first = self._metadata.row_group(0)
                    columns = [first.column(number) for number in range(self._metadata.num_columns)]
                    self.compression = {column.path_in_schema: column.compression for column in columns}

    def _open(self, *, in_pages: bool = False) -> pq.ParquetFile:
        # Pre-buffering would keep what was read, and fetch whole row groups for their first rows.
        buffer = _PAGE if in_pages else 0
        how: Any = {"metadata": self._metadata, "page_checksum_verification": True}
        if isinstance(self._file, Path):
            # A buffer that stays in the caches: whole column chunks would be read into new memory.
            return pq.ParquetFile(self._file, pre_buffer=False, buffer_size=buffer or _BUFFER, **how)
        # Remote reads are combined over columns, and run at the same time.
        return pq.ParquetFile(self._file.open(), pre_buffer=not in_pages, buffer_size=buffer, **how)

    def _encoded_bytes(self, file: pq.ParquetFile) -> int:
        """Encoded bytes of the columns and row groups that are read, before compression."""
        groups = [file.metadata.row_group(group) for group in self._groups]
        if self._named is None or not groups:
            return sum(group.total_byte_size for group in groups)
        paths = [groups[0].column(at).path_in_schema for at in range(file.metadata.num_columns)]
        needed = [at for at, path in enumerate(paths) if path.split(".")[0] in self._needed]
        return sum(group.column(at).total_uncompressed_size for group in groups for at in needed)

    def _estimate(self, file: pq.ParquetFile) -> None:
        """Estimate the memory of a row and of all rows from the first rows of some row groups."""
        encoded, rows = self._encoded_bytes(file), int(self._lengths[self._groups].sum())
        sampled = self._sampled_bytes(file) if rows and file.metadata.num_columns else 0
        self._row_bytes = max(8 * len(self._needed), encoded // max(rows, 1), sampled)
        self.size = max(2 * encoded, self._row_bytes * rows)
        # How many a column has, at least; 0 for remote files, whose pages are not read one by one.
        self._pages = encoded // (_LONG_PAGE * max(len(self._needed), 1)) if isinstance(self._file, Path) else 0

    def _sampled_bytes(self, file: pq.ParquetFile) -> int:
        """Bytes that a row takes in memory, by the largest sample."""
        if self._is_read_by_groups:
            first = file.read_row_group(self._groups[0], columns=self._named)
            return bytes_of(first) // max(int(first.num_rows), 1)
        fixed, sampled = 0, self._named
        if len({*self._needed}) == len(self._needed) and not self._has_dots:
            widths = {name: _fixed_bytes(file.schema_arrow.field(name).type) for name in self._needed}
            fixed = sum(width or 0 for width in widths.values())
            sampled = [name for name, width in widths.items() if width is None]

        def first_of(group: int, columns: list[str] | None) -> int:
            with self._open(in_pages=True) as in_pages:
                batch = next(in_pages.iter_batches(_SAMPLED_ROWS, row_groups=[group], columns=columns), None)
            if batch is None or not batch.num_rows:
                return 0
            return bytes_of_rows(batch if sampled is None else batch.select(sampled)) // int(batch.num_rows)

        groups = self._groups[:: -(-len(self._groups) // _SAMPLED_GROUPS)] if sampled != [] else self._groups[:1]
        # All columns of one group: on damaged metadata, reading raises an error; other access crashes the process.
        asked = [(group, sampled if at else self._named) for at, group in enumerate(groups)]
        return fixed + max(in_order(partial(first_of, *each) for each in asked))

    def keep(self, columns: Sequence[str] | None, rows: Any | None) -> None:
        """See ``Reader``. Row groups whose statistics rule out a match are not read."""
        before = self.columns
        super().keep(columns, rows)
        wanted = {*self.columns, *self._referenced}
        self._needed = [name for name in before if name in wanted]
        with one_clear_line("read", self.path), self._open() as file:
            if rows is not None:
                # PyArrow does not compare the statistics of some types.
                with contextlib.suppress(pa.ArrowNotImplementedError):
                    subset = self._fragment().subset(rows, schema=self._plain or file.schema_arrow)
                    self._groups = [group.id for group in subset.row_groups]
            self._estimate(file)

    def _fragment(self) -> Any:
        """The file as a dataset fragment, which evaluates statistics."""
        import pyarrow.dataset  # noqa: PLC0415 - slow, as it looks for pandas
        from pyarrow.fs import LocalFileSystem  # noqa: PLC0415

        of_parquet = pyarrow.dataset.ParquetFileFormat()
        if isinstance(self._file, Path):
            return of_parquet.make_fragment(str(self._file), LocalFileSystem())
        return of_parquet.make_fragment(self._file.path, self._file.filesystem)

    def leave_out(self, column: str, least: Any, greatest: Any) -> None:
        """See ``Reader``."""
        assert self._metadata is not None
        self._groups = groups_with(self._metadata, column, least, greatest, self._groups)

    def pieces(self) -> list[Piece]:
        """See ``Reader``. Row groups."""
        return [Piece(rows, rows * self._row_bytes) for rows in self._lengths.tolist()]

    def only(self, first: int, end: int) -> None:
        """See ``Reader``."""
        self._groups = [group for group in self._groups if first <= group < end]
        self.size = self._row_bytes * int(self._lengths[self._groups].sum())

    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """See ``Reader``."""

        def kept(table: pa.Table) -> pa.Table:
            wanted: pa.Table = seen(self._kept(table))
            return wanted

        with one_clear_line("read", self.path):
            return pa.concat_tables(self._decoded(self._named, kept))

    def _decoded(
        self, columns: list[str] | None, kept: Callable[[pa.Table], pa.Table] = lambda table: table
    ) -> Iterator[pa.Table]:
        """What ``kept`` returns for each row group, or for all of them as one table, decoded by all cores."""

        def decoded(group: int) -> pa.Table:
            with self._open() as file:
                table = file.read_row_group(group, columns=columns, use_threads=self._columns_are_divided)
            return kept(with_sound_dictionaries(table))

        if self._groups and (self._is_read_by_groups or self._are_divided):
            return in_order(partial(decoded, group) for group in self._groups)
        with self._open() as file:
            if not self._groups:
                return iter([kept(file.schema_arrow.empty_table())])
            return iter([kept(with_sound_dictionaries(file.read_row_groups(self._groups, columns=columns)))])

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

    @property
    def _are_found_by_name(self) -> bool:
        """Whether PyArrow resolves each column's name to exactly that column."""
        return not self._is_read_by_groups and not self._has_dots

    @property
    def _has_dots(self) -> bool:
        """Whether a needed column's name could mean a nested field."""
        return any("." in name for name in self._needed)

    @property
    def _named(self) -> list[str] | None:
        """The columns to request from PyArrow; ``None``: all, also if a name with a dot could mean a nested field."""
        is_clear = len(self._needed) < self._all_columns and not self._has_dots
        return self._needed if is_clear else None

    def _read(self, most_bytes: int | None) -> Iterator[pa.RecordBatch]:
        with self._open(in_pages=most_bytes is not None) as file:
            if self._is_read_by_groups:
                batches = (batch for group in self._tables(file) for batch in group.to_batches(_ROWS_AT_ONCE))
            else:
                fitting = _ROWS_AT_ONCE if most_bytes is None else most_bytes // (_PARTS * self._row_bytes)
                at_once = min(max(fitting, 1), _ROWS_AT_ONCE)
                batches = file.iter_batches(at_once, row_groups=self._groups, columns=self._named)
            yield from map(with_sound_dictionaries, batches)

    @property
    def rows(self) -> int | None:
        """See ``Reader``."""
        assert self._metadata is not None
        return int(self._metadata.num_rows) if self._are_found_by_name else None

    def is_read_sooner_by_keys(self, wanted: int, first_key: str) -> bool:
        """See ``Reader``. Not if filtered rows may be on most pages, which would then be decoded twice."""
        if not super().is_read_sooner_by_keys(wanted, first_key):
            return False
        are_in_few = self._filter is None or wanted < max(len(self._groups), self._pages // 2)
        return are_in_few or is_clustered(self._bounds_of(first_key), self._groups)

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
        return integer_bounds(self._metadata, column, self.schema.field(column).type, self._groups)

    def _is_worth_a_core(self, columns: Sequence[str], most_bytes: int | None) -> bool:
        """Whether each core decodes these columns of one row group after the other, within ``most_bytes``."""
        if not self._are_divided or most_bytes is None:
            return self._are_divided
        widths = [_fixed_bytes(self.schema.field(name).type) if name in self.columns else None for name in columns]
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

    @cached_property
    def _lengths(self) -> Rows:
        """Rows of each row group."""
        assert self._metadata is not None
        groups = range(self._metadata.num_row_groups)
        return np.array([self._metadata.row_group(group).num_rows for group in groups], np.int64)

    @property
    def _ends(self) -> Rows:
        return np.cumsum(self._lengths)

    def fetch(self, rows: Rows, most_bytes: int | None) -> pa.Table:
        """See ``Reader``. Row groups without any of these rows are not read; of few rows, only their pages are."""
        ends = self._ends
        of_row = np.searchsorted(ends, rows, "right")
        groups = of_row[np.diff(of_row, prepend=-1) > 0].tolist()  # np.unique would load numpy.ma
        wanted = {group: rows[of_row == group] - (ends[group] - self._lengths[group]) for group in groups}
        with one_clear_line("read", self.path):
            found = self._from_pages(wanted, most_bytes)
            if not found.num_columns:
                return self._from_groups(wanted, self._named, self.columns, most_bytes)
            others = [name for name in self.columns if name not in found.schema.names]
            if others:
                left = self._from_groups(wanted, others, others, most_bytes)
            return pa.table([(left if name in others else found)[name] for name in self.columns], schema=self.schema)

    def _from_pages(self, wanted: dict[int, Rows], most_bytes: int | None) -> pa.Table:
        """The wanted rows of each row group, of the columns in which they are on few of the pages."""
        found: dict[str, pa.ChunkedArray] = {}
        if isinstance(self._file, Path) and self._are_found_by_name:
            assert self._metadata is not None
            with self._open() as opened:
                schema = opened.schema_arrow
            with self._file.open("rb") as file:
                most_rows = (_SINGLE_PAGES if most_bytes is None else most_bytes // _PARTS) // self._row_bytes
                pages = PageReader(file.fileno(), self._metadata, schema, most_rows)
                parts = in_order(partial(pages.find, name, wanted) for name in self.columns)
                for name, part in zip(self.columns, parts, strict=True):
                    if part is not None:
                        found[name] = gather_rows(pa.table({name: part.column}), part.positions)[name]
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


def _fixed_bytes(kind: pa.DataType) -> int | None:
    """Bytes of a value in memory if its type determines them, otherwise ``None``."""
    if pa.types.is_dictionary(kind) or pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return None
    try:
        return -(-int(kind.bit_width) // 8)
    except ValueError:
        return None
