"""LLH: explicit Lagrangian shock hydrodynamics on hexahedra, as Lulesh solves Sedov's blast.

Nodes have positions and velocities; the elements between them have densities and energies. The work of an element's
corner forces is taken from its energy, so that total energy is conserved (Caramana et al., J. Comput. Phys. 146,
1998).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, Self

import numpy as np

from linkwise.apps.tartan.program import Answer, Fetched, Program, worst
from linkwise.messages.communicator import Arrays, Communicator
from linkwise.messages.halos import neighbours
from linkwise.messages.pricing import Prices, Work
from linkwise.messages.schedules import even_cuts

GAMMA = 1.4
_MOST_DENSITY = 6.3  # (γ + 1) / (γ - 1) behind a strong shock, plus a margin for the mesh
_BLAST = 0.851072  # energy of the whole blast, for which the shock's radius is t^0.4 (Sedov, γ = 1.4, density 1)
_CORNERS = tuple(product((0, 1), repeat=3))
_FACES = tuple(
    # The four corners of each face, in order around its outward normal.
    tuple(_CORNERS.index(corner) for corner in face)
    for face in (
        ((0, 0, 0), (0, 0, 1), (0, 1, 1), (0, 1, 0)),
        ((1, 0, 0), (1, 1, 0), (1, 1, 1), (1, 0, 1)),
        ((0, 0, 0), (1, 0, 0), (1, 0, 1), (0, 0, 1)),
        ((0, 1, 0), (0, 1, 1), (1, 1, 1), (1, 1, 0)),
        ((0, 0, 0), (0, 1, 0), (1, 1, 0), (1, 0, 0)),
        ((0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)),
    )
)


def corners_of(nodes: Any) -> list[Any]:
    """The values of each element's eight nodes, from an array (3, planes + 1, rows + 1, columns + 1)."""
    ends = (slice(None, -1), slice(1, None))
    return [nodes[:, ends[a], ends[b], ends[c]] for a, b, c in _CORNERS]


def _cross(xp: Any, a: Any, b: Any) -> Any:
    turns = [a[i, ...] * b[j, ...] - a[j, ...] * b[i, ...] for i, j in ((1, 2), (2, 0), (0, 1))]
    return xp.stack(turns)


def volume_and_slopes(xp: Any, corners: list[Any]) -> tuple[Any, list[Any]]:
    """An element's volume, and its gradient by each corner; faces are split into four triangles at their middle."""
    slopes = [xp.zeros_like(corners[0]) for _ in corners]
    six_volumes = 0
    for face in _FACES:
        points = [corners[corner] for corner in face]
        middle = (points[0] + points[1] + points[2] + points[3]) / 4
        for at, corner in enumerate(face):
            following = face[(at + 1) % 4]
            a, b = corners[corner], corners[following]
            by_middle = _cross(xp, a, b) / 6
            six_volumes = six_volumes + xp.sum(middle * by_middle, axis=0)
            slopes[corner] = slopes[corner] + _cross(xp, b, middle) / 6
            slopes[following] = slopes[following] + _cross(xp, middle, a) / 6
            for other in face:
                slopes[other] = slopes[other] + by_middle / 4
    return six_volumes, slopes


@dataclass(frozen=True)
class Hydrodynamics(Program):
    """An octant of the blast, in a cube of side 1: slabs of elements; neighbours share a plane of nodes."""

    planes: int
    side: int
    until: float = 0.3
    """The end time, when the shock is at 0.62."""
    most_steps: int = 10_000

    name, abbreviation, title = "hydrodynamics", "LLH", "Lagrangian shock hydrodynamics, Sedov's blast"
    pattern, scales = "peer to peer", "out"

    @classmethod
    def small(cls) -> Self:
        """See ``Program``."""
        return cls(planes=12, side=12)

    @classmethod
    def full(cls) -> Self:
        """See ``Program``."""
        return cls(planes=160, side=160, most_steps=60)

    def recorded(self) -> Self:
        """See ``Program``."""
        return replace(self, most_steps=self.full().most_steps)

    def most_ranks(self) -> int:
        """See ``Program``: each rank needs a plane of elements."""
        return self.planes

    def grown(self, times: float) -> Self:
        """See ``Program``."""
        return replace(self, planes=max(round(self.planes * times), 1))

    def _nodes(self, first: int, last: int) -> Any:
        axes = np.arange(first, last + 1) / self.planes, *[np.arange(self.side + 1) / self.side] * 2
        return np.stack(np.meshgrid(*axes, indexing="ij"))

    def prepare(self, comm: Communicator) -> Any:
        """Positions of nodes, energy per mass of elements (all of it in the corner), and masses of nodes."""
        cuts = even_cuts(self.planes, comm.size)
        mass = 1 / (self.planes * self.side**2)
        positions, energies = [], []
        for rank in comm.local:
            positions.append(comm.from_host(rank, self._nodes(cuts[rank], cuts[rank + 1])))
            energy = np.full((cuts[rank + 1] - cuts[rank], self.side, self.side), 1e-9)
            if rank == 0:
                energy[0, 0, 0] = _BLAST / 8 / mass
            energies.append(comm.from_host(rank, energy))
        shares = comm.each("start", lambda _rank, held: [comm.xp.full((1, *held.shape), mass / 8)] * 8, energies)
        weights = comm.each("start", lambda _rank, eight: self._of_nodes(comm.xp, eight), shares)
        return positions, energies, self._summed(comm, weights)

    def run(self, comm: Communicator, prepared: Any) -> Answer:
        """See ``Program``."""
        xp, (x, energy, weights) = comm.xp, prepared
        mass = 1 / (self.planes * self.side**2)
        v = comm.each("start", lambda _rank, at: xp.zeros_like(at), x)

        def forces(_rank: int, at: Any, speed: Any, held: Any) -> Any:
            """The force on each corner, and the longest stable time step."""
            volume, slopes = volume_and_slopes(xp, corners_of(at))
            density = mass / volume
            pressure = (GAMMA - 1) * density * held
            sound = xp.sqrt(GAMMA * pressure / density)
            moving = zip(slopes, corners_of(speed), strict=True)
            growth = sum(xp.sum(slope * each, axis=0) for slope, each in moving) / volume
            length = xp.min(xp.stack([volume / xp.sqrt(xp.sum(s * s, axis=0)) / 4 for s in slopes]), axis=0)
            crush = xp.where(growth < 0, -growth * length, xp.zeros_like(growth))
            viscous = density * crush * (2.0 * crush + 0.5 * sound)
            stable = 0.25 * xp.min(length / (sound + 4 * crush + xp.abs(growth) * length))
            return [(pressure + viscous)[None, ...] * slope for slope in slopes], xp.reshape(stable, (1,))

        def pushed(rank: int, speed: Any, force: Any, weight: Any, step: Any) -> Any:
            new = speed + step * force / weight
            # The three planes through the blast's centre are symmetry planes.
            walls = [new[axis : axis + 1, ...] for axis in range(3)]
            for axis in range(3):
                if axis > 0 or rank == 0:
                    walls[axis] = _without_first(xp, walls[axis], axis + 1)
            return xp.concat(walls)

        def worked(_rank: int, held: Any, corner_forces: Any, speed: Any, step: Any) -> Any:
            moving = zip(corner_forces, corners_of(speed), strict=True)
            power = sum(xp.sum(force * each, axis=0) for force, each in moving)
            return held - step * power / mass

        time, steps = 0.0, 0
        while time < self.until and steps < self.most_steps:
            pushes = comm.each("forces", forces, x, v, energy)
            of_corners = [each[0] for each in pushes]
            step = comm.all_reduce("time step", [each[1] for each in pushes], "min")
            step = comm.each("clip", lambda _rank, h, t=time: xp.clip(h, 0.0, self.until - t), step)
            force = self._summed(comm, comm.each("corners", lambda _rank, f: self._of_nodes(xp, f), of_corners))
            new = comm.each("push", pushed, v, force, weights, step)
            middle = comm.each("middle", lambda _rank, a, b: (a + b) / 2, v, new)
            x = comm.each("move", lambda _rank, at, speed, h: at + h * speed, x, middle, step)
            energy = comm.each("work", worked, energy, of_corners, middle, step)
            v = new
            time, steps = time + float(step[0][0]), steps + 1
        return {"x": x, "v": v, "energy": energy, "weight": weights}

    @staticmethod
    def _of_nodes(xp: Any, of_corners: list[Any]) -> Any:
        """Sum the elements' corner values at the nodes."""
        total: Any = 0
        for (a, b, c), each in zip(_CORNERS, of_corners, strict=True):
            for axis, end in ((1, a), (2, b), (3, c)):
                shape = list(each.shape)
                shape[axis] = 1
                nothing = xp.zeros(tuple(shape))
                each = xp.concat([nothing, each] if end else [each, nothing], axis=axis)  # noqa: PLW2901
            total = total + each
        return total

    @staticmethod
    def _summed(comm: Communicator, nodes: Arrays) -> Arrays:
        """Add the neighbours' values at the shared planes of nodes."""
        xp, last = comm.xp, comm.size - 1
        below, above = neighbours(
            comm, "shared plane", [each[:, :1, ...] for each in nodes], [each[:, -1:, ...] for each in nodes]
        )

        def added(rank: int, mine: Any, under: Any, over: Any) -> Any:
            first = mine[:, :1, ...] + (under if rank > 0 else xp.zeros_like(under))
            end = mine[:, -1:, ...] + (over if rank < last else xp.zeros_like(over))
            return xp.concat([first, mine[:, 1:-1, ...], end], axis=1)

        return comm.each("add", added, nodes, below, above)

    def prices(self, ranks: int) -> Prices:
        """See ``Program``."""
        elements = -(-self.planes // ranks) * self.side**2
        nodes = (-(-self.planes // ranks) + 1) * (self.side + 1) ** 2
        return {
            "start": Work(8 * 4 * nodes),
            "shared plane": 8 * 3 * (self.side + 1) ** 2,
            "add": Work(8 * 9 * (self.side + 1) ** 2),
            "forces": Work(8 * (6 * nodes + 2 * elements + 24 * elements), 1400 * elements),
            "time step": 8,
            "clip": Work(16),
            "corners": Work(8 * (24 * elements + 3 * nodes), 24 * elements),
            "push": Work(8 * 10 * nodes, 6 * nodes),
            "middle": Work(8 * 9 * nodes, 6 * nodes),
            "move": Work(8 * 9 * nodes, 6 * nodes),
            "work": Work(8 * (24 * elements + 3 * nodes + 2 * elements), 50 * elements),
        }

    def error(self, answer: Fetched) -> float:
        """The shock is where Sedov's solution has it, total energy is conserved, and neighbours agree."""
        mass = 1 / (self.planes * self.side**2)
        internal = sum(float(each.sum()) * mass for each in answer["energy"])
        kinetic = 0.0
        for rank, (v, weight) in enumerate(zip(answer["v"], answer["weight"], strict=True)):
            mine = slice(0 if rank == 0 else 1, None)  # the first plane is shared: count it once
            kinetic += float((weight * v**2)[:, mine].sum()) / 2
        begun = _BLAST / 8 + 1e-9 * (1 - mass)
        apart = abs((internal + kinetic) / begun - 1)
        shared = max(
            (float(np.abs(a[:, -1] - b[:, 0]).max()) for key in ("x", "v") for a, b in pairwise(answer[key])),
            default=0.0,
        )
        densest = max(self._density(x) for x in answer["x"])
        return worst(
            apart / 1e-10,
            shared / 1e-12,
            abs(densest[1] - self.until**0.4) / (0.25 / self.side),
            2 / max(densest[0], 1e-9),
            densest[0] / _MOST_DENSITY,
        )

    def _density(self, x: Any) -> tuple[float, float]:
        """The largest density, and its distance from the blast's centre."""
        volume, _ = volume_and_slopes(np, corners_of(x))
        density = 1 / (self.planes * self.side**2) / volume
        centre = sum(corners_of(x)) / 8
        at = np.unravel_index(int(density.argmax()), density.shape)
        return float(density[at]), float(np.sqrt((centre[(slice(None), *at)] ** 2).sum()))


def _without_first(xp: Any, field: Any, axis: int) -> Any:
    """The field, with zeros in the first plane along an axis."""
    first = (*[slice(None)] * axis, slice(0, 1), ...)
    others = (*[slice(None)] * axis, slice(1, None), ...)
    return xp.concat([xp.zeros_like(field[first]), field[others]], axis=axis)
