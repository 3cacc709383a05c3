"""Chains of inner joins, as TPC-H's queries have them: by ``GpuTable`` where GPUs join, otherwise on the cores."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from linkwise.joining.api import join
from linkwise.joining.device.device_columns import JoinableColumns
from linkwise.joining.device.gpu_table import GpuTable
from linkwise.runtime.execution import ExecutionOptions

_MANY_ROWS = 1 << 24  # that GPUs join rather than the cores, if they are to be used at all

Joined: TypeAlias = "pa.Table | GpuTable"


@dataclass
class Shares:
    """Seconds of finding the rows of joins, and of making the tables of these; and each join's rows."""

    join: float = 0.0
    materialise: float = 0.0
    joins: list[tuple[int, int, int]] = field(default_factory=list)


class Joiner:
    """Joins tables one after the other, and adds up what that takes.

    On GPUs, a join finds row numbers, and columns are gathered at the end, only for the rows that remain.
    """

    def __init__(self, execution: ExecutionOptions) -> None:
        self._where: dict[str, Any] = {"machine": execution.machine, "gpus": execution.gpus}
        self._uses_gpus = JoinableColumns(execution).can_join(_MANY_ROWS, _MANY_ROWS)
        self._strategy = execution.strategy
        self.shares = Shares()

    def join(self, left: Joined, right: Joined, *on: tuple[str, str]) -> Joined:
        """The inner join, without the right side's keys."""
        began = time.perf_counter()
        lefts, rights = ([pair[at] for pair in on] for at in (0, 1))
        joined: Joined
        if self._uses_gpus:
            sides = self._there(left), self._there(right)
            joined = sides[0].join(sides[1], left_on=lefts, right_on=rights)
        else:
            joined = join(left, right, left_on=lefts, right_on=rights, strategy=self._strategy, **self._where)
        joined = joined.select([name for name in joined.column_names if name not in rights])
        self.shares.join += time.perf_counter() - began
        self.shares.joins.append((len(left), len(right), len(joined)))
        return joined

    def table(self, joined: Joined) -> pa.Table:
        """All columns of the joined rows."""
        began = time.perf_counter()
        table = joined.to_arrow() if isinstance(joined, GpuTable) else joined
        self.shares.materialise += time.perf_counter() - began
        return table

    def _there(self, table: Joined) -> GpuTable:
        return table if isinstance(table, GpuTable) else GpuTable(table, **self._where)
