"""Sorting files into a file: in memory where they fit, by spilled runs where they do not."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Unpack

import numpy as np
import pyarrow as pa

from linkwise._core import UsageError
from linkwise._typing import Array
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.key_types import keys_of_array, plain_array, times_of_keys
from linkwise.columns.row_checksum import RowChecksum, check_same_rows
from linkwise.columns.sort_keys import By, Descending, Nulls, Selection, SortKey, sort_keys_of
from linkwise.files.external_sort import SpillSort, is_too_large, memory_to_use, read_within
from linkwise.files.formats import FileOptions, as_path, expand
from linkwise.files.free_space import check_room_for_output, check_room_for_runs
from linkwise.files.reader import Reader, unchanged
from linkwise.files.readers import open_reader
from linkwise.files.writer import Writer
from linkwise.interop.containers import ONE_COLUMN, Contents
from linkwise.parquet.encoding import Dictionary, ParquetOptions
from linkwise.runtime.execution import ExecutionOptions, Progress, SortExecution, takes_execution
from linkwise.runtime.sort_plan import SortPlan
from linkwise.sorting.arrays import sort_array
from linkwise.sorting.check import each_checked
from linkwise.sorting.report import SortReport
from linkwise.sorting.tables import sort_table

_AT_ONCE = 256 << 20  # bytes of a file


@takes_execution(SortExecution)
def sort_file(
    source: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    by: By = None,
    descending: Descending = False,
    nulls: Nulls = "last",
    limit: int | None = None,
    unique: bool = False,
    host_memory_limit: int | str | None = None,
    temporary_directory: str | Path | None = None,
    dtype: str | None = None,
    column_types: Mapping[str, str] | None = None,
    header: bool = True,
    input_format: str | None = None,
    output_format: str | None = None,
    compression: str | None = None,
    row_group_rows: int | None = None,
    dictionary: Dictionary = "auto",
    page_index: bool = False,
    force: bool = False,
    on_progress: Progress | None = None,
    **execution: Unpack[SortExecution],
) -> SortReport:
    """Sort files and write one: tables (Parquet, Arrow, CSV, TSV) by columns, ``.npy`` and raw ``.bin`` by value.

    What does not fit into host memory is sorted in runs, which are spilled and merged back as a stream. The output
    appears complete or not at all, and no run is left behind. Parameters that are not named here, and errors: as
    ``linkwise.sort``.

    Parameters
    ----------
    source, out
        File names, which tell the formats: ``.parquet``; ``.arrow``, ``.feather``, ``.ipc``; ``.csv``, ``.tsv``;
        ``.npy``; ``.bin``. Several sources, or a pattern like ``part-*.csv``, are sorted as one. ``-`` is standard
        input or output.
    limit, unique
        As ``top_k`` and ``unique`` have it: write the first rows only, and one row of each key.
    host_memory_limit
        Bytes, or like ``"64GiB"`` or ``"80%"``; all that is free unless given.
    temporary_directory
        Where runs are spilled; the system's unless given.
    dtype
        The NumPy type of the numbers in a ``.bin`` file.
    column_types, header
        Of text files: Arrow names of the types of columns, which are inferred from the first lines otherwise, and
        whether the first line has the columns' names.
    input_format, output_format
        Instead of what the names end in: parquet, arrow, csv, tsv, npy or bin.
    compression, row_group_rows, dictionary, page_index
        Of a Parquet output: a codec with or without its level, as ``"zstd:3"`` (the input's unless given), the rows of
        a row group, which columns have a dictionary (``"auto"``: those where a sample says that it pays, ``"all"`` or
        ``"none"``), and whether there is an index of pages.
    force
        Replace a read-only output, and begin what free space on the disks seems too little for.
    **execution
        Where and how it runs: see ``linkwise.options``.

    """
    parquet = ParquetOptions(compression, row_group_rows, dictionary, page_index)
    file_options = FileOptions(dtype, dict(column_types or {}), header, input_format, output_format, parquet)

    def keys(reader: Reader, paths: Sequence[Path]) -> list[SortKey]:
        return keys_of_files(reader, paths, by, descending, nulls, unique=unique)

    return sort_paths(
        source, as_path(out), keys, ExecutionOptions.of(execution, SortPlan, on_progress), Selection(unique, limit),
        file_options, host_memory_limit, temporary_directory, force=force,
    )  # fmt: skip


KeysOf = Callable[[Reader, Sequence[Path]], list[SortKey]]
"""What to sort files by, when they are open."""


def sort_paths(
    source: str | Path | Sequence[str | Path],
    out: Path,
    keys_of: KeysOf,
    execution: ExecutionOptions,
    selection: Selection,
    options: FileOptions,
    host_memory_limit: int | str | None = None,
    temporary_directory: str | Path | None = None,
    *,
    force: bool = False,
) -> SortReport:
    """Sort files into one; see ``sort_file``."""
    _, reader, keys = _opened(source, keys_of, options)
    return sort_reader(
        reader, out, keys, execution, selection, options, host_memory_limit, temporary_directory, force=force
    )


def first_out_of_order_in(
    source: str | Path | Sequence[str | Path], keys_of: KeysOf, options: FileOptions, *, unique: bool = False
) -> tuple[list[Path], int] | None:
    """The files, and the number of their first row that is out of order, some at a time; ``None`` if none is."""
    paths, reader, keys = _opened(source, keys_of, options)
    checked = each_checked(reader.batches(_AT_ONCE), keys, unique=unique)
    return next(((paths, row) for _, row in checked if row is not None), None)


def _opened(
    source: str | Path | Sequence[str | Path], keys_of: KeysOf, options: FileOptions
) -> tuple[list[Path], Reader, list[SortKey]]:
    paths = expand(source)
    reader = open_reader(paths, options)
    return paths, reader, keys_of(reader, paths)


def sort_reader(
    reader: Reader,
    out: Path,
    keys: list[SortKey],
    execution: ExecutionOptions,
    selection: Selection,
    options: FileOptions,
    host_memory_limit: int | str | None = None,
    temporary_directory: str | Path | None = None,
    *,
    force: bool = False,
) -> SortReport:
    """Sort what is read into a file; see ``sort_file``."""
    memory = memory_to_use(host_memory_limit)
    if selection.limit is not None and selection.limit < 0:
        raise UsageError(f"limit is {selection.limit}; it is a number of rows")
    began = time.perf_counter()
    by = keys if reader.columns else ()
    directory = None if temporary_directory is None else Path(temporary_directory)
    with Writer(out, options, like=reader, schema=reader.schema, keys=by, memory=memory, force=force) as writer:
        if not force and selection.is_everything:
            check_room_for_output(out, writer.format, reader.size or 0)
            if is_too_large([reader], memory):
                check_room_for_runs([reader], directory)
        with unchanged([reader]):
            report = _FileSort(reader, keys, selection, execution, memory, directory).run(writer.write)
        return dataclasses.replace(report, wall_seconds=time.perf_counter() - began)


def keys_of_files(
    reader: Reader, paths: Sequence[Path], by: By, descending: Descending, nulls: Nulls, *, unique: bool = False
) -> list[SortKey]:
    """What to sort files by. Raises ``UsageError``."""
    named = ", ".join(map(str, paths))
    if not reader.columns:
        if by is not None:
            raise UsageError(f"{named} has no columns; leave by= out")
        return sort_keys_of([ONE_COLUMN], ONE_COLUMN, descending, nulls)
    try:
        return sort_keys_of(reader.columns, reader.columns if by is None and unique else by, descending, nulls)
    except UsageError as error:
        raise UsageError(f"{named}: {error}") from None


class _FileSort:
    def __init__(
        self, reader: Reader, keys: list[SortKey], selection: Selection, execution: ExecutionOptions, memory: int,
        directory: Path | None,
    ) -> None:  # fmt: skip
        self._reader, self._keys, self._selection, self._execution = reader, keys, selection, execution
        self._memory, self._directory = memory, directory
        self._reports: list[SortReport] = []

    def run(self, write: Callable[[Contents], None]) -> SortReport:
        """Sort everything that is read, and write it."""
        read = read_within([self._reader], self._memory)
        if read.everything is None:
            return self._in_batches(read.batches[0], write)
        contents = read.everything[0]
        result = self._sort(contents, self._selection)
        if self._execution.verify and self._selection.is_everything and isinstance(contents, pa.Table):
            check_same_rows(RowChecksum(contents), RowChecksum(result))
        write(result)
        return self._reports[0]

    def _sort(self, contents: Contents, selection: Selection) -> Contents:
        execution = self._execution
        if isinstance(contents, np.ndarray):
            descending = self._keys[0].descending
            result, report = sort_array(contents, execution, selection=selection, descending=descending)
        else:
            result, report = sort_table(contents, self._keys, execution, selection)
        self._reports.append(report)
        return result

    def _in_batches(self, batches: Iterable[Contents], write: Callable[[Contents], None]) -> SortReport:
        on_progress = self._execution.on_progress or (lambda _: None)
        self._execution = dataclasses.replace(self._execution, on_progress=None)  # that of all, not of a batch
        rows = size = 0
        kind: np.dtype[np.generic] | None = None

        def tables() -> Iterator[pa.Table]:
            nonlocal rows, size, kind
            for batch in batches:
                rows, size = rows + len(batch), size + bytes_of(batch)
                if isinstance(batch, np.ndarray):
                    kind = batch.dtype
                yield _as_table(batch)

        def write_table(table: pa.Table) -> None:
            write(table if kind is None else _as_array(table, kind))

        parts = tables()
        first = next(parts)
        parts = itertools.chain([first], parts)
        if self._keeps_few(first):
            write_table(self._first_rows(parts))
            how = "a batch at a time"
        else:
            spill = SpillSort(
                self._keys, self._sort_batch, self._selection.unique, self._memory, self._reader.size, self._directory,
                self._execution.verify, on_progress,
            )  # fmt: skip
            runs = spill.run(parts, _first(self._selection.limit, write_table))
            how = f"{runs} runs spilled and merged"
        report = SortReport.together(self._reports)
        return dataclasses.replace(report, rows=rows, bytes=size, spilled=how)

    def _keeps_few(self, batch: pa.Table) -> bool:
        """Whether the rows that are wanted fit into memory beside a batch."""
        limit, unique = self._selection.limit, self._selection.unique
        return limit is not None and not unique and limit <= max(batch.num_rows, 1)

    def _sort_batch(self, table: pa.Table) -> pa.Table:
        return self._sort(table, Selection(unique=self._selection.unique))

    def _first_rows(self, tables: Iterable[pa.Table]) -> pa.Table:
        """The first of all, from the first so far and those of the next batch."""
        best: pa.Table | None = None
        for table in tables:
            first = self._sort(table, self._selection)
            best = first if best is None else self._sort(pa.concat_tables([best, first]), self._selection)
        return best


def _first(limit: int | None, write: Callable[[pa.Table], None]) -> Callable[[pa.Table], None]:
    """Writes so many rows, and lets the others go."""
    if limit is None:
        return write
    left = limit

    def write_some(table: pa.Table) -> None:
        nonlocal left
        write(table.slice(0, left))
        left -= min(left, table.num_rows)

    return write_some


def _as_table(contents: Contents) -> pa.Table:
    """An array as what it is sorted by: whatever its type, one column of numbers."""
    if not isinstance(contents, np.ndarray):
        return contents
    return pa.table({ONE_COLUMN: pa.array(keys_of_array(plain_array(contents)))})


def _as_array(table: pa.Table, kind: np.dtype[np.generic]) -> Array:
    keys = table.column(0).to_numpy()
    native = times_of_keys(keys, kind.newbyteorder("=")) if kind.kind in "mM" else keys.view(kind.newbyteorder("="))
    return native.astype(kind, copy=False)
