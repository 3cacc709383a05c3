"""Figures that the papers state and ours miss by more than ``TOLERANCE``, and why."""

from __future__ import annotations

from dataclasses import dataclass

from linkwise.reproduce.experiment import Row

TOLERANCE = 0.15


@dataclass(frozen=True)
class Exemption:
    """Rows of an experiment whose names contain ``part``, and for which the paper states this figure."""

    experiment: str
    part: str
    paper: float
    why: str

    def is_of(self, experiment: str, row: Row) -> bool:
        """Whether the row is one of them."""
        return self.experiment == experiment and self.part in row.what and row.paper == self.paper


_QUERIES = "both relations are sorted and merged whole first, and row numbers are materialised, not their columns"
EXEMPTIONS = (
    Exemption("join25-fig17", "Q3, share of join", 0.28, _QUERIES),
    Exemption("join25-fig17", "Q3, share of sort", 0.56, _QUERIES),
    Exemption("join25-fig17", "Q3, share of materialise", 0.16, _QUERIES),
    Exemption("join25-fig17", "Q5, share of sort", 0.32, _QUERIES),
    Exemption("join25-fig17", "Q5, share of materialise", 0.46, _QUERIES),
    Exemption("tartan20-fig5", "dgx1-v100", 27.0,
              "18 µs: two copies in a row take twice as long as one; why three times is not known"),
    Exemption("tartan20-fig24", "sli-rtx2080", 1.0,
              "8 and 16 MiB: at 18 µs a start, 1 MB reaches two thirds of the rate"),
    Exemption("tartan20-fig31", "8 nodes", 32.0, "23: more than two rails of EDR could carry, 25 GB/s"),
)  # fmt: skip


def exemption_of(experiment: str, row: Row) -> Exemption | None:
    """The exemption of a row that may be further from the paper, if any."""
    return next((each for each in EXEMPTIONS if each.is_of(experiment, row)), None)


def is_near(row: Row) -> bool:
    """Whether ours is within ``TOLERANCE`` of what the paper states, or the next value that it could have stated."""
    if row.ratio is None:
        return False
    return abs(row.ratio - 1) <= TOLERANCE or 1 / row.step <= row.ratio <= row.step
