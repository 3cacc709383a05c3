"""The host's part in copies of a described machine: its caches, and the migration of unified memory.

Links give the rates of copies; these parameters describe the effects of host caches and page migration (commscope19
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
    """The fields of a machine's ``host_copies``."""

    page_bytes: float
    """The size of a page of the system."""
    cache_mib: float
    """The size of a socket's last-level cache."""
    cached_gb_per_s: float
    """The rate of a pageable copy whose source is in the caches."""
    demand_us: float
    """The time until the first touched page has migrated."""
    demand_in_gb_per_s: float
    """The migration rate of pages that a GPU touches."""
    demand_out_gb_per_s: float
    """The highest migration rate of pages that host threads touch."""
    thread_gb_per_s: float
    """The migration rate of pages that one host thread touches."""
    prefetch_us: float
    """The startup time of a prefetch."""

    def pageable_seconds(self, size: float, uncached_gb_per_s: float, *, flushed: bool) -> float:
        """Seconds of a pageable copy to a GPU; it is faster if source and staging buffers fit into the cache."""
        fits = not flushed and 2 * size <= self.cache_mib * 2**20
        return size / 1e9 / (self.cached_gb_per_s if fits else uncached_gb_per_s)

    def demand_seconds(self, size: float, link_gb_per_s: float, threads: int = 0) -> float:
        """Seconds to migrate pages from a GPU as host threads touch them; with 0 threads, from the host to a GPU."""
        most = min(threads * self.thread_gb_per_s, self.demand_out_gb_per_s) if threads else self.demand_in_gb_per_s
        return 1e-6 * self.demand_us + size / 1e9 / min(most, link_gb_per_s)

    def prefetch_seconds(self, size: float, link_gb_per_s: float) -> float:
        """Seconds of a prefetch over links with this rate."""
        return 1e-6 * self.prefetch_us + size / 1e9 / link_gb_per_s


def host_copies(machine: str | Path) -> HostCopies | None:
    """The ``host_copies`` of a described machine; ``None`` if it has none. Raises ``UsageError``."""
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
