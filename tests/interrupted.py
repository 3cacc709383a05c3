"""Makes Ctrl-C come in the middle of a sort, every time: the sort's own thread sends it, then begins its work."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from linkwise.sorting import host_sort

_run_interruptibly = host_sort.run_interruptibly


def interrupt_the_next_sort() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs start with it ignored

    def interrupting(runtime: Any, work: Any, on_progress: Any = None) -> Any:
        host_sort.run_interruptibly = _run_interruptibly

        def interrupted_work() -> Any:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)  # until the main thread has asked the work to stop
            return work()

        return _run_interruptibly(runtime, interrupted_work, on_progress)

    host_sort.run_interruptibly = interrupting
