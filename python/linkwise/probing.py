"""Measuring a machine: its links alone and together, what they share, and what its processors do."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from linkwise import _core
from linkwise.machine import load_machine
from linkwise.planning import MachineLike
from linkwise.profile import VERSION, cache_path, describe, fingerprint, write_profile
from linkwise.session import open_session

MEASUREMENTS = {
    "host to device": "pinned copies in: each GPU alone, every two, and larger sets at once",
    "device to host": "pinned copies out, likewise",
    "host and device, both ways": "pinned copies in and out at once, likewise",
    "host to device, pageable": "copies in from ordinary memory, all GPUs at once",
    "device to device": "copies between every two GPUs",
    "device to device, both ways": "copies between every two GPUs in both directions at once",
    "device to device, all to all": "every GPU to every other at once",
    "device, local": "a copy within a GPU's memory",
    "… smallest copy": "what each of many copies of 4 bytes in a row takes, by kind",
    "rates": "sort, merge, partition, histogram, encode and checksum on a GPU; merge and sort on the host",
}
"""What ``linkwise probe`` measures, each with one line of what it is."""


@dataclass(frozen=True)
class Profile:
    """What was measured of a machine, and the machine that was fitted to it."""

    machine: _core.Machine
    simulated: bool
    measurements: list[dict[str, Any]]
    findings: list[str]
    fingerprint: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The profile as it is written."""
        return {
            "linkwise_profile": VERSION,
            "fingerprint": self.fingerprint,
            "simulated": self.simulated,
            "machine": describe(self.machine),
            "measurements": self.measurements,
            "findings": self.findings,
        }

    def errors(self, *, fitted: bool) -> list[float]:
        """How far the fitted machine is from each measurement, relative: those that it was fitted to, or the others."""
        return [
            abs(row["predicted_gb_per_s"] / row["gb_per_s"] - 1)
            for row in self.measurements
            if row.get("predicted_gb_per_s") and row["fitted"] == fitted
        ]

    def median_error(self) -> float:
        """Of the predictions for sets that the machine was not fitted to."""
        return median(self.errors(fitted=False) or [0.0])


def _row(row: _core.ProbeRow) -> dict[str, Any]:
    told: dict[str, Any] = {"name": row.name, "what": row.what, "fitted": row.fitted}
    measured = row.measured
    if measured.gb_per_s > 0:
        told |= {"gb_per_s": measured.gb_per_s, "predicted_gb_per_s": row.predicted_gb_per_s}
    return told | {
        "seconds": measured.seconds,
        "spread": measured.spread,
        "repetitions": measured.repetitions,
        "verified": measured.verified,
    }


def probe(machine: MachineLike = "local", output: str | Path | None = None) -> Profile:
    """Measure a machine in some seconds, well enough to plan with, and fit a machine to what was measured.

    Parameters
    ----------
    machine
        ``"local"``: the GPUs of this machine, whose profile is kept for later plans. A described machine or a
        ``.json`` file is simulated: what the probe would find out there.
    output
        A ``.json`` file to write the profile to; it can be given wherever a machine can be named.

    Raises
    ------
    DeviceError
        If there is no GPU to measure.
    CorruptDataError
        If a link does not deliver what was sent.

    """
    if machine in ("auto", "local"):
        with open_session("local") as runtime:
            found = _core.quick_probe(runtime, _core.ProbeOptions())
        of = fingerprint()
    else:
        described = machine if isinstance(machine, _core.Machine) else load_machine(machine)
        runtime = _core.VirtualRuntime(described, _core.VirtualMode.estimate, 0)
        found = _core.quick_probe(runtime, _core.ProbeOptions())
        of = {"machine": described.name}
    fitted = found.machine
    when = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    if runtime.simulated:
        fitted.name, fitted.source = f"{fitted.name}-probed", f"fitted to what a probe of {fitted.name} would measure"
    else:
        fitted.name, fitted.description = "local", f"{fitted.num_gpus} × {fitted.gpu.name}, measured"
        fitted.source = f"measured on {when} by linkwise probe"
    profile = Profile(fitted, runtime.simulated, [_row(row) for row in found.rows], list(found.findings), of)
    if output is not None:
        write_profile(Path(output), profile.as_dict())
    if not runtime.simulated:
        write_profile(cache_path(), profile.as_dict())
    return profile
