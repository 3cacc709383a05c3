"""The figures that README and docs state, as tables made from raw results.

    python benchmarks/figures.py            # renders them in place
    python benchmarks/figures.py --check    # says which page states something else

A page has `<!-- figures: NAME -->` and `<!-- end of figures -->`; what stands between them is rendered. NAME is a table
of `docs/figures.toml`, whose cells name raw results and fields: a row and a column together say `files` (names under
benchmarks/results), `where` (which of the file's results) and `field` (keys, down to numbers in seconds). A cell shows
the least and the greatest of all repetitions of all its files.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
SPECIFICATION = ROOT / "docs" / "figures.toml"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"(<!-- figures: (?P<name>[\w-]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_SCALES = {"ms": 1e3, "s": 1.0}
_DASH = "\N{EN DASH}"


class FigureError(Exception):
    """A cell that names nothing, or too much."""


@cache
def _raw(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _matches(result: dict[str, Any], where: dict[str, Any]) -> bool:
    return all(result.get(key) == wanted for key, wanted in where.items())


def numbers_of(name: str, where: dict[str, Any], field: list[str], section: str = "results") -> list[float]:
    """What a file says there: one result, and in it a number or several."""
    found = [result for result in _raw(name)[section] if _matches(result, where)]
    if len(found) != 1:
        raise FigureError(f"{name}: {len(found)} results where {where}, and one is wanted")
    value: Any = found[0]
    for key in field:
        if key not in value:
            raise FigureError(f"{name}: no {key!r} where {where}; there are {', '.join(map(repr, value))}")
        value = value[key]
    return [float(number) for number in (value if isinstance(value, list) else [value])]


def _three_digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def shown(numbers: list[float], unit: str) -> str:
    """The least and the greatest, in a unit."""
    least, greatest = (_three_digits(_SCALES[unit] * end(numbers)) for end in (min, max))
    return least if least == greatest else f"{least}{_DASH}{greatest}"


def _cell(row: dict[str, Any], column: dict[str, Any], unit: str) -> str:
    both = {**column, **row, "where": {**column.get("where", {}), **row.get("where", {})}}
    if row.get("without", []).count(column["label"]):
        return ""
    if missing := {"files", "field"} - both.keys():
        raise FigureError(f"{row['label']}, {column['label']}: nothing says {' and '.join(sorted(missing))}")
    section = both.get("section", "results")
    numbers = [number for name in both["files"] for number in numbers_of(name, both["where"], both["field"], section)]
    return shown(numbers, unit)


def table(specification: dict[str, Any], page: Path) -> str:
    """A table of the specification as Markdown, and where its figures come from."""
    rows, columns, unit = specification["rows"], specification["columns"], specification["unit"]
    head = [specification.get("about", ""), *(f"{column['label']}, {unit}" for column in columns)]
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * len(columns)}"]
    lines += [f"| {row['label']} | {' | '.join(_cell(row, column, unit) for column in columns)} |" for row in rows]
    names = dict.fromkeys(name for part in (*rows, *columns) for name in part.get("files", ()))
    links = (f"[{name}]({os.path.relpath(RESULTS / f'{name}.json', page.parent)})" for name in names)
    return "\n".join([*lines, "", f"Raw results: {', '.join(links)}.", ""])


def rendered(text: str, page: Path, specifications: dict[str, Any]) -> str:
    """A page with its tables made anew."""

    def block(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in specifications:
            raise FigureError(f"{page.name}: docs/figures.toml has no table {name!r}")
        return f"{found[1]}\n{table(specifications[name], page)}\n{found[3]}"

    return _BLOCK.sub(block, text)


def main() -> int:
    """Renders, or checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    specifications = tomllib.loads(SPECIFICATION.read_text(encoding="utf-8"))
    stale = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        try:
            new = rendered(text, page, specifications)
        except FigureError as error:
            print(f"figures: {error}", file=sys.stderr)
            return 1
        if new == text:
            continue
        stale.append(page)
        if not options.check:
            page.write_text(new, encoding="utf-8")
    for page in stale:
        print(
            f"{page.relative_to(ROOT)}: {'states other figures than the raw results' if options.check else 'written'}"
        )
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
