"""The warnings that Linkwise issues. Its errors are defined in the core: ``Error`` and its subclasses."""

from __future__ import annotations

import sys
import warnings


class NominalMachineWarning(UserWarning):
    """This machine was never probed: plans are based on the nominal rates of its links, not on measured ones."""


class FallbackWarning(UserWarning):
    """Something was done in another way than requested, or in a slower way than possible."""


def warn_caller(message: str, category: type[Warning]) -> None:
    """Issue a warning attributed to the line outside of Linkwise that made the call."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        "linkwise",
        "contextlib",
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
