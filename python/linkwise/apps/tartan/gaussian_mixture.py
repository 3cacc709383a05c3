"""GMM: a Gaussian mixture by expectation and maximisation; the parameters are broadcast in each iteration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import log, pi
from typing import Any, Self

import numpy as np

from linkwise._typing import Array
from linkwise.apps.tartan.program import Answer, Fetched, Program, worst
from linkwise.messages.communicator import Communicator
from linkwise.messages.pricing import Prices, Work
from linkwise.messages.schedules import even_cuts

_ADDED = 1e-6  # added to variances, so that no component collapses to a point


@dataclass(frozen=True)
class GaussianMixture(Program):
    """Components with full covariances."""

    points: int
    dims: int = 4
    components: int = 4
    iterations: int = 25

    name, abbreviation, title = "gmm", "GMM", "Gaussian mixture by expectation maximisation"
    pattern, scales, is_converted = "broadcast", "up", True
    has_master = True

    @classmethod
    def small(cls) -> Self:
        """See ``Program``."""
        return cls(points=1500)

    @classmethod
    def full(cls) -> Self:
        """See ``Program``."""
        return cls(points=1 << 20, dims=16, components=32)

    def grown(self, times: float) -> Self:
        """See ``Program``."""
        return replace(self, points=max(round(self.points * times), 1))

    @cached_property
    def data(self) -> Any:
        """The points: an array of (points, dims)."""
        random = np.random.default_rng(self.points)
        middles = random.uniform(-4, 4, (self.components, self.dims))
        shapes = random.normal(size=(self.components, self.dims, self.dims)) / 2
        which = random.integers(0, self.components, self.points)
        noise = random.normal(size=(self.points, self.dims))
        return middles[which] + np.einsum("nij,nj->ni", shapes[which], noise) + random.normal(size=noise.shape) / 4

    @property
    def begin(self) -> Array:
        """Parameters as one row a component: weight, mean, covariance."""
        mean = self.data[: self.components]
        spread = np.broadcast_to(np.cov(self.data.T).ravel(), (self.components, self.dims**2))
        return np.concatenate([np.full((self.components, 1), 1 / self.components), mean, spread], axis=1)

    def _expected(self, xp: Any, mine: Any, parameters: Any) -> Any:
        """Expectation step: per component, weighted sums of 1, points, their products and log likelihoods."""
        d, k = self.dims, self.components
        weight, mean = parameters[:, 0], parameters[:, 1 : d + 1]
        covariance = xp.reshape(parameters[:, d + 1 :], (k, d, d))
        inverse = xp.linalg.inv(covariance)
        size = xp.linalg.slogdet(covariance)[1]
        columns = []
        for each in range(k):
            apart = mine - mean[each, :][None, :]
            far = xp.sum(xp.matmul(apart, inverse[each, :, :]) * apart, axis=1)
            columns.append(xp.log(weight[each]) - 0.5 * (far + size[each] + d * log(2 * pi)))
        logs = xp.stack(columns, axis=1)
        most = xp.max(logs, axis=1, keepdims=True)
        scaled = xp.exp(logs - most)
        total = xp.sum(scaled, axis=1, keepdims=True)
        share = scaled / total
        products = xp.reshape(mine[:, :, None] * mine[:, None, :], (-1, d * d))
        likelihood = xp.matmul(share.T, most + xp.log(total))
        return xp.concat([xp.sum(share, axis=0)[:, None], share.T @ mine, share.T @ products, likelihood], axis=1)

    def _maximised(self, xp: Any, sums: Any) -> Any:
        d = self.dims
        number = sums[:, :1]
        mean = sums[:, 1 : d + 1] / number
        square = xp.reshape(mean[:, :, None] * mean[:, None, :], (-1, d * d))
        covariance = sums[:, d + 1 : d + 1 + d * d] / number - square + _ADDED * xp.reshape(xp.eye(d), (1, -1))
        return xp.concat([number / self.points, mean, covariance], axis=1)

    def run(self, comm: Communicator, prepared: Any) -> Answer:
        """See ``Program``."""
        del prepared
        xp = comm.xp
        cuts = even_cuts(self.points, comm.size)
        points = comm.hand_out("points", [self.data[cuts[r] : cuts[r + 1]] for r in range(comm.size)])
        parameters = comm.hand_out("first", [self.begin] * comm.size)
        rising = []
        for _ in range(self.iterations):
            sums = comm.each("expect", lambda _rank, *of: self._expected(xp, *of), points, parameters)
            sums = comm.reduce("sums", sums)
            rising.append(comm.each("likelihood", lambda _rank, each: xp.sum(each[:, -1:], axis=0), sums))
            parameters = comm.each("maximise", lambda _rank, each: self._maximised(xp, each), sums)
            parameters = comm.broadcast("parameters", parameters)
        rises = comm.each(
            "likelihood", lambda rank, _: xp.concat([each[comm.local.index(rank)] for each in rising]), parameters
        )
        return {"parameters": parameters, "likelihood": rises}

    def prices(self, ranks: int) -> Prices:
        """See ``Program``."""
        points, d, k = -(-self.points // ranks), self.dims, self.components
        row = 1 + d + d * d
        return {
            "points": 8 * points * d,
            "first": 8 * k * row,
            "expect": Work(8 * points * (d + 2 * k), points * k * (4 * d * d + 20)),
            "sums": 8 * k * (row + 1),
            "likelihood": Work(16 * k),
            "maximise": Work(16 * k * row),
            "parameters": 8 * k * row,
        }

    def error(self, answer: Fetched) -> float:
        """Compare with a reference on one processor; the likelihood must rise."""
        parameters, rising = self.begin, []
        for _ in range(self.iterations):
            weight, mean = parameters[:, 0], parameters[:, 1 : self.dims + 1]
            density = np.empty((self.points, self.components))
            for k, (w, m, c) in enumerate(zip(weight, mean, parameters[:, self.dims + 1 :], strict=True)):
                matrix = c.reshape(self.dims, self.dims)
                far = np.einsum("ni,ni->n", self.data - m, np.linalg.solve(matrix, (self.data - m).T).T)
                density[:, k] = w * np.exp(-far / 2) / np.sqrt((2 * pi) ** self.dims * np.linalg.det(matrix))
            rising.append(np.log(density.sum(1)).sum())
            share = density / density.sum(1, keepdims=True)
            number = share.sum(0)
            mean = share.T @ self.data / number[:, None]
            apart = self.data[:, None, :] - mean
            covariance = np.einsum("nk,nki,nkj->kij", share, apart, apart) / number[:, None, None]
            covariance += _ADDED * np.eye(self.dims)
            flat = covariance.reshape(self.components, -1)
            parameters = np.concatenate([number[:, None] / self.points, mean, flat], axis=1)
        told = answer["likelihood"][0]  # only the first rank has the reduced sums
        apart_by = max(float(np.abs(each - parameters).max()) for each in answer["parameters"])
        falls = -float(np.diff(told).min())
        return worst(apart_by / 1e-7, float(np.abs(told - rising).max()) / 1e-6, falls / (1e-9 * abs(float(told[0]))))
