"""A Parquet file: its metadata, and which of its row groups and columns are read."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linkwise._typing import Rows
from linkwise.columns.dictionaries import has_dictionary_inside
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.key_types import has_narrow_offsets, is_text
from linkwise.columns.number_filter import NumberFilter
from linkwise.files.formats import one_clear_line
from linkwise.files.locations import RemoteFile
from linkwise.files.reading.parquet.checked_chunks import CheckedChunks
from linkwise.files.reading.parquet.statistics import groups_with, strings_with_few_values
from linkwise.files.reading.parquet.stored_decimals import narrow_decimals, without_decimals
from linkwise.files.reading.reader import Piece, Stored, TableReader, bytes_of_rows
from linkwise.runtime.parallel import in_order

_LONG_PAGE = 1 << 20  # bytes that most writers put into a page at most, before compression
_PAGE = 1 << 16  # bytes that are read at once where memory is limited, …
_BUFFER = 1 << 17  # … and of a local file where it is not
_SAMPLED_GROUPS, _SAMPLED_ROWS = 4, 64  # to estimate the decoded size of a row
_FEW_SAMPLES = 4  # which take less time than starting threads for them
_PLAIN = {"PLAIN", "RLE", "BIT_PACKED"}  # encodings of plain values and of their levels


class ParquetFile(TableReader):
    """What is known of a Parquet file before its rows are read."""

    filters_numbers = True

    def __init__(self, path: Path | RemoteFile, *, spool: IO[bytes] | None = None) -> None:
        super().__init__(path, "parquet")
        self._file = path
        self._as_stored = Stored([], [])  # columns that everything() reads so …
        self._stored: pq.FileMetaData | None = None  # … by metadata that say so, where they are decimals
        self._sampled: int | None = None  # bytes of a row
        self._spool = spool  # an unnamed temporary file, closed with this reader
        with one_clear_line("read", path):
            if isinstance(path, Path):
                path.open("rb").close()  # its error message is clearer than that of the library
            self._metadata: pq.FileMetaData | None = None
            with self._open() as file:
                self._metadata = file.metadata
                self._set_schema(file.schema_arrow)
                self._chunks = CheckedChunks(file.metadata)
                if file.metadata.num_row_groups:
                    columns = [self._chunks.with_codec(0, at) for at in range(file.metadata.num_columns)]
                    self.compression = {column.path_in_schema: column.compression for column in columns}
                self._needed, self._all_columns = self.columns, len(self.columns)
                self._groups = list(range(file.metadata.num_row_groups))
                # PyArrow can read nested dictionaries only by whole row groups; otherwise, some crash the process.
                self._is_read_by_groups = any(map(has_dictionary_inside, self.schema.types))
                self._estimate(file)

    def _open(
        self, *, in_pages: bool = False, dictionaries: Sequence[str] = (), metadata: pq.FileMetaData | None = None
    ) -> pq.ParquetFile:
        # Pre-buffering would keep what was read, and fetch whole row groups for their first rows.
        buffer = _PAGE if in_pages else 0
        how: Any = {
            "metadata": metadata or self._metadata, "page_checksum_verification": True, "read_dictionary": dictionaries,
        }  # fmt: skip
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

    @property
    def stored_bytes(self) -> int:
        """See ``Reader``. A share of the file, as far as it is read."""
        assert self._metadata is not None
        groups = map(self._metadata.row_group, range(self._metadata.num_row_groups))
        whole = sum(group.total_byte_size for group in groups)
        return self._file.stat().st_size * self._encoded // whole if isinstance(self._file, Path) and whole else 0

    def _estimate(self, file: pq.ParquetFile) -> None:
        """Estimate the memory of a row and of all rows from the first rows of some row groups."""
        encoded, rows = self._encoded_bytes(file), int(self._lengths[self._groups].sum())
        self._encoded = encoded
        if self._sampled is None:
            self._sampled = self._sampled_bytes(file) if rows and file.metadata.num_columns else 0
        self._row_bytes = max(8 * len(self._needed), encoded // max(rows, 1), self._sampled)
        self.size = max(2 * encoded, self._row_bytes * rows)
        # How many a column has, at least; 0 for remote files, whose pages are not read one by one.
        self._pages = encoded // (_LONG_PAGE * max(len(self._needed), 1)) if isinstance(self._file, Path) else 0

    def _sampled_bytes(self, file: pq.ParquetFile) -> int:
        """Bytes that a row takes in memory, by the largest sample."""
        if self._is_read_by_groups:
            first = file.read_row_group(self._groups[0], columns=self._named)
            return bytes_of(first) // max(int(first.num_rows), 1)
        groups = self._groups[:: -(-len(self._groups) // _SAMPLED_GROUPS)]
        if self._has_dots or len({*self._needed}) < len(self._needed):
            return max(in_order(partial(self._bytes_of_first, group, self._named) for group in groups))
        kinds = {name: file.schema_arrow.field(name).type for name in self._needed}
        widths = {name: fixed_bytes(kind) for name, kind in kinds.items()}
        places = {file.schema.column(at).path: at for at in range(len(file.schema))}
        of_group = [sum(width or 0 for width in widths.values())] * len(groups)
        asked: list[tuple[int, str]] = []
        for at, group in enumerate(groups):
            for name in (name for name, width in widths.items() if width is None):
                chunk = file.metadata.row_group(group).column(places[name]) if name in places else None
                if chunk is not None and is_text(kinds[name]) and {*chunk.encodings} <= _PLAIN:
                    offset = 4 if has_narrow_offsets(kinds[name]) else 8  # where the file has a length of 4 bytes
                    of_group[at] += chunk.total_uncompressed_size // max(chunk.num_values, 1) + offset - 4
                else:
                    asked.append((at, name))
        sampling = (partial(self._bytes_of_first, groups[at], [name]) for at, name in asked)
        found = in_order(sampling) if len(asked) > _FEW_SAMPLES else (sample() for sample in sampling)
        for (at, _), size in zip(asked, found, strict=True):
            of_group[at] += size
        return max(of_group)

    def _bytes_of_first(self, group: int, columns: list[str] | None) -> int:
        """Bytes of a row among the first ones of a row group, in memory."""
        with self._open(in_pages=True) as file:
            batch = next(file.iter_batches(_SAMPLED_ROWS, row_groups=[group], columns=columns), None)
        return bytes_of_rows(batch) // batch.num_rows if batch is not None and batch.num_rows else 0

    def keep(self, columns: Sequence[str] | None, rows: Any | None) -> None:
        """See ``Reader``. Row groups whose statistics rule out a match are not read."""
        before = self.columns
        super().keep(columns, rows)
        wanted = {*self.columns, *self._referenced}
        if any(name not in wanted for name in self._needed):
            self._needed = [name for name in before if name in wanted]
            self._sampled = None
        with one_clear_line("read", self.path), self._open() as file:
            if isinstance(rows, NumberFilter):
                for column, (least, greatest) in rows.ranges:
                    self._groups = groups_with(file.metadata, column, least, greatest, self._groups)
            elif rows is not None:
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
        with one_clear_line("read", self.path):
            self._groups = groups_with(self._chunks.metadata, column, least, greatest, self._groups)

    def pieces(self) -> list[Piece]:
        """See ``Reader``. Row groups."""
        return [Piece(rows, rows * self._row_bytes) for rows in self._lengths.tolist()]

    def only(self, first: int, end: int) -> None:
        """See ``Reader``."""
        self._groups = [group for group in self._groups if first <= group < end]
        self.size = self._row_bytes * int(self._lengths[self._groups].sum())

    def storable(self, least_rows: int) -> Stored:
        """See ``Reader``. Not the columns of the filter, which is for strings and decimals."""
        is_worth_it = int(self._lengths[self._groups].sum()) >= least_rows
        if not is_worth_it or self._plain is not None or not self._are_found_by_name:
            return Stored([], [])
        names = [name for name in self.columns if name not in self._referenced]
        texts = [name for name in names if is_text(self.schema.field(name).type)]
        metadata = self._chunks.metadata
        with one_clear_line("read", self.path):
            strings = strings_with_few_values(metadata, texts, self._groups)
            return Stored(strings, narrow_decimals(metadata, self.schema, names))

    def read_stored(self, columns: Stored) -> None:
        """See ``Reader``."""
        self._as_stored = columns
        with one_clear_line("read", self.path):
            decimals = columns.decimals
            self._stored = without_decimals(self._chunks.metadata, decimals) if decimals else None

    def _open_stored(self) -> pq.ParquetFile:
        """The file, to be read as ``read_stored`` has it."""
        return self._open(dictionaries=self._as_stored.strings, metadata=self._stored)

    @property
    def _are_found_by_name(self) -> bool:
        """Whether PyArrow resolves each column's name to exactly that column."""
        are_distinct = len({*self._needed}) == len(self._needed)
        return not self._is_read_by_groups and not self._has_dots and are_distinct

    @property
    def _has_dots(self) -> bool:
        """Whether a needed column's name could mean a nested field."""
        return any("." in name for name in self._needed)

    @property
    def _named(self) -> list[str] | None:
        """The columns to request from PyArrow; ``None``: all, also if a name with a dot could mean a nested field."""
        is_clear = len(self._needed) < self._all_columns and not self._has_dots
        return self._needed if is_clear else None

    @property
    def rows(self) -> int | None:
        """See ``Reader``."""
        assert self._metadata is not None
        return int(self._metadata.num_rows) if self._are_found_by_name else None

    @cached_property
    def _lengths(self) -> Rows:
        """Rows of each row group."""
        assert self._metadata is not None
        groups = range(self._metadata.num_row_groups)
        return np.array([self._metadata.row_group(group).num_rows for group in groups], np.int64)

    @property
    def _ends(self) -> Rows:
        return np.cumsum(self._lengths)


def fixed_bytes(kind: pa.DataType) -> int | None:
    """Bytes of a value in memory if its type determines them, otherwise ``None``."""
    if pa.types.is_dictionary(kind) or pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return None
    try:
        return -(-int(kind.bit_width) // 8)
    except ValueError:
        return None
