"""All ranks in this process, in the host's memory: NumPy computes, and what was done is kept, to be priced."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from linkwise._core import ProgramError
from linkwise._typing import Array
from linkwise.messages.communicator import Arrays, Communicator, item_size
from linkwise.messages.schedules import HOST, Hop, Rounds
from linkwise.messages.ways import WAYS, Way


@dataclass(frozen=True)
class Step:
    """What all ranks did at once."""

    kind: str
    """``"compute"``, a collective, ``"exchange"``, ``"all_to_all"``, ``"scatter"``, ``"gather"``, ``"collect"`` or
    ``"hand_out"``."""
    label: str
    size: int = 0
    """Bytes, as ``Communicator``'s calls are priced: of a collective, of the array that all have in the end or in the
    beginning; of others, of the largest message."""
    root: int = 0
    hops: tuple[tuple[int, int, int], ...] = ()
    """Of what is no collective: source, target, bytes."""


def combined(operation: str, xp: Any) -> Callable[[Any, Any], Any]:
    """How two arrays are made one."""
    found: dict[str, Callable[[Any, Any], Any]] = {"sum": operator.add, "min": xp.minimum, "max": xp.maximum}
    return found[operation]


def check_round(hops: list[Hop], *, in_place: bool) -> None:
    """Raise ``ProgramError`` where hops of one round write what another reads or writes: their order is not given."""
    written: dict[int, list[Hop]] = {}
    for hop in hops:
        for other in written.get(hop.target, []):
            both_combine = hop.target == HOST  # where one thread combines, one after the other
            if hop.to < other.to + other.length and other.to < hop.to + hop.length and not both_combine:
                raise ProgramError(f"in one round {other} and {hop} write the same elements")
        written.setdefault(hop.target, []).append(hop)
    for hop in hops if in_place else ():
        for other in written.get(hop.source, []):
            if other is not hop and hop.begin < other.to + other.length and other.to < hop.end:
                raise ProgramError(f"in one round {hop} reads what {other} writes")


class NumpyRanks(Communicator):
    """Ranks whose arrays lie in the host's memory. ``steps`` is what they did."""

    def __init__(self, size: int, way: Way = WAYS["nccl"], xp: Any = None, *, master: bool = False) -> None:
        if xp is None:
            import array_api_compat.numpy as xp  # noqa: PLC0415 - not needed to price, which loads faster
        super().__init__(size, range(size), xp, way, master=master)
        self.steps: list[Step] = []

    def to_host(self, array: Any) -> Array:
        """See ``Communicator``."""
        return np.asarray(array)

    def _step(self, kind: str, label: str) -> AbstractContextManager[Any]:
        if kind == "compute":
            self.steps.append(Step(kind, label))
        return nullcontext()

    def _master(self, kind: str, label: str, arrays: Arrays) -> None:
        sizes = [size_of(array) for array in arrays]
        hops = [(r, HOST, n) if kind == "collect" else (HOST, r, n) for r, n in enumerate(sizes)]
        self.steps.append(Step(kind, label, max(sizes), 0, tuple(hops)))

    def _collected(self, kind: str, label: str, arrays: Arrays, cuts: list[int], root: int, operation: str) -> None:
        self.steps.append(Step(kind, label, size_of(arrays[0]), root))
        super()._collected(kind, label, arrays, cuts, root, operation)

    def _run(self, kind: str, label: str, rounds: Rounds, sources: Arrays, targets: Arrays, operation: str) -> None:
        in_place = sources is targets
        if not in_place:
            width = item_size(sources[0])
            sent = tuple((hop.source, hop.target, width * hop.length) for hops in rounds for hop in hops)
            self.steps.append(Step(kind, label, max((each[2] for each in sent), default=0), 0, sent))
        combine = combined(operation, self.xp)
        places: dict[int, Any] = dict(enumerate(targets))
        read_from: dict[int, Any] = places if in_place else dict(enumerate(sources))
        if any(hop.target == HOST for hops in rounds for hop in hops):
            places[HOST] = self.xp.zeros_like(sources[0])
        for hops in rounds:
            check_round(hops, in_place=in_place)
            moved = [self.xp.asarray(read_from[hop.source][hop.begin : hop.end], copy=True) for hop in hops]
            for hop, piece in zip(hops, moved, strict=True):
                there = slice(hop.to, hop.to + hop.length)
                target = places[hop.target]
                target[there] = combine(target[there], piece) if hop.combines else piece


def size_of(array: Any) -> int:
    """Bytes of an array."""
    return item_size(array) * int(prod(array.shape))
