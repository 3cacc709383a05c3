"""What a bug report needs: ``linkwise doctor``."""

from __future__ import annotations

import datetime
import platform
import sys
from typing import Any

import numpy as np

from linkwise import _core
from linkwise._arrow import pa
from linkwise._core import CorruptDataError, Error
from linkwise.machines.local import is_nominal
from linkwise.machines.profile import cache_path
from linkwise.probing.pci_paths import pci_findings
from linkwise.probing.probe import governor_warning, governors, host_conditions
from linkwise.runtime.session import open_session

_BYTES = 1 << 20


def _peers(runtime: _core.Runtime) -> dict[str, str]:
    """The result of a verified copy between every pair of GPUs."""
    found = {}
    for a in range(runtime.machine.num_gpus):
        for b in range(runtime.machine.num_gpus):
            if a == b:
                continue
            transfer = _core.Transfer(_core.Place.gpu(a), _core.Place.gpu(b), _BYTES)
            try:
                _core.measure_transfers(runtime, [transfer], 0.01)
                found[f"{a}→{b}"] = "verified"
            except CorruptDataError as error:
                found[f"{a}→{b}"] = f"CORRUPT: {error}"
            except Error as error:
                found[f"{a}→{b}"] = f"refused: {error}"
    return found


def examine(version: str) -> dict[str, Any]:
    """Build, host, GPUs, peer access with verified data, and the profile; ``healthy`` says whether all is well.

    Where a peer copy is corrupt or refused, ``likely_causes`` names what lies on the GPUs' paths and may cause it.
    """
    driver = _core.cuda_driver_version()
    told: dict[str, Any] = {
        "linkwise": version,
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "pyarrow": pa.__version__,
        "system": platform.platform(),
        "host": host_conditions(),
        "driver": f"for CUDA {driver // 1000}.{driver % 1000 // 10}" if driver else "none",
    }
    warning = governor_warning(governors())
    if warning:
        told["warning"] = warning
    reason = _core.cuda_unavailable_reason()
    if reason:
        return told | {"gpus": [], "why_no_gpus": reason, "healthy": True}
    told["gpus"] = [
        {"name": gpu.name, "memory_gib": round(gpu.memory_gib, 1), "bus": gpu.pci_bus_id,
         "compute_capability": gpu.compute_capability / 10}
        for gpu in _core.cuda_gpus()
    ]  # fmt: skip
    with open_session("local") as runtime:
        told["peers"] = _peers(runtime)
    healthy = all(state == "verified" for state in told["peers"].values())
    found = pci_findings([gpu.pci_bus_id for gpu in _core.cuda_gpus()])
    told["pci"] = found.facts
    if not healthy:
        told["likely_causes"] = found.causes or ["none that the system shows; please report this"]
    path = cache_path()
    told["profile"] = (
        "none: run 'linkwise probe'"
        if is_nominal()
        else f"{path}, of {datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC).date()}"
    )
    return told | {"healthy": healthy}
