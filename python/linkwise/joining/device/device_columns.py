"""Numeric columns that stay on the GPUs between steps: copied in, joined, and gathered from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from linkwise import _core
from linkwise._typing import Array
from linkwise.joining.host_join import leaves_to_gpus
from linkwise.planning.constraints import resident_plan
from linkwise.runtime.execution import ExecutionOptions, gpus_of, memory_limit_of
from linkwise.runtime.session import open_session

Parts = list[_core.DeviceArray]
"""A column as one array for each GPU, in the order of its rows."""

_MOST_ROWS = (1 << 32) - 1  # that 4-byte row numbers can address


class GpuColumns:
    """Operations on columns on the GPUs that a call's options select.

    Every method raises ``OutOfMemoryError`` if a GPU has not enough memory.
    """

    def __init__(self, execution: ExecutionOptions) -> None:
        self._execution = execution
        self._described: _core.Runtime | None = None  # kept, since it owns the data on its simulated GPUs

    @contextmanager
    def _session(self) -> Iterator[tuple[_core.Runtime, list[int]]]:
        if self._described is not None:
            yield self._described, gpus_of(self._described.machine, self._execution.gpus)
            return
        with open_session(self._execution.machine) as runtime:
            if runtime.simulated:
                self._described = runtime
            runtime.set_memory_limit(memory_limit_of(self._execution, runtime.machine))
            yield runtime, gpus_of(runtime.machine, self._execution.gpus)

    def can_join(self, left_rows: int, right_rows: int) -> bool:
        """Whether the options leave a join of this size to GPUs, and these can read each other's memory."""
        if not leaves_to_gpus(self._execution, left_rows, right_rows) or max(left_rows, right_rows) > _MOST_ROWS:
            return False
        if self._execution.machine in ("auto", "local") and _core.cuda_unavailable_reason():
            return False
        with self._session() as (runtime, gpus):
            return runtime.peers_can_read(gpus)

    def bring(self, column: Array) -> Parts:
        """Copy a column from host memory to the GPUs, an equal share to each."""
        with self._session() as (runtime, gpus):
            return _core.bring_column(runtime, gpus, column)

    def take(self, column: Parts, rows: Parts) -> Parts:
        """Gather elements of a column by row number; each result lies on the GPU that holds its row number."""
        with self._session() as (runtime, gpus):
            return _core.take_rows(runtime, gpus, column, rows)

    def take_from_host(self, column: Array, rows: Parts) -> Parts | None:
        """The same from a column in host memory; ``None`` unless it is pinned, so that the GPUs can read it."""
        with self._session() as (runtime, gpus):
            return _core.take_rows_from_host(runtime, gpus, column, rows)

    def pack(self, left: list[Parts], right: list[Parts]) -> tuple[Parts, Parts] | None:
        """Pack the integers of each row into one key of 4 or 8 bytes; ``None`` if they do not fit into 64 bits.

        The columns of a pair are both signed or both unsigned; all columns of a side have the same rows on each GPU.
        """
        with self._session() as (runtime, gpus):
            return _core.pack_keys(runtime, gpus, left, right)

    def fetch(self, columns: Sequence[Parts]) -> list[Array]:
        """Copy several whole columns to host memory."""
        with self._session() as (runtime, _):
            return cast(list[Array], _core.fetch_columns(runtime, columns))

    def join(self, left: Parts, right: Parts) -> tuple[Parts, Parts, dict[str, float]]:
        """The row numbers of all pairs with equal keys, and the seconds of each phase."""
        with self._session() as (runtime, gpus):
            plan = _core.JoinPlan()
            plan.sort = resident_plan(self._execution, gpus)
            no_streams = [None] * len(gpus)
            of_left, of_right = (_core.ArraysOfSide(cast(list[Any], keys), [], no_streams) for keys in (left, right))
            found = _core.join_device_rows(
                runtime, plan, of_left, of_right, "inner", self._execution.verify, row_number_bytes=4, any_order=True
            )
            phases = {phase.phase: phase.seconds for phase in _core.report_of(runtime, _core.SortOptions()).phases}
        return [rows for rows, _ in found], [rows for _, rows in found], phases
