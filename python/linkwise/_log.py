"""The logger that all of Linkwise tells: ``logging.getLogger("linkwise")``, quiet until a program or ``-v`` listens.

``INFO``: which machine, which plan, what was spilled, and what each call did; ``DEBUG``: every step as it ends.
"""

from __future__ import annotations

import logging
import sys

log = logging.getLogger("linkwise")
log.addHandler(logging.NullHandler())


def is_heard() -> bool:
    """Whether anybody listens to ``INFO``. If not, small arrays are not kept waiting for what would be told of them."""
    return log.isEnabledFor(logging.INFO)


def tell_on_stderr(level: int) -> None:
    """What ``-v`` asks for: a line for each record on standard error. Asked twice, it is told once."""
    log.setLevel(min(level, log.level or level))
    if any(type(each) is logging.StreamHandler for each in log.handlers):
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("linkwise: %(relativeCreated)6d ms: %(message)s"))
    log.addHandler(handler)
