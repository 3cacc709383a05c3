"""The driver's view of a sort or join: the stages that workers run, and the bounds of partitions."""

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
    """Work on one or two sides, each of which has splits. Methods that take ``fetch`` run on workers."""

    @property
    def is_one_partition(self) -> bool:
        """Whether the result is a single partition."""
        return False

    @property
    @abstractmethod
    def by(self) -> list[SortKey]:
        """The sort keys by which key tables are compared; see ``numbered_keys``."""

    @abstractmethod
    def sample(self, fetch: Fetch, side: int, split: Split, wanted: int) -> Sample:
        """A sample of about ``wanted`` keys of a split."""

    @abstractmethod
    def bounds(self, samples: Sequence[Sequence[Sample]], sizes: Sequence[int], partitions: int) -> Bounds:
        """The bounds of partitions, from the samples of each side's splits and the bytes of each side."""

    @abstractmethod
    def spread(
        self, fetch: Fetch, side: int, split: Split, bounds: Bounds, groups: Sequence[range], wanted: Sequence[bool]
    ) -> Iterator[Any]:
        """Yield a shard for each group of partitions, empty if none of them is wanted, and then ``SplitFacts``."""

    @abstractmethod
    def make_partition(self, fetch: Fetch, output: Output, sides: Sequence[Sequence[Shard]]) -> Iterator[Any]:
        """Write the result of a partition. Yields its rows, unless they go to a file, and then ``PartitionFacts``."""
