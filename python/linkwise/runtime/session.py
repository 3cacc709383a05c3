"""Where work runs: the GPUs of this machine, or a virtual machine on its CPU.

A runtime is lent to one call at a time. That of the real GPUs is kept for the life of the process, so that memory stays
allocated and kernels loaded between calls; a virtual one costs nothing and is made anew.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from typing import TypeVar

from linkwise import _core
from linkwise._log import log
from linkwise.exceptions import NominalMachineWarning, warn_caller
from linkwise.machines.catalog import load_machine
from linkwise.machines.local import is_nominal, local_machine
from linkwise.runtime.execution import MachineLike

Result = TypeVar("Result")
ADVICE_TO_PROBE = "this machine was never measured: run 'linkwise probe' once, some seconds, for better plans"
_lock = threading.Lock()
_local_runtime: _core.Runtime | None = None
_local_runtime_in_use = threading.Lock()
_SEED_DIGITS = 18


def _runtime_of_this_machine() -> _core.Runtime | None:
    global _local_runtime  # noqa: PLW0603 - the one runtime of the process's GPUs
    with _lock:
        if _local_runtime is None and not _core.cuda_unavailable_reason():
            machine = local_machine()
            if machine is not None:
                if is_nominal():
                    warn_caller(ADVICE_TO_PROBE, NominalMachineWarning)
                log.info("this machine: %s, %s", machine, "never measured" if is_nominal() else "as it was measured")
                _local_runtime = _core.cuda_runtime(machine)
        return _local_runtime


def gpus_have_started() -> bool:
    """Whether this process uses the GPUs of this machine already."""
    return _local_runtime is not None


def _virtual_runtime(machine: _core.Machine) -> _core.Runtime:
    text = os.environ.get("LINKWISE_SEED", "0")
    if not text.isdecimal() or len(text) > _SEED_DIGITS:
        raise _core.UsageError(f"LINKWISE_SEED is '{text}'; it is a number of up to {_SEED_DIGITS} digits")
    seed = int(text)
    return _core.VirtualRuntime(machine, _core.VirtualMode.execute, seed)


def no_gpu(purpose: str) -> _core.DeviceError:
    """The error that this machine has no GPU; ``purpose`` completes "no GPU to …"."""
    reason = _core.cuda_unavailable_reason()
    return _core.DeviceError(f"there is no GPU to {purpose}: {reason}; name a machine to simulate, as 'h200x8'")


@contextmanager
def open_session(machine: MachineLike) -> Iterator[_core.Runtime]:
    """Lend the runtime of a machine.

    ``"auto"`` and ``"local"`` are this machine's GPUs. A name, a ``.json`` file or a ``Machine`` is simulated. Raises
    ``DeviceError`` where there are no GPUs.
    """
    if machine in ("auto", "local"):
        runtime = _runtime_of_this_machine()
        if runtime is not None:
            with _local_runtime_in_use:
                yield runtime
            return
        raise no_gpu("use")
    yield _virtual_runtime(machine if isinstance(machine, _core.Machine) else load_machine(machine))


def estimating_runtime(machine: _core.Machine) -> _core.VirtualRuntime:
    """A runtime that prices operations on a simulated clock, without data."""
    return _core.VirtualRuntime(machine, _core.VirtualMode.estimate, 0)


def memory_held(machine: MachineLike, gpu: int) -> int:
    """Bytes that the runtime of a machine holds on a GPU, in use or kept for the next call."""
    with open_session(machine) as runtime:
        return int(runtime.reserved(_core.Place.gpu(gpu)))


def give_memory_back(machine: MachineLike) -> None:
    """Free the memory that the runtime of a machine keeps for the next call."""
    with open_session(machine) as runtime:
        runtime.trim()


def run_interruptibly(
    runtime: _core.Runtime,
    work: Callable[[], Result],
    on_progress: Callable[[_core.Progress], None] | None = None,
) -> Result:
    """Run ``work`` on a thread of its own while this one listens for Ctrl-C and reports progress.

    An interrupt stops the work at its next operation, waits until it has released all memory, and is re-raised.
    """
    stop = _core.StopSource()
    runtime.set_stop_source(stop)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="linkwise") as pool:
        future: Future[Result] = pool.submit(work)
        try:
            while True:
                try:
                    return future.result(timeout=0.05)
                except FutureTimeoutError:
                    if future.done():
                        raise
                    if on_progress is not None:
                        on_progress(runtime.progress())
        except BaseException:
            stop.request_stop()
            future.exception()
            raise
        finally:
            runtime.set_stop_source(_core.StopSource())
