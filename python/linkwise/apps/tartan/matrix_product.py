"""MAM: a matrix product by scatter, broadcast and gather."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from linkwise.apps.counter_random import key_of, uniform
from linkwise.apps.tartan.program import Answer, Fetched, Program, worst
from linkwise.messages.communicator import Communicator
from linkwise.messages.pricing import Prices, Work


@dataclass(frozen=True)
class MatrixProduct(Program):
    """``rows × inner`` times ``inner × columns``: the first rank has both and gets the product."""

    rows: int
    inner: int
    columns: int
    repetitions: int = 4

    name, abbreviation, title = "matmul", "MAM", "matrix product by scatter, broadcast and gather"
    pattern, scales = "scatter, broadcast, gather", "out"

    @classmethod
    def small(cls) -> Self:
        """See ``Program``."""
        return cls(100, 60, 40)

    @classmethod
    def full(cls) -> Self:
        """See ``Program``."""
        return cls(8192, 8192, 8192)

    def grown(self, times: float) -> Self:
        """See ``Program``."""
        return replace(self, rows=max(round(self.rows * times), 1))

    def prepare(self, comm: Communicator) -> Any:
        """The factors: filled on the first rank, zeros of the same shape on the others."""
        xp = comm.xp

        def made(rank: int, which: int, height: int, width: int) -> Any:
            if rank > 0:
                return xp.zeros((height, width))
            counters = xp.arange(height * width, dtype=xp.int64)
            return xp.reshape(uniform(xp, key_of(which), counters), (height, width)) - 0.5

        n = len(comm.local)
        left = comm.each("left", made, [1] * n, [self.rows] * n, [self.inner] * n)
        return left, comm.each("right", made, [2] * n, [self.inner] * n, [self.columns] * n)

    def run(self, comm: Communicator, prepared: Any) -> Answer:
        """See ``Program``."""
        left, right = prepared
        for _ in range(self.repetitions):
            mine = comm.scatter("rows", left)
            everywhere = comm.broadcast("right", right)
            product = comm.each("product", lambda _rank, a, b: comm.xp.matmul(a, b), mine, everywhere)
            gathered = comm.gather("product rows", product)
        return {"product": gathered, "left": left, "right": right}

    def prices(self, ranks: int) -> Prices:
        """See ``Program``."""
        rows = -(-self.rows // ranks)
        bytes_ = 8 * (rows * self.inner + self.inner * self.columns + rows * self.columns)
        return {
            "rows": 8 * rows * self.inner,
            "right": 8 * self.inner * self.columns,
            "product": Work(bytes_, 2 * rows * self.inner * self.columns),
            "product rows": 8 * rows * self.columns,
        }

    def error(self, answer: Fetched) -> float:
        """Compare with one processor's product."""
        right = np.asarray(answer["left"][0]) @ np.asarray(answer["right"][0])
        return worst(float(np.abs(answer["product"][0] - right).max()) / 1e-12 / self.inner)
