"""Figures of README and docs are those of the raw results, and stand in tables."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import figures

    return figures


CELL = {"files": ["2026-11-27-h200x1-9a4e3cf-local"], "where": {"case": "uint32 uniform"}}


def test_a_cell_is_the_range_of_all_repetitions(figures: Any) -> None:
    numbers = figures.numbers_of(*CELL["files"], CELL["where"], ["seconds", "cupy"])
    assert len(numbers) == 9
    row = {"label": "u32", **CELL, "field": ["seconds", "cupy"]}
    specification = {"about": "keys", "unit": "ms", "columns": [{"label": "CuPy"}], "rows": [row]}
    text = "<!-- figures: it -->\nstale\n<!-- end of figures -->"
    page = figures.rendered(text, Path(ROOT / "README.md"), {"it": specification})
    assert f"| u32 | {1e3 * min(numbers):.1f}\N{EN DASH}{1e3 * max(numbers):.1f} |" in page and "stale" not in page
    with pytest.raises(figures.FigureError, match="no table 'it'"):
        figures.rendered(text, Path(ROOT / "README.md"), {})
    with pytest.raises(figures.FigureError, match="9 results where {}, and one is wanted"):
        figures.numbers_of(*CELL["files"], {}, ["seconds", "cupy"])


@pytest.mark.parametrize(
    ("text", "free"),
    [
        ("It takes 3.5 ms.", ["3.5 ms"]),
        ("Links carry 369 GB/s, 1.9 × as much.", ["369 GB/s", "1.9 ×"]),
        ("2·10⁹ keys of 64 bits, on 4 GPUs in 2 rounds.", []),
        ("`-S 64MiB` and\n```sh\nsleep 3 s\n```\n", []),
        ("<!-- figures: a -->\n| 3 ms |\n<!-- end of figures -->", []),
        ("An agent waits 10 s.", []),
    ],
)
def test_figures_outside_of_tables_are_found(figures: Any, text: str, free: list[str]) -> None:
    assert figures.free_figures(text, ["agent waits"]) == free


def test_every_page_states_what_the_raw_results_say(figures: Any) -> None:
    specifications = tomllib.loads(figures.SPECIFICATION.read_text(encoding="utf-8"))
    used = ""
    for page in figures.PAGES:
        text = page.read_text(encoding="utf-8")
        assert figures.rendered(text, page, specifications) == text, page.name
        used += text
    for name in specifications.keys() - {"given"}:
        assert f"<!-- figures: {name} -->" in used, name
