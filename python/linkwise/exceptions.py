"""The warnings that Linkwise gives. Its errors are the core's: ``Error`` and what is derived from it."""

from __future__ import annotations

import sys
import warnings


class NominalMachineWarning(UserWarning):
    """This machine was never probed: plans are made from what its links could carry, not from what they do."""


class FallbackWarning(UserWarning):
    """Something was done in another way than was asked for, or in a slower one than could be."""


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn as if the line had that called Linkwise from outside."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        "linkwise",
        "contextlib",
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
