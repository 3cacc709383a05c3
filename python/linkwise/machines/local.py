"""The machine that this process runs on: as it was measured, or as its links are rated."""

from __future__ import annotations

from linkwise import _core
from linkwise._core import Machine, UsageError
from linkwise.machines.catalog import load_machine
from linkwise.machines.description import machine_from_dict
from linkwise.machines.nominal import nominal_description
from linkwise.machines.profile import cache_path


def _measured_machine() -> Machine | None:
    """This machine as a probe has measured it, if there was one and nothing has changed since; else ``None``."""
    path = cache_path()
    try:
        return load_machine(path) if path.is_file() else None
    except UsageError:
        return None  # of another version, or damaged: treated as missing


def is_nominal() -> bool:
    """Whether plans for this machine's GPUs are made without having measured them."""
    return bool(_core.cuda_gpus()) and _measured_machine() is None


def local_machine() -> Machine | None:
    """The machine that this process runs on; ``None`` where CUDA cannot be used.

    As ``linkwise probe`` has measured it. Without a probe it is nominal: links as NVML and the kernel report them.
    """
    gpus = _core.cuda_gpus()
    if not gpus:
        return None
    measured = _measured_machine()
    if measured is not None and measured.num_gpus == len(gpus):
        return measured
    if len(gpus) == 8 and all("H200" in gpu.name for gpu in gpus):
        machine = load_machine("h200x8")
    else:
        machine = machine_from_dict(nominal_description(gpus, _core.gpu_seats()))
    machine.gpu.memory_gib = min(gpu.memory_gib for gpu in gpus)
    return machine
