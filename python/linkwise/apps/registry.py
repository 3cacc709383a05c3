"""The applications of proact21 (§IV-C) on proactive regions, by name; and the Jacobi solver."""

from __future__ import annotations

from pathlib import Path

from linkwise._core import UsageError
from linkwise.apps.als import Factorisation
from linkwise.apps.base import Application
from linkwise.apps.graph import OnGraph, PageRank, ShortestPaths
from linkwise.apps.jacobi import Jacobi
from linkwise.apps.xray_ct import Tomography

APPLICATIONS: dict[str, type[Application]] = {
    each.name: each for each in (Jacobi, PageRank, ShortestPaths, Factorisation, Tomography)
}


def check_scale(scale: float) -> None:
    """Raise ``UsageError`` for a scale outside of the allowed range."""
    if not 0 < scale <= 64:
        raise UsageError(f"the scale is {scale:g}; it is more than 0, and 64 at most")


def application(name: str, scale: float, matrix: Path | None = None) -> Application:
    """The named application with its data.

    Raises
    ------
    UsageError
        If there is none of that name, or it takes no matrix.

    """
    if name not in APPLICATIONS:
        raise UsageError(f"there is no app '{name}'; there are {', '.join(APPLICATIONS)}")
    check_scale(scale)
    kind = APPLICATIONS[name]
    if matrix is not None and not issubclass(kind, OnGraph):
        raise UsageError(f"{name} takes no matrix; it makes its own data")
    return kind(scale, matrix)
