"""From what a caller asked for to a plan of the core."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from linkwise import _core
from linkwise._core import UsageError

Gpus = Literal["auto"] | Sequence[int]
MachineLike = str | Path | _core.Machine
Progress = Callable[[float], None]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class Request:
    """What a caller asked for, apart from the data."""

    machine: MachineLike
    gpus: Gpus
    strategy: str
    memory_limit: int | str | None
    descending: bool
    verify: bool
    on_progress: Progress | None = None


def parse_bytes(size: int | str | None) -> int:
    """Bytes from ``4096``, ``"512MiB"`` or ``"4GiB"``; 0 for ``None``. Raises ``UsageError``."""
    if size is None:
        return 0
    if isinstance(size, int):
        if size <= 0:
            raise UsageError(f"memory_limit is {size}; it must be positive")
        return size
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", size, re.IGNORECASE)
    if match is None or float(match[1]) <= 0:
        raise UsageError(f"'{size}' is not a size; write it like 512MiB or 4GiB")
    count = int(float(match[1]) * _UNITS[match[2].upper()])
    if count >= 1 << 60:
        raise UsageError(f"'{size}' is more than any memory has")
    return count


_WIDE_KEYS = (_core.KeyType.u64, _core.KeyType.i64, _core.KeyType.f64)
_plans: dict[tuple[object, ...], _core.SortPlan] = {}  # what was planned before; a machine by its name


def _rounded_up(count: int) -> int:
    """To three significant binary digits: inputs of nearly the same size share a plan."""
    step = 1 << max(count.bit_length() - 3, 0)
    return -(-count // step) * step


def constraints_of(request: Request) -> _core.SortConstraints:
    """What the caller pinned. Raises ``UsageError``."""
    constraints = _core.SortConstraints()
    if request.gpus != "auto":
        constraints.gpus = [int(gpu) for gpu in request.gpus]
        if not constraints.gpus:
            raise UsageError("gpus is empty; name at least one GPU, or leave it at 'auto'")
    if request.strategy != "auto":
        constraints.strategy = _core.sort_strategy_from(request.strategy)
    constraints.memory_limit = parse_bytes(request.memory_limit)
    return constraints


def _plan(runtime: _core.Runtime, workload: _core.SortWorkload, request: Request) -> _core.SortPlan:
    constraints = constraints_of(request)
    like = copy.copy(workload)
    like.count = _rounded_up(workload.count)
    key = (
        *(request.machine, runtime.simulated, tuple(constraints.gpus), constraints.strategy, constraints.memory_limit),
        *(
            like.key_type,
            like.count,
            like.value_bytes,
            like.keys_returned,
            like.pageable,
            like.pageable_out,
            like.verify,
        ),
    )
    if not isinstance(request.machine, str) or request.machine.endswith(".json"):  # these may change
        return _core.plan_sort(runtime.machine, like, constraints)[0].plan
    if key not in _plans:
        _plans[key] = _core.plan_sort(runtime.machine, like, constraints)[0].plan
    return copy.copy(_plans[key])


def choose_plan(runtime: _core.Runtime, workload: _core.SortWorkload, request: Request) -> _core.SortPlan:
    """The plan for a workload, remembered for the next one like it; sets the runtime's memory limit."""
    plan = _plan(runtime, workload, request)
    runtime.set_memory_limit(parse_bytes(request.memory_limit))
    # The plan is for the described memory; what is really free may be less.
    record = _core.RecordType(8 if workload.key_type in _WIDE_KEYS else 4, workload.value_bytes)
    fitting = _core.records_that_fit(runtime, plan, record)
    if fitting < workload.count and (plan.chunkset_records == 0 or fitting < plan.chunkset_records):
        plan.chunkset_records = fitting
    return plan
