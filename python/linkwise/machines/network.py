"""The costs of messages between the nodes of a described machine, in addition to the links that they cross."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import log2
from pathlib import Path
from typing import Any

from linkwise._core import UsageError
from linkwise.machines.catalog import described
from linkwise.machines.description import plain_number


@dataclass(frozen=True)
class MessageCosts:
    """The fields of ``messages`` in a machine's ``network``; the defaults are of no machine in particular."""

    host_us: float = 2
    """The startup of an MPI message from host memory to host memory."""
    gpu_us: float = 4
    """The startup of a message from GPU to GPU (GPUDirect RDMA)."""
    part_bytes: float = 1 << 20
    """The size of the parts in which a message is pipelined through host memory with GPUDirect."""
    rdma_goodput: Mapping[int, float] = field(default_factory=dict)
    """The fraction of its links' rate that GPUDirect RDMA reaches, by message size; log-linear interpolation."""

    def rdma_goodput_of(self, size: float) -> float:
        """The goodput fraction for a message of ``size`` bytes."""
        points = sorted(self.rdma_goodput.items())
        if not points:
            return 1
        for (low, at_low), (high, at_high) in pairwise(points):
            if low <= size <= high:
                return at_low + (at_high - at_low) * log2(size / low) / log2(high / low)
        return points[0][1] if size < points[0][0] else points[-1][1]


def message_costs(machine: str | Path) -> MessageCosts:
    """The message costs of a described machine, by name, as ``summit-node:4``, or by file. Raises ``UsageError``."""
    description = described(machine)
    network = description.get("network", {}) if isinstance(description, Mapping) else {}
    costs: Any = network.get("messages", {}) if isinstance(network, Mapping) else {}
    where = f"{machine}, network, messages"
    known = {"host_us", "gpu_us", "part_bytes", "rdma_goodput"}
    if not isinstance(costs, Mapping) or not set(costs) <= known:
        raise UsageError(f"{where}: an object with {', '.join(sorted(known))}")
    goodput = costs.get("rdma_goodput", {})
    if not isinstance(goodput, Mapping) or not all(size.isdecimal() and int(size) for size in goodput):
        raise UsageError(f"{where}: 'rdma_goodput' is a share, by the bytes of a message")
    numbers = {name: plain_number(costs[name], f"{where}: '{name}'") for name in costs if name != "rdma_goodput"}
    shares = {int(size): plain_number(share, f"{where}: rdma_goodput") for size, share in goodput.items()}
    if not all(0 < share <= 1 for share in shares.values()) or numbers.get("part_bytes", 1) < 1:
        raise UsageError(f"{where}: shares are above 0 and at most 1, and parts have a byte at least")
    return MessageCosts(**numbers, rdma_goodput=shares)
