"""Joins of columns that stay on the GPUs between steps."""

from __future__ import annotations

from typing import Any, cast

from linkwise import _core
from linkwise.joining.device.device_join import found_rows
from linkwise.joining.host_join import leaves_to_gpus
from linkwise.joining.matching import Order
from linkwise.planning.constraints import resident_plan
from linkwise.sorting.device_columns import MOST_ROWS, GpuColumns, Parts


class JoinableColumns(GpuColumns):
    """The same, with joins."""

    def can_join(self, left_rows: int, right_rows: int) -> bool:
        """Whether the options leave a join of this size to GPUs, and these can read each other's memory."""
        if not leaves_to_gpus(self.execution, left_rows, right_rows) or max(left_rows, right_rows) > MOST_ROWS:
            return False
        if self.execution.machine in ("auto", "local") and _core.cuda_unavailable_reason():
            return False
        with self.session() as (runtime, gpus):
            return runtime.peers_can_read(gpus)

    def pack(self, left: list[Parts], right: list[Parts]) -> tuple[Parts, Parts] | None:
        """Pack the integers of each row into one key of 4 or 8 bytes; ``None`` if they do not fit into 64 bits.

        The columns of a pair are both signed or both unsigned; all columns of a side have the same rows on each GPU.
        """
        with self.session() as (runtime, gpus):
            return _core.pack_keys(runtime, gpus, left, right)

    def join(self, left: Parts, right: Parts) -> tuple[Parts, Parts, dict[str, float]]:
        """The row numbers of all pairs with equal keys, and the seconds of each phase."""
        with self.session() as (runtime, gpus):
            of_left, of_right = self._matches(runtime, gpus, left, right, "inner", None)
            phases = {phase.phase: phase.seconds for phase in _core.report_of(runtime, _core.SortOptions()).phases}
        assert of_right is not None
        return of_left, of_right, phases

    def matches(self, left: Parts, right: Parts, how: str, order: Order) -> tuple[Parts, Parts | None]:
        """The row numbers of a join of any kind: of the left side alone for semi and anti joins."""
        with self.session() as (runtime, gpus):
            return self._matches(runtime, gpus, left, right, how, order)

    def _matches(
        self, runtime: _core.Runtime, gpus: list[int], left: Parts, right: Parts, how: str, order: Order
    ) -> tuple[Parts, Parts | None]:
        plan = _core.JoinPlan()
        plan.sort = resident_plan(self.execution, gpus)
        no_streams = [None] * len(gpus)
        of_left, of_right = (_core.ArraysOfSide(cast(list[Any], keys), [], no_streams) for keys in (left, right))
        found = found_rows(
            runtime, plan, of_left, of_right, how, order, verify=self.execution.verify, row_number_bytes=4
        )
        rights = [cast(_core.DeviceArray, rows) for _, rows in found]
        return [rows for rows, _ in found], None if how in ("semi", "anti") else rights
