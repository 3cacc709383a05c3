"""Reading lines of text with commas or tabs."""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from linkwise import _core
from linkwise._core import Error, UsageError
from linkwise._typing import Format
from linkwise.exceptions import FallbackWarning, warn_caller
from linkwise.files.formats import FileOptions, arrow_type, name_of, one_clear_line, size_of
from linkwise.files.reader import CarriedRows, TableReader, unused_name

_BLOCK = 16 << 20  # bytes of text that are parsed at once, and whose first block tells the types
_BLOCK_OF_A_CORE = 4 << 20  # where all is read at once
_LEAST_BLOCK = 1 << 20  # where little memory is to be used,
_LONGEST_ROW = 256 << 20  # of which a row may take more
_LONGEST_TOLD = 300  # letters of what PyArrow says
_MOST_DIGITS = 38  # of a decimal of 128 bits


class TextReader(TableReader):
    """A file, or a pipe, whose first lines are looked at before it is read."""

    def __init__(self, path: Path, pipe: BinaryIO | None, kind: Format, options: FileOptions) -> None:
        super().__init__(path, kind)
        self._pipe, self._header = pipe, options.header
        self._delimiter = "\t" if kind == "tsv" else ","
        self._has_blank_lines = False  # which are rows
        self._types = {name: arrow_type(alias) for name, alias in options.column_types.items()}
        with one_clear_line("read", path):
            self._first = b"" if pipe is None else self._rows_that_tell(pipe)
            beginning = self._beginning()
            schema = self._open_whole(beginning, self._types).schema
            if len(schema) == 1:
                self._has_blank_lines = True
                schema = self._open_whole(beginning, self._types).schema
            self._types |= self._wide_integers(schema, beginning)
            self._types = {field.name: self._types.get(field.name, field.type) for field in schema}
        self._all_names = list(schema.names)
        self._mapped: _core.MappedFile | None = None  # which carried rows lie in
        self._parsed_names: list[str] = []  # the columns that are parsed, if rows are carried as they are
        if options.header:
            self.header_as_it_is = _rows_of(beginning, self._delimiter, keeps_blank=False)[0].as_py()
        self._can_be_carried = options.header or not beginning.startswith(codecs.BOM_UTF8)
        self._set_schema(pa.schema([field.with_type(self._types[field.name]) for field in schema]))
        for field in self.schema:
            if pa.types.is_binary(field.type) and field.name not in options.column_types:
                raise UsageError(f"{path}: column {field.name!r} is not UTF-8; convert it, or give it the type binary")
        size = size_of(path)
        self.size = None if size is None else 2 * size

    def carry_rows(self, columns: Sequence[str]) -> None:
        """See ``Reader``."""
        if not self._can_be_carried or len({*self._all_names}) < len(self._all_names):
            return
        kept = dict.fromkeys([*columns, *self._referenced])
        self._parsed_names = list(kept)
        row = unused_name("row", self._all_names)
        self._set_schema(pa.schema([*(self.schema.field(name) for name in kept), pa.field(row, pa.large_binary())]))
        self.carried = CarriedRows(row, self.header_as_it_is)

    def check_unchanged(self) -> None:
        """See ``Reader``."""
        self._version.check(is_whole=self._mapped is None or self._mapped.is_whole())

    def _beginning(self) -> bytes:
        """The rows that tell the types. PyArrow would read many blocks ahead of what is asked for."""
        text = self._first
        if self._pipe is None:
            with self.path.open("rb") as file:
                text = self._rows_that_tell(file)
        return text if len(text) < _BLOCK else text[: self._end_of_last_row(text) or len(text)]

    def _rows_that_tell(self, source: BinaryIO) -> bytes:
        """A block of text; more where the first rows are longer."""
        text = _read_all(source, _BLOCK)
        while len(text) < _LONGEST_ROW and not self._end_of_last_row(text[: max(self._end_of_last_row(text) - 1, 0)]):
            more = _read_all(source, _BLOCK)
            if not more:
                break
            text += more
        return text

    def _end_of_last_row(self, text: bytes) -> int:
        return _core.end_of_last_row(text, self._delimiter)

    def _open(
        self, source: Any, types: dict[str, pa.DataType], columns: list[str] | None = None,
        names: list[str] | None = None, block: int = _BLOCK,
    ) -> Any:  # fmt: skip
        """What reads a text batch by batch; its first row has the names of the columns unless they are given."""
        how = pa.csv.ReadOptions(
            block_size=block, autogenerate_column_names=not self._header and names is None, use_threads=False,
            column_names=names,
        )  # fmt: skip
        return pa.csv.open_csv(source, how, self._parsing, _conversion(types, columns))

    def _open_whole(
        self, text: bytes, types: dict[str, pa.DataType], columns: list[str] | None = None,
        names: list[str] | None = None,
    ) -> Any:  # fmt: skip
        """The same of whole rows, in a block that none of them is longer than."""
        return self._open(pa.BufferReader(text), types, columns, names, block=len(text) + 1)

    @property
    def _parsing(self) -> Any:
        return pa.csv.ParseOptions(
            delimiter=self._delimiter, newlines_in_values=True, ignore_empty_lines=not self._has_blank_lines
        )

    def _wide_integers(self, schema: pa.Schema, beginning: bytes) -> dict[str, pa.DataType]:
        """Types of columns of integers beyond 64 bits, of which PyArrow makes floats: different ones would be equal."""
        floats = [field.name for field in schema if field.type == pa.float64() and field.name not in self._types]
        if not floats or len(set(schema.names)) < len(schema):
            return {}
        as_text = {name: pa.string() for name in floats}
        batch = self._open_whole(beginning, self._types | as_text, floats).read_next_batch()
        found = {}
        for name, column in zip(floats, batch.columns, strict=True):
            digits = pc.replace_substring_regex(column.drop_null(), r"^\s*[+-]?0*(\d+)\s*$", r"\1")
            if len(digits) and pc.all(pc.match_substring_regex(digits, r"^\d+$")).as_py():
                most = pc.max(pc.utf8_length(digits)).as_py()
                found[name] = pa.decimal128(_MOST_DIGITS, 0) if most <= _MOST_DIGITS else pa.string()
                warn_caller(
                    f"{self.path}: column {name!r} has integers of more than 64 bits, which are read as {found[name]}; "
                    f"--types {name}=string reads them as text",
                    FallbackWarning,
                )
        return found

    def _read(self, most_bytes: int | None) -> Iterator[pa.RecordBatch]:
        rows = 0  # before those that are parsed, of which PyArrow tells which is wrong
        try:
            if most_bytes is None and self._pipe is None:
                try:
                    yield from self._read_on_all_cores()
                    return
                except pa.ArrowInvalid as error:
                    if "straddl" not in str(error):  # which a row does that is longer than a block
                        raise
            source = pa.OSFile(str(self.path)) if self._pipe is None else _Behind(self._first, self._pipe)
            self._first = b""
            size = _BLOCK if most_bytes is None else min(max(most_bytes, _LEAST_BLOCK), _BLOCK)
            with contextlib.closing(source):
                for number, text in enumerate(self._parts(source, size)):
                    if number and text.startswith(codecs.BOM_UTF8):  # of which PyArrow takes one away
                        text = codecs.BOM_UTF8 + text  # noqa: PLW2901 - the same rows
                    for batch in self._parsed(text, has_names=self._header and not number):
                        yield batch
                        rows += batch.num_rows
        except pa.ArrowInvalid as error:
            told = re.sub(r"CSV column #(\d+)", self._named, str(error).splitlines()[0][:_LONGEST_TOLD])
            told = re.sub(r"Row #(\d+)", lambda found: f"Row #{int(found[1]) + rows}", told)
            raise Error(
                f"cannot read {name_of(self.path, 'read')}: {told}; types are those of the first lines: give the "
                "column's own with --types NAME=string"
            ) from None

    def _read_on_all_cores(self) -> list[pa.RecordBatch]:
        """All rows of a file. Raises ``ArrowInvalid``."""
        how = pa.csv.ReadOptions(block_size=_BLOCK_OF_A_CORE, autogenerate_column_names=not self._header)
        if self.carried is None:
            source = pa.OSFile(str(self.path))
            found: pa.Table = pa.csv.read_csv(source, how, self._parsing, _conversion(self._types))
            return list(found.to_batches())
        self._mapped = _core.MappedFile(str(self.path))
        text = pa.py_buffer(self._mapped.bytes)
        conversion = _conversion(self._types, self._parsed_names)
        found = pa.csv.read_csv(pa.BufferReader(text), how, self._parsing, conversion)
        return self._beside_rows(list(found.to_batches()), text, has_names=self._header)

    def _beside_rows(self, batches: list[pa.RecordBatch], text: Any, *, has_names: bool) -> list[pa.RecordBatch]:
        """What was parsed of a text, and beside it the rows as they are."""
        rows = _rows_of(text, self._delimiter, keeps_blank=self._has_blank_lines)[int(has_names) :]
        if len(rows) != sum(batch.num_rows for batch in batches):
            raise Error(
                f"cannot read {name_of(self.path, 'read')}: it is not clear where its rows end; write another format, "
                "as .parquet, for which each value is read"
            )
        first, beside = 0, []
        for batch in batches:
            beside.append(
                pa.RecordBatch.from_arrays([*batch.columns, rows.slice(first, batch.num_rows)], schema=self.schema)
            )
            first += batch.num_rows
        return beside

    def _parts(self, source: Any, size: int) -> Iterator[bytes]:
        """A text in parts of whole rows, of about so many bytes. Raises ``Error`` where a row has no end."""
        text = b""
        while part := source.read(size):
            text += part
            end = self._end_of_last_row(text)
            if end:
                yield text[:end]
                text = text[end:]
            elif len(text) > _LONGEST_ROW:
                raise Error(
                    f"cannot read {name_of(self.path, 'read')}: a row takes more than {_LONGEST_ROW >> 20} MiB; is a "
                    "quote missing?"
                )
        if text:
            yield text

    def _parsed(self, text: bytes, *, has_names: bool) -> list[pa.RecordBatch]:
        """The rows of a part. Raises ``ArrowInvalid``."""
        names = None if has_names else self._all_names
        if self.carried is None:
            return list(self._open_whole(text, self._types, names=names))
        parsed = list(self._open_whole(text, self._types, self._parsed_names, names))
        return self._beside_rows(parsed, text, has_names=has_names)

    def _named(self, number: re.Match[str]) -> str:
        return f"column {self.columns[int(number[1])]!r}" if int(number[1]) < len(self.columns) else number[0]


def _rows_of(text: Any, delimiter: str, *, keeps_blank: bool) -> pa.Array:
    """The rows of a text as they are, each with its end."""
    letters, offsets = _core.rows_of_text(np.frombuffer(text, np.uint8), delimiter, keeps_blank)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text if letters is None else letters)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _conversion(types: dict[str, pa.DataType], columns: list[str] | None = None) -> Any:
    # Nothing between two commas is null, as in other engines; "" is a text, and nan a number.
    return pa.csv.ConvertOptions(
        column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False,
        include_columns=columns or [],
    )  # fmt: skip


def _read_all(pipe: BinaryIO, size: int) -> bytes:
    """So many bytes, unless the pipe ends before."""
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
