"""Which rows of two sides match, whoever finds it: the cores in the order of all keys here, and by hash tables in
``hash_join``; GPUs in ``host_join``.
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
    """The matches of two sides. Rows are numbers, -1 where a side has none; of semi and anti joins, (left, None)."""

    @property
    def phases(self) -> dict[str, float]:
        """Seconds of each phase of the last rows that were found, where they were measured."""

    @property
    def left_is_unique(self) -> bool:
        """Whether no key occurs twice among the left rows that can match."""

    @property
    def right_is_unique(self) -> bool:
        """The same of the right rows."""

    def count(self, how: str) -> int:
        """How many rows the join has."""

    def indices(self, how: str) -> tuple[Rows, Rows | None]:
        """The left and right rows of the result, as int64. Raises ``UsageError`` if memory does not hold them."""

    def rows_to_gather(self, how: str) -> tuple[Rows | None, Rows | None]:
        """The same in as few bytes as may be, for who gathers by them at once.

        ``None`` also where every row of a side comes once, in its order.
        """

    def windows(self, how: str, rows: int) -> Iterator[tuple[Rows, Rows | None]]:
        """The same, so many rows at a time."""

    def ranges(self) -> tuple[Rows, Rows, Rows, Rows]:
        """Key by key: left rows, where each key's begin, right rows, and where they begin."""


class MatchesByLeft:
    """The rows of other matches in the order of the left side; those without a left row come last."""

    def __init__(self, found: Matches) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)

    def indices(self, how: str) -> tuple[Rows, Rows | None]:
        """See ``Matches``."""
        left, right = self._found.indices(how)
        if right is None:  # semi and anti joins come so
            return left, right
        # As unsigned numbers, rows that are missing come behind all others.
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
    """Matches in the order of both sides' keys together, which the cores go through."""

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
