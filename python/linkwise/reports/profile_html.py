"""A profile as one HTML file that needs nothing else: drawing, findings, heat maps, curves, predictions, every number.

Every figure is drawn from the profile, and the profile itself lies in the page (``#profile``).
"""

from __future__ import annotations

import io
import json
import math
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
:root{--ink:#222;--paper:#fff;--line:#ddd;--measured:#3c7fb1;--predicted:#f0a33f;--low:#b00020}
@media(prefers-color-scheme:dark){:root{--ink:#ddd;--paper:#17191c;--line:#3a3d42;--low:#ff6b81}}
body{font:15px/1.45 system-ui,sans-serif;max-width:1180px;margin:2em auto;padding:0 1em;color:var(--ink);
background:var(--paper)}
h1{font-size:1.6em}h2{font-size:1.2em;margin-top:2em;border-bottom:1px solid var(--line)}h3{font-size:1em}
table{border-collapse:collapse;font-size:13px}
td,th{padding:2px 10px;text-align:right;border-bottom:1px solid var(--line)}
td.t,th.t{text-align:left}.low{color:var(--low);font-weight:bold}
svg{max-width:100%;height:auto;background:#fff;border-radius:6px}
details{margin:.5em 0}summary{cursor:pointer}.grid{display:flex;flex-wrap:wrap;gap:1em}
.bars{display:grid;grid-template-columns:max-content 1fr max-content;gap:2px 10px;font-size:12px;align-items:center}
.bars i{display:block;height:6px;border-radius:3px;background:var(--measured)}.bars i+i{background:var(--predicted)}
.key{font-size:12px}.key b{color:var(--measured)}.key b+b{color:var(--predicted)}
"""
_FEW = 12  # bars that are shown at once
_MOST_NAMED = 24  # curves of a drawing that a legend names


def _figure(title: str, draw: Any, width: float, height: float) -> str:
    """A matplotlib drawing as an SVG element; titles must differ, as they make each drawing's ids unique."""
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
        handles, labels = axes.get_legend_handles_labels()
        if handles:  # beside the axes, where it covers nothing
            figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=6, frameon=False)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def _heat_map(title: str, values: dict[tuple[int, int], float], gpus: int) -> str:
    def draw(axes: Axes) -> None:
        grid = [[values.get((row, column), float("nan")) for column in range(gpus)] for row in range(gpus)]
        axes.imshow(grid, cmap="viridis", vmin=0)
        middle = max(values.values()) / 2
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
            label = what if len(lines) <= _MOST_NAMED else None
            axes.plot(*zip(*sorted(points), strict=True), marker=".", label=label, linewidth=1)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("bytes of each transfer")
        axes.set_ylabel("GB/s")
        axes.grid(alpha=0.3)

    return _figure(title, draw, 6, 4) if lines else ""


def _bar(row: dict[str, Any], most: float) -> str:
    seen, predicted = row["gb_per_s"], row["predicted_gb_per_s"]
    told = f"{seen:.4g}, predicted {predicted:.4g} GB/s"
    widths = "".join(f'<i style="width:{100 * rate / most:.1f}%"></i>' for rate in (seen, predicted))
    return f'<span>{escape(row["what"])}</span><span title="{told}">{widths}</span><span>{told}</span>'


def _bars(title: str, rows: list[dict[str, Any]]) -> str:
    """Each set's rate beside the predicted one; the worst predictions come first, the others are folded."""
    if not rows:
        return ""
    most = max(max(row["gb_per_s"], row["predicted_gb_per_s"]) for row in rows)
    by_error = sorted(rows, key=lambda row: -abs(row["predicted_gb_per_s"] / row["gb_per_s"] - 1))
    shown = "".join(_bar(row, most) for row in by_error[:_FEW])
    others = "".join(_bar(row, most) for row in rows)
    folded = f'<details><summary>all {len(rows)}</summary><div class="bars">{others}</div></details>'
    about = f", the {_FEW} farthest off" if len(rows) > _FEW else ""
    return (
        f'<section><h3>{escape(title)}{about}</h3><div class="bars">{shown}</div>'
        f"{folded if len(rows) > _FEW else ''}</section>"
    )


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


def fit_told(profile: Profile) -> list[str]:
    """How well the fitted machine predicts what was measured, in sentences: none if nothing was fitted."""
    others, fitted = profile.errors(fitted=False), profile.errors(fitted=True)
    told = []
    if others:
        told.append(
            f"{len(others)} sets of GPUs that the machine was not fitted to are predicted with a median error of "
            f"{profile.median_error():.1%}, {max(others):.1%} at worst."
        )
    if fitted:
        told.append(f"{len(fitted)} measurements that it was fitted to: {max(fitted):.1%} at worst.")
    return told


def _summary(profile: Profile) -> str:
    parts = fit_told(profile)
    if profile.simulated:
        parts.append("Nothing was measured: this is what a probe of the described machine would find.")
    parts += [f"{key.replace('_', ' ').capitalize()}: {value}." for key, value in profile.host.items()]
    return "".join(f"<p>{escape(part)}</p>" for part in parts)


def _section(title: str, name: str, content: str, *, of: str = "div", kind: str = "") -> str:
    """A part of the page, unless it is empty."""
    return f'<h2>{title}</h2><{of} id="{name}"{kind}>{content}</{of}>' if content else ""


def _beside(profile: Profile, other: Profile) -> str:
    """Rates that both profiles have, those that differ most first."""
    theirs = {(row["name"], row["what"], row.get("bytes")): row for row in other.measurements}
    both = [
        (row, theirs[key]) for row in profile.measurements
        if (key := (row["name"], row["what"], row.get("bytes"))) in theirs
        and row.get("gb_per_s") and theirs[key].get("gb_per_s")
    ]  # fmt: skip
    if not both:
        return f"<p>{escape(other.machine.name)} has no measurement in common with this one.</p>"
    both.sort(key=lambda pair: -abs(math.log(pair[0]["gb_per_s"] / pair[1]["gb_per_s"])))
    lines = "".join(
        f'<tr><td class="t">{escape(row["name"])}</td><td class="t">{escape(row["what"])}</td>'
        f"<td>{row.get('bytes', '')}</td><td>{row['gb_per_s']:.4g}</td><td>{their['gb_per_s']:.4g}</td>"
        f"<td>{row['gb_per_s'] / their['gb_per_s']:.2f}</td></tr>"
        for row, their in both
    )
    return (
        f"<p>The other profile: {escape(other.machine.name)}, {'simulated' if other.simulated else 'measured'}; "
        f"{escape(other.machine.source)}. {len(both)} rates that both have; those that differ most come first.</p>"
        '<table><tr><th class="t">measurement</th><th class="t">of</th><th>bytes</th><th>this one, GB/s</th>'
        "<th>the other, GB/s</th><th>ratio</th></tr>"
        f"{lines}</table>"
    )


def html_report(profile: Profile, beside: Profile | None = None) -> str:
    """The whole page, compared with another profile where one is given. Raises ``UsageError`` without matplotlib."""
    machine = profile.machine
    seen = "simulated" if profile.simulated else "measured"
    names = list(dict.fromkeys(row["name"] for row in profile.measurements))
    findings = "".join(
        f"<li{' class=low' if 'LOW' in finding else ''}>{escape(finding)}</li>" for finding in profile.findings
    )
    curves = "".join(_curves(name, profile.rows(name)) for name in names if name.endswith("by size"))
    collectives = _curves("collectives", profile.rows("collectives"))
    bars = "".join(
        _bars(name, [row for row in profile.rows(name) if row.get("predicted_gb_per_s") and row.get("gb_per_s")])
        for name in CHECKED
    )
    key = f'<p class="key"><b>■</b> {seen} <b>■</b> predicted</p>' if bars else ""
    tables = "".join(
        f"<details><summary>{escape(name)}</summary>"
        f"{_table([row for row in profile.measurements if row['name'] == name])}</details>"
        for name in names
    )
    # "</" would end the element early; JSON may write it as "<\\/".
    data = json.dumps(profile.as_dict()).replace("</", "<\\/")
    title = escape(f"{machine.name}{', simulated' * profile.simulated}: {machine.description}")
    sections = (
        _section("Findings", "findings", findings, of="ul"),
        _section("The machine", "machine", machine_svg(machine)),
        _section("GPU to GPU", "maps", _heat_maps(profile), kind=' class="grid"'),
        _section("Over the size", "curves", curves + collectives, kind=' class="grid"'),
        _section(f"{seen.capitalize()} and predicted", "bars", key + bars),
        _section("Beside another profile", "beside", _beside(profile, beside) if beside is not None else ""),
        _section("Every number", "tables", tables),
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>{_STYLE}</style></head><body>
<h1>{title}</h1>{_summary(profile)}
{"".join(sections)}
<script type="application/json" id="profile">{data}</script>
</body></html>
"""


def write_report(profile: Profile, path: Path, beside: Profile | None = None) -> None:
    """Write the page. Raises ``UsageError`` or, where it cannot be written, ``Error``."""
    make_directories(path)
    write_bytes(path, html_report(profile, beside).encode())
