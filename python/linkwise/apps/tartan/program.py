"""What an application of Tartan is: a problem, what its ranks do, what each step costs, and whether it is right."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import inf, isnan
from typing import Any, ClassVar, Literal, Self

import numpy as np

from linkwise._typing import Array
from linkwise.messages.communicator import Arrays, Communicator
from linkwise.messages.pricing import Prices

Answer = Mapping[str, Arrays]
"""What a run leaves on the GPUs, by name; an array for each rank of the process."""

Fetched = Mapping[str, list[Array]]
"""The same on the host, of all ranks."""


class Program(ABC):
    """One of the fourteen applications. An instance is one problem, and holds no state of a run."""

    name: ClassVar[str]
    abbreviation: ClassVar[str]
    """As the paper has it."""
    title: ClassVar[str]
    pattern: ClassVar[str]
    """The communication pattern, as in table 3."""
    scales: ClassVar[Literal["up", "out"]]
    """Within a machine, or over nodes, in the paper."""
    is_converted: ClassVar[bool] = False
    """Whether the paper's authors let NCCL carry what went through the host (§4.1)."""
    copies_between_any_two: ClassVar[bool] = False
    """Whether it needs a link between every two GPUs (§4.1: convolutional networks)."""

    has_master: ClassVar[bool] = False
    """Whether one process has all GPUs in the paper, and does their collectives where they go through the host."""

    @classmethod
    @abstractmethod
    def small(cls) -> Self:
        """A problem that a core solves in a second: what is checked, and what described machines compute."""

    @classmethod
    @abstractmethod
    def full(cls) -> Self:
        """A problem that is worth a GPU: what is timed, and what described machines are priced for."""

    def recorded(self) -> Self:
        """The problem whose steps are priced: the small one, if it takes as many steps as the full one."""
        return self

    def most_ranks(self) -> int:
        """The largest number of ranks that the problem can be divided among."""
        return 1 << 20

    @abstractmethod
    def grown(self, times: float) -> Self:
        """The problem with this many times the work, for weak scaling."""

    def prepare(self, comm: Communicator) -> Any:
        """Set up the ranks' data; not timed."""
        del comm
        return None

    @abstractmethod
    def run(self, comm: Communicator, prepared: Any) -> Answer:
        """The timed part."""

    @abstractmethod
    def prices(self, ranks: int) -> Prices:
        """The cost of each step on this many ranks, by label; where ranks differ, that of the largest."""

    @abstractmethod
    def error(self, answer: Fetched) -> float:
        """The answer's error relative to the tolerance: 1 or less is right."""


def differ(arrays: Sequence[Array]) -> float:
    """The largest difference from the first rank's array; all ranks should have the same."""
    return max(float(np.abs(each - arrays[0]).max(initial=0)) for each in arrays)


def worst(*shares: float) -> float:
    """The largest share; NaN counts as infinite, that is, wrong."""
    return max(inf if isnan(share) else share for share in shares)
