"""One rank per process: messages by MPI through GPU, pinned or pageable memory, or by NCCL (tartan20 §3.3)."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import numpy as np

from linkwise._core import DeviceError
from linkwise._typing import Array
from linkwise.machines.network import MessageCosts
from linkwise.messages.communicator import Arrays
from linkwise.messages.gpu_ranks import cupy, from_gpu, to_gpu
from linkwise.messages.host_buffers import HostBuffers
from linkwise.messages.nccl import Nccl, unique_id
from linkwise.messages.numpy_ranks import combined
from linkwise.messages.profiled import ProfiledCommunicator
from linkwise.messages.schedules import Hop, Rounds, even_cuts
from linkwise.messages.ways import Way

_PART_BYTES = int(MessageCosts.part_bytes)  # of messages whose parts are pipelined


def check_way(way: Way, *, sends_gpu_memory: bool) -> None:
    """Raise ``DeviceError`` for a way that processes cannot take, or that needs GPU-aware MPI where MPI is not."""
    if way.name == "peer":
        raise DeviceError("processes have no peer access to each other: use nccl or rdma, or go through the host")
    if way.only_between_nodes and not sends_gpu_memory:
        raise DeviceError(
            f"this MPI does not send GPU memory (GPUDirect), which '{way.name}' is with; go by host-pinned"
        )


class MpiRanks(ProfiledCommunicator):
    """This process's rank among those that were started together; without a GPU, on its core (for tests)."""

    def __init__(self, world: Any, way: Way, gpu: int | None) -> None:
        namespace = "numpy" if gpu is None else "cupy"
        super().__init__(
            world.Get_size(), [world.Get_rank()], importlib.import_module(f"array_api_compat.{namespace}"), way
        )
        self._world, self._gpu = world, gpu
        if gpu is not None:
            cupy().cuda.Device(gpu).use()
        self._rank = world.Get_rank()
        self._nccl = None
        self.buffers = HostBuffers(pinned=way.is_pinned)
        if way.name == "nccl" and self.size > 1:
            if gpu is None:
                raise DeviceError("NCCL is between GPUs, and this process has none")
            with self._on(self._rank):
                self._nccl = self._opened_nccl(world, gpu)

    def _opened_nccl(self, world: Any, gpu: int) -> Nccl:
        """Open NCCL in all processes or in none: if one fails, all raise, since the others would wait for it."""
        identity, told = None, ""
        try:
            identity = unique_id() if self._rank == 0 else None
        except DeviceError as error:
            told = str(error)
        identity, told = world.bcast((identity, told))
        if told:
            raise DeviceError(told)
        nccl = None
        try:
            nccl = Nccl.of_process(self.size, identity, self._rank, gpu)
        except DeviceError as error:
            told = str(error)
        told = next((each for each in world.allgather(told) if each), "")
        if told or nccl is None:
            raise DeviceError(told)
        return nccl

    def _on(self, rank: int) -> AbstractContextManager[Any]:
        if self._gpu is None:
            return nullcontext()
        device: AbstractContextManager[Any] = cupy().cuda.Device(self._gpu)
        return device

    def synchronize(self) -> None:
        """Wait for this process's GPU, and for all processes."""
        if self._gpu is not None:
            with self._on(self._rank):
                cupy().cuda.get_current_stream().synchronize()
        self._world.Barrier()

    def from_host(self, rank: int, array: Any) -> Any:
        """See ``Communicator``."""
        return super().from_host(rank, array) if self._gpu is None else to_gpu(cupy(), array, self.way, self.buffers)

    def to_host(self, array: Any) -> Array:
        """See ``Communicator``."""
        return np.asarray(array) if self._gpu is None else from_gpu(array, self.way, self.buffers)

    def _of_all(self, mine: list[Any]) -> list[Any]:
        return [entry for entries in self._world.allgather(mine) for entry in entries]

    def _run(self, kind: str, label: str, rounds: Rounds, sources: Arrays, targets: Arrays, operation: str) -> None:
        if self._nccl is not None:
            self._nccl.messages(rounds, {self._rank: sources[0]}, {self._rank: targets[0]})
            return
        combine = combined(operation, self.xp)
        with self._on(self._rank):
            for hops in rounds:
                self._round(self.way.moving(hops), sources[0], targets[0], combine)

    def _round(self, hops: list[Hop], source: Any, target: Any, combine: Any) -> None:
        """Post receives first; store what has arrived only when all sends have completed."""
        incoming = [
            (hop, _Message(self, hop.source, tag, source.dtype, hop.length))
            for tag, hop in enumerate(hops)
            if hop.target == self._rank
        ]
        outgoing = [
            _Message(self, hop.target, tag, source.dtype, hop.length, source[hop.begin : hop.end])
            for tag, hop in enumerate(hops)
            if hop.source == self._rank
        ]
        arrived = [(hop, message.received()) for hop, message in incoming]
        for message in outgoing:
            message.wait()
        for hop, piece in arrived:
            there = slice(hop.to, hop.to + hop.length)
            target[there] = combine(target[there], piece) if hop.combines else piece

    @property
    def world(self) -> Any:
        """MPI's communicator."""
        return self._world

    @property
    def gpu(self) -> int | None:
        """The GPU of this process's rank."""
        return self._gpu


class _Message:
    """A message in flight, in pipelined parts if its way has those."""

    def __init__(self, ranks: MpiRanks, other: int, tag: int, dtype: Any, length: int, content: Any = None) -> None:
        self._ranks = ranks
        way, on_gpu = ranks.way, ranks.gpu is not None
        self._is_staged = on_gpu and way.uses_host
        if self._is_staged:
            # A send and a receive with the same tag need separate buffers.
            self._memory: Any = ranks.buffers.of((other, tag, content is None), length, dtype)
        elif content is None:
            self._memory = ranks.xp.empty(length, dtype=dtype)
        else:
            self._memory = content
        self._requests = []
        parts = max(length * np.dtype(dtype).itemsize // _PART_BYTES, 1) if way.follows else 1
        self._parts = [slice(begin, end) for begin, end in pairwise(even_cuts(length, parts))]
        if not self._is_staged and on_gpu:
            cupy().cuda.get_current_stream().synchronize()  # MPI is not stream-ordered
        for part in self._parts:
            piece = self._memory[part]
            if content is None:
                self._requests.append(ranks.world.Irecv(_bytes(piece), other, tag))
            else:
                if self._is_staged:
                    content[part].get(out=piece)
                self._requests.append(ranks.world.Isend(_bytes(piece), other, tag))

    def wait(self) -> None:
        """Wait for all parts of the message."""
        for request in self._requests:
            request.Wait()

    def received(self) -> Any:
        """The received elements, where the rank's arrays are."""
        if not self._is_staged:
            self.wait()
            return self._memory
        arrived = self._ranks.xp.empty(self._memory.shape, dtype=self._memory.dtype)
        for request, part in zip(self._requests, self._parts, strict=True):
            request.Wait()
            arrived[part].set(self._memory[part])
        cupy().cuda.get_current_stream().synchronize()  # the buffer is reused
        return arrived


def _bytes(piece: Any) -> Any:
    """An array of any type as bytes, for MPI."""
    return piece.view(np.uint8)
