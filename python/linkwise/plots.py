"""Pictures of what sorts did, as in the papers' figures. Needs matplotlib (``pip install linkwise[plots]``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from linkwise._core import UsageError


def phase_picture(rows: Mapping[str, Mapping[str, float]], path: Path, *, title: str = "") -> None:
    """Draw one bar for each row, stacked from the seconds of its phases (sort22 figs 12-14), as .svg, .png or .pdf.

    Raises ``UsageError`` where matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise UsageError("pictures need matplotlib; pip install matplotlib") from None
    phases = list(dict.fromkeys(phase for row in rows.values() for phase in row))
    figure = Figure(figsize=(10, 0.8 + 0.28 * len(rows)), layout="constrained")
    axes = figure.subplots()
    names = list(rows)
    left = [0.0] * len(names)
    for phase in phases:
        widths = [rows[name].get(phase, 0.0) * 1e3 for name in names]
        axes.barh(names, widths, left=left, label=phase, height=0.7)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds")
    axes.set_title(title, loc="left", fontsize="medium")
    axes.legend(loc="best", fontsize="small", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
