"""A profile as one HTML file that needs nothing else: drawing, findings, heat maps, curves, predictions, every number.

Every figure is drawn from the profile, and the profile itself lies in the page (``#profile``).
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkwise._core import UsageError
from linkwise.machines.profile import CHECKED, Profile
from linkwise.reports.machine_svg import machine_svg
from linkwise.runtime.atomic_file import make_directories, write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;max-width:1180px;margin:2em auto;padding:0 1em;color:#222}
h1{font-size:1.6em}h2{font-size:1.2em;margin-top:2em;border-bottom:1px solid #ddd}
table{border-collapse:collapse;font-size:13px}td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #eee}
td.t,th.t{text-align:left}.low{color:#b00020;font-weight:bold}svg{max-width:100%;height:auto}
details{margin:.5em 0}summary{cursor:pointer}.grid{display:flex;flex-wrap:wrap;gap:1em}
"""


def _figure(title: str, draw: Any, width: float, height: float) -> str:
    """What matplotlib draws, as an SVG element; titles differ, so that names within one drawing are no other's."""
    try:
        from matplotlib import rc_context  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise UsageError("a report needs matplotlib; pip install matplotlib") from None
    with rc_context({"svg.hashsalt": title, "svg.fonttype": "none"}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title, fontsize="medium")
        draw(axes)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def _heat_map(title: str, values: dict[tuple[int, int], float], gpus: int) -> str:
    def draw(axes: Axes) -> None:
        grid = [[values.get((row, column), float("nan")) for column in range(gpus)] for row in range(gpus)]
        axes.imshow(grid, cmap="viridis")
        middle = (min(values.values()) + max(values.values())) / 2
        for (row, column), value in values.items():
            colour = "black" if value > middle else "white"
            axes.text(column, row, f"{value:.3g}", ha="center", va="center", color=colour, fontsize=7)
        axes.set_xticks(range(gpus))
        axes.set_yticks(range(gpus))
        axes.set_xlabel("to GPU")
        axes.set_ylabel("from GPU")

    return _figure(title, draw, 1.4 + 0.42 * gpus, 1.2 + 0.4 * gpus)


def _curves(title: str, rows: Iterable[dict[str, Any]]) -> str:
    """GB/s over bytes, a line for each `what`."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        if row.get("bytes") and row.get("gb_per_s"):
            lines.setdefault(row["what"], []).append((row["bytes"], row["gb_per_s"]))

    def draw(axes: Axes) -> None:
        for what, points in lines.items():
            axes.plot(*zip(*sorted(points), strict=True), marker=".", label=what, linewidth=1)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("bytes of each transfer")
        axes.set_ylabel("GB/s")
        axes.grid(alpha=0.3)
        if len(lines) <= 16:
            axes.legend(fontsize=6, frameon=False, ncols=2)

    return _figure(title, draw, 6, 4) if lines else ""


def _bars(title: str, rows: list[dict[str, Any]]) -> str:
    """Measured and predicted side by side, set by set."""
    if not rows:
        return ""

    def draw(axes: Axes) -> None:
        places = range(len(rows))
        measured = [row["gb_per_s"] for row in rows]
        axes.barh([y - 0.2 for y in places], measured, height=0.38, label="measured", color="#3c7fb1")
        axes.barh(
            [y + 0.2 for y in places],
            [row["predicted_gb_per_s"] for row in rows],
            height=0.38,
            label="predicted",
            color="#f0a33f",
        )
        axes.set_yticks(list(places), [row["what"] for row in rows], fontsize=5)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel("GB/s of all together")
        axes.legend(fontsize="small", frameon=False)

    return _figure(title, draw, 5.6, 0.9 + 0.16 * len(rows))


def _pairs(profile: Profile, name: str, pattern: str, field: str = "gb_per_s") -> dict[tuple[int, int], float]:
    found = {}
    for row in profile.rows(name):
        match = re.fullmatch(pattern, row["what"])
        if match:
            found[int(match[1]), int(match[2])] = row[field]
    return found


def _heat_maps(profile: Profile) -> str:
    gpus = profile.machine.num_gpus
    both = _pairs(profile, "device to device, both ways", r"(\d+)↔(\d+)")
    maps = [
        ("one way, GB/s", _pairs(profile, "device to device", r"(\d+)→(\d+)")),
        ("both ways, GB/s", both | {(b, a): value for (a, b), value in both.items()}),
        (
            "4 bytes, µs",
            {pair: 1e6 * s for pair, s in _pairs(profile, "peer latency", r"(\d+)→(\d+)", "seconds").items()},
        ),
    ]
    return "".join(_heat_map(title, values, gpus) for title, values in maps if values)


def _table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        if "cannot" in row:
            what, why = escape(row["what"]), escape(row["cannot"])
            lines.append(f'<tr><td class="t">{what}</td><td class="t" colspan="5">{why}</td></tr>')
            continue
        rate = f"{row['gb_per_s']:.4g}" if "gb_per_s" in row else ""
        predicted = f"{row['predicted_gb_per_s']:.4g}" if row.get("predicted_gb_per_s") else ""
        lines.append(
            f'<tr><td class="t">{escape(row["what"])}</td><td>{row.get("bytes", "")}</td><td>{rate}</td>'
            f"<td>{predicted}</td><td>{1e6 * row['seconds']:.4g}</td><td>{row['spread']:.1%}</td>"
            f"<td>{row['repetitions']}</td><td>{'yes' if row['verified'] else ''}</td></tr>"
        )
    return (
        '<table><tr><th class="t">of</th><th>bytes</th><th>GB/s</th><th>predicted</th><th>µs</th><th>spread</th>'
        f"<th>repetitions</th><th>verified</th></tr>{''.join(lines)}</table>"
    )


def _summary(profile: Profile) -> str:
    errors = profile.errors(fitted=False)
    parts = []
    if errors:
        parts.append(
            f"{len(errors)} sets of GPUs that the machine was not fitted to are predicted with a median error of "
            f"{profile.median_error():.1%}, {max(errors):.1%} at worst."
        )
    if profile.simulated:
        parts.append("Nothing was measured: this is what a probe of the described machine would find.")
    parts += [f"{key.replace('_', ' ').capitalize()}: {value}." for key, value in profile.host.items()]
    return "".join(f"<p>{escape(part)}</p>" for part in parts)


def html_report(profile: Profile) -> str:
    """The whole page. Raises ``UsageError`` where matplotlib is missing."""
    machine = profile.machine
    names = list(dict.fromkeys(row["name"] for row in profile.measurements))
    findings = "".join(
        f"<li{' class=low' if 'LOW' in finding else ''}>{escape(finding)}</li>" for finding in profile.findings
    )
    curves = "".join(_curves(name, profile.rows(name)) for name in names if name.endswith("by size"))
    collectives = _curves("collectives", profile.rows("collectives"))
    bars = "".join(
        _bars(name, [row for row in profile.rows(name) if row.get("predicted_gb_per_s")]) for name in CHECKED
    )
    tables = "".join(
        f"<details><summary>{escape(name)}</summary>"
        f"{_table([row for row in profile.measurements if row['name'] == name])}</details>"
        for name in names
    )
    # "</" would end the element early; JSON may write it as "<\\/".
    data = json.dumps(profile.as_dict()).replace("</", "<\\/")
    title = escape(f"{machine.name}: {machine.description}")
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head><body>
<h1>{title}</h1>{_summary(profile)}
<h2>Findings</h2><ul id="findings">{findings}</ul>
<h2>The machine</h2><div id="machine">{machine_svg(machine)}</div>
<h2>GPU to GPU</h2><div class="grid" id="maps">{_heat_maps(profile)}</div>
<h2>Over the size</h2><div class="grid" id="curves">{curves}{collectives}</div>
<h2>Measured and predicted</h2><div class="grid" id="bars">{bars}</div>
<h2>Every measurement</h2><div id="tables">{tables}</div>
<script type="application/json" id="profile">{data}</script>
</body></html>
"""


def write_report(profile: Profile, path: Path) -> None:
    """Write the page. Raises ``UsageError`` or, where it cannot be written, ``Error``."""
    make_directories(path)
    write_bytes(path, html_report(profile).encode())
