"""CMD: classical molecular dynamics of Lennard-Jones atoms in link cells, as in CoMD's reference implementation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import ceil, sqrt
from typing import Any, Self

import numpy as np

from linkwise._core import UsageError
from linkwise._typing import Array
from linkwise.apps.counter_random import key_of, normal
from linkwise.apps.tartan.program import Answer, Fetched, Program, differ, worst
from linkwise.messages.communicator import Arrays, Communicator
from linkwise.messages.halos import neighbours
from linkwise.messages.pricing import Prices, Work
from linkwise.messages.schedules import even_cuts

CUTOFF = 2.5
"""Lengths, energies and masses are in units of σ, ε and m."""

_SLOTS = 40  # atoms that a cell can hold; about 17 are in one
_DENSITY, _TEMPERATURE = 0.8442, 0.72  # near the triple point, as is usual for this benchmark
_SHIFT = 4 * (CUTOFF**-12 - CUTOFF**-6)
_FAR = 1e6  # the position of empty slots


def pair_forces(xp: Any, apart: Any, square: Any) -> tuple[Any, Any]:
    """Force and potential of each pair, the potential shifted to 0 at the cutoff; beyond it, both are 0."""
    near = (square < CUTOFF**2) & (square > 0)
    inverse = xp.where(near, 1 / xp.where(near, square, xp.ones_like(square)), xp.zeros_like(square))
    sixth = inverse * inverse * inverse
    strength = 24 * inverse * sixth * (2 * sixth - 1)
    potential = xp.where(near, 4 * sixth * (sixth - 1) - _SHIFT, xp.zeros_like(square))
    return strength[..., None] * apart, potential


@dataclass(frozen=True)
class Molecular(Program):
    """A face-centred crystal that melts, in a periodic box; slabs of cells along the first axis."""

    long: int
    """Unit cells of the crystal along the first axis, of four atoms each."""
    wide: int
    """Unit cells along each of the other two axes."""
    steps: int
    time_step: float = 0.002

    name, abbreviation, title = "molecular", "CMD", "Lennard-Jones molecular dynamics in link cells"
    pattern, scales = "peer to peer, all-reduce", "out"

    @classmethod
    def small(cls) -> Self:
        """See ``Program``."""
        return cls(long=12, wide=5, steps=10)

    @classmethod
    def full(cls) -> Self:
        """See ``Program``."""
        return cls(long=64, wide=40, steps=10)

    def most_ranks(self) -> int:
        """See ``Program``: each rank needs a plane of cells."""
        return self.cells[0]

    def grown(self, times: float) -> Self:
        """See ``Program``."""
        return replace(self, long=max(round(self.long * times), 1))

    @property
    def _unit(self) -> float:
        return float((4 / _DENSITY) ** (1 / 3))

    @property
    def box(self) -> Array:
        """The box's three side lengths."""
        return self._unit * np.array([self.long, self.wide, self.wide])

    @property
    def cells(self) -> tuple[int, int, int]:
        """Link cells along each axis, each as wide as the cutoff or wider."""
        counts = [int(side // CUTOFF) for side in self.box]
        if min(counts) < 3:
            raise UsageError("the box has three cells along each side at least")
        return counts[0], counts[1], counts[2]

    def _cuts(self, ranks: int) -> list[int]:
        if self.cells[0] < ranks:
            raise UsageError(f"{self.cells[0]} planes of cells are too few for {ranks} GPUs")
        return even_cuts(self.cells[0], ranks)

    def _begin(self) -> Array:
        """Position, velocity and number of each atom: (atoms, 7)."""
        basis = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]) + 0.003  # some soon cross cells
        units = np.stack(np.meshgrid(*[np.arange(n) for n in (self.long, self.wide, self.wide)], indexing="ij"), -1)
        place = ((units[..., None, :] + basis) * self._unit).reshape(-1, 3)
        speed = sqrt(_TEMPERATURE) * normal(np, key_of(5), np.arange(place.size, dtype=np.int64)).reshape(-1, 3)
        return np.concatenate([place, speed - speed.mean(0), np.arange(len(place))[:, None]], axis=1)

    def prepare(self, comm: Communicator) -> Any:
        """Each rank's atoms."""
        cuts, atoms = self._cuts(comm.size), self._begin()
        plane = np.floor(atoms[:, 0] / self.box[0] * self.cells[0])
        return [comm.from_host(rank, atoms[(plane >= cuts[rank]) & (plane < cuts[rank + 1])]) for rank in comm.local]

    def _binned(self, xp: Any, atoms: Any, first: int, planes: int) -> tuple[Any, Any]:
        """The atoms in cell order, and the offset at which each cell begins: (cells + 1)."""
        _, rows, columns = self.cells
        widths = self.box / np.array(self.cells)
        at = [xp.astype(xp.floor(atoms[:, axis] / float(widths[axis])), xp.int64) for axis in range(3)]
        at = [xp.clip(at[0] - first, 0, planes - 1), xp.clip(at[1], 0, rows - 1), xp.clip(at[2], 0, columns - 1)]
        cell = (at[0] * rows + at[1]) * columns + at[2]
        order = xp.argsort(cell, stable=True)
        atoms, cell = xp.take(atoms, order, axis=0), xp.take(cell, order)
        begins = xp.searchsorted(cell, xp.arange(planes * rows * columns + 1, dtype=cell.dtype))
        return atoms, begins

    def run(self, comm: Communicator, prepared: Any) -> Answer:
        """See ``Program``."""
        xp, half = comm.xp, self.time_step / 2
        atoms: Arrays = prepared

        def moved(_rank: int, mine: Any, force: Any) -> Any:
            speed = mine[:, 3:6] + half * force
            place = mine[:, :3] + self.time_step * speed
            box = xp.asarray(self.box)[None, :]
            return xp.concat([place - box * xp.floor(place / box), speed, mine[:, 6:]], axis=1)

        def pushed(_rank: int, mine: Any, force: Any) -> Any:
            return xp.concat([mine[:, :3], mine[:, 3:6] + half * force, mine[:, 6:]], axis=1)

        def kinetic(_rank: int, mine: Any, potential: Any) -> Any:
            return xp.stack([xp.sum(mine[:, 3:6] ** 2) / 2, potential])

        atoms, force, potential = self._forces(comm, atoms)
        energies = []
        for _ in range(self.steps):
            atoms = self._migrated(comm, comm.each("move", moved, atoms, force))
            atoms, force, potential = self._forces(comm, atoms)
            atoms = comm.each("push", pushed, atoms, force)
            energies.append(comm.all_reduce("energy", comm.each("kinetic", kinetic, atoms, potential)))
        told = comm.each("kinetic", lambda rank, *_: xp.stack([e[comm.local.index(rank)] for e in energies]), atoms)
        return {"atoms": atoms, "force": force, "energies": told}

    def _migrated(self, comm: Communicator, atoms: Arrays) -> Arrays:
        """Send atoms that have left their slab to the neighbouring rank; in one step, none moves further."""
        xp, n = comm.xp, comm.size
        if n == 1:
            return atoms
        cuts, width = self._cuts(n), float(self.box[0]) / self.cells[0]

        def parted(rank: int, mine: Any) -> tuple[Any, Any, Any]:
            """The atoms that stay, move to the slab below, and move to the slab above, in a periodic box."""
            low, high = cuts[rank] * width, cuts[rank + 1] * width
            off = mine[:, 0] - (low + high) / 2
            off = off - float(self.box[0]) * xp.round(off / float(self.box[0]))
            reach = (high - low) / 2
            down, up = off < -reach, off >= reach
            return mine[~(down | up)], mine[down], mine[up]

        three = comm.each("part", parted, atoms)
        before, after = neighbours(comm, "migration", [each[1] for each in three], [each[2] for each in three])
        return comm.each("join", lambda _rank, *of: xp.concat(of), [each[0] for each in three], before, after)

    def _forces(self, comm: Communicator, atoms: Arrays) -> tuple[Arrays, Arrays, Arrays]:
        """Atoms in order of cells, the force on each, and each rank's share of the potential."""
        xp, cuts = comm.xp, self._cuts(comm.size)
        _, rows, columns = self.cells
        tables, begins, ordered = [], [], []

        def table_of(rank: int, mine: Any) -> tuple[Any, Any, Any]:
            """Positions by cell and slot (empty slots lie far away), the cells' offsets, and the ordered atoms."""
            planes = cuts[rank + 1] - cuts[rank]
            mine, begin = self._binned(xp, mine, cuts[rank], planes)
            count = begin[1:] - begin[:-1]
            if int(xp.max(count)) > _SLOTS:
                raise UsageError(f"a cell has more than {_SLOTS} atoms: the time step is too long")
            slot = xp.arange(_SLOTS, dtype=begin.dtype)[None, :]
            index = xp.where(slot < count[:, None], begin[:-1][:, None] + slot, xp.asarray(-1, dtype=begin.dtype))
            places = xp.take(mine[:, :3], xp.reshape(xp.clip(index, 0, mine.shape[0] - 1), (-1,)), axis=0)
            # Empty slots lie far away from all atoms and from each other, so that they exert no force.
            lone = _FAR * (1 + xp.arange(index.shape[0] * _SLOTS, dtype=xp.float64))[:, None]
            places = xp.where(xp.reshape(index, (-1,))[:, None] >= 0, places, xp.broadcast_to(lone, places.shape))
            return xp.reshape(places, (planes, rows, columns, _SLOTS, 3)), begin, mine

        for table, begin, mine in comm.each("cells", table_of, atoms):
            tables.append(table)
            begins.append(begin)
            ordered.append(mine)
        below, above = neighbours(comm, "halo", [t[:1, ...] for t in tables], [t[-1:, ...] for t in tables])
        wide = comm.joined(zip(below, tables, above, strict=True))

        def force_of(_rank: int, whole: Any, table: Any, begin: Any, mine: Any) -> tuple[Any, Any]:
            planes = table.shape[0]
            here = table[..., :, None, :]
            force, potential = xp.zeros_like(table), xp.zeros(table.shape[:4])
            box = xp.asarray(self.box)
            for up, row, column in product((0, 1, 2), (-1, 0, 1), (-1, 0, 1)):
                other = xp.roll(whole[up : up + planes, ...], (row, column), axis=(1, 2))[..., None, :, :]
                apart = here - other
                apart = apart - box * xp.round(apart / box) * xp.astype(xp.abs(apart) < _FAR / 2, xp.float64)
                by_pair, shared = pair_forces(xp, apart, xp.sum(apart * apart, axis=-1))
                force = force + xp.sum(by_pair, axis=-2)
                potential = potential + xp.sum(shared, axis=-1)
            # The cell and slot of each atom.
            number = xp.arange(mine.shape[0], dtype=begin.dtype)
            cell = xp.searchsorted(begin[1:], number, side="right")
            slot = cell * _SLOTS + number - xp.take(begin, cell)
            return xp.take(xp.reshape(force, (-1, 3)), slot, axis=0), xp.sum(potential) / 2

        found = comm.each("force", force_of, wide, tables, begins, ordered)
        return ordered, [each[0] for each in found], [each[1] for each in found]

    def prices(self, ranks: int) -> Prices:
        """See ``Program``."""
        cells = ceil(self.cells[0] / ranks) * self.cells[1] * self.cells[2]
        plane = self.cells[1] * self.cells[2]
        atoms = 4 * self.long * self.wide**2 / ranks
        pairs = 27 * atoms * _DENSITY * float(np.prod(self.box / np.array(self.cells)))
        leaving = 4 * self.wide**2 * self.long / self.cells[0] * self.time_step * sqrt(_TEMPERATURE) / CUTOFF
        return {
            "move": Work(8 * 17 * atoms, 18 * atoms),
            "part": Work(8 * 14 * atoms, 5 * atoms),
            "migration": 56 * max(leaving, 1),
            "join": Work(8 * 14 * atoms),
            "cells": Work(8 * (14 * atoms + 3 * _SLOTS * cells), 30 * atoms),
            "halo": 8 * 3 * _SLOTS * plane,
            "force": Work(8 * (27 * 3 * _SLOTS * cells + 6 * atoms) / 8, 25 * pairs),  # neighbours are mostly cached
            "push": Work(8 * 17 * atoms, 6 * atoms),
            "kinetic": Work(8 * 7 * atoms, 6 * atoms),
            "energy": 16,
        }

    def error(self, answer: Fetched) -> float:
        """Compare forces with sums over all pairs; total energy must be conserved, and no atom lost."""
        atoms, force = np.concatenate(answer["atoms"]), np.concatenate(answer["force"])
        right = np.zeros_like(force)
        for begin in range(0, len(atoms), 64):  # in blocks: all pairs at once are too many
            apart = atoms[begin : begin + 64, None, :3] - atoms[None, :, :3]
            apart -= self.box * np.round(apart / self.box)
            right[begin : begin + 64] = pair_forces(np, apart, (apart**2).sum(-1))[0].sum(1)
        sums = answer["energies"][0].sum(1)
        drift = float(np.abs(sums - sums[0]).max()) / len(atoms)
        lost = 0.0 if np.array_equal(np.sort(atoms[:, 6]), np.arange(4 * self.long * self.wide**2)) else float("inf")
        apart = float(np.abs(force - right).max())
        return worst(apart / 1e-8, drift / 1e-3, differ(answer["energies"]) / 1e-9, lost)
