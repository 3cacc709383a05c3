"""``python -m linkwise``, and the command ``linkwise``."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _end(*_: object) -> NoReturn:
    """End at once: while modules are imported, there is nothing to be cleared away yet."""
    os.write(2, b"linkwise: interrupted; nothing was written\n")
    os._exit(130)


def main() -> None:
    """Run the command line."""
    # Memory that Arrow's allocator gives back at once would be taken again, and each page cleared, for the next rows.
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "1000")
    if sys.argv[1:2] in (["sort"], ["join"]):  # which solve no equations, for which NumPy would start threads
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for each in _SIGNALS:
        signal.signal(each, _end)
    from linkwise._core import huge_pages_pay  # noqa: PLC0415

    if not huge_pages_pay():
        os.environ.setdefault("MIMALLOC_ALLOW_THP", "0")
    from linkwise.cli.main import main as run  # noqa: PLC0415

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
