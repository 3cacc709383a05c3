"""Prices of steps on a described machine: kernels by bytes and FLOPs, messages on its links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from linkwise import _core
from linkwise._core import Machine, UsageError
from linkwise.machines.network import MessageCosts
from linkwise.machines.variants import node_names
from linkwise.messages import schedules
from linkwise.messages.numpy_ranks import Step
from linkwise.messages.schedules import COLLECTIVES, HOST, Hop, Rounds, cuts_of, even_cuts
from linkwise.messages.ways import WAYS, Way
from linkwise.runtime.session import estimating_runtime

_LAUNCH_US = 10  # of NCCL's kernels: tartan20 §3.2.2, 18 µs on two GPUs that reach each other in 8
_ONE_RING_BELOW = 1 << 16  # bytes: smaller messages are not split over several rings
_KINDS = {(True, False): "DtoH", (False, True): "HtoD", (False, False): "network"}


@dataclass(frozen=True)
class Work:
    """A kernel's work on each GPU; its time is the longer of those for its bytes and for its FLOPs."""

    bytes: float
    """Read and written."""
    flops: float = 0
    double: bool = True
    """Whether the FLOPs are of double precision."""


Prices = Mapping[str, Work | float]
"""By label: the work of computations; the bytes of messages, as in ``Step.size``."""


@dataclass(frozen=True)
class StepTime:
    """What one step takes."""

    seconds: float
    by_kind: Mapping[str, float]
    """Busy seconds: ``HtoD``, ``DtoH``, ``peer``, ``network``, ``host`` (the master's combining), ``compute``."""
    entries: Sequence[_core.TimelineEntry]


@dataclass
class RunTime:
    """The time of all steps in sequence; ranks wait for each other at each message."""

    seconds: float = 0
    by_kind: dict[str, float] = field(default_factory=dict)
    entries: list[_core.TimelineEntry] = field(default_factory=list)

    def add(self, step: StepTime) -> None:
        """Append a step."""
        shift = round(self.seconds * 1e12)
        self.entries += [_shifted(entry, shift) for entry in step.entries]
        self.seconds += step.seconds
        for kind, seconds in step.by_kind.items():
            self.by_kind[kind] = self.by_kind.get(kind, 0) + seconds


def _shifted(entry: _core.TimelineEntry, by_ps: int) -> _core.TimelineEntry:
    what = entry.__getstate__()
    start, end = what[-2:]
    moved = _core.TimelineEntry.__new__(_core.TimelineEntry)
    moved.__setstate__((*what[:-2], start + by_ps, end + by_ps))
    return moved


class PricedRanks:
    """Ranks on the GPUs of a described machine, whose messages take a way. Equal steps are simulated once."""

    def __init__(
        self,
        machine: Machine,
        gpus: Sequence[int],
        way: Way,
        costs: MessageCosts | None = None,
        *,
        master: bool = False,
    ) -> None:
        self.machine, self.gpus, self.way = machine, list(gpus), way
        self.costs = costs or MessageCosts()
        self._node_of_gpu, memories = (
            node_names(machine, kind) for kind in (_core.NodeKind.gpu, _core.NodeKind.memory)
        )
        self._node = [self._node_of_gpu[gpu] for gpu in self.gpus]
        self._memory = [memories.index(name) for name in self._node]
        """By rank: the host memory that its messages are staged in, the first of its node."""
        self.has_master = master and way.uses_host and len(set(self._node)) == 1
        self._rings = _core.rings_of(machine, self.gpus) if len(set(self.gpus)) > 1 else None
        self._ring = sorted(range(len(self.gpus)), key=lambda rank: self._node[rank])
        """All ranks, those of a node next to each other."""
        self._known: dict[tuple[Step, Work | float], StepTime] = {}

    def run_time(self, steps: Iterable[Step], prices: Prices) -> RunTime:
        """The time of all steps. Raises ``UsageError`` if one has no price."""
        found = RunTime()
        for step in steps:
            if step.label not in prices:
                raise UsageError(f"'{step.label}' has no price")
            found.add(self.step_time(step, prices[step.label]))
        return found

    def step_time(self, step: Step, price: Work | float) -> StepTime:
        """The time of one step, from a kernel's ``Work`` or a message's bytes."""
        if (step, price) not in self._known:
            if isinstance(price, Work):
                self._known[step, price] = self._computed(step.label, price)
            else:
                ways = self._ways_of(step)
                self._known[step, price] = min(
                    (self._moved(step, float(price), way) for way in ways), key=lambda found: found.seconds
                )
        return self._known[step, price]

    def _ways_of(self, step: Step) -> list[Way]:
        """The candidate ways; between nodes, NCCL sends from GPU to GPU or through pinned memory."""
        crosses = self.way.name == "nccl" and len(set(self._node)) > 1 and step.kind not in ("collect", "hand_out")
        return [WAYS["rdma"], WAYS["host-pinned-gpudirect"]] if crosses else [self.way]

    def _computed(self, label: str, work: Work) -> StepTime:
        gpu = self.machine.gpu
        rate = gpu.rates.get("double flops" if work.double else "single flops")
        nanoseconds = work.bytes / (2 * gpu.local_copy_gb_per_s)  # a copy reads and writes
        if rate is not None:
            nanoseconds = max(nanoseconds, work.flops * rate.ps_per_record * 1e-3)
        microseconds = self.machine.copy_startup.local_us + nanoseconds * 1e-3
        runtime = estimating_runtime(self.machine)
        runtime.set_phase("compute")
        for gpu_number in self.gpus:
            runtime.price_work(runtime.stream(_core.Place.gpu(gpu_number), "compute"), label, microseconds)
        return self._taken(runtime, "compute")

    def _moved(self, step: Step, size: float, way: Way) -> StepTime:
        runtime = estimating_runtime(self.machine)
        runtime.set_phase(step.label)
        _Messages(runtime, self, way, step.label).send(step, size)
        return self._taken(runtime, None)

    def _taken(self, runtime: _core.VirtualRuntime, kind: str | None) -> StepTime:
        """The time of an estimate's operations: in all, and busy by kind."""
        entries = runtime.timeline()
        busy: dict[str, list[tuple[int, int]]] = {}
        for entry in entries:
            busy.setdefault(kind or self._kind_of(entry), []).append((entry.start_ps, entry.end_ps))
        end = max((entry.end_ps for entry in entries), default=0)
        return StepTime(end * 1e-12, {name: _covered(spans) * 1e-12 for name, spans in busy.items()}, entries)

    def _kind_of(self, entry: _core.TimelineEntry) -> str:
        if entry.is_copy and entry.source == entry.target:
            return "peer"  # between ranks that share a GPU
        if not entry.passages:
            return "host"  # the master combines
        ends = entry.passages[0]
        if ends.source.is_gpu and ends.target.is_gpu:
            here, there = (self._node_of_gpu[end.index] for end in (ends.source, ends.target))
            return "peer" if here == there else "network"
        return _KINDS[ends.source.is_gpu, ends.target.is_gpu]

    # ---- what messages need to know

    def hops_of(self, step: Step, size: float, way: Way) -> list[Rounds]:
        """The rounds of a step with this many bytes, for each ring."""
        whole, n = round(size), len(self.gpus)
        if step.kind not in COLLECTIVES:
            share = size / step.size if step.size else 0
            return [[[Hop(a, b, 0, round(length * share), 0) for a, b, length in step.hops]]]
        if self.has_master:
            return [schedules.through_master(step.kind, n, even_cuts(whole, n), step.root)]
        if way.name != "nccl" or whole < _ONE_RING_BELOW or self._rings is None:
            return [schedules.along_ring(step.kind, self._ring, even_cuts(whole, n), step.root)]
        positions = {gpu: rank for rank, gpu in enumerate(self.gpus)}
        total = sum(self._rings.rates)
        parts = cuts_of([round(whole * rate / total) for rate in self._rings.rates])
        rounds = []
        for ring, (begin, end) in zip(self._rings.rings, pairwise(parts), strict=True):
            cuts = [begin + cut for cut in even_cuts(end - begin, n)]
            rounds.append(schedules.along_ring(step.kind, [positions[gpu] for gpu in ring], cuts, step.root))
        return rounds

    def memory_of(self, rank: int) -> int:
        """The host memory that a rank's messages go through."""
        return self._memory[rank]

    def are_on_one_node(self, a: int, b: int) -> bool:
        """Whether two ranks are on the same node."""
        return self._node[a] == self._node[b]

    @property
    def step_us(self) -> float:
        """Microseconds from one GPU of a ring to the next."""
        return self._rings.step_us if self._rings is not None else 0


class _Messages:
    """Issues hops as operations of an estimating runtime."""

    def __init__(self, runtime: _core.VirtualRuntime, ranks: PricedRanks, way: Way, label: str) -> None:
        self.runtime, self.ranks, self.way, self.label = runtime, ranks, way, label
        self._arrived: dict[tuple[int, int], list[_core.Event]] = {}
        """By ring and rank: the arrivals of the previous round."""

    def send(self, step: Step, size: float) -> None:
        for number, rounds in enumerate(self.ranks.hops_of(step, size, self.way)):
            for at, hops in enumerate(rounds):
                arrived: dict[tuple[int, int], list[_core.Event]] = {}
                for hop in self.way.moving(hops):
                    waits = self._arrived.get((number, hop.source), [])
                    event = self._hop(hop, number, waits, begins=at == 0)
                    arrived.setdefault((number, hop.target), []).append(event)
                self._arrived.update(arrived)

    def _hop(self, hop: Hop, ring: int, waits: list[_core.Event], *, begins: bool) -> _core.Event:
        if HOST in (hop.source, hop.target):
            return self._by_master(hop, waits)
        if not self.ranks.are_on_one_node(hop.source, hop.target):
            launch = _LAUNCH_US if begins and self.ranks.way.name == "nccl" else 0
            if self.way.uses_host:
                return self._legs(hop, waits, over_network=True, launch_us=launch)
            costs = self.ranks.costs
            return self._stored(hop, waits, "rdma", costs.gpu_us + launch, costs.rdma_goodput_of(hop.length))
        if self.way.uses_host:
            return self._legs(hop, waits, over_network=False)
        if self.way.name == "nccl":
            start = self.ranks.step_us + (_LAUNCH_US if begins else 0)
            return self._stored(hop, waits, f"nccl {ring}", start, 1)
        stream = self._stream(self._gpu(hop.source), f"to {hop.target}", waits)
        self.runtime.copy(stream, self._on_gpu(hop.target, hop.length), self._on_gpu(hop.source, hop.length))
        return self.runtime.record(stream)

    def _stored(self, hop: Hop, waits: list[_core.Event], name: str, start_us: float, goodput: float) -> _core.Event:
        stream = self._stream(self._gpu(hop.source), f"{name} to {hop.target}", waits)
        target, source = self._on_gpu(hop.target, hop.length), self._on_gpu(hop.source, hop.length)
        self.runtime.price_stores(stream, self.label, target, source, start_us, goodput)
        return self.runtime.record(stream)

    def _by_master(self, hop: Hop, waits: list[_core.Event]) -> _core.Event:
        """A hop between a GPU and host memory; what is to be combined is combined on one core.

        The host memory is the first rank's (the master's); without a master, the rank's own.
        """
        rank = hop.source if hop.target == HOST else hop.target
        host = _core.Place.host(self.ranks.memory_of(0 if self.ranks.has_master else rank))
        memory = self.runtime.memory(host, hop.length, not self.way.is_pinned)
        if hop.source == HOST:
            stream = self._stream(self._gpu(hop.target), "in", waits)
            self.runtime.copy(stream, self._on_gpu(hop.target, hop.length), memory)
            return self.runtime.record(stream)
        stream = self._stream(self._gpu(hop.source), "out", waits)
        self.runtime.copy(stream, memory, self._on_gpu(hop.source, hop.length))
        event = self.runtime.record(stream)
        if not hop.combines:
            return event
        rate = self.ranks.machine.host.local_copy_gb_per_s
        master = self._stream(host, "master", [event])
        self.runtime.price_work(master, self.label, 1.5 * hop.length / rate * 1e-3)  # two are read, one is written
        return self.runtime.record(master)

    def _legs(self, hop: Hop, waits: list[_core.Event], *, over_network: bool, launch_us: float = 0) -> _core.Event:
        """Out of the GPU, over the network if there is one between, and into the other GPU."""
        part = self.ranks.costs.part_bytes if self.way.follows else hop.length
        parts = max(round(hop.length / part), 1)
        pageable = not self.way.is_pinned
        here, there = self.ranks.memory_of(hop.source), self.ranks.memory_of(hop.target)
        event, names = None, f"{hop.source}→{hop.target}"
        for begin, end in pairwise(even_cuts(hop.length, parts)):
            size = end - begin
            left = self.runtime.memory(_core.Place.host(here), size, pageable)
            right = self.runtime.memory(_core.Place.host(there), size, pageable) if over_network else left
            out = self._stream(self._gpu(hop.source), f"out {names}", waits)
            self.runtime.copy(out, left, self._on_gpu(hop.source, size))
            event = self.runtime.record(out)
            if over_network:
                network = self._stream(_core.Place.host(here), f"network {names}", [event])
                start = self.ranks.costs.host_us + launch_us if begin == 0 else 0
                self.runtime.price_stores(network, self.label, right, left, start)
                event = self.runtime.record(network)
            into = self._stream(self._gpu(hop.target), f"in {names}", [event])
            self.runtime.copy(into, self._on_gpu(hop.target, size), right)
            event = self.runtime.record(into)
        assert event is not None
        return event

    def _gpu(self, rank: int) -> _core.Place:
        return _core.Place.gpu(self.ranks.gpus[rank])

    def _stream(self, place: _core.Place, name: str, waits: list[_core.Event]) -> _core.Stream:
        stream = self.runtime.stream(place, name)
        for event in waits:
            self.runtime.stream_wait(stream, event)
        return stream

    def _on_gpu(self, rank: int, size: int) -> _core.MemoryView:
        return self.runtime.memory(self._gpu(rank), size)


def _covered(spans: list[tuple[int, int]]) -> int:
    """The length of the union of some time spans."""
    total, until = 0, 0
    for start, end in sorted(spans):
        total += max(end - max(start, until), 0)
        until = max(until, end)
    return total
