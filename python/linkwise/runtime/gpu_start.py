"""Whether work is worth starting the GPUs for.

The first call of a process that uses GPUs waits most of a second for the driver, contexts and kernels. Work that the
CPU finishes sooner runs on the CPU. Over many such calls the CPU loses more than one start, so GPUs are started once
the CPU's total time would exceed that of a start: no process waits more than twice the optimum (ski rental).
"""

from __future__ import annotations

import os
import threading

from linkwise.machines.local import local_machine
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.session import gpus_have_started

_START_SECONDS = 0.7  # the driver 0.44, contexts, peer access and kernels of two GPUs 0.25 to 0.34 (H100, measured)
_CORE_BYTES, _HOST_BYTES = 0.45e9, 3e9  # sorted in a second by one core, and by all (measured on 2 and 32)
_JOIN = 4  # a join takes this many times as long as sorting both sides' key bytes

_lock = threading.Lock()
_taken_by_cores = 0.0


def is_left_to_cores(execution: ExecutionOptions, sorted_bytes: int) -> bool:
    """Whether the options leave open where to sort this many bytes, and the CPU is done before GPUs have started."""
    global _taken_by_cores  # noqa: PLW0603 - per process, as the start is
    if not execution.says_nothing or gpus_have_started():
        return False
    seconds = _seconds_of_cores(sorted_bytes)
    with _lock:
        if _taken_by_cores + seconds > _START_SECONDS:
            return False
        _taken_by_cores += seconds
    return True


def cores_finish_first(execution: ExecutionOptions, sorted_bytes: int) -> bool:
    """The same for a caller that would leave it to others, which ask again."""
    is_open = execution.says_nothing and not gpus_have_started()
    return is_open and _taken_by_cores + _seconds_of_cores(sorted_bytes) <= _START_SECONDS


def gpus_may_sort(execution: ExecutionOptions, sorted_bytes: int) -> bool:
    """Whether sorting this many bytes is not left to the cores. Loads the driver if only that can tell."""
    return not cores_finish_first(execution, sorted_bytes) and not execution.on_cores


def _seconds_of_cores(sorted_bytes: int) -> float:
    return sorted_bytes / min(_CORE_BYTES * len(os.sched_getaffinity(0)), _HOST_BYTES)


def start_beside(execution: ExecutionOptions, sorted_bytes: int) -> None:
    """Load the driver, which takes most of a start, on a separate thread if GPUs will sort data still to be read.

    Contexts and kernels are loaded later, for the GPUs of the plan, which is made once all data has been read.
    """
    of_this_machine = execution.machine in ("auto", "local") and execution.strategy != "cpu"
    if not of_this_machine or gpus_have_started():
        return
    if cores_finish_first(execution, sorted_bytes):
        return
    threading.Thread(target=local_machine, name="linkwise GPU start", daemon=True).start()


def cores_join_first(execution: ExecutionOptions, key_bytes: int) -> bool:
    """``cores_finish_first`` for a join of two sides whose keys take this many bytes."""
    return cores_finish_first(execution, _JOIN * key_bytes)


def join_is_left_to_cores(execution: ExecutionOptions, key_bytes: int) -> bool:
    """The same for a join of two sides whose keys take this many bytes."""
    return is_left_to_cores(execution, _JOIN * key_bytes)
