"""CSV, TSV and lines of JSON, encoded and compressed by all cores part by part."""

from __future__ import annotations

from functools import partial
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from linkwise._core import UsageError
from linkwise.columns.gather import in_one_array
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.encoders.json_text import lines_of_json
from linkwise.encoders.output_file import OutputFile
from linkwise.encoders.part_writer import PartWriter

_PART_ROWS = 1 << 16
_GROWTH = 3  # bytes of the rows and their text, relative to those of the rows


class TextWriter(PartWriter[pa.Buffer]):
    """Text, with or without a header; see ``PartWriter``.

    With a codec, each part is compressed by itself; gzip, zstd and bzip2 read the concatenation as one text.
    """

    _is_empty = True  # until something is written

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
        return self._member_of(text)

    def _member_of(self, text: pa.Buffer) -> pa.Buffer:
        out = pa.BufferOutputStream()
        with pa.CompressedOutputStream(out, self._codec) as compressed:
            compressed.write(text)
        return out.getvalue()

    def _append(self, encoded: pa.Buffer) -> None:
        self._is_empty = self._is_empty and not len(encoded)
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

    def close(self) -> None:
        """See ``PartWriter``."""
        super().close()
        if self._is_empty and self._codec is not None:  # even an empty text has compressed bytes
            self._append(self._member_of(pa.py_buffer(b"")))
            self._file.flush()

    def cancel(self) -> None:
        """See ``PartWriter``."""
        super().cancel()
        self._file.cancel()


class JsonWriter(TextWriter):
    """One JSON object per line. Times are ISO 8601 text, decimals are text; NaN and infinities are null.

    Raises ``UsageError`` for two columns of one name, and ``ArrowNotImplementedError`` for bytes, which JSON cannot
    represent.
    """

    def __init__(self, file: IO[bytes], schema: pa.Schema, *, memory: int, codec: str | None = None) -> None:
        for field in schema:
            if schema.names.count(field.name) > 1:
                raise UsageError(
                    f"there are several columns '{field.name}', and JSON has one value of a name; rename one"
                )
            _check(field.type, is_inside=False)
        super().__init__(file, schema, delimiter=",", header=False, memory=memory, codec=codec)

    def _text_of(self, table: pa.Table, *, header: bool = False) -> pa.Buffer:
        del header
        return lines_of_json(table)


def _check(kind: pa.DataType, *, is_inside: bool) -> None:
    """Raise ``ArrowNotImplementedError`` for a type that JSON lacks; ``is_inside``: within a list or a struct."""
    types = pa.types
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        raise pa.ArrowNotImplementedError("JSON has no bytes")
    if is_inside and kind == pa.time64("ns"):
        raise pa.ArrowNotImplementedError("JSON is not written of nanoseconds inside of lists and structs")
    inner = [kind.value_type] if types.is_dictionary(kind) else [kind.field(i).type for i in range(kind.num_fields)]
    for each in inner:
        _check(each, is_inside=True)


class CarriedTextWriter(TextWriter):
    """Rows of text from one column, written as they were read."""

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
