"""Collectives as rounds of hops between ranks, independent of what carries the hops.

The same rounds move NumPy arrays on described machines, CuPy arrays between the GPUs of a process, and messages
between processes; pricing uses them, too. Rings are those of NCCL (tartan20 §3.2): a piece goes from rank to rank,
and each rank sends one while it receives another. On ways through host memory, one process may be the master
(tartan20 §4.1), which collects from all ranks and distributes to all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

HOST = -1
"""In place of a rank: the host memory of the process that has all ranks."""

CHAINED_PIECES = 8
"""The most pieces into which a chain's data are cut, so that later ranks need not wait for all of them."""

_SMALLEST_PIECE = 1 << 16  # bytes: cutting smaller pieces costs more than it saves


@dataclass(frozen=True)
class Hop:
    """Elements of one rank's array that go to another's."""

    source: int
    target: int
    begin: int
    end: int
    """The range in the source's array: from, and up to."""
    to: int
    """Where the elements begin in the target's array."""
    combines: bool = False
    """Whether elements are combined with the target's (sum, minimum or maximum) instead of replacing them."""

    @property
    def length(self) -> int:
        """The number of elements."""
        return self.end - self.begin


Rounds = list[list[Hop]]
"""Hops of a round are concurrent; a rank's hops of the next round begin when those to it have arrived."""


def even_cuts(length: int, parts: int) -> list[int]:
    """The ``parts + 1`` cut points of parts whose lengths differ by at most one."""
    return [length * part // parts for part in range(parts + 1)]


def even_rows(length: int, parts: int) -> list[int]:
    """The lengths of these parts."""
    return [end - begin for begin, end in pairwise(even_cuts(length, parts))]


def cuts_of(lengths: Sequence[int]) -> list[int]:
    """The cut points of consecutive parts with these lengths (their prefix sum)."""
    cuts = [0]
    for length in lengths:
        cuts.append(cuts[-1] + length)
    return cuts


def _piece(source: int, target: int, cuts: Sequence[int], piece: int, combines: bool = False) -> Hop:
    return Hop(source, target, cuts[piece], cuts[piece + 1], cuts[piece], combines)


def ring_reduce_scatter(ring: Sequence[int], cuts: Sequence[int]) -> Rounds:
    """Afterwards each rank has its own piece of the reduction over all ranks."""
    n = len(ring)
    return [
        [_piece(ring[at], ring[(at + 1) % n], cuts, ring[(at - 1 - step) % n], combines=True) for at in range(n)]
        for step in range(n - 1)
    ]


def ring_all_gather(ring: Sequence[int], cuts: Sequence[int]) -> Rounds:
    """Each rank begins with its own piece; afterwards all have all pieces."""
    n = len(ring)
    return [
        [_piece(ring[at], ring[(at + 1) % n], cuts, ring[(at - step) % n]) for at in range(n)] for step in range(n - 1)
    ]


def pieces_of_chain(size: int) -> int:
    """The number of pieces into which this many bytes are cut."""
    return max(min(CHAINED_PIECES, size // _SMALLEST_PIECE), 1)


def _along(chain: Sequence[int], begin: int, end: int, width: int, *, combines: bool) -> Rounds:
    """Pieces pipelined along the chain, from the first rank to the last."""
    cuts = [begin + cut for cut in even_cuts(end - begin, pieces_of_chain(width * (end - begin)))]
    pieces, hops = len(cuts) - 1, list(pairwise(chain))
    return [
        [_piece(*hop, cuts, time - at, combines) for at, hop in enumerate(hops) if 0 <= time - at < pieces]
        for time in range(pieces + len(hops) - 1)
    ]


def _from(ring: Sequence[int], first: int) -> list[int]:
    at = ring.index(first)
    return [*ring[at:], *ring[:at]]


def chain_broadcast(ring: Sequence[int], begin: int, end: int, root: int, width: int) -> Rounds:
    """Broadcast the root's elements along the ring; an element has ``width`` bytes."""
    return _along(_from(ring, root), begin, end, width, combines=False)


def chain_reduce(ring: Sequence[int], begin: int, end: int, root: int, width: int) -> Rounds:
    """Reduce along the ring to the root: each rank combines what it receives with its own elements."""
    first, *others = _from(ring, root)
    return _along([*others, first], begin, end, width, combines=True)


def at_once(hops: Sequence[Hop]) -> Rounds:
    """One round of the hops that carry something.

    A hop from a rank to itself is included: on ways through host memory it goes to the host and back, as in MPI
    programs that pass host memory; on other ways it moves nothing.
    """
    kept = [hop for hop in hops if hop.length]
    return [kept] if kept else []


def scatter(cuts: Sequence[int], root: int) -> Rounds:
    """The root's pieces go to the ranks, each to the beginning of its array."""
    return at_once([Hop(root, rank, cuts[rank], cuts[rank + 1], 0) for rank in range(len(cuts) - 1)])


def gather(cuts: Sequence[int], root: int) -> Rounds:
    """What each rank has goes to its place in the root's array."""
    return at_once([Hop(rank, root, 0, cuts[rank + 1] - cuts[rank], cuts[rank]) for rank in range(len(cuts) - 1)])


def all_to_all(lengths: Sequence[Sequence[int]]) -> Rounds:
    """Rank `a` has ``lengths[a][b]`` elements for rank `b`, in order of ranks; each receives in order of ranks."""
    ranks = range(len(lengths))
    sent = [cuts_of(row) for row in lengths]
    received = [cuts_of([lengths[a][b] for a in ranks]) for b in ranks]
    return at_once([Hop(a, b, sent[a][b], sent[a][b + 1], received[b][a]) for a in ranks for b in ranks])


def through_master(collective: str, ranks: int, cuts: Sequence[int], root: int) -> Rounds:
    """A collective through the master, the process that has all ranks: it collects, combines and distributes.

    The host's array has no initial value: the first rank's elements are stored there, the others' are combined.
    """
    whole = (0, cuts[-1], 0)
    every = range(ranks)
    give_all = [Hop(rank, HOST, *whole, combines=rank > 0) for rank in every]
    give_pieces = [Hop(rank, HOST, cuts[rank], cuts[rank + 1], cuts[rank]) for rank in every]
    take_all = [Hop(HOST, rank, *whole) for rank in every]
    take_pieces = [Hop(HOST, rank, cuts[rank], cuts[rank + 1], cuts[rank]) for rank in every]
    return {
        "all_reduce": [give_all, take_all],
        "reduce": [give_all, [take_all[root]]],
        "reduce_scatter": [give_all, take_pieces],
        "all_gather": [give_pieces, take_all],
        "broadcast": [[Hop(root, HOST, *whole)], [take for take in take_all if take.target != root]],
    }[collective]


def along_ring(collective: str, ring: Sequence[int], cuts: Sequence[int], root: int, width: int = 1) -> Rounds:
    """A collective over one ring, on the elements of ``width`` bytes from the first cut to the last."""
    begin, end = cuts[0], cuts[-1]
    if len(ring) == 1:
        return at_once([Hop(ring[0], ring[0], begin, end, begin)])
    if collective == "all_reduce":
        return ring_reduce_scatter(ring, cuts) + ring_all_gather(ring, cuts)
    if collective == "reduce_scatter":
        return ring_reduce_scatter(ring, cuts)
    if collective == "all_gather":
        return ring_all_gather(ring, cuts)
    whole = chain_broadcast if collective == "broadcast" else chain_reduce
    return whole(ring, begin, end, root, width)


COLLECTIVES = ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter")
"""The collectives that use rings; all others are messages from rank to rank, all at once."""
