"""How large splits, partitions and shards are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from linkwise.cluster.engine import Worker

LEAST_SHARD = 8 << 20
"""Bytes: smaller shards are slow to read back from the disk to which the store spills."""
_OF_MEMORY = 10  # a split takes at most memory / _OF_MEMORY: it is read, sorted, gathered, and cut into shards
_MOST_SPLIT = 1 << 30  # bytes: if larger, a lost split would take long to make again
_ROOM = 4  # a partition of at most memory / _ROOM is sorted in memory
_OF_STORE = 2  # a fetch takes at most store / _OF_STORE
_MOST_SAMPLED = 1 << 21  # rows, which the driver sorts
_SAMPLED = 4096  # rows per partition: its size is then accurate to 2.2 %, the largest of a hundred to 6 %


@dataclass(frozen=True)
class Sizes:
    """Sizes in bytes of memory, and counts."""

    split: int
    partitions: int
    groups: int
    """Groups of partitions, into which rows are cut first; one for each partition if shards are large enough."""

    def group_ranges(self, partitions: int) -> list[range]:
        """The partitions of each group, given the actual number of partitions, which may be smaller than planned."""
        groups = min(self.groups, partitions)
        ends = [partitions * number // groups for number in range(groups + 1)]
        return [range(first, end) for first, end in itertools.pairwise(ends)]

    def sampled_of(self, split: int, everything: int) -> int:
        """The number of rows to sample from a split, in proportion to its share of all bytes."""
        in_all = min(_SAMPLED * self.partitions, _MOST_SAMPLED)
        return math.ceil(in_all * split / max(everything, 1))


def split_bytes(worker: Worker, least_shard: int = LEAST_SHARD) -> int:
    """What a worker reads and sorts at once."""
    return max(min(worker.memory // _OF_MEMORY, worker.store, _MOST_SPLIT), least_shard, 1)


def fetched_bytes(worker: Worker) -> int:
    """Bytes that a worker fetches at once, which then are both in the store and in its memory."""
    return max(min(worker.memory // _OF_MEMORY, worker.store // _OF_STORE), 1)


def sizes_of(size: int, worker: Worker, workers: int, split: int, least_shard: int = LEAST_SHARD) -> Sizes:
    """Sizes for this many bytes such that all workers are busy, and partitions of equal size fit into memory."""
    by_memory = math.ceil(size * _ROOM / max(worker.memory, 1))
    by_workers = min(workers, math.ceil(size / max(least_shard, 1)))
    partitions = max(by_memory, by_workers, 1)
    if by_memory > by_workers:  # whole rounds: with one partition more, all but one worker would wait for it
        partitions = math.ceil(partitions / workers) * workers
    is_fine = split // partitions >= least_shard or size <= split * partitions
    return Sizes(split, partitions, partitions if is_fine else math.isqrt(partitions))


def batches_of(sizes: Sequence[int], most: int) -> list[range]:
    """Consecutive items in batches of at most ``most`` bytes, but of at least one item."""
    batches: list[range] = []
    first = held = 0
    for number, size in enumerate(sizes):
        if number > first and held + size > most:
            batches.append(range(first, number))
            first, held = number, 0
        held += size
    return [*batches, range(first, len(sizes))] if sizes else []
