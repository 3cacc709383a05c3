"""Arrow's file and stream formats: all cores make the rows, and one writes them."""

from __future__ import annotations

from typing import IO

import pyarrow as pa

from linkwise.columns.dictionaries import SharedDictionaries, has_dictionary_inside
from linkwise.encoders.part_writer import PartWriter

_PART_ROWS = 1 << 17
_NO_LIMIT = 1 << 62


class ArrowWriter(PartWriter[pa.Table]):
    """Record batches, as a file or a stream; see ``PartWriter``."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, *, stream: bool, memory: int) -> None:
        super().__init__(_PART_ROWS, memory)
        # In a file, a dictionary cannot be replaced by another, but it can grow.
        self._dictionaries = None if stream else SharedDictionaries(_NO_LIMIT)
        # PyArrow unites dictionaries inside of other types, but neither those with nulls nor those of nested values.
        unite = any(map(has_dictionary_inside, schema.types))
        options = pa.ipc.IpcWriteOptions(unify_dictionaries=unite, emit_dictionary_deltas=not stream)
        new = pa.ipc.new_stream if stream else pa.ipc.new_file
        self._out = new(file, schema, options=options)

    def _encoded(self, table: pa.Table) -> pa.Table:
        return table  # written as it is, except for dictionaries, which grow in the order of the parts

    def _append(self, encoded: pa.Table) -> None:
        self._out.write_table(encoded if self._dictionaries is None else self._dictionaries.grown_by(encoded))

    def write_table(self, table: pa.Table) -> None:
        """See ``PartWriter``."""
        self.flush()
        self._append(table)

    def close(self) -> None:
        """See ``PartWriter``; the footer comes last."""
        self.flush()
        self._out.close()
