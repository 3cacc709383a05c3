"""CSM: global optimisation by parallel simulated annealing; chains restart at the best point of all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from linkwise.apps.counter_random import key_of, uniform
from linkwise.apps.tartan.program import Answer, Fetched, Program, worst
from linkwise.messages.communicator import Communicator
from linkwise.messages.pricing import Prices, Work
from linkwise.messages.schedules import even_cuts

LEAST, AT = -418.9828872724338, 420.9687462275036
"""The minimum of Schwefel's function on [-512, 512] per dimension, and every coordinate at which it lies."""

_HALF_WIDTH = 512.0
_NARROWING = 0.88  # factor of the move size per temperature; if smaller, chains get stuck in other valleys


@dataclass(frozen=True)
class Annealing(Program):
    """Minimises Schwefel's function. All chains of one temperature start at one point (Ferreiro et al., 2013)."""

    dims: int
    chains: int
    steps: int
    """Steps at each temperature."""
    temperatures: int = 40
    first: float = 200.0
    cooling: float = 0.8
    seed: int = 0

    name, abbreviation, title = "annealing", "CSM", "global optimisation by parallel simulated annealing"
    pattern, scales, is_converted = "CPU-GPU", "up", True
    has_master = True

    @classmethod
    def small(cls) -> Self:
        """See ``Program``."""
        return cls(dims=4, chains=384, steps=40)

    @classmethod
    def full(cls) -> Self:
        """See ``Program``."""
        return cls(dims=32, chains=1 << 20, steps=10)

    def grown(self, times: float) -> Self:
        """See ``Program``."""
        return replace(self, chains=max(round(self.chains * times), 1))

    @staticmethod
    def _value(xp: Any, points: Any) -> Any:
        return -xp.mean(points * xp.sin(xp.sqrt(xp.abs(points))), axis=1)

    def run(self, comm: Communicator, prepared: Any) -> Answer:
        """See ``Program``."""
        del prepared
        xp = comm.xp
        cuts = even_cuts(self.chains, comm.size)

        def annealed(rank: int, begin: Any, level: int) -> Any:
            """The best of this rank's chains, value and point: an array of (1, 1 + dims)."""
            number = xp.arange(cuts[rank], cuts[rank + 1], dtype=xp.int64)
            here = xp.broadcast_to(begin[:, 1:], (number.shape[0], self.dims))
            value = self._value(xp, here)
            best = xp.concat([value[:, None], here], axis=1)
            temperature = self.first * self.cooling**level
            reach = _HALF_WIDTH * max(_NARROWING**level, 1e-6)
            for step in range(self.steps):
                which = xp.floor(uniform(xp, key_of(self.seed, level, step, 1), number) * self.dims)
                move = reach * (2 * uniform(xp, key_of(self.seed, level, step, 2), number) - 1)
                chosen = xp.arange(self.dims, dtype=xp.float64)[None, :] == which[:, None]
                there = here + xp.where(chosen, move[:, None], xp.zeros_like(here))
                # Moves are reflected at the walls, so that each is as likely as its reverse.
                there = xp.where(there > _HALF_WIDTH, 2 * _HALF_WIDTH - there, there)
                there = xp.where(there < -_HALF_WIDTH, -2 * _HALF_WIDTH - there, there)
                new = self._value(xp, there)
                taken = uniform(xp, key_of(self.seed, level, step, 3), number) < xp.exp((value - new) / temperature)
                here, value = xp.where(taken[:, None], there, here), xp.where(taken, new, value)
                found = xp.concat([value[:, None], here], axis=1)
                best = xp.where((value < best[:, 0])[:, None], found, best)
            return xp.take(best, xp.argmin(best[:, 0], keepdims=True), axis=0)

        start = np.concatenate([[np.inf], np.zeros(self.dims)])[None, :]
        best = comm.hand_out("start", [start] * comm.size)
        for level in range(self.temperatures):
            mine = comm.each("anneal", annealed, best, [level] * len(comm.local))
            every = comm.all_gather("best", mine)
            every = comm.each("choose", lambda _rank, old, new: xp.concat([old, new]), best, every)
            best = comm.each(
                "choose", lambda _, all_: xp.take(all_, xp.argmin(all_[:, 0], keepdims=True), axis=0), every
            )
        return {"best": best}

    def prices(self, ranks: int) -> Prices:
        """See ``Program``."""
        chains = -(-self.chains // ranks)
        row = 8 * (1 + self.dims)
        return {
            "start": row,
            "anneal": Work(8 * chains * self.dims, self.steps * chains * (30 * self.dims + 60)),
            "best": ranks * row,
            "choose": Work(2 * ranks * row),
        }

    def error(self, answer: Fetched) -> float:
        """Compare with the known minimum; all ranks must agree."""
        first = answer["best"][0][0]
        same = all(np.array_equal(each[0], first) for each in answer["best"])
        at = float(self._value(np, first[None, 1:])[0])
        off = float(np.abs(first[1:] - AT).max())
        return worst(abs(first[0] - LEAST) / 0.01, abs(first[0] - at) / 1e-9, off, 0.0 if same else float("inf"))
