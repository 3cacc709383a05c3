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
    Exemption("sort22-fig1", "P2P sort over the cores", 7.8,
              "3.9: a described machine's cores have one rate, PARADIS' of 60·10⁹ keys, which is twice that of 4·10⁹"),
    Exemption("join25-fig15", "4·10⁹ ⋈ 4·10⁹", 2.4, "2.8: two GPUs merge nothing, one merges two runs of each side"),
    Exemption("join25-fig15", "8·10⁹ ⋈ 8·10⁹", 3.9, "5.3: four GPUs merge nothing, and one merges four runs"),
    Exemption("join25-fig17", "Q3, share of join", 0.28, _QUERIES),
    Exemption("join25-fig17", "Q3, share of sort", 0.56, _QUERIES),
    Exemption("join25-fig17", "Q3, share of materialise", 0.16, _QUERIES),
    Exemption("join25-fig17", "Q5, share of sort", 0.32, _QUERIES),
    Exemption("join25-fig17", "Q5, share of materialise", 0.46, _QUERIES),
    Exemption("proact21-fig10", "16 GPUs, as fast as memcpy", 5.3,
              "6.5: our applications differ more in what they transfer"),
    Exemption("tartan20-fig5", "dgx1-v100", 27.0,
              "18 µs: two copies in a row take twice as long as one; why three times is not known"),
    Exemption("tartan20-fig15", "double link", 4.0, "8 MiB: twice the rate at the same start-up is full twice as late"),
    Exemption("tartan20-fig21", "dgx1-p100, NVLink", 256.0, "128 MiB, likewise: V100s, of twice the rate, at 256"),
    Exemption("tartan20-fig24", "sli-rtx2080", 1.0,
              "8 and 16 MiB: at 18 µs a start, 1 MB reaches two thirds of the rate"),
    Exemption("tartan20-fig31", "8 nodes", 32.0, "23: more than two rails of EDR could carry, 25 GB/s"),
)  # fmt: skip
"""They are from nine figures."""


def exemption_of(experiment: str, row: Row) -> Exemption | None:
    """The exemption of a row that may be further from the paper, if any."""
    return next((each for each in EXEMPTIONS if each.is_of(experiment, row)), None)


def is_near(row: Row) -> bool:
    """Whether ours is within ``TOLERANCE`` of what the paper states."""
    return row.ratio is not None and abs(row.ratio - 1) <= TOLERANCE
