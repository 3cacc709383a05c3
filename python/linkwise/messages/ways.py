"""How a message gets from one GPU to another: the ways of tartan20 §3.3 between nodes and §4.1 within one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from linkwise._core import UsageError
from linkwise.messages.schedules import Hop


@dataclass(frozen=True)
class Way:
    """What carries a hop."""

    name: str
    uses_host: bool = False
    """Whether it goes through the host's memory."""
    is_pinned: bool = False
    """Whether messages through host memory use pinned memory."""
    follows: bool = False
    """Whether a message is pipelined in parts over its legs, as MPI does where GPUs and the network adapter can pin
    the same memory (GPUDirect); otherwise each leg begins when the previous one has ended."""
    only_between_nodes: bool = False

    def moving(self, hops: Iterable[Hop]) -> list[Hop]:
        """The hops of a round that move data on this way."""
        return [hop for hop in hops if hop.length and (hop.source != hop.target or self.uses_host)]


WAYS = {
    way.name: way
    for way in (
        Way("host", uses_host=True),
        Way("host-pinned", uses_host=True, is_pinned=True),
        Way("peer"),  # copies from GPU to GPU, and rings of them
        Way("nccl"),
        Way("rdma", only_between_nodes=True),  # from GPU to GPU over the network: GPUDirect RDMA
        Way("host-pinned-gpudirect", uses_host=True, is_pinned=True, follows=True, only_between_nodes=True),
        Way("host-gpudirect", uses_host=True, follows=True, only_between_nodes=True),
    )
}

BETWEEN_NODES = ("rdma", "host-pinned-gpudirect", "host-pinned", "host-gpudirect", "host")
"""The five configurations of tartan20 §3.3, in its order."""


def way_named(name: str, *, nodes: int = 1) -> Way:
    """The way of that name. Raises ``UsageError`` if there is none, or it cannot be used on this many nodes."""
    way = WAYS.get(name)
    if way is None:
        raise UsageError(f"there is no way '{name}' between GPUs; there are {', '.join(WAYS)}")
    if way.only_between_nodes and nodes == 1:
        raise UsageError(
            f"'{name}' leads from node to node: name several, as --machine summit-node:4, or start by mpirun"
        )
    if name == "peer" and nodes > 1:
        raise UsageError("GPUs of two nodes have no peer access: use rdma or nccl, or go through the host")
    return way
