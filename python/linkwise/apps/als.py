"""Matrix factorisation by alternating least squares (proact21 §IV-C)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from linkwise import _core
from linkwise._core import AgentPlan, Runtime
from linkwise._typing import Array
from linkwise.apps.generators import mesh_graph
from linkwise.apps.graph import ROWS_AT_ONCE, OnGraph, cuts_by_entries
from linkwise.apps.sparse_matrix import Matrix
from linkwise.messages.schedules import even_cuts
from linkwise.runtime.parallel import in_blocks


class Factorisation(OnGraph):
    """Factorises a ratings matrix shaped like HV15R by gradient steps on user and item factors in turn.

    Rows are users and columns are items. If the largest rating exceeds 10, all are scaled so that it becomes 10: with
    ratings beyond about 40, gradient steps of a fixed length would diverge.
    """

    name, iterations = "als", 10
    full_vertices, full_edges = 2_017_169, 283_073_458
    rank, step, decay = 8, 0.05, 0.01
    largest_rating = 10.0
    is_square = False

    def _made(self, vertices: int) -> Matrix:
        return mesh_graph(vertices, self.degree)

    def __init__(self, scale: float, matrix: Path | None = None, degree: int = 24) -> None:
        self.degree = degree
        super().__init__(scale, matrix)
        largest = float(np.abs(self.edges.value).max(initial=0))
        if largest > self.largest_rating:
            part = np.float32(self.largest_rating / largest)
            self.edges, self.incoming = (replace(side, value=side.value * part) for side in (self.edges, self.incoming))
        random = np.random.default_rng(2)
        self.factors = random.uniform(0, 1, (self.edges.rows + self.incoming.rows, self.rank)).astype(np.float32)

    def start(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        users, items = (cuts_by_entries(side, len(gpus)) for side in (self.edges, self.incoming))
        return _core.make_als(
            runtime, list(gpus), users, items, plan, self.arrays(self.edges), self.arrays(self.incoming),
            self.step, self.decay, self.factors.ravel(),
        )  # fmt: skip

    def priced(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        (users, of_users), (items, of_items) = self.priced_size(self.edges), self.priced_size(self.incoming)
        user_cuts, item_cuts = even_cuts(users, len(gpus)), even_cuts(items, len(gpus))
        return _core.make_als(
            runtime, list(gpus), user_cuts, item_cuts, plan, of_users, of_items, step=self.step, decay=self.decay
        )

    @property
    def elements(self) -> int:
        """See ``Application``."""
        return self.factors.size

    def result(self, app: _core.App, gpu: int) -> Array:
        """See ``Application``."""
        found = np.empty_like(self.factors)
        app.fetch(gpu, found)
        return found

    def error(self, result: Array, iterations: int) -> float:
        """See ``Application``."""
        users = self.factors[: self.edges.rows].astype(np.float64)
        items = self.factors[self.edges.rows :].astype(np.float64)
        for _ in range(iterations):
            users = self._improved(self.edges, users, items)
            items = self._improved(self.incoming, items, users)
        wanted = np.concatenate([users, items])
        return float(np.abs(result - wanted).max() / (1e-4 * np.abs(wanted).max()))

    def _improved(self, side: Matrix, own: Array, others: Array) -> Array:
        of_ranks = [np.ascontiguousarray(factors) for factors in others.T]
        return np.concatenate(
            in_blocks(lambda first: self._improved_rows(side, own, of_ranks, first), side.rows, ROWS_AT_ONCE)
        )

    def _improved_rows(self, side: Matrix, own: Array, others: list[Array], first: int) -> Array:
        mine = own[first : first + ROWS_AT_ONCE]
        ends = side.first[first : first + len(mine) + 1].astype(np.int64)
        entries = slice(int(ends[0]), int(ends[-1]))
        begin, counts = ends[:-1] - ends[0], np.diff(ends)
        error, of_others = side.value[entries].astype(np.float64), []
        for rank, factors in enumerate(others):
            of_others.append(factors[side.column[entries]])
            error -= np.repeat(mine[:, rank], counts) * of_others[-1]
        gradient, filled = np.zeros_like(mine), counts > 0  # reduceat would give an empty row the next row's term
        for rank, factors in enumerate(of_others):
            gradient[filled, rank] = np.add.reduceat(error * factors, begin[filled]) if len(error) else 0
        improved: Array = mine + self.step * gradient / np.maximum(counts, 1)[:, None] - self.step * self.decay * mine
        return improved
