"""What an iteration of an application takes under a plan: measured on GPUs, or simulated on a described machine."""

from __future__ import annotations

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from linkwise import _core
from linkwise._core import AgentPlan, CorruptDataError, Machine, Sends
from linkwise._typing import Array
from linkwise.apps.base import Application
from linkwise.apps.tuning import AGENTS, DEFAULT_PLAN, Tuned, tune
from linkwise.runtime.session import estimating_runtime

_REPETITIONS, _TUNING_REPETITIONS, _COMPARED = 5, 3, 9

_LONG_ENOUGH = 0.02
"""Target duration of a repetition, in seconds."""


def simulated_seconds(
    machine: Machine, app: Application, gpus: Sequence[int], plan: AgentPlan, *, sends: Sends = Sends.chunks
) -> float:
    """Seconds of one iteration, at the size that ``Application.priced`` chooses."""
    runtime = estimating_runtime(machine)
    running = app.priced(runtime, gpus, plan)
    running.set_sends(sends)
    running.wait()
    runtime.clear_timeline()
    running.run(1)
    return _core.seconds_of_work(runtime)


def result_of_all(app: Application, running: _core.App, gpus: Sequence[int]) -> tuple[Array, bool]:
    """The first GPU's result, and whether all other GPUs have the same."""
    first, *others = (app.result(running, gpu) for gpu in gpus)
    return first, all(np.array_equal(first, other, equal_nan=True) for other in others)


def timed_iterations(
    runtime: _core.Runtime, run: Callable[[int], None], repetitions: int = _REPETITIONS, iterations: int | None = None
) -> list[float]:
    """Seconds of one iteration on GPUs, for each repetition of ``iterations``, or of as many as take long enough.

    Iterations are queued without waiting for the host: starting one can take longer than running it.
    """

    def timed(rounds: int) -> float:
        began = time.perf_counter()
        run(rounds)
        runtime.synchronize()
        seconds = (time.perf_counter() - began) / rounds
        runtime.clear_timeline()
        return seconds

    timed(1)  # loads what runs for the first time
    enough = max(int(_LONG_ENOUGH / timed(1)), 1)
    return [timed(iterations or enough) for _ in range(repetitions)]


class AppLab(ABC):
    """An application on some GPUs. It runs with any plan; with ``unified`` only if it was made with that plan."""

    def __init__(self, app: Application, gpus: Sequence[int]) -> None:
        self.app, self.gpus = app, gpus

    @abstractmethod
    def runs(
        self,
        plan: AgentPlan,
        *,
        sends: Sends = Sends.chunks,
        iterations: int | None = None,
        repetitions: int = _REPETITIONS,
    ) -> list[float]:
        """Seconds of one iteration, for each repetition of ``iterations``, or of as many as take long enough."""

    @abstractmethod
    def seconds(self, *ways: tuple[AgentPlan, Sends]) -> list[float]:
        """Seconds of one iteration in each of the ways."""

    @abstractmethod
    def result(self) -> Array | None:
        """The result after all runs, the same on all GPUs; ``None`` if simulated. Raises ``CorruptDataError``."""

    def tuned(self, agents: Sequence[str] | None = None, *, exhaustive: bool = False) -> Tuned:
        """Tune over the named agents, or else over all; the best plan comes first."""
        return tune(
            lambda plan: statistics.median(self.runs(plan, repetitions=_TUNING_REPETITIONS)),
            agents or AGENTS,
            exhaustive=exhaustive,
        )


class SimulatedApp(AppLab):
    """Simulated on a described machine, at the size that ``Application.priced`` chooses."""

    def __init__(self, machine: Machine, app: Application, gpus: Sequence[int]) -> None:
        super().__init__(app, gpus)
        self._machine = machine

    def runs(
        self,
        plan: AgentPlan,
        *,
        sends: Sends = Sends.chunks,
        iterations: int | None = None,
        repetitions: int = _REPETITIONS,
    ) -> list[float]:
        """See ``AppLab``: one repetition, since simulated times do not vary."""
        return [simulated_seconds(self._machine, self.app, self.gpus, plan, sends=sends)]

    def seconds(self, *ways: tuple[AgentPlan, Sends]) -> list[float]:
        """See ``AppLab``."""
        return [second for plan, sends in ways for second in self.runs(plan, sends=sends)]

    def result(self) -> None:
        """``None``: a simulation has no result."""


class MeasuredApp(AppLab):
    """On real GPUs."""

    def __init__(
        self, runtime: _core.Runtime, app: Application, gpus: Sequence[int], plan: AgentPlan = DEFAULT_PLAN
    ) -> None:
        super().__init__(app, gpus)
        self._runtime, self._running = runtime, app.start(runtime, gpus, plan)

    def runs(
        self,
        plan: AgentPlan,
        *,
        sends: Sends = Sends.chunks,
        iterations: int | None = None,
        repetitions: int = _REPETITIONS,
    ) -> list[float]:
        """See ``AppLab``."""
        self._running.set_plan(plan)
        self._running.set_sends(sends)
        seconds = timed_iterations(self._runtime, self._running.run, repetitions, iterations)
        self._running.wait()
        return seconds

    def seconds(self, *ways: tuple[AgentPlan, Sends]) -> list[float]:
        """See ``AppLab``: medians; results are checked to be the same on all GPUs.

        The ways take turns, so that changes of the machine's state affect all of them alike.
        """
        runs: list[list[float]] = [[] for _ in ways]
        for _ in range(_COMPARED):
            for taken, (plan, sends) in zip(runs, ways, strict=True):
                taken.extend(self.runs(plan, sends=sends, repetitions=1))
                if sends == Sends.chunks:
                    self.result()
        return [statistics.median(taken) for taken in runs]

    def result(self) -> Array:
        """See ``AppLab``."""
        result, are_same = result_of_all(self.app, self._running, self.gpus)
        if not are_same:
            raise CorruptDataError(f"the GPUs have different results of {self.app.name}")
        return result


def lab_of(runtime: _core.Runtime, app: Application, gpus: Sequence[int], plan: AgentPlan = DEFAULT_PLAN) -> AppLab:
    """A lab that times the application: measured on GPUs, simulated on a described machine."""
    if runtime.simulated:
        return SimulatedApp(runtime.machine, app, gpus)
    return MeasuredApp(runtime, app, gpus, plan)
