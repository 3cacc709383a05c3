"""X-ray tomography (proact21 §IV-C): the image of a phantom from its sinogram, by model-based iterations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from linkwise import _core
from linkwise._core import AgentPlan, Runtime
from linkwise._typing import Array
from linkwise.apps.base import Application
from linkwise.apps.generators import phantom, sinogram_of_phantom
from linkwise.messages.schedules import even_cuts
from linkwise.runtime.parallel import in_blocks

_LINES_AT_ONCE = 64


class Tomography(Application):
    """Reconstruction of Shepp and Logan's phantom from its exact sinogram."""

    name, iterations = "xray_ct", 40
    full_size, full_views, priced_views = 4096, 24, 192
    smoothing = 2.0

    def __init__(self, scale: float, matrix: Path | None = None, views: int | None = None) -> None:
        self.size = max(int(self.full_size * scale**0.5), 32)
        self.views = views or self.full_views
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
        size, views = (self.size, self.views) if self.own_size else (self.full_size, self.priced_views)
        return self._make(runtime, gpus, plan, size, views, None)

    @property
    def elements(self) -> int:
        """See ``Application``."""
        return self.size**2

    def result(self, app: _core.App, gpu: int) -> Array:
        """See ``Application``."""
        found = np.empty((self.size, self.size), np.float32)
        app.fetch(gpu, found)
        return found

    def error(self, result: Array, iterations: int) -> float:
        """See ``Application``."""
        wanted = self._reference(iterations)
        return float(np.abs(result - wanted).max() / (2e-3 * max(np.abs(wanted).max(), 1e-6)))

    def distance_to_phantom(self, result: Array) -> float:
        """The root mean square error, relative to the phantom's own root mean square."""
        true = phantom(self.size)
        return float(np.sqrt(((result - true) ** 2).mean() / (true**2).mean()))

    def _reference(self, iterations: int) -> Array:
        n, step = self.size, 1.0 / (self.views * self.size)
        middle = (n - 1) / 2
        index = np.arange(n)
        image = np.zeros((n, n))
        for _ in range(iterations):
            residuals = in_blocks(lambda view, image=image: self._residual(image, view), self.views, 1)  # type: ignore[misc]

            def gathered(first: int, residuals: list[Array] = residuals) -> Array:
                rows = index[first : first + _LINES_AT_ONCE, None] - middle
                total = np.zeros((len(rows), n))
                for (c, s), residual in zip(self._directions(), residuals, strict=True):
                    at = (index[None, :] - middle) * c + rows * s + (self.detectors - 1) / 2
                    total += np.interp(at, np.arange(-1, self.detectors + 1), np.pad(residual, 1), left=0, right=0)
                return total

            back = np.concatenate(in_blocks(gathered, n, _LINES_AT_ONCE))
            padded = np.pad(image, 1, "edge")
            rough = 4 * image - padded[:-2, 1:-1] - padded[2:, 1:-1] - padded[1:-1, :-2] - padded[1:-1, 2:]
            image = np.maximum(image + step * (back - self.smoothing * rough), 0)
        return image

    def _directions(self) -> list[tuple[float, float]]:
        angles = np.pi * np.arange(self.views) / self.views
        return list(zip(np.cos(angles), np.sin(angles), strict=True))

    def _residual(self, image: Array, view: int) -> Array:
        residual: Array = self.sinogram[view] - self._projection(image, *self._directions()[view])
        return residual

    def _projection(self, image: Array, c: float, s: float) -> Array:
        n = self.size
        middle = (n - 1) / 2
        offset = np.arange(self.detectors) - (self.detectors - 1) / 2
        lines, along, across = (image, c, s) if abs(c) >= abs(s) else (image.T, s, c)
        total = np.zeros(self.detectors)
        for first in range(0, n, _LINES_AT_ONCE):
            some = np.pad(lines[first : first + _LINES_AT_ONCE], ((0, 0), (2, 2)))  # the image is 0 outside
            number = np.arange(len(some))[:, None]
            at = np.clip((offset - (first + number - middle) * across) / along + middle, -2, n)
            below = np.floor(at).astype(np.int64)
            low, high = some[number, below + 2], some[number, below + 3]
            total += (low + (at - below) * (high - low)).sum(0)
        return total / abs(along)
