"""Pictures of what sorts did, as in the papers' figures. Needs matplotlib (``pip install linkwise[plots]``)."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from linkwise._core import UsageError
from linkwise.runtime.atomic_file import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = tuple[Sequence[float], Sequence[float]]
"""Its xs and ys."""

_PICTURES = (".svg", ".png", ".pdf")


def check_picture(path: Path) -> None:
    """Raise ``UsageError`` for a file that no picture can go to, before the work is done."""
    if path.suffix.lower() not in _PICTURES:
        raise UsageError(f"{path}: a picture's name ends in {', '.join(_PICTURES[:-1])} or {_PICTURES[-1]}")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no directory {path.parent}")


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise UsageError("pictures need matplotlib; pip install matplotlib") from None
    return Figure(figsize=(width, height), layout="constrained")


def _write_repeatably(figure: Figure, path: Path) -> None:
    """Save with text kept as text, and byte-identical for the same drawing."""
    from matplotlib import rc_context  # noqa: PLC0415

    drawn = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "linkwise"}):
        told = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(drawn, format=path.suffix[1:].lower(), metadata=told)
    write_bytes(path, drawn.getvalue())


def phase_picture(rows: Mapping[str, Mapping[str, float]], path: Path, *, title: str = "") -> None:
    """Draw one bar for each row, stacked from the seconds of its phases (sort22 figs 12-14), as .svg, .png or .pdf.

    Raises ``UsageError`` where matplotlib is missing.
    """
    phases = list(dict.fromkeys(phase for row in rows.values() for phase in row))
    figure = _figure(10, 0.8 + max(0.28 * len(rows), 0.21 * len(phases)))
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
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix[1:].lower())
    write_bytes(path, drawn.getvalue())


def curves_picture(panels: Mapping[str, Mapping[str, Curve]], path: Path, *, title: str, x: str, y: str) -> None:
    """Draw curves, (xs, ys) by their names, in panels beside each other, both axes logarithmic, as .svg, .png or .pdf.

    Raises ``UsageError`` where matplotlib is missing.
    """
    figure = _figure(3.6 * len(panels) + 1.6, 2.9)
    every = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, (name, curves) in zip(every, panels.items(), strict=True):
        for at, (label, (xs, ys)) in enumerate(curves.items()):
            axes.plot(xs, ys, marker="o", markersize=3, linewidth=1.2, linestyle=("-", "--")[at % 2], label=label)
        ticks = sorted({each for xs, _ in curves.values() for each in xs})
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_title(name, fontsize="medium")
        axes.set_xlabel(x)
        axes.grid(visible=True, linewidth=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    every[0].set_ylabel(y)
    every[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small", frameon=False)
    figure.suptitle(title, fontsize="medium")
    _write_repeatably(figure, path)


def save_picture(values: npt.NDArray[np.float32], path: Path) -> None:
    """Write an image of values, [height][width], in shades of grey, as .png.

    Raises ``UsageError`` where matplotlib is missing, and ``Error`` where the file cannot be written.
    """
    try:
        from matplotlib import image  # noqa: PLC0415
    except ImportError:
        raise UsageError("pictures need matplotlib; pip install matplotlib") from None
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no directory {path.parent}")
    drawn = io.BytesIO()
    image.imsave(drawn, values, cmap="gray", vmin=0, vmax=1, format="png")
    write_bytes(path, drawn.getvalue())


def comparison_picture(rows: Sequence[tuple[str, str, float, float | None]], path: Path, *, title: str) -> None:
    """Draw our figures as bars and a paper's as diamonds: (what, unit, ours, theirs or None), a panel for each unit.

    Raises ``UsageError`` where matplotlib is missing.
    """
    panels = {unit: [row for row in rows if row[1] == unit] for unit in dict.fromkeys(row[1] for row in rows)}
    heights = [len(panel) for panel in panels.values()]
    figure = _figure(9, 1.2 + 0.24 * sum(heights) + 0.5 * len(panels))
    every = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (unit, panel) in zip(every, panels.items(), strict=True):
        places = list(range(len(panel)))
        axes.barh(places, [row[2] for row in panel], height=0.7, color="#7aa6c2", label="Linkwise")
        stated = [(row[3], place) for place, row in zip(places, panel, strict=True) if row[3] is not None]
        if stated:
            axes.plot(*zip(*stated, strict=True), "D", color="black", markersize=4, label="the paper")
        axes.set_yticks(places, [row[0] for row in panel], fontsize="x-small")
        axes.invert_yaxis()
        axes.margins(y=0.6 / len(panel))
        axes.set_xlabel(unit, fontsize="small")
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = max((axes.get_legend_handles_labels() for axes in every), key=lambda pair: len(pair[0]))
    figure.legend(handles, labels, loc="outside upper right", ncols=2, fontsize="small", frameon=False)
    figure.suptitle(title, fontsize="medium", x=0.01, ha="left")
    _write_repeatably(figure, path)
