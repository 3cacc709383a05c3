"""Checkpoints of a run in the directory that it fills, so that another run can resume if its driver is killed.

Bounds and finished partitions are saved. A resumed run still reads all splits again, since the rows of all of them
are checked against those that are written.
"""

from __future__ import annotations

import base64
import json
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from linkwise._core import Error, UsageError
from linkwise.cluster.bounds import Bounds
from linkwise.cluster.driver import State
from linkwise.cluster.work.splits import from_bytes, to_bytes
from linkwise.cluster.work.stages import PartitionFacts
from linkwise.runtime.atomic_file import write_bytes, write_json

_FOLDER = "_run"
_NUMBERS = ("splits", "rows", "sides", "are_lent")


@dataclass(frozen=True)
class RunState:
    """The checkpoint of a run."""

    folder: Path
    request: dict[str, Any]
    """What was asked, and how the work was divided."""

    @classmethod
    def open(cls, directory: Path, request: dict[str, Any], *, is_resumed: bool) -> RunState:
        """Resume the run that was begun, or begin one. Raises ``UsageError`` if a different run was begun."""
        folder = directory / _FOLDER
        noted = folder / "request.json"
        if is_resumed and noted.exists():
            with _one_clear_line(noted):
                before = json.loads(noted.read_text(encoding="utf-8"))
                before["asked"]
            if before["asked"] != request["asked"]:
                raise UsageError(
                    "the run that was begun read other files, or the same ones before they were changed, or was asked "
                    "for something else; begin anew without --resume"
                )
            return cls(folder, before)
        write_json(noted, request)
        return cls(folder, request)

    @staticmethod
    def remove(directory: Path) -> None:
        """Remove the checkpoint."""
        shutil.rmtree(directory / _FOLDER, ignore_errors=True)

    def state(self) -> State:
        """What has been done, and the callbacks that save further progress."""
        with _one_clear_line(self.folder):
            return self._state()

    def _state(self) -> State:
        bounds = self.folder / "bounds.arrow"
        done = {int(path.stem.removeprefix("partition-")): _facts(path) for path in self.folder.glob("partition-*")}
        done = {number: facts for number, facts in done.items() if (self.folder.parent / facts.name).exists()}
        return State(
            _bounds(bounds.read_bytes()) if bounds.exists() else None, done if bounds.exists() else {},
            lambda found: _keep(bounds, _bytes(found)), self._keep_partition,
        )  # fmt: skip

    def _keep_partition(self, number: int, facts: PartitionFacts) -> None:
        ends = None if facts.ends is None else base64.b64encode(to_bytes(facts.ends)).decode()
        told = {"name": facts.name, "rows": facts.rows, "size": facts.size, "received": facts.received, "ends": ends}
        _keep(self.folder / f"partition-{number}.json", json.dumps(told).encode())


def _keep(path: Path, contents: bytes) -> None:
    """Write a part of the checkpoint. An interrupt does not say that it is complete: it is no result."""
    try:
        write_bytes(path, contents)
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None


@contextmanager
def _one_clear_line(notes: Path) -> Iterator[None]:
    """Raise ``Error`` if a checkpoint is damaged."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, pa.ArrowException, RecursionError):
        raise Error(f"what {notes} says of the run that was begun is damaged; begin anew without --resume") from None


def _facts(path: Path) -> PartitionFacts:
    told = json.loads(path.read_text(encoding="utf-8"))
    ends = None if told["ends"] is None else from_bytes(base64.b64decode(told["ends"]))
    received = [(int(value), int(rows)) for value, rows in told["received"]]
    return PartitionFacts(told["name"], told["rows"], told["size"], received, ends)


def _bytes(bounds: Bounds) -> bytes:
    numbers = pa.table({name: getattr(bounds, name).astype(np.int64) for name in _NUMBERS})
    both = [to_bytes(numbers), to_bytes(bounds.keys)]
    return len(both[0]).to_bytes(8, "little") + b"".join(each.to_pybytes() for each in both)


def _bounds(data: bytes) -> Bounds:
    of_numbers = 8 + int.from_bytes(data[:8], "little")
    numbers = from_bytes(data[8:of_numbers])
    splits, rows, sides, lent = (numbers[name].to_numpy() for name in _NUMBERS)
    return Bounds(from_bytes(data[of_numbers:]), splits, rows, sides, lent.astype(bool))
