"""PageRank, shortest paths and matrix factorisation (proact21 §IV-C): rows that gather from others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from linkwise import _core
from linkwise._core import AgentPlan, MatrixArrays, Runtime, UsageError
from linkwise._typing import Array
from linkwise.apps.base import Application
from linkwise.apps.generators import mesh_graph, power_law_graph
from linkwise.apps.matrix_market import read_matrix
from linkwise.apps.sparse_matrix import Matrix
from linkwise.messages.schedules import even_cuts

ROWS_AT_ONCE = 1 << 14  # each row has dozens of entries, each with the factors of both sides


def cuts_by_entries(matrix: Matrix, parts: int) -> list[int]:
    """The cut points of parts that balance entries, with at least one row each."""
    work = matrix.first.astype(np.int64) + np.arange(matrix.rows + 1)
    cuts = [0]
    for part in range(1, parts):
        wanted = int(np.searchsorted(work, work[-1] * part // parts))
        cuts.append(max(cuts[-1] + 1, min(wanted, matrix.rows - (parts - part))))  # at least one row each
    return [*cuts, matrix.rows]


class OnGraph(Application):
    """An application whose vertices gather along their incoming edges."""

    full_vertices: int
    full_edges: int
    is_square = True
    """Whether rows and columns are the same vertices."""

    def __init__(self, scale: float, matrix: Path | None = None) -> None:
        vertices = max(int(self.full_vertices * scale), 64)
        self.edges = self._made(vertices) if matrix is None else read_matrix(matrix, square=self.is_square)
        self.incoming = self.edges.transposed()

    @abstractmethod
    def _made(self, vertices: int) -> Matrix: ...

    @staticmethod
    def arrays(matrix: Matrix) -> MatrixArrays:
        """The matrix in the form that the core takes."""
        return MatrixArrays(
            matrix.rows, matrix.columns, len(matrix.column), matrix.first, matrix.column, matrix.value
        )  # fmt: skip

    def priced_size(self, side: Matrix) -> tuple[int, MatrixArrays]:
        """The number of rows of one side to price, and its dimensions without data."""
        if self.own_size:
            return side.rows, MatrixArrays(side.rows, side.columns, len(side.column))
        return self.full_vertices, MatrixArrays(self.full_vertices, self.full_vertices, self.full_edges)

    @property
    def elements(self) -> int:
        """See ``Application``."""
        return self.incoming.rows

    def result(self, app: _core.App, gpu: int) -> Array:
        """See ``Application``."""
        found = np.empty(self.incoming.rows, np.float32)
        app.fetch(gpu, found)
        return found


class PageRank(OnGraph):
    """PageRank divided by out-degree, on a graph like Wikipedia's links (3.6 million articles, 45 million links)."""

    name, iterations = "pagerank", 20
    full_vertices, full_edges = 3_566_907, 45_030_389
    damping = 0.85

    def __init__(self, scale: float, matrix: Path | None = None, links: float | None = None) -> None:
        self.links = links or self.full_edges / self.full_vertices
        super().__init__(scale, matrix)

    def _made(self, vertices: int) -> Matrix:
        return power_law_graph(vertices, int(vertices * self.links))

    @property
    def inverse_degrees(self) -> Array:
        """Inverse out-degrees; 0 for vertices without outgoing edges."""
        degrees = self.edges.entries_of_rows
        return np.where(degrees > 0, 1 / np.maximum(degrees, 1), 0).astype(np.float32)

    def start(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        cuts = cuts_by_entries(self.incoming, len(gpus))
        incoming = self.arrays(self.incoming)
        return _core.make_pagerank(runtime, list(gpus), cuts, plan, incoming, self.inverse_degrees, self.damping)

    def priced(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        rows, size = self.priced_size(self.incoming)
        return _core.make_pagerank(runtime, list(gpus), even_cuts(rows, len(gpus)), plan, size)

    def error(self, result: Array, iterations: int) -> float:
        """See ``Application``."""
        inverse = self.inverse_degrees.astype(np.float64)
        n, rows = self.incoming.rows, self.incoming.rows_of_entries()
        share = inverse / n
        for _ in range(iterations):
            total = np.bincount(rows, share[self.incoming.column], n)
            share = ((1 - self.damping) / n + self.damping * total) * inverse
        return float(np.max(np.abs(result - share)) / (1e-4 * np.max(share)))


class ShortestPaths(OnGraph):
    """Shortest distances by the Bellman-Ford algorithm on a mesh like HV15R (2 million rows, 283 million entries)."""

    name, iterations = "sssp", 20
    full_vertices, full_edges = 2_017_169, 283_073_458

    def __init__(self, scale: float, matrix: Path | None = None, degree: int = 24) -> None:
        self.degree = degree
        super().__init__(scale, matrix)
        if (self.edges.value < 0).any():
            raise UsageError(f"{matrix} has lengths below 0; shortest paths take none")

    def _made(self, vertices: int) -> Matrix:
        return mesh_graph(vertices, self.degree)

    def start(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        cuts = cuts_by_entries(self.incoming, len(gpus))
        return _core.make_sssp(runtime, list(gpus), cuts, plan, self.arrays(self.incoming), 0)

    def priced(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        rows, size = self.priced_size(self.incoming)
        return _core.make_sssp(runtime, list(gpus), even_cuts(rows, len(gpus)), plan, size, 0)

    def error(self, result: Array, iterations: int) -> float:
        """See ``Application``."""
        distance = np.full(self.incoming.rows, np.inf, np.float32)
        distance[0] = 0
        rows = self.incoming.rows_of_entries()
        for _ in range(iterations):
            nearer = distance.copy()
            np.minimum.at(nearer, rows, distance[self.incoming.column] + self.incoming.value)
            distance = nearer
        return 0.0 if np.array_equal(result, distance) else np.inf  # each path is summed in one order: exact
