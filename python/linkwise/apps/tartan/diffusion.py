"""DFF: the heat equation and the inviscid Burgers equation in three dimensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import pi
from typing import Any, Self

import numpy as np

from linkwise._typing import Array
from linkwise.apps.tartan.program import Answer, Fetched, Program, worst
from linkwise.messages.communicator import Arrays, Communicator
from linkwise.messages.halos import with_halos
from linkwise.messages.pricing import Prices, Work
from linkwise.messages.schedules import even_cuts

_WENO_DEPTH = 3
_WAVES = (1, 2, 1)
"""Wave numbers along the three axes, x + 2y + z: not all equal, so that mixed-up axes change the field."""
_STAGES = ((0.0, 1.0), (3 / 4, 1 / 4), (1 / 3, 2 / 3))
"""Runge-Kutta stages in the form of Shu and Osher (1988): the weights of the old and of the new values."""


def _weno5(xp: Any, five: tuple[Any, ...]) -> Any:
    """WENO flux at the right face of the middle of five points, fifth order where smooth (Jiang and Shu, 1996)."""
    a, b, c, d, e = five
    candidates = ((2 * a - 7 * b + 11 * c) / 6, (-b + 5 * c + 2 * d) / 6, (2 * c + 5 * d - e) / 6)
    rough = (
        13 / 12 * (a - 2 * b + c) ** 2 + (a - 4 * b + 3 * c) ** 2 / 4,
        13 / 12 * (b - 2 * c + d) ** 2 + (b - d) ** 2 / 4,
        13 / 12 * (c - 2 * d + e) ** 2 + (3 * c - 4 * d + e) ** 2 / 4,
    )
    weights = [share / (1e-6 + each) ** 2 for share, each in zip((0.1, 0.6, 0.3), rough, strict=True)]
    weighted = sum(weight * each for weight, each in zip(weights, candidates, strict=True))
    return weighted / sum(weights)


def burgers_change(xp: Any, wide: Any, axis: int, speed: Any) -> Any:
    """``-d(u²/2)/dx`` times the grid spacing, by Lax-Friedrichs splitting; ``wide`` has three halo points per end."""
    count = wide.shape[axis] - 2 * _WENO_DEPTH
    flux = wide * wide / 2
    right, left = (flux + speed * wide) / 2, (flux - speed * wide) / 2

    def shifted(field: Any, by: int) -> Any:
        """One point of the stencil of each face; there is one more face than there are points."""
        return field[(*[slice(None)] * axis, slice(by, by + count + 1), ...)]

    up = _weno5(xp, tuple(shifted(right, at) for at in range(5)))
    down = _weno5(xp, tuple(shifted(left, at) for at in range(5, 0, -1)))
    sides = up + down
    ends = [sides[(*[slice(None)] * axis, part, ...)] for part in (slice(0, count), slice(1, count + 1))]
    return ends[0] - ends[1]


@dataclass(frozen=True)
class Diffusion(Program):
    """In a periodic cube of side 2π: slabs along the first axis, one plane of halo for heat, three for Burgers."""

    planes: int
    side: int
    steps: int
    """Time steps of each equation."""

    name, abbreviation, title = "diffusion", "DFF", "3-D heat and inviscid Burgers equations"
    pattern, scales = "peer to peer", "out"

    @classmethod
    def small(cls) -> Self:
        """See ``Program``."""
        return cls(planes=24, side=24, steps=8)

    @classmethod
    def full(cls) -> Self:
        """See ``Program``."""
        return cls(planes=384, side=384, steps=8)

    def most_ranks(self) -> int:
        """See ``Program``: each rank needs as many planes as the deeper halo."""
        return self.planes // _WENO_DEPTH

    def grown(self, times: float) -> Self:
        """See ``Program``."""
        return replace(self, planes=max(round(self.planes * times), 1))

    @property
    def _space(self) -> tuple[float, float, float]:
        return 2 * pi / self.planes, 2 * pi / self.side, 2 * pi / self.side

    @property
    def heat_step(self) -> float:
        """The time step of the heat equation, for a conductivity of 1."""
        return 0.1 * min(self._space) ** 2

    @property
    def burgers_step(self) -> float:
        """The time step of Burgers' equation, for speeds of at most 0.4."""
        return 0.2 * min(self._space)

    def _angle(self, planes: Array) -> Any:
        """x + 2y + z at each point."""
        side = self._space[1] * np.arange(self.side)
        x, y, z = self._space[0] * planes[:, None, None], side[:, None], side
        return _WAVES[0] * x + _WAVES[1] * y + _WAVES[2] * z

    def heat_exact(self, planes: Array, time: float) -> Any:
        """The exact solution: a decaying sine wave."""
        return np.exp(-sum(number**2 for number in _WAVES) * time) * np.sin(self._angle(planes))

    def burgers_exact(self, planes: Array, time: float) -> Any:
        """The exact solution before shocks form: u(x, t) = u(x - t u, 0) along each axis, iteratively."""
        angle = self._angle(planes)
        u = 0.25 + 0.15 * np.sin(angle)
        for _ in range(60):
            u = 0.25 + 0.15 * np.sin(angle - sum(_WAVES) * time * u)
        return u

    def prepare(self, comm: Communicator) -> Any:
        """The initial fields of both equations."""
        cuts = even_cuts(self.planes, comm.size)
        return [
            [comm.from_host(rank, exact(np.arange(cuts[rank], cuts[rank + 1]), 0.0)) for rank in comm.local]
            for exact in (self.heat_exact, self.burgers_exact)
        ]

    def run(self, comm: Communicator, prepared: Any) -> Answer:
        """See ``Program``."""
        xp = comm.xp
        heat, speeds = prepared

        def heated(_rank: int, wide: Any, field: Any) -> Any:
            change = (wide[2:, ...] + wide[:-2, ...] - 2 * field) / self._space[0] ** 2
            for axis in (1, 2):
                around = xp.roll(field, 1, axis=axis) + xp.roll(field, -1, axis=axis)
                change = change + (around - 2 * field) / self._space[axis] ** 2
            return field + self.heat_step * change

        def fastest(_rank: int, field: Any) -> Any:
            return xp.max(xp.abs(field), axis=(0, 1, 2), keepdims=True)

        def flowed(_rank: int, wide: Any, field: Any, most: Any) -> Any:
            change = burgers_change(xp, wide, 0, most) / self._space[0]
            for axis in (1, 2):
                ends = [field[(*[slice(None)] * axis, part, ...)] for part in (slice(-3, None), slice(0, 3))]
                padded = xp.concat([ends[0], field, ends[1]], axis=axis)
                change = change + burgers_change(xp, padded, axis, most) / self._space[axis]
            return field + self.burgers_step * change

        for _ in range(self.steps):
            heat = comm.each("heat", heated, with_halos(comm, "heat halo", heat, 1), heat)
        for _ in range(self.steps):
            most = comm.all_reduce("fastest", comm.each("speed", fastest, speeds), "max")
            speeds = self._flowed(comm, flowed, speeds, most)
        return {"heat": heat, "speed": speeds}

    @staticmethod
    def _flowed(comm: Communicator, euler: Callable[..., Any], speeds: Arrays, most: Arrays) -> Arrays:
        """A step of Burgers' equation in three stages."""
        stage = speeds
        for of_old, of_new in _STAGES:
            wide = with_halos(comm, "burgers halo", stage, _WENO_DEPTH)
            ahead = comm.each("burgers", euler, wide, stage, most)
            stage = comm.each("mix", lambda _r, a, b, x=of_old, y=of_new: x * a + y * b, speeds, ahead)
        return stage

    def prices(self, ranks: int) -> Prices:
        """See ``Program``."""
        plane = 8 * self.side**2
        points = -(-self.planes // ranks) * self.side**2
        return {
            "heat halo": plane,
            "heat": Work(16 * points, 12 * points),
            "speed": Work(8 * points, points),
            "fastest": 8,
            "burgers halo": _WENO_DEPTH * plane,
            "burgers": Work(16 * points, 450 * points),  # three axes, two fluxes of about 70 each
            "mix": Work(24 * points, 3 * points),
        }

    def error(self, answer: Fetched) -> float:
        """Compare with the exact solutions."""
        planes, space = np.arange(self.planes), max(self._space)
        times = self.steps * self.heat_step, self.steps * self.burgers_step
        heat = np.abs(np.concatenate(answer["heat"]) - self.heat_exact(planes, times[0])).max()
        speed = np.abs(np.concatenate(answer["speed"]) - self.burgers_exact(planes, times[1])).max()
        return worst(float(heat) / (times[0] * space**2), float(speed) / (times[1] * space**4))
