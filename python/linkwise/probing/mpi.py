"""Messages and collectives between processes, and so between nodes (tartan20 §3.3, §3.4), by MPI and by NCCL.

Start it in two or more processes, as ``mpirun -n 2 linkwise probe -t "between processes"``; the first one reports the
results. Messages take the ways of ``linkwise.messages``, by the same code that applications run and that prices
described machines. Whether MPI uses GPUDirect is a setting of MPI; each row tells which it was.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np

from linkwise import _core
from linkwise._core import CorruptDataError, DeviceError, Machine, UsageError
from linkwise.machines.network import MessageCosts, message_costs
from linkwise.machines.variants import node_of_gpus
from linkwise.messages.launcher import World, launched, rank
from linkwise.messages.mpi_ranks import MpiRanks, check_way
from linkwise.messages.numpy_ranks import Step
from linkwise.messages.pricing import PricedRanks
from linkwise.messages.schedules import COLLECTIVES, Hop, even_cuts
from linkwise.messages.ways import BETWEEN_NODES, WAYS

__all__ = ["NAME", "WHAT", "Row", "between_processes", "rank"]

NAME = "between processes"
WHAT = "messages and collectives between GPUs of processes, by MPI through GPU, pinned and pageable memory, and by NCCL"
_SIZES = [4**power for power in range(1, 15)]  # 4 B to 256 MiB
_COLLECTIVE_SIZES = [4**power for power in range(1, 15, 2)]
_REPETITIONS = 7
Row = dict[str, Any]


def between_processes(runtime: _core.Runtime) -> list[Row]:
    """The rows of this measurement, in the first process; none in the others. Raises ``CorruptDataError``."""
    try:
        world = launched()
    except DeviceError as error:
        return [_cannot("all", str(error))]
    if world is None:
        return [_cannot("all", f"it takes two processes: mpirun -n 2 linkwise probe -t '{NAME}'")]
    rows = list(_rows(world, None if runtime.simulated else runtime.machine.num_gpus))
    return rows if world.everyone.Get_rank() == 0 else []


def between_described_nodes(machine: Machine) -> list[Row]:
    """The same for a described machine of several nodes, priced by its links, with one GPU of each node."""
    gpus = sorted(set(node_of_gpus(machine)))
    if len(gpus) < 2:
        return [_cannot("all", "it takes several nodes, as --machine summit-node:4")]
    try:
        costs = message_costs(machine.name)
    except UsageError:  # a machine from a file, or made by the caller
        costs = MessageCosts()
    rows = []
    for way in (*BETWEEN_NODES, "nccl"):
        ranks = PricedRanks(machine, gpus, WAYS[way], costs)
        for size in _SIZES:
            step = Step("exchange", "message", size, 0, ((0, 1, size),))
            seconds = [ranks.step_time(step, size).seconds]
            rows.append(_row(f"message, {way}, {len(gpus)} nodes", size, 1.0, seconds))
        for kind in COLLECTIVES:
            factor = _core.collective_factor(getattr(_core.Collective, kind), len(gpus))
            for size in _COLLECTIVE_SIZES:
                seconds = [ranks.step_time(Step(kind, kind, size), size).seconds]
                rows.append(_row(f"{kind}, {way}, {len(gpus)} nodes", size, factor, seconds))
    return rows


def _cannot(what: str, reason: str) -> Row:
    return {"name": NAME, "what": what, "cannot": reason}


def _rows(world: World, num_gpus: int | None) -> Iterator[Row]:
    setting = "MPI with GPUDirect" if world.sends_gpu_memory else "MPI without GPUDirect"
    where = "one computer" if world.computers == 1 else f"{world.computers} computers"
    for way in (*BETWEEN_NODES, "nccl"):
        told = f"{way}, {where}" if way == "nccl" else f"{way}, {where}, {setting}"
        if world.sends_gpu_memory and way in ("host", "host-pinned"):
            yield _cannot(told, "this MPI has GPUDirect, which is these ways' other setting")
            continue
        try:
            check_way(WAYS[way], sends_gpu_memory=world.sends_gpu_memory)
            comm = MpiRanks(world.everyone, WAYS[way], None if num_gpus is None else world.local_rank % num_gpus)
        except DeviceError as error:
            yield _cannot(told, str(error))
            continue
        for size in _SIZES:
            yield _row(f"message, {told}", size, 1.0, _message(comm, size))
        for kind in COLLECTIVES if comm.size > 1 else ():
            factor = _core.collective_factor(getattr(_core.Collective, kind), comm.size)
            for size in _COLLECTIVE_SIZES:
                yield _row(f"{kind} of {comm.size}, {told}", size, factor, _collective(comm, kind, size))


def _row(what: str, size: int, factor: float, seconds: list[float]) -> Row:
    """A row of results; the rates of collectives are of the bytes that pass each GPU."""
    middle = statistics.median(seconds)
    return {
        "name": NAME,
        "what": what,
        "bytes": size,
        "gb_per_s": factor * size / middle / 1e9,
        "predicted_gb_per_s": 0.0,
        "fitted": False,
        "seconds": middle,
        "spread": (max(seconds) - min(seconds)) / middle,
        "repetitions": len(seconds),
        "verified": True,
    }


def _timed(comm: MpiRanks, work: Callable[[], None]) -> list[float]:
    seconds = []
    for _ in range(_REPETITIONS):
        comm.synchronize()
        began = perf_counter()
        work()
        comm.synchronize()
        seconds.append(perf_counter() - began)
    return seconds[1:]


def _message(comm: MpiRanks, size: int) -> list[float]:
    """Seconds from the first rank's GPU to the second's: half of a round trip."""
    me = comm.local[0]
    content = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    sent, received = comm.from_host(me, content), comm.from_host(me, np.zeros(size, np.uint8))
    there, back = [Hop(0, 1, 0, size, 0)], [Hop(1, 0, 0, size, 0)]
    seconds = [each / 2 for each in _timed(comm, lambda: comm.move("message", [there, back], [sent], [received]))]
    if me < 2:
        _check(np.array_equal(comm.to_host(received), content), comm, size)
    return seconds


def _collective(comm: MpiRanks, kind: str, size: int) -> list[float]:
    """Seconds of a collective, in place, on ``size`` bytes of 4-byte integers."""
    me, length = comm.local[0], max(size // 4, 1)
    cuts = even_cuts(length, comm.size)
    array = comm.from_host(me, np.full(length, me + 1, np.int32))
    comm.collective(kind, kind, [array], cuts, 0, "max")  # max is idempotent, so it can be repeated
    found = comm.to_host(array)
    mine = found[cuts[me] : cuts[me + 1]]
    right = {
        "broadcast": found.max(initial=1) == 1,
        "reduce": me > 0 or found.min(initial=comm.size) == comm.size,
        "all_reduce": found.min(initial=comm.size) == comm.size,
        "reduce_scatter": mine.min(initial=comm.size) == comm.size,
        "all_gather": all((found[cuts[r] : cuts[r + 1]] == r + 1).all() for r in range(comm.size)),
    }
    _check(bool(right[kind]), comm, size)
    return _timed(comm, lambda: comm.collective(kind, kind, [array], cuts, 0, "max"))


def _check(right: bool, comm: MpiRanks, size: int) -> None:
    if not right:
        raise CorruptDataError(
            f"a message of {size} bytes by way of {comm.way.name} is not what was sent: do not trust this network"
        )
