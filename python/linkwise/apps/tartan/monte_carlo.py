"""MTC: European options priced by Monte Carlo; the host hands options out and collects their prices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import erf, exp, log, sqrt
from typing import Any, Self

import numpy as np

from linkwise._typing import Array
from linkwise.apps.counter_random import key_of, normal
from linkwise.apps.tartan.program import Answer, Fetched, Program, worst
from linkwise.messages.communicator import Communicator
from linkwise.messages.pricing import Prices, Work
from linkwise.messages.schedules import even_cuts

_AT_ONCE = 1 << 24  # normal numbers in one pass over options


def black_scholes(spot: float, strike: float, rate: float, spread: float, years: float) -> float:
    """The price of a European call (Black and Scholes, 1973)."""
    first = (log(spot / strike) + (rate + spread**2 / 2) * years) / (spread * sqrt(years))

    def below(x: float) -> float:
        return (1 + erf(x / sqrt(2))) / 2

    return spot * below(first) - strike * exp(-rate * years) * below(first - spread * sqrt(years))


def spread_of_pays(spot: float, strike: float, rate: float, spread: float, years: float) -> float:
    """The standard deviation of one path's discounted payoff, in closed form for a lognormal price."""
    root = spread * sqrt(years)
    first = (log(spot / strike) + (rate + spread**2 / 2) * years) / root

    def below(x: float) -> float:
        return (1 + erf(x / sqrt(2))) / 2

    grown = exp(rate * years)
    square = (
        spot**2 * grown**2 * exp(root**2) * below(first + root)
        - 2 * spot * strike * grown * below(first)
        + strike**2 * below(first - root)
    )
    return sqrt(square / grown**2 - black_scholes(spot, strike, rate, spread, years) ** 2)


@dataclass(frozen=True)
class MonteCarlo(Program):
    """European calls on one share each, valued at expiry."""

    options: int
    paths: int

    name, abbreviation, title = "monte_carlo", "MTC", "Monte Carlo option pricing"
    pattern, scales = "CPU-GPU", "up"
    has_master = True

    @classmethod
    def small(cls) -> Self:
        """See ``Program``."""
        return cls(options=40, paths=20_000)

    @classmethod
    def full(cls) -> Self:
        """See ``Program``."""
        return cls(options=2048, paths=1 << 18)

    def grown(self, times: float) -> Self:
        """See ``Program``."""
        return replace(self, options=max(round(self.options * times), 1))

    @cached_property
    def data(self) -> Array:
        """Spot, strike, rate, volatility, years: an array of (options, 5)."""
        random = np.random.default_rng(self.options)
        low, high = [5, 0.7, 0.01, 0.1, 0.25], [50, 1.3, 0.05, 0.6, 3]
        options = random.uniform(low, high, (self.options, 5))
        options[:, 1] *= options[:, 0]  # strikes near the spot, so that every option is worth something
        return options

    def run(self, comm: Communicator, prepared: Any) -> Answer:
        """See ``Program``."""
        del prepared
        xp = comm.xp
        cuts = even_cuts(self.options, comm.size)
        options = comm.hand_out("options", [self.data[cuts[r] : cuts[r + 1]] for r in range(comm.size)])

        def priced(rank: int, mine: Any) -> Any:
            """The mean payoff and its standard error: (options, 2)."""
            at_once = max(_AT_ONCE // self.paths, 1)
            found = []
            for begin in range(0, mine.shape[0], at_once):
                end = min(begin + at_once, mine.shape[0])
                spot, strike, rate, spread, years = (mine[begin:end, column : column + 1] for column in range(5))
                number = xp.arange(cuts[rank] + begin, cuts[rank] + end, dtype=xp.int64)
                counter = number[:, None] * self.paths + xp.arange(self.paths, dtype=xp.int64)[None, :]
                drift = (rate - spread * spread / 2) * years
                last = spot * xp.exp(drift + spread * xp.sqrt(years) * normal(xp, key_of(7), counter))
                pays = xp.maximum(last - strike, xp.zeros_like(last)) * xp.exp(-rate * years)
                error = xp.std(pays, axis=1) / sqrt(self.paths)
                found.append(xp.stack([xp.mean(pays, axis=1), error], axis=1))
            return xp.concat(found) if found else xp.zeros((0, 2))

        prices = comm.each("price", priced, options)
        comm.collect("prices", prices)
        return {"prices": prices}

    def prices(self, ranks: int) -> Prices:
        """See ``Program``."""
        options = -(-self.options // ranks)
        return {
            "options": 40 * options,
            "price": Work(56 * options, 60 * options * self.paths),  # two hashes, a logarithm, an exponential, a cosine
            "prices": 16 * options,
        }

    def error(self, answer: Fetched) -> float:
        """Compare with closed formulas: prices within four standard errors, these within a tenth."""
        found = np.concatenate(answer["prices"])
        right = np.array([black_scholes(*option) for option in self.data])
        error = np.array([spread_of_pays(*option) for option in self.data]) / sqrt(self.paths)
        apart = float(np.max(np.abs(found[:, 0] - right) / (4 * error)))
        return worst(apart, float(np.max(np.abs(found[:, 1] / error - 1))) / 0.1)
