"""Reading lines of JSON, one object each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.json

from linkwise._core import Error
from linkwise.files.formats import FileOptions, arrow_type, name_of, one_clear_line
from linkwise.files.line_reader import BLOCK, BLOCK_OF_A_CORE, LineReader


class JsonReader(LineReader):
    """A file, or a pipe, whose first lines tell the columns and their types."""

    def __init__(self, path: Path, pipe: BinaryIO | None, options: FileOptions) -> None:
        super().__init__(path, pipe, "jsonl", "", header=False)
        given = [pa.field(name, arrow_type(alias)) for name, alias in options.column_types.items()]
        with one_clear_line("read", path):
            beginning = self._beginning()
            how = pa.json.ReadOptions(block_size=max(len(beginning), 1))
            found = pa.json.read_json(pa.BufferReader(beginning), how, _parsing(pa.schema(given), "infer"))
        names = {field.name for field in given}
        in_order = [field.name for field in found.schema if field.name not in names]
        self._all_names = [*in_order, *names] if not in_order else list(_names_of(beginning, found.schema.names))
        self._set_schema(pa.schema([found.schema.field(name) for name in self._all_names]))
        self._all = self.schema

    def _read(self, most_bytes: int | None) -> Iterator[pa.RecordBatch]:
        rows = 0
        try:
            if most_bytes is None and self._pipe is None:
                text = self._map()
                yield from self._batches_of(text, BLOCK_OF_A_CORE)
                return
            with contextlib.closing(self._source()) as source:
                for text in self._parts(source, most_bytes):
                    for batch in self._batches_of(text, max(len(text), 1)):
                        yield batch
                        rows += batch.num_rows
        except pa.ArrowInvalid as error:
            told = str(error).splitlines()[0]
            raise Error(
                f"cannot read {name_of(self.path, 'read')}: {told}, at row {rows} or behind it; types are those of the "
                "first lines: give the column's own with --types NAME=string"
            ) from None

    def _batches_of(self, text: Any, block: int) -> list[pa.RecordBatch]:
        """The rows of a part. Raises ``ArrowInvalid``."""
        how = pa.json.ReadOptions(block_size=min(block, BLOCK))
        wanted = self._all if self.carried is None else pa.schema([self._all.field(n) for n in self._parsed_names])
        others = "error" if self.carried is None else "ignore"
        found = pa.json.read_json(pa.BufferReader(text), how, _parsing(wanted, others)).select(wanted.names)
        batches = list(found.to_batches())
        return batches if self.carried is None else self._beside_rows(batches, text, has_names=False)


def _parsing(schema: pa.Schema, others: str) -> Any:
    return pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others)


def _names_of(beginning: bytes, names: list[str]) -> Iterator[str]:
    """Columns as the lines have them: PyArrow puts those whose types are given before the others."""
    found = pa.json.read_json(pa.BufferReader(beginning), pa.json.ReadOptions(block_size=max(len(beginning), 1)))
    yield from (name for name in found.schema.names if name in names)
    yield from (name for name in names if name not in found.schema.names)
