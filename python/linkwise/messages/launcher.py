"""Processes that were started together by MPI: who this one is, and what their MPI can do."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
from dataclasses import dataclass
from typing import Any

from linkwise._core import DeviceError

LAUNCHERS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
"""Variables in which launchers tell a process its rank."""


_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")


def _is_alone() -> bool:
    """Whether the launcher says that it started only one process, such as a batch job's script."""
    told = next((os.environ[name] for name in _SIZES if name in os.environ), "")
    return told == "1"


def rank() -> int:
    """This process's rank among those that were started together; 0 if it is alone."""
    told = next((os.environ[name] for name in LAUNCHERS if name in os.environ), "0")
    return int(told) if told.isascii() and told.isdigit() else 0


def sends_gpu_memory() -> bool:
    """Whether MPI is GPU-aware, as Open MPI and MPICH report it; of others it is assumed that they are not."""
    # MPI's symbols are local to mpi4py's extension module: look them up through that.
    library = ctypes.CDLL(importlib.import_module("mpi4py.MPI").__file__)
    for question in ("MPIX_Query_cuda_support", "MPIX_GPU_query_support"):
        try:
            asked = getattr(library, question)
        except AttributeError:
            continue
        if question == "MPIX_Query_cuda_support":
            return bool(asked())
        answer = ctypes.c_int()
        return asked(0, ctypes.byref(answer)) == 0 and bool(answer.value)  # 0: CUDA
    return False


@dataclass(frozen=True)
class World:
    """The processes that were started together."""

    everyone: Any
    """MPI's communicator of all."""
    alone: Any
    """MPI's communicator of this process."""
    local_rank: int
    """This process's rank among those on its computer."""
    computer: str
    """The name of this process's computer."""
    computers: int
    sends_gpu_memory: bool

    def have_a_gpu_each(self, bus_id: str) -> bool:
        """Whether no two processes share a GPU, by computer and PCI bus address."""
        every = self.everyone.allgather((self.computer, bus_id))
        return len(set(every)) == len(every)

    def all_agree(self, error: str) -> str:
        """The first process's reason why it cannot go on, where any has one; empty where all can."""
        return next((told for told in self.everyone.allgather(error) if told), "")


def launched() -> World | None:
    """The processes that this one was started with, if there are several. Raises ``DeviceError``."""
    if not any(name in os.environ for name in LAUNCHERS) or _is_alone():
        return None
    if importlib.util.find_spec("mpi4py") is None:
        raise DeviceError("this process was started by MPI, and mpi4py is not installed: pip install mpi4py")
    try:
        mpi = importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise DeviceError(f"mpi4py cannot be used: {error}") from None
    everyone = mpi.COMM_WORLD
    if everyone.Get_size() < 2:
        return None
    near = everyone.Split_type(mpi.COMM_TYPE_SHARED)
    computer = mpi.Get_processor_name()
    computers = len(set(everyone.allgather(computer)))
    return World(everyone, mpi.COMM_SELF, near.Get_rank(), computer, computers, sends_gpu_memory())
