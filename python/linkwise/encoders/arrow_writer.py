"""Arrow's file and stream formats: rows are made by all cores, and copied out by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

import pyarrow as pa

from linkwise.columns.dictionaries import SharedDictionaries
from linkwise.runtime.parallel import InOrder

_NO_LIMIT = 1 << 62


class ArrowWriter:
    """Writes rows to an open file; see ``ParquetWriter``. ``memory`` is what waits to be written may take."""

    part_rows = 1 << 17

    def __init__(self, file: IO[bytes], schema: pa.Schema, *, stream: bool, memory: int) -> None:
        # In a file, a dictionary cannot be replaced by another, but it can grow.
        self._dictionaries = None if stream else SharedDictionaries(_NO_LIMIT)
        options = pa.ipc.IpcWriteOptions(unify_dictionaries=True, emit_dictionary_deltas=not stream)
        new = pa.ipc.new_stream if stream else pa.ipc.new_file
        self._out = new(file, schema, options=options)
        self._parts: InOrder[pa.Table] = InOrder(self._write, memory)

    def _write(self, table: pa.Table) -> None:
        self._out.write_table(table if self._dictionaries is None else self._dictionaries.grown_by(table))

    def write_table(self, table: pa.Table) -> None:
        """Append rows."""
        self._parts.finish()
        self._write(table)

    def write_made(self, make: Callable[[], pa.Table], expected_bytes: int) -> None:
        """Append what a core makes when it comes to it."""
        self._parts.submit(make, expected_bytes)

    def flush(self) -> None:
        """Wait until all has been made and written."""
        self._parts.finish()

    def close(self) -> None:
        """Write what is left, and the footer."""
        self._parts.finish()
        self._out.close()

    def cancel(self) -> None:
        """Write nothing more; waits for what is being made."""
        self._parts.cancel()
