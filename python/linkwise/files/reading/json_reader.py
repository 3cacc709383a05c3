"""Reading lines of JSON, one object each."""

from __future__ import annotations

import codecs
import contextlib
import json
import re
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from linkwise import _core
from linkwise._core import Error
from linkwise.files.formats import FileOptions, arrow_type, one_clear_line
from linkwise.files.locations import Location, name_of
from linkwise.files.reading.line_reader import MOST_DIGITS, LineReader, rows_of

_LOOKED_AT = 100  # lines that determine the order of columns
_ROW_AT = re.compile(r" in row (\d+)$")  # of a message, in the part that is parsed
_DEEPEST = 200  # nesting depth of values


class JsonReader(LineReader):
    """A file or pipe of JSON lines; columns and types are inferred from the first lines."""

    def __init__(self, path: Location, pipe: BinaryIO | None, options: FileOptions) -> None:
        super().__init__(path, pipe, "jsonl", "", header=False)
        with one_clear_line("read", path):
            beginning = self._beginning()
            given = {
                name: arrow_type(alias)
                for name, alias in options.column_types.items()
                if any(json.dumps(name, ensure_ascii=escaped).encode() in beginning for escaped in (False, True))
            }
            self._check(beginning)
            self._can_be_carried = not beginning.startswith(codecs.BOM_UTF8)
            self._dates: dict[str, pa.DataType] = {}  # columns that are parsed as times
            try:
                found = _inferred(beginning, given)
            except pa.ArrowInvalid:  # of text, PyArrow makes times, but not dates
                self._dates = {name: kind for name, kind in given.items() if pa.types.is_date(kind)}
                if not self._dates:
                    raise
                given |= dict.fromkeys(self._dates, pa.timestamp("s"))
                found = _inferred(beginning, given)
            if wide := self._wide_integers(found, beginning, given):
                given |= wide
                found = _inferred(beginning, given)
        # PyArrow puts columns whose types are given before the others.
        self._all_names = _as_lines_have_them(found.schema.names, beginning) if given else found.schema.names
        self._all = pa.schema([found.schema.field(name) for name in self._all_names])
        self._set_schema(self._with_dates(self._all))

    def _with_dates(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([field.with_type(self._dates.get(field.name, field.type)) for field in schema])

    def _wide_integers(self, rows: pa.Table, beginning: bytes, given: Collection[str]) -> dict[str, pa.DataType]:
        """Types for columns of integers beyond 64 bits; as PyArrow's floats, different integers would be equal."""
        floats = {
            field.name for field in rows.schema
            if field.type == pa.float64() and field.name not in given and _has_beyond_64_bits(rows[field.name])
        }  # fmt: skip
        if not floats:
            return {}
        wide: set[str] = set()
        for line in beginning.split(b"\n"):
            with contextlib.suppress(ValueError, AttributeError):  # an object of several lines
                row = json.loads(line)
                for name in floats & row.keys():
                    value = row[name]
                    if isinstance(value, float):
                        floats.discard(name)
                    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
                        wide.add(name)
        kind = pa.decimal128(MOST_DIGITS, 0)
        for name in wide & floats:
            self._tell_of_wide_integers(name, kind)
        return dict.fromkeys(wide & floats, kind)

    def _read(self, most_bytes: int | None) -> Iterator[pa.RecordBatch]:
        rows = 0
        try:
            with contextlib.closing(self._source()) as source:
                for batch in self._parsed_on_all_cores(source, most_bytes, self._parsed):
                    yield batch
                    rows += batch.num_rows
        except pa.ArrowInvalid as error:
            told = _ROW_AT.sub(lambda found: f" in row {int(found[1]) + rows}", str(error).splitlines()[0])
            where = "" if _ROW_AT.search(told) else f", at row {rows} or behind it"
            raise Error(
                f"cannot read {name_of(self.path, 'read')}: {told}{where}; types are those of the first lines, "
                "and a column has one"
            ) from None

    def _parsed(self, _: int, text: memoryview) -> list[pa.RecordBatch]:
        """The rows of a part, on any thread. Raises ``ArrowInvalid``."""
        self._check(text)
        how = pa.json.ReadOptions(block_size=max(len(text), 1), use_threads=False)
        wanted = self._all if self.carried is None else pa.schema([self._all.field(n) for n in self._parsed_names])
        others = "error" if self.carried is None else "ignore"
        found = pa.json.read_json(pa.BufferReader(text), how, _parsing(wanted, others)).select(wanted.names)
        if self._dates:
            found = found.cast(self._with_dates(found.schema))
        batches = list(found.to_batches())
        return batches if self.carried is None else self._beside_rows(batches, text, has_names=False)

    def _check(self, text: Any) -> None:
        """Raise ``Error`` for text that PyArrow would not refuse, though it should, or crash by."""
        whole = pa.Array.from_buffers(
            pa.large_string(), 1, [None, pa.py_buffer(np.array([0, len(text)], np.int64)), pa.py_buffer(text)]
        )
        try:
            whole.validate(full=True)
        except pa.ArrowInvalid:
            raise Error(f"{name_of(self.path, 'read')} is not UTF-8; convert it") from None
        if _core.json_depth(np.frombuffer(text, np.uint8)) > _DEEPEST:
            raise Error(f"{name_of(self.path, 'read')}: values are in each other more than {_DEEPEST} deep")

    def _rows_as_they_are(self, text: Any) -> pa.Array | None:
        """See ``LineReader``. ``None`` if objects span lines or share them: then lines are not rows."""
        rows = rows_of(text, "", keeps_blank=False)
        if _are_objects(rows, b"}\n"):
            return rows
        inner = pc.ascii_trim_whitespace(rows.view(pa.large_string()))
        is_blank = pc.equal(pc.binary_length(inner), 0)
        is_row = pc.invert(is_blank)
        return rows.filter(is_row) if _are_objects(inner.filter(is_row), b"}") else None


def _has_beyond_64_bits(numbers: pa.ChunkedArray) -> bool:
    return any(abs(end.as_py() or 0) >= 1 << 63 for end in pc.min_max(numbers).values())


def _inferred(text: bytes, given: dict[str, pa.DataType]) -> pa.Table:
    """The rows of the beginning, with types inferred where none is given."""
    how = pa.json.ReadOptions(block_size=max(len(text), 1))
    return pa.json.read_json(pa.BufferReader(text), how, _parsing(pa.schema(list(given.items())), "infer"))


def _are_objects(lines: pa.Array, end: bytes) -> bool:
    """Whether each line begins and ends with a brace; then no object spans lines, as a comma would be missing."""
    begin_and_end = pc.and_(pc.starts_with(lines, pattern="{"), pc.ends_with(lines, pattern=end))
    return bool(pc.all(begin_and_end, min_count=0).as_py())


def _parsing(schema: pa.Schema, others: str) -> Any:
    return pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others)


def _as_lines_have_them(names: list[str], text: bytes) -> list[str]:
    """Names in the order of the first lines, followed by those that occur later."""
    seen: dict[str, None] = {}
    for line in text.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]:
        with contextlib.suppress(ValueError):  # an object of several lines
            seen |= dict.fromkeys(json.loads(line))
    return [*(name for name in seen if name in names), *(name for name in names if name not in seen)]
