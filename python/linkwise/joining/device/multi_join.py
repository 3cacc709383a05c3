"""Sequences of joins: each finds its matching rows; columns other than keys are gathered at the end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from linkwise._arrow import pa
from linkwise._core import OutOfMemoryError
from linkwise.columns.gather import one_array
from linkwise.exceptions import FallbackWarning, warn_caller
from linkwise.joining.device.device_columns import JoinableColumns
from linkwise.joining.device.late_materialization import Beside, Relation, RowNumbers, Stored
from linkwise.joining.host_join import leaves_to_gpus, without_gpus
from linkwise.joining.matching import matches_of_keys
from linkwise.runtime.execution import ExecutionOptions
from linkwise.sorting.device_columns import Parts

SORTING_PHASES = ("encode", "sample", "HtoD", "partition", "exchange", "sort", "borrow", "verify", "verify input")
"""Phases of a join's report that count as sorting. Of the others, ``probe`` finds matches, and the rest make rows."""


@dataclass
class Shares:
    """Seconds of a query's joins for sorting both sides, finding matches and gathering rows; and each join's rows."""

    sort: float = 0.0
    join: float = 0.0
    materialise: float = 0.0
    device: float = 0.0  # the part of it that the phases of the joins on the GPUs report
    joins: list[tuple[int, int, int]] = field(default_factory=list)


def _can_be_packed(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether GPUs can compare integers of these types as parts of one packed key."""
    are_alike = pa.types.is_signed_integer(left) == pa.types.is_signed_integer(right)
    return are_alike and all(pa.types.is_integer(kind) and kind.bit_width >= 32 for kind in (left, right))


def _relation(side: pa.Table | Relation) -> Relation:
    return side if isinstance(side, Relation) else Stored(side)


class Joiner:
    """Joins relations one after the other, and adds up the time of the joins.

    Columns other than keys are gathered at the end, only for the rows that remain (late materialisation). If GPUs
    join, keys and row numbers stay there from one join to the next.
    """

    def __init__(self, execution: ExecutionOptions) -> None:
        self._execution, self._gpus = execution, JoinableColumns(execution)
        self.shares = Shares()

    def join(self, left: pa.Table | Relation, right: pa.Table | Relation, *on: tuple[str, str]) -> Beside:
        """The inner join."""
        sides = _relation(left), _relation(right)
        rows = self._rows_on_gpus(sides, on) or self._rows_in_host_memory(sides, on)
        joined = Beside(sides, rows, {pair[1] for pair in on})
        self.shares.joins.append((sides[0].num_rows, sides[1].num_rows, joined.num_rows))
        return joined

    def table(self, joined: Relation) -> pa.Table:
        """All columns of a joined relation."""
        began = time.perf_counter()
        table = joined.table(self._execution)
        self.shares.materialise += time.perf_counter() - began
        return table

    def _rows_on_gpus(
        self, sides: tuple[Relation, Relation], on: Sequence[tuple[str, str]]
    ) -> tuple[RowNumbers, RowNumbers] | None:
        """Join on the GPUs; ``None`` if the keys are not integers that they can compare, or they cannot join them."""
        types = [(sides[0].type_of(left), sides[1].type_of(right)) for left, right in on]
        is_plain = len(types) == 1 and types[0][0] == types[0][1] and pa.types.is_integer(types[0][0])
        if not is_plain and not all(_can_be_packed(*pair) for pair in types):
            return None
        if not self._gpus.can_join(sides[0].num_rows, sides[1].num_rows):
            return None
        try:
            of_left = self._keys_on_gpus(sides[0], [left for left, _ in on])
            of_right = None if of_left is None else self._keys_on_gpus(sides[1], [right for _, right in on])
            if of_left is None or of_right is None:
                return None
            began = time.perf_counter()
            keys = (of_left[0], of_right[0]) if is_plain else self._gpus.pack(of_left, of_right)
            if keys is None:
                return None
            left, right, phases = self._gpus.join(*keys)
        except OutOfMemoryError as error:
            warn_caller(f"{error}: the joins go on through host memory", FallbackWarning)
            return None
        self._add(phases, time.perf_counter() - began)
        return RowNumbers(self._gpus, None, left), RowNumbers(self._gpus, None, right)

    def _keys_on_gpus(self, side: Relation, names: list[str]) -> list[Parts] | None:
        """Key columns on the GPUs, all with the same rows on each GPU; ``None`` if that is not possible."""
        began = time.perf_counter()
        keys = self._all_on_gpus(side, names)
        if keys is None and isinstance(side, Beside):  # few of its rows are left, or they are in host memory
            keys = self._brought(side.columns(names, self._execution))
        seconds = time.perf_counter() - began
        if isinstance(side, Beside):
            self.shares.materialise += seconds
        else:
            self.shares.sort += seconds
        return keys

    def _all_on_gpus(self, side: Relation, names: list[str]) -> list[Parts] | None:
        keys: list[Parts] = []
        for name in names:
            key = side.on_gpus(name, self._gpus)
            if key is None:
                return None
            keys.append(key)
        return keys

    def _brought(self, columns: Iterable[pa.ChunkedArray]) -> list[Parts] | None:
        wholes = [one_array(column) for column in columns]
        if any(whole is None or whole.null_count for whole in wholes):
            return None
        return [self._gpus.bring(cast(pa.Array, whole).to_numpy()) for whole in wholes]

    def _rows_in_host_memory(
        self, sides: tuple[Relation, Relation], on: Sequence[tuple[str, str]]
    ) -> tuple[RowNumbers, RowNumbers]:
        of_left, of_right = (self._keys(side, [pair[at] for pair in on]) for at, side in enumerate(sides))
        execution = self._execution
        if execution.strategy == "auto" and not leaves_to_gpus(execution, sides[0].num_rows, sides[1].num_rows):
            execution = without_gpus(execution)  # for so few rows, making a plan takes longest
        began = time.perf_counter()
        found = matches_of_keys(of_left, of_right, execution, nulls_equal=False, presorted=False)
        left_rows, right_rows = (
            np.arange(side.num_rows) if rows is None else rows
            for rows, side in zip(found.rows_to_gather("inner"), sides, strict=True)
        )
        self._add(found.phases, time.perf_counter() - began)
        return RowNumbers(self._gpus, left_rows), RowNumbers(self._gpus, right_rows)

    def _add(self, phases: dict[str, float], seconds: float) -> None:
        """Add a join's seconds, divided in proportion to its phases."""
        whole = sum(phases.values())
        sorting = sum(phases.get(name, 0.0) for name in SORTING_PHASES) / whole if whole else 1.0
        self.shares.sort += sorting * seconds
        self.shares.join += (1 - sorting) * seconds
        self.shares.device += whole

    def _keys(self, side: Relation, names: list[str]) -> Any:
        """A single integer column without nulls as a NumPy array, to be joined in place; otherwise a table."""
        began = time.perf_counter()
        columns = side.columns(names, self._execution)
        is_plain = len(columns) == 1 and pa.types.is_integer(columns[0].type) and not columns[0].null_count
        whole = one_array(columns[0]) if is_plain else None
        self.shares.materialise += time.perf_counter() - began
        return pa.table(columns, names) if whole is None else whole.to_numpy()
