"""Ranks on GPUs: what they were given goes on while the host goes on, and NCCL may carry their messages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from linkwise.messages.communicator import Arrays, Communicator
from linkwise.messages.nccl import Nccl


@dataclass(frozen=True)
class Span:
    """What a step took: seconds of a clock."""

    name: str
    """The step's label."""
    thread: str
    """Its kind, as a trace's track."""
    begin: float
    end: float


class ProfiledCommunicator(Communicator):
    """One whose ranks work while the host goes on, until it waits for them."""

    profile: list[Span] | None = None
    """What each step took, where that is wanted: every step is then waited for."""

    _nccl: Nccl | None = None

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all that the ranks were given."""

    @contextmanager
    def _timed(self, kind: str, label: str, profile: list[Span]) -> Iterator[None]:
        self.synchronize()
        began = perf_counter()
        yield
        self.synchronize()
        profile.append(Span(label, kind, began, perf_counter()))

    def _step(self, kind: str, label: str) -> AbstractContextManager[Any]:
        return nullcontext() if self.profile is None else self._timed(kind, label, self.profile)

    def _collected(self, kind: str, label: str, arrays: Arrays, cuts: list[int], root: int, operation: str) -> None:
        if self._nccl is not None:
            self._nccl.collective(kind, arrays, cuts, root, operation)
        else:
            super()._collected(kind, label, arrays, cuts, root, operation)
