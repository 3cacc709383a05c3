"""Plans and prices a sort before anything is sorted: the best plan, the runners-up, and why."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Unpack

import numpy as np

from linkwise import _core
from linkwise._core import UsageError
from linkwise._log import is_heard, log
from linkwise._shown import Shown, format_seconds, parts_in_seconds
from linkwise.columns.key_types import key_type_of
from linkwise.machines.catalog import load_machine
from linkwise.machines.local import local_machine
from linkwise.planning.constraints import constraints_of, is_power_of_two, pins_records, resident_plan
from linkwise.planning.plan_cache import PlanCache, rounded_up
from linkwise.runtime.execution import (
    ExecutionOptions,
    MachineLike,
    SortExecution,
    gpus_of,
    memory_limit_of,
    takes_execution,
)  # fmt: skip
from linkwise.runtime.plan_fields import On
from linkwise.runtime.session import no_gpu
from linkwise.runtime.sort_plan import SortPlan

_WIDE_KEYS = (_core.KeyType.u64, _core.KeyType.i64, _core.KeyType.f64)

MOST_ROWS = 1e12
"""The most rows that can be planned for: a thousand times what the largest machine holds."""

ExpectedOrder = Literal["random", "sorted", "nearly_sorted", "reversed"]
"""The expected order of the input's keys."""

_SHORT_NAMES = {"u": "uint", "i": "int", "f": "float"}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PricedPlan(SortPlan):
    """A plan with its seconds on the simulated clock, in all and by phase. ``replace`` drops the seconds."""

    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    plan: str = ""
    """The plan in words, including what follows from the described memory of the machine."""

    def __str__(self) -> str:
        return self.plan


@dataclass(frozen=True, repr=False)
class PlanReport(Shown):
    """The best plan for a sort on a machine, the next best of each kind, and one sentence that says why."""

    machine: str
    best: PricedPlan
    runners_up: list[PricedPlan]
    why: str

    def shown_line(self) -> str:
        """The machine, the time of the best plan, and that plan."""
        return f"{self.machine}, {format_seconds(self.best.seconds)}: {self.best}"

    def shown_rows(self) -> dict[str, Any]:
        """Its phases, the runners-up, and why."""
        others = "; ".join(f"{plan}, {format_seconds(plan.seconds)}" for plan in self.runners_up)
        return {"phases": parts_in_seconds(self.best.phases), "runners-up": others, "why": self.why}

    def as_dict(self) -> dict[str, Any]:
        """As ``linkwise plan sort --json`` prints it."""
        return {
            "machine": self.machine,
            **_told(self.best),
            "runners_up": [_told(plan) for plan in self.runners_up],
            "why": self.why,
        }


def _told(plan: PricedPlan) -> dict[str, Any]:
    return {
        "plan": str(plan),
        "strategy": plan.strategy,
        "gpus": list(plan.gpus or ()),
        "fields": plan.as_dict(),
        "seconds": {"end_to_end": plan.seconds, "phases": plan.phases},
    }


def machine_to_plan_for(machine: MachineLike) -> _core.Machine:
    """The machine of that name, or this one. Raises ``DeviceError`` if it has no GPUs."""
    if isinstance(machine, _core.Machine):
        return machine
    if machine in ("auto", "local"):
        local = local_machine()
        if local is not None:
            return local
        raise no_gpu("plan for")
    return load_machine(machine)


def key_type_named(name: str) -> _core.KeyType:
    """From ``uint32`` or, shorter, ``u32``. Raises ``UsageError``."""
    long = _SHORT_NAMES[name[0]] + name[1:] if name[:1] in _SHORT_NAMES and name[1:].isdigit() else name
    try:
        kind = np.dtype(long)
    except Exception:  # NumPy parses the text, and may raise anything
        raise UsageError(f"there is no key type '{name}'; name one like u32, i64 or f64") from None
    return key_type_of(kind)


def _priced(
    plan: _core.SortPlan, seconds: float, phases: Iterable[_core.PhaseTime], on: On = "host", *, pins_records: bool
) -> PricedPlan:
    # The number of records sorted at once is set when the sort runs, from the memory that is free then.
    left_to_the_sort = () if pins_records else ("chunkset_records",)
    return PricedPlan.of_core(
        plan,
        on,
        without=left_to_the_sort,
        seconds=seconds,
        phases={phase.phase: phase.seconds for phase in phases},
        plan=str(plan) if on == "host" else f"{plan.strategy.name} of data on GPUs ({','.join(map(str, plan.gpus))})",
    )


def _kind(plan: _core.PricedPlan) -> tuple[str, int, bool]:
    return plan.plan.strategy.name, len(plan.plan.gpus), bool(plan.plan.paths)


def _why(machine: _core.Machine, workload: _core.SortWorkload, best: _core.PricedPlan, others: list[PricedPlan]) -> str:
    """What the choice of GPUs and their host links gains, and how much slower other strategies would be."""
    if not best.plan.gpus:
        if not others:
            return "The cores were asked for."
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
        slower.setdefault(str(other.strategy), other.seconds / max(best.seconds, 1e-12))
    else_text = [
        f"{strategy} would take {ratio:.2f} times as long"
        for strategy, ratio in slower.items()
        if strategy != best.plan.strategy.name
    ]
    return "; ".join([gpus_text, *else_text]) + "."


def _expected_order(name: str) -> _core.ExpectedOrder:
    known = {order.name: order for order in _core.ExpectedOrder}
    if name not in known:
        raise UsageError(f"expected_order is one of {', '.join(known)}, not {name!r}")
    return known[name]


@takes_execution(SortExecution)
def plan_sort(
    rows: float,
    key: str = "u32",
    *,
    value_bytes: int = 0,
    pageable: bool = False,
    resident: bool = False,
    donate: bool = False,
    expected_order: ExpectedOrder = "random",
    **execution: Unpack[SortExecution],
) -> PlanReport:
    """Plan and price a ``linkwise.sort`` of this many rows. Nothing is sorted.

    The report's ``best`` is a ``SortPlan``, which can be changed, saved, and passed to ``sort`` as ``plan=``.

    Parameters
    ----------
    rows
        The number of rows.
    key
        The type of the keys: ``u8`` … ``u64``, ``i8`` … ``i64``, ``f16`` … ``f64``, or as NumPy names it.
    value_bytes
        Bytes of the value that follows each key: 0, 4, 8 or 16.
    pageable
        Whether input and output are in pageable instead of pinned memory.
    resident
        Whether the rows are device-resident already, in equal parts, and stay on the GPUs.
    donate
        Whether device-resident rows may be overwritten.
    expected_order
        The expected order of keys in host memory: ``p2p_merge`` moves only those that change sides (sort22 §6.3).
    **execution
        Where and how it runs: see ``linkwise.options``.

    Raises
    ------
    UsageError, OutOfMemoryError, DeviceError

    """
    if not 0 <= rows <= MOST_ROWS:
        raise UsageError(f"rows is {rows:g}; it is a number from 0 to {MOST_ROWS:g}")
    if value_bytes not in (0, 4, 8, 16):
        raise UsageError(f"values have 0, 4, 8 or 16 bytes, not {value_bytes}")
    options = ExecutionOptions.of(execution, SortPlan)
    workload = _core.SortWorkload()
    workload.key_type, workload.count, workload.value_bytes = key_type_named(key), int(rows), value_bytes
    workload.pageable = workload.pageable_out = pageable
    workload.verify = options.verify
    workload.expected_order = _expected_order(expected_order)
    described = machine_to_plan_for(options.machine)
    if resident:
        best, *others = _resident_plans(described, workload, options, donate=donate)
        return PlanReport(described.name, best, others, _why_resident(best, others))
    priced = _core.plan_sort(described, workload, constraints_of(options, described))
    others = []
    shown = {_kind(priced[0])}
    for plan in priced[1:]:
        kind = _kind(plan)
        if kind not in shown:
            shown.add(kind)
            others.append(_priced(plan.plan, plan.seconds, plan.phases, pins_records=pins_records(options)))
    best = _priced(priced[0].plan, priced[0].seconds, priced[0].phases, pins_records=pins_records(options))
    return PlanReport(described.name, best, others, _why(described, workload, priced[0], others))


def _resident_plans(
    machine: _core.Machine, workload: _core.SortWorkload, options: ExecutionOptions, *, donate: bool
) -> list[PricedPlan]:
    """Priced plans of the strategies that sort device-resident data, fastest first."""
    gpus = gpus_of(machine, options.gpus)
    every = ["radix", "p2p_merge"] if is_power_of_two(gpus) else ["radix"]
    names = every if options.strategy == "auto" else [options.strategy]
    priced = []
    for name in names:
        plan = resident_plan(replace(options, strategy=name), gpus)
        report = _core.estimate_device_sort(machine, workload, plan, donate, memory_limit_of(options, machine))
        priced.append(_priced(plan, report.seconds, report.phases, "gpus", pins_records=pins_records(options)))
    return sorted(priced, key=lambda plan: plan.seconds)


def _why_resident(best: PricedPlan, others: list[PricedPlan]) -> str:
    slower = [
        f"{other.strategy} would take {other.seconds / max(best.seconds, 1e-12):.2f} times as long" for other in others
    ]
    return "; ".join(["The rows stay on the GPUs", *slower]) + "."


_plans: PlanCache[_core.SortWorkload, _core.SortPlan] = PlanCache()


def choose_plan(runtime: _core.Runtime, workload: _core.SortWorkload, options: ExecutionOptions) -> _core.SortPlan:
    """The plan for a workload, cached for similar ones; sets the runtime's memory limit.

    Raises ``UsageError`` or ``OutOfMemoryError``, naming the pinned field that cannot be kept.
    """
    like = copy.copy(workload)
    like.count = rounded_up(workload.count) if options.plan is None else workload.count  # a pinned plan may just fit
    constraints = constraints_of(options, runtime.machine)  # each time, since it may warn

    def make() -> _core.SortPlan:
        return _core.plan_sort(runtime.machine, like, constraints)[0].plan

    plan = _plans.plan_for(runtime, like, options, make)
    runtime.set_memory_limit(memory_limit_of(options, runtime.machine))
    # The plan is for the described memory; what is really free may be less.
    record = _core.RecordType(8 if workload.key_type in _WIDE_KEYS else 4, workload.value_bytes)
    fitting = _core.records_that_fit(runtime, plan, record)
    if fitting < workload.count and (plan.chunkset_records == 0 or fitting < plan.chunkset_records):
        if pins_records(options):
            raise _core.OutOfMemoryError(
                f"chunkset_records is {plan.chunkset_records}, and the GPUs have room for {fitting} records now; "
                "make it less, or leave it out"
            )
        plan.chunkset_records = fitting
    if is_heard():
        log.info("plan of a sort of %d rows on %s: %s", workload.count, runtime.machine.name, plan)
    return plan
