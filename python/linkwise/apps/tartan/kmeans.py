"""KMN: k-means of points in double precision; sums and counts of clusters are added up over the GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from linkwise._typing import Array
from linkwise.apps.tartan.program import Answer, Fetched, Program, differ, worst
from linkwise.messages.communicator import Communicator
from linkwise.messages.pricing import Prices, Work
from linkwise.messages.schedules import even_cuts


@dataclass(frozen=True)
class KMeans(Program):
    """Lloyd's algorithm, with the first points as initial centres."""

    points: int
    dims: int = 16
    clusters: int = 8
    iterations: int = 10

    name, abbreviation, title = "kmeans", "KMN", "k-means clustering in double precision"
    pattern, scales = "all-reduce", "up"
    has_master = True

    @classmethod
    def small(cls) -> Self:
        """See ``Program``."""
        return cls(points=2000)

    @classmethod
    def full(cls) -> Self:
        """See ``Program``."""
        return cls(points=1 << 22, clusters=64)

    def grown(self, times: float) -> Self:
        """See ``Program``."""
        return replace(self, points=max(round(self.points * times), 1))

    @cached_property
    def data(self) -> Array:
        """The points, drawn around one centre per cluster: an array of (points, dims)."""
        random = np.random.default_rng(self.dims)
        middles = random.uniform(-10, 10, (self.clusters, self.dims))
        return middles[random.integers(0, self.clusters, self.points)] + random.normal(size=(self.points, self.dims))

    def run(self, comm: Communicator, prepared: Any) -> Answer:
        """See ``Program``."""
        del prepared
        xp = comm.xp
        cuts = even_cuts(self.points, comm.size)
        points = comm.hand_out("points", [self.data[cuts[r] : cuts[r + 1]] for r in range(comm.size)])
        centres = comm.hand_out("centres", [self.data[: self.clusters]] * comm.size)

        def nearest(_rank: int, mine: Any, centre: Any) -> Any:
            """For each cluster: sums of its points, of their number, and of their squared distances to the centre."""
            squares = xp.sum(centre * centre, axis=1)[None, :] - 2.0 * xp.matmul(mine, centre.T)
            which = xp.argmin(squares, axis=1)
            chosen = xp.astype(which[:, None] == xp.arange(self.clusters)[None, :], xp.float64)
            far = xp.min(squares, axis=1) + xp.sum(mine * mine, axis=1)
            columns = [xp.matmul(chosen.T, mine), xp.sum(chosen, axis=0)[:, None], xp.matmul(chosen.T, far[:, None])]
            return xp.concat(columns, axis=1)

        def moved(_rank: int, sums: Any, centre: Any) -> Any:
            count = sums[:, self.dims : self.dims + 1]
            return xp.where(count > 0, sums[:, : self.dims] / xp.maximum(count, xp.ones_like(count)), centre)

        spread = []
        for _ in range(self.iterations):
            sums = comm.all_reduce("sums", comm.each("nearest", nearest, points, centres))
            spread.append(comm.each("spread", lambda _rank, each: xp.sum(each[:, -1:], axis=0), sums))
            centres = comm.each("move", moved, sums, centres)
        falls = comm.each("spread", lambda rank, *_: xp.concat([s[comm.local.index(rank)] for s in spread]), centres)
        return {"centres": centres, "spread": falls}

    def prices(self, ranks: int) -> Prices:
        """See ``Program``."""
        points, table = -(-self.points // ranks), self.clusters * (self.dims + 2)
        return {
            "points": 8 * points * self.dims,
            "centres": 8 * self.clusters * self.dims,
            "nearest": Work(8 * points * (self.dims + 1), 2 * points * self.dims * (self.clusters + 1)),
            "sums": 8 * table,
            "spread": Work(16 * self.clusters),
            "move": Work(16 * table),
        }

    def error(self, answer: Fetched) -> float:
        """Compare with a reference on one processor that loops over clusters; the spread must never rise."""
        centres = self.data[: self.clusters]
        for _ in range(self.iterations):
            which = np.argmin(((self.data[:, None] - centres) ** 2).sum(2), axis=1)
            centres = np.stack(
                [self.data[which == k].mean(0) if (which == k).any() else centres[k] for k in range(self.clusters)]
            )
        apart = max(float(np.abs(each - centres).max()) for each in answer["centres"])
        spread = answer["spread"]
        rises = max(float(np.diff(each).max(initial=-1)) for each in spread)
        return worst(apart / 1e-9, max(rises, differ(spread)) / (1e-9 * float(spread[0].min())))
