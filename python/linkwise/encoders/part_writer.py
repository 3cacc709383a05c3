"""What is encoded by all cores part by part, and written in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

import pyarrow as pa

from linkwise.runtime.parallel import InOrder

Encoded = TypeVar("Encoded")


class PartWriter(ABC, Generic[Encoded]):
    """Writes rows to an open file. Nothing is written behind an error, or after ``cancel``.

    ``memory`` is the bytes that parts may take which wait to be encoded and written, of which one takes ``growth``
    times its rows.
    """

    def __init__(self, part_rows: int, memory: int, growth: int = 1) -> None:
        self.part_rows = part_rows
        """Rows of a part as ``write_made`` is best given them."""
        self._growth = growth
        self._parts: InOrder[Encoded] = InOrder(self._append, memory)

    @abstractmethod
    def _encoded(self, table: pa.Table) -> Encoded:
        """A part as it is written, made by any thread."""

    @abstractmethod
    def _append(self, encoded: Encoded) -> None:
        """Write a part, behind those before it."""

    @abstractmethod
    def write_table(self, table: pa.Table) -> None:
        """Append rows."""

    def write_made(self, make: Callable[[], pa.Table], expected_bytes: int) -> None:
        """Append a part that a core makes when it comes to it."""
        self._parts.submit(lambda: self._encoded(make()), self._growth * expected_bytes)

    def flush(self) -> None:
        """Wait until all has been made and written."""
        self._parts.finish()

    def close(self) -> None:
        """Write what is left, and what comes last."""
        self.flush()

    def cancel(self) -> None:
        """Write nothing more; waits for what is being encoded."""
        self._parts.cancel()
