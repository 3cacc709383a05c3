"""The time of a sort or join on many nodes, which stage and resource bound it, and a comparison with one machine.

Each stage takes as long as a node's busiest resource in it: the node's share of the bytes divided by the rate of the
network, the storage, the spill disks or the processors. More nodes pay off where all of them read, write and spill.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from linkwise._core import Error, UsageError
from linkwise.machines.cluster_rates import ClusterRates, cluster_rates
from linkwise.planning.join import plan_join
from linkwise.planning.sort import key_type_named, plan_sort

_GB = 1e9
_SPLIT = 1 << 30  # bytes, but at most a tenth of memory (see ``cluster/sizing.py``)
_OF_MEMORY = 10
_PARTITION = 4  # a partition takes at most memory / _PARTITION
_IN_MEMORY = 3  # one machine spills if memory is less than this many times the input


@dataclass(frozen=True)
class Stage:
    """A stage: how long each resource of a node is busy, and how many bytes it moves on all nodes together."""

    name: str
    seconds: dict[str, float]
    gigabytes: dict[str, float] = field(default_factory=dict)

    @property
    def bound_by(self) -> str:
        """The resource that is busy longest."""
        return max(self.seconds, key=lambda name: self.seconds[name])

    @property
    def takes(self) -> float:
        """Seconds, those of the busiest resource."""
        return self.seconds[self.bound_by]


@dataclass(frozen=True)
class NodesPlan:
    """A number of nodes, and the time of each stage on them."""

    nodes: int
    stages: list[Stage]

    @property
    def seconds(self) -> float:
        """Seconds of all stages together."""
        return sum(stage.takes for stage in self.stages)

    @property
    def bound_by(self) -> str:
        """The stage that takes longest, and the resource that bounds it."""
        longest = max(self.stages, key=lambda stage: stage.takes)
        return f"{longest.name}, by the {longest.bound_by}"

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "nodes": self.nodes,
            "seconds": self.seconds,
            "bound_by": self.bound_by,
            "stages": [
                {
                    "name": s.name,
                    "seconds": s.takes,
                    "bound_by": s.bound_by,
                    "by_resource": s.seconds,
                    "gb": s.gigabytes,
                }
                for s in self.stages
            ],
        }


@dataclass(frozen=True)
class NodesReport:
    """The same work on 1, 2, 4, … nodes, and on one machine that spills."""

    machine: str
    gigabytes: float
    plans: list[NodesPlan]
    one_machine: NodesPlan
    one_machine_spills: bool

    @property
    def why(self) -> str:
        """One sentence that tells whether more nodes pay off."""
        times = self.one_machine.seconds / max(self.plans[-1].seconds, 1e-12)
        spills = "which spills" if self.one_machine_spills else "in whose memory it fits"
        if times <= 1:
            return f"One machine, {spills}, is faster: more nodes do not pay."
        return (
            f"{self.plans[-1].nodes} nodes are {times:.1f} × as fast as one machine, {spills}; what bounds them is "
            f"{self.plans[-1].bound_by}."
        )

    def as_dict(self) -> dict[str, Any]:
        """As ``linkwise plan sort --json`` prints it."""
        return {
            "machine": self.machine,
            "gb": self.gigabytes,
            "nodes": [plan.as_dict() for plan in self.plans],
            "one_machine": {**self.one_machine.as_dict(), "spills": self.one_machine_spills},
            "why": self.why,
        }


@dataclass(frozen=True)
class _Work:
    read: float  # bytes of all sides
    keys: float  # of these, the keys, which are read to be sampled
    written: float
    local: Callable[[float], float]
    """Seconds that a node's GPUs take for a share of the work; 0 without GPUs."""


def plan_sort_of_nodes(rows: float, key: str, row_bytes: int, machine: str) -> NodesReport:
    """Price ``linkwise.cluster.sort`` for files with this many rows of ``row_bytes`` each.

    ``machine`` is ``NAME:16``, a machine with the number of its nodes, or ``FILE.json:16``, with the rates that
    ``probe --cluster`` has measured. Raises ``UsageError``.
    """
    key_bytes = bytes_of_key(key)
    size = rows * max(row_bytes, key_bytes)

    def local(share: float) -> float:
        return _seconds_of(
            lambda name: plan_sort(_within(rows * share), key, value_bytes=8, machine=name).best, machine
        )

    return _report(machine, _Work(size, rows * key_bytes, size, local))


def plan_join_of_nodes(
    left: float, right: float, matches: float, key: str, row_bytes: int, machine: str, how: str = "inner"
) -> NodesReport:
    """Price a join of two sides with this many matching pairs; a result row has the bytes of both, with one key.

    If a join keeps unmatched rows, its result is assumed to have at least as many rows as a kept side.
    """
    key_bytes = bytes_of_key(key)
    row_bytes = max(row_bytes, key_bytes)

    def local(share: float) -> float:
        sides = _within(left * share), _within(right * share)
        return _seconds_of(lambda name: plan_join(*sides, key, machine=name).best, machine)

    kept = {"left": left, "right": right, "full": max(left, right)}.get(how, 0)
    rows = min(matches, left) if how in ("semi", "anti") else max(matches, kept)
    of_row = row_bytes if how in ("semi", "anti") else 2 * row_bytes - key_bytes
    both = (left + right) * row_bytes
    return _report(machine, _Work(both, (left + right) * key_bytes, rows * of_row, local))


def bytes_of_key(key: str) -> int:
    """Bytes of a key whose type is named as u32. Raises ``UsageError``."""
    return int("".join(letter for letter in key_type_named(key).name if letter.isdigit())) // 8


def _within(rows: float) -> int:
    return int(min(rows, 1e12))


def _seconds_of(plan: Callable[[str], Any], machine: str) -> float:
    """Seconds of a plan for the GPUs of one node; 0 if it has none, or no plan is possible."""
    name = machine.rpartition(":")[0]
    try:
        return float(plan(name).seconds)
    except Error:  # no GPUs, or too many rows at once: the processors' time is priced in any case
        return 0.0


def nodes_named(machine: str) -> tuple[str, int] | None:
    """The machine and the number of nodes after the colon; ``None`` if there is no number. Raises ``UsageError``."""
    name, colon, count = machine.rpartition(":")
    if not colon or not count.isdecimal():
        return None
    if not 1 <= int(count) <= 10_000:
        raise UsageError(f"'{machine}': a cluster has from 1 to 10000 nodes")
    return name, int(count)


def _report(machine: str, work: _Work) -> NodesReport:
    named = nodes_named(machine)
    if named is None:
        raise UsageError(f"'{machine}': name how many nodes there are, as NAME:16")
    name, most = named
    rates = cluster_rates(name)
    counts = sorted({*(1 << power for power in range(most.bit_length())), most})
    plans = [NodesPlan(count, _stages(work, rates, count)) for count in counts]
    alone, spills = _one_machine(work, rates)
    return NodesReport(machine, work.read / _GB, plans, NodesPlan(1, alone), spills)


def _stages(work: _Work, rates: ClusterRates, nodes: int) -> list[Stage]:
    memory, store = rates.memory_gib * 2**30, rates.store_gib * 2**30
    share, out = work.read / nodes, work.written / nodes
    spilled = max(share - store, 0.0)
    split = min(_SPLIT, memory / _OF_MEMORY)
    splits = math.ceil(share / split)
    partitions = math.ceil(share * _PARTITION / memory)
    sent = share * (nodes - 1) / nodes
    local = work.local(1 / nodes)

    def calls(count: int) -> float:
        return count * rates.task_seconds

    def stage(name: str, count: int, seconds: dict[str, float], moved: dict[str, float]) -> Stage:
        busy = {resource: value + calls(count) for resource, value in seconds.items() if value}
        return Stage(name, busy or {"engine": calls(count)}, {r: b * nodes / _GB for r, b in moved.items() if b})

    def by(size: float, gb_per_s: float) -> float:
        return size / (gb_per_s * _GB)

    keys = work.keys / nodes
    return [
        Stage("start", {"engine": rates.start_seconds}),
        stage("sample", splits, {"storage": by(keys, rates.storage_read)}, {"storage": keys}),
        stage(
            "spread", splits,
            {
                "storage": by(share, rates.storage_read), "processors": by(share, rates.spread), "GPUs": local,
                "spill disks": by(spilled, rates.spill_write),
            },
            {"storage": share, "spill disks": spilled},
        ),
        stage(
            "make", partitions,
            {
                "network": by(sent, rates.network), "spill disks": by(spilled, rates.spill_read), "GPUs": local,
                "processors": by(max(share, out), rates.make), "storage": by(out, rates.storage_write),
            },
            {"network": sent, "spill disks": spilled, "storage": out},
        ),
    ]  # fmt: skip


def _one_machine(work: _Work, rates: ClusterRates) -> tuple[list[Stage], bool]:
    """The stages on one machine without the engine, and whether it spills runs and merges them back."""
    spills = work.read * _IN_MEMORY > rates.memory_gib * 2**30
    runs = work.read if spills else 0.0
    total = work.read / _GB
    first = {
        "storage": total / rates.storage_read, "processors": total / rates.spread,
        "spill disk": runs / _GB / rates.spill_write, "GPUs": work.local(1.0),
    }  # fmt: skip
    second = {
        "storage": work.written / _GB / rates.storage_write, "processors": max(total, work.written / _GB) / rates.make,
        "spill disk": runs / _GB / rates.spill_read,
    }  # fmt: skip
    return [Stage("runs" if spills else "sort", first), Stage("merge" if spills else "write", second)], spills
