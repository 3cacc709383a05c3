"""TRK: the three-dimensional random-field Ising model by exchange Monte Carlo (parallel tempering)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from linkwise._typing import Array
from linkwise.apps.counter_random import key_of, uniform
from linkwise.apps.tartan.program import Answer, Fetched, Program, worst
from linkwise.messages.communicator import Communicator
from linkwise.messages.numpy_ranks import NumpyRanks
from linkwise.messages.pricing import Prices, Work
from linkwise.messages.schedules import even_cuts


def energies(xp: Any, spins: Any, field: Any) -> Any:
    """Energy of each replica, ``-Σ s s' - Σ h s`` on a periodic lattice; spins are (replicas, side, side, side)."""
    pairs = sum(xp.roll(spins, 1, axis=axis) for axis in (1, 2, 3))
    return -xp.sum(spins * (pairs + field[None, ...]), axis=(1, 2, 3))


def swept(xp: Any, spins: Any, field: Any, betas: Any, keys: tuple[int, int], first_replica: int) -> Any:
    """One Metropolis sweep over all spins: first the even, then the odd sites of the lattice (its side is even)."""
    replicas, side = spins.shape[0], spins.shape[1]
    axis = xp.arange(side, dtype=xp.int64)
    parity = (axis[:, None, None] + axis[:, None] + axis) % 2
    places = side**3
    number = xp.arange(first_replica * places, (first_replica + replicas) * places, dtype=xp.int64)
    for colour, key in enumerate(keys):
        around = sum(xp.roll(spins, by, axis=axis) for axis in (1, 2, 3) for by in (1, -1))
        cost = 2 * spins * (around + field[None, ...])
        chance = xp.reshape(uniform(xp, key, number), spins.shape)
        flips = (chance < xp.exp(-betas[:, None, None, None] * cost)) & (parity == colour)[None, ...]
        spins = xp.where(flips, -spins, spins)
    return spins


def exchanged(xp: Any, energy: Any, beta: Any, exchange: int) -> Any:
    """Inverse temperatures by replica, after neighbours in temperature have exchanged theirs or not.

    Pairs alternate: first and second, third and fourth, …, then second and third, …; each pair exchanges with
    probability min(1, exp(Δβ ΔE)).
    """
    order = xp.argsort(-beta)  # replicas, the coldest first
    cold, hot = order[exchange % 2 : -1 : 2], order[exchange % 2 + 1 :: 2]
    gain = (xp.take(beta, cold) - xp.take(beta, hot)) * (xp.take(energy, cold) - xp.take(energy, hot))
    chance = uniform(xp, key_of(exchange, 2), xp.arange(cold.shape[0], dtype=xp.int64))
    swap = xp.astype(chance < xp.exp(gain), order.dtype)
    steps = xp.reshape(xp.stack([swap, -swap], axis=1), (-1,))  # of each swapped pair, one moves up and one down
    before = xp.zeros(exchange % 2, dtype=order.dtype)
    behind = xp.zeros(order.shape[0] - exchange % 2 - steps.shape[0], dtype=order.dtype)
    place = xp.arange(order.shape[0], dtype=order.dtype) + xp.concat([before, steps, behind])
    return xp.take(xp.take(xp.take(beta, order), place), xp.argsort(order))


@dataclass(frozen=True)
class Ising(Program):
    """Replicas between a coldest and a hottest temperature; after some sweeps, neighbours may exchange theirs."""

    side: int
    replicas: int
    exchanges: int = 20
    sweeps: int = 5
    """Sweeps between exchanges."""
    strength: float = 1.0
    """Of the random field, which is up or down at each place."""
    coldest: float = 0.5
    hottest: float = 6.0

    name, abbreviation, title = "ising", "TRK", "random-field Ising model by exchange Monte Carlo"
    pattern, scales, is_converted = "broadcast", "up", True
    has_master = True

    @classmethod
    def small(cls) -> Self:
        """See ``Program``."""
        return cls(side=4, replicas=24)

    @classmethod
    def full(cls) -> Self:
        """See ``Program``."""
        return cls(side=96, replicas=64)

    def grown(self, times: float) -> Self:
        """See ``Program``."""
        return replace(self, replicas=max(round(self.replicas * times), 1))

    @cached_property
    def field(self) -> Array:
        """The random field at each site: an array of (side, side, side)."""
        random = np.random.default_rng(self.side)
        return self.strength * random.choice([-1.0, 1.0], (self.side,) * 3)

    @property
    def betas(self) -> Array:
        """Inverse temperatures, coldest first."""
        return 1 / np.geomspace(self.coldest, self.hottest, self.replicas)

    def prepare(self, comm: Communicator) -> Any:
        """All spins up."""
        cuts = even_cuts(self.replicas, comm.size)
        shape = (self.side,) * 3
        return comm.each("start", lambda rank: comm.xp.ones((cuts[rank + 1] - cuts[rank], *shape)))

    def run(self, comm: Communicator, prepared: Any) -> Answer:
        """See ``Program``."""
        xp, spins = comm.xp, prepared
        cuts = even_cuts(self.replicas, comm.size)
        field = comm.hand_out("field", [self.field] * comm.size)
        betas = comm.hand_out("temperatures", [self.betas] * comm.size)

        def sweep(rank: int, mine: Any, at: Any, beta: Any, exchange: int) -> Any:
            for step in range(self.sweeps):
                keys = key_of(exchange, step, 0), key_of(exchange, step, 1)
                mine = swept(xp, mine, at, beta[cuts[rank] : cuts[rank + 1]], keys, cuts[rank])
            return mine

        def exchanged_by(_rank: int, energy: Any, beta: Any, exchange: int) -> Any:
            return exchanged(xp, energy, beta, exchange) if energy.shape[0] else beta  # only the root has energies

        for exchange in range(self.exchanges):
            now = [exchange] * len(comm.local)
            spins = comm.each("sweep", sweep, spins, field, betas, now)
            energy = comm.each("energy", lambda _rank, *of: energies(xp, *of), spins, field)
            of_all = comm.gather("energies", energy)
            betas = comm.broadcast("exchange", comm.each("swap", exchanged_by, of_all, betas, now))
        return {"spins": spins, "betas": betas, "energy": energy}

    def prices(self, ranks: int) -> Prices:
        """See ``Program``."""
        replicas = -(-self.replicas // ranks)
        spins = replicas * self.side**3
        return {
            "field": 8 * self.side**3,
            "temperatures": 8 * self.replicas,
            "sweep": Work(self.sweeps * 2 * 16 * spins, self.sweeps * 60 * spins),
            "energy": Work(8 * spins, 8 * spins),
            "energies": 8 * replicas,
            "swap": Work(64 * self.replicas),
            "exchange": 8 * self.replicas,
        }

    def error(self, answer: Fetched) -> float:
        """Energies match sums by site, temperatures are a permutation of the first ones, all equals NumPy's run."""
        spins, told = np.concatenate(answer["spins"]), np.concatenate(answer["energy"])
        right = np.zeros(len(spins))
        for place in np.ndindex(*self.field.shape):
            here = spins[(slice(None), *place)]
            right -= self.field[place] * here
            for axis in range(3):
                other = list(place)
                other[axis] = (other[axis] + 1) % self.side
                right -= here * spins[(slice(None), *other)]
        apart = float(np.abs(right - told).max())
        betas = answer["betas"]
        same = all(np.array_equal(each, betas[0]) for each in betas) and np.array_equal(
            np.sort(betas[0]), np.sort(self.betas)
        )
        alone = NumpyRanks(1)
        again = self.run(alone, self.prepare(alone))
        same = same and np.array_equal(spins, again["spins"][0]) and np.array_equal(betas[0], again["betas"][0])
        return worst(apart / 1e-9, 0.0 if same else float("inf"))
