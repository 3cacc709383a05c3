"""Measuring a machine: its links alone and together, what they share, and what its processors do."""

from __future__ import annotations

import datetime
import importlib.util
import os
import platform
import re
from pathlib import Path
from typing import Any, Literal

from linkwise import _core
from linkwise._core import UsageError
from linkwise._typing import Array
from linkwise.machines.catalog import load_machine
from linkwise.machines.profile import Profile, cache_path, fingerprint
from linkwise.probing import mpi
from linkwise.probing.findings import advice, learn_from_families, normality
from linkwise.runtime.atomic_file import check_json_output, write_json
from linkwise.runtime.execution import MachineLike
from linkwise.runtime.session import estimating_runtime, open_session

_QUICK = {
    "host to device": "pinned copies in: each GPU alone, every pair, and larger sets at once",
    "device to host": "pinned copies out: each GPU alone, every pair, and larger sets at once",
    "host and device, both ways": "pinned copies in and out at once, by the same sets of GPUs",
    "host to device, pageable": "copies in from pageable memory, all GPUs at once",
    "device to device": "copies between every pair of GPUs",
    "device to device, both ways": "copies between every pair of GPUs, both directions at once",
    "device to device, all to all": "every GPU to every other at once",
    "device to device, beside the host": "a peer and the host copied to at once, where it is unclear what they share",
    "device, local": "a copy within a GPU's memory",
    "host to device, smallest copy": "the time of one of many consecutive copies of 4 bytes",
    "device to host, smallest copy": "the same",
    "device, local, smallest copy": "the same",
    "device to device, smallest copy": "the same",
}
"""What the quick probe measures, and compute rates: sort, merge, partition, histogram, encode, checksum; host merge."""


def measurements() -> dict[str, str]:
    """Everything that ``linkwise probe`` measures, each with one line of what it is; the quick ones first."""
    return _QUICK | dict(_core.family_names()) | {mpi.NAME: mpi.WHAT}


def _row(row: _core.ProbeRow, *, is_predicted: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"name": row.name, "what": row.what}
    if row.why_not:
        return told | {"cannot": row.why_not}
    if row.bytes:
        told["bytes"] = row.bytes
    measured = row.measured
    if measured.gb_per_s > 0:
        told["gb_per_s"] = measured.gb_per_s
        told["predicted_gb_per_s"] = row.predicted_gb_per_s if is_predicted else 0
    return told | {
        "fitted": row.fitted,
        "seconds": measured.seconds,
        "spread": measured.spread,
        "repetitions": measured.repetitions,
        "verified": measured.verified,
    }


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _memory_available() -> int:
    """Bytes of host memory that are available; a large number if the system does not tell."""
    told = re.search(r"^MemAvailable:\s*(\d+) kB$", _read("/proc/meminfo") or "", re.MULTILINE)
    return int(told[1]) << 10 if told else 1 << 40


def host_conditions() -> dict[str, Any]:
    """What may change a measurement of the host: processor, cores, NUMA nodes, and the frequency governor."""
    model = re.search(r"^model name\s*:\s*(.*)$", _read("/proc/cpuinfo") or "", re.MULTILINE)
    nodes = [path.name for path in Path("/sys/devices/system/node").glob("node[0-9]*")]
    return {
        "processor": model[1] if model else platform.processor() or "unknown",
        "cores": os.cpu_count() or 0,
        "numa_nodes": max(len(nodes), 1),
        "governor": ", ".join(sorted(governors())) or "not told by this system",
    }


def governors(root: Path = Path("/sys/devices/system/cpu")) -> dict[str, int]:
    """The frequency governors, each with its number of processors; empty if the system does not tell."""
    found: dict[str, int] = {}
    for path in root.glob("cpu[0-9]*/cpufreq/scaling_governor"):
        name = _read(str(path)) or ""
        found[name] = found.get(name, 0) + 1
    return found


def governor_warning(found: dict[str, int]) -> str | None:
    """A warning if processor frequencies may change during measurements (commscope19 §2.2.3), else ``None``."""
    others = {name: count for name, count in found.items() if name != "performance"}
    if not others:
        return None
    which = ", ".join(f"{count} by '{name}'" for name, count in sorted(others.items()))
    return (
        f"the frequency of processors is set by need ({which} of {sum(found.values())}), and what the host takes part "
        "in varies with it: run 'cpupower frequency-set --governor performance' and probe again"
    )


def _nccl_library() -> str:
    """The path of NCCL in its Python package, if installed; otherwise ``LINKWISE_NCCL`` or the system's library."""
    spec = importlib.util.find_spec("nvidia.nccl") if importlib.util.find_spec("nvidia") else None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for library in Path(folder).rglob("libnccl.so.2"):
            return str(library)
    return os.environ.get("LINKWISE_NCCL", "libnccl.so.2")


def _chosen(mode: str, tests: str | None) -> tuple[bool, list[str], re.Pattern[str] | None]:
    """Whether the quick probe runs, which families do, and what rows are wanted."""
    if mode not in ("quick", "full"):
        raise UsageError(f"mode is 'quick' or 'full', not {mode!r}")
    families = [*(name for name, _ in _core.family_names()), mpi.NAME]
    if tests is None:
        return True, families if mode == "full" else [], None
    try:
        pattern = re.compile(tests, re.IGNORECASE)
    except re.error as error:
        raise UsageError(f"'{tests}' is not a pattern: {error}") from None
    chosen = [name for name in families if pattern.search(name)]
    quick = any(pattern.search(name) for name in _QUICK)
    if not chosen and not quick:
        raise UsageError(f"no measurement matches '{tests}'; linkwise probe --list names them all")
    return quick, chosen, pattern


def probe(
    machine: MachineLike = "local",
    output: str | Path | None = None,
    *,
    mode: Literal["quick", "full"] = "quick",
    tests: str | None = None,
    memory: tuple[Array, Array] | None = None,
) -> Profile:
    """Measure a machine in a few seconds, well enough for planning, and fit a machine model to the measurements.

    Parameters
    ----------
    machine
        ``"local"``: the GPUs of this machine, whose profile is kept for later plans. A described machine or a
        ``.json`` file is simulated: the result is what a probe of it would measure.
    output
        A ``.json`` file to write the profile to; it can be given wherever a machine can be named.
    mode
        ``"full"`` measures every family that ``measurements()`` names, in minutes.
    tests
        A regular expression: measure only what matches by name. The profile is not kept for plans.
    memory
        Two pinned arrays, as from ``linkwise.empty``: host traffic is measured from the first and to the second, and
        both are overwritten. The placement of memory decides how fast GPUs reach it; by default 4 GiB are allocated
        for each. The profile is not kept for plans.

    Raises
    ------
    DeviceError
        If there is no GPU to measure.
    CorruptDataError
        If a link does not deliver what was sent.
    UsageError
        If no measurement matches ``tests``, or if ``output`` cannot be written or read as a profile.

    """
    if output is not None:
        check_json_output(Path(output))
    quick, families, wanted = _chosen(mode, tests)
    is_local = machine in ("auto", "local")
    if is_local and mpi.rank() > 0:  # others would disturb the first one's measurements; they only answer messages
        quick, families = False, [name for name in families if name == mpi.NAME]
    if is_local:
        with open_session("local") as runtime:
            profile = _measure(runtime, quick, families, memory)
    else:
        described = machine if isinstance(machine, _core.Machine) else load_machine(machine)
        if quick and any(node.kind == _core.NodeKind.network for node in described.nodes):
            raise UsageError(
                f"{machine} has several nodes, and a profile is of one: probe that, or only -t 'between processes'"
            )
        profile = _measure(estimating_runtime(described), quick, families)
    if wanted is not None:
        profile.measurements[:] = [row for row in profile.measurements if wanted.search(row["name"])]
    if is_local and mpi.rank() > 0:  # only the first process writes profiles
        return profile
    if not profile.simulated and wanted is None and memory is None:
        write_json(cache_path(), profile.as_dict())
    if output is not None:
        write_json(Path(output), profile.as_dict())
    return profile


def probe_families(
    runtime: _core.Runtime, names: list[str], fitted: _core.Machine | None = None
) -> list[_core.ProbeRow]:
    """The rows of some families, on a runtime that is open. Raises ``CorruptDataError``."""
    options = _core.FamilyOptions()
    options.nccl = _nccl_library()
    if not runtime.simulated:  # which takes real memory
        options.pool_bytes = min(options.pool_bytes, _memory_available() // 8)
        options.largest = max(min(options.largest, _memory_available() // 16), 1 << 20)
    return _core.measure_families(runtime, fitted or runtime.machine, names, options)


def _between_processes(runtime: _core.Runtime) -> list[dict[str, Any]]:
    if runtime.simulated:
        return mpi.between_described_nodes(runtime.machine)
    return mpi.between_processes(runtime)


def _measure(
    runtime: _core.Runtime, quick: bool, families: list[str], memory: tuple[Array, Array] | None = None
) -> Profile:
    described = runtime.machine
    rows: list[_core.ProbeRow] = []
    findings: list[str] = []
    fitted = described
    if quick:
        options = _core.ProbeOptions()
        options.pool_bytes = min(options.pool_bytes, _memory_available() // 8)
        if memory is None or runtime.simulated:
            found = _core.quick_probe(runtime, options)
        else:
            found = _core.quick_probe_in(runtime, options, *memory)
        fitted, rows, findings = found.machine, list(found.rows), list(found.findings)
    if families:
        rows += probe_families(runtime, families, fitted)
    when = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    if runtime.simulated:
        of: dict[str, Any] = {"machine": described.name}
        if quick:
            fitted.name = f"{described.name}-probed"
            fitted.source = f"fitted to what a probe of {described.name} would measure"
    else:
        of = fingerprint()
        if quick:
            fitted.name, fitted.description = "local", f"{fitted.num_gpus} × {fitted.gpu.name}"
            fitted.source = f"measured on {when} by linkwise probe"
    # Without the quick probe, a described machine is not fitted to anything: it would be compared with itself.
    told = [_row(row, is_predicted=quick or not runtime.simulated) for row in rows]
    if mpi.NAME in families:
        told += _between_processes(runtime)
    host = {} if runtime.simulated else host_conditions()
    warning = None if runtime.simulated else governor_warning(governors())
    if warning:
        findings.append(warning)
    profile = Profile(fitted, runtime.simulated, told, findings, of, host)
    learn_from_families(profile)
    seats = [] if runtime.simulated else _core.gpu_seats()
    if quick:
        profile.findings.extend(advice(fitted))
    profile.findings.extend(normality(profile, described, seats))
    return profile
