"""The driver: has workers sample splits, cut them into shards and make partitions of these, and checks the result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from linkwise._core import CorruptDataError
from linkwise.cluster.bounds import Bounds, Sample
from linkwise.cluster.engine import Call, Engine, Handle, run_all
from linkwise.cluster.job import Job
from linkwise.cluster.sizing import Sizes, batches_of
from linkwise.cluster.work.shards import Shard, regroup
from linkwise.cluster.work.splits import ObjectSplit, Relation, SourceFile, Split, renumbered
from linkwise.cluster.work.stages import Output, PartitionFacts, SplitFacts, read_text
from linkwise.columns.row_checksum import RowChecksum, check_same_rows
from linkwise.sorting.check import first_out_of_order

OnProgress = Callable[[str, int, int], object]
"""Called with the stage, how many bytes (or files) have passed it, and how many there are in all."""
_IN_FLIGHT = 2  # calls for each worker: one running and one waiting


@dataclass
class Progress:
    """The seconds of each stage, and the callback for progress."""

    told: OnProgress
    seconds: dict[str, float] = field(default_factory=dict)

    def stage(self, name: str, sizes: Sequence[int]) -> Callable[[int], None]:
        """Begin a stage of calls with these sizes; returns a function to be told the number of each finished call."""
        began, done, total = time.perf_counter(), 0, sum(sizes)
        before = self.seconds.get(name, 0.0)
        self.told(name, 0, total)

        def one(number: int) -> None:
            nonlocal done
            done += sizes[number]
            self.seconds[name] = before + time.perf_counter() - began
            self.told(name, done, total)

        return one


@dataclass
class State:
    """What is known of a run, so that another one can resume it."""

    bounds: Bounds | None = None
    done: dict[int, PartitionFacts] = field(default_factory=dict)
    keep_bounds: Callable[[Bounds], object] = lambda _: None
    keep_partition: Callable[[int, PartitionFacts], object] = lambda _, __: None


@dataclass(frozen=True)
class Result:
    """The results of all partitions, in order."""

    partitions: list[PartitionFacts]
    tables: list[Handle]
    """The tables of partitions that are not written to files."""
    read: list[int]
    """The number of rows read from each side."""


@dataclass(frozen=True)
class Driver:
    """Runs a job. Raises ``Error``, after cancelling the calls that run."""

    engine: Engine
    job: Job
    sizes: Sizes
    progress: Progress

    def run(self, relations: Sequence[Relation], output: Callable[[int], Output], state: State) -> Result:
        """Make the result, each partition into its output."""
        sides = [self._splits(relation) for relation in relations]
        if state.bounds is None:
            state.bounds = self._bounds(sides)
            state.keep_bounds(state.bounds)
        partitions = state.bounds.partitions
        wanted = [number not in state.done for number in range(partitions)]
        spread = [self._spread(side, splits, state.bounds, wanted) for side, splits in enumerate(sides)]
        del sides
        result = self._make([shards for shards, _ in spread], output, state)
        self._check([facts for _, facts in spread], result.partitions)
        return Result(result.partitions, result.tables, [sum(f.rows for f in facts) for _, facts in spread])

    def _splits(self, relation: Relation) -> list[Split]:
        """The splits of a relation, in order; text files are read sequentially into the store, here."""
        files = [part for part in relation.parts if isinstance(part, SourceFile)]
        if files:
            done = self.progress.stage("read", [1] * len(files))
            ends = threading.Event()
            with ThreadPoolExecutor(max(self.engine.workers, 1)) as pool:
                try:
                    read = dict(zip(map(id, files), pool.map(partial(self._read_text, ends=ends), files), strict=True))
                except BaseException:
                    ends.set()
                    raise
            for number in range(len(files)):
                done(number)
        splits: list[Split] = []
        for part in relation.parts:
            splits += [part] if isinstance(part, Split) else read[id(part)]
        return renumbered(splits)

    def _read_text(self, file: SourceFile, ends: threading.Event) -> list[Split]:
        """Read a text file into the store in splits; stops early if ``ends`` is set."""
        handles = []
        for handle in self.engine.stream(Call(read_text, (file, self.sizes.split))):
            handles.append(handle)
            if ends.is_set():
                break
        return [ObjectSplit(0, min(file.size // len(handles), self.sizes.split), handle) for handle in handles]

    def _bounds(self, sides: Sequence[Sequence[Split]]) -> Bounds:
        if self.sizes.partitions == 1 or self.job.is_one_partition:
            return Bounds.none()
        everything = sum(split.size for side in sides for split in side)
        every = [(side, split) for side, splits in enumerate(sides) for split in splits]
        samples: list[Sample | None] = [None] * len(every)
        calls = (
            Call(self.job.sample, (side, split, self.sizes.sampled_of(split.size, everything)), inputs=split.inputs)
            for side, split in every
        )
        done = self.progress.stage("sample", [split.size for _, split in every])

        def sampled(number: int, handles: list[Handle]) -> None:
            samples[number] = self.engine.value(handles[0])
            done(number)

        run_all(self.engine, calls, _IN_FLIGHT * self.engine.workers, sampled)
        of_sides = [
            [sample for (of, _), sample in zip(every, samples, strict=True) if of == side and sample is not None]
            for side in range(len(sides))
        ]
        sizes = [sum(split.size for split in splits) for splits in sides]
        return self.job.bounds(of_sides, sizes, self.sizes.partitions)

    def _spread(
        self, side: int, splits: Sequence[Split], bounds: Bounds, wanted: list[bool]
    ) -> tuple[list[list[Shard]], list[SplitFacts]]:
        """Cut all splits into shards. Returns the shards of each partition, and the facts of each split."""
        groups = self.sizes.group_ranges(bounds.partitions)
        facts: list[Any] = [None] * len(splits)
        handles: list[list[Handle]] = [[] for _ in splits]
        done = self.progress.stage("spread", [split.size for split in splits])

        def cut(number: int, made: list[Handle]) -> None:
            handles[number] = made[:-1]
            facts[number] = self.engine.value(made[-1])
            done(number)

        calls = (
            Call(self.job.spread, (side, split, bounds, groups, wanted), len(groups) + 1, split.inputs)
            for split in splits
        )
        run_all(self.engine, calls, _IN_FLIGHT * self.engine.workers, cut)
        if len(groups) == bounds.partitions:
            shards = [
                [_shard(of[number], of_split, number) for of, of_split in zip(handles, facts, strict=True)]
                for number in range(bounds.partitions)
            ]
            return shards, facts
        return self._regrouped(groups, handles, facts, wanted), facts

    def _regrouped(
        self, groups: Sequence[range], handles: list[list[Handle]], facts: Sequence[SplitFacts], wanted: list[bool]
    ) -> list[list[Shard]]:
        """The shards of each partition, cut out of those of its group, for several splits at a time."""
        sizes = [[_bytes_of(of_split, group) for of_split in facts] for group in groups]
        work = [
            (number, batch)
            for number, group in enumerate(groups)
            if any(wanted[at] for at in group)
            for batch in batches_of(sizes[number], self.sizes.split)
        ]
        shards: list[list[Shard]] = [[] for group in groups for _ in group]
        made: dict[int, list[Handle]] = {}
        done = self.progress.stage("regroup", [sum(sizes[number][at] for at in batch) for number, batch in work])

        def calls() -> Iterator[Call]:
            for number, batch in work:
                ends = [facts[at].ends[groups[number].start : groups[number].stop] for at in batch]
                shards_of_group = [handles[at][number] for at in batch]
                yield Call(regroup, (shards_of_group, ends), len(groups[number]), shards_of_group)

        def cut(at: int, values: list[Handle]) -> None:
            made[at] = values
            number, batch = work[at]
            for split in batch:
                handles[split][number] = None
            done(at)

        run_all(self.engine, calls(), _IN_FLIGHT * self.engine.workers, cut)
        for at, (number, batch) in enumerate(work):  # in the order of the splits
            for handle, partition in zip(made.pop(at), groups[number], strict=True):
                rows = sum(int(np.ptp(facts[split].ends[partition])) for split in batch)
                size = sum(_bytes_of(facts[split], range(partition, partition + 1)) for split in batch)
                shards[partition].append(Shard(handle, rows, size))
        return shards

    def _make(self, sides: list[list[list[Shard]]], output: Callable[[int], Output], state: State) -> Result:
        partitions = len(sides[0])
        facts: list[Any] = [state.done.get(number) for number in range(partitions)]
        missing = [number for number in range(partitions) if facts[number] is None]
        tables: dict[int, Handle] = {}
        sizes = [sum(shard.size for side in sides for shard in side[number]) for number in missing]
        done = self.progress.stage("make", sizes)

        def calls() -> Iterator[Call]:
            for number in missing:
                to = output(number)
                of = [side[number] for side in sides]
                inputs = [shard.handle for shards in of for shard in shards if shard.rows]
                yield Call(self.job.make_partition, (to, of), 1 if to.path is not None else 2, inputs)

        def made(at: int, values: list[Handle]) -> None:
            number = missing[at]
            *table, of_partition = values
            tables.update(zip([number], table, strict=False))
            facts[number] = self.engine.value(of_partition)
            for side in sides:
                side[number] = []  # drops the handles, so that the store can free the shards
            state.keep_partition(number, facts[number])
            done(at)

        run_all(self.engine, calls(), self.engine.workers, made, second_tries=True)
        return Result(facts, [tables[number] for number in sorted(tables)], [])

    def _check(self, sent: Sequence[Sequence[SplitFacts]], partitions: Sequence[PartitionFacts]) -> None:
        """Raise ``CorruptDataError`` if rows were lost, changed or made up, or partitions are not in order."""
        for side, of_side in enumerate(sent):
            before, after = RowChecksum(), RowChecksum()
            for split in of_side:
                before.add_value(split.sent)
            for partition in partitions:
                after.add_value(partition.received[side])
            check_same_rows(before, after)
        ends = [partition.ends for partition in partitions if partition.ends is not None]
        if ends and first_out_of_order(pa.concat_tables(ends), self.job.by) is not None:
            raise CorruptDataError("partitions are not in order; memory or a disk may be faulty")


def _shard(handle: Handle, facts: SplitFacts, partition: int) -> Shard:
    rows = int(facts.ends[partition, 1] - facts.ends[partition, 0])
    return Shard(handle, rows, int(rows * facts.row_bytes))


def _bytes_of(facts: SplitFacts, group: range) -> int:
    rows = int(facts.ends[group[-1], 1] - facts.ends[group[0], 0])
    return int(rows * facts.row_bytes)
