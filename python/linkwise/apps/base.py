"""What an application of proactive transfers is: data, kernels in C++ (``apps/``), and a reference in NumPy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from linkwise import _core
from linkwise._core import AgentPlan, Runtime
from linkwise._typing import Array


class Application(ABC):
    """An application at some size: ``scale`` is relative to its full size."""

    name: str
    iterations: int
    own_size = False
    """Whether it is priced at the size of its own data, instead of the paper's."""

    @abstractmethod
    def __init__(self, scale: float, matrix: Path | None = None) -> None: ...

    @abstractmethod
    def start(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """Put the data on the GPUs."""

    @abstractmethod
    def priced(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """The same on an estimating runtime, without data."""

    @property
    @abstractmethod
    def elements(self) -> int:
        """The number of elements of the mirrored array."""

    @abstractmethod
    def result(self, app: _core.App, gpu: int) -> Array:
        """A GPU's copy of the result."""

    @abstractmethod
    def error(self, result: Array, iterations: int) -> float:
        """The error of a result against the reference after this many iterations, relative to the tolerance."""
