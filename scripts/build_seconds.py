"""Holds each compiled file to the seconds that it may take: builds on two cores are to stay short."""

from __future__ import annotations

from pathlib import Path

MOST_SECONDS = 30.0  # of one file, while another one is compiled


def seconds_of(log: Path) -> dict[str, float]:
    """What ninja's log says that each output took, the last time that it was made."""
    rows = [line.split("\t") for line in log.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {row[3]: (int(row[1]) - int(row[0])) / 1000 for row in rows}


def too_slow(log: Path, most: float = MOST_SECONDS) -> list[str]:
    """A line for each file that takes longer."""
    return [
        f"{name} takes {seconds:.0f} s to compile, and {most:.0f} are allowed: fewer instantiations, or two files"
        for name, seconds in seconds_of(log).items()
        if name.endswith(".o") and seconds > most
    ]
