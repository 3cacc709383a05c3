"""Proactive data movement (PROACT), ISCA 2021: figures 7 to 10 and table II, applications.

The applications are ours, of the paper's kinds. It names the data of three (Wikipedia and HV15R); Jacobi and X-ray,
whose sizes it does not state, are priced at sizes for which copying after the kernel gains about what it states. The
GPUs' parts are made so uneven that links without limits gain what it states for them, and agents' costs on each
generation are fitted to figure 6 and table II. The rest (mean gains of proactive transfers, shares, overlap, their
scaling) follows from that.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import lru_cache

from linkwise._core import AgentPlan, Machine
from linkwise.apps.base import Application
from linkwise.apps.registry import APPLICATIONS, application
from linkwise.apps.timing import simulated_seconds
from linkwise.apps.tuning import tune
from linkwise.bench.proactive import TimedApp, benchmark_input, geometric_mean, measures
from linkwise.reproduce.experiment import Experiment, Lab, Row
from linkwise.reproduce.proact21.micro import AGENT_COSTS, MICROBENCHMARKS, first_gpus, machines, too_few
from linkwise.reproduce.proact21.statements import STATEMENTS
from linkwise.runtime.session import estimating_runtime, open_session

_PAPERS_AGENTS = ("inline", "polling", "dynamic")
_SMALL = 1e-5  # what is priced needs no data
_UNEVEN = "how uneven the GPUs' parts are is from this"
_AS_LARGE = "the applications are as large as makes copies cost this"
_START_UP = "what it takes to start a copy on sixteen GPUs is from this"
_NO_UNIFIED = "described machines have no unified memory; --machine local measures it"

_INLINE = ("inline", 0, 0)
_D16, _D1M, _D128 = ("dynamic", 16 << 10, 256), ("polling", 1 << 20, 4096), ("polling", 128 << 10, 2048)
_TABLE_2 = {  # agent, bytes of a chunk, threads
    "kepler4": {"xray_ct": _D16, "jacobi": _INLINE, "pagerank": _D16, "sssp": _D16, "als": _D16},
    "pascal4": {"xray_ct": _INLINE, "jacobi": _INLINE, "pagerank": _D1M, "sssp": _D1M, "als": _D1M},
    "volta4": {"xray_ct": _INLINE, "jacobi": _D128, "pagerank": _D128, "sssp": _D128, "als": _D128},
}


def _apps() -> list[Application]:
    return [application(name, _SMALL) for name in APPLICATIONS]


@lru_cache(maxsize=8)
def _measured_apps(gpus: int) -> list[TimedApp]:
    """The applications measured on this machine, at the benchmark's sizes for GPUs."""
    with open_session("local") as runtime:
        rows = []
        for name in APPLICATIONS:
            app, _ = benchmark_input(name, None)
            rows.append(measures(runtime, app, list(range(gpus)), _PAPERS_AGENTS))
        return rows


def _speedups(machine: Machine, app: Application, gpus: Sequence[int]) -> dict[str, float]:
    """Over one GPU: by copies in sequence, inline stores, the best decoupled agent, the best of all, ideal links."""
    single = simulated_seconds(machine, app, gpus[:1], AgentPlan("bulk"))
    tried = tune(lambda plan: simulated_seconds(machine, app, gpus, plan), _PAPERS_AGENTS).tried
    times = {name: simulated_seconds(machine, app, gpus, AgentPlan(name)) for name in ("memcpy", "inline", "infinite")}
    times["decoupled"] = next(seconds for plan, seconds in tried if plan.agent.name != "inline")
    times["proact"] = tried[0][1]
    return {name: single / seconds for name, seconds in times.items()}


def _fig7(lab: Lab) -> list[Row]:
    rows: list[Row] = []
    if lab.measures:
        machine = lab.machine("volta4")
        if machine.num_gpus < 2:
            return too_few()
        found = _measured_apps(len(first_gpus(machine)))
        for row in found:
            rows += [Row(f"{row.app}, {name}", "×", gain) for name, gain in row.speedups.items()]
        for name in ("bulk", "proactive", "infinite", "unified"):
            rows.append(Row(f"mean, {name}", "×", geometric_mean([row.speedups[name] for row in found])))
        return rows
    all_of: dict[str, list[float]] = {"memcpy": [], "proact": [], "infinite": []}
    for machine in machines(lab):
        gains: dict[str, list[float]] = {name: [] for name in all_of}
        for app in _apps():
            times = _speedups(machine, app, first_gpus(machine))
            rows += [Row(f"{machine.name}, {app.name}, {name}", "×", gain) for name, gain in times.items()]
            rows.append(Row(f"{machine.name}, {app.name}, unified memory", "×", None, note=_NO_UNIFIED))
            for name in all_of:
                gains[name].append(times[name])
        for name, each in gains.items():
            rows.append(Row(f"{machine.name}, mean, {name}", "×", geometric_mean(each)))
            all_of[name] += each
    means = {name: geometric_mean(gains) for name, gains in all_of.items()}
    papers = lab.instead is None
    for name, stated, fitted in (("infinite", 3.6, _UNEVEN), ("proact", 3.0, AGENT_COSTS), ("memcpy", 2.1, _AS_LARGE)):
        rows.append(Row(f"mean, {name}", "×", means[name], stated if papers else None, fitted=fitted if papers else ""))
    share = means["proact"] / means["infinite"]
    rows.append(
        Row("share of the opportunity", "", share, 0.83 if papers else None, fitted=AGENT_COSTS if papers else "")
    )
    return rows


def _of_apps(lab: Lab, value: Callable[[TimedApp], float], what: str) -> list[Row]:
    """A measure of each application on each machine, and its mean."""
    rows = []
    for machine in machines(lab) if not lab.measures else [lab.machine("volta4")]:
        if machine.num_gpus < 2:
            return too_few()
        if lab.measures:
            found = _measured_apps(len(first_gpus(machine)))
        else:
            found = [measures(estimating_runtime(machine), app, first_gpus(machine), _PAPERS_AGENTS) for app in _apps()]
        rows += [Row(f"{machine.name}, {row.app}", "", value(row)) for row in found]
        rows.append(Row(f"{machine.name}, mean {what}", "", statistics.fmean(value(row) for row in found)))
    return rows


def _fig8(lab: Lab) -> list[Row]:
    return _of_apps(lab, lambda row: row.tracking, "tracking")


def _fig9(lab: Lab) -> list[Row]:
    return _of_apps(lab, lambda row: row.overlap, "overlap")


def _scaled(machine: Machine, gpus: int) -> dict[str, float]:
    """Arithmetic means over the applications: the paper says "average" here, but "geometric mean" for fig. 7."""
    found = [_speedups(machine, app, range(gpus)) for app in _apps()]
    return {name: statistics.fmean(each[name] for each in found) for name in ("memcpy", "proact", "infinite")}


def _fig10(lab: Lab) -> list[Row]:
    if lab.measures:
        return _measured_scaling(lab)
    rows = []
    stated: dict[int, tuple[float | None, float | None, float | None]] = {
        4: (0.90, 1.2, None), 8: (0.87, 2.2, None), 16: (0.77, 5.3, 11.0),
    }  # fmt: skip
    for name, counts in (("kepler4", (2, 3, 4)), ("pascal4", (2, 3, 4)), ("volta16", (2, 4, 5, 6, 8, 16))):
        machine = lab.machine(name)
        papers = name == "volta16" and lab.instead is None
        for gpus in counts:
            share, over_memcpy, speedup = stated.get(gpus, (None, None, None)) if papers else (None, None, None)
            what = f"{machine.name}, {gpus} GPUs"
            if gpus > machine.num_gpus:
                rows.append(Row(what, "×", None, speedup, f"{machine.name} has {machine.num_gpus}"))
                continue
            means = _scaled(machine, gpus)
            rows += [
                Row(f"{what}, proact", "×", means["proact"], speedup),
                Row(f"{what}, memcpy", "×", means["memcpy"]),
                Row(f"{what}, as fast as memcpy", "×", means["proact"] / means["memcpy"], over_memcpy,
                    fitted=_START_UP if over_memcpy and gpus == machine.num_gpus else ""),
                Row(f"{what}, share of the opportunity", "", means["proact"] / means["infinite"], share),
            ]  # fmt: skip
        if lab.instead is not None:
            break
    return rows


def _measured_scaling(lab: Lab) -> list[Row]:
    machine = lab.machine("volta16")
    rows = [] if machine.num_gpus > 1 else too_few()
    for gpus in (count for count in (2, 4, 8) if count <= machine.num_gpus):
        found = _measured_apps(gpus)
        for name in ("bulk", "proactive", "infinite"):
            rows.append(Row(f"{gpus} GPUs, {name}", "×", statistics.fmean(row.speedups[name] for row in found)))
        rows.append(Row(f"{gpus} GPUs, share of the opportunity", "",
                        statistics.fmean(row.share_of_opportunity for row in found)))  # fmt: skip
    return rows


def _table2(lab: Lab) -> list[Row]:
    if lab.measures:
        machine = lab.machine("volta4")
        if machine.num_gpus < 2:
            return too_few()
        return [Row(f"{row.app}: {row.plan}", "×", row.speedups["proactive"])
                for row in _measured_apps(len(first_gpus(machine)))]  # fmt: skip
    rows = []
    for machine in machines(lab):
        stated = _TABLE_2.get(machine.name, {})
        for app in _apps():
            run = lambda plan, app=app, machine=machine: simulated_seconds(machine, app, first_gpus(machine), plan)  # noqa: E731
            best = tune(run, _PAPERS_AGENTS).best
            papers = stated.get(app.name)
            what = f"{machine.name}, {app.name}: {best}"
            if papers is None:
                rows.append(Row(what, "", None, note="the paper has no such machine"))
                continue
            agent, chunk, threads = papers
            rows.append(Row(what, "the same agent", float(best.agent.name == agent), None, f"paper: {agent}"))
            if chunk and best.agent.name == agent:
                rows.append(Row(f"{what}, its granularity", "× the paper's", best.chunk_bytes / chunk, None))
                rows.append(Row(f"{what}, its threads", "× the paper's", best.threads / threads, None))
    return rows


_RUNS: dict[str, tuple[str, Callable[[Lab], list[Row]]]] = {
    **MICROBENCHMARKS,
    "fig7": ("applications on four GPUs by method", _fig7),
    "fig8": ("what tracking costs", _fig8),
    "fig9": ("how much of the transfers is hidden", _fig9),
    "fig10": ("strong scaling on up to sixteen GPUs", _fig10),
    "table2": ("the best agent of each application", _table2),
}

PROACT21 = tuple(
    Experiment(f"proact21-{figure}", title, run, STATEMENTS.get(figure, ())) for figure, (title, run) in _RUNS.items()
)
