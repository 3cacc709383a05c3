"""Linkwise sorts, joins and moves data across the GPUs of a machine as fast as its links allow."""

import os
from importlib.metadata import version

# OpenMP's threads look for work for milliseconds before they sleep, and keep others from a processor: those that feed
# the GPUs. It reads this when it is loaded, with the core.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

from linkwise import _core
from linkwise._core import (
    Cancelled,
    CorruptDataError,
    DeviceArray,
    DeviceError,
    Error,
    Machine,
    OutOfMemoryError,
    UsageError,
)
from linkwise.checking import is_sorted
from linkwise.file_sorting import sort_file
from linkwise.join_planning import JoinPlanReport, plan_join
from linkwise.joining import JoinRanges, join, join_count, join_indices, join_ranges
from linkwise.machine import described_machines, load_machine, load_profile, local_machine
from linkwise.plan_report import PlanReport, plan_sort
from linkwise.probing import probe
from linkwise.profile import Profile
from linkwise.session import FallbackWarning, NoGpuWarning, NominalMachineWarning
from linkwise.sort_report import SortReport
from linkwise.sorting import empty, sort, sort_and_report, sort_indices, top_k, unique

__version__ = version("linkwise")

os.register_at_fork(before=_core.release_threads)

__all__ = [
    "Cancelled",
    "CorruptDataError",
    "DeviceArray",
    "DeviceError",
    "Error",
    "FallbackWarning",
    "JoinPlanReport",
    "JoinRanges",
    "Machine",
    "NoGpuWarning",
    "NominalMachineWarning",
    "OutOfMemoryError",
    "PlanReport",
    "Profile",
    "SortReport",
    "UsageError",
    "described_machines",
    "empty",
    "is_sorted",
    "join",
    "join_count",
    "join_indices",
    "join_ranges",
    "load_machine",
    "load_profile",
    "local_machine",
    "plan_join",
    "plan_sort",
    "probe",
    "sort",
    "sort_and_report",
    "sort_file",
    "sort_indices",
    "top_k",
    "unique",
]
