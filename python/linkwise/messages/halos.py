"""Halos: planes that neighbours in a ring of slabs compute from, and hold copies of."""

from __future__ import annotations

from linkwise._core import UsageError
from linkwise.messages.communicator import Arrays, Communicator


def with_halos(comm: Communicator, label: str, slabs: Arrays, depth: int) -> Arrays:
    """Each slab with ``depth`` planes of both neighbours along the first axis; the ring of slabs is periodic.

    Each rank sends two messages of ``depth`` planes, under ``label``. Every slab needs at least ``depth`` planes.
    """
    thinnest = min(int(slab.shape[0]) for slab in slabs)
    if thinnest < depth:
        raise UsageError(f"slabs of {thinnest} planes are too thin for halos of {depth}: take fewer GPUs")
    before, after = neighbours(comm, label, [s[:depth, ...] for s in slabs], [s[-depth:, ...] for s in slabs])
    return comm.joined(zip(before, slabs, after, strict=True))


def neighbours(comm: Communicator, label: str, first: Arrays, last: Arrays) -> tuple[Arrays, Arrays]:
    """Exchange with both neighbours in the ring: ``first`` goes to the rank before, ``last`` to the rank after."""
    n = comm.size
    down = comm.exchange(label, [{(rank - 1) % n: each} for rank, each in zip(comm.local, first, strict=True)])
    up = comm.exchange(label, [{(rank + 1) % n: each} for rank, each in zip(comm.local, last, strict=True)])
    before = [got[(rank - 1) % n] for rank, got in zip(comm.local, up, strict=True)]
    return before, [got[(rank + 1) % n] for rank, got in zip(comm.local, down, strict=True)]
