"""Profiles: a machine as it was measured, in a file; and where the one of this machine is kept.

A profile is a JSON object with ``linkwise_profile`` (the version of this format), ``fingerprint`` (what it is of),
``machine`` (a description as in ``machines/README.md``), ``measurements`` and ``findings``. Wherever a machine can be
named, the path of a profile can be given.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from linkwise import _core
from linkwise._core import Error, Machine

VERSION = 1

_KINDS = {
    _core.NodeKind.socket: "sockets",
    _core.NodeKind.memory: "memories",
    _core.NodeKind.pcie_switch: "pcie_switches",
    _core.NodeKind.gpu: "gpus",
    _core.NodeKind.nvswitch: "nvswitches",
    _core.NodeKind.nic: "nics",
    _core.NodeKind.network: "networks",
}


def fingerprint() -> dict[str, Any]:
    """What a profile of this machine depends on: its GPUs and where they sit, the driver, the host."""
    return {
        "gpus": [f"{gpu.name} at {gpu.pci_bus_id}" for gpu in _core.cuda_gpus()],
        "driver": _core.cuda_driver_version(),
        "host": platform.node(),
        "cores": os.cpu_count(),
    }


def cache_path() -> Path:
    """Where the profile of this machine is kept; a machine that changes has another one."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(json.dumps(fingerprint(), sort_keys=True).encode()).hexdigest()[:16]
    return base / "linkwise" / f"profile-{digest}.json"


def _capacity(points: list[_core.CapacityPoint]) -> float | dict[str, float]:
    if len(points) == 1:
        return points[0].gb_per_s
    return {str(point.flows): point.gb_per_s for point in points}


def _processor(processor: _core.Processor) -> dict[str, Any]:
    return {
        "name": processor.name,
        "memory_gib": processor.memory_gib,
        "local_copy_gb_per_s": processor.local_copy_gb_per_s,
        "rates": {
            name: [rate.fixed_us, rate.ps_per_record, rate.ps_per_byte] for name, rate in processor.rates.items()
        },
    }


def describe(machine: Machine) -> dict[str, Any]:
    """The description from which ``machine_from_dict`` builds the same machine again."""
    nodes: dict[str, list[str]] = {}
    for node in machine.nodes:
        nodes.setdefault(_KINDS[node.kind], []).append(node.name)
    links = [
        {
            "kind": link.kind,
            "between": [[machine.nodes[link.a].name, machine.nodes[link.b].name]],
            "gb_per_s": {"forward": _capacity(link.forward), "backward": _capacity(link.backward)},
            **({"duplex_gb_per_s": _capacity(link.duplex)} if link.duplex else {}),
            "latency_us": link.latency_us,
            "nominal_gb_per_s": link.nominal_gb_per_s,
        }
        for link in machine.links
    ]
    constraints = [
        {
            "name": constraint.name,
            "gb_per_s": _capacity(constraint.capacity),
            "terms": [
                {"traffic": term.traffic.name, "from": term.source, "to": term.target, "weight": term.weight}
                for term in constraint.terms
            ],
        }
        for constraint in machine.constraints
    ]
    engines, startup = machine.copy_engines, machine.copy_startup
    return {
        "name": machine.name,
        "description": machine.description,
        "source": machine.source,
        "nodes": nodes,
        "links": links,
        "constraints": constraints,
        "copy_engines": {
            "host_to_device": engines.host_to_device,
            "device_to_host": engines.device_to_host,
            "peer": engines.peer,
        },
        "copy_startup_us": {
            "host_to_device": startup.host_to_device_us,
            "device_to_host": startup.device_to_host_us,
            "peer": startup.peer_us,
            "local": startup.local_us,
        },
        "pageable_gb_per_s": machine.pageable_gb_per_s,
        "staged_peers": machine.staged_peers,
        "staged_peer_gb_per_s": machine.staged_peer_gb_per_s,
        "zero_copy_gb_per_s": {"read": machine.zero_copy_read_gb_per_s, "write": machine.zero_copy_write_gb_per_s},
        "store_goodput": {str(size): fraction for size, fraction in machine.store_goodput.items()},
        "gpu": _processor(machine.gpu),
        "host": _processor(machine.host),
    }


def write_profile(path: Path, profile: Mapping[str, Any]) -> None:
    """Write a profile beside its place and rename it: it appears complete or not at all. Raises ``Error``."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(profile, indent=1), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise Error(f"cannot write the profile {path}: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
