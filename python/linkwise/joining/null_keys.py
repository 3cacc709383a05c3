"""Joins on the GPUs where some keys are null and match nothing.

Rows with null keys are excluded, then appended for outer and anti joins.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from linkwise._core import CorruptDataError
from linkwise._typing import Array, Rows
from linkwise.joining.host_join import ROW_BYTES, GpuMatches
from linkwise.joining.matches import Matches
from linkwise.runtime.execution import ExecutionOptions

_KEEPS = {"left": (True, False), "right": (False, True), "full": (True, True), "anti": (True, False)}


class MatchesBesideNulls(GpuMatches):
    """The matches of rows with complete keys; rows with a null in their key are added as unmatched.

    ``valid`` tells for each row whether its key is complete. With one key column, nulls come last in key order; with
    several, rows with nulls come between others, and the CPU places them.
    """

    def __init__(
        self,
        sides: tuple[Array, Array],
        valid: tuple[Array, Array],
        columns: int,
        execution: ExecutionOptions,
        on_cores: Callable[[ExecutionOptions], Matches],
        presorted: tuple[bool, bool],
    ) -> None:
        self._valid_rows: list[Rows] = [np.flatnonzero(of_side) for of_side in valid]
        self._null_rows: list[Rows] = [np.flatnonzero(~of_side) for of_side in valid]
        self._nulls_come_last = columns == 1
        left, right = (side[rows] for side, rows in zip(sides, self._valid_rows, strict=True))
        super().__init__(left, right, execution, on_cores, presorted)

    def _kept(self, how: str) -> list[Rows]:
        """For each side, the rows with null keys that this kind of join keeps."""
        kept = _KEEPS.get(how, (False, False))
        return [rows if keeps else rows[:0] for rows, keeps in zip(self._null_rows, kept, strict=True)]

    def _count(self, how: str) -> int:
        return super()._count(how) + sum(map(len, self._kept(how)))

    def _indices(self, how: str, row_bytes: int) -> tuple[Rows, Rows | None]:
        of_left, of_right = self._kept(how)
        if (len(of_left) or len(of_right)) and not self._nulls_come_last and how != "anti":
            return self.on_cores().indices(how)
        left, right = super()._indices(how, ROW_BYTES)
        left = np.concatenate([self._in_all(0, left), of_left, np.full(len(of_right), -1)])
        if right is None:
            left.sort()  # semi and anti joins keep row order
            return left, None
        return left, np.concatenate([self._in_all(1, right), np.full(len(of_left), -1), of_right])

    def _ranges(self) -> tuple[Rows, Rows, Rows, Rows]:
        left, left_first, right, right_first = super()._ranges()
        return self._in_all(0, left), left_first, self._in_all(1, right), right_first

    def _in_all(self, side: int, rows: Rows) -> Rows:
        """Convert row numbers among rows with complete keys to numbers among all rows; -1 stays -1."""
        try:
            numbers: Rows = np.append(self._valid_rows[side], -1)[rows]
        except IndexError:
            raise CorruptDataError(
                "row numbers came back that no row has; check the host's memory and the links, and run again"
            ) from None
        return numbers
