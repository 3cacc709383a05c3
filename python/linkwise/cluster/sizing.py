"""How large splits, partitions and shards are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from linkwise.cluster.engine import Worker

LEAST_SHARD = 8 << 20
"""Bytes: smaller ones come back slowly from the disk to which the store spills."""
_OF_MEMORY = 10  # of which a split may take one: it is read, sorted, gathered, and cut into shards
_MOST_SPLIT = 1 << 30  # bytes: with more, one that is lost is made again for long
_ROOM = 4  # of which a partition may take one, and then is sorted in memory
_OF_STORE = 2  # of which what is fetched at once may take one
_MOST_SAMPLED = 1 << 21  # rows, which the driver sorts
_SAMPLED = 4096  # rows for each partition: its size is then right to 2.2 %, the largest of a hundred to 6 %


@dataclass(frozen=True)
class Sizes:
    """Bytes in memory, and numbers."""

    split: int
    partitions: int
    groups: int
    """Of partitions, into which rows are cut first; as many as partitions where shards are large enough so."""

    def group_ranges(self, partitions: int) -> list[range]:
        """The partitions of each group, which may have become fewer."""
        groups = min(self.groups, partitions)
        ends = [partitions * number // groups for number in range(groups + 1)]
        return [range(first, end) for first, end in itertools.pairwise(ends)]

    def sampled_of(self, split: int, everything: int) -> int:
        """Rows that are sampled of a split that has so many bytes of all."""
        in_all = min(_SAMPLED * self.partitions, _MOST_SAMPLED)
        return math.ceil(in_all * split / max(everything, 1))


def split_bytes(worker: Worker, least_shard: int = LEAST_SHARD) -> int:
    """What a worker reads and sorts at once."""
    return max(min(worker.memory // _OF_MEMORY, worker.store, _MOST_SPLIT), least_shard, 1)


def fetched_bytes(worker: Worker) -> int:
    """What a worker fetches at once: it is in the store and in its memory then."""
    return max(min(worker.memory // _OF_MEMORY, worker.store // _OF_STORE), 1)


def sizes_of(size: int, worker: Worker, workers: int, split: int, least_shard: int = LEAST_SHARD) -> Sizes:
    """Partitions of so many bytes in all that keep all workers busy, and of which none has to be spilled if even."""
    by_memory = math.ceil(size * _ROOM / max(worker.memory, 1))
    by_workers = min(workers, math.ceil(size / max(least_shard, 1)))
    partitions = max(by_memory, by_workers, 1)
    if by_memory > by_workers:  # whole rounds: with one partition more, all but one worker would wait for it
        partitions = math.ceil(partitions / workers) * workers
    is_fine = split // partitions >= least_shard or size <= split * partitions
    return Sizes(split, partitions, partitions if is_fine else math.isqrt(partitions))


def batches_of(sizes: Sequence[int], most: int) -> list[range]:
    """Consecutive things that take about so many bytes together, one at least."""
    batches: list[range] = []
    first = held = 0
    for number, size in enumerate(sizes):
        if number > first and held + size > most:
            batches.append(range(first, number))
            first, held = number, 0
        held += size
    return [*batches, range(first, len(sizes))] if sizes else []
