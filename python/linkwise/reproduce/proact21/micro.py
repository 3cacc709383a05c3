"""Proactive data movement (PROACT), ISCA 2021: figure 2, what stores carry, and 4 and 6, the microbenchmark (§IV-C)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from linkwise._core import AgentPlan, Machine
from linkwise.bench.proactive import SYNTHETIC_BYTES, Micro, store_goodput
from linkwise.machines.catalog import load_machine
from linkwise.reproduce.experiment import Lab, Row
from linkwise.runtime.session import open_session

AGENT_COSTS = "the machine's costs of agents are from this"

_GENERATIONS = ("kepler4", "pascal4", "volta4")
_CHUNKS = tuple(4096 << step for step in range(0, 17, 2))  # 4 KiB to 256 MiB


def machines(lab: Lab, *names: str) -> list[Machine]:
    """The paper's machines, or the one that stands in for them all."""
    return [lab.instead] if lab.instead is not None else [load_machine(name) for name in names or _GENERATIONS]


def first_gpus(machine: Machine, most: int = 4) -> list[int]:
    """As many GPUs as the paper's machines have, or all if there are fewer."""
    return list(range(min(most, machine.num_gpus)))


def too_few() -> list[Row]:
    """The row for a machine with one GPU, on which these figures cannot be measured."""
    return [Row("proactive transfers", "×", None, note="they take two GPUs")]


def _fig2(lab: Lab) -> list[Row]:
    if lab.measures:
        return _measured_goodput(lab)
    rows = []
    stated = {("kepler4", 4): 0.14, ("volta4", 4): 0.08}
    for machine in machines(lab, "kepler4", "volta4"):
        for size in (4, 8, 16, 32, 64, 128, 256):
            paper = stated.get((machine.name, size)) if lab.instead is None else None
            rows.append(
                Row(f"{machine.name}, stores of {size} bytes", "", machine.goodput_of_stores(size), paper,
                    fitted="the machine's goodput of stores says so" if paper else "")
            )  # fmt: skip
    return rows


def _measured_goodput(lab: Lab) -> list[Row]:
    """Measured goodput of stores by size, as a share of a copy's rate."""
    machine = lab.machine("volta4")
    if machine.num_gpus < 2:
        return too_few()
    link = lab.peers(machine, [(0, 1)], size=1e9)
    with open_session("local") as runtime:
        return [Row(f"stores of {size} bytes", "", share) for size, share in store_goodput(runtime, link).items()]


def _in_all(gpus: Sequence[int]) -> int:
    """Bytes for each peer, where all get 256 MiB together (§IV-C: the total amount of data is fixed)."""
    return SYNTHETIC_BYTES // max(len(gpus) - 1, 1) // 4096 * 4096


@contextmanager
def _micro(lab: Lab, machine: Machine) -> Iterator[Micro]:
    gpus = first_gpus(machine)
    if not lab.measures:
        yield Micro.tuned(None, machine, gpus, _in_all(gpus))
        return
    with open_session("local") as runtime:
        yield Micro.tuned(runtime, machine, gpus, _in_all(gpus))


def _fig4(lab: Lab) -> list[Row]:
    machine = lab.machine("kepler4")
    if machine.num_gpus < 2:
        return too_few()
    all_threads, chunks = [32, 64, 128, 256, 1024], _CHUNKS[:-2]
    if lab.measures:
        all_threads, chunks = [32, 256, 1024, 4096], _CHUNKS[2:-2]
    with _micro(lab, machine) as micro:
        bulk = micro.run(AgentPlan("bulk"))
        return [
            Row(f"{threads} threads, {chunk >> 10} KiB", "×", bulk / micro.run(AgentPlan("dynamic", chunk, threads)))
            for threads in all_threads for chunk in chunks
        ]  # fmt: skip


def _warps(threads: int) -> int:
    """The number of threads, rounded up to whole warps."""
    return -(-threads // 32) * 32


def _fig6(lab: Lab) -> list[Row]:
    stated = {("kepler4", "dynamic"): 1.6, ("pascal4", "dynamic"): 1.8, ("pascal4", "polling"): 1.9,
              ("volta4", "dynamic"): 1.5}  # fmt: skip
    rows = []
    for machine in machines(lab):
        name = machine.name
        if machine.num_gpus < 2:
            return too_few()
        threads = _warps(machine.agents.saturating_threads) if not lab.measures else 4096  # more are no faster
        with _micro(lab, machine) as micro:
            bulk = micro.run(AgentPlan("bulk"))
            for agent in ("polling", "dynamic"):
                by_chunk = {chunk: bulk / micro.run(AgentPlan(agent, chunk, threads)) for chunk in _CHUNKS}
                paper = stated.get((name, agent))
                rows.append(Row(f"{name}, {agent}, best", "×", max(by_chunk.values()), paper,
                                fitted=AGENT_COSTS if paper else ""))  # fmt: skip
                rows += [Row(f"{name}, {agent}, {chunk >> 10} KiB", "×", gain) for chunk, gain in by_chunk.items()]
    return rows


MICROBENCHMARKS: dict[str, tuple[str, Callable[[Lab], list[Row]]]] = {
    "fig2": ("goodput by the size of stores", _fig2),
    "fig4": ("threads and granularity of transfers on Kepler", _fig4),
    "fig6": ("the microbenchmark by agent and granularity", _fig6),
}
