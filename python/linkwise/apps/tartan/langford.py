"""PLN: planar Langford sequences by depth-first search with backtracking; the host hands out partial sequences.

A Langford sequence has each number k from 1 to n twice, with k others between (L(2, n) of Knuth, TAOCP 7.2.2). It is
planar if arcs joining equal numbers can be drawn above or below it without crossings. Counted up to reversal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from linkwise._typing import Array
from linkwise.apps.tartan.program import Answer, Fetched, Program, worst
from linkwise.messages.communicator import Communicator
from linkwise.messages.pricing import Prices, Work

KNOWN = {3: 1, 4: 0, 7: 0, 8: 4, 11: 16, 12: 40, 15: 194, 16: 274, 19: 2384}
"""The number of sequences by n (OEIS A125762)."""

_WIDTH = 1 << 14  # partial sequences that are extended at once; the others wait on a stack
_BEGINNINGS = 3  # numbers that the host places before it hands out work
_TRIED = {3: 1, 4: 18, 7: 618, 8: 1548, 11: 26152, 12: 68003, 15: 1166810, 16: 3026035, 19: 52470641}
"""By n: how many placements the search tries after the host has handed out work."""


def extended(xp: Any, states: Any, number: int, n: int) -> Any:
    """All ways to place a number in partial sequences: an array of (states, 3n) as made by ``nothing_placed``.

    For each number, a state has the position of its first occurrence (or -1), the side of its arc, and its group.
    Crossing arcs lie on different sides, so in a group of arcs connected by crossings one side, which is arbitrary,
    determines all others.
    """
    gap, last = number + 1, 2 * n - number - 1
    places = xp.arange(last, dtype=xp.int64)
    count = states.shape[0]
    old = xp.reshape(xp.broadcast_to(states[:, None, :], (count, places.shape[0], 3 * n)), (-1, 3 * n))
    left = xp.reshape(xp.broadcast_to(places[None, :], (count, places.shape[0])), (-1,))[:, None]
    right = left + gap
    begins, sides, groups = old[:, :n], old[:, n : 2 * n], old[:, 2 * n :]
    ends = begins + xp.arange(2, n + 2, dtype=xp.int64)[None, :]  # the second k is k + 1 places after the first
    placed = begins >= 0
    taken = placed & ((begins == left) | (begins == right) | (ends == left) | (ends == right))
    around_left, around_right = (begins < left) & (left < ends), (begins < right) & (right < ends)
    crosses = placed & (around_left ^ around_right)
    # Within a group, all arcs that the new arc crosses must lie on one side, or the sequence is not planar.
    upper, lower = crosses & (sides == 0), crosses & (sides == 1)
    same = groups[:, :, None] == groups[:, None, :]
    has_upper = xp.any(same & upper[:, None, :], axis=2)
    has_lower = xp.any(same & lower[:, None, :], axis=2)
    torn = xp.any(placed & has_upper & has_lower, axis=1)
    fits = ~xp.any(taken, axis=1) & ~torn
    # The new arc lies below: flip groups whose lower arcs it crosses, and merge all crossed groups into its own.
    joined = placed & (has_upper | has_lower)
    sides = xp.where(joined & has_lower, 1 - sides, sides)
    groups = xp.where(joined, xp.asarray(number - 1, dtype=groups.dtype), groups)
    here = (xp.arange(n, dtype=xp.int64) == number - 1)[None, :]
    begins = xp.where(here, left, begins)
    sides = xp.where(here, xp.asarray(1, dtype=sides.dtype), sides)
    groups = xp.where(here, xp.asarray(number - 1, dtype=groups.dtype), groups)
    return xp.concat([begins, sides, groups], axis=1)[fits]


def nothing_placed(xp: Any, n: int) -> Any:
    """The initial state of the search: no number is placed."""
    return xp.concat([xp.full((1, n), -1, dtype=xp.int64), xp.full((1, 2 * n), -1, dtype=xp.int64)], axis=1)


@dataclass(frozen=True)
class Langford(Program):
    """Numbers are placed from the largest down."""

    n: int

    name, abbreviation, title = "langford", "PLN", "planar Langford sequences by depth-first search"
    pattern, scales, is_converted = "CPU-GPU", "up", True
    has_master = True

    @classmethod
    def small(cls) -> Self:
        """See ``Program``."""
        return cls(n=8)

    @classmethod
    def full(cls) -> Self:
        """See ``Program``."""
        return cls(n=19)

    def grown(self, times: float) -> Self:
        """The search cannot be grown by a factor: it stays as it is."""
        del times
        return self

    def _beginnings(self, ranks: int) -> list[Array]:
        """Partial sequences with the largest numbers placed, dealt round-robin, since some take longer to search."""
        import array_api_compat.numpy as xp  # noqa: PLC0415 - the host's own part

        states = nothing_placed(xp, self.n)
        for number in range(self.n, max(self.n - _BEGINNINGS, 0), -1):
            states = extended(xp, states, number, self.n)
        # Of a sequence and its reversal, keep the one whose largest number is nearer to the beginning; if that number
        # is in the middle, the next largest decides.
        from_middle = 2 * states[:, self.n - 2 : self.n] + np.array([self.n - 1, self.n]) + 2 - 2 * self.n
        largest, next_largest = from_middle[:, 1], from_middle[:, 0]
        states = states[(largest < 0) | ((largest == 0) & (next_largest < 0))]
        return [states[rank::ranks] for rank in range(ranks)]

    def run(self, comm: Communicator, prepared: Any) -> Answer:
        """See ``Program``."""
        del prepared
        xp, n = comm.xp, self.n

        def searched(_rank: int, states: Any) -> Any:
            """The number of sequences that begin with ``states``, as an array of one element."""
            found, stack = 0, [(states, max(n - _BEGINNINGS, 0))]
            while stack:
                some, number = stack.pop()
                if some.shape[0] > _WIDTH:
                    stack.append((some[_WIDTH:, :], number))
                    some = some[:_WIDTH, :]
                if number == 0:
                    found += some.shape[0]
                elif some.shape[0]:
                    stack.append((extended(xp, some, number, n), number - 1))
            return xp.asarray([found], dtype=xp.int64)

        beginnings = comm.hand_out("beginnings", self._beginnings(comm.size))
        counts = comm.all_reduce("counts", comm.each("search", searched, beginnings))
        comm.collect("count", counts)
        return {"count": counts}

    def prices(self, ranks: int) -> Prices:
        """See ``Program``."""
        states = max(len(part) for part in self._beginnings(ranks))
        tried = _TRIED[self.n] / ranks
        return {
            "beginnings": 24 * self.n * states,
            "search": Work(24 * self.n * tried, 40 * self.n * tried),
            "counts": 8,
            "count": 8,
        }

    def error(self, answer: Fetched) -> float:
        """Compare with the known number of sequences."""
        return worst(*(0.0 if int(each[0]) == KNOWN[self.n] else float("inf") for each in answer["count"]))
