"""Execution options: where and how sorts and joins run, given once and passed on as one value.

Public functions take them as ``**execution``; ``takes_execution`` shows them one by one in signatures and ``help()``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypedDict, TypeVar, Unpack, cast

from linkwise import _core
from linkwise._core import UsageError
from linkwise.runtime.arguments import gpu_numbers, in_one_line, no_gpus, parse_bytes
from linkwise.runtime.join_plan import JoinPlan
from linkwise.runtime.plan_fields import Plan
from linkwise.runtime.sort_plan import SortPlan

Gpus = Literal["auto"] | Sequence[int]
MachineLike = str | Path | _core.Machine
MemoryLimit = int | str | None
Verify = bool | Literal["all"]
Progress = Callable[[float], None]
Function = TypeVar("Function", bound=Callable[..., Any])


class Execution(TypedDict, total=False):
    """The options that every sort and join takes."""

    machine: MachineLike
    gpus: Gpus
    strategy: str
    memory_limit: MemoryLimit
    verify: Verify


class SortExecution(Execution, total=False):
    """The same with the plan of a sort."""

    plan: SortPlan | None


class JoinExecution(Execution, total=False):
    """The same with the plan of a join."""

    plan: JoinPlan | None


class AnyExecution(Execution, total=False):
    """The same with either."""

    plan: SortPlan | JoinPlan | None


_TEXT = """\
machine
    ``"auto"``: this machine's GPUs; its CPU cores if it has none, or if they finish before GPUs have started.
    ``"local"``: its GPUs, or an error. The name of a described machine or a ``.json`` file: simulated.
gpus
    GPU numbers, in the order in which the GPUs hold the result, or ``"auto"``: those of the fastest plan.
strategy
    ``"radix"``, ``"p2p_merge"`` (2, 4, 8, … GPUs), ``"het"`` (merged on the CPU), ``"cpu"`` (no GPU) or
    ``"auto"``. For a join: how its keys are sorted.
memory_limit
    Memory that each GPU may use: bytes, ``"4GiB"`` or ``"80%"``. What does not fit is sorted in chunks, whose
    runs are merged on the GPUs or the host.
verify
    ``True``: verify order and checksum of the result, on the GPUs if they made it; for tables and files also that the
    rows are those of the input. ``"all"``: the host also checks what came back over the links, every match of a join
    against sums of both sides, and files by reading them again before they appear (``docs/reliability.md``).
    ``False``: nothing is verified.
plan
    A ``SortPlan`` or ``JoinPlan`` whose fields are kept; if one cannot be kept, an error names it and says why.
"""
_MARK = "**execution\n    Where and how it runs: see ``linkwise.options``.\n"
_HEADING = "\n\nOptions\n-------\n"


def takes_execution(options: type) -> Callable[[Function], Function]:
    """Have a function's signature and help show the options that it takes as ``**execution``, one by one."""

    def show(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        shown = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS[name], annotation=annotation.__forward_arg__
            )
            for name, annotation in options.__annotations__.items()
        ]
        function.__signature__ = signature.replace(parameters=[*own, *shown])  # type: ignore[attr-defined]
        text = inspect.cleandoc(function.__doc__ or "") + "\n"
        function.__doc__ = text.replace(_MARK, _TEXT) if _MARK in text else text.rstrip() + _HEADING + _TEXT
        return function

    return show


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """Where and how work is done; see ``options`` for what each says."""

    machine: MachineLike = "auto"
    gpus: Gpus = "auto"
    strategy: str = "auto"
    memory_limit: MemoryLimit = None
    verify: bool = True
    """``"all"`` may be given as well; see ``verify_all``."""
    plan: SortPlan | JoinPlan | None = None
    on_progress: Progress | None = None
    verify_all: bool = False
    """Whether ``verify`` was given as ``"all"``; ``verify`` itself is a bool afterwards."""

    def __post_init__(self) -> None:
        given: object = self.verify
        if isinstance(given, str) and given == "all":
            object.__setattr__(self, "verify", True)
            object.__setattr__(self, "verify_all", True)
        elif not isinstance(given, bool):
            raise UsageError(f"verify= is True, False or 'all', not {in_one_line(given)}")
        if not isinstance(self.strategy, str):
            raise UsageError(f"strategy= is a name like 'radix', or 'auto', not {self.strategy!r}")
        if not isinstance(self.gpus, str):  # comparing a NumPy array gives an array, not a bool
            object.__setattr__(self, "gpus", gpu_numbers(self.gpus))
        elif self.gpus != "auto":
            raise no_gpus(self.gpus)
        if self.plan is not None and not isinstance(self.plan, SortPlan | JoinPlan):
            raise UsageError(f"plan= is a SortPlan or a JoinPlan, not {in_one_line(self.plan)}")
        if self.plan is not None:
            self._take_from(self.plan)

    def _take_from(self, plan: SortPlan | JoinPlan) -> None:
        """Take GPUs and strategy from the plan if it names them, so that they need not be looked up in two places."""
        if plan.gpus and self.gpus not in ("auto", list(plan.gpus)):
            raise UsageError(f"gpus= is {self.gpus}, and the plan's are {list(plan.gpus)}; name one of them")
        if plan.strategy is not None and self.strategy not in ("auto", plan.strategy):
            raise UsageError(f"strategy= is '{self.strategy}', and the plan's is '{plan.strategy}'; name one of them")
        sort = _sort_of(plan)
        if sort is not None and self.strategy != "auto":
            sort.check_strategy(self.strategy, "strategy=")
        object.__setattr__(self, "gpus", list(plan.gpus) if plan.gpus else self.gpus)
        object.__setattr__(self, "strategy", plan.strategy or self.strategy)

    @classmethod
    def of(cls, given: Any, kind: type[Plan], on_progress: Progress | None = None) -> Self:
        """The options of a call, completed by enclosing ``options`` blocks. ``kind``: the plans that it takes."""
        _check_names(given)
        plan = given.get("plan")
        if plan is not None and not isinstance(plan, kind):
            raise UsageError(f"plan= is a {kind.__name__} here, not {in_one_line(plan)}")
        blocks = _given.get(_Given({}, {}))
        around = {**blocks.others, "plan": blocks.plans.get(kind)}
        return cls(**_merged(around, given), on_progress=on_progress)

    @property
    def says_nothing(self) -> bool:
        """Whether everything about where and how it runs is left at its default."""
        given = (self.machine, self.gpus, self.strategy, self.memory_limit, self.plan)
        return given == ("auto", "auto", "auto", None, None)

    @property
    def on_cores(self) -> bool:
        """Whether it runs on this machine's CPU, because that was requested or because there are no GPUs.

        Raises ``UsageError`` if the options require GPUs and there are none.
        """
        if self.machine not in ("auto", "local"):
            return False
        if self.strategy == "cpu":
            return True
        reason = "" if self.machine == "local" else _core.cuda_unavailable_reason()
        if not reason:
            return False
        if self.strategy != "auto":
            _core.sort_strategy_from(self.strategy)  # raises for an unknown name
        if self.gpus != "auto" and not self.gpus:
            raise UsageError(_NO_GPUS)
        pinned = set(self.plan.pinned if self.plan is not None else ()) - {"cpu_algorithm"}
        named = [
            *([f"strategy '{self.strategy}'"] if self.strategy != "auto" else []),
            *([f"gpus {self.gpus}"] if self.gpus != "auto" else []),
            *(f"{name} of the plan" for name in sorted(pinned)),
        ]
        if named:
            raise UsageError(
                f"{named[0]} takes GPUs, and {reason}; name a machine to simulate, as 'h200x8', or leave it out for "
                "the cores"
            )
        return True

    def without_progress(self) -> Self:
        """The options without the progress callback: those that a plan depends on."""
        return replace(self, on_progress=None)


_NO_GPUS = "gpus is empty; name at least one GPU, or leave it at 'auto'"
_DEFAULTS = {
    each.name: each.default for each in fields(ExecutionOptions) if each.name not in ("on_progress", "verify_all")
}


def _check_names(given: Any) -> None:
    unknown = set(given) - set(_DEFAULTS)
    if unknown:
        raise TypeError(
            f"unexpected keyword argument '{min(unknown)}'; those that say how it runs are {', '.join(_DEFAULTS)}"
        )


def _sort_of(plan: SortPlan | JoinPlan) -> SortPlan | None:
    return plan.sort if isinstance(plan, JoinPlan) else plan


def _merged(around: dict[str, Any], given: Any) -> dict[str, Any]:
    """The given options, completed by enclosing ones; given ones win, also over fields of an enclosing plan."""
    kept = {name: value for name, value in around.items() if name not in given}
    plan = given.get("plan")
    if "cpu" in (given.get("strategy"), getattr(plan, "strategy", None)):  # which uses no GPUs
        kept.pop("gpus", None)
    if plan is not None:
        sort = _sort_of(plan)
        for name in ("gpus", "strategy"):
            if getattr(plan, name) is not None:
                kept.pop(name, None)
        if sort is not None and not sort.can_be(kept.get("strategy", "auto")):
            del kept["strategy"]
    elif kept.get("plan") is not None:
        kept["plan"] = _with_others(kept["plan"], given)
    return {**kept, **given}


def _with_others(plan: SortPlan | JoinPlan, given: Any) -> SortPlan | JoinPlan:
    """The plan with a given strategy (``"auto"``: left to the planner), and without its GPUs if some are given."""
    if isinstance(plan, JoinPlan):
        return plan if plan.sort is None else plan.replace(sort=_with_others(plan.sort, given))
    if "gpus" in given:
        plan = plan.replace(gpus=None)
    if "strategy" in given:
        plan = plan.replace(strategy=None if given["strategy"] == "auto" else given["strategy"])
    return plan


class _Given(NamedTuple):
    """The options set by ``options`` blocks: a plan of each kind, and the others by name."""

    others: dict[str, Any]
    plans: dict[type[Plan], SortPlan | JoinPlan]

    def around(self, execution: AnyExecution) -> _Given:
        """The options that hold in a nested block which sets these. Raises ``UsageError``."""
        plan = execution.get("plan")
        others = _merged(self.others, execution)
        others.pop("plan", None)
        if "plan" in execution:
            plans = {} if plan is None else {**self.plans, type(plan): plan}
        else:
            plans = {kind: _with_others(plan, execution) for kind, plan in self.plans.items()}
        return _Given(others, plans)


_given: ContextVar[_Given] = ContextVar("linkwise_options")


def nothing_is_said(execution: Any) -> bool:
    """Whether neither the call nor an enclosing ``options`` block sets any option."""
    return not execution and _given.get(None) in (None, _Given({}, {}))


@takes_execution(AnyExecution)
@contextmanager
def options(**execution: Unpack[AnyExecution]) -> Iterator[None]:
    """Set where and how all sorts and joins run inside a ``with`` block. Options of a call itself take precedence.

    The options hold for this thread or task, and for nested blocks unless these set them differently.

    Parameters
    ----------
    **execution
        Where and how it runs: see ``linkwise.options``.

    Raises
    ------
    UsageError

    """
    _check_names(execution)
    ExecutionOptions(**cast(Any, execution))  # raises for invalid options before anything runs
    token = _given.set(_given.get(_Given({}, {})).around(execution))
    try:
        yield
    finally:
        _given.reset(token)


def memory_limit_of(execution: ExecutionOptions, machine: _core.Machine) -> int:
    """Bytes that a GPU may use; 0 for all free memory. Raises ``UsageError``."""
    return parse_bytes(execution.memory_limit, int(machine.gpu.memory_gib * (1 << 30)))


def gpus_of(machine: _core.Machine, gpus: Gpus) -> list[int]:
    """The GPUs that are named, or all of the machine's. Raises ``UsageError``."""
    numbers = list(range(machine.num_gpus)) if gpus == "auto" else gpu_numbers(gpus)
    if not numbers:
        raise UsageError(_NO_GPUS)
    return numbers
