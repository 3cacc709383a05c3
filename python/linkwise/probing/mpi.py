"""Messages between processes, and so between nodes, through MPI where there is one (tartan20 §3.3's ways).

Start it in two processes or more, as ``mpirun -n 2 linkwise probe -t "between processes"``; the first tells what the
first two measured. GPU memory itself is sent where MPI says that it can (GPUDirect); else, and beside, through pinned
and through ordinary memory. Whether MPI itself uses GPUDirect is its own setting; each row says which it was.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from linkwise import _core
from linkwise._core import CorruptDataError
from linkwise._typing import Bytes

NAME = "between processes"
WHAT = "messages from a GPU of one process to one of another, by MPI: GPU memory, pinned, ordinary; 4 B to 256 MiB"
_SIZES = [4**power for power in range(1, 15)]
_REPETITIONS = 7
_LAUNCHERS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
Row = dict[str, Any]


def rank() -> int:
    """Of this process among those that were started together; 0 where it is alone."""
    told = next((os.environ[name] for name in _LAUNCHERS if name in os.environ), "0")
    return int(told) if told.isascii() and told.isdigit() else 0


def _why_not() -> str | None:
    if not any(name in os.environ for name in _LAUNCHERS):
        return f"it takes two processes: mpirun -n 2 linkwise probe -t '{NAME}'"
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed"
    return None


def _sends_gpu_memory() -> bool:
    """What Open MPI says of itself; others say nothing, and are not trusted with a GPU's address."""
    try:
        return bool(ctypes.CDLL(None).MPIX_Query_cuda_support())
    except AttributeError:
        return False


class _GpuBytes:
    """GPU memory as MPI takes it: by the CUDA array interface."""

    def __init__(self, view: _core.MemoryView) -> None:
        self.__cuda_array_interface__ = {
            "shape": (view.bytes,),
            "typestr": "|u1",
            "data": (view.address, False),
            "version": 3,
        }


class _Ends:
    """This process's GPU memory, and what its messages go through."""

    def __init__(self, runtime: _core.Runtime, size: int) -> None:
        self.runtime = runtime
        place = _core.Place.gpu(rank() % runtime.machine.num_gpus)
        self.stream = runtime.stream(place, "messages")
        self.sent, self.received = runtime.allocate(place, size), runtime.allocate(place, size)
        self.content = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)

    def put(self, memory: Any, content: Bytes) -> None:
        self.runtime.copy_in(self.stream, memory.view, content)
        self.runtime.synchronize()

    def get(self, content: Bytes, memory: Any) -> None:
        self.runtime.copy_out(self.stream, content, memory.view)
        self.runtime.synchronize()


def _host_memory(size: int, pinned: bool) -> Bytes:
    return _core.pinned_bytes(size) if pinned else np.zeros(size, np.uint8)


def _exchange(world: Any, send: Callable[[], None], receive: Callable[[], None]) -> float:
    """Seconds from one GPU to the other: half of there and back, the median of several."""
    seconds = []
    for _ in range(_REPETITIONS):
        world.Barrier()
        began = time.perf_counter()
        for sends in (True, False) if world.Get_rank() == 0 else (False, True):
            (send if sends else receive)()
        seconds.append((time.perf_counter() - began) / 2)
    return statistics.median(seconds[1:])


def _measure(world: Any, ends: _Ends, size: int, way: str) -> float:
    other = 1 - world.Get_rank()
    ends.put(ends.sent, ends.content)
    ends.put(ends.received, np.zeros(size, np.uint8))
    if way == "GPU memory":
        sent, received = _GpuBytes(ends.sent.view), _GpuBytes(ends.received.view)
        seconds = _exchange(world, lambda: world.Send(sent, other), lambda: world.Recv(received, other))
    else:
        memory = _host_memory(size, way == "pinned memory")

        def send() -> None:
            ends.get(memory, ends.sent)
            world.Send(memory, other)

        def receive() -> None:
            world.Recv(memory, other)
            ends.put(ends.received, memory)

        seconds = _exchange(world, send, receive)
    arrived = np.empty(size, np.uint8)
    ends.get(arrived, ends.received)
    if not np.array_equal(arrived, ends.content):
        raise CorruptDataError(
            f"a message of {size} bytes through {way} is not what was sent: do not trust this network"
        )
    return seconds


def between_processes(runtime: _core.Runtime) -> list[Row]:
    """The rows of this measurement; of all processes but the first, none. Raises ``CorruptDataError``."""
    reason = _why_not()
    if reason is not None:
        return [{"name": NAME, "what": "all", "cannot": reason}]
    try:
        mpi = importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        return [{"name": NAME, "what": "all", "cannot": f"mpi4py cannot be used: {error}"}]
    everyone = mpi.COMM_WORLD
    if everyone.Get_size() < 2:
        return [{"name": NAME, "what": "all", "cannot": "it takes two processes; this one is alone"}]
    world = everyone.Split(int(everyone.Get_rank() > 1), everyone.Get_rank())
    if everyone.Get_rank() > 1:
        return []
    direct = _sends_gpu_memory()
    setting = "MPI with GPUDirect" if direct else "MPI without GPUDirect"
    nodes = len(set(world.allgather(mpi.Get_processor_name())))
    where = "two nodes" if nodes > 1 else "one node"
    rows: list[Row] = []
    if not direct:
        rows.append({"name": NAME, "what": f"GPU memory, {where}", "cannot": "this MPI does not send GPU memory"})
    for way in (*(("GPU memory",) if direct else ()), "pinned memory", "ordinary memory"):
        for size in _SIZES:
            seconds = _measure(world, _Ends(runtime, size), size, way)
            rows.append(
                {
                    "name": NAME,
                    "what": f"{way}, {where}, {setting}",
                    "bytes": size,
                    "gb_per_s": size / seconds / 1e9,
                    "predicted_gb_per_s": 0.0,
                    "fitted": False,
                    "seconds": seconds,
                    "spread": 0.0,
                    "repetitions": _REPETITIONS - 1,
                    "verified": True,
                }
            )
    return rows if world.Get_rank() == 0 else []
