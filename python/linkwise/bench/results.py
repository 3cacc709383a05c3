"""What benchmarks return: plain values with names, which go into JSON as they are."""

from __future__ import annotations

import datetime
import os
import platform
from dataclasses import dataclass, fields, is_dataclass
from typing import Any


def plain(value: Any) -> Any:
    """A result as plain values for JSON; optional fields without a value are left out."""
    if is_dataclass(value):
        told = {field.name: (getattr(value, field.name), field.default) for field in fields(value)}
        return {name: plain(each) for name, (each, default) in told.items() if each is not None or default is not None}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return {name: plain(each) for name, each in value.items()} if isinstance(value, dict) else value


def now() -> str:
    """The current time, in the format of results."""
    return datetime.datetime.now(tz=datetime.UTC).isoformat()


def commit() -> str:
    """The running code's commit, as the environment states it where the repository's history is missing."""
    return os.environ.get("LINKWISE_COMMIT", "")


def cores() -> str:
    """What processor this is, and how many cores it has."""
    return f"{platform.machine()}, {os.cpu_count()} cores"


@dataclass(frozen=True, kw_only=True)
class Results:
    """When and on what a benchmark ran."""

    date: str
    commit: str
    machine: str
    simulated: bool

    def as_dict(self) -> dict[str, Any]:
        """As the raw results are written."""
        told: dict[str, Any] = plain(self)
        return told
