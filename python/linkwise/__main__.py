"""``python -m linkwise``, and the command ``linkwise``."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _end(*_: object) -> NoReturn:
    """Exit at once: while modules are still being imported, there is nothing to clean up."""
    os.write(2, b"linkwise: interrupted; nothing was written\n")
    os._exit(130)


def main() -> None:
    """Run the command line."""
    gc.disable()  # until all is imported, nothing can be freed
    # Have Arrow's allocator keep freed memory for a while: otherwise it is mapped and zeroed again for the next rows.
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "1000")
    if sys.argv[1:2] in (["sort"], ["join"]):  # they need no linear algebra, for which NumPy would start threads
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    wanted = [each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]  # as nohup has it
    for each in wanted:
        signal.signal(each, _end)
    from linkwise._core import huge_pages_pay  # noqa: PLC0415

    if not huge_pages_pay():
        os.environ.setdefault("MIMALLOC_ALLOW_THP", "0")
    from linkwise.cli.main import main as run  # noqa: PLC0415

    if signal.SIGINT in wanted:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
