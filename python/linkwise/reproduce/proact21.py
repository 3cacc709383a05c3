"""Proactive data movement (PROACT), ISCA 2021: figures 2, 4 and 6 to 10, and table II.

The applications are ours, of the kinds that the paper has; it does not state their sizes. Ours are priced at sizes at
which copying after the kernel gains about what the paper says of it, the GPUs' parts are so uneven that links without
limits gain what it says of those, and what agents cost on each generation is fitted to figure 6 and table II. So the
rest (the means of what proactive transfers gain, shares, overlap, their scaling) is what follows.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from linkwise._core import AgentPlan, Machine
from linkwise.apps.base import Application
from linkwise.apps.registry import APPLICATIONS, application
from linkwise.apps.timing import simulated_seconds
from linkwise.apps.tuning import tune
from linkwise.bench.proactive import Micro, geometric_mean, measures
from linkwise.machines.catalog import load_machine
from linkwise.reproduce.experiment import Experiment, Lab, Row
from linkwise.runtime.session import estimating_runtime

_GENERATIONS = ("kepler4", "pascal4", "volta4")
_PAPERS_AGENTS = ("inline", "polling", "dynamic")
_SMALL = 1e-5  # what is priced needs no data
_ELSEWHERE = "'linkwise bench proactive' measures them"

_TABLE_2 = {
    "kepler4": {"xray_ct": "dynamic", "jacobi": "inline", "pagerank": "dynamic", "sssp": "dynamic", "als": "dynamic"},
    "pascal4": {"xray_ct": "inline", "jacobi": "inline", "pagerank": "polling", "sssp": "polling", "als": "polling"},
    "volta4": {"xray_ct": "inline", "jacobi": "polling", "pagerank": "polling", "sssp": "polling", "als": "polling"},
}


def _apps() -> list[Application]:
    return [application(name, _SMALL) for name in APPLICATIONS]


def _machines(lab: Lab, *names: str) -> list[Machine]:
    """The paper's, or the one that stands in for them all."""
    return [lab.instead] if lab.instead is not None else [load_machine(name) for name in names or _GENERATIONS]


def _gpus(machine: Machine, most: int = 4) -> list[int]:
    return list(range(min(most, machine.num_gpus)))


def _fig2(lab: Lab) -> list[Row]:
    rows = []
    stated = {("kepler4", 4): 0.14, ("volta4", 4): 0.08}
    for machine in _machines(lab, "kepler4", "volta4"):
        for size in (4, 8, 16, 32, 64, 128, 256):
            note = "high from 128 bytes on" if size == 128 else ""
            paper = stated.get((machine.name, size))
            rows.append(
                Row(f"{machine.name}, stores of {size} bytes", "", machine.goodput_of_stores(size), paper, note)
            )
    return rows


def _speedup(micro: Micro, bulk: float, agent: str, chunk: int, threads: int) -> float:
    return bulk / micro.run(AgentPlan(agent, chunk, threads))


def _fig4(lab: Lab) -> list[Row]:
    if lab.measures:
        return [Row("threads × granularity", "×", None, None, _ELSEWHERE)]
    machine = lab.machine("kepler4")
    micro = Micro.tuned(None, machine, _gpus(machine))
    bulk = micro.run(AgentPlan("bulk"))
    return [
        Row(
            f"{threads} threads, {chunk >> 10} KiB", "×", _speedup(micro, bulk, "dynamic", chunk, threads), None,
            "best: 64 KiB to 1 MiB, more than 128 threads" if (threads, chunk) == (256, 65536) else "",
        )
        for threads in (32, 64, 128, 256, 1024)
        for chunk in (4096, 16384, 65536, 1 << 18, 1 << 20, 1 << 22, 1 << 24)
    ]  # fmt: skip


def _fig6(lab: Lab) -> list[Row]:
    if lab.measures:
        return [Row("the microbenchmark", "×", None, None, _ELSEWHERE)]
    stated = {("kepler4", "dynamic"): 1.6, ("pascal4", "dynamic"): 1.8, ("pascal4", "polling"): 1.9,
              ("volta4", "dynamic"): 1.5}  # fmt: skip
    said = {("kepler4", "polling"): "less than copying after the kernel", ("volta4", "polling"): "more than dynamic"}
    rows = []
    for machine in _machines(lab):
        name = machine.name
        micro = Micro.tuned(None, machine, _gpus(machine))
        bulk = micro.run(AgentPlan("bulk"))
        for agent in ("polling", "dynamic"):
            threads = machine.agents.saturating_threads  # more of them are no faster
            by_chunk = {4096 << step: _speedup(micro, bulk, agent, 4096 << step, threads) for step in range(0, 17, 2)}
            key = name, agent
            rows.append(Row(f"{name}, {agent}, best", "×", max(by_chunk.values()), stated.get(key), said.get(key, "")))
            rows += [Row(f"{name}, {agent}, {chunk >> 10} KiB", "×", gain) for chunk, gain in by_chunk.items()]
    return rows


def _speedups(machine: Machine, app: Application, gpus: Sequence[int]) -> dict[str, float]:
    """Over one GPU: of copies one after the other, of stores, of the best agent, the best way, and no limits."""
    single = simulated_seconds(machine, app, gpus[:1], AgentPlan("bulk"))
    tried = tune(lambda plan: simulated_seconds(machine, app, gpus, plan), _PAPERS_AGENTS).tried
    times = {name: simulated_seconds(machine, app, gpus, AgentPlan(name)) for name in ("memcpy", "inline", "infinite")}
    times["decoupled"] = next(seconds for plan, seconds in tried if plan.agent.name != "inline")
    times["proact"] = tried[0][1]
    return {name: single / seconds for name, seconds in times.items()}


def _fig7(lab: Lab) -> list[Row]:
    if lab.measures:
        return [Row("speed-ups", "×", None, None, _ELSEWHERE)]
    rows = []
    all_of: dict[str, list[float]] = {"memcpy": [], "proact": [], "infinite": []}
    for machine in _machines(lab):
        for app in _apps():
            found = _speedups(machine, app, _gpus(machine))
            rows += [Row(f"{machine.name}, {app.name}, {name}", "×", gain) for name, gain in found.items()]
            for name, gains in all_of.items():
                gains.append(found[name])
    means = {name: geometric_mean(gains) for name, gains in all_of.items()}
    papers = lab.instead is None
    for name, stated in (("infinite", 3.6), ("proact", 3.0), ("memcpy", 2.1)):
        rows.append(Row(f"mean, {name}", "×", means[name], stated if papers else None))
    rows.append(Row("share of the opportunity", "", means["proact"] / means["infinite"], 0.83 if papers else None))
    return rows


def _fig8(lab: Lab) -> list[Row]:
    if lab.measures:
        return [Row("tracking", "", None, None, _ELSEWHERE)]
    rows = []
    for machine in _machines(lab):
        found = [measures(estimating_runtime(machine), app, _gpus(machine), _PAPERS_AGENTS) for app in _apps()]
        rows += [Row(f"{machine.name}, {row.app}", "", row.tracking) for row in found]
        mean = statistics.fmean(row.tracking for row in found)
        rows.append(Row(f"{machine.name}, mean", "", mean, None, "10 to 15 % on each platform"))
    return rows


def _fig9(lab: Lab) -> list[Row]:
    if lab.measures:
        return [Row("overlap", "", None, None, _ELSEWHERE)]
    rows = []
    for machine in _machines(lab):
        for app in _apps():
            found = measures(estimating_runtime(machine), app, _gpus(machine), _PAPERS_AGENTS)
            rows.append(Row(f"{machine.name}, {app.name}", "", found.overlap, None, "0.75 at least"))
    return rows


def _fig10(lab: Lab) -> list[Row]:
    if lab.measures:
        return [Row("strong scaling", "×", None, None, _ELSEWHERE)]
    machine = lab.machine("volta16")
    rows = []
    # Means as the paper says "average" here, and "geometric mean" of fig. 7.
    for gpus, share, over_memcpy, stated in (
        (2, None, None, None),
        (4, 0.90, 1.2, None),
        (8, 0.87, 2.2, None),
        (16, 0.77, 5.3, 11.0),
    ):
        if gpus > machine.num_gpus:
            rows.append(Row(f"{gpus} GPUs", "×", None, stated, f"{machine.name} has {machine.num_gpus}"))
            continue
        found = [_speedups(machine, app, range(gpus)) for app in _apps()]
        means = {name: statistics.fmean(each[name] for each in found) for name in ("memcpy", "proact", "infinite")}
        rows += [
            Row(f"{gpus} GPUs, proact", "×", means["proact"], stated),
            Row(f"{gpus} GPUs, memcpy", "×", means["memcpy"]),
            Row(f"{gpus} GPUs, as fast as memcpy", "×", means["proact"] / means["memcpy"], over_memcpy),
            Row(f"{gpus} GPUs, share of the opportunity", "", means["proact"] / means["infinite"], share),
        ]
    return rows


def _table2(lab: Lab) -> list[Row]:
    if lab.measures:
        return [Row("best plans", "", None, None, "'linkwise tune' finds them")]
    rows = []
    for machine in _machines(lab):
        stated = _TABLE_2.get(machine.name, {})
        for app in _apps():
            run = lambda plan, app=app, machine=machine: simulated_seconds(machine, app, _gpus(machine), plan)  # noqa: E731
            best = tune(run, _PAPERS_AGENTS).best
            papers = stated.get(app.name)
            same = None if papers is None else float(best.agent.name == papers)
            note = "" if papers is None else f"paper: {papers}"
            rows.append(Row(f"{machine.name}, {app.name}: {best}", "the same agent", same, None, note))
    return rows


PROACT21 = (
    Experiment("proact21-fig2", "goodput by the size of stores", _fig2),
    Experiment("proact21-fig4", "threads and granularity of transfers on Kepler", _fig4),
    Experiment("proact21-fig6", "the microbenchmark by agent and granularity", _fig6),
    Experiment("proact21-fig7", "applications on four GPUs by method", _fig7),
    Experiment("proact21-fig8", "what tracking costs", _fig8),
    Experiment("proact21-fig9", "how much of the transfers is hidden", _fig9),
    Experiment("proact21-fig10", "strong scaling on sixteen GPUs", _fig10),
    Experiment("proact21-table2", "the best agent of each application", _table2),
)
