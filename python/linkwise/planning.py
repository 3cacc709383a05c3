"""From what a caller asked for to a plan of the core."""

from __future__ import annotations

import copy
import operator
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Number
from pathlib import Path
from typing import Literal

from linkwise import _core
from linkwise._core import UsageError
from linkwise.session import FallbackWarning

Gpus = Literal["auto"] | Sequence[int]
MachineLike = str | Path | _core.Machine
Progress = Callable[[float], None]

_MOST_BYTES = 1 << 60
_MOST_GPUS = 1 << 20
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

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, str):
            raise UsageError(f"strategy= is a name like 'radix', or 'auto', not {self.strategy!r}")
        if not isinstance(self.gpus, str):  # NumPy's arrays do not compare as one would think
            object.__setattr__(self, "gpus", gpu_numbers(self.gpus))
        elif self.gpus != "auto":
            raise _no_gpus(self.gpus)


def _no_gpus(gpus: object) -> UsageError:
    return UsageError(f"gpus= is a list of numbers, as [0, 1], or 'auto', not {gpus!r}")


def parse_bytes(size: int | str | None, whole: int = 0) -> int:
    """Bytes from ``4096``, ``"4GiB"``, or, of a ``whole``, ``"80%"``; 0 for ``None``. Raises ``UsageError``."""
    examples = "512MiB, 4GiB or 80%" if whole else "512KiB or 4MiB"
    if size is None:
        return 0
    if not isinstance(size, str):
        whole_number = isinstance(size, Number) and not isinstance(size, bool | complex) and int(size) == size
        if not whole_number:
            raise UsageError(f"{size!r} is not a size; write it like {examples}, or as a number of bytes")
        if not 0 < size < _MOST_BYTES:
            raise UsageError(f"a limit is {size}; it must be positive, and no more than a memory has")
        return int(size)
    percent = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", size)
    if percent is not None and whole:
        if not 0 < float(percent[1]) <= 100:
            raise UsageError(f"'{size}' is not a part of a memory; write it like 80%")
        return max(int(float(percent[1]) / 100 * whole), 1)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", size, re.IGNORECASE)
    if match is None or float(match[1]) <= 0:
        raise UsageError(f"'{size}' is not a size; write it like {examples}")
    count = float(match[1]) * _UNITS[match[2].upper()]
    if count >= _MOST_BYTES:
        raise UsageError(f"'{size}' is more than any memory has")
    return int(count)


_WIDE_KEYS = (_core.KeyType.u64, _core.KeyType.i64, _core.KeyType.f64)
_plans: dict[tuple[object, ...], _core.SortPlan] = {}  # what was planned before; a machine by its name


def rounded_up(count: int) -> int:
    """To three significant binary digits: inputs of nearly the same size share a plan."""
    step = 1 << max(count.bit_length() - 3, 0)
    return -(-count // step) * step


def memory_limit_of(request: Request, machine: _core.Machine) -> int:
    """Bytes that a GPU may use; 0 for all that are free. Raises ``UsageError``."""
    return parse_bytes(request.memory_limit, int(machine.gpu.memory_gib * (1 << 30)))


def gpu_numbers(gpus: Sequence[int]) -> list[int]:
    """GPU numbers that the core can look at. Raises ``UsageError``."""
    try:
        numbers = [operator.index(gpu) for gpu in gpus]
    except TypeError:
        raise _no_gpus(gpus) from None
    for gpu in numbers:
        if abs(gpu) > _MOST_GPUS:
            raise UsageError(f"there is no GPU {gpu}")
    return numbers


def gpus_of(machine: _core.Machine, gpus: Gpus) -> list[int]:
    """The GPUs that are named, or all of the machine's. Raises ``UsageError``."""
    numbers = list(range(machine.num_gpus)) if gpus == "auto" else gpu_numbers(gpus)
    if not numbers:
        raise UsageError("gpus is empty; name at least one GPU, or leave it at 'auto'")
    return numbers


def strategy_for(name: str, gpus: Sequence[int]) -> _core.SortStrategy:
    """The strategy of that name, or the one that it falls back to on these GPUs. Raises ``UsageError``."""
    strategy = _core.sort_strategy_from(name)
    if strategy == _core.SortStrategy.p2p_merge and len(gpus).bit_count() != 1 and gpus:
        warnings.warn(
            f"p2p_merge runs on 2, 4, 8, … GPUs, not on {len(gpus)}: radix runs instead", FallbackWarning, stacklevel=2
        )
        return _core.SortStrategy.radix
    return strategy


def constraints_of(request: Request, machine: _core.Machine) -> _core.SortConstraints:
    """What the caller pinned. Raises ``UsageError``."""
    constraints = _core.SortConstraints()
    if request.gpus != "auto":
        constraints.gpus = gpu_numbers(request.gpus)
        if not constraints.gpus:
            raise UsageError("gpus is empty; name at least one GPU, or leave it at 'auto'")
    if request.strategy != "auto":
        constraints.strategy = strategy_for(request.strategy, constraints.gpus)
    constraints.memory_limit = memory_limit_of(request, machine)
    return constraints


def _plan(runtime: _core.Runtime, workload: _core.SortWorkload, request: Request) -> _core.SortPlan:
    constraints = constraints_of(request, runtime.machine)
    like = copy.copy(workload)
    like.count = rounded_up(workload.count)
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
    runtime.set_memory_limit(memory_limit_of(request, runtime.machine))
    # The plan is for the described memory; what is really free may be less.
    record = _core.RecordType(8 if workload.key_type in _WIDE_KEYS else 4, workload.value_bytes)
    fitting = _core.records_that_fit(runtime, plan, record)
    if fitting < workload.count and (plan.chunkset_records == 0 or fitting < plan.chunkset_records):
        plan.chunkset_records = fitting
    return plan
