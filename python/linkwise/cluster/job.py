"""What a sort and a join are to the driver: the stages that workers carry out, and where partitions begin."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from linkwise.cluster.bounds import Bounds, Sample
from linkwise.cluster.engine import Fetch
from linkwise.cluster.work.shards import Shard
from linkwise.cluster.work.splits import Split
from linkwise.cluster.work.stages import Output
from linkwise.columns.sort_keys import SortKey


class Job(ABC):
    """Work on one or two sides, each of which has splits. What takes ``fetch`` is done by workers."""

    @property
    def is_one_partition(self) -> bool:
        """Whether all of the result is made at once."""
        return False

    @property
    @abstractmethod
    def by(self) -> list[SortKey]:
        """What keys are compared by; see ``numbered_keys``."""

    @abstractmethod
    def sample(self, fetch: Fetch, side: int, split: Split, wanted: int) -> Sample:
        """About so many keys of a split."""

    @abstractmethod
    def bounds(self, samples: Sequence[Sequence[Sample]], sizes: Sequence[int], partitions: int) -> Bounds:
        """Where partitions begin, from the samples of the splits of each side, which takes so many bytes."""

    @abstractmethod
    def spread(
        self, fetch: Fetch, side: int, split: Split, bounds: Bounds, groups: Sequence[range], wanted: Sequence[bool]
    ) -> Iterator[Any]:
        """Yields the shards of each group of partitions of which any is wanted, and then ``SplitFacts``."""

    @abstractmethod
    def make_partition(self, fetch: Fetch, output: Output, sides: Sequence[Sequence[Shard]]) -> Iterator[Any]:
        """Write the result of a partition. Yields its rows, if they go into no file, and then ``PartitionFacts``."""
