"""The logger that all of Linkwise tells: ``logging.getLogger("linkwise")``, quiet until a program or ``-v`` listens.

``INFO``: which machine, which plan, what was spilled, and what each call did; ``DEBUG``: every step as it ends.
"""

from __future__ import annotations

import logging
import sys

log = logging.getLogger("linkwise")
log.addHandler(logging.NullHandler())


def tell_on_stderr(level: int) -> None:
    """What ``-v`` asks for: a line for each record on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("linkwise: %(relativeCreated)6d ms: %(message)s"))
    log.addHandler(handler)
    log.setLevel(level)
