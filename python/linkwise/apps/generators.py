"""What the applications work on: generated graphs, banded systems and phantoms, and matrices from files.

The generators stand in for the data sets of proact21 (§IV-C): Wikipedia's links and HV15R, a mesh of a flow's volume.
"""

from __future__ import annotations

import numpy as np

from linkwise._typing import Array
from linkwise.apps.sparse_matrix import Matrix, matrix_of
from linkwise.runtime.host_memory import uninitialised
from linkwise.runtime.parallel import in_blocks

ROWS_AT_ONCE = 1 << 17
"""Rows per task: enough that NumPy seldom returns to the interpreter, which only one thread can use at a time."""

_EDGES_AT_ONCE = 1 << 21


def power_law_graph(vertices: int, edges: int, seed: int = 1) -> Matrix:
    """An R-MAT graph (Chakrabarti et al.), like Wikipedia's links: few vertices have most edges."""
    levels = max(int(np.ceil(np.log2(vertices))), 1)
    scatter = np.random.default_rng((seed, edges)).permutation(2**levels)  # vertex numbers independent of degrees

    def some(first: int) -> tuple[Array, Array, Array]:
        random = np.random.default_rng((seed, first))
        count = min(_EDGES_AT_ONCE, edges - first)
        row, column = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for _ in range(levels):
            place = random.random(count, np.float32)  # quadrants with 0.57, 0.19, 0.19 and 0.05 of the edges
            row = 2 * row + (place >= 0.76)
            column = 2 * column + ((place >= 0.57) & (place < 0.76) | (place >= 0.95))
        row, column = scatter[row] % vertices, scatter[column] % vertices
        kept = row != column
        return row[kept], column[kept], random.uniform(1, 10, count)[kept]

    row, column, value = map(np.concatenate, zip(*in_blocks(some, max(edges, 1), _EDGES_AT_ONCE), strict=True))
    return matrix_of(row, column, value, vertices, vertices)


def mesh_graph(vertices: int, edges_of_vertex: int, seed: int = 1) -> Matrix:
    """A mesh: all vertices have about as many neighbours, whose numbers are nearby."""
    reach = max(int(vertices ** (2 / 3)), 2)

    def some(first: int) -> tuple[Array, Array, Array]:
        random = np.random.default_rng((seed, first))
        row = np.arange(first, min(first + ROWS_AT_ONCE, vertices))[:, None]
        shape = len(row), edges_of_vertex
        column = row + random.integers(1, reach + 1, shape) * random.choice([-1, 1], shape)
        column[:, :1] = row - 1  # a path, so that the graph is connected
        column.sort()
        kept = (column >= 0) & (column < vertices) & (column != row)
        kept[:, 1:] &= column[:, 1:] != column[:, :-1]
        return kept.sum(1), column[kept].astype(np.uint32), random.uniform(1, 10, shape)[kept].astype(np.float32)

    counts, column, value = map(np.concatenate, zip(*in_blocks(some, vertices, ROWS_AT_ONCE), strict=True))
    return Matrix(np.append(0, np.cumsum(counts)).astype(np.uint64), column, value, vertices)


def banded_system(rows: int, band: int, seed: int = 1) -> tuple[Array, Array]:
    """Diagonals [2 · band + 1][rows] of a diagonally dominant matrix, and a right-hand side."""
    width = 2 * band + 1
    diagonals = uninitialised(width * rows, np.float64).reshape(width, rows)

    def fill(number: int) -> None:
        diagonals[number] = np.random.default_rng((seed, number)).uniform(-1, 1, rows)

    def dominate(first: int) -> None:
        part = diagonals[:, first : first + ROWS_AT_ONCE]
        part[band] = np.abs(part).sum(0) + 1

    in_blocks(fill, width, 1)
    in_blocks(dominate, rows, ROWS_AT_ONCE)
    return diagonals, np.random.default_rng((seed, width)).uniform(-1, 1, rows)


# Shepp and Logan's head: value, half axes, centre, angle in degrees; the values as Toft has them, for contrast.
_ELLIPSES = (
    (1.0, 0.69, 0.92, 0.0, 0.0, 0), (-0.8, 0.6624, 0.874, 0.0, -0.0184, 0), (-0.2, 0.11, 0.31, 0.22, 0.0, -18),
    (-0.2, 0.16, 0.41, -0.22, 0.0, 18), (0.1, 0.21, 0.25, 0.0, 0.35, 0), (0.1, 0.046, 0.046, 0.0, 0.1, 0),
    (0.1, 0.046, 0.046, 0.0, -0.1, 0), (0.1, 0.046, 0.023, -0.08, -0.605, 0), (0.1, 0.023, 0.023, 0.0, -0.606, 0),
    (0.1, 0.023, 0.046, 0.06, -0.605, 0),
)  # fmt: skip


def phantom(size: int) -> Array:
    """Shepp and Logan's phantom, [size][size], float32."""
    y, x = np.meshgrid(*[(np.arange(size) - (size - 1) / 2) / (size / 2)] * 2, indexing="ij")
    image = np.zeros((size, size), np.float32)
    for value, a, b, x0, y0, degrees in _ELLIPSES:
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        along, across = (x - x0) * c + (-y - y0) * s, -(x - x0) * s + (-y - y0) * c
        image[(along / a) ** 2 + (across / b) ** 2 <= 1] += value
    return image


def sinogram_of_phantom(size: int, views: int, detectors: int) -> Array:
    """The exact line integrals through the phantom's ellipses, in pixels: [views][detectors], float32."""
    angle = np.pi * np.arange(views)[:, None] / views
    offset = (np.arange(detectors)[None, :] - (detectors - 1) / 2) / (size / 2)
    total = np.zeros((views, detectors))
    for value, a, b, x0, y0, degrees in _ELLIPSES:
        # Rows of the image run downwards: what lies at height y is seen at -y.
        turned = -angle - np.radians(degrees)
        reach = (a * np.cos(turned)) ** 2 + (b * np.sin(turned)) ** 2
        distance = offset - (x0 * np.cos(angle) - y0 * np.sin(angle))
        total += value * 2 * a * b * np.sqrt(np.maximum(reach - distance**2, 0)) / reach
    return (total * size / 2).astype(np.float32)
