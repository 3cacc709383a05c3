"""What a sort or a join over many nodes did, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ClusterReport:
    """What it did, and how long each stage took."""

    rows: int
    """Of the result."""
    read: list[int]
    """Rows that were read of each side."""
    bytes: int
    """Of the files that were written; 0 of a dataset."""
    workers: int
    partitions: int
    largest: float
    """The rows that come into the largest partition, by those of the mean one."""
    wall_seconds: float
    stages: dict[str, float] = field(default_factory=dict)
    """Seconds of each."""

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, as ``linkwise sort --json`` prints it."""
        return {
            "rows": self.rows, "read": self.read, "bytes": self.bytes, "workers": self.workers,
            "partitions": self.partitions, "largest": self.largest,
            "seconds": {"wall": self.wall_seconds, "stages": self.stages},
        }  # fmt: skip

    def summary(self) -> str:
        """In a line."""
        stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.stages.items())
        return (
            f"{self.rows:,} rows in {self.wall_seconds:.1f} s on {self.workers} workers: {stages}; "
            f"{self.partitions} files, the largest {self.largest:.2f} × the mean"
        )
