"""HIT: homogeneous isotropic turbulence by a pseudo-spectral method; all-to-all transposes its 3-D transforms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log2
from typing import Any, Self

import numpy as np

from linkwise.apps.tartan.program import Answer, Fetched, Program, worst
from linkwise.messages.communicator import Arrays, Communicator
from linkwise.messages.pricing import Prices, Work
from linkwise.messages.schedules import even_cuts

_STAGES = (1 / 3, 1 / 2, 1.0)
"""Third-order Runge-Kutta stages for autonomous equations (Williamson): u + h f(u + h/2 f(u + h/3 f(u)))."""


_WIND = (0.7, 0.3, -0.5)
"""The mean velocity along the three axes: being carried along exercises the nonlinear terms."""


class SlabTransform:
    """3-D Fourier transforms of fields (fields, side, side, side) in slabs of planes; spectra in slabs of rows."""

    def __init__(self, comm: Communicator, side: int) -> None:
        self._comm, self._side = comm, side
        self._cuts = even_cuts(side, comm.size)

    def forward(self, label: str, fields: Arrays) -> Arrays:
        """Spectra of the fields: (fields, planes of all ranks, this rank's rows, columns)."""
        xp, cuts = self._comm.xp, self._cuts
        flat = self._comm.each(
            "transform", lambda _rank, each: xp.fft.fftn(xp.astype(each, xp.complex128), axes=(2, 3)), fields
        )
        parts = [[each[:, :, cuts[to] : cuts[to + 1], :] for to in range(self._comm.size)] for each in flat]
        turned = self._comm.joined(self._comm.all_to_all(label, parts), 1)
        return self._comm.each("transform", lambda _rank, each: xp.fft.fft(each, axis=1), turned)

    def backward(self, label: str, spectra: Arrays) -> Arrays:
        """The real fields of the spectra."""
        xp, cuts = self._comm.xp, self._cuts
        turned = self._comm.each("transform", lambda _rank, each: xp.fft.ifft(each, axis=1), spectra)
        parts = [[each[:, cuts[to] : cuts[to + 1], :, :] for to in range(self._comm.size)] for each in turned]
        flat = self._comm.joined(self._comm.all_to_all(label, parts), 2)
        return self._comm.each("transform", lambda _rank, each: xp.real(xp.fft.ifftn(each, axes=(2, 3))), flat)


@dataclass(frozen=True)
class Turbulence(Program):
    """The Navier-Stokes equations in a periodic cube of side 2π, density 1, dealiased by the rule of two thirds."""

    side: int
    steps: int
    viscosity: float = 0.05
    flow: str = "taylor-green"
    """``"taylor-green"``: rolls in planes of the first and third axis, which fade as exp(-2νt) while a wind carries
    them along; or ``"random"``."""

    name, abbreviation, title = "turbulence", "HIT", "homogeneous isotropic turbulence, pseudo-spectral"
    pattern, scales = "all-to-all", "out"

    @classmethod
    def small(cls) -> Self:
        """See ``Program``."""
        return cls(side=16, steps=6)

    @classmethod
    def full(cls) -> Self:
        """See ``Program``."""
        return cls(side=256, steps=6, flow="random")

    def grown(self, times: float) -> Self:
        """The nearest cube whose side has no factors but 2, 3 and 5, for which transforms are fast."""
        wanted = self.side * times ** (1 / 3)
        sides = [2 ** (1 + a) * 3**b * 5**c for a in range(12) for b in range(7) for c in range(5)]
        return replace(self, side=min(sides, key=lambda side: abs(side - wanted)))

    def most_ranks(self) -> int:
        """See ``Program``: each rank needs a plane."""
        return self.side

    @property
    def time_step(self) -> float:
        """The time step, for speeds of about 1."""
        return 0.5 / self.side

    def _rolls(self, time: float) -> Any:
        """Taylor and Green's rolls in a wind that carries them along: an exact solution."""
        axis = 2 * np.pi / self.side * np.arange(self.side)
        z, _, x = np.meshgrid(*(axis - speed * time for speed in _WIND), indexing="ij")
        rolls = np.stack([np.cos(x) * np.sin(z), 0 * x, -np.sin(x) * np.cos(z)])
        return rolls * np.exp(-2 * self.viscosity * time) + np.array(_WIND)[:, None, None, None]

    def begin(self) -> Any:
        """The initial velocities: an array of (3, side, side, side)."""
        if self.flow == "taylor-green":
            return self._rolls(0.0)
        random = np.random.default_rng(self.side)
        velocity = random.normal(size=(3, *[self.side] * 3))
        spectrum = np.fft.fftn(velocity, axes=(1, 2, 3))
        waves = np.stack(np.meshgrid(*[np.fft.fftfreq(self.side, 1 / self.side)] * 3, indexing="ij"))
        length = (waves**2).sum(0)
        spectrum *= np.exp(-length / 8) * (np.abs(waves).max(0) < self.side / 3)
        spectrum -= waves * (waves * spectrum).sum(0) / np.maximum(length, 1)
        velocity = np.real(np.fft.ifftn(spectrum, axes=(1, 2, 3)))
        return velocity / np.sqrt((velocity**2).mean())

    def prepare(self, comm: Communicator) -> Any:
        """Slabs of the velocities, and of each rank's wave numbers (3, side, rows, side)."""
        cuts, start = even_cuts(self.side, comm.size), self.begin()
        numbers = np.fft.fftfreq(self.side, 1 / self.side)
        fields, waves = [], []
        for rank in comm.local:
            fields.append(comm.from_host(rank, np.ascontiguousarray(start[:, cuts[rank] : cuts[rank + 1]])))
            mine = np.meshgrid(numbers, numbers[cuts[rank] : cuts[rank + 1]], numbers, indexing="ij")
            waves.append(comm.from_host(rank, np.stack(mine)))
        return fields, waves

    def run(self, comm: Communicator, prepared: Any) -> Answer:
        """See ``Program``."""
        xp, (fields, waves) = comm.xp, prepared
        transform = SlabTransform(comm, self.side)

        def whirl(_rank: int, u: Any, k: Any) -> Any:
            """i k × u."""
            turns = [k[a, ...] * u[b, ...] - k[b, ...] * u[a, ...] for a, b in ((1, 2), (2, 0), (0, 1))]
            return 1j * xp.stack(turns)

        def bent(_rank: int, u: Any, w: Any) -> Any:
            """u × curl u."""
            pairs = ((1, 2), (2, 0), (0, 1))
            return xp.stack([u[a, ...] * w[b, ...] - u[b, ...] * w[a, ...] for a, b in pairs])

        def changed(_rank: int, force: Any, u: Any, k: Any) -> Any:
            """The rate of change: the dealiased force, projected to be divergence-free, minus viscous dissipation."""
            length = xp.sum(k * k, axis=0)
            kept = xp.astype(xp.max(xp.abs(k), axis=0) < self.side / 3, xp.float64)
            force = force * kept[None, ...]
            along = xp.sum(k * force, axis=0) / xp.where(length > 0, length, xp.ones_like(length))
            return force - k * along[None, ...] - self.viscosity * length[None, ...] * u

        spectra = transform.forward("transpose", fields)
        for _ in range(self.steps):
            stage = spectra
            for share in _STAGES:
                curls = transform.backward("transpose", comm.each("curl", whirl, stage, waves))
                speeds = transform.backward("transpose", stage)
                forces = transform.forward("transpose", comm.each("bend", bent, speeds, curls))
                change = comm.each("project", changed, forces, stage, waves)
                step = share * self.time_step
                stage = comm.each("advance", lambda _rank, u, f, h=step: u + h * f, spectra, change)
            spectra = stage
        fields = transform.backward("transpose", spectra)
        sums = comm.each("energy", lambda _rank, each: xp.reshape(xp.sum(xp.abs(each) ** 2), (1,)), spectra)
        return {"fields": fields, "spectral": comm.all_reduce("energies", sums)}

    def prices(self, ranks: int) -> Prices:
        """See ``Program``."""
        part = -(-self.side // ranks)
        points = 3 * part * self.side**2
        levels = 5 * log2(self.side)  # FLOPs of a complex transform, per point and axis
        return {
            "transform": Work(2 * 32 * points, 1.5 * levels * points),  # one call for two axes, one for the third
            "transpose": 16 * 3 * part * part * self.side,
            "curl": Work(16 * 2 * points + 8 * points, 8 * points),
            "bend": Work(8 * 3 * points, 3 * points),
            "project": Work(16 * 3 * points + 8 * points, 20 * points),
            "advance": Work(16 * 3 * points, 4 * points),
            "energy": Work(16 * points, 4 * points),
            "energies": 8,
        }

    def error(self, answer: Fetched) -> float:
        """Compare with decaying rolls in the wind (Taylor and Green), and the spectrum's energy with the fields'."""
        found = np.concatenate(answer["fields"], axis=1)
        energy = float((found**2).sum()) * self.side**3
        apart = max(abs(float(each[0]) / energy - 1) for each in answer["spectral"])
        if self.flow != "taylor-green":
            return worst(apart / 1e-10, float((found**2).sum()) / float((self.begin() ** 2).sum()))
        right = self._rolls(self.steps * self.time_step)
        return worst(float(np.abs(found - right).max()) / 1e-6, apart / 1e-10)
