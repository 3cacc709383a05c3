"""Which rows of two sides match: the common interface, and matching on the CPU by sorting both sides together.

Hash joins on the CPU are in ``hash_join``, joins on the GPUs in ``host_join``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from linkwise import _core
from linkwise._typing import Rows
from linkwise.columns.gather import rows_of_rows
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.host_memory import check_rows_fit
from linkwise.sorting.host_sort import row_number_bytes, sort_keys

_PAIR_BYTES = 16


class Matches(Protocol):
    """The matches of two sides as row numbers, -1 for a missing row; semi and anti joins give (left, None)."""

    @property
    def phases(self) -> dict[str, float]:
        """Seconds of each phase of the last query for rows, if they were measured."""

    @property
    def left_is_unique(self) -> bool:
        """Whether no key occurs twice among the left rows that can match."""

    @property
    def right_is_unique(self) -> bool:
        """The same for the right rows."""

    def count(self, how: str) -> int:
        """How many rows the join has."""

    def indices(self, how: str) -> tuple[Rows, Rows | None]:
        """The left and right rows of the result, as int64. Raises ``UsageError`` if they do not fit into memory."""

    def rows_to_gather(self, how: str) -> tuple[Rows | None, Rows | None]:
        """The same as gather maps, which may have narrower integers.

        ``None`` also for a side of which every row occurs once, in order.
        """

    def windows(self, how: str, rows: int) -> Iterator[tuple[Rows, Rows | None]]:
        """The same, ``rows`` rows at a time."""

    def ranges(self) -> tuple[Rows, Rows, Rows, Rows]:
        """Grouped by key: the left rows, each key's offset in them, the right rows, and each key's offset in them."""


class MatchesByLeft:
    """Other matches in the order of the left side; rows without a left row come last."""

    def __init__(self, found: Matches) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)

    def indices(self, how: str) -> tuple[Rows, Rows | None]:
        """See ``Matches``."""
        left, right = self._found.indices(how)
        if right is None:  # semi and anti joins are already in this order
            return left, right
        # As unsigned numbers, missing rows (-1) sort after all others.
        order, _ = sort_keys(
            left.view(f"u{left.itemsize}"), ExecutionOptions(strategy="cpu", verify=False), out_keys=None,
            row_number_bytes=row_number_bytes(len(left)),
        )  # fmt: skip
        assert order is not None
        left, right = rows_of_rows(left, order), rows_of_rows(right, order)
        right[np.count_nonzero(left != -1) :].sort()
        return left, right

    def rows_to_gather(self, how: str) -> tuple[Rows | None, Rows | None]:
        """See ``Matches``."""
        return self.indices(how)

    def windows(self, how: str, rows: int) -> Iterator[tuple[Rows, Rows | None]]:
        """See ``Matches``."""
        left, right = self.indices(how)
        for first in range(0, len(left), rows):
            part = slice(first, first + rows)
            yield left[part], None if right is None else right[part]


class HostMatches:
    """Matches found on the CPU in one pass over both sides sorted together by key."""

    def __init__(self, core: _core.Matches) -> None:
        self._core = core
        self.phases: dict[str, float] = {}

    @property
    def left_is_unique(self) -> bool:
        """See ``Matches``."""
        return self._core.left_is_unique

    @property
    def right_is_unique(self) -> bool:
        """See ``Matches``."""
        return self._core.right_is_unique

    def count(self, how: str) -> int:
        """See ``Matches``."""
        return int(self._core.count(how))

    def indices(self, how: str) -> tuple[Rows, Rows | None]:
        """See ``Matches``."""
        check_rows_fit(self.count(how), _PAIR_BYTES)
        left, right = self._core.indices(how)
        return left, right

    def rows_to_gather(self, how: str) -> tuple[Rows | None, Rows | None]:
        """See ``Matches``."""
        return self.indices(how)

    def windows(self, how: str, rows: int) -> Iterator[tuple[Rows, Rows | None]]:
        """See ``Matches``."""
        for first in range(0, self.count(how), rows):
            left, right = self._core.indices(how, first, rows)
            yield left, right

    def ranges(self) -> tuple[Rows, Rows, Rows, Rows]:
        """See ``Matches``."""
        left, left_first, right, right_first = self._core.ranges()
        return left, left_first, right, right_first
