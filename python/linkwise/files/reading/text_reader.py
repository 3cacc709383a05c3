"""Reading delimited text: CSV and TSV."""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from linkwise import _core
from linkwise._arrow import pc
from linkwise._core import Error, UsageError
from linkwise._typing import Format
from linkwise.files.formats import FileOptions, arrow_type, one_clear_line
from linkwise.files.locations import Location, name_of
from linkwise.files.reading.line_reader import BLOCK, BLOCK_OF_A_CORE, MOST_DIGITS, LineReader, has_line_end, rows_of

_LONGEST_TOLD = 300  # characters of PyArrow's message
_MOSTLY_A_ROW = 1 << 16  # bytes, of which one row mostly takes fewer
_ROW_AT = re.compile(r"^((?:In CSV column #\d+: |CSV parse error: )?Row #)(\d+)")  # of a message; behind it is text
_COLUMN_AT = re.compile(r"(?<=^In )CSV column #(\d+)")
_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_FIRST_LOOK = 1 << 10  # values
_EXACT_DIGITS = 15  # of integers that doubles hold


class TextReader(LineReader):
    """A file or pipe of delimited text."""

    def __init__(self, path: Location, pipe: BinaryIO | None, kind: Format, options: FileOptions) -> None:
        delimiter = options.delimiter or ("\t" if kind == "tsv" else ",")
        super().__init__(path, pipe, kind, delimiter, header=options.header)
        self._null_string = options.null_string
        self._types = {name: arrow_type(alias) for name, alias in options.column_types.items()}
        with one_clear_line("read", path):
            text = beginning = self._beginning()
            self._is_one_row = bool(beginning) and not self._has_row_end(beginning)
            if self._is_one_row:
                beginning += b"\n"  # which PyArrow asks for
            schema = self._open_whole(beginning, self._types).schema
            if len(schema) == 1:
                self._has_blank_lines = True
                schema = self._open_whole(beginning, self._types).schema
            self._types |= self._wide_integers(schema, beginning)
            self._set_schema(pa.schema([field.with_type(self._types.get(field.name, field.type)) for field in schema]))
            # Of several columns with a name, types cannot be given.
            self._types = {name: self.schema.field(name).type for name in schema.names if schema.names.count(name) == 1}
        self._all_names = list(schema.names)
        if options.header:
            self.header_as_it_is = rows_of(text, delimiter, keeps_blank=False)[0].as_py()
        self._can_be_carried = options.header or not beginning.startswith(codecs.BOM_UTF8)
        for field in self.schema:
            if pa.types.is_binary(field.type) and field.name not in options.column_types:
                raise UsageError(f"{path}: column {field.name!r} is not UTF-8; convert it, or give it the type binary")

    def _open(
        self, source: Any, types: dict[str, pa.DataType], columns: list[str] | None = None,
        names: list[str] | None = None, block: int = BLOCK,
    ) -> Any:  # fmt: skip
        """A streaming CSV reader; without ``names``, the header names the columns, or PyArrow if there is none."""
        how = pa.csv.ReadOptions(
            block_size=block, autogenerate_column_names=not self._header and names is None, use_threads=False,
            column_names=names,
        )  # fmt: skip
        return pa.csv.open_csv(source, how, self._parsing, self._conversion(types, columns))

    def _open_whole(
        self, text: bytes | memoryview, types: dict[str, pa.DataType], columns: list[str] | None = None,
        names: list[str] | None = None,
    ) -> Any:  # fmt: skip
        """As ``_open``, for a text of whole rows, which is parsed as a single block."""
        return self._open(pa.BufferReader(text), types, columns, names, block=len(text) + 1)

    @property
    def _parsing(self) -> Any:
        return pa.csv.ParseOptions(
            delimiter=self._delimiter, newlines_in_values=True, ignore_empty_lines=not self._has_blank_lines
        )

    def _wide_integers(self, schema: pa.Schema, beginning: bytes) -> dict[str, pa.DataType]:
        """Types for columns of integers beyond 64 bits; as PyArrow's floats, different integers would be equal."""
        floats = [field.name for field in schema if field.type == pa.float64() and field.name not in self._types]
        if not floats or len(set(schema.names)) < len(schema):
            return {}
        as_text = {name: pa.string() for name in floats}
        batch = self._open_whole(beginning, self._types | as_text, floats).read_next_batch()
        found = {}
        for name, column in zip(floats, batch.columns, strict=True):
            most = _most_digits(column)
            if most is not None and most > _EXACT_DIGITS:  # fewer have a plus sign, which PyArrow's integers have not
                found[name] = pa.decimal128(MOST_DIGITS, 0) if most <= MOST_DIGITS else pa.string()
                self._tell_of_wide_integers(name, found[name], f"; --types {name}=string reads them as text")
        return found

    def _read(self, most_bytes: int | None) -> Iterator[pa.RecordBatch]:
        rows = 0  # before the part being parsed, within which PyArrow counts rows in its messages
        try:
            if most_bytes is None and self._pipe is None and not self._is_one_row:
                try:
                    yield from self._read_on_all_cores()
                    return
                except pa.ArrowInvalid as error:
                    if "straddl" not in str(error):  # said of a row longer than a block
                        raise
            with contextlib.closing(self._source()) as source:
                for batch in self._parsed_on_all_cores(source, most_bytes, self._parsed):
                    yield batch
                    rows += batch.num_rows + int(self._header and not rows)  # PyArrow counts the header as well
        except pa.ArrowInvalid as error:
            told = _ROW_AT.sub(
                lambda found: f"{found[1]}{int(found[2]) + rows}", str(error).splitlines()[0][:_LONGEST_TOLD]
            )
            told = _COLUMN_AT.sub(self._named, told)
            raise Error(
                f"cannot read {name_of(self.path, 'read')}: {told}; types are those of the first lines: give the "
                "column's own with --types NAME=string"
            ) from None

    def _read_on_all_cores(self) -> list[pa.RecordBatch]:
        """All rows of a file. Raises ``ArrowInvalid``."""
        how = pa.csv.ReadOptions(block_size=BLOCK_OF_A_CORE, autogenerate_column_names=not self._header)
        if self.carried is None:
            source = pa.OSFile(str(self.path))
            found: pa.Table = pa.csv.read_csv(source, how, self._parsing, self._conversion(self._types))
            self._check_end(found)
            return list(found.to_batches())
        text = self._map()
        conversion = self._conversion(self._types, self._parsed_names)
        found = pa.csv.read_csv(pa.BufferReader(text), how, self._parsing, conversion)
        return self._beside_rows(list(found.to_batches()), text, has_names=self._header)

    def _check_end(self, rows: pa.Table) -> None:
        """Raise ``Error`` if a quote is open at the end of the file."""
        last = rows.column(-1)[-1].as_py() if rows.num_columns and rows.num_rows else None
        letters = last.encode() if isinstance(last, str) else last
        if isinstance(letters, bytes) and has_line_end(letters):  # as of all that is behind an open quote
            whole = _core.MappedFile(str(self.path)).bytes
            self._check_closed(whole[self._end_of_last_row(whole) :].tobytes())

    def _parsed(self, number: int, text: memoryview) -> list[pa.RecordBatch]:
        """The rows of a part, on any thread. Raises ``ArrowInvalid``."""
        whole = text
        if number and bytes(text[: len(codecs.BOM_UTF8)]) == codecs.BOM_UTF8:  # PyArrow would strip it
            whole = memoryview(codecs.BOM_UTF8 + text)
        if not self._has_row_end(text):  # which PyArrow asks for
            whole = memoryview(bytes(whole) + b"\n")
        has_names = self._header and not number
        names = None if has_names else self._all_names
        if self.carried is None:
            return list(self._open_whole(whole, self._types, names=names))
        parsed = list(self._open_whole(whole, self._types, self._parsed_names, names))
        return self._beside_rows(parsed, text, has_names=has_names)

    def _has_row_end(self, text: bytes | memoryview) -> bool:
        letters = np.frombuffer(text, np.uint8)
        return bool(self._end_of_last_row(letters[:_MOSTLY_A_ROW]) or self._end_of_last_row(letters))

    def _named(self, number: re.Match[str]) -> str:
        at = int(number[1])
        return f"column {self._all_names[at]!r}" if at < len(self._all_names) else number[0]

    def _conversion(self, types: dict[str, pa.DataType], columns: list[str] | None = None) -> Any:
        # As in other engines: an empty field is null, "" is an empty string, and nan is a number.
        return pa.csv.ConvertOptions(
            column_types=types, null_values=[self._null_string], strings_can_be_null=True,
            quoted_strings_can_be_null=False, include_columns=columns or [],
        )  # fmt: skip


def _most_digits(texts: Any) -> int | None:
    """The most digits that a text has, all of which are integers; ``None`` if there are none, or others as well."""
    first = [text for text in texts.slice(0, _FIRST_LOOK).to_pylist() if text is not None]
    if not all(map(_INTEGER.fullmatch, first)):  # mostly so: then PyArrow's functions, slow to load, are not needed
        return None
    digits = pc.replace_substring_regex(texts.drop_null(), r"^\s*[+-]?0*(\d+)\s*$", r"\1")
    if not len(digits) or not pc.all(pc.match_substring_regex(digits, r"^\d+$")).as_py():
        return None
    return int(pc.max(pc.utf8_length(digits)).as_py())
