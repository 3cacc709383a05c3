"""Reading lines of text with commas or tabs."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from linkwise._core import Error, UsageError
from linkwise._typing import Format
from linkwise.exceptions import FallbackWarning, warn_caller
from linkwise.files.formats import FileOptions, arrow_type, name_of, one_clear_line, size_of
from linkwise.files.reader import TableReader

_BLOCK = 16 << 20  # bytes of text that are parsed at once, and whose first block tells the types
_LEAST_BLOCK = 4 << 20  # where little memory is to be used; a row may have no more
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
            # Two blocks, so that the first is cut off where it will be when all is read.
            self._first = b"" if pipe is None else _read_all(pipe, 2 * _BLOCK)
            schema = self._open(self._beginning(), self._types, most_bytes=_BLOCK).schema
            if len(schema) == 1:
                self._has_blank_lines = True
                schema = self._open(self._beginning(), self._types, most_bytes=_BLOCK).schema
            self._types |= self._wide_integers(schema)
            self._types = {field.name: self._types.get(field.name, field.type) for field in schema}
        self._set_schema(pa.schema([field.with_type(self._types[field.name]) for field in schema]))
        for field in self.schema:
            if pa.types.is_binary(field.type) and field.name not in options.column_types:
                raise UsageError(f"{path}: column {field.name!r} is not UTF-8; convert it, or give it the type binary")
        size = size_of(path)
        self.size = None if size is None else 2 * size

    def _beginning(self) -> Any:
        return pa.OSFile(str(self.path)) if self._pipe is None else io.BytesIO(self._first)

    def _open(
        self,
        source: Any,
        types: dict[str, pa.DataType],
        columns: list[str] | None = None,
        most_bytes: int | None = None,
    ) -> Any:
        # Threads parse many blocks ahead.
        block = _BLOCK if most_bytes is None else min(max(most_bytes, _LEAST_BLOCK), _BLOCK)
        return pa.csv.open_csv(
            source,
            pa.csv.ReadOptions(
                block_size=block, autogenerate_column_names=not self._header, use_threads=most_bytes is None
            ),
            pa.csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, ignore_empty_lines=not self._has_blank_lines
            ),
            # Nothing between two commas is null, as in other engines; "" is a text, and nan a number.
            pa.csv.ConvertOptions(
                column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False,
                include_columns=columns or [],
            ),
        )  # fmt: skip

    def _wide_integers(self, schema: pa.Schema) -> dict[str, pa.DataType]:
        """Types of columns of integers beyond 64 bits, of which PyArrow makes floats: different ones would be equal."""
        floats = [field.name for field in schema if field.type == pa.float64() and field.name not in self._types]
        if not floats or len(set(schema.names)) < len(schema):
            return {}
        as_text = {name: pa.string() for name in floats}
        batch = self._open(self._beginning(), self._types | as_text, floats, _BLOCK).read_next_batch()
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
        source = pa.OSFile(str(self.path)) if self._pipe is None else _Behind(self._first, self._pipe)
        self._first = b""
        try:
            yield from self._open(source, self._types, most_bytes=most_bytes)
        except pa.ArrowInvalid as error:
            told = re.sub(r"CSV column #(\d+)", self._named, str(error).splitlines()[0])
            raise Error(
                f"cannot read {name_of(self.path, 'read')}: {told}; types are those of the first lines: give the "
                "column's own with --types NAME=string"
            ) from None

    def _named(self, number: re.Match[str]) -> str:
        return f"column {self.columns[int(number[1])]!r}" if int(number[1]) < len(self.columns) else number[0]


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
