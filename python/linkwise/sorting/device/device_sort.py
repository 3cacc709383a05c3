"""Sorting device-resident arrays."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from linkwise import _core
from linkwise._core import UsageError
from linkwise.interop.device_arrays import (
    as_on_gpu,
    check_one_dimension,
    column_like,
    gpus_of,
    like,
    open_where_they_lie,
    stream_of,
)
from linkwise.planning.constraints import resident_plan
from linkwise.runtime.arguments import gpu_numbers
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.session import run_interruptibly
from linkwise.sorting.report import SortReport


class GpuSort:
    """One sort of arrays on GPUs; see ``run``."""

    def __init__(
        self,
        keys: Sequence[Any],
        payload: Sequence[Any] | None,
        execution: ExecutionOptions,
        *,
        descending: bool,
        donate: bool,
    ) -> None:
        if payload is not None and len(payload) != len(keys):
            raise UsageError(f"payload must be a list of {len(keys)} arrays, one for each array of keys")
        check_one_dimension([*keys, *(payload or [])])
        self._keys, self._payload, self._execution, self._donate = keys, payload, execution, donate
        self._options = _core.SortOptions(descending, execution.verify)
        on_gpus = gpus_of(keys)
        if payload is not None and gpus_of(payload) != on_gpus:
            raise UsageError("an array of the payload does not lie on the GPU of its keys")
        self._streams = [stream_of(array, on_gpus) for array in keys]
        self.plan = self._plan(on_gpus)
        self._is_real = on_gpus is not None

    def _plan(self, on_gpus: list[int] | None) -> _core.SortPlan:
        asked = None if self._execution.gpus == "auto" else gpu_numbers(self._execution.gpus)
        if on_gpus is not None and asked not in (None, on_gpus):
            raise UsageError(f"the arrays lie on GPUs {on_gpus}; gpus= cannot say otherwise")
        gpus = on_gpus or asked or list(range(len(self._keys)))
        if len(gpus) != len(self._keys):
            raise UsageError(f"there are {len(self._keys)} arrays for {len(gpus)} GPUs; give one for each")
        return resident_plan(self._execution, gpus)

    def row_numbers(self) -> list[Any]:
        """The row numbers, int64, in the order of the keys, as arrays of their library."""
        with open_where_they_lie(self._execution, on_gpus=self._is_real, done="sorted") as runtime:
            lengths = [int(array.shape[0]) for array in self._keys]
            numbers = _core.number_rows(runtime, self.plan.gpus, lengths, np.dtype(np.int64).itemsize)

            def make(pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
                return [like(part, key) for (_, part), key in zip(pairs, self._keys, strict=True)]

            rows: list[Any] = self._sorted(runtime, numbers, make)
            return rows

    def run(self, *, with_report: bool) -> tuple[Any, SortReport | None]:
        """The sorted arrays (with a payload: two lists), and optionally a report, which waits until all is done."""
        began = time.perf_counter()
        with open_where_they_lie(self._execution, on_gpus=self._is_real, done="sorted") as runtime:
            carried = [as_on_gpu(array, kinds="iufc") for array in self._payload or []]
            result = self._sorted(runtime, carried, self._in_their_library)
            return result, self._report(runtime, began) if with_report else None

    def _in_their_library(self, pairs: Sequence[tuple[Any, Any]]) -> Any:
        keys = [column_like(part, original) for (part, _), original in zip(pairs, self._keys, strict=True)]
        if self._payload is None:
            return keys
        return keys, [like(part, original) for (_, part), original in zip(pairs, self._payload, strict=True)]

    def _sorted(self, runtime: _core.Runtime, payload: Sequence[Any], make: Callable[[Any], Any]) -> Any:
        numbers = [as_on_gpu(array) for array in self._keys]

        def work() -> Any:
            return _core.sort_device(
                runtime, self.plan, numbers, list(payload), self._streams, self._donate, self._options, make
            )

        # On GPUs the call takes milliseconds; a thread that listens for Ctrl-C would add a good part of one.
        return work() if self._is_real else run_interruptibly(runtime, work)

    def _report(self, runtime: _core.Runtime, began: float) -> SortReport:
        return SortReport.of_core(
            _core.report_of(runtime, self._options),
            runtime,
            self.plan,
            rows=sum(int(array.shape[0]) for array in self._keys),
            row_bytes=sum(array.dtype.itemsize for array in (self._keys[0], *(self._payload or [])[:1])),
            on="gpus",
            wall_seconds=time.perf_counter() - began,
        )
