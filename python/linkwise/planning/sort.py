"""What a sort would take, before anything is sorted: the best plan, the runners-up, and why."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwise import _core
from linkwise._core import UsageError
from linkwise.columns.key_types import key_type_of
from linkwise.exceptions import FallbackWarning
from linkwise.machines.catalog import DEFAULT_VIRTUAL_MACHINE, load_machine
from linkwise.machines.local import local_machine
from linkwise.runtime.request import Gpus, MachineLike, Request, gpu_numbers, memory_limit_of

_WIDE_KEYS = (_core.KeyType.u64, _core.KeyType.i64, _core.KeyType.f64)
_plans: dict[tuple[object, ...], _core.SortPlan] = {}  # what was planned before; a machine by its name

MOST_ROWS = 1e12
"""That can be planned for: a thousand times what the largest machine holds."""

_SHORT_NAMES = {"u": "uint", "i": "int", "f": "float"}


@dataclass(frozen=True)
class PricedPlan:
    """A plan in words, and what it takes: seconds in all and by phase, on the simulated clock."""

    plan: str
    strategy: str
    gpus: list[int]
    seconds: float
    phases: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """As ``linkwise plan sort --json`` prints it."""
        return {
            "plan": self.plan,
            "strategy": self.strategy,
            "gpus": self.gpus,
            "seconds": {"end_to_end": self.seconds, "phases": self.phases},
        }


@dataclass(frozen=True)
class PlanReport:
    """The best plan for a sort on a machine, the next best of each kind, and one sentence that says why."""

    machine: str
    best: PricedPlan
    runners_up: list[PricedPlan]
    why: str

    def as_dict(self) -> dict[str, Any]:
        """As ``linkwise plan sort --json`` prints it."""
        return {
            "machine": self.machine,
            **self.best.as_dict(),
            "runners_up": [plan.as_dict() for plan in self.runners_up],
            "why": self.why,
        }


def machine_to_plan_for(machine: MachineLike) -> _core.Machine:
    """The machine of that name; where it is ``"auto"`` and there are no GPUs, the default described one."""
    if isinstance(machine, _core.Machine):
        return machine
    if machine in ("auto", "local"):
        local = local_machine()
        if local is not None:
            return local
        if machine == "local":
            raise _core.DeviceError(f"there is no GPU to plan for: {_core.cuda_unavailable_reason()}")
        machine = DEFAULT_VIRTUAL_MACHINE
    return load_machine(machine)


def key_type_named(name: str) -> _core.KeyType:
    """From ``uint32`` or, shorter, ``u32``. Raises ``UsageError``."""
    long = _SHORT_NAMES[name[0]] + name[1:] if name[:1] in _SHORT_NAMES and name[1:].isdigit() else name
    try:
        kind = np.dtype(long)
    except Exception:  # NumPy evaluates what it is given
        raise UsageError(f"there is no key type '{name}'; name one like u32, i64 or f64") from None
    return key_type_of(kind)


def _priced(plan: _core.PricedPlan) -> PricedPlan:
    phases = {phase.phase: phase.seconds for phase in plan.phases}
    return PricedPlan(str(plan.plan), plan.plan.strategy.name, list(plan.plan.gpus), plan.seconds, phases)


def _kind(plan: _core.PricedPlan) -> tuple[str, int, bool]:
    return plan.plan.strategy.name, len(plan.plan.gpus), bool(plan.plan.paths)


def _why(machine: _core.Machine, workload: _core.SortWorkload, best: _core.PricedPlan, others: list[PricedPlan]) -> str:
    """What the choice of GPUs and ways gains over the host, and what other strategies would cost."""
    if not best.plan.gpus:
        return "On the cores it is sorted before GPUs have received it."
    gpus, everyone = list(best.plan.gpus), list(range(machine.num_gpus))

    def rates(of: list[int], *, uneven: bool) -> str:
        found = []
        for direction, pageable in (
            (_core.Traffic.host_to_device, workload.pageable),
            (_core.Traffic.device_to_host, workload.pageable_out),
        ):
            even = _core.even_host_rate(machine, of, direction, pageable)
            best_rate = _core.best_host_shares(machine, of, direction, pageable).gb_per_s
            found.append(f"{max(even, best_rate) if uneven else even:.0f}")
        return f"{found[0]} GB/s in and {found[1]} out"

    def named(of: list[int]) -> str:
        return f"all {len(of)} GPUs" if of == everyone and len(of) > 1 else f"GPUs ({','.join(map(str, sorted(of)))})"

    if len(gpus) == 1:
        gpus_text = f"One GPU is enough for {workload.count} rows"
    else:
        carried = "over the nearest of them" if best.plan.paths else "in equal shares"
        gpus_text = f"{named(gpus)} carry {rates(gpus, uneven=bool(best.plan.paths))} {carried}"
        gpus_text = gpus_text[0].upper() + gpus_text[1:]
    if sorted(gpus) != everyone and len(gpus) > 1:
        gpus_text += f", all {len(everyone)} in equal shares {rates(everyone, uneven=False)}"
    slower: dict[str, float] = {}
    for other in others:
        slower.setdefault(other.strategy, other.seconds / max(best.seconds, 1e-12))
    else_text = [
        f"{strategy} would take {ratio:.2f} times as long"
        for strategy, ratio in slower.items()
        if strategy != best.plan.strategy.name
    ]
    return "; ".join([gpus_text, *else_text]) + "."


def plan_sort(
    rows: int,
    key: str = "u32",
    *,
    value_bytes: int = 0,
    machine: MachineLike = "auto",
    gpus: Gpus = "auto",
    strategy: str = "auto",
    memory_limit: int | str | None = None,
    pageable: bool = False,
    verify: bool = True,
) -> PlanReport:
    """What ``linkwise.sort`` would do with so many rows, and what it would take. Nothing is sorted.

    Parameters
    ----------
    rows
        How many.
    key
        The type of the keys: ``u8`` … ``u64``, ``i8`` … ``i64``, ``f16`` … ``f64``, or as NumPy names it.
    value_bytes
        Of what follows each key: 0, 4, 8 or 16.
    machine
        As for ``sort``: ``"auto"`` is this machine or, without GPUs, the default described one.
    gpus, strategy, memory_limit, verify
        As for ``sort``: what is given is kept, the rest is chosen.
    pageable
        Whether input and output are ordinary memory instead of pinned.

    Raises
    ------
    UsageError, OutOfMemoryError, DeviceError

    """
    if not 0 <= rows <= MOST_ROWS:
        raise UsageError(f"rows is {rows:g}; it is a number from 0 to {MOST_ROWS:g}")
    if value_bytes not in (0, 4, 8, 16):
        raise UsageError(f"values have 0, 4, 8 or 16 bytes, not {value_bytes}")
    workload = _core.SortWorkload()
    workload.key_type, workload.count, workload.value_bytes = key_type_named(key), rows, value_bytes
    workload.pageable = workload.pageable_out = pageable
    workload.verify = verify
    described = machine_to_plan_for(machine)
    request = Request(machine, gpus, strategy, memory_limit, descending=False, verify=verify)
    priced = _core.plan_sort(described, workload, constraints_of(request, described))
    others: list[PricedPlan] = []
    shown = {_kind(priced[0])}
    for plan in priced[1:]:
        kind = _kind(plan)
        if kind not in shown:
            shown.add(kind)
            others.append(_priced(plan))
    return PlanReport(described.name, _priced(priced[0]), others, _why(described, workload, priced[0], others))


def rounded_up(count: int) -> int:
    """To three significant binary digits: inputs of nearly the same size share a plan."""
    step = 1 << max(count.bit_length() - 3, 0)
    return -(-count // step) * step


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
