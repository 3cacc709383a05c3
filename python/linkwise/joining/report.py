"""What a join of files did and how long it took, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from linkwise._shown import Shown, format_seconds, parts_in_seconds
from linkwise.sorting.report import Span


@dataclass(frozen=True, repr=False)
class JoinReport(Shown):
    """What a join did, and how long each step took.

    ``wall_seconds`` is how long the caller waited; ``steps`` divides it into reading the sides, building a hash table
    of one, and joining and writing rows. ``strategy`` tells how it was joined: by a hash table that the other side
    probes while it is read, in memory, or by spilled sorted runs.
    """

    rows: int
    how: str
    strategy: str
    wall_seconds: float
    steps: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why this strategy was chosen, in words: the sides, the memory, and how much of it the side held there takes."""
    spans: list[Span] = field(default_factory=list)
    """What each thread did when, for joins that stream one side."""

    def shown_line(self) -> str:
        """The rows, the kind of join, and how long it took."""
        return f"{self.rows:,} rows joined ({self.how}) in {format_seconds(self.wall_seconds)}"

    def shown_rows(self) -> dict[str, Any]:
        """How it was joined, why, and what each part took."""
        return {"strategy": self.strategy, **self.reasons, "steps": parts_in_seconds(self.steps)}

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, as ``linkwise join --json`` prints it."""
        return {
            "rows": self.rows,
            "how": self.how,
            "strategy": self.strategy,
            "reasons": self.reasons,
            "seconds": {"wall": self.wall_seconds, "steps": self.steps},
        }
