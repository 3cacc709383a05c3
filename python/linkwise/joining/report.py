"""What a join of files did and how long it took, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from linkwise._shown import Shown, format_seconds, parts_in_seconds
from linkwise.sorting.report import Span


@dataclass(frozen=True, repr=False)
class JoinReport(Shown):
    """What a join did, and how long each step took.

    ``wall_seconds`` is what the caller waited, and ``steps`` for what: for the sides to be read, a table of one to be
    made, rows to be joined and written. ``strategy`` says how: by a hash table in which the other side is looked up as
    it is read, in memory, or by sorted runs that were spilled.
    """

    rows: int
    how: str
    strategy: str
    wall_seconds: float
    steps: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """What decided how, in words: the sides, the memory, and what of it the side that is held takes."""
    spans: list[Span] = field(default_factory=list)
    """What each thread did when, where parts of one side stream by."""

    def shown_line(self) -> str:
        """Rows, how, and how long it took."""
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
