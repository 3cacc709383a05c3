"""Profiles: a machine as it was measured, in a file; and where the one of this machine is kept.

``profile.schema.json`` beside this file says what a profile holds. Wherever a machine can be named, the path of a
profile can be given.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from statistics import median
from typing import Any

from linkwise import _core
from linkwise._core import Error, Machine, UsageError

VERSION = 2

AGENT_COSTS = (
    "inline_stall", "memory_share", "tracking_ns", "polling_us", "polling_share", "polling_goodput", "dynamic_us",
    "dynamic_share", "copy_engine_us", "saturating_threads",
)  # fmt: skip
"""What agents cost, as machines/README.md says."""

CHECKED = ("host to device", "device to host", "host and device, both ways", "host sets", "host sets uneven")
"""Measurements of GPU sets: those that the machine was not fitted to say how good the fit is."""


@dataclass(frozen=True)
class Profile:
    """What was measured of a machine, and the machine that was fitted to it."""

    machine: Machine
    simulated: bool
    measurements: list[dict[str, Any]]
    findings: list[str]
    fingerprint: dict[str, Any]
    host: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The profile as it is written."""
        return {
            "linkwise_profile": VERSION,
            "fingerprint": self.fingerprint,
            "simulated": self.simulated,
            "host": self.host,
            "machine": describe(self.machine),
            "measurements": self.measurements,
            "findings": self.findings,
        }

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The measurements of that name which could be made."""
        return [row for row in self.measurements if row["name"] == name and "cannot" not in row]

    def errors(self, *, fitted: bool) -> list[float]:
        """How far the fitted machine is from each measurement, relative: those that it was fitted to, or the others."""
        return [
            abs(row["predicted_gb_per_s"] / row["gb_per_s"] - 1)
            for row in self.measurements
            if row.get("predicted_gb_per_s") and row["fitted"] == fitted and (fitted or row["name"] in CHECKED)
        ]

    def median_error(self) -> float:
        """Of the predictions for sets that the machine was not fitted to."""
        return median(self.errors(fitted=False) or [0.0])


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
        "agents": {name: getattr(machine.agents, name) for name in AGENT_COSTS},
        "store_goodput": {str(size): fraction for size, fraction in machine.store_goodput.items()},
        "gpu": _processor(machine.gpu),
        "host": _processor(machine.host),
    }


def profile_schema() -> dict[str, Any]:
    """The JSON Schema of profiles."""
    text = (resources.files("linkwise") / "profile.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


_ROW: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "what": str,
    "fitted": bool,
    "bytes": int,
    "gb_per_s": (int, float),
    "predicted_gb_per_s": (int, float),
    "seconds": (int, float),
    "spread": (int, float),
    "repetitions": int,
    "verified": bool,
    "cannot": str,
}
_PARTS = {
    "fingerprint": dict,
    "simulated": bool,
    "host": dict,
    "machine": dict,
    "measurements": list,
    "findings": list,
}


def check_profile(profile: Any, where: str) -> None:
    """Raise ``UsageError`` that names the first thing in which this is no profile; its machine is left to others."""
    if not isinstance(profile, dict) or profile.get("linkwise_profile") != VERSION:
        version = profile.get("linkwise_profile") if isinstance(profile, dict) else None
        raise UsageError(f"{where} is a profile of version {version}, not {VERSION}; probe the machine again")
    for name, kind in _PARTS.items():
        if name not in profile:
            raise UsageError(f"{where}: '{name}' is missing")
        if not isinstance(profile[name], kind):
            raise UsageError(f"{where}: '{name}' has the wrong type, {type(profile[name]).__name__}")
    if any(not isinstance(finding, str) for finding in profile["findings"]):
        raise UsageError(f"{where}: a finding is text")
    for index, row in enumerate(profile["measurements"]):
        _check_row(row, f"{where}, measurement {index}")


def _check_row(row: Any, at: str) -> None:
    if not isinstance(row, dict) or "name" not in row or "what" not in row:
        raise UsageError(f"{at}: it has a name and says what it is of")
    for name, value in row.items():
        if name not in _ROW:
            raise UsageError(f"{at}: unknown field '{name}'")
        if not isinstance(value, _ROW[name]) or (isinstance(value, bool) and _ROW[name] is not bool):
            raise UsageError(f"{at}: '{name}' has the wrong type, {type(value).__name__}")
        if isinstance(value, (int, float)) and not 0 <= value < math.inf:
            raise UsageError(f"{at}: '{name}' is {value}; it must be finite and not negative")
    if "predicted_gb_per_s" in row and not row.get("gb_per_s"):
        raise UsageError(f"{at}: something is predicted, but 'gb_per_s' was not measured")
    if "cannot" not in row and not {"seconds", "spread", "repetitions", "verified", "fitted"} <= set(row):
        raise UsageError(f"{at}: it has neither a result nor the reason why there is none")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object beside its place and rename it: it appears complete or not at all. Raises ``Error``."""
    path = path.resolve()  # what a link leads to is written, not the link
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    text = json.dumps(value, indent=1, allow_nan=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a device or a pipe stays what it is
            path.write_text(text, encoding="utf-8")
            return
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise Error(f"cannot write {path}: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
