"""Linkwise sorts, joins and moves data across the GPUs of a machine as fast as its links allow."""

import importlib
import os
from typing import Any

# Idle OpenMP threads spin for milliseconds before they sleep, which takes processors from the threads that feed the
# GPUs. OpenMP reads this variable once, when it is loaded with the core; afterwards the variable is restored.
_SPINS = "GOMP_SPINCOUNT"
_is_theirs = _SPINS in os.environ
os.environ.setdefault(_SPINS, "1000")

from linkwise import _core

if not _is_theirs:
    del os.environ[_SPINS]
os.register_at_fork(before=_core.release_threads)

# Public names by module. A module is imported on the first access to one of its names. ``__init__.pyi`` lists the
# same names for editors.
_NAMES = {
    "linkwise._core": [
        "Cancelled", "CorruptDataError", "DeviceArray", "DeviceError", "Error", "Machine", "OutOfMemoryError",
        "UsageError",
    ],
    "linkwise.exceptions": ["FallbackWarning", "NominalMachineWarning"],
    "linkwise.files.batch_stream": ["join_batches", "sort_batches"],
    "linkwise.files.join_files": ["join_file"],
    "linkwise.files.sort_file": ["sort_file"],
    "linkwise.joining.api": ["JoinRanges", "join", "join_count", "join_indices", "join_ranges"],
    "linkwise.interop.gpu_column": ["GpuColumn"],
    "linkwise.interop.masked_array": ["MaskedArray"],
    "linkwise.joining.device.gpu_table": ["GpuTable"],
    "linkwise.joining.report": ["JoinReport"],
    "linkwise.machines.catalog": ["described_machines", "load_machine"],
    "linkwise.machines.local": ["local_machine"],
    "linkwise.machines.profile": ["Profile", "load_profile"],
    "linkwise.planning.join": ["JoinPlanReport", "plan_join"],
    "linkwise.planning.sort": ["PlanReport", "plan_sort"],
    "linkwise.probing.probe": ["probe"],
    "linkwise.runtime.execution": ["options"],
    "linkwise.runtime.host_memory": ["empty"],
    "linkwise.runtime.join_plan": ["JoinPlan"],
    "linkwise.runtime.sort_plan": ["SortPlan"],
    "linkwise.sorting.api": ["sort", "sort_and_report", "sort_indices", "top_k", "unique"],
    "linkwise.sorting.check": ["is_sorted"],
    "linkwise.sorting.report": ["SortReport"],
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("linkwise")
    if name == "cluster":  # a subpackage whose functions have the same names as those for one machine
        return importlib.import_module("linkwise.cluster")
    if name == "PolarsEngine":  # only where Polars is installed, so it is not in __all__
        return importlib.import_module("linkwise.polars").PolarsEngine
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'linkwise' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__, "PolarsEngine", "__version__"]
