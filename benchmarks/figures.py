"""The figures that README and docs state, as tables made from raw results.

    python benchmarks/figures.py            # renders them in place
    python benchmarks/figures.py --check    # says which page states something else, or a figure outside of a table

A page has `<!-- figures: NAME -->` and `<!-- end of figures -->`; what stands between them is rendered. NAME is a table
of `docs/figures.toml`, whose cells name raw results and fields: a row and a column together say `files` (names under
benchmarks/results), `where` (which of the file's results) and `field` (keys, down to numbers in seconds). A column may
have further files, `also`. A cell shows the least and the greatest of all repetitions of all its files. `section` is
where a file's results are, if not under "results"; where several match, `of = "all"` shows the range of all, and
`of = "best"` the greatest of what was tried.
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

from render import RESULTS

ROOT = Path(__file__).parent.parent
SPECIFICATION = ROOT / "docs" / "figures.toml"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_RENDERED = {"measurements.md", "papers.md"}  # rendered from results by other scripts
_FIGURE = re.compile(r"(?<![\w.,·⁰-⁹-])\d[\d.,]*\s?(?:ms|µs|ns|s|seconds|minutes|[KMGT]B/s|Gb/s|×|times|%)(?!\w)")
_NOT_PROSE = re.compile(
    r"^```.*?^```|<!-- figures:.*?<!-- end of figures -->|<!-- written by .*?<!-- up to here -->"
    r"|<[a-z][^>]*>|`[^`\n]*`",
    re.MULTILINE | re.DOTALL,
)
_BLOCK = re.compile(r"(<!-- figures: (?P<name>[\w-]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_SCALES = {"ms": 1e3, "s": 1.0, "×": 1.0, "%": 100.0}
_DASH = "\N{EN DASH}"


class FigureError(Exception):
    """A cell that matches no result, or too many."""


@cache
def _raw(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _matches(result: dict[str, Any], where: dict[str, Any]) -> bool:
    return all(result.get(key) == wanted for key, wanted in where.items())


def _at(value: Any, keys: list[str], what: str) -> Any:
    for key in keys:
        if key not in value:
            raise FigureError(f"{what}: no {key!r}; there are {', '.join(map(repr, value))}")
        value = value[key]
    return value


def numbers_of(
    name: str, where: dict[str, Any], field: list[str], section: str = "results", of: str = "one"
) -> list[float]:
    """The numbers of a field in a file's results: of the one that matches, of the best, or of all."""
    found = [result for result in _at(_raw(name), section.split("."), name) if _matches(result, where)]
    values = [_at(result, field, f"{name} where {where}") for result in found]
    if not values or (of == "one" and len(values) > 1):
        raise FigureError(f"{name}: {len(values)} results where {where}, and one is wanted")
    if of == "best":
        return [max(values)]
    return [float(number) for value in values for number in (value if isinstance(value, list) else [value])]


def _three_digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def shown(numbers: list[float], unit: str) -> str:
    """The least and the greatest, in a unit."""
    least, greatest = (_three_digits(_SCALES[unit] * end(numbers)) for end in (min, max))
    return least if least == greatest else f"{least}{_DASH}{greatest}"


def _cell(row: dict[str, Any], column: dict[str, Any], unit: str) -> str:
    both = {**column, **row, "where": {**column.get("where", {}), **row.get("where", {})}}
    if missing := {"files", "field"} - both.keys():
        raise FigureError(f"{row['label']}, {column['label']}: nothing says {' and '.join(sorted(missing))}")
    how = both["where"], both["field"], both.get("section", "results"), both.get("of", "one")
    files = [*both["files"], *both.get("also", ())]
    return shown([number for name in files for number in numbers_of(name, *how)], unit)


def table(specification: dict[str, Any], page: Path) -> str:
    """A table of the specification as Markdown, and where its figures come from."""
    rows, columns, unit = specification["rows"], specification["columns"], specification["unit"]
    head = [f"{specification['about']} ({unit})", *(column["label"] for column in columns)]
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * len(columns)}"]
    lines += [f"| {row['label']} | {' | '.join(_cell(row, column, unit) for column in columns)} |" for row in rows]
    names = dict.fromkeys(name for key in ("files", "also") for part in (*rows, *columns) for name in part.get(key, ()))
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


def free_figures(text: str, given: list[str]) -> list[str]:
    """Times, rates, ratios, percentages outside of a page's tables, except where one of these phrases stands."""
    paragraphs = _NOT_PROSE.sub("", text).split("\n\n")
    units = [unit for each in paragraphs for unit in (each.split("\n") if each.startswith("|") else [each])]
    return [found for unit in units if not any(phrase in unit for phrase in given) for found in _FIGURE.findall(unit)]


def main() -> int:
    """Renders, or checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    specifications = tomllib.loads(SPECIFICATION.read_text(encoding="utf-8"))
    given = specifications.pop("given")
    stale, free = [], []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if page.name not in _RENDERED:
            free += [f"{page.name}: {figure!r}" for figure in free_figures(text, given.get(page.stem, []))]
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
    for figure in free if options.check else []:
        print(f"{figure} stands outside of a table; docs/figures.toml has tables, and phrases that are `given`")
    return 1 if (stale or free) and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
