"""Run applications: measured on GPUs, or on the virtual machine (blocks run on the CPU, time is simulated)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linkwise import _core
from linkwise._core import AgentPlan, UsageError
from linkwise._typing import Array
from linkwise.apps.base import Application
from linkwise.apps.registry import application
from linkwise.apps.timing import SimulatedApp, lab_of, result_of_all
from linkwise.apps.tuning import DEFAULT_PLAN, keep, kept_plan
from linkwise.apps.xray_ct import Tomography
from linkwise.runtime.execution import Gpus, gpus_of
from linkwise.runtime.session import open_session

_CHECKED_ITERATIONS = 3  # both regions of a pair are written, one of them twice
_ROUNDING = 1e-3  # allowed rounding error after the timed iterations, relative to the largest value
_REAL_SCALE, _VIRTUAL_SCALE = 1 / 8, 1 / 4096
_MOST_ITERATIONS = 1_000_000


@dataclass(frozen=True)
class AppReport:
    """What ``linkwise app`` says."""

    app: str
    machine: str
    simulated: bool
    gpus: list[int]
    agent: str
    iterations: int
    seconds: float
    """For all iterations: the median of five runs on GPUs, or the simulated time."""
    spread: float
    single_gpu_seconds: float
    speedup: float
    correct: bool
    error: float
    """The larger of two errors, relative to the tolerance: against the reference after three iterations, and of the
    timed result against that of one GPU."""
    scale: float | None
    """Of the data whose result was checked; ``None`` if they come from a file."""
    timed: str
    """What was timed: the ``"data"``, or, in simulations without a given size, data of the ``"paper"``'s size."""

    def as_dict(self) -> dict[str, Any]:
        """The report as ``--json`` prints it: an error that is not finite becomes null."""
        return asdict(self) | {"error": self.error if math.isfinite(self.error) else None}


def checked(runtime: _core.Runtime, app: Application, gpus: Sequence[int], plan: AgentPlan) -> tuple[float, Array]:
    """The largest error of any GPU's result after a few iterations, and one GPU's result."""
    running = app.start(runtime, gpus, plan)
    running.run(_CHECKED_ITERATIONS)
    running.wait()
    result, are_same = result_of_all(app, running, gpus)
    return app.error(result, _CHECKED_ITERATIONS) if are_same else float("inf"), result


def _difference(one: Array | None, other: Array | None) -> float:
    """The largest difference of two results that may differ by rounding only, relative to the tolerance."""
    if one is None or other is None:
        return 0
    finite = np.isfinite(other)
    if not np.array_equal(np.isfinite(one), finite):
        return float("inf")
    largest = max(float(np.abs(other[finite]).max(initial=0)), 1e-30)
    return float(np.abs(one[finite] - other[finite]).max(initial=0) / (_ROUNDING * largest))


def scale_of(scale: float | None, *, simulated: bool) -> float:
    """The scale that is asked for; otherwise one that takes seconds."""
    if scale is not None:
        return scale
    return _VIRTUAL_SCALE if simulated else _REAL_SCALE


def run_app(
    name: str, *, gpus: Gpus = "auto", machine: str = "local", agent: str | AgentPlan = "auto",
    scale: float | None = None, iterations: int | None = None, matrix: Path | None = None, picture: Path | None = None,
) -> AppReport:  # fmt: skip
    """Run one of the applications on one GPU and on several, and check its result against a reference.

    Parameters
    ----------
    name
        ``jacobi``, ``pagerank``, ``sssp``, ``als`` or ``xray_ct``.
    gpus
        The GPUs to use; by default all.
    machine
        ``"local"``: this machine's GPUs. A described machine: the kernels' blocks run on the CPU at a small scale, in
        random legal orders and with race detection; times are simulated for the size of the paper's data, or for that
        of ``scale`` or ``matrix`` where one is given.
    agent
        What sends finished chunks: a name, a plan, or ``"auto"``: the tuned plan, or else the documented default.
    scale
        The scale of generated data, 1 being the full size; by default an eighth on GPUs. The paper's data sets have
        more entries per row than generated data.
    iterations
        The number of iterations; by default the application's usual number.
    matrix
        A Matrix Market file or list of edges for pagerank, sssp and als.
    picture
        Where xray_ct's reconstruction goes, as a PNG file.

    Raises
    ------
    UsageError, DeviceError, OutOfMemoryError

    """
    if iterations is not None and not 1 <= iterations <= _MOST_ITERATIONS:
        raise UsageError(f"there are from 1 to {_MOST_ITERATIONS} iterations, not {iterations}")
    if matrix is not None and scale is not None:
        raise UsageError("a matrix from a file has its own size; leave the scale away")
    with open_session(machine) as runtime:
        simulated, described = runtime.simulated, runtime.machine
        of_data = scale_of(scale, simulated=simulated)
        app = application(name, of_data, matrix)
        app.own_size = not simulated or scale is not None or matrix is not None
        if picture is not None and not isinstance(app, Tomography):
            raise UsageError(f"{name} makes no picture; xray_ct does")
        numbers = gpus_of(described, gpus)
        plan = _plan_for(runtime, app, numbers, agent)
        rounds = iterations or app.iterations
        timed = _timed(runtime, app, numbers, plan, rounds)
        if picture is not None:
            _reconstruct(runtime, app, numbers, plan, rounds, picture)
    seconds = statistics.median(timed.several)
    return AppReport(
        app=name, machine=described.name, simulated=simulated, gpus=numbers, agent=str(plan), iterations=rounds,
        seconds=seconds, spread=(max(timed.several) - min(timed.several)) / seconds, single_gpu_seconds=timed.single,
        speedup=timed.single / seconds, correct=timed.error <= 1, error=timed.error,
        scale=of_data if matrix is None else None,
        timed="data" if app.own_size else "paper",
    )  # fmt: skip


def _plan_for(runtime: _core.Runtime, app: Application, gpus: Sequence[int], agent: str | AgentPlan) -> AgentPlan:
    """The requested plan, or else a tuned one: tuned now on a described machine, stored before on GPUs."""
    if isinstance(agent, AgentPlan):
        return agent
    if agent != "auto":
        return AgentPlan(agent, DEFAULT_PLAN.chunk_bytes, DEFAULT_PLAN.threads)
    return SimulatedApp(runtime.machine, app, gpus).tuned().best if runtime.simulated else kept_plan(app, gpus)


class _Timed(NamedTuple):
    several: list[float]
    """Seconds of all iterations on all GPUs, of each repetition."""
    single: float
    """The median on the first GPU alone."""
    error: float
    """The larger of the errors against the reference and against one GPU's result."""


def _timed(runtime: _core.Runtime, app: Application, gpus: Sequence[int], plan: AgentPlan, rounds: int) -> _Timed:
    lab = lab_of(runtime, app, gpus, plan)
    error, _ = checked(runtime, app, gpus, plan)
    several = [rounds * seconds for seconds in lab.runs(plan, iterations=rounds)]
    result = lab.result()
    del lab  # frees its GPU memory
    alone = lab_of(runtime, app, gpus[:1])
    single = rounds * statistics.median(alone.runs(AgentPlan("bulk"), iterations=rounds))
    return _Timed(several, single, max(error, _difference(result, alone.result())))  # after equally many iterations


def _reconstruct(
    runtime: _core.Runtime, app: Application, gpus: Sequence[int], plan: AgentPlan, iterations: int, picture: Path
) -> None:
    from linkwise.reports.plots import save_picture  # noqa: PLC0415 - plotting takes a second to load

    running = app.start(runtime, gpus, plan)
    running.run(iterations)
    running.wait()
    save_picture(app.result(running, gpus[0]), picture)


def tune_app(
    name: str, *, gpus: Gpus = "auto", machine: str = "local", scale: float | None = None, exhaustive: bool = False
) -> dict[str, Any]:
    """Find the best plan for an application; store it for this machine if it was measured.

    Parameters
    ----------
    name, gpus, machine, scale
        As for ``run_app``.
    exhaustive
        Whether to sweep all agents, granularities and numbers of threads.

    Returns
    -------
    dict
        ``tried``, the best first, with the seconds of an iteration; and ``kept``, the file that stores the best plan.

    Raises
    ------
    UsageError, DeviceError, OutOfMemoryError

    """
    with open_session(machine) as runtime:
        simulated, described = runtime.simulated, runtime.machine
        app = application(name, scale_of(scale, simulated=simulated))
        app.own_size = scale is not None
        numbers = gpus_of(described, gpus)
        tuned = lab_of(runtime, app, numbers).tuned(exhaustive=exhaustive)
        kept = "" if simulated else str(keep(app, numbers, tuned.best))
    return {
        "app": name,
        "machine": described.name,
        "simulated": simulated,
        "gpus": numbers,
        "tried": tuned.rows(),
        "kept": kept,
    }
