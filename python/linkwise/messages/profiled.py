"""Ranks on GPUs: their work is asynchronous to the host, and NCCL may carry their messages."""

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
    """The time span of a step, in seconds of a clock."""

    name: str
    """The step's label."""
    thread: str
    """Its kind, as a trace's track."""
    begin: float
    end: float


class ProfiledCommunicator(Communicator):
    """A communicator whose ranks work asynchronously to the host."""

    profile: list[Span] | None = None
    """Where set, collects the span of every step, and the host waits for each."""

    _nccl: Nccl | None = None

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all work that was given to the ranks."""

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
