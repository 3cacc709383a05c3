"""The rates at which a cluster's node reads, writes, spills, sends and computes, for pricing plans of many nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from linkwise._core import UsageError
from linkwise.machines.description import parsed_json, plain_number


@dataclass(frozen=True, kw_only=True)
class ClusterRates:
    """Rates of one node, in GB/s of rows by their size in memory unless noted. Each is above 0."""

    network: float
    """To other nodes, in each direction."""
    storage_read: float
    storage_write: float
    """Of the storage that all nodes share, when all of them read or write."""
    spill_write: float
    spill_read: float
    """Of the disks to which a node's store spills."""
    spread: float
    """The rate at which its processors read, decode, sort and cut rows."""
    make: float
    """The rate at which its processors fetch, sort, encode and write rows."""
    start_seconds: float
    """Until workers have started."""
    task_seconds: float
    """What the engine takes for each call of a worker."""
    memory_gib: float
    """Memory for a worker, which has the node to itself."""
    store_gib: float
    """The size of its object store."""

    def as_dict(self) -> dict[str, float]:
        """As ``cluster`` has it in a machine's description."""
        return asdict(self)

    @classmethod
    def of(cls, described: Any, where: str) -> ClusterRates:
        """From a description. Raises ``UsageError`` that names what is missing, unknown or wrong."""
        if not isinstance(described, Mapping):
            raise UsageError(f"{where}: 'cluster' is an object, with the rates of a node")
        names = [field.name for field in fields(cls)]
        for name in described:
            if name not in names:
                raise UsageError(f"{where}, cluster: unknown field '{name}'; there are {', '.join(names)}")
        for name in names:
            if name not in described:
                raise UsageError(f"{where}, cluster: '{name}' is missing")
        numbers = {name: plain_number(described[name], f"{where}, cluster: '{name}'") for name in names}
        for name, number in numbers.items():
            if not number and name not in {"task_seconds", "start_seconds"}:
                raise UsageError(f"{where}, cluster: '{name}' is 0, and nothing would ever be done")
        return cls(**numbers)


def cluster_rates(name_or_path: str | Path) -> ClusterRates:
    """The rates of a machine that comes with Linkwise, or of a ``.json`` file. Raises ``UsageError`` if unknown."""
    name = str(name_or_path)
    description = parsed_json(Path(name), "machine") if name.endswith(".json") else _read(name)
    if not isinstance(description, Mapping) or "cluster" not in description:
        raise UsageError(
            f"{name}: nobody knows how fast its nodes read, spill and send; 'linkwise probe --cluster' measures that; "
            f"known are {', '.join(machines_with_rates())}"
        )
    return ClusterRates.of(description["cluster"], name)


def machines_with_rates() -> list[str]:
    """The names of the machines with rates that come with Linkwise."""
    every = {entry.name.removesuffix(".json") for folder in _FOLDERS for entry in _folder(folder).iterdir()}
    return sorted(name for name in every if "cluster" in _read(name))


_FOLDERS = ("described", "storage_nodes")  # the latter have no GPUs


def _folder(name: str) -> Any:
    return Path(__file__).parent / name


def _read(name: str) -> Any:
    for folder in _FOLDERS:
        entry = _folder(folder) / f"{name}.json"
        if len(name) <= 99 and entry.is_file():
            return json.loads(entry.read_text(encoding="utf-8"))
    return {}
