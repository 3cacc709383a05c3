"""The logger of all of Linkwise, ``logging.getLogger("linkwise")``: silent until a program or ``-v`` enables it.

``INFO``: which machine, which plan, what was spilled, and what each call did; ``DEBUG``: every step as it ends.
"""

from __future__ import annotations

import logging
import sys

log = logging.getLogger("linkwise")
log.addHandler(logging.NullHandler())


def is_heard() -> bool:
    """Whether ``INFO`` is enabled. If not, callers skip composing messages, which would delay small arrays."""
    return log.isEnabledFor(logging.INFO)


def tell_on_stderr(level: int) -> None:
    """Log to standard error, one line for each record, as ``-v`` asks. Repeated calls add only one handler."""
    log.setLevel(min(level, log.level or level))
    if any(type(each) is logging.StreamHandler for each in log.handlers):
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("linkwise: %(relativeCreated)6d ms: %(message)s"))
    log.addHandler(handler)
