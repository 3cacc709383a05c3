"""From a join that is asked for to a plan of the core; and what a join would take, before it is done."""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass
from typing import Any

from linkwise import _core
from linkwise._core import UsageError
from linkwise.planning.sort import MOST_ROWS, key_type_named, machine_to_plan_for, rounded_up
from linkwise.runtime.request import Gpus, MachineLike, Request, gpu_numbers, memory_limit_of

_PATHS = {"auto": None, "in_core": _core.JoinPath.in_core, "sorted": _core.JoinPath.sorted}
_MOST_SKEW = 4.0
_plans: dict[tuple[object, ...], _core.JoinPlan] = {}  # what was planned before; a machine by its name


def join_workload(
    key_type: _core.KeyType, rows: tuple[int, int], how: str, *, value_bytes: int = 0, wants_rows: bool = False
) -> _core.JoinWorkload:
    """A join of so many rows, with values of that width on both sides."""
    workload = _core.JoinWorkload()
    workload.key_type, workload.how = key_type, how
    workload.left_rows, workload.right_rows = rows
    workload.value_bytes, workload.wants_rows = value_bytes, wants_rows
    return workload


def _constraints(request: Request, machine: _core.Machine, path: str = "auto") -> _core.JoinConstraints:
    if path not in _PATHS:
        raise UsageError(f"there is no path {path!r} for a join; there are in_core and sorted")
    constraints = _core.JoinConstraints()
    constraints.path = _PATHS[path]
    constraints.memory_limit = memory_limit_of(request, machine)
    if request.gpus != "auto":
        constraints.gpus = gpu_numbers(request.gpus)
        if not constraints.gpus:
            raise UsageError("gpus is empty; name at least one GPU, or leave it at 'auto'")
    return constraints


def choose_join_plan(runtime: _core.Runtime, workload: _core.JoinWorkload, request: Request) -> _core.JoinPlan:
    """The plan for a workload, remembered for the next one like it; sets the runtime's memory limit.

    Raises ``OutOfMemoryError`` if nothing fits.
    """
    constraints = _constraints(request, runtime.machine)
    like = copy.copy(workload)
    like.left_rows, like.right_rows = rounded_up(workload.left_rows), rounded_up(workload.right_rows)
    runtime.set_memory_limit(constraints.memory_limit)
    key = (
        *(request.machine, runtime.simulated, tuple(constraints.gpus), constraints.memory_limit, like.key_type),
        *(
            like.left_rows,
            like.right_rows,
            like.value_bytes,
            like.how,
            like.wants_rows,
            like.wants_ranges,
            like.pageable,
            like.verify,
            like.left_presorted,
            like.right_presorted,
        ),
    )
    is_named = isinstance(request.machine, str) and not request.machine.endswith(".json")  # others may change
    if not is_named or key not in _plans:
        plan = _core.plan_join(runtime.machine, like, constraints)[0].plan
        if not is_named:
            return plan
        _plans[key] = plan
    return copy.copy(_plans[key])


@dataclass(frozen=True)
class PricedJoin:
    """A plan in words, and what it takes: seconds in all and by phase, on the simulated clock."""

    plan: str
    path: str
    strategy: str
    gpus: list[int]
    seconds: float
    phases: dict[str, float]

    @classmethod
    def of_core(cls, priced: _core.PricedJoin) -> PricedJoin:
        """From the core's."""
        phases = {phase.phase: phase.seconds for phase in priced.phases}
        plan = priced.plan
        return cls(
            str(plan), plan.path.name, plan.sort.strategy.name, list(plan.sort.gpus), priced.seconds, phases
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """As ``linkwise plan join --json`` prints it."""
        return {
            "plan": self.plan,
            "path": self.path,
            "strategy": self.strategy,
            "gpus": self.gpus,
            # By rows and expected matches together: see Skew.
            "shares": {str(gpu): 1 / len(self.gpus) for gpu in self.gpus},
            "seconds": {"end_to_end": self.seconds, "phases": self.phases},
        }


@dataclass(frozen=True)
class Skew:
    """The most frequent key of the longer side, by Zipf's law (join25 §4.1.3): rows of it on so many GPUs at most.

    Every GPU gets the same share of rows whatever the skew is, so it does not change what a plan takes: what one key
    has beyond a share goes to the next GPU, and the few rows of that key on the other side are lent to it.
    """

    zipf: float
    heaviest_share: float
    spread_over: int

    @classmethod
    def of(cls, zipf: float, keys: int, gpus: int) -> Skew:
        """Of so many different keys on so many GPUs."""
        share = 1 / _generalised_harmonic(max(keys, 1), zipf)
        # A share begins anywhere in another GPU's, unless one is enough.
        return cls(zipf, share, 1 if share * gpus <= 1 else min(math.ceil(share * gpus) + 1, gpus))


def _generalised_harmonic(n: int, exponent: float) -> float:
    """1 + 2^-z + … + n^-z: the first terms, and Euler and Maclaurin's formula for the others."""
    first = min(n, 1000)
    total = math.fsum(k**-exponent for k in range(1, first + 1))
    if n == first:
        return total
    whole = math.log(n / first) if exponent == 1 else (n ** (1 - exponent) - first ** (1 - exponent)) / (1 - exponent)
    return float(total + whole + (n**-exponent - first**-exponent) / 2)


@dataclass(frozen=True)
class JoinPlanReport:
    """The best plan for a join on a machine, and the next best for each number of GPUs."""

    machine: str
    best: PricedJoin
    runners_up: list[PricedJoin]
    skew: Skew

    def as_dict(self) -> dict[str, Any]:
        """As ``linkwise plan join --json`` prints it."""
        return {
            "machine": self.machine,
            **self.best.as_dict(),
            "skew": asdict(self.skew),
            "runners_up": [plan.as_dict() for plan in self.runners_up],
        }


def plan_join(
    left: int,
    right: int,
    key: str = "u32",
    *,
    how: str = "inner",
    value_bytes: int = 0,
    wants_rows: bool = False,
    matches: int | None = None,
    skew: float = 0.0,
    left_presorted: bool = False,
    right_presorted: bool = False,
    machine: MachineLike = "auto",
    gpus: Gpus = "auto",
    path: str = "auto",
    memory_limit: int | str | None = None,
    pageable: bool = False,
    verify: bool = True,
) -> JoinPlanReport:
    """What a join of so many rows would take, and on which GPUs. Nothing is joined.

    Parameters
    ----------
    left, right
        How many rows the sides have.
    key
        The type of the keys: ``u8`` … ``u64``, ``i8`` … ``i64``, or as NumPy names it.
    how
        As for ``join``.
    value_bytes
        Of what follows each key on both sides, and is summed or shown: 0, 4, 8 or 16.
    wants_rows
        Whether the rows of the result are wanted; otherwise their number and, with values of 4 or 8 bytes, sums.
    matches
        How many pairs of rows match; one for each row of the longer side unless given.
    skew
        Zipf's exponent of how often the longer side has each key of the shorter one.
    left_presorted, right_presorted
        Whether a side lies in the order of its keys.
    path
        ``"in_core"``: both sides on the GPUs at once; ``"sorted"``: in host memory, pair by pair; or ``"auto"``.
    machine, gpus, memory_limit, pageable, verify
        As for ``plan_sort``.

    Raises
    ------
    UsageError, OutOfMemoryError, DeviceError

    """
    for name, rows in (("left", left), ("right", right), ("matches", matches or 0)):
        if not 0 <= rows <= MOST_ROWS:
            raise UsageError(f"{name} is {rows:g}; it is a number from 0 to {MOST_ROWS:g}")
    if not 0 <= skew <= _MOST_SKEW:
        raise UsageError(f"skew is {skew:g}; it is a number from 0 to {_MOST_SKEW:g}")
    if value_bytes not in (0, 4, 8, 16):
        raise UsageError(f"values have 0, 4, 8 or 16 bytes, not {value_bytes}")
    workload = join_workload(
        key_type_named(key), (int(left), int(right)), how, value_bytes=value_bytes, wants_rows=wants_rows
    )
    workload.expected_matches = None if matches is None else int(matches)
    workload.left_presorted, workload.right_presorted = left_presorted, right_presorted
    workload.pageable, workload.verify = pageable, verify
    described = machine_to_plan_for(machine)
    request = Request(machine, gpus, "auto", memory_limit, descending=False, verify=verify)
    priced = _core.plan_join(described, workload, _constraints(request, described, path))
    others: list[PricedJoin] = []
    shown = {(priced[0].plan.path, len(priced[0].plan.sort.gpus))}
    for each in priced[1:]:
        kind = each.plan.path, len(each.plan.sort.gpus)
        if kind not in shown:
            shown.add(kind)
            others.append(PricedJoin.of_core(each))
    best = PricedJoin.of_core(priced[0])
    return JoinPlanReport(described.name, best, others, Skew.of(skew, int(min(left, right)), len(best.gpus)))
