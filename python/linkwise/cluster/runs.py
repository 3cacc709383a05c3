"""One sort or join from its sources to its target, on an engine that is already running."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from linkwise import _core
from linkwise._core import UsageError
from linkwise.cluster.driver import Driver, OnProgress, Progress, Result, State
from linkwise.cluster.engine import Call, Engine, Handle, run_all
from linkwise.cluster.job import Job
from linkwise.cluster.manifest import manifest
from linkwise.cluster.report import ClusterReport
from linkwise.cluster.sizing import LEAST_SHARD, fetched_bytes, sizes_of, split_bytes
from linkwise.cluster.targets import Target, open_target
from linkwise.cluster.work.join_job import JoinJob
from linkwise.cluster.work.sort_job import SortJob
from linkwise.cluster.work.splits import FileFacts, ObjectSplit, Relation, SourceFile, Split, everywhere, relation_of
from linkwise.cluster.work.stages import Output, WorkerLimits, describe, look_at
from linkwise.columns.gather_pyarrow import empty_table
from linkwise.columns.inside import names_inside
from linkwise.columns.sort_keys import Selection, SortKey
from linkwise.files.file_join import JoinRequest
from linkwise.files.formats import FileOptions
from linkwise.files.listing import expand
from linkwise.files.locations import PIPE, Location, RemoteFile, TableSource, target_of
from linkwise.files.reading.readers import check_column_types, open_table
from linkwise.joining.tables import key_pairs
from linkwise.runtime.execution import ExecutionOptions
from linkwise.sorting.tables import order_of_table

_FILES_AT_ONCE = 32  # that one call inspects


@dataclass(frozen=True)
class Tables:
    """A source that lies in the engine's store already: handles of Arrow tables."""

    handles: list[Handle]


@dataclass(frozen=True)
class Side:
    """A source, and what is read of it."""

    source: Any
    """As ``expand`` takes it, or ``Tables``."""
    options: FileOptions


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Where a result goes, and which resources the run may use."""

    target: Path | RemoteFile | None
    """A directory; the engine's store if there is none."""
    force: bool = False
    resume: bool = False
    directory: Path | None = None
    """Where runs are spilled."""
    strategy: str = "auto"
    on_progress: OnProgress = lambda _, __, ___: None
    least_shard: int = LEAST_SHARD

    @classmethod
    def of(
        cls, target: Any, temporary: str | Path | None, on_progress: OnProgress | None = None, *, force: bool,
        resume: bool, strategy: str = "auto",
    ) -> RunOptions:  # fmt: skip
        """From a user's arguments; paths become absolute, since workers run elsewhere. Raises ``UsageError``."""
        told = on_progress or (lambda _, __, ___: None)
        directory = None if temporary is None else Path(temporary).absolute()
        to = None if target is None else target_of(target)
        if isinstance(to, Path) and to != PIPE:
            to = to.absolute()
        if strategy != "auto":
            _core.sort_strategy_from(strategy)  # raises for an unknown name
        return cls(target=to, force=force, resume=resume, directory=directory, on_progress=told, strategy=strategy)


JobOf = Callable[[Sequence[Relation], WorkerLimits], tuple[Job, pa.Schema, list[SortKey]]]
"""Makes the job for some relations, the schema of the result, and the keys that it is sorted by."""


class Run:
    """A sort or join to run on an engine. Raises ``Error``."""

    def __init__(self, engine: Engine, sides: Sequence[Side], options: RunOptions) -> None:
        self._engine, self._sides, self._options = engine, sides, options
        self._progress = Progress(options.on_progress)
        self._began = time.perf_counter()
        worker = engine.worker
        strategy = "cpu" if options.strategy == "auto" and not worker.gpus else options.strategy
        self._limits = WorkerLimits(worker.memory, fetched_bytes(worker), strategy, options.directory)

    def go(self, job_of: JobOf, asked: dict[str, Any]) -> tuple[ClusterReport, list[Handle]]:
        """Run it. Returns a report, and the handles of the result if it is not written to files.

        ``asked``: the request, which must be the same for this run to be resumed.
        """
        options = self._options
        if options.target is None:
            return self._into_store(job_of)
        with open_target(options.target, force=options.force, resume=options.resume) as target:
            return self._into_files(job_of, asked, target)

    def _into_store(self, job_of: JobOf) -> tuple[ClusterReport, list[Handle]]:
        split = split_bytes(self._engine.worker, self._options.least_shard)
        relations = [
            self._relation(side, facts, split) for side, facts in zip(self._sides, self._look_at_all(), strict=True)
        ]
        job, schema, _ = job_of(relations, self._limits)
        sizes = self._sizes(relations, split)
        output = Output(None, self._sides[0].options, schema, {})
        result = Driver(self._engine, job, sizes, self._progress).run(relations, lambda _: output, State())
        return self._report(result), result.tables

    def _into_files(self, job_of: JobOf, asked: dict[str, Any], target: Target) -> tuple[ClusterReport, list[Handle]]:
        facts = self._look_at_all()
        versions = [[list(map(str, fact.version)) for _, fact in of_side] for of_side in facts]
        split = split_bytes(self._engine.worker, self._options.least_shard)
        work = {"split": split, "worker": self._engine.worker.memory, "workers": self._engine.workers}
        state = target.state({"asked": {**asked, "versions": versions}, "work": work})
        if state is not None:  # splits, and with them row numbers, must be those of the run that was begun
            work = state.request["work"]
        relations = [self._relation(side, of, work["split"]) for side, of in zip(self._sides, facts, strict=True)]
        job, schema, keys = job_of(relations, self._limits)

        def output(number: int) -> Output:
            return Output(target.path(number), self._sides[0].options, schema, dict(relations[0].compression))

        sizes = self._sizes(relations, work["split"])
        driver = Driver(self._engine, job, sizes, self._progress)
        result = driver.run(relations, output, State() if state is None else state.state())
        target.commit(manifest(result.partitions, keys))
        return self._report(result), []

    def _sizes(self, relations: Sequence[Relation], split: int) -> Any:
        size = sum(relation.size for relation in relations)
        return sizes_of(size, self._engine.worker, self._engine.workers, split, self._options.least_shard)

    def _look_at_all(self) -> list[list[tuple[Location, FileFacts]]]:
        found = [self._look_at(side) for side in self._sides]
        there_are = [name for of_side in found for _, fact in of_side for name in fact.schema.names]
        for side in self._sides:
            if not isinstance(side.source, Tables):
                check_column_types(side.options, list(dict.fromkeys(there_are)))
        return found

    def _look_at(self, side: Side) -> list[tuple[Location, FileFacts]]:
        """The files of a side, and the facts of each."""
        if isinstance(side.source, Tables):
            return []
        paths = expand(side.source)
        for path in paths:
            if isinstance(path, TableSource):
                raise UsageError(f"{path} is in this process alone; name files, or give a ray.data.Dataset")
        named = list(map(everywhere, paths))
        groups = [named[first : first + _FILES_AT_ONCE] for first in range(0, len(paths), _FILES_AT_ONCE)]
        found: dict[int, list[FileFacts | None]] = {}
        done = self._progress.stage("inspect", [len(group) for group in groups])

        def looked(number: int, handles: list[Handle]) -> None:
            found[number] = self._engine.value(handles[0])
            done(number)

        calls = (Call(look_at, (group, side.options)) for group in groups)
        run_all(self._engine, calls, self._engine.workers, looked)
        facts = [fact for number in range(len(groups)) for fact in found[number]]
        known = [(path, fact) for path, fact in zip(paths, facts, strict=True) if fact is not None]
        if not known:
            open_table(paths[0], side.options)  # raises
        return known

    def _relation(self, side: Side, facts: Sequence[tuple[Location, FileFacts]], split: int) -> Relation:
        if not isinstance(side.source, Tables):
            return relation_of([path for path, _ in facts], [fact for _, fact in facts], side.options, split)
        told: dict[int, tuple[pa.Schema, int]] = {}
        run_all(
            self._engine, (Call(describe, (handle,)) for handle in side.source.handles), 2 * self._engine.workers,
            lambda number, handles: told.update({number: self._engine.value(handles[0])}),
        )  # fmt: skip
        # Ray's blocks without rows may have no columns.
        blocks = [(*told[number], at) for number, at in enumerate(side.source.handles) if len(told[number][0])]
        if not blocks:
            raise UsageError("the dataset has no columns, and nothing to sort or join")
        schema = blocks[0][0]
        if any(each.remove_metadata() != schema.remove_metadata() for each, _, _ in blocks):
            raise UsageError("the blocks of the dataset have different columns; bring them into one schema")
        splits: list[Split | SourceFile] = [ObjectSplit(0, size, at) for _, size, at in blocks]
        return Relation(schema, splits, sum(size for _, size, _ in blocks), {})

    def _report(self, result: Result) -> ClusterReport:
        rows = sum(partition.rows for partition in result.partitions)
        received = [sum(count for _, count in partition.received) for partition in result.partitions]
        mean = sum(received) / len(received)
        size = sum(partition.size for partition in result.partitions)
        return ClusterReport(
            rows, result.read, size, self._engine.workers, len(received), max(received) / mean if mean else 1.0,
            time.perf_counter() - self._began, self._progress.seconds,
        )  # fmt: skip


def sort_job_of(keys_of: Callable[[pa.Schema], list[SortKey]], selection: Selection) -> JobOf:
    """A sort by keys that are determined from the schema."""

    def job_of(relations: Sequence[Relation], limits: WorkerLimits) -> tuple[Job, pa.Schema, list[SortKey]]:
        schema = relations[0].schema
        keys = keys_of(schema)
        order_of_table(empty_table(schema), keys, ExecutionOptions(strategy="cpu"))  # raises for types without order
        return SortJob(schema, keys, selection, limits), schema, keys

    return job_of


def join_job_of(asked: JoinRequest) -> JobOf:
    """A join; the sources in the request are not used."""
    if asked.order == "left" or (asked.order is not None and asked.how in ("semi", "anti")):
        raise UsageError(
            "many nodes do not keep the left table's order, which rows of semi and anti joins come in; of other joins "
            "they keep that of keys (order='key'): leave order= out, and sort what comes"
        )

    def job_of(relations: Sequence[Relation], limits: WorkerLimits) -> tuple[Job, pa.Schema, list[SortKey]]:
        left, right = (relation.schema for relation in relations)
        inside = names_inside(left), names_inside(right)
        keys = key_pairs(left.names, right.names, asked.on, asked.left_on, asked.right_on, inside)
        job = JoinJob(
            (left, right), keys, asked.how, asked.order, asked.suffix, asked.nulls_equal, asked.validate, limits
        )
        return job, job.schema(), [SortKey(a) for a, _ in keys.pairs] if asked.order == "key" else []

    return job_of
