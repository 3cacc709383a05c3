"""What a sort or a join over many nodes did, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from linkwise._shown import Shown, format_seconds, parts_in_seconds


@dataclass(frozen=True, repr=False)
class ClusterReport(Shown):
    """What the run did, and how long each stage took."""

    rows: int
    """Rows of the result."""
    read: list[int]
    """Rows that were read of each side."""
    bytes: int
    """Bytes of the files that were written; 0 for a dataset."""
    workers: int
    partitions: int
    largest: float
    """The rows that the largest partition receives, relative to the mean."""
    wall_seconds: float
    stages: dict[str, float] = field(default_factory=dict)
    """Seconds of each stage."""

    def shown_line(self) -> str:
        """Rows, how long it took, and on how many workers."""
        return f"{self.rows:,} rows in {format_seconds(self.wall_seconds)} on {self.workers} workers"

    def shown_rows(self) -> dict[str, Any]:
        """Its stages and files."""
        files = f"{self.partitions}, the largest {self.largest:.2f} × the mean"
        return {"stages": parts_in_seconds(self.stages), "files": files}

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, as ``linkwise sort --json`` prints it."""
        return {
            "rows": self.rows, "read": self.read, "bytes": self.bytes, "workers": self.workers,
            "partitions": self.partitions, "largest": self.largest,
            "seconds": {"wall": self.wall_seconds, "stages": self.stages},
        }  # fmt: skip

    def summary(self) -> str:
        """The report in one line."""
        stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.stages.items())
        return (
            f"{self.rows:,} rows in {self.wall_seconds:.1f} s on {self.workers} workers: {stages}; "
            f"{self.partitions} files, the largest {self.largest:.2f} × the mean"
        )
