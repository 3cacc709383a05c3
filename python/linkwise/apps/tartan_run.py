"""Runs of Tartan's applications (tartan20 §4): checked at a small size, timed or priced at a full one."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from time import perf_counter
from typing import Any, Literal

from linkwise import _core
from linkwise._core import DeviceError, Machine, UsageError
from linkwise.apps.tartan.program import Program
from linkwise.apps.tartan_registry import tartan_program
from linkwise.machines.catalog import load_machine
from linkwise.machines.network import MessageCosts, message_costs
from linkwise.machines.variants import node_of_gpus
from linkwise.messages.communicator import Communicator
from linkwise.messages.gpu_ranks import GpuRanks
from linkwise.messages.launcher import World, launched
from linkwise.messages.mpi_ranks import MpiRanks, check_way
from linkwise.messages.numpy_ranks import NumpyRanks, Step
from linkwise.messages.pricing import PricedRanks, RunTime
from linkwise.messages.profiled import ProfiledCommunicator, Span
from linkwise.messages.ways import WAYS, Way, way_named
from linkwise.runtime.arguments import gpu_numbers
from linkwise.runtime.execution import Gpus
from linkwise.runtime.session import no_gpu

Scaling = Literal["strong", "weak"]
Progress = Callable[[int, int, str], None]
"""Called with the steps done, the total, and the name of the next step."""

_SMALL_IS_FOR = 8  # ranks: for more, the small problem is grown
_REPETITIONS = 5
_MOST_SCALE = 64


@dataclass(frozen=True)
class TartanReport:
    """What a run took, and whether its answer is right."""

    app: str
    abbreviation: str
    machine: str
    simulated: bool
    gpus: list[int]
    processes: int
    via: str
    scaling: Scaling
    seconds: float
    """For the full problem on all GPUs: the measured median, or the simulated time."""
    spread: float
    """The range of all repetitions, as a share of the median."""
    single_gpu_seconds: float
    """For the full problem on one GPU; with weak scaling, for one GPU's share."""
    by_kind: Mapping[str, float]
    """Seconds of ``compute`` and of transfers. On described machines by ``HtoD``, ``DtoH``, ``peer``, ``network`` and
    ``host`` (combining by the master); on GPUs by communicator call, from a run that waits for every step."""
    error: float
    """Of the small problem's answer, relative to the tolerance: 1 or less is right."""
    scale: float
    """Of the full problem: 1 is its usual size."""
    timeline: Sequence[_core.TimelineEntry] = field(default=(), repr=False)
    machine_description: Machine | None = field(default=None, repr=False)
    spans: Sequence[Span] = field(default=(), repr=False)
    """On GPUs: the steps of the run that waits for every step."""

    @property
    def correct(self) -> bool:
        """Whether the answer is right."""
        return self.error <= 1

    @property
    def speedup(self) -> float:
        """Over one GPU; with weak scaling, the work grows with the number of GPUs, and the speed-up with it."""
        times = len(self.gpus) if self.scaling == "weak" else 1
        return times * self.single_gpu_seconds / self.seconds

    def as_dict(self) -> dict[str, Any]:
        """The report as ``--json`` prints it: an error that is not finite becomes null."""
        told = asdict(replace(self, timeline=(), machine_description=None, spans=()))
        del told["timeline"], told["machine_description"], told["spans"]
        error = self.error if self.error < float("inf") else None
        return told | {"error": error, "correct": self.correct, "speedup": self.speedup}


def run_tartan(
    name: str, *, gpus: Gpus = "auto", machine: str = "local", via: str = "auto", scaling: Scaling = "strong",
    scale: float = 1, repetitions: int = _REPETITIONS, on_progress: Progress | None = None,
) -> TartanReport:  # fmt: skip
    """Run one of Tartan's applications on one GPU and on several; its answer is checked.

    Parameters
    ----------
    name
        A name or abbreviation that ``tartan_program`` knows, such as ``"wave"`` or ``"BRQ"``.
    gpus
        The GPUs to use: by default all of the machine's, or one per node if there are several nodes. A GPU that is
        named twice has two ranks.
    machine
        ``"local"``: this machine's GPUs, by CuPy; under ``mpirun``, one GPU per process. A described machine, such as
        ``"summit-node:4"``: NumPy computes the answer of a small problem, and its steps are priced for the full
        problem on the machine's GPUs and links.
    via
        How messages travel (``linkwise.messages.ways``); ``"auto"``: NCCL, or host memory where NCCL cannot be used.
    scaling
        ``"strong"``: the same problem on any number of GPUs; ``"weak"``: the problem grows with the number of GPUs.
    scale
        The full problem's scale factor.
    repetitions
        The number of timed runs on GPUs.
    on_progress
        Called with the progress: steps done, total, and the next step.

    Raises
    ------
    UsageError, DeviceError, OutOfMemoryError

    """
    if not 0 < scale <= _MOST_SCALE:
        raise UsageError(f"the scale is {scale:g}; it is more than 0, and {_MOST_SCALE} at most")
    if scaling not in ("strong", "weak"):
        raise UsageError(f"an application scales strong or weak, not '{scaling}'")
    if repetitions < 1:
        raise UsageError("there must be at least one repetition")
    kind = tartan_program(name)
    full = kind.full().grown(scale) if scale != 1 else kind.full()
    if (scaling == "weak" or scale != 1) and not can_grow(kind.full()):
        raise UsageError(f"{kind.name} is one search, which cannot be grown by a factor: no --scale, --scaling strong")
    tell = on_progress or (lambda *_: None)
    if machine in ("auto", "local"):
        return _on_gpus(kind, full, gpus, via, scaling, scale, repetitions, tell)
    return _described(kind, full, machine, gpus, via, scaling, scale, tell)


def can_grow(problem: Program) -> bool:
    """Whether the problem can be made larger."""
    return problem.grown(2) != problem


def check_division(problem: Program, ranks: int) -> None:
    """Raise ``UsageError`` where a problem has too few parts for so many ranks."""
    if ranks > problem.most_ranks():
        raise UsageError(f"{problem.name} of this size is for {problem.most_ranks()} GPUs at most, not {ranks}")


def small_problem(kind: type[Program], ranks: int) -> Program:
    """The problem whose answer is checked on this many ranks."""
    small = kind.small()
    return small if ranks <= _SMALL_IS_FOR else small.grown(ranks / _SMALL_IS_FOR)


def checked_error(comm: Communicator, program: Program) -> float:
    """Run a program, and return its error relative to the tolerance: 1 or less is right."""
    prepared = program.prepare(comm)
    answer = program.run(comm, prepared)
    return program.error({name: comm.fetch(arrays) for name, arrays in answer.items()})


def steps_of(kind: type[Program], ranks: int, way: Way) -> tuple[tuple[Step, ...], float]:
    """The steps that this many ranks take, and the error of their answer, both computed by NumPy."""
    # Among ways, the steps depend only on whether messages go through host memory.
    return _steps_of(kind, ranks, through_host=way.uses_host)


@cache
def _steps_of(kind: type[Program], ranks: int, *, through_host: bool) -> tuple[tuple[Step, ...], float]:
    way = WAYS["host" if through_host else "nccl"]
    comm, program = NumpyRanks(ranks, way, master=kind.has_master), small_problem(kind, ranks)
    prepared = program.prepare(comm)
    comm.steps.clear()
    answer = program.run(comm, prepared)
    error = program.error({name: comm.fetch(arrays) for name, arrays in answer.items()})
    recorded = program.recorded()
    if recorded != program:
        prepared = recorded.prepare(comm)
        comm.steps.clear()
        recorded.run(comm, prepared)
    return tuple(comm.steps), error


def check_peers(kind: type[Program], machine: Machine, gpus: Sequence[int], way: Way) -> None:
    """Raise ``UsageError`` where an application copies between any two GPUs, and two have no link (tartan20 §4.1)."""
    if not kind.copies_between_any_two or way.uses_host or not any("nvlink" in link.kind for link in machine.links):
        return
    firsts = node_of_gpus(machine)
    for a in gpus:
        for b in gpus:
            links = [machine.links[link].kind for link in _core.route_links(machine, a, b)] if a != b else []
            is_within = firsts[a] == firsts[b]
            if is_within and any(not link.startswith("nvlink") for link in links):
                raise UsageError(
                    f"{kind.name} copies between any two GPUs, and GPUs {a} and {b} of {machine.name} have no link to "
                    "each other: take fewer with --gpus, or go through the host with --via host"
                )


def priced_run(
    kind: type[Program], full: Program, machine: Machine, gpus: Sequence[int], way: Way, costs: MessageCosts | None
) -> RunTime:
    """Price a run on the GPUs of a described machine. Raises ``UsageError``."""
    check_peers(kind, machine, gpus, way)
    check_division(full, len(gpus))
    steps, _ = steps_of(kind, len(gpus), way)
    return PricedRanks(machine, gpus, way, costs, master=kind.has_master).run_time(steps, full.prices(len(gpus)))


def numbers_of(gpus: Gpus, every: Sequence[int], count: int, machine: str) -> list[int]:
    """The named GPUs, or all. Raises ``UsageError`` for GPUs that the machine does not have, and for none."""
    numbers = list(every) if gpus == "auto" else gpu_numbers(gpus)
    if not numbers:
        raise UsageError("an application runs on one GPU at least")
    for number in numbers:
        if not 0 <= number < count:
            raise UsageError(f"there is no GPU {number}; {machine} has {count}, numbered from 0 (--gpus 0,1,2)")
    return numbers


def _described(
    kind: type[Program], full: Program, name: str, gpus: Gpus, via: str, scaling: Scaling, scale: float, tell: Progress
) -> TartanReport:
    machine, costs = load_machine(name), message_costs(name)
    node_of = node_of_gpus(machine)
    firsts = sorted(set(node_of))
    every = firsts if len(firsts) > 1 else range(machine.num_gpus)
    numbers = numbers_of(gpus, every, machine.num_gpus, machine.name)
    nodes = len({node_of[gpu] for gpu in numbers})
    are_shared = len(set(numbers)) < len(numbers)
    way = way_named(("host-pinned" if are_shared else "nccl") if via == "auto" else via, nodes=nodes)
    if are_shared and way.name == "nccl":
        raise UsageError("NCCL takes a GPU for each rank; ranks that share one go --via host-pinned")
    tell(0, 3, "computing a small problem by NumPy")
    _, error = steps_of(kind, len(numbers), way)
    tell(1, 3, "pricing one GPU")
    single = priced_run(kind, full, machine, numbers[:1], way, costs)
    tell(2, 3, f"pricing {len(numbers)} GPUs")
    grown = full.grown(len(numbers)) if scaling == "weak" else full
    run = priced_run(kind, grown, machine, numbers, way, costs)
    tell(3, 3, "done")
    return TartanReport(
        kind.name, kind.abbreviation, machine.name, True, numbers, 1, way.name, scaling, run.seconds, 0.0,
        single.seconds, run.by_kind, error, scale, run.entries, machine,
    )  # fmt: skip


def _on_gpus(
    kind: type[Program], full: Program, gpus: Gpus, via: str, scaling: Scaling, scale: float, repetitions: int,
    tell: Progress,
) -> TartanReport:  # fmt: skip
    seen = _core.cuda_gpus() if not _core.cuda_unavailable_reason() else []
    if not seen:
        raise no_gpu("run an application on")
    world = launched()
    if world is not None:
        if gpus != "auto":
            raise UsageError("processes take a GPU each, in order; choose by CUDA_VISIBLE_DEVICES, not by --gpus")
        return _in_processes(kind, full, world, via, scaling, scale, repetitions, tell)
    numbers = numbers_of(gpus, range(len(seen)), len(seen), "this machine")
    check_division(full, len(numbers))
    comm = _gpu_ranks(kind, numbers, via)
    tell(0, repetitions + 3, "checking a small problem")
    error = checked_error(comm, small_problem(kind, len(numbers)))
    alone = GpuRanks(numbers[:1], comm.way, master=kind.has_master)
    single = statistics.median(
        _times(alone, full, repetitions, lambda done: tell(1, repetitions + 3, "timing one GPU"))
    )
    grown = full.grown(len(numbers)) if scaling == "weak" else full
    times = _times(comm, grown, repetitions, lambda done: tell(2 + done, repetitions + 3, "timing all GPUs"))
    profile = _profile(comm, grown)
    tell(repetitions + 3, repetitions + 3, "done")
    return _measured(kind, seen[0].name, numbers, 1, comm, scaling, scale, times, single, profile, error)


def _gpu_ranks(kind: type[Program], numbers: Sequence[int], via: str) -> GpuRanks:
    if via != "auto":
        return GpuRanks(numbers, way_named(via), master=kind.has_master)
    try:
        return GpuRanks(numbers, WAYS["nccl"])
    except DeviceError:  # NCCL is not installed, or a GPU is named twice
        return GpuRanks(numbers, WAYS["host-pinned"], master=kind.has_master)


def _times(comm: ProfiledCommunicator, program: Program, repetitions: int, done: Callable[[int], None]) -> list[float]:
    prepared = program.prepare(comm)
    seconds = []
    for repetition in range(repetitions + 1):
        done(repetition)
        comm.synchronize()
        began = perf_counter()
        program.run(comm, prepared)
        comm.synchronize()
        seconds.append(perf_counter() - began)
    return seconds[1:]  # the first run compiles kernels and allocates memory


def _profile(comm: ProfiledCommunicator, program: Program) -> list[Span]:
    """Time every step, in a run that waits for each."""
    prepared = program.prepare(comm)
    spans: list[Span] = []
    comm.profile = spans
    try:
        program.run(comm, prepared)
    finally:
        comm.profile = None
    start = min((span.begin for span in spans), default=0.0)
    return [replace(span, begin=span.begin - start, end=span.end - start) for span in spans]


def _in_processes(
    kind: type[Program], full: Program, world: World, via: str, scaling: Scaling, scale: float, repetitions: int,
    tell: Progress,
) -> TartanReport:  # fmt: skip
    """One rank per process. Every process returns a report; only the first one has timed a single GPU."""
    visible = _core.cuda_gpus()
    gpu = world.local_rank % len(visible)
    comm = _mpi_ranks(world, gpu, visible[gpu].pci_bus_id, via)
    way = comm.way
    check_division(full, comm.size)
    steps = repetitions + 3
    tell(0, steps, "checking a small problem")
    error = checked_error(comm, small_problem(kind, comm.size))
    single = 0.0
    if comm.local[0] == 0:
        alone = MpiRanks(world.alone, way, gpu)
        single = statistics.median(_times(alone, full, repetitions, lambda _: tell(1, steps, "timing one GPU")))
    comm.synchronize()
    grown = full.grown(comm.size) if scaling == "weak" else full
    times = _times(comm, grown, repetitions, lambda done: tell(2 + done, steps, "timing all GPUs"))
    profile = _profile(comm, grown)
    tell(steps, steps, "done")
    name = visible[gpu].name
    numbers = world.everyone.allgather(gpu)
    return _measured(kind, name, numbers, comm.size, comm, scaling, scale, times, single, profile, error)


def _mpi_ranks(world: World, gpu: int, bus_id: str, via: str) -> MpiRanks:
    """Ranks by the requested way; with ``auto``, by NCCL where it can be used. All processes decide alike."""
    if via != "auto":
        way = way_named(via, nodes=2)  # the ways between nodes, some of which also work within one
        check_way(way, sends_gpu_memory=world.sends_gpu_memory)
        return MpiRanks(world.everyone, way, gpu)
    if world.have_a_gpu_each(bus_id):
        try:
            return MpiRanks(world.everyone, WAYS["nccl"], gpu)
        except DeviceError:
            pass  # all processes fail alike
    return MpiRanks(world.everyone, WAYS["host-pinned"], gpu)


def _measured(
    kind: type[Program], machine: str, gpus: list[int], processes: int, comm: Communicator, scaling: Scaling,
    scale: float, times: Sequence[float], single: float, spans: list[Span], error: float,
) -> TartanReport:  # fmt: skip
    seconds = statistics.median(times)
    by_kind: dict[str, float] = {}
    for span in spans:
        by_kind[span.thread] = by_kind.get(span.thread, 0.0) + span.end - span.begin
    return TartanReport(
        kind.name, kind.abbreviation, machine, False, gpus, processes, comm.way.name, scaling, seconds,
        (max(times) - min(times)) / seconds, single or seconds, by_kind, error, scale, spans=spans,
    )  # fmt: skip
