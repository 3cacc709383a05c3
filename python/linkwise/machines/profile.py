"""Profiles: files that hold a machine as it was measured; and where the profile of this machine is kept.

``profile.schema.json`` beside this file says what a profile holds. Wherever a machine can be named, the path of a
profile can be given.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from linkwise import _core
from linkwise._core import Machine, UsageError
from linkwise._shown import Shown
from linkwise.machines.description import machine_from_dict, machine_to_dict, parsed_json, plain_number

VERSION = 2

CHECKED = ("host to device", "device to host", "host and device, both ways", "host sets", "host sets uneven")
"""Measurements of sets of GPUs; those that the machine was not fitted to show how good the fit is."""


@dataclass(frozen=True, repr=False)
class Profile(Shown):
    """What was measured of a machine, and the machine that was fitted to it."""

    machine: Machine
    simulated: bool
    measurements: list[dict[str, Any]]
    findings: list[str]
    fingerprint: dict[str, Any]
    host: dict[str, Any] = field(default_factory=dict)

    def shown_line(self) -> str:
        """The machine, its number of GPUs, and whether it was measured or simulated."""
        return f"{self.machine.name}, {self.machine.num_gpus} GPUs, {'simulated' if self.simulated else 'measured'}"

    def shown_rows(self) -> dict[str, Any]:
        """How much was measured, how well the fitted machine predicts, and what was found."""
        told = {"measurements": len(self.measurements), "median error": f"{self.median_error():.1%}"}
        return told | {f"finding {number}": finding for number, finding in enumerate(self.findings, 1)}

    def as_dict(self) -> dict[str, Any]:
        """The profile as it is written."""
        return {
            "linkwise_profile": VERSION,
            "fingerprint": self.fingerprint,
            "simulated": self.simulated,
            "host": self.host,
            "machine": machine_to_dict(self.machine),
            "measurements": self.measurements,
            "findings": self.findings,
        }

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The measurements of that name which could be made."""
        return [row for row in self.measurements if row["name"] == name and "cannot" not in row]

    def errors(self, *, fitted: bool) -> list[float]:
        """The relative errors of predictions: for the measurements that were fitted to, or for the others checked."""
        return [
            abs(row["predicted_gb_per_s"] / row["gb_per_s"] - 1)
            for row in self.measurements
            if row.get("predicted_gb_per_s") and row["fitted"] == fitted and (fitted or row["name"] in CHECKED)
        ]

    def median_error(self) -> float:
        """The median error of predictions for sets of GPUs that the machine was not fitted to."""
        from statistics import median  # noqa: PLC0415 - which takes long to load

        return median(self.errors(fitted=False) or [0.0])


def fingerprint() -> dict[str, Any]:
    """What a profile of this machine depends on: its GPUs and where they sit, the driver, the host."""
    return {
        "gpus": [f"{gpu.name} at {gpu.pci_bus_id}" for gpu in _core.cuda_gpus()],
        "driver": _core.cuda_driver_version(),
        "host": platform.node(),
        "cores": os.cpu_count(),
    }


def cache_path() -> Path:
    """Where the profile of this machine is kept; if the machine changes, the path does too."""
    import hashlib  # noqa: PLC0415 - slow to load

    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(json.dumps(fingerprint(), sort_keys=True).encode()).hexdigest()[:16]
    return base / "linkwise" / f"profile-{digest}.json"


def profile_schema() -> dict[str, Any]:
    """The JSON Schema of profiles."""
    text = Path(__file__).with_name("profile.schema.json").read_text(encoding="utf-8")
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

_OF_NOTHING = {"name", "what", "bytes", "cannot"}  # what is told of a measurement that could not be made

_PARTS = {
    "linkwise_profile": int,
    "fingerprint": dict,
    "simulated": bool,
    "host": dict,
    "machine": dict,
    "measurements": list,
    "findings": list,
}


def check_profile(profile: Any, where: str) -> None:
    """Raise ``UsageError`` naming the first error in a profile; its machine is checked by ``machine_from_dict``."""
    if not isinstance(profile, dict) or "linkwise_profile" not in profile:
        raise UsageError(f"{where} is no profile; 'linkwise probe -o FILE.json' writes one")
    if profile["linkwise_profile"] != VERSION:
        version = profile["linkwise_profile"]
        raise UsageError(f"{where} is a profile of version {version!r}, not {VERSION}; probe the machine again")
    unknown = set(profile) - set(_PARTS)
    if unknown:
        raise UsageError(f"{where}: unknown field '{min(unknown)}'")
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
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            plain_number(value, f"{at}: '{name}'")
    if "predicted_gb_per_s" in row and not row.get("gb_per_s"):
        raise UsageError(f"{at}: something is predicted, but 'gb_per_s' was not measured")
    if "gb_per_s" in row and not row["gb_per_s"]:
        raise UsageError(f"{at}: 'gb_per_s' is 0; leave it out")
    if "cannot" in row and row.keys() - _OF_NOTHING:
        raise UsageError(f"{at}: it cannot be measured, and has '{min(row.keys() - _OF_NOTHING)}'")
    if "cannot" not in row and not {"seconds", "spread", "repetitions", "verified", "fitted"} <= set(row):
        raise UsageError(f"{at}: it has neither a result nor the reason why there is none")


def load_profile(path: str | Path) -> Profile:
    """Load what ``linkwise probe -o`` has written. Raises ``UsageError`` that names what is wrong with it."""
    profile = parsed_json(Path(path), "profile")
    check_profile(profile, str(path))
    parts = {name: profile[name] for name in ("simulated", "measurements", "findings", "fingerprint", "host")}
    return Profile(machine=machine_from_dict(profile["machine"], str(path)), **parts)
