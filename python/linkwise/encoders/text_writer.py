"""CSV and TSV, encoded by all cores part by part."""

from __future__ import annotations

from functools import partial
from typing import IO

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
    """Text, with or without a header; see ``PartWriter``."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, *, delimiter: str, header: bool, memory: int) -> None:
        super().__init__(_PART_ROWS, memory // 2, _GROWTH)
        self._file, self._schema, self._delimiter = OutputFile(file, memory // 2), schema, delimiter
        self._append(self._encoded(schema.empty_table(), header=header))

    def _encoded(self, table: pa.Table, *, header: bool = False) -> pa.Buffer:
        out = pa.BufferOutputStream()
        options = pa.csv.WriteOptions(include_header=header, delimiter=self._delimiter)
        with pa.csv.CSVWriter(out, self._schema, write_options=options) as writer:
            writer.write_table(table)
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


class CarriedTextWriter(TextWriter):
    """Rows of text as they were read, which one column holds."""

    def __init__(self, file: IO[bytes], column: str, header: bytes, memory: int) -> None:
        PartWriter.__init__(self, _PART_ROWS, memory // 2)
        self._file, self._column = OutputFile(file, memory // 2), column
        self._append(pa.py_buffer(header))

    def _encoded(self, table: pa.Table, *, header: bool = False) -> pa.Buffer:
        del header
        rows = in_one_array(table[self._column])
        if not len(rows):
            return pa.py_buffer(b"")
        _, offsets, letters = rows.buffers()
        ends = np.frombuffer(offsets, np.int64)[rows.offset : rows.offset + len(rows) + 1]
        return letters.slice(int(ends[0]), int(ends[-1] - ends[0]))
