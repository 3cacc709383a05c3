"""Variants of described machines: several nodes of one, or one without its NVLinks."""

from __future__ import annotations

import copy
from typing import Any

from linkwise import _core
from linkwise._core import Machine, UsageError


def _renamed(name: str, node: int) -> str:
    return f"node{node}/{name}"


def _shifted(term: dict[str, Any], node: int, gpus: int, memories: int) -> dict[str, Any]:
    """A constraint's term for the GPUs and memories of another node."""
    moved = copy.deepcopy(term)
    for end, is_host in (("from", term["traffic"] == "host_to_device"), ("to", term["traffic"] == "device_to_host")):
        count = memories if is_host else gpus
        # A term without numbers applies to all of its own node.
        moved[end] = [number + node * count for number in term.get(end) or range(count)]
    return moved


def in_nodes(description: dict[str, Any], nodes: int) -> dict[str, Any]:
    """Several nodes of a described machine, joined by the network that it names (tartan20 §3.3 and 3.4).

    GPUs and memories are numbered consecutively. Raises ``UsageError`` if the machine has no network.
    """
    one = {key: value for key, value in description.items() if key != "network"}
    if nodes == 1:
        return one
    network = description.get("network")
    if network is None or nodes < 1:
        raise UsageError(
            f"'{description['name']}' cannot be had in {nodes} nodes: "
            + ("it names no network" if network is None else "there is one at least")
        )
    kinds = one["nodes"]
    gpus, memories = len(kinds["gpus"]), len(kinds["memories"])
    every = range(nodes)
    links = [
        link | {"between": [[_renamed(a, node), _renamed(b, node)] for node in every for a, b in link["between"]]}
        for link in one["links"]
    ]
    links.append(
        {key: network[key] for key in ("kind", "gb_per_s", "latency_us", "nominal_gb_per_s")}
        | {"between": [[_renamed(nic, node), "network"] for node in every for nic in kinds["nics"]]}
    )
    constraints = [
        constraint | {"terms": [_shifted(term, node, gpus, memories) for term in constraint["terms"]]}
        for node in every
        for constraint in one["constraints"]
    ]
    if "gpudirect_gb_per_s" in network:
        for node in every:
            inside = list(range(node * gpus, (node + 1) * gpus))
            outside = [gpu for gpu in range(nodes * gpus) if gpu not in inside]
            term = {"traffic": "peer", "from": inside, "to": outside}
            constraints.append(
                {"name": f"GPUDirect RDMA from node{node}", "gb_per_s": network["gpudirect_gb_per_s"], "terms": [term]}
            )
    return one | {
        "name": f"{one['name']}:{nodes}",
        "description": f"{nodes} nodes: {one['description']}",
        "nodes": {kind: [_renamed(name, node) for node in every for name in names] for kind, names in kinds.items()}
        | {"networks": ["network"]},
        "links": links,
        "constraints": constraints,
    }


def node_names(machine: Machine, kind: _core.NodeKind) -> list[str]:
    """For each GPU or memory, the name of the node that it is in; empty if there is only one node."""
    return [node.name.rpartition("/")[0] for node in machine.nodes if node.kind == kind]


def node_of_gpus(machine: Machine) -> list[int]:
    """For each GPU, the number of the first GPU of its node, if a network joins several nodes."""
    names = node_names(machine, _core.NodeKind.gpu)
    return [names.index(name) for name in names]


def without_nvlink(machine: Machine) -> Machine:
    """The machine with its GPUs joined by PCIe alone: what one sends to another goes through the host's memory."""
    changed = copy.copy(machine)
    joined = (_core.NodeKind.gpu, _core.NodeKind.nvswitch)
    nodes = machine.nodes
    kept_links = [
        link for link in machine.links if nodes[link.a].kind not in joined or nodes[link.b].kind not in joined
    ]
    if len(kept_links) == len(machine.links):
        raise UsageError(f"'{machine.name}' has no NVLink between its GPUs to leave out")
    changed.links = kept_links
    changed.nodes = [node for node in nodes if node.kind != _core.NodeKind.nvswitch]
    kept = {node.name: index for index, node in enumerate(changed.nodes)}
    for link in changed.links:
        link.a, link.b = kept[nodes[link.a].name], kept[nodes[link.b].name]
    changed.name = f"{machine.name} without nvlink"
    changed.staged_peers = True
    return changed
