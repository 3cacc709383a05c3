"""Checks that each file compiles within a time limit, so that builds on two cores stay short."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from datetime import UTC, datetime
from pathlib import Path

MOST_SECONDS = 30.0  # limit for one file, while another one is compiled …
MOST_MEDIANS = 25.0  # … or this many times the median file, where the machine had other things to do as well


def seconds_of(log: Path) -> dict[str, float]:
    """Seconds that each file took to compile the last time, from ninja's log, which keeps files that are gone."""
    rows = [line.split("\t") for line in log.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {row[3]: (int(row[1]) - int(row[0])) / 1000 for row in rows if row[3].endswith(".o") and not is_gone(row[3])}


def is_gone(compiled: str) -> bool:
    """Whether the source of one of our files has been removed."""
    _, inside, source = compiled.removesuffix(".o").partition("/src/")
    return bool(inside) and not (Path(__file__).parents[1] / "src" / source).exists()


def too_slow(log: Path, most: float = MOST_SECONDS) -> list[str]:
    """A line for each file that takes longer."""
    seconds = seconds_of(log)
    most = max(most, MOST_MEDIANS * statistics.median(seconds.values())) if seconds else most
    return [
        f"{name} takes {taken:.0f} s to compile, and {most:.0f} are allowed: fewer instantiations, or two files"
        for name, taken in seconds.items()
        if taken > most
    ]


def main() -> None:
    """Print the newest build's times as JSON: `python scripts/build_seconds.py > FILE`, after one from scratch."""
    log = max(Path("build").glob("cp*/.ninja_log"), key=lambda log: log.stat().st_mtime)
    ends = [int(line.split("\t")[1]) for line in log.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    told = {
        "date": datetime.now(UTC).isoformat(),
        "commit": commit.stdout.strip(),
        "cpu": f"{platform.machine()}, {os.cpu_count()} cores",
        "wall_seconds": max(ends) / 1000,
        "seconds_of_files": dict(sorted(seconds_of(log).items(), key=lambda item: -item[1])),
    }
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
