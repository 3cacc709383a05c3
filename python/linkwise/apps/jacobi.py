"""The Jacobi solver of a banded system (proact21 §IV-C)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from linkwise import _core
from linkwise._core import AgentPlan, Runtime
from linkwise._typing import Array
from linkwise.apps.base import Application
from linkwise.apps.generators import ROWS_AT_ONCE, banded_system
from linkwise.messages.schedules import even_cuts
from linkwise.runtime.parallel import in_blocks


class Jacobi(Application):
    """A banded system in double precision; rounding errors up to 10⁻¹⁰ of the largest value are allowed."""

    name, iterations = "jacobi", 20
    full_rows, band = 1 << 25, 16
    priced_rows, priced_band = 1 << 22, 96

    def __init__(self, scale: float, matrix: Path | None = None, band: int | None = None) -> None:
        self.rows = max(int(self.full_rows * scale), 64)
        self.band = band or self.band

    @cached_property
    def system(self) -> tuple[Array, Array]:
        """Diagonals and right-hand side; made on first use, as simulations do not need them."""
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
