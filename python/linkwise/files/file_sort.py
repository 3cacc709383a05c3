"""One sort of a file into another: in memory where it fits, by spilled runs where it does not."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from linkwise._typing import Array
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.inside import outer_columns
from linkwise.columns.key_types import arrow_of_numbers, keys_of_array, plain_array, times_of_keys
from linkwise.columns.packed_rows import PackedColumns
from linkwise.columns.row_checksum import RowChecksum, check_same_rows
from linkwise.columns.sort_keys import Selection, SortKey
from linkwise.columns.string_codes import StringCodes
from linkwise.files.first_rows import FirstRows
from linkwise.files.reading.reader import Reader, Stored
from linkwise.files.reading.within_memory import BATCHES_IN_MEMORY, is_too_large, read_within
from linkwise.files.writing.writer import TableWriter
from linkwise.interop.containers import ONE_COLUMN, Contents
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.gpu_start import start_beside
from linkwise.sorting.arrays import sort_array
from linkwise.sorting.report import SortReport, Steps
from linkwise.sorting.tables import is_in_order, sort_table, sorted_table, table_in_order

WORTH_PACKING = 32 << 20
"""Bytes of a table from which its rows are packed; smaller ones mostly stay in the caches."""

_FIRST_LOOK = 1 << 12  # rows of a part that are checked for order when it is read
_LEAST_STORED = 1 << 16  # rows of a file; of fewer, strings and decimals are copied as soon
_KEY_BYTES = 12  # per row, with its number


class FileSort:
    """One sort of a reader's rows within a memory limit.

    ``as_stored``: whether they are written to a file that stores strings and decimals as they are read; see ``Stored``.
    """

    def __init__(
        self, reader: Reader, keys: list[SortKey], selection: Selection, execution: ExecutionOptions, memory: int,
        directory: Path | None, *, as_stored: bool = False,
    ) -> None:  # fmt: skip
        self._reader, self._keys, self._selection, self._execution = reader, keys, selection, execution
        self._memory, self._directory, self._as_stored = memory, directory, as_stored
        self._reports: list[SortReport] = []
        self._steps = Steps("read")

    def run(self, writer: TableWriter) -> SortReport:
        """Sort all rows and write them."""
        if self._fetches_few():
            return self._fetch_few(writer)
        start_beside(self._execution, _KEY_BYTES * (self._reader.rows or 0))
        size, all_come_out = self._reader.size or 0, self._selection.is_everything
        codes = self._read_stored() if self._as_stored else None
        parts = _Parts(self._keys, size, codes, all_come_out=all_come_out, verify=bool(self._execution.verify))
        read = read_within([self._reader], self._memory, parts.read)
        if read.everything is None:
            return self._in_batches(read.batches[0], writer.write)
        contents = read.everything[0]
        self._steps.begin("")
        if isinstance(contents, pa.Table):
            self._write_table(contents, writer, parts)
        else:
            result = self._sort(contents, self._selection)
            self._steps.begin("write")
            writer.write(result)
        self._steps.begin("")
        return self._reports[0].after(self._steps)

    def _read_stored(self) -> StringCodes | None:
        """Have columns read as they are stored, but for strings that are keys; returns codes for the strings."""
        sorted_by = outer_columns([key.column for key in self._keys], self._reader.columns)
        found = self._reader.storable(_LEAST_STORED)
        strings = [name for name in found.strings if name not in sorted_by]
        self._reader.read_stored(Stored(strings, found.decimals))
        return StringCodes(strings) if strings else None

    def _write_table(self, table: pa.Table, writer: TableWriter, parts: _Parts) -> None:
        """Sort a table and write it; each core gathers and encodes a part at a time."""
        in_order = None
        if self._selection.is_everything and parts.packed is None:
            in_order = table_in_order(table, self._keys, self._execution)
        is_checked = parts.are_checked and in_order is None
        if in_order is None:
            in_order = sorted_table(table, self._keys, self._execution, self._selection)
        size = in_order.report.bytes if parts.packed is None else parts.bytes
        self._reports.append(dataclasses.replace(in_order.report, bytes=size))
        if is_checked:
            self._steps.begin("verify")
            parts.see_the_rest()
        self._steps.begin("rows")
        in_order.prepare_parts(self._execution, parts.packed)
        self._steps.begin("write")

        def part(first: int, count: int) -> pa.Table:
            rows = in_order.part(first, count)
            if is_checked:
                parts.after.add(rows)
            return rows if parts.codes is None else parts.codes.with_dictionaries(rows)

        writer.write_parts(len(in_order), in_order.row_bytes, part)
        writer.flush()
        if is_checked:
            check_same_rows(parts.before, parts.after)

    def _fetches_few(self) -> bool:
        """Whether to read only the keys first, and then fetch the selected rows."""
        limit, unique = self._selection.limit, self._selection.unique
        return limit is not None and not unique and self._reader.is_read_sooner_by_keys(limit, self._keys[0].column)

    def _fetch_few(self, writer: TableWriter) -> SortReport:
        limit = self._selection.limit
        assert limit is not None
        at_once = self._memory // BATCHES_IN_MEMORY if is_too_large([self._reader], self._memory) else None
        in_order, report = FirstRows(self._reader, self._keys, limit, self._execution).fetch(at_once, self._steps)
        self._steps.begin("write")
        writer.write(in_order)
        self._steps.begin("")
        return dataclasses.replace(report, steps=self._steps.seconds)

    def _sort(self, contents: Contents, selection: Selection) -> Contents:
        execution = self._execution
        if isinstance(contents, np.ndarray):
            descending = self._keys[0].descending
            result, report = sort_array(contents, execution, selection=selection, descending=descending)
        else:
            result, report = sort_table(contents, self._keys, execution, selection)
        self._reports.append(report)
        return result

    def _in_batches(self, batches: Iterator[Contents], write: Callable[[Contents], None]) -> SortReport:
        on_progress = self._execution.on_progress or (lambda _: None)
        self._execution = dataclasses.replace(self._execution, on_progress=None)  # it is that of all batches
        rows = size = 0
        kind: np.dtype[np.generic] | None = None

        def tables() -> Iterator[pa.Table]:
            nonlocal rows, size, kind
            for batch in self._steps.timed("read", batches):
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
            best = self._first_rows(parts)
            self._steps.begin("write")
            write_table(best)
            how = "a batch at a time"
        else:
            from linkwise.files.spilling.external_sort import SpillSort  # noqa: PLC0415 - seldom needed

            spill = SpillSort(
                self._keys, self._sort_batch, self._selection.unique, self._memory, self._reader.size, self._directory,
                self._execution.verify, on_progress,
            )  # fmt: skip
            self._steps.begin("spill")
            write_some = _first(self._selection.limit, write_table)
            with spill.merged(parts) as (runs, merged):
                self._steps.begin("merge")
                for table in merged:
                    with self._steps.within("write"):
                        write_some(table)
            how = f"{runs} runs spilled and merged"
        self._steps.begin("")
        report = SortReport.together(self._reports)
        report = dataclasses.replace(report, steps=self._steps.seconds)
        return dataclasses.replace(report, rows=rows, bytes=size, spilled=how)

    def _keeps_few(self, batch: pa.Table) -> bool:
        """Whether the selected rows fit into memory beside a batch."""
        limit, unique = self._selection.limit, self._selection.unique
        return limit is not None and not unique and limit <= max(batch.num_rows, 1)

    def _sort_batch(self, table: pa.Table) -> pa.Table:
        with self._steps.within("sort"):
            return self._sort(table, Selection(unique=self._selection.unique))

    def _first_rows(self, tables: Iterable[pa.Table]) -> pa.Table:
        """The first rows of all tables: the best so far are sorted with those of each next table."""
        best: pa.Table | None = None
        for table in tables:
            with self._steps.within("sort"):
                first = self._sort(table, self._selection)
                best = first if best is None else self._sort(pa.concat_tables([best, first]), self._selection)
        return best


class _Parts:
    """What is done with each part of a table that is read whole: it is coded, added to a checksum, and packed."""

    def __init__(
        self, keys: list[SortKey], size: int, codes: StringCodes | None, *, all_come_out: bool, verify: bool
    ) -> None:
        self._keys, self._size = keys, size
        self._all_come_out = all_come_out
        self.codes = codes
        """Those of string columns with few distinct values."""
        self.are_checked = verify and all_come_out
        self.packed: PackedColumns | None = None
        """How all parts are packed, if they are."""
        self.before, self.after = RowChecksum(), RowChecksum()
        """Checksums of the rows as they are read and as they are written."""
        self.bytes = 0
        """Of all parts, before they are packed."""
        self._in_order: list[pa.Table] = []
        self._lock = threading.Lock()
        self._is_decided = False

    def read(self, part: Contents) -> Contents:
        """What is kept of a part; if it looks sorted, its checksum waits, as a table in order is not checked.

        The part that is read first decides for all whether they are packed: not if it looks sorted.
        """
        if not isinstance(part, pa.Table):
            return part
        size = bytes_of(part)
        if self.codes is not None:
            part = self.codes.coded(part)
        if not self._all_come_out:
            return part
        in_order = is_in_order(part.slice(0, _FIRST_LOOK), self._keys)
        with self._lock:
            self.bytes += size
            if not self._is_decided:
                self._is_decided = True
                self.packed = None if in_order else self._to_pack(part.schema)
        if self.are_checked:
            if in_order and self.packed is None:
                self._in_order.append(part)
            else:
                self.before.add(part)
        return part if self.packed is None else self.packed.pack(part)

    def _to_pack(self, schema: pa.Schema) -> PackedColumns | None:
        """How to pack the rows, if so many are gathered in random order that it pays."""
        if self._size < WORTH_PACKING:
            return None
        packed = PackedColumns(schema, outer_columns([key.column for key in self._keys], schema.names))
        return packed if packed.pays else None

    def see_the_rest(self) -> None:
        """Add the parts that waited to the checksum."""
        for part in self._in_order:
            self.before.add_on_all_cores(part)
        self._in_order = []


def _first(limit: int | None, write: Callable[[pa.Table], None]) -> Callable[[pa.Table], None]:
    """A function that writes the first ``limit`` rows and drops the others."""
    if limit is None:
        return write
    left = limit

    def write_some(table: pa.Table) -> None:
        nonlocal left
        write(table.slice(0, left))
        left -= min(left, table.num_rows)

    return write_some


def _as_table(contents: Contents) -> pa.Table:
    """An array as a table with one numeric column of its sort keys; a table as it is."""
    if not isinstance(contents, np.ndarray):
        return contents
    return pa.table({ONE_COLUMN: arrow_of_numbers(keys_of_array(plain_array(contents)))})


def _as_array(table: pa.Table, kind: np.dtype[np.generic]) -> Array:
    keys = table.column(0).to_numpy()
    native = times_of_keys(keys, kind.newbyteorder("=")) if kind.kind in "mM" else keys.view(kind.newbyteorder("="))
    return native.astype(kind, copy=False)
