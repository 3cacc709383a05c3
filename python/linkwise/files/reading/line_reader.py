"""Reading text in parts of whole rows, and carrying rows verbatim from input to output."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO, NoReturn

import numpy as np
import pyarrow as pa

from linkwise import _core
from linkwise._core import Error
from linkwise._typing import Format
from linkwise.exceptions import FallbackWarning, warn_caller
from linkwise.files.locations import Location, name_of, size_of
from linkwise.files.reading.reader import CarriedRows, TableReader, unused_name
from linkwise.runtime.parallel import in_order

BLOCK = 16 << 20
"""Bytes of text that types are inferred from."""
BLOCK_OF_A_CORE = 4 << 20
"""Those that a core parses at once."""
MOST_DIGITS = 38  # of a decimal of 128 bits
_LEAST_BLOCK = 1 << 20  # bytes, where memory is limited
_BYTES_OF_TEXT = 3  # in memory, per byte that is being parsed: the text and its columns
_LONGEST_ROW = 256 << 20  # bytes; a row may exceed a block
_LINE_END = re.compile(rb"[\r\n]")


class LineReader(TableReader):
    """A text file or pipe whose schema is inferred from its first rows.

    With a delimiter, quoted values may contain line breaks; without one, every line is a row.
    """

    def __init__(self, path: Location, pipe: BinaryIO | None, kind: Format, delimiter: str, *, header: bool) -> None:
        super().__init__(path, kind)
        self._pipe, self._delimiter, self._header = pipe, delimiter, header
        self._first = b""  # bytes that have been read from a pipe already
        self._has_blank_lines = False  # whether blank lines are rows
        self._all_names: list[str] = []
        self._mapped: _core.MappedFile | None = None  # contains the carried rows
        self._parsed_names: list[str] = []  # the columns to parse if rows are carried verbatim
        self._can_be_carried = True
        size = None if pipe is not None else size_of(path)
        self.size = None if size is None else 2 * size

    def carry_rows(self, columns: Sequence[str]) -> None:
        """See ``Reader``."""
        kept = dict.fromkeys([*columns, *self._referenced])
        if not self._can_be_carried or any(self._all_names.count(name) > 1 for name in kept):
            return
        self._parsed_names = list(kept)
        row = unused_name("row", self._all_names)
        self._set_schema(pa.schema([*(self.schema.field(name) for name in kept), pa.field(row, pa.large_binary())]))
        self.carried = CarriedRows(row, self.header_as_it_is)

    def check_unchanged(self) -> None:
        """See ``Reader``."""
        self._version.check(is_whole=self._mapped is None or self._mapped.is_whole())

    def _beginning(self) -> bytes:
        """The rows that types are inferred from; PyArrow itself would read many blocks ahead."""
        if self._pipe is None:
            with open(str(self.path), "rb") as file:
                text = self._rows_that_tell(file)
        else:
            text = self._first = self._rows_that_tell(self._pipe)
        if not text:
            raise Error(f"cannot read {name_of(self.path, 'read')}: it is empty, so that its columns are not known")
        return text if len(text) < BLOCK else text[: self._end_of_last_row(text) or len(text)]

    def _rows_that_tell(self, source: BinaryIO) -> bytes:
        """A block of text, or more until it has two whole rows."""
        text = _read_all(source, BLOCK)
        while len(text) < _LONGEST_ROW and not self._end_of_last_row(text[: max(self._end_of_last_row(text) - 1, 0)]):
            more = _read_all(source, BLOCK)
            if not more:
                break
            text += more
        return text

    def _end_of_last_row(self, text: Any) -> int:
        """Behind the last whole row of a text that begins with a row."""
        return _core.end_of_last_row(text, self._delimiter) if self._delimiter else text.rfind(b"\n") + 1

    def _beside_rows(self, batches: list[pa.RecordBatch], text: Any, *, has_names: bool) -> list[pa.RecordBatch]:
        """The parsed batches of a text, with the raw text of each row as one more column."""
        rows = self._rows_as_they_are(text)
        if rows is not None:
            rows = rows[int(has_names) :]
            if len(rows):
                self._check_closed(rows[-1].as_py())
        if rows is None or len(rows) != sum(batch.num_rows for batch in batches):
            why = ", as objects span lines or share them" if rows is None else ""
            raise Error(
                f"cannot read {name_of(self.path, 'read')}: it is not clear where its rows end{why}; write another "
                "format, as .parquet, for which each value is read"
            )
        first, beside = 0, []
        for batch in batches:
            beside.append(
                pa.RecordBatch.from_arrays([*batch.columns, rows.slice(first, batch.num_rows)], schema=self.schema)
            )
            first += batch.num_rows
        return beside

    def _rows_as_they_are(self, text: Any) -> pa.Array | None:
        """The raw text of each row; ``None`` if the boundaries of rows are unclear."""
        return rows_of(text, self._delimiter, keeps_blank=self._has_blank_lines)

    def _source(self) -> Any:
        """A source of the text from its beginning."""
        source = pa.OSFile(str(self.path)) if self._pipe is None else _Behind(self._first, self._pipe)
        self._first = b""
        return source

    def _map(self) -> Any:
        """The whole text, memory-mapped."""
        self._mapped = _core.MappedFile(str(self.path))
        return pa.py_buffer(self._mapped.bytes)

    def _parsed_on_all_cores(
        self, source: Any, most_bytes: int | None, parsed: Callable[[int, memoryview], list[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a text: what ``parsed`` makes of its parts, of which it gets the number and the text.

        With about ``most_bytes`` in memory. Raises ``Error`` where a row has no end.
        """
        size, most_ahead = BLOCK_OF_A_CORE, len(os.sched_getaffinity(0))
        if most_bytes is not None:
            of_text = most_bytes // _BYTES_OF_TEXT
            most_ahead = min(max(of_text // _LEAST_BLOCK - 1, 0), most_ahead)
            size = min(max(of_text // (most_ahead + 1), _LEAST_BLOCK), BLOCK_OF_A_CORE)
        parts = (partial(parsed, number, text) for number, text in enumerate(self._parts(source, size)))
        for batches in in_order(parts, most_ahead):
            yield from batches

    def _parts(self, source: Any, size: int) -> Iterator[memoryview]:
        """The text in parts of whole rows, of about ``size`` bytes. Raises ``Error`` where a row has no end.

        The last part is all that is left: an end of the last row, or of an object of several lines, may be missing.
        """
        text, wanted = source.read(size), size
        while text:
            more = source.read(wanted)
            end = self._end_of_last_row(text) if more else len(text)
            if not more:
                self._check_closed(text)
            elif not end and len(text) > _LONGEST_ROW:
                raise Error(
                    f"cannot read {name_of(self.path, 'read')}: a row takes more than {_LONGEST_ROW >> 20} MiB; is a "
                    "quote missing?"
                )
            if end:
                yield memoryview(text)[:end]
            text = text[end:] + more
            wanted = size if end else len(text)  # a long row is looked at from its beginning: but few times

    def _check_closed(self, text: bytes) -> None:
        """Raise ``Error`` if a quote is open at the end of the text: the rows behind it would be part of a value."""
        last_row = text[self._end_of_last_row(text) :]
        if has_line_end(last_row) and not self._end_of_last_row(last_row + b"\n"):
            self._fail_to_close()

    def _tell_of_wide_integers(self, name: str, kind: pa.DataType, advice: str = "") -> None:
        told = f"{self.path}: column {name!r} has integers of more than 64 bits, which are read as {kind}{advice}"
        warn_caller(told, FallbackWarning)

    def _fail_to_close(self) -> NoReturn:
        raise Error(f"cannot read {name_of(self.path, 'read')}: a quote is open at its end; close it")


def has_line_end(text: bytes | memoryview) -> bool:
    """Whether there is any, in quotes or not."""
    return _LINE_END.search(text) is not None


def rows_of(text: Any, delimiter: str, *, keeps_blank: bool) -> pa.Array:
    """The raw text of each row, with its line end."""
    letters, offsets = _core.rows_of_text(np.frombuffer(text, np.uint8), delimiter or "\0", keeps_blank)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text if letters is None else letters)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _read_all(pipe: BinaryIO, size: int) -> bytes:
    """Read ``size`` bytes, or fewer if the pipe ends before."""
    parts = []
    while size and (part := pipe.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class _Behind:
    """A pipe whose first bytes have been read already."""

    def __init__(self, first: bytes, pipe: BinaryIO) -> None:
        self._first, self._pipe = memoryview(first), pipe
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        if not self._first:
            return self._pipe.read(size)
        part = self._first if size < 0 else self._first[:size]
        self._first = self._first[len(part) :]
        return bytes(part)

    def close(self) -> None:
        self.closed = True
