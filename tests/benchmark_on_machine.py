"""Transfer benchmarks on a described machine: a prediction is a simulation of the benchmark that measures it."""

from __future__ import annotations

from collections.abc import Sequence

from linkwise import _core

HOST = _core.Place.host()
Transfer = tuple[_core.Place, _core.Place, float]  # source, target, bytes


def gb_per_s(machine: _core.Machine, transfers: Sequence[Transfer]) -> float:
    """Total bytes over the last finish, everything started at once."""
    runtime = _core.VirtualRuntime(machine, _core.VirtualMode.estimate, 0)
    buffers = []
    for index, (source, target, num_bytes) in enumerate(transfers):
        first = runtime.allocate(source, int(num_bytes))
        second = runtime.allocate(target, int(num_bytes))
        buffers += [first, second]
        gpu = source if source.is_gpu else target
        runtime.copy(runtime.stream(gpu, f"transfer {index}"), second.view, first.view)
    timeline = runtime.timeline()
    last = max(entry.end_ps for entry in timeline)
    return sum(entry.bytes for entry in timeline) / last * 1e3


def host_transfers(gpus: Sequence[int], directions: str, num_bytes: float) -> list[Transfer]:
    """`directions`: htod, dtoh or bidir; each GPU copies `num_bytes` in each direction."""
    transfers: list[Transfer] = []
    for gpu in gpus:
        if directions in ("htod", "bidir"):
            transfers.append((HOST, _core.Place.gpu(gpu), num_bytes))
        if directions in ("dtoh", "bidir"):
            transfers.append((_core.Place.gpu(gpu), HOST, num_bytes))
    return transfers


def peer_transfers(pairs: Sequence[tuple[int, int]], both_ways: bool, num_bytes: float) -> list[Transfer]:
    transfers: list[Transfer] = []
    for a, b in pairs:
        transfers.append((_core.Place.gpu(a), _core.Place.gpu(b), num_bytes))
        if both_ways:
            transfers.append((_core.Place.gpu(b), _core.Place.gpu(a), num_bytes))
    return transfers


def mirrored_pairs(gpus: Sequence[int]) -> list[tuple[int, int]]:
    """sort22 §4.3: the first with the last, the second with the last but one, …"""
    half = len(gpus) // 2
    return list(zip(gpus[:half], reversed(gpus[half:]), strict=True))
