"""The host's part in copies of a described machine: its caches, and unified memory that moves.

The links say what copies carry; these say what the host's caches and the driver's migration make of it (commscope19
§2.2.4, §4.5 to §4.7, figures 2, 10 and 11).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from linkwise._core import UsageError
from linkwise.machines.catalog import described
from linkwise.machines.description import plain_number


@dataclass(frozen=True)
class HostCopies:
    """As a machine's ``host_copies`` has them."""

    page_bytes: float
    """Of the system."""
    cache_mib: float
    """Of a socket's last level."""
    cached_gb_per_s: float
    """Of a pageable copy whose source is in the caches."""
    demand_us: float
    """Until the first page that is touched has come."""
    demand_in_gb_per_s: float
    """Of pages that a GPU touches."""
    demand_out_gb_per_s: float
    """Of pages that host threads touch, at most."""
    thread_gb_per_s: float
    """Of pages that one of them touches."""
    prefetch_us: float
    """Until a prefetch is on its way."""

    def pageable_seconds(self, size: float, uncached_gb_per_s: float, *, flushed: bool) -> float:
        """Of a pageable copy in: the staging thread reads its source, and the pinned buffers beside it."""
        fits = not flushed and 2 * size <= self.cache_mib * 2**20
        return size / 1e9 / (self.cached_gb_per_s if fits else uncached_gb_per_s)

    def demand_seconds(self, size: float, link_gb_per_s: float, threads: int = 0) -> float:
        """Of pages that so many host threads touch on a GPU; of none, that a GPU touches on the host."""
        most = min(threads * self.thread_gb_per_s, self.demand_out_gb_per_s) if threads else self.demand_in_gb_per_s
        return 1e-6 * self.demand_us + size / 1e9 / min(most, link_gb_per_s)

    def prefetch_seconds(self, size: float, link_gb_per_s: float) -> float:
        """Of a prefetch over links that carry so much."""
        return 1e-6 * self.prefetch_us + size / 1e9 / link_gb_per_s


def host_copies(machine: str | Path) -> HostCopies | None:
    """Of a described machine, if it says so. Raises ``UsageError``."""
    description = described(machine)
    told: Any = description.get("host_copies") if isinstance(description, Mapping) else None
    if told is None:
        return None
    known = {each.name for each in fields(HostCopies)}
    where = f"{machine}, host_copies"
    if not isinstance(told, Mapping) or set(told) != known:
        raise UsageError(f"{where}: an object with {', '.join(sorted(known))}")
    numbers = {name: plain_number(value, f"{where}: '{name}'") for name, value in told.items()}
    if not all(value > 0 for value in numbers.values()):
        raise UsageError(f"{where}: all of it is above 0")
    return HostCopies(**numbers)
