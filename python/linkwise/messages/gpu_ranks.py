"""All ranks in one process, one per GPU: CuPy computes; messages go by peer copies, NCCL or host memory."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from itertools import permutations
from typing import Any

import numpy as np

from linkwise._core import DeviceError
from linkwise._typing import Array
from linkwise.messages.communicator import Arrays
from linkwise.messages.host_buffers import HostBuffers
from linkwise.messages.nccl import Nccl
from linkwise.messages.numpy_ranks import combined
from linkwise.messages.profiled import ProfiledCommunicator
from linkwise.messages.schedules import HOST, Hop, Rounds
from linkwise.messages.ways import Way


def cupy() -> Any:
    """CuPy. Raises ``DeviceError`` where it is not installed."""
    try:
        return importlib.import_module("cupy")
    except ImportError:
        raise DeviceError("this computes with CuPy on GPUs: pip install cupy-cuda13x, or name a machine") from None


def to_gpu(module: Any, array: Any, way: Way, buffers: HostBuffers) -> Any:
    """Copy a NumPy array to CuPy's current GPU, through pinned memory if the way uses it."""
    source = np.ascontiguousarray(array)
    if way.is_pinned:
        pinned = buffers.of("handed out", source.size, source.dtype)
        pinned[:] = source.ravel()
        source = pinned.reshape(source.shape)
    made = module.empty(source.shape, source.dtype)
    made.set(source)
    module.cuda.get_current_stream().synchronize()  # the buffer is reused
    return made


def from_gpu(array: Any, way: Way, buffers: HostBuffers) -> Array:
    """Copy a CuPy array to the host, through pinned memory if the way uses it."""
    if not way.is_pinned:
        return np.asarray(array.get())
    pinned = buffers.of("collected", array.size, array.dtype).reshape(array.shape)
    array.get(out=pinned)
    return pinned.copy()


class GpuRanks(ProfiledCommunicator):
    """Ranks on GPUs of this process; two may share one, but not by NCCL."""

    def __init__(self, gpus: Sequence[int], way: Way, *, master: bool = False) -> None:
        self._cupy = cupy()
        super().__init__(
            len(gpus), range(len(gpus)), importlib.import_module("array_api_compat.cupy"), way, master=master
        )
        self._gpus = list(gpus)
        self._nccl = Nccl.of_all(self._gpus) if way.name == "nccl" and len(gpus) > 1 else None
        if way.name == "peer":
            self._open_peers()
        self._buffers = HostBuffers(pinned=way.is_pinned)

    def _open_peers(self) -> None:
        cuda = self._cupy.cuda
        for here, there in permutations(sorted(set(self._gpus)), 2):
            if not cuda.runtime.deviceCanAccessPeer(here, there):
                raise DeviceError(f"GPU {here} has no peer access to GPU {there}: use nccl, or go through the host")
            with cuda.Device(here), suppress(cuda.runtime.CUDARuntimeError):  # already enabled
                cuda.runtime.deviceEnablePeerAccess(there)

    def _on(self, rank: int) -> AbstractContextManager[Any]:
        device: AbstractContextManager[Any] = self._cupy.cuda.Device(self._gpus[rank])
        return device

    def synchronize(self) -> None:
        """Wait for all work that was given to the GPUs."""
        for rank in self.local:
            with self._on(rank):
                self._cupy.cuda.get_current_stream().synchronize()

    def from_host(self, rank: int, array: Any) -> Any:
        """See ``Communicator``."""
        with self._on(rank):
            return to_gpu(self._cupy, array, self.way, self._buffers)

    def to_host(self, array: Any) -> Array:
        """See ``Communicator``."""
        with array.device:
            return from_gpu(array, self.way, self._buffers)

    def _run(self, kind: str, label: str, rounds: Rounds, sources: Arrays, targets: Arrays, operation: str) -> None:
        by_source, by_target = dict(enumerate(sources)), dict(enumerate(targets))
        if self._nccl is not None:
            self._nccl.messages(rounds, by_source, by_target)
            return
        master: dict[int, Array] = {}
        for hops in rounds:
            kept = self.way.moving(hops)
            if self.way.uses_host:
                self._through_host(kept, by_source, by_target, master, operation)
            else:
                self._by_copies(kept, by_source, by_target, operation)

    def _by_copies(self, hops: list[Hop], sources: dict[int, Any], targets: dict[int, Any], operation: str) -> None:
        """Each hop on its target's stream, after its source's work; the source's stream then waits for the copy."""
        cuda, combine = self._cupy.cuda, combined(operation, self._cupy)
        ready, streams = {}, {}
        for rank in {rank for hop in hops for rank in (hop.source, hop.target)}:
            with self._on(rank):
                streams[rank] = cuda.get_current_stream()
                ready[rank] = streams[rank].record()
        done: list[tuple[int, Any]] = []
        arrived = []
        for hop in hops:
            with self._on(hop.target):
                stream = streams[hop.target]
                stream.wait_event(ready[hop.source])
                piece = sources[hop.source][hop.begin : hop.end]
                there = targets[hop.target][hop.to : hop.to + hop.length]
                received = self._cupy.empty_like(there) if hop.combines else there
                cuda.runtime.memcpyPeerAsync(
                    received.data.ptr, self._gpus[hop.target], piece.data.ptr, self._gpus[hop.source],
                    piece.nbytes, stream.ptr,
                )  # fmt: skip
                arrived.append((hop, there, received))
                done.append((hop.source, stream.record()))
        for source, event in done:
            with self._on(source):
                streams[source].wait_event(event)
        for hop, there, received in arrived:  # after all copies: a round sends what was there before it
            if hop.combines:
                with self._on(hop.target):
                    there[:] = combine(there, received)

    def _through_host(
        self,
        hops: list[Hop],
        sources: dict[int, Any],
        targets: dict[int, Any],
        master: dict[int, Array],
        operation: str,
    ) -> None:
        combine, on_gpu = combined(operation, np), combined(operation, self._cupy)
        out: list[tuple[Hop, Array]] = []
        for number, hop in enumerate(hops):
            if hop.source == HOST:
                out.append((hop, master[HOST][hop.begin : hop.end]))
                continue
            with self._on(hop.source):
                piece = sources[hop.source][hop.begin : hop.end]
                memory = self._buffers.of(number, piece.size, piece.dtype)
                piece.get(out=memory)
            if hop.target == HOST:
                if HOST not in master:
                    whole = sources[hop.source]
                    master[HOST] = self._buffers.of("master", whole.size, whole.dtype)
                there = master[HOST][hop.to : hop.to + hop.length]
                there[:] = combine(there, memory) if hop.combines else memory
            else:
                out.append((hop, memory))
        for hop, memory in out:
            with self._on(hop.target):
                there = targets[hop.target][hop.to : hop.to + hop.length]
                if hop.combines:
                    received = self._cupy.empty_like(there)
                    received.set(memory)
                    there[:] = on_gpu(there, received)
                else:
                    there.set(memory)
        self.synchronize()  # the buffers are reused
