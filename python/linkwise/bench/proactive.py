"""The metrics of proact21 (§V), on GPUs or on a described machine: the gain of sending chunks while kernels run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from linkwise import _core
from linkwise._core import AgentPlan, CorruptDataError, Machine, Sends, UsageError
from linkwise.apps.als import Factorisation
from linkwise.apps.base import Application
from linkwise.apps.graph import PageRank, ShortestPaths
from linkwise.apps.jacobi import Jacobi
from linkwise.apps.registry import APPLICATIONS, application, check_scale
from linkwise.apps.run import checked, scale_of
from linkwise.apps.timing import lab_of, timed_iterations
from linkwise.apps.tuning import DEFAULT_PLAN
from linkwise.apps.xray_ct import Tomography
from linkwise.bench.results import Results, commit, now
from linkwise.probing.probe import probe_families
from linkwise.runtime.execution import Gpus, gpus_of
from linkwise.runtime.session import estimating_runtime, open_session

SYNTHETIC_BYTES = 256 << 20
_CHUNKS = tuple(4096 << step for step in range(0, 17, 2))  # 4 KiB to 256 MiB
_BULK = AgentPlan("bulk")
_THREADS = (32, 512, 2048, 4096, 8192)


# Data of which copying takes about a third of the time on four GPUs with NVLink 4: if it took more, kernels would
# wait for links whatever the agent; if less, there would be nothing to gain. They are also so large that a kernel
# runs in several waves of blocks: in a single wave, all chunks would finish together at the kernel's end.
_INPUTS: dict[str, tuple[Callable[[float], Application], float]] = {
    "jacobi": (lambda scale: Jacobi(scale, band=56), 1 / 4),
    "pagerank": (lambda scale: PageRank(scale, links=4), 1.0),
    "sssp": (lambda scale: ShortestPaths(scale, degree=26), 2.0),
    "als": (lambda scale: Factorisation(scale, degree=80), 1.0),
    "xray_ct": (lambda scale: Tomography(scale, views=24), 1 / 2),
}


def benchmark_input(name: str, scale: float | None) -> tuple[Application, float]:
    """An application with data whose copying takes a good part of its time on GPUs, and their scale."""
    make, usual = _INPUTS[name]
    return make(scale or usual), scale or usual


@dataclass(frozen=True)
class Micro:
    """The microbenchmark on some GPUs: the kernel takes as long as its copies to all others (§IV-C)."""

    runtime: _core.Runtime | None
    machine: Machine
    gpus: Sequence[int]
    steps: int = 0
    seconds: float = 0.0
    bytes: int = SYNTHETIC_BYTES
    """Bytes that every other GPU gets."""

    @staticmethod
    def tuned(
        runtime: _core.Runtime | None, machine: Machine, gpus: Sequence[int], size: int = SYNTHETIC_BYTES
    ) -> Micro:
        """The microbenchmark with a kernel that takes as long as the copies."""
        if runtime is None:
            copies = Micro(None, machine, gpus, 0, 1e-12, size).run(AgentPlan("bulk"))
            return Micro(None, machine, gpus, 0, copies, size)
        plain = Micro(runtime, machine, gpus, 1, bytes=size)
        copies = plain.run(AgentPlan("bulk")) - plain.run(AgentPlan("bulk"), sends=Sends.nothing)
        steps = 500
        for _ in range(4):
            steps = max(
                int(steps * copies / replace(plain, steps=steps).run(AgentPlan("bulk"), sends=Sends.nothing)), 1
            )
        return replace(plain, steps=steps)

    def run(self, plan: AgentPlan, *, sends: Sends = Sends.chunks) -> float:
        """Seconds of one iteration; on GPUs the median of several, with a result that is checked."""
        runtime = self.runtime or estimating_runtime(self.machine)
        app = _core.make_synthetic(runtime, list(self.gpus), plan, self.bytes, self.steps, self.seconds)
        app.set_sends(sends)
        if self.runtime is None:
            app.run(1)
            app.wait()
            return _core.seconds_of_work(runtime)

        done = 0

        def run_on(iterations: int) -> None:
            nonlocal done
            app.run(iterations)
            done += iterations

        taken = timed_iterations(self.runtime, run_on)
        app.wait()
        if sends == Sends.chunks:
            self._check(app, done)
        return statistics.median(taken)

    def _check(self, app: _core.App, iteration: int) -> None:
        found = np.empty(self.bytes // 4, np.uint32)
        some = range(0, len(found), 65_521)
        wanted = np.array([_core.synthetic_word(i, iteration, self.steps) for i in some], np.uint32)
        for gpu in self.gpus:
            app.fetch(gpu, found)
            if not np.array_equal(found[::65_521], wanted):
                raise CorruptDataError(f"GPU {gpu} has not got what was sent: do not trust this machine")


@dataclass(frozen=True)
class TimedAgent:
    """The microbenchmark under a plan."""

    plan: str
    agent: str
    chunk_bytes: int
    threads: int
    seconds: float
    speedup: float
    """Over copying after the kernel."""


@dataclass(frozen=True)
class MicroResults:
    """The microbenchmark's times by plan, and their bounds."""

    gpus: int
    bytes: int
    bulk_seconds: float
    """With copies after the kernel."""
    kernel_seconds: float
    stores_seconds: float | None
    """Of a kernel that does nothing but store to the peers; ``None`` where it was simulated."""
    ideal: float
    rows: list[TimedAgent]


@dataclass(frozen=True)
class TimedApp:
    """The metrics of proact21 for an application on some number of GPUs."""

    app: str
    gpus: int
    plan: str
    agent: str
    seconds: dict[str, float]
    speedups: dict[str, float]
    bulk_share: float
    share_of_opportunity: float
    tracking: float
    overlap: float
    scale: float | None = None


@dataclass(frozen=True, kw_only=True)
class ProactiveResults(Results):
    """The microbenchmark, and what each application gains."""

    gpus: int
    scale: float | None
    store_goodput: dict[str, float]
    microbenchmark: MicroResults | None
    apps: list[TimedApp]
    means: dict[str, dict[str, float]]
    """Geometric means of speed-ups, by the number of GPUs."""


def microbenchmark(
    runtime: _core.Runtime | None, machine: Machine, gpus: Sequence[int], agents: Sequence[str]
) -> MicroResults:
    """Speed-ups over copying after the kernel by agent, granularity and threads (fig. 4 and 6)."""
    micro = Micro.tuned(runtime, machine, gpus)
    bulk = micro.run(AgentPlan("bulk"))
    kernel = micro.run(AgentPlan("bulk"), sends=Sends.nothing)
    # A kernel that only stores to its peers is a lower bound for agents that store. Described machines state the
    # throughput of each agent's stores, so that there is nothing to measure.
    stores = Micro(runtime, machine, gpus, 1).run(AgentPlan("inline")) if runtime is not None else None
    rows = []
    for agent in agents:
        kind = AgentPlan(agent)
        for chunk in _CHUNKS if kind.has_chunks else _CHUNKS[:1]:
            for threads in _THREADS if kind.has_threads else _THREADS[:1]:
                plan = AgentPlan(agent, chunk, threads)
                seconds = micro.run(plan)
                rows.append(TimedAgent(str(plan), agent, chunk, threads, seconds, bulk / seconds))
    return MicroResults(len(gpus), SYNTHETIC_BYTES, bulk, kernel, stores, bulk / kernel, rows)


def store_goodput(runtime: _core.Runtime, link_gb_per_s: float) -> dict[int, float]:
    """Goodput of a link from GPU 0 to GPU 1, as a share of its rate, by the bytes of a store (fig. 2)."""
    stores = probe_families(runtime, ["peer store size"])
    return {
        int(row.what.split()[-2]): min(row.measured.gb_per_s / link_gb_per_s, 1) for row in stores if not row.why_not
    }


def measures(
    runtime: _core.Runtime,
    app: Application,
    gpus: Sequence[int],
    agents: Sequence[str] | None = None,
) -> TimedApp:
    """The metrics of proact21 for an application: speed-ups by method (fig. 7), tracking cost (8), overlap (9)."""
    [single] = lab_of(runtime, app, gpus[:1]).seconds((_BULK, Sends.chunks))
    lab = lab_of(runtime, app, gpus)
    tuned = lab.tuned(agents)
    plan = next(plan for plan, _ in tuned.tried if plan.agent.name not in ("bulk", "inline"))
    # Links without limits, as in §IV-B: the bulk run without its copies, that is, the kernels alone.
    bulk, inline, decoupled, infinite, tracked, *unordered = lab.seconds(
        (_BULK, Sends.chunks), (AgentPlan("inline"), Sends.chunks), (plan, Sends.chunks),
        (_BULK, Sends.nothing), (plan, Sends.nothing),
        *([(_BULK, Sends.unordered)] if not runtime.simulated else []),
    )  # fmt: skip
    # Fig. 9 excludes only the stores, but not the launches: on described machines, these are a share of the SMs.
    launches = runtime.machine.agents.dynamic_share if runtime.simulated and plan.agent.name == "dynamic" else 0
    exposed = max(decoupled - tracked * (1 + launches), 0)
    best = min(inline, decoupled, bulk)
    times = {"bulk": bulk, "inline": inline, "decoupled": decoupled, "infinite": infinite}
    if unordered:
        times["unordered"] = unordered[0]
    del lab  # frees its GPU memory
    if not runtime.simulated:
        unified = AgentPlan("unified")
        [times["unified"]] = lab_of(runtime, app, gpus, unified).seconds((unified, Sends.chunks))
    return TimedApp(
        app=app.name,
        gpus=len(gpus),
        plan=str(tuned.best),
        agent=tuned.best.agent.name,
        seconds=times | {"single": single},
        speedups={name: single / seconds for name, seconds in times.items()} | {"proactive": single / best},
        bulk_share=(bulk - infinite) / bulk,
        share_of_opportunity=infinite / best,
        tracking=tracked / infinite - 1,
        overlap=1 - exposed / max(bulk - infinite, 1e-12),
    )


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive numbers."""
    return math.exp(statistics.fmean(math.log(value) for value in values))


def _means(rows: list[TimedApp]) -> dict[str, float]:
    speedups = [row.speedups for row in rows]
    return {kind: geometric_mean([each[kind] for each in speedups]) for kind in ("bulk", "proactive", "infinite")}


def bench_proactive(
    *, machine: str = "local", gpus: Gpus = "auto", scale: float | None = None, only: str | None = None,
    scaling: bool = False,
) -> ProactiveResults:  # fmt: skip
    """Run the microbenchmark and the applications, and check every result against a reference.

    Parameters
    ----------
    machine
        ``"local"``, or a described machine to simulate.
    gpus
        The GPUs to use, by default all; the first one makes the microbenchmark's data.
    scale
        The scale of the applications' data. On GPUs, copying these takes about a third of the time or more.
    only
        An application, or ``"microbenchmark"``.
    scaling
        Whether to run the applications on 2, 4, 8 … of the GPUs as well (fig. 10).

    Raises
    ------
    UsageError, DeviceError, OutOfMemoryError, CorruptDataError

    """
    names = [name for name in APPLICATIONS if only in (None, name)]
    if not names and only != "microbenchmark":
        raise UsageError(f"there is no '{only}' to run; there are microbenchmark, {', '.join(APPLICATIONS)}")
    if scale is not None:
        check_scale(scale)
    if not names and (scaling or scale is not None):
        raise UsageError("the microbenchmark has one size and is of all the GPUs; scales are of applications")
    with open_session(machine) as runtime:
        described = runtime.machine
        numbers = gpus_of(described, gpus)
        if len(numbers) < 2:
            raise UsageError("proactive transfers go from one GPU to others: name two at least")
        micro = _microbenchmark_of(runtime, numbers) if only in (None, "microbenchmark") else None
        goodput = described.store_goodput
        if micro is not None and not runtime.simulated:
            copies = micro.bulk_seconds - micro.kernel_seconds
            goodput = store_goodput(runtime, (len(numbers) - 1) * micro.bytes / copies * 1e-9)
        counts = [count for count in (2, 4, 8) if scaling and count < len(numbers)]
        apps = [row for name in names for row in _application(runtime, name, scale, numbers, counts)]
        return ProactiveResults(
            date=now(),
            commit=commit(),
            machine=described.name,
            simulated=runtime.simulated,
            gpus=len(numbers),
            scale=scale,
            store_goodput={str(size): share for size, share in goodput.items()},
            microbenchmark=micro,
            apps=apps,
            means={
                str(count): _means([row for row in apps if row.gpus == count])
                for count in sorted({row.gpus for row in apps})
            },
        )


def _microbenchmark_of(runtime: _core.Runtime, gpus: Sequence[int]) -> MicroResults:
    agents = ["inline", "polling", "dynamic", "copy_engine", "hardware" if runtime.simulated else "unified"]
    return microbenchmark(None if runtime.simulated else runtime, runtime.machine, gpus, agents)


def _application(
    runtime: _core.Runtime, name: str, scale: float | None, gpus: list[int], fewer: Sequence[int]
) -> list[TimedApp]:
    """An application's metrics on all GPUs and on fewer; its result is checked against the reference."""
    if runtime.simulated:
        size = scale_of(scale, simulated=True)
        app = application(name, size)
    else:
        app, size = benchmark_input(name, scale)
    app.own_size = scale is not None
    rows = [replace(measures(runtime, app, gpus[:count]), scale=size) for count in (*fewer, len(gpus))]
    error, _ = checked(runtime, app, gpus, DEFAULT_PLAN)
    if not error <= 1:
        raise CorruptDataError(f"{name} has a wrong result: do not trust this machine")
    return rows
