"""Sorting files into a file: in memory where they fit, by spilled runs where they do not."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from linkwise._core import UsageError
from linkwise._log import log
from linkwise.columns.inside import names_inside, outer_columns
from linkwise.columns.sort_keys import By, Descending, Nulls, Selection, SortKey, listed, sort_keys_of
from linkwise.encoders.parquet_options import Dictionary, ParquetOptions
from linkwise.files.file_sort import FileSort
from linkwise.files.formats import TEXT_FORMATS, FileOptions
from linkwise.files.listing import check_output, expand
from linkwise.files.locations import Location, RemoteFile, Source, target_of
from linkwise.files.reading.reader import Reader, unchanged
from linkwise.files.reading.readers import keep_of_tables, open_reader
from linkwise.files.reading.within_memory import is_too_large, memory_to_use
from linkwise.files.writing.directory_writer import writer_of
from linkwise.files.writing.free_space import check_room_for_output, check_room_for_runs
from linkwise.files.writing.writer import TableWriter, format_of_output
from linkwise.interop.containers import ONE_COLUMN
from linkwise.runtime.execution import ExecutionOptions, Progress, SortExecution, takes_execution
from linkwise.runtime.sort_plan import SortPlan
from linkwise.sorting.check import each_checked
from linkwise.sorting.report import SortReport

_AT_ONCE = 256 << 20  # bytes per batch that is checked


@takes_execution(SortExecution)
def sort_file(
    source: Source | Sequence[Source],
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
    delimiter: str | None = None,
    null_string: str = "",
    columns: Sequence[str] | None = None,
    filter: Any | None = None,
    compression: str | None = None,
    row_group_rows: int | None = None,
    dictionary: Dictionary = "auto",
    delta: bool = True,
    page_index: bool = False,
    partition_by: str | Sequence[str] = (),
    file_rows: int | None = None,
    force: bool = False,
    on_progress: Progress | None = None,
    **execution: Unpack[SortExecution],
) -> SortReport:
    """Sort files and write one: tables (Parquet, Arrow, CSV, TSV, JSON lines) by columns, arrays (``.npy``, ``.bin``).

    Data that exceeds host memory is sorted into runs, which are spilled and merged as a stream. The output appears
    complete or not at all, and no run is left behind. Other parameters, and errors, are those of ``linkwise.sort``.

    Parameters
    ----------
    source, out
        File names, whose endings set the format: ``.parquet``; ``.arrow``, ``.feather``, ``.ipc``; ``.csv``, ``.tsv``,
        ``.jsonl``, optionally followed by ``.gz``, ``.zst`` or ``.bz2``; ``.npy``; ``.bin``. Several sources, a pattern
        such as ``part-*.csv`` or a directory are sorted as one table, whose columns are matched by name; directories
        such as ``day=2024-05-01`` add a column. URIs such as ``s3://bucket/trips/`` name remote files; ``-`` is
        standard input or output. If the output has the input's text format, rows are copied byte for byte. A source
        may also be an object: one with an Arrow stream (a table, a batch reader, a DuckDB relation), a PyArrow
        dataset, or a Polars lazy frame.
    limit, unique
        Write only the first rows, or only one row of each key, as ``top_k`` and ``unique`` do.
    host_memory_limit
        Bytes, ``"64GiB"`` or ``"80%"``; by default all free memory.
    temporary_directory
        The directory to spill to; by default the system's.
    dtype
        The NumPy type of the numbers in a ``.bin`` file.
    column_types, header
        For text files: Arrow type names of columns, otherwise inferred from the first lines, and whether the first line
        has column names.
    input_format, output_format
        Override file name endings: parquet, arrow, csv, tsv, jsonl, npy or bin.
    delimiter, null_string
        For CSV: the delimiter, and the text that means null.
    columns, filter
        For tables: the columns to keep, and a filter on the rows: a PyArrow expression, or text like
        ``"price > 3 and (city in ('Oslo', 'Lima') or note is null)"``. Parquet row groups whose statistics rule out a
        match are not read.
    compression, row_group_rows, dictionary, delta, page_index
        For Parquet output: the codec, optionally with a level, as ``"zstd:3"`` (by default the input's); the rows per
        row group; which columns are dictionary-encoded (``"auto"``: those where a sample shows that it pays;
        ``"all"`` or ``"none"``); whether integers, times and decimals are delta-encoded where that pays
        (``DELTA_BINARY_PACKED``, which old readers may lack); and whether to write a page index.
    partition_by, file_rows
        Write a directory of files, which appears complete or not at all: with subdirectories like ``day=2024-05-01``
        for the values of these columns, each sorted in itself, and with at most ``file_rows`` rows per file.
    force
        Replace a read-only output or a directory that contains files, and start even if the free disk space seems
        insufficient.
    **execution
        Where and how it runs: see ``linkwise.options``.

    """
    parquet = ParquetOptions(compression, row_group_rows, dictionary, delta, page_index)
    kept = None if columns is None else listed(columns)
    file_options = FileOptions(
        dtype, dict(column_types or {}), header, input_format, output_format, kept, filter, delimiter, null_string,
        tuple(listed(partition_by)), file_rows, parquet,
    )  # fmt: skip

    def keys(reader: Reader, paths: Sequence[Location]) -> list[SortKey]:
        return keys_of_files(reader, paths, by, descending, nulls, unique=unique)

    return sort_paths(
        source, target_of(out), keys, ExecutionOptions.of(execution, SortPlan, on_progress), Selection(unique, limit),
        file_options, host_memory_limit, temporary_directory, force=force,
    )  # fmt: skip


KeysOf = Callable[[Reader, Sequence[Location]], list[SortKey]]
"""Returns the sort keys for an open reader of these files."""


def sort_paths(
    source: Source | Sequence[Source],
    out: Path | RemoteFile,
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
    paths, reader, keys = opened(source, keys_of, options)
    check_output(out, source, paths, options)
    return sort_reader(
        reader, out, keys, execution, selection, options, host_memory_limit, temporary_directory, force=force
    )


def first_out_of_order_in(
    source: Source | Sequence[Source], keys_of: KeysOf, options: FileOptions, *, unique: bool = False
) -> tuple[list[Location], int] | None:
    """The files and the number of their first row that is out of order, read in batches; ``None`` if none is."""
    paths, reader, keys = opened(source, keys_of, options)
    checked = each_checked(reader.batches(_AT_ONCE), keys, unique=unique)
    return next(((paths, row) for _, row in checked if row is not None), None)


def opened(
    source: Source | Sequence[Source], keys_of: KeysOf, options: FileOptions
) -> tuple[list[Location], Reader, list[SortKey]]:
    """The files, their reader and the sort keys; the reader is restricted to the requested columns and rows."""
    paths = expand(source)
    reader = open_reader(paths, options)
    keys = keys_of(reader, paths)
    if options.columns is not None or options.filter is not None:
        _keep(reader, keys, options)
    return paths, reader, keys


def _keep(reader: Reader, keys: list[SortKey], options: FileOptions) -> None:
    sorted_by = outer_columns([key.column for key in keys], reader.columns) if reader.columns else []
    keep_of_tables(reader, options.columns, options.filter)
    for name in sorted_by:
        if options.columns is not None and name not in options.columns:
            raise UsageError(f"'{name}' is sorted by, and not among the columns that are kept; name it as well")


def sort_reader(
    reader: Reader,
    out: Path | RemoteFile,
    keys: list[SortKey],
    execution: ExecutionOptions,
    selection: Selection,
    options: FileOptions,
    host_memory_limit: int | str | None = None,
    temporary_directory: str | Path | None = None,
    *,
    force: bool = False,
) -> SortReport:
    """Sort a reader's rows into a file; see ``sort_file``."""
    memory = memory_to_use(host_memory_limit)
    began = time.perf_counter()
    is_text = reader.format in TEXT_FORMATS and format_of_output(out, options, reader) == reader.format
    if is_text and options.columns is None and not options.partition_by:
        # Only the key and filter columns are parsed; each row is carried as raw text.
        reader.carry_rows(outer_columns([key.column for key in keys], reader.columns))
    by = keys if reader.columns else ()
    is_grouped = selection.is_everything
    if options.partition_by and is_grouped:  # sorted by directory first, so that one is written at a time
        keys = _by_directory(keys, options.partition_by)
    with writer_of(
        out, options, like=reader, schema=reader.schema, keys=by, memory=memory, force=force, is_grouped=is_grouped,
        verify_all=execution.verify_all, order=keys,
    ) as writer:  # fmt: skip
        all_come_out = selection.is_everything and options.filter is None
        is_checked = all_come_out and not force
        if is_checked:
            check_room_for_output(out, writer.format, reader.size or 0)
        if all_come_out and not is_too_large([reader], memory):
            writer.expect_all_of(reader)
        report = sort_into(
            writer, reader, keys, execution, selection, memory, temporary_directory, check_room=is_checked,
            as_stored=writer.takes_stored,
        )  # fmt: skip
    whole = dataclasses.replace(report, wall_seconds=time.perf_counter() - began)
    log.info("%s, from files to a file: %s", whole.shown_line(), whole.told_plan())
    return whole


def sort_into(
    writer: TableWriter, reader: Reader, keys: list[SortKey], execution: ExecutionOptions, selection: Selection,
    memory: int, temporary_directory: str | Path | None, *, check_room: bool, as_stored: bool = False,
) -> SortReport:  # fmt: skip
    """Sort a reader's rows into an open writer; with ``check_room``, check first that the runs fit on the disk.

    For ``as_stored`` see ``FileSort``.
    """
    directory = None if temporary_directory is None else Path(temporary_directory)
    if check_room and is_too_large([reader], memory):
        check_room_for_runs([reader], directory)
    with unchanged([reader]):
        sort = FileSort(reader, keys, selection, execution, memory, directory, as_stored=as_stored)
        return sort.run(writer)


def _by_directory(keys: list[SortKey], columns: Sequence[str]) -> list[SortKey]:
    """The keys, preceded by the partition columns unless these are the leading keys already."""
    first = {key.column for key in keys[: len(columns)]}
    return keys if first == {*columns} else [*map(SortKey, columns), *keys]


def names_inside_of(reader: Reader) -> list[str]:
    """The names of struct fields that can be sorted by."""
    return [] if reader.schema is None else names_inside(reader.schema)


def keys_of_files(
    reader: Reader, paths: Sequence[Location], by: By, descending: Descending, nulls: Nulls, *, unique: bool = False
) -> list[SortKey]:
    """The sort keys of files. Raises ``UsageError``."""
    named = ", ".join(map(str, paths))
    if not reader.columns:
        if by is not None:
            raise UsageError(f"{named} has no columns; leave by= out")
        return sort_keys_of([ONE_COLUMN], ONE_COLUMN, descending, nulls)
    try:
        return sort_keys_of(
            reader.columns, reader.columns if by is None and unique else by, descending, nulls,
            inside=names_inside_of(reader),
        )  # fmt: skip
    except UsageError as error:
        raise UsageError(f"{named}: {error}") from None
