"""What tests of sorts and joins over many nodes need: engines of this process, and small tables."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linkwise.cluster.engine import Call, Handle, Worker
from linkwise.cluster.report import ClusterReport
from linkwise.cluster.runs import JobOf, Run, RunOptions, Side, join_job_of, sort_job_of
from linkwise.columns.inside import names_inside
from linkwise.columns.sort_keys import EVERYTHING, Selection, SortKey, sort_keys_of
from linkwise.files.file_join import JoinRequest
from linkwise.files.formats import FileOptions

PARQUET = FileOptions(output_format="parquet")


class AnyOrder:
    """Calls run in this process, in any order of those that have been submitted, and some of them twice."""

    def __init__(self, seed: int, memory: int, workers: int = 3) -> None:
        self.workers = workers
        self.worker = Worker(1, 1, 0, memory, memory)
        self.calls = 0
        self.spoil: Callable[[Any], Any] = lambda value: value
        """What becomes of a value in the store."""
        self._random = random.Random(seed)
        self._waiting: dict[int, tuple[Call, list[Handle]]] = {}
        self._values: dict[Handle, Any] = {}
        self.cancelled: list[Handle] = []

    def submit(self, call: Call) -> list[Handle]:
        self.calls += 1
        handles = [f"{self.calls}.{number}" for number in range(call.values)]
        self._waiting[self.calls] = (call, handles)
        return handles

    def _run(self, number: int) -> None:
        call, handles = self._waiting.pop(number)
        for _ in range(self._random.choice([1, 1, 2])):  # as if a worker had been lost
            values = [self.spoil(value) for value in call.values_with(self._fetch)]
        assert len(values) == len(handles)
        self._values.update(zip(handles, values, strict=True))

    def _fetch(self, handles: Sequence[Handle]) -> list[Any]:
        return [self._values[handle] for handle in handles]

    def stream(self, call: Call) -> Iterator[Handle]:
        values = call.values_with(self._fetch)
        while True:
            try:
                value = values.send(None)  # as Ray drives them
            except StopIteration:
                return
            self.calls += 1
            self._values[f"{self.calls}"] = value
            yield f"{self.calls}"

    def finished(self, handles: Sequence[Handle], seconds: float) -> list[Handle]:
        del seconds
        if self._waiting:
            self._run(self._random.choice(list(self._waiting)))
        there = [handle for handle in handles if handle in self._values]
        self._random.shuffle(there)
        return there

    def value(self, handle: Handle) -> Any:
        while handle not in self._values:
            self._run(self._random.choice(list(self._waiting)))
        return self._values[handle]

    def cancel(self, handles: Sequence[Handle], *, wait: bool = False) -> None:
        del wait
        self.cancelled += handles


def write_parts(folder: Path, table: pa.Table, files: int, group_rows: int = 500) -> Path:
    """A table as several Parquet files, one behind the other."""
    folder.mkdir(parents=True)
    ends = np.linspace(0, table.num_rows, files + 1).astype(int)
    for number, (first, end) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
        pq.write_table(table.slice(first, end - first), folder / f"in-{number:02}.parquet", row_group_size=group_rows)
    return folder


def run(
    engine: Any, sides: Sequence[Side], job_of: JobOf, target: Path, *, least_shard: int = 1, **options: Any
) -> ClusterReport:
    """One run on an engine of this process."""
    asked = RunOptions(target=target, least_shard=least_shard, **options)
    return Run(engine, sides, asked).go(job_of, {"words": "test"})[0]


def sorting(by: Any, descending: Any = False, nulls: Any = "last", selection: Selection = EVERYTHING) -> JobOf:
    def keys_of(schema: pa.Schema) -> list[SortKey]:
        return sort_keys_of(schema.names, by, descending, nulls, inside=names_inside(schema))

    return sort_job_of(keys_of, selection)


def joining(on: Any, how: Any, **asked: Any) -> JobOf:
    return join_job_of(
        JoinRequest(left=(), right=(), on=on, left_on=None, right_on=None, how=how, options=PARQUET, **asked)
    )


def keyed(rows: int, seed: int, *, share: float = 0.0, nulls: float = 0.05, keys: int = 1000) -> pa.Table:
    """Numbers, texts and row numbers; a share of the rows has one key."""
    random = np.random.default_rng(seed)
    numbers = random.integers(0, keys, rows)
    numbers[random.random(rows) < share] = 77
    texts = np.char.add("text ", random.integers(0, 40, rows).astype(str))
    return pa.table({
        "k": pa.array(numbers, mask=random.random(rows) < nulls),
        "s": pa.array(texts, pa.string(), mask=random.random(rows) < nulls),
        "n": np.arange(rows),
    })  # fmt: skip
