"""CSV, TSV and lines of JSON, encoded and compressed by all cores part by part."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from linkwise.columns.gather import in_one_array
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.encoders.output_file import OutputFile
from linkwise.encoders.part_writer import PartWriter

_PART_ROWS = 1 << 16
_GROWTH = 3  # bytes of the rows and their text, by those of the rows


class TextWriter(PartWriter[pa.Buffer]):
    """Text, with or without a header; see ``PartWriter``.

    With a codec, parts are compressed one by one: what gzip, zstd and bzip2 read as one text.
    """

    def __init__(
        self, file: IO[bytes], schema: pa.Schema, *, delimiter: str, header: bool, memory: int, codec: str | None = None
    ) -> None:
        super().__init__(_PART_ROWS, memory // 2, _GROWTH)
        self._file, self._schema, self._delimiter = OutputFile(file, memory // 2), schema, delimiter
        self._codec = codec
        self._append(self._compressed(self._text_of(schema.empty_table(), header=header)))

    def _encoded(self, table: pa.Table) -> pa.Buffer:
        return self._compressed(self._text_of(table))

    def _text_of(self, table: pa.Table, *, header: bool = False) -> pa.Buffer:
        out = pa.BufferOutputStream()
        options = pa.csv.WriteOptions(include_header=header, delimiter=self._delimiter)
        with pa.csv.CSVWriter(out, self._schema, write_options=options) as writer:
            writer.write_table(table)
        return out.getvalue()

    def _compressed(self, text: pa.Buffer) -> pa.Buffer:
        if self._codec is None or not len(text):
            return text
        out = pa.BufferOutputStream()
        with pa.CompressedOutputStream(out, self._codec) as compressed:
            compressed.write(text)
        return out.getvalue()

    def _append(self, encoded: pa.Buffer) -> None:
        self._file.write(memoryview(encoded))

    def write_table(self, table: pa.Table) -> None:
        """See ``PartWriter``."""
        for first in range(0, table.num_rows, _PART_ROWS):
            part = table.slice(first, _PART_ROWS)
            self._parts.submit(partial(self._encoded, part), _GROWTH * bytes_of(part))

    def flush(self) -> None:
        """See ``PartWriter``."""
        super().flush()
        self._file.flush()

    def cancel(self) -> None:
        """See ``PartWriter``."""
        super().cancel()
        self._file.cancel()


class JsonWriter(TextWriter):
    """A line for each row, an object. Times are text as ISO 8601 has them, decimals too; NaN and infinities are null.

    Raises ``ArrowNotImplementedError`` for bytes, which JSON has no way to write.
    """

    def __init__(self, file: IO[bytes], schema: pa.Schema, *, memory: int, codec: str | None = None) -> None:
        for field in schema:
            if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
                raise pa.ArrowNotImplementedError("JSON has no bytes")
        super().__init__(file, schema, delimiter=",", header=False, memory=memory, codec=codec)

    def _text_of(self, table: pa.Table, *, header: bool = False) -> pa.Buffer:
        del header
        lines = [json.dumps(_finite(row), ensure_ascii=False, default=_as_text) for row in table.to_pylist()]
        return pa.py_buffer("".join(f"{line}\n" for line in lines).encode())


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(v, float) and not math.isfinite(v) else v for name, v in row.items()}


def _as_text(value: Any) -> str:
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


class CarriedTextWriter(TextWriter):
    """Rows of text as they were read, which one column holds."""

    def __init__(self, file: IO[bytes], column: str, header: bytes, *, memory: int, codec: str | None = None) -> None:
        PartWriter.__init__(self, _PART_ROWS, memory // 2)
        self._file, self._column, self._codec = OutputFile(file, memory // 2), column, codec
        self._append(self._compressed(pa.py_buffer(header)))

    def _text_of(self, table: pa.Table, *, header: bool = False) -> pa.Buffer:
        del header
        rows = in_one_array(table[self._column])
        if not len(rows):
            return pa.py_buffer(b"")
        _, offsets, letters = rows.buffers()
        ends = np.frombuffer(offsets, np.int64)[rows.offset : rows.offset + len(rows) + 1]
        return letters.slice(int(ends[0]), int(ends[-1] - ends[0]))
