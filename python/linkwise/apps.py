"""The applications of proact21 (§IV-C) on proactive regions, by name; and the Jacobi solver."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linkwise import _core
from linkwise._core import AgentPlan, Runtime, UsageError
from linkwise.app_data import ROWS_AT_ONCE, banded_system
from linkwise.application import Application, even_cuts
from linkwise.blocks import in_blocks
from linkwise.graph_apps import Factorisation, OnGraph, PageRank, ShortestPaths
from linkwise.tomography import Tomography

Array = npt.NDArray[Any]


class Jacobi(Application):
    """A banded system, doubles; 10⁻¹⁰ of the largest value may differ by rounding."""

    name, iterations = "jacobi", 20
    full_rows, band = 1 << 25, 16
    priced_rows, priced_band = 1 << 22, 96

    def __init__(self, scale: float, matrix: Path | None = None, band: int | None = None) -> None:
        self.rows = max(int(self.full_rows * scale), 64)
        self.band = band or self.band

    @cached_property
    def system(self) -> tuple[Array, Array]:
        """Diagonals and right side, which a simulation has no need of."""
        return banded_system(self.rows, self.band)

    def start(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        diagonals, right_side = self.system
        return _core.make_jacobi(
            runtime, list(gpus), even_cuts(self.rows, len(gpus)), plan, self.rows, self.band, diagonals.ravel(),
            right_side,
        )  # fmt: skip

    def priced(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """See ``Application``."""
        rows, band = (self.rows, self.band) if self.own_size else (self.priced_rows, self.priced_band)
        return _core.make_jacobi(runtime, list(gpus), even_cuts(rows, len(gpus)), plan, rows, band)

    @property
    def elements(self) -> int:
        """See ``Application``."""
        return self.rows

    def result(self, app: _core.App, gpu: int) -> Array:
        """See ``Application``."""
        found = np.empty(self.rows)
        app.fetch(gpu, found)
        return found

    def error(self, result: Array, iterations: int) -> float:
        """See ``Application``."""
        x = np.zeros(self.rows)
        for _ in range(iterations):
            x = np.concatenate(in_blocks(lambda first, x=x: self._improved(first, x), self.rows, ROWS_AT_ONCE))  # type: ignore[misc]
        return float(np.abs(result - x).max() / (1e-10 * np.abs(x).max()))

    def _improved(self, first: int, x: Array) -> Array:
        """Some rows of the next x."""
        last = min(first + ROWS_AT_ONCE, self.rows)
        diagonals, right_side = self.system
        total = right_side[first:last].copy()
        for shift in range(-self.band, self.band + 1):
            begin, end = max(first, -shift), min(last, self.rows - shift)
            if shift and begin < end:
                total[begin - first : end - first] -= (
                    diagonals[shift + self.band, begin:end] * x[begin + shift : end + shift]
                )
        improved: Array = total / diagonals[self.band, first:last]
        return improved


APPLICATIONS: dict[str, type[Application]] = {
    each.name: each for each in (Jacobi, PageRank, ShortestPaths, Factorisation, Tomography)
}


def check_scale(scale: float) -> None:
    """Raise ``UsageError`` for a scale that no data has."""
    if not 0 < scale <= 64:
        raise UsageError(f"the scale is {scale:g}; it is more than 0, and 64 at most")


def application(name: str, scale: float, matrix: Path | None = None) -> Application:
    """The named application with its data.

    Raises
    ------
    UsageError
        If there is none of that name, or it takes no matrix.

    """
    if name not in APPLICATIONS:
        raise UsageError(f"there is no app '{name}'; there are {', '.join(APPLICATIONS)}")
    check_scale(scale)
    kind = APPLICATIONS[name]
    if matrix is not None and not issubclass(kind, OnGraph):
        raise UsageError(f"{name} takes no matrix; it makes its own data")
    return kind(scale, matrix)
