"""CSV and TSV, encoded by all cores part by part."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import IO

import pyarrow as pa
import pyarrow.csv

from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.runtime.parallel import InOrder

_PART_ROWS = 1 << 16


class TextWriter:
    """Writes rows to an open file as text; see ``ParquetWriter``. ``memory`` is what waits to be written may take."""

    part_rows = _PART_ROWS

    def __init__(self, file: IO[bytes], schema: pa.Schema, *, delimiter: str, header: bool, memory: int) -> None:
        self._schema, self._delimiter = schema, delimiter
        self._parts: InOrder[pa.Buffer] = InOrder(lambda text: file.write(memoryview(text)), memory)
        file.write(memoryview(self._encoded(schema.empty_table(), header=header)))

    def _encoded(self, table: pa.Table, *, header: bool = False) -> pa.Buffer:
        out = pa.BufferOutputStream()
        options = pa.csv.WriteOptions(include_header=header, delimiter=self._delimiter)
        with pa.csv.CSVWriter(out, self._schema, write_options=options) as writer:
            writer.write_table(table)
        return out.getvalue()

    def write_table(self, table: pa.Table) -> None:
        """Append rows."""
        for first in range(0, table.num_rows, _PART_ROWS):
            part = table.slice(first, _PART_ROWS)
            self._parts.submit(partial(self._encoded, part), 3 * bytes_of(part))

    def write_made(self, make: Callable[[], pa.Table], expected_bytes: int) -> None:
        """Append what a core makes when it comes to it."""
        self._parts.submit(lambda: self._encoded(make()), 3 * expected_bytes)

    def flush(self) -> None:
        """Wait until all has been made and written."""
        self._parts.finish()

    def close(self) -> None:
        """Write what is left."""
        self._parts.finish()

    def cancel(self) -> None:
        """Write nothing more; waits for what is being encoded."""
        self._parts.cancel()
