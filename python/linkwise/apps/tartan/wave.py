"""BRQ: the three-dimensional wave equation, as for earthquakes, by fourth-order finite differences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import pi, sqrt
from typing import Any, Self

import numpy as np

from linkwise._typing import Array
from linkwise.apps.tartan.program import Answer, Fetched, Program, worst
from linkwise.messages.communicator import Communicator
from linkwise.messages.halos import with_halos
from linkwise.messages.pricing import Prices, Work
from linkwise.messages.schedules import even_cuts

_DEPTH = 2
_WEIGHTS = (-1 / 12, 16 / 12, -30 / 12, 16 / 12, -1 / 12)
"""Fourth-order finite-difference weights of the second derivative."""


def second_derivative(xp: Any, field: Any, axis: int) -> Any:
    """The second derivative times the squared grid spacing, with periodic boundaries."""
    return sum(weight * xp.roll(field, 2 - at, axis=axis) for at, weight in enumerate(_WEIGHTS))


@dataclass(frozen=True)
class Wave(Program):
    """In a periodic cube of side 2π: slabs along the first axis, two planes of halo."""

    planes: int
    side: int
    """Points along the other two axes."""
    steps: int
    courant: float = 0.25
    """Time step over grid spacing; with twice the points and a quarter of the step, errors fall to a sixteenth."""

    name, abbreviation, title = "wave", "BRQ", "3-D wave equation, fourth order"
    pattern, scales = "peer to peer", "out"

    @classmethod
    def small(cls) -> Self:
        """See ``Program``."""
        return cls(planes=32, side=32, steps=20)

    @classmethod
    def full(cls) -> Self:
        """See ``Program``."""
        return cls(planes=512, side=512, steps=20)

    def most_ranks(self) -> int:
        """See ``Program``: each rank needs as many planes as the halo."""
        return self.planes // _DEPTH

    def grown(self, times: float) -> Self:
        """See ``Program``."""
        return replace(self, planes=max(round(self.planes * times), 1))

    @property
    def _space(self) -> tuple[float, float]:
        """The grid spacing between planes, and within a plane; the cube's side is 2π."""
        return 2 * pi / self.planes, 2 * pi / self.side

    @property
    def time_step(self) -> float:
        """The time step, for a wave speed of 1."""
        return self.courant * min(self._space)

    def exact(self, planes: Array, time: float) -> Any:
        """The exact solution: a standing wave with one wavelength along each axis."""
        side = np.cos(self._space[1] * np.arange(self.side))
        shape = np.cos(self._space[0] * planes)[:, None, None] * side[:, None] * side
        return shape * np.cos(sqrt(3) * time)

    def prepare(self, comm: Communicator) -> Any:
        """The wave at the initial time, and one step earlier."""
        cuts = even_cuts(self.planes, comm.size)
        mine = [np.arange(cuts[rank], cuts[rank + 1]) for rank in comm.local]
        return [
            [comm.from_host(rank, self.exact(planes, time)) for rank, planes in zip(comm.local, mine, strict=True)]
            for time in (0.0, -self.time_step)
        ]

    def run(self, comm: Communicator, prepared: Any) -> Answer:
        """See ``Program``."""
        xp = comm.xp
        along, across = ((self.time_step / space) ** 2 for space in self._space)

        def stepped(_rank: int, wide: Any, now: Any, before: Any) -> Any:
            n = now.shape[0]
            up = sum(weight * wide[at : at + n, ...] for at, weight in enumerate(_WEIGHTS))
            flat = second_derivative(xp, now, 1) + second_derivative(xp, now, 2)
            return 2.0 * now - before + along * up + across * flat

        now, before = prepared
        for _ in range(self.steps):
            wide = with_halos(comm, "halo", now, _DEPTH)
            now, before = comm.each("step", stepped, wide, now, before), now
        return {"field": now}

    def prices(self, ranks: int) -> Prices:
        """See ``Program``."""
        points = -(-self.planes // ranks) * self.side**2
        return {"halo": 8 * _DEPTH * self.side**2, "step": Work(24 * points, 34 * points)}

    def error(self, answer: Fetched) -> float:
        """Compare with the standing wave, within the error of fourth order in space and second order in time."""
        found = np.concatenate(answer["field"])
        time = self.steps * self.time_step
        right = self.exact(np.arange(self.planes), time)
        allowed = 2 * time * (max(self._space) ** 4 / 30 + self.time_step**2 / 4)
        return worst(float(np.abs(found - right).max()) / allowed)
