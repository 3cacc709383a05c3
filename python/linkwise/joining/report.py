"""What a join of files did and how long it took, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class JoinReport:
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

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, as ``linkwise join --json`` prints it."""
        return {
            "rows": self.rows,
            "how": self.how,
            "strategy": self.strategy,
            "seconds": {"wall": self.wall_seconds, "steps": self.steps},
        }
