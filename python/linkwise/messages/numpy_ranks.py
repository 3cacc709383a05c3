"""All ranks in this process, in host memory: NumPy computes, and the steps are recorded for pricing."""

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
    """A step that all ranks take together."""

    kind: str
    """``"compute"``, a collective, ``"exchange"``, ``"all_to_all"``, ``"scatter"``, ``"gather"``, ``"collect"`` or
    ``"hand_out"``."""
    label: str
    size: int = 0
    """The bytes by which the step is priced: of a collective, those of the whole array (before or after it); of other
    steps, those of the largest message."""
    root: int = 0
    hops: tuple[tuple[int, int, int], ...] = ()
    """Source, target and bytes of each message; empty for collectives."""


def combined(operation: str, xp: Any) -> Callable[[Any, Any], Any]:
    """The function that combines two arrays element by element."""
    found: dict[str, Callable[[Any, Any], Any]] = {"sum": operator.add, "min": xp.minimum, "max": xp.maximum}
    return found[operation]


def check_round(hops: list[Hop], *, in_place: bool) -> None:
    """Raise ``ProgramError`` if a hop writes what another of its round reads or writes: rounds have no order."""
    written: dict[int, list[Hop]] = {}
    for hop in hops:
        for other in written.get(hop.target, []):
            both_combine = hop.target == HOST  # one thread combines them, one after the other
            if hop.to < other.to + other.length and other.to < hop.to + hop.length and not both_combine:
                raise ProgramError(f"in one round {other} and {hop} write the same elements")
        written.setdefault(hop.target, []).append(hop)
    for hop in hops if in_place else ():
        for other in written.get(hop.source, []):
            if other is not hop and hop.begin < other.to + other.length and other.to < hop.end:
                raise ProgramError(f"in one round {hop} reads what {other} writes")


class NumpyRanks(Communicator):
    """Ranks whose arrays are in host memory. ``steps`` records what they did."""

    def __init__(self, size: int, way: Way = WAYS["nccl"], xp: Any = None, *, master: bool = False) -> None:
        if xp is None:
            import array_api_compat.numpy as xp  # noqa: PLC0415 - not needed for pricing, which loads faster
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
