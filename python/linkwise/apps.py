"""The applications of proact21 (§IV-C) on proactive regions: Jacobi, PageRank, SSSP, ALS and X-ray CT.

Each has its kernels in C++ (``apps/``), its data here, and a reference in NumPy that its result is held to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linkwise import _core
from linkwise._core import AgentPlan, MatrixArrays, Runtime, UsageError
from linkwise.app_data import (
    Matrix,
    banded_system,
    mesh_graph,
    phantom,
    power_law_graph,
    read_matrix,
    sinogram_of_phantom,
)

Array = npt.NDArray[Any]


def even_cuts(rows: int, parts: int) -> list[int]:
    """Where equal parts of rows begin and end."""
    return [rows * part // parts for part in range(parts + 1)]


def cuts_by_entries(matrix: Matrix, parts: int) -> list[int]:
    """Where parts with equally many entries, and a few rows each, begin and end."""
    work = matrix.first.astype(np.int64) + np.arange(matrix.rows + 1)
    inner = [int(np.searchsorted(work, work[-1] * part // parts)) for part in range(1, parts)]
    return [0, *inner, matrix.rows]


class Application(ABC):
    """One of the applications, at a size.

    ``scale`` multiplies the size at which the application is measured; ``nominal`` prices that size without data.
    """

    name: str
    iterations: int

    @abstractmethod
    def __init__(self, scale: float, matrix: Path | None = None) -> None: ...

    @abstractmethod
    def start(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """Put the data on the GPUs."""

    @abstractmethod
    def priced(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """The same at full size on an estimating machine."""

    @abstractmethod
    def result(self, app: _core.App, gpu: int) -> Array:
        """What a GPU has."""

    @abstractmethod
    def error(self, result: Array, iterations: int) -> float:
        """How far a result is from the reference after so many iterations, as a share of what is allowed."""


class Jacobi(Application):
    """A banded system, doubles; a tenth of a thousandth of the largest value may differ by rounding."""

    name, iterations = "jacobi", 20
    full_rows, band = 1 << 25, 16
    priced_rows, priced_band = 1 << 22, 96

    def __init__(self, scale: float, matrix: Path | None = None) -> None:
        self.rows = max(int(self.full_rows * scale), 64)
        self.diagonals, self.right_side = banded_system(self.rows, self.band)

    def start(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        return _core.make_jacobi(
            runtime, list(gpus), even_cuts(self.rows, len(gpus)), plan, self.rows, self.band, self.diagonals.ravel(),
            self.right_side,
        )  # fmt: skip

    def priced(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        cuts = even_cuts(self.priced_rows, len(gpus))
        return _core.make_jacobi(runtime, list(gpus), cuts, plan, self.priced_rows, self.priced_band)

    def result(self, app: _core.App, gpu: int) -> Array:
        """See ``Application``."""
        found = np.empty(self.rows)
        app.fetch(gpu, found)
        return found

    def error(self, result: Array, iterations: int) -> float:
        """See ``Application``."""
        x = np.zeros(self.rows)
        for _ in range(iterations):
            total = self.right_side.copy()
            for d in range(2 * self.band + 1):
                shift = d - self.band
                if shift == 0:
                    continue
                own, other = (
                    slice(max(-shift, 0), self.rows - max(shift, 0)),
                    slice(max(shift, 0), self.rows - max(-shift, 0)),
                )
                total[own] -= self.diagonals[d, own] * x[other]
            x = total / self.diagonals[self.band]
        return float(np.abs(result - x).max() / (1e-10 * np.abs(x).max()))


class _OnGraph(Application):
    """Of vertices that gather from those whose edges come in."""

    full_vertices: int
    full_edges: int

    def __init__(self, scale: float, matrix: Path | None = None) -> None:
        vertices = max(int(self.full_vertices * scale), 64)
        self.edges = self._made(vertices) if matrix is None else read_matrix(matrix)
        self.incoming = self.edges.transposed()

    @abstractmethod
    def _made(self, vertices: int) -> Matrix: ...

    @staticmethod
    def arrays(matrix: Matrix) -> MatrixArrays:
        """As the core takes it."""
        return MatrixArrays(
            matrix.rows, matrix.columns, len(matrix.column), matrix.first, matrix.column, matrix.value
        )  # fmt: skip

    def full(self) -> MatrixArrays:
        """The size at which it is priced."""
        return MatrixArrays(self.full_vertices, self.full_vertices, self.full_edges)

    def result(self, app: _core.App, gpu: int) -> Array:
        """See ``Application``."""
        found = np.empty(self.incoming.rows, np.float32)
        app.fetch(gpu, found)
        return found


class PageRank(_OnGraph):
    """Ranks over out-degrees on a graph like Wikipedia's links (3.6 million articles, 45 million links)."""

    name, iterations = "pagerank", 20
    full_vertices, full_edges = 3_566_907, 45_030_389
    damping = 0.85

    def _made(self, vertices: int) -> Matrix:
        return power_law_graph(vertices, int(vertices * self.full_edges / self.full_vertices))

    @property
    def inverse_degrees(self) -> Array:
        """Of the out-degrees; 0 where there is none."""
        degrees = self.edges.entries_of_rows
        return np.where(degrees > 0, 1 / np.maximum(degrees, 1), 0).astype(np.float32)

    def start(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        cuts = cuts_by_entries(self.incoming, len(gpus))
        incoming = self.arrays(self.incoming)
        return _core.make_pagerank(runtime, list(gpus), cuts, plan, incoming, self.inverse_degrees, self.damping)

    def priced(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        return _core.make_pagerank(runtime, list(gpus), even_cuts(self.full_vertices, len(gpus)), plan, self.full())

    def error(self, result: Array, iterations: int) -> float:
        """See ``Application``."""
        inverse = self.inverse_degrees.astype(np.float64)
        n, rows = self.incoming.rows, self.incoming.rows_of_entries()
        share = inverse / n
        for _ in range(iterations):
            total = np.bincount(rows, share[self.incoming.column], n)
            share = ((1 - self.damping) / n + self.damping * total) * inverse
        return float(np.abs(result - share).max() / (1e-4 * share.max()))


class ShortestPaths(_OnGraph):
    """Distances by Bellman and Ford's method on a mesh like HV15R (2 million rows, 283 million entries)."""

    name, iterations = "sssp", 20
    full_vertices, full_edges = 2_017_169, 283_073_458

    def _made(self, vertices: int) -> Matrix:
        return mesh_graph(vertices, 24)

    def start(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        cuts = cuts_by_entries(self.incoming, len(gpus))
        return _core.make_sssp(runtime, list(gpus), cuts, plan, self.arrays(self.incoming), 0)

    def priced(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        return _core.make_sssp(runtime, list(gpus), even_cuts(self.full_vertices, len(gpus)), plan, self.full(), 0)

    def error(self, result: Array, iterations: int) -> float:
        """See ``Application``."""
        distance = np.full(self.incoming.rows, np.inf, np.float32)
        distance[0] = 0
        rows = self.incoming.rows_of_entries()
        for _ in range(iterations):
            nearer = distance.copy()
            np.minimum.at(nearer, rows, distance[self.incoming.column] + self.incoming.value)
            distance = nearer
        return 0.0 if np.array_equal(result, distance) else np.inf  # sums along a path have one order


class Factorisation(_OnGraph):
    """Users' and items' factors of a matrix like HV15R by gradient steps on each side in turn."""

    name, iterations = "als", 10
    full_vertices, full_edges = 2_017_169, 283_073_458
    rank, step, decay = 8, 0.05, 0.01

    def _made(self, vertices: int) -> Matrix:
        return mesh_graph(vertices, 24)

    def __init__(self, scale: float, matrix: Path | None = None) -> None:
        super().__init__(scale, matrix)
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
        cuts = even_cuts(self.full_vertices, len(gpus))
        return _core.make_als(
            runtime, list(gpus), cuts, cuts, plan, self.full(), self.full(), step=self.step, decay=self.decay
        )

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

    def _improved(self, rows: Matrix, own: Array, others: Array) -> Array:
        row = rows.rows_of_entries()
        error = rows.value - (own[row] * others[rows.column]).sum(1)
        gradient = np.stack(
            [np.bincount(row, error * others[rows.column, k], rows.rows) for k in range(self.rank)], axis=1
        )
        entries = np.maximum(rows.entries_of_rows, 1)[:, None]
        improved: Array = own + self.step * gradient / entries - self.step * self.decay * own
        return improved


class Tomography(Application):
    """Reconstruction of Shepp and Logan's phantom from its exact sinogram."""

    name, iterations = "xray_ct", 40
    full_size, full_views, priced_views = 4096, 24, 192
    smoothing = 2.0

    def __init__(self, scale: float, matrix: Path | None = None) -> None:
        self.size = max(int(self.full_size * scale**0.5), 32)
        self.views = self.full_views
        self.detectors = self._detectors(self.size)
        self.sinogram = sinogram_of_phantom(self.size, self.views, self.detectors)

    @staticmethod
    def _detectors(size: int) -> int:
        return int(np.ceil(1.42 * size))

    def _make(
        self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan, size: int, views: int, data: Array | None
    ) -> _core.App:
        detectors = self._detectors(size)
        step = 1.0 / (views * size)  # the largest eigenvalue of AᵀA is about views · size
        return _core.make_xray_ct(
            runtime, list(gpus), even_cuts(size * size, len(gpus)), even_cuts(views * detectors, len(gpus)),
            plan, size, views, detectors, step, self.smoothing, data,
        )  # fmt: skip

    def start(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        return self._make(runtime, gpus, plan, self.size, self.views, self.sinogram.ravel())

    def priced(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        return self._make(runtime, gpus, plan, self.full_size, self.priced_views, None)

    def result(self, app: _core.App, gpu: int) -> Array:
        """See ``Application``."""
        found = np.empty((self.size, self.size), np.float32)
        app.fetch(gpu, found)
        return found

    def error(self, result: Array, iterations: int) -> float:
        """Of what the iterations say, and of the picture: a reconstruction is nearer to the phantom than to nothing."""
        wanted = self._reference(iterations)
        return float(np.abs(result - wanted).max() / (2e-3 * max(np.abs(wanted).max(), 1e-6)))

    def distance_to_phantom(self, result: Array) -> float:
        """The root of the mean squared difference, as a share of the phantom's own."""
        true = phantom(self.size)
        return float(np.sqrt(((result - true) ** 2).mean() / (true**2).mean()))

    def _reference(self, iterations: int) -> Array:
        n, step = self.size, 1.0 / (self.views * self.size)
        middle = (n - 1) / 2
        index = np.arange(n)
        image = np.zeros((n, n))
        for _ in range(iterations):
            gathered = np.zeros((n, n))
            for view in range(self.views):
                angle = np.pi * view / self.views
                c, s = np.cos(angle), np.sin(angle)
                residual = self.sinogram[view] - self._projection(image, c, s)
                at = (index[None, :] - middle) * c + (index[:, None] - middle) * s + (self.detectors - 1) / 2
                gathered += np.interp(at, np.arange(-1, self.detectors + 1), np.pad(residual, 1), left=0, right=0)
            padded = np.pad(image, 1, "edge")
            rough = 4 * image - padded[:-2, 1:-1] - padded[2:, 1:-1] - padded[1:-1, :-2] - padded[1:-1, 2:]
            image = np.maximum(image + step * (gathered - self.smoothing * rough), 0)
        return image

    def _projection(self, image: Array, c: float, s: float) -> Array:
        n = self.size
        middle = (n - 1) / 2
        offset = np.arange(self.detectors) - (self.detectors - 1) / 2
        lines, along, across = (image, c, s) if abs(c) >= abs(s) else (image.T, s, c)
        total = np.zeros(self.detectors)
        for line in range(n):
            at = (offset - (line - middle) * across) / along + middle
            total += np.interp(at, np.arange(-1, n + 1), np.pad(lines[line], 1), left=0, right=0)
        return total / abs(along)


APPLICATIONS: dict[str, type[Application]] = {
    each.name: each for each in (Jacobi, PageRank, ShortestPaths, Factorisation, Tomography)
}


def application(name: str, scale: float, matrix: Path | None = None) -> Application:
    """The named application with its data.

    Raises
    ------
    UsageError
        If there is none of that name, or it takes no matrix.

    """
    if name not in APPLICATIONS:
        raise UsageError(f"there is no app '{name}'; there are {', '.join(APPLICATIONS)}")
    if not 0 < scale <= 64:
        raise UsageError(f"the scale is {scale:g}; it is more than 0, and 64 at most")
    kind = APPLICATIONS[name]
    if matrix is not None and not issubclass(kind, _OnGraph):
        raise UsageError(f"{name} takes no matrix; it makes its own data")
    return kind(scale, matrix)
