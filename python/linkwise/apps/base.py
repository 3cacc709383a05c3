"""What an application of proactive transfers is: data, kernels in C++ (``apps/``), and a reference in NumPy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from linkwise import _core
from linkwise._core import AgentPlan, Runtime
from linkwise._typing import Array


class Application(ABC):
    """One of the applications, at a size: ``scale`` multiplies the one at which it is measured."""

    name: str
    iterations: int
    own_size = False
    """Whether it is priced at the size of its data, and not of the paper's."""

    @abstractmethod
    def __init__(self, scale: float, matrix: Path | None = None) -> None: ...

    @abstractmethod
    def start(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """Put the data on the GPUs."""

    @abstractmethod
    def priced(self, runtime: Runtime, gpus: Sequence[int], plan: AgentPlan) -> _core.App:
        """The same on an estimating machine, without data."""

    @property
    @abstractmethod
    def elements(self) -> int:
        """Of the array that is mirrored."""

    @abstractmethod
    def result(self, app: _core.App, gpu: int) -> Array:
        """What a GPU has."""

    @abstractmethod
    def error(self, result: Array, iterations: int) -> float:
        """How far a result is from the reference after so many iterations, as a share of what is allowed."""
