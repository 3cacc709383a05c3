"""Plans joins for the core, and prices joins before they are run."""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Unpack

from linkwise import _core
from linkwise._core import UsageError
from linkwise._log import is_heard, log
from linkwise._shown import Shown, format_seconds, parts_in_seconds
from linkwise.planning.constraints import strategy_for
from linkwise.planning.plan_cache import PlanCache, rounded_up
from linkwise.planning.sort import MOST_ROWS, key_type_named, machine_to_plan_for
from linkwise.runtime.execution import ExecutionOptions, JoinExecution, gpus_of, memory_limit_of, takes_execution
from linkwise.runtime.join_plan import JoinPlan
from linkwise.runtime.sort_plan import SortPlan

_MOST_SKEW = 4.0


def join_workload(
    key_type: _core.KeyType, rows: tuple[int, int], how: str, *, value_bytes: int = 0, wants_rows: bool = False
) -> _core.JoinWorkload:
    """A join of so many rows, with values of that width on both sides."""
    workload = _core.JoinWorkload()
    workload.key_type, workload.how = key_type, how
    workload.left_rows, workload.right_rows = rows
    workload.value_bytes, workload.wants_rows = value_bytes, wants_rows
    return workload


def _constraints(
    options: ExecutionOptions, machine: _core.Machine, workload: _core.JoinWorkload
) -> _core.JoinConstraints:
    """What the caller pins. Raises ``UsageError``."""
    constraints = _core.JoinConstraints()
    constraints.memory_limit = memory_limit_of(options, machine)
    if options.gpus != "auto":
        constraints.gpus = gpus_of(machine, options.gpus)
    if options.strategy != "auto":
        constraints.strategy = strategy_for(options, constraints.gpus)
    plan = options.plan
    if not isinstance(plan, JoinPlan):
        return constraints
    _check_asked(plan, workload, options.strategy)
    path: str | None = plan.path
    if plan.sort is not None:
        plan.sort.check_for("host")
        path = _path_for(plan.sort, path)
        constraints.pin_sort(plan.sort.to_core(), set(plan.sort.pinned) - {"gpus", "strategy"})
    if path is not None:
        constraints.path = getattr(_core.JoinPath, path)
    if path in _BASELINES:
        constraints.strategy = _core.SortStrategy.het  # as in het, GPUs send nothing to each other
    constraints.pin(plan.to_core(), set(plan.pinned) - {"path"})
    return constraints


_BASELINES = ("pairwise", "hybrid_radix")
"""The baselines of Rui et al. (join25 §4.1.4)."""
_ON_THE_HOST = ("sorted", *_BASELINES)
"""Paths on which both sides are brought together in host memory."""


def _path_for(sort: SortPlan, path: str | None) -> str | None:
    """The path that can sort both sides as pinned; ``None`` leaves it to the planner. Raises ``UsageError``."""
    beyond = sort.beyond_in_core()
    if not beyond or path in (*_ON_THE_HOST, None):
        return path or ("sorted" if beyond else None)
    name, value = next(iter(beyond.items()))
    raise UsageError(
        f"{name} is {value}, and joins in core sort all rows at once, streamed by radix; leave {name} out, or make "
        "path sorted"
    )


def _check_asked(plan: JoinPlan, workload: _core.JoinWorkload, strategy: str) -> None:
    """Raise ``UsageError`` if the plan cannot produce what the workload asks for."""
    if workload.wants_ranges and plan.path == "in_core":
        raise UsageError("path is in_core, and ranges are found on the path sorted; leave path out of the plan")
    if plan.merges_runs is False and (workload.wants_rows or workload.wants_ranges or strategy == "het"):
        what = "rows and ranges are found in" if strategy != "het" else "het makes"
        raise UsageError(f"merges_runs is False, and {what} merged runs; leave merges_runs out")


_plans: PlanCache[_core.JoinWorkload, _core.JoinPlan] = PlanCache()


def choose_join_plan(runtime: _core.Runtime, workload: _core.JoinWorkload, options: ExecutionOptions) -> _core.JoinPlan:
    """The plan for a workload, cached for similar ones; sets the runtime's memory limit.

    Raises ``OutOfMemoryError`` if nothing fits, and ``UsageError`` naming a pinned field that cannot be kept.
    """
    like = copy.copy(workload)
    if options.plan is None:  # a pinned plan may only just fit
        like.left_rows, like.right_rows = rounded_up(workload.left_rows), rounded_up(workload.right_rows)
    constraints = _constraints(options, runtime.machine, workload)

    def make() -> _core.JoinPlan:
        return _core.plan_join(runtime.machine, like, constraints)[0].plan

    plan = _plans.plan_for(runtime, like, options, make)
    runtime.set_memory_limit(memory_limit_of(options, runtime.machine))
    if is_heard():
        rows = workload.left_rows, workload.right_rows
        log.info("plan of a join of %d with %d rows on %s: %s", *rows, runtime.machine.name, plan)
    return plan


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PricedJoin(JoinPlan):
    """A plan with its seconds on the simulated clock, in all and by phase. ``replace`` drops the seconds."""

    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)

    @property
    def plan(self) -> str:
        """The plan in words."""
        return str(self)


def _priced(priced: _core.PricedJoin) -> PricedJoin:
    phases = {phase.phase: phase.seconds for phase in priced.phases}
    return PricedJoin.of_core(priced.plan, seconds=priced.seconds, phases=phases)


def _told(plan: PricedJoin) -> dict[str, Any]:
    gpus = plan.gpus or ()
    return {
        "plan": str(plan),
        "path": plan.path,
        "strategy": plan.strategy,
        "gpus": list(gpus),
        "fields": plan.as_dict(),
        # Equal shares of rows and expected matches together: see Skew.
        "shares": {str(gpu): 1 / len(gpus) for gpu in gpus},
        "seconds": {"end_to_end": plan.seconds, "phases": plan.phases},
    }


@dataclass(frozen=True)
class Skew:
    """The most frequent key of the longer side by Zipf's law (join25 §4.1.3), and the most GPUs that it spreads over.

    Every GPU gets the same share of rows whatever the skew, so skew does not change a plan's time: rows of a key
    beyond a share go to the next GPU, and the few rows of that key on the other side are lent (replicated) to it.
    """

    zipf: float
    heaviest_share: float
    spread_over: int

    @classmethod
    def of(cls, zipf: float, keys: int, gpus: int) -> Skew:
        """For this many distinct keys on this many GPUs."""
        share = 1 / _generalised_harmonic(max(keys, 1), zipf)
        # The key's rows may begin anywhere in a GPU's share, which takes one GPU more, unless one is enough.
        return cls(zipf, share, 1 if share * gpus <= 1 else min(math.ceil(share * gpus) + 1, gpus))


def _generalised_harmonic(n: int, exponent: float) -> float:
    """1 + 2^-z + … + n^-z: the first terms, and Euler and Maclaurin's formula for the others."""
    first = min(n, 1000)
    total = math.fsum(k**-exponent for k in range(1, first + 1))
    if n == first:
        return total
    whole = math.log(n / first) if exponent == 1 else (n ** (1 - exponent) - first ** (1 - exponent)) / (1 - exponent)
    return float(total + whole + (n**-exponent - first**-exponent) / 2)


@dataclass(frozen=True, repr=False)
class JoinPlanReport(Shown):
    """The best plan for a join on a machine, and the next best for each number of GPUs."""

    machine: str
    best: PricedJoin
    runners_up: list[PricedJoin]
    skew: Skew

    def shown_line(self) -> str:
        """The machine, the time of the best plan, and that plan."""
        return f"{self.machine}, {format_seconds(self.best.seconds)}: {self.best}"

    def shown_rows(self) -> dict[str, Any]:
        """Its phases, and the runners-up."""
        others = "; ".join(f"{plan}, {format_seconds(plan.seconds)}" for plan in self.runners_up)
        return {"phases": parts_in_seconds(self.best.phases), "runners-up": others}

    def as_dict(self) -> dict[str, Any]:
        """As ``linkwise plan join --json`` prints it."""
        return {
            "machine": self.machine,
            **_told(self.best),
            "skew": asdict(self.skew),
            "runners_up": [_told(plan) for plan in self.runners_up],
        }


@takes_execution(JoinExecution)
def plan_join(
    left: int,
    right: int,
    key: str = "u32",
    *,
    how: str = "inner",
    value_bytes: int = 0,
    wants_rows: bool = False,
    wants_ranges: bool = False,
    matches: int | None = None,
    skew: float = 0.0,
    left_presorted: bool = False,
    right_presorted: bool = False,
    path: str = "auto",
    pageable: bool = False,
    **execution: Unpack[JoinExecution],
) -> JoinPlanReport:
    """Plan and price a join of this many rows. Nothing is joined.

    Parameters
    ----------
    left, right
        How many rows the sides have.
    key
        The type of the keys: ``u8`` … ``u64``, ``i8`` … ``i64``, or as NumPy names it.
    how
        As for ``join``.
    value_bytes
        Bytes of the value that follows each key on both sides, and is summed or returned: 0, 4, 8 or 16.
    wants_rows
        Whether the rows of the result are wanted; otherwise their number and, with values of 4 or 8 bytes, sums.
    wants_ranges
        Whether the ranges of rows of each key that matches are wanted, as ``join_ranges`` returns them.
    matches
        How many pairs of rows match (for ranges: how many keys); by default one for each row of the longer side, and
        none for an anti join.
    skew
        The Zipf exponent of the frequencies at which the longer side has the keys of the shorter one.
    left_presorted, right_presorted
        Whether a side is already sorted by its keys.
    path
        ``"in_core"``: both sides on the GPUs at once; ``"sorted"``: in host memory, pair by pair; or ``"auto"``. As
        baselines, those of Rui et al.: ``"pairwise"`` and ``"hybrid_radix"``.
    pageable
        Whether inputs and output are in pageable instead of pinned memory.
    **execution
        Where and how it runs: see ``linkwise.options``.

    Raises
    ------
    UsageError, OutOfMemoryError, DeviceError

    """
    for name, rows, most in (("left", left, MOST_ROWS), ("right", right, MOST_ROWS), ("matches", matches or 0, 1e18)):
        if not 0 <= rows <= most:
            raise UsageError(f"{name} is {rows:g}; it is a number from 0 to {most:g}")
    if not 0 <= skew <= _MOST_SKEW:
        raise UsageError(f"skew is {skew:g}; it is a number from 0 to {_MOST_SKEW:g}")
    if value_bytes not in (0, 4, 8, 16):
        raise UsageError(f"values have 0, 4, 8 or 16 bytes, not {value_bytes}")
    workload = join_workload(
        key_type_named(key), (int(left), int(right)), how, value_bytes=value_bytes, wants_rows=wants_rows
    )
    workload.wants_ranges = wants_ranges
    workload.expected_matches = None if matches is None else int(matches)
    workload.left_presorted, workload.right_presorted = left_presorted, right_presorted
    options = _with_path(ExecutionOptions.of(execution, JoinPlan), path, wins="plan" not in execution)
    if not joins_on_gpus(options):
        raise UsageError(f"strategy= is '{options.strategy}', by which the cores join; plans are for joins on the GPUs")
    workload.pageable, workload.verify = pageable, options.verify
    described = machine_to_plan_for(options.machine)
    priced = _core.plan_join(described, workload, _constraints(options, described, workload))
    others: list[PricedJoin] = []
    shown = {(priced[0].plan.path, len(priced[0].plan.sort.gpus))}
    for each in priced[1:]:
        kind = each.plan.path, len(each.plan.sort.gpus)
        if kind not in shown:
            shown.add(kind)
            others.append(_priced(each))
    best = _priced(priced[0])
    return JoinPlanReport(described.name, best, others, Skew.of(skew, int(min(left, right)), len(best.gpus or ())))


def _with_path(options: ExecutionOptions, path: str, *, wins: bool) -> ExecutionOptions:
    """The options with this path; unless it ``wins``, it must not differ from the plan's. Raises ``UsageError``."""
    if path not in ("auto", "in_core", *_ON_THE_HOST):
        raise UsageError(f"there is no path {path!r} for a join; there are in_core, {', '.join(_ON_THE_HOST)}")
    plan = options.plan if isinstance(options.plan, JoinPlan) else JoinPlan()
    if path == "auto":
        return options
    if plan.path not in (None, path) and not wins:
        raise UsageError(f"path= is '{path}', and the plan's is '{plan.path}'; name one of them")
    return replace(options, plan=plan.replace(path=path))


def joins_on_gpus(options: ExecutionOptions) -> bool:
    """Whether the strategy sorts and joins both sides on the GPUs."""
    by_path = isinstance(options.plan, JoinPlan) and options.plan.path in _ON_THE_HOST
    return options.strategy in ("auto", "radix", *(("p2p_merge", "het") if by_path else ())) and not options.on_cores
