"""Base of writers whose parts are encoded by all cores and written in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

import pyarrow as pa

from linkwise.runtime.parallel import InOrder

Encoded = TypeVar("Encoded")


class PartWriter(ABC, Generic[Encoded]):
    """Writes rows to an open file. Nothing is written after an error or ``cancel``.

    ``memory`` limits the bytes of parts that wait to be encoded and written; each takes ``growth`` times the bytes of
    its rows.
    """

    def __init__(self, part_rows: int, memory: int, growth: int = 1) -> None:
        self.part_rows = part_rows
        """The most rows for a part of ``write_made``."""
        self._growth = growth
        self._parts: InOrder[Encoded] = InOrder(self._append, memory)

    def rows_of_parts(self, rows: int) -> int:
        """The best number of rows for each part of so many."""
        del rows
        return self.part_rows

    def expect(self, size: int) -> None:
        """Prepare for about so many bytes in the file."""

    @abstractmethod
    def _encoded(self, table: pa.Table) -> Encoded:
        """Encode a part, on any thread."""

    @abstractmethod
    def _append(self, encoded: Encoded) -> None:
        """Write an encoded part; called in order."""

    @abstractmethod
    def write_table(self, table: pa.Table) -> None:
        """Append rows."""

    def write_made(self, make: Callable[[], pa.Table], expected_bytes: int) -> None:
        """Append a part that ``make`` returns; a core calls it when it is free."""
        self._parts.submit(lambda: self._encoded(make()), self._growth * expected_bytes)

    def flush(self) -> None:
        """Wait until all has been made and written."""
        self._parts.finish()

    def close(self) -> None:
        """Write what is left, and the end of the file."""
        self.flush()

    def cancel(self) -> None:
        """Write nothing more; waits for what is being encoded."""
        self._parts.cancel()
