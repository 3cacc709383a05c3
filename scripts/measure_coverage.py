"""Branch coverage of ``src/`` and ``python/`` by the tests, which ``docs/reliability.md`` publishes.

    python scripts/measure_coverage.py --output coverage.json      # builds with counters, and runs the tests
    python scripts/measure_coverage.py --only tests/test_sort.py   # some of them
    python scripts/measure_coverage.py --render coverage.json      # writes the page's table from such a result

Needs coverage, gcovr and pytest-xdist. C++ is counted by gcov, without the exception branches of calls.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from page_block import with_block

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "build" / "coverage"
TREE, SITE = HERE / "tree", HERE / "site"
PAGE = ROOT / "docs" / "reliability.md"


def build() -> None:
    """Build and install beside the other build, with counters."""
    command = [
        sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--upgrade",
        "--target", str(SITE), f"--config-settings=build-dir={TREE}",
        "--config-settings=cmake.define.LINKWISE_COVERAGE=ON", str(ROOT),
    ]  # fmt: skip
    subprocess.run(command, check=True)


def run(only: list[str], workers: int, seconds: int) -> None:
    """Run the tests; their counters accumulate."""
    settings = HERE / "coveragerc"
    settings.write_text(
        f"[run]\nbranch = True\nparallel = True\nsource = {SITE / 'linkwise'}\ndata_file = {HERE / 'python'}\n"
        "concurrency = thread, multiprocessing\nsigterm = True\n"
    )
    for old in HERE.glob("python.*"):
        old.unlink()
    environment = os.environ | {"PYTHONPATH": str(SITE), "COVERAGE_PROCESS_START": str(settings)}
    (SITE / "coverage_start.pth").write_text("import coverage; coverage.process_startup()\n")
    command = [
        sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest", "-q", "-p", "no:cacheprovider",
        "-n", str(workers), *(only or ["tests"]),
    ]  # fmt: skip
    try:
        subprocess.run(command, check=False, env=environment, cwd=ROOT, timeout=seconds)
    except subprocess.TimeoutExpired:
        print(f"stopped after {seconds} s; what ran until then counts", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "coverage", "combine", "-q", f"--rcfile={settings}"], check=True)
    subprocess.run(
        [sys.executable, "-m", "coverage", "json", "-q", f"--rcfile={settings}", "-o", str(HERE / "python.json")],
        check=True,
    )
    subprocess.run(
        [
            sys.executable, "-m", "gcovr", "--root", str(ROOT), str(TREE), "--filter", "src/linkwise/", "--filter",
            "apps/", "--exclude-throw-branches", "--exclude-unreachable-branches", "--json-summary",
            str(HERE / "cpp.json"), "--gcov-ignore-parse-errors",
        ],
        check=True, cwd=ROOT,
    )  # fmt: skip


def rooms() -> dict[str, dict[str, dict[str, int]]]:
    """Lines and branches of each room, and of each file."""
    found: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
    for name, told in json.loads((HERE / "python.json").read_text())["files"].items():
        inside = str(Path(name).resolve()).partition("site/linkwise/")[2]
        if not inside:
            continue
        summary = told["summary"]
        room = "python/" + (inside.rpartition("/")[0] or "linkwise")
        found[room][inside] = {
            "lines": summary["num_statements"], "covered_lines": summary["covered_lines"],
            "branches": summary["num_branches"], "covered_branches": summary["covered_branches"],
        }  # fmt: skip
    for told in json.loads((HERE / "cpp.json").read_text())["files"]:
        room = "/".join(told["filename"].split("/")[:3]) if told["filename"].startswith("src/") else "apps"
        found[room][told["filename"]] = {
            "lines": told["line_total"], "covered_lines": told["line_covered"],
            "branches": told["branch_total"], "covered_branches": told["branch_covered"],
        }  # fmt: skip
    return found


def total(files: dict[str, dict[str, int]]) -> dict[str, int]:
    """Sums over a room's files."""
    kinds = ("lines", "covered_lines", "branches", "covered_branches")
    return {kind: sum(of_file[kind] for of_file in files.values()) for kind in kinds}


def shown(counts: dict[str, int]) -> str:
    """Counts as cells of the table."""

    def share(kind: str) -> str:
        return f"{100 * counts[f'covered_{kind}'] / max(counts[kind], 1):.0f} %"

    return f"{counts['lines']:,} | {share('lines')} | {counts['branches']:,} | {share('branches')}"


def table(found: dict[str, dict[str, dict[str, int]]]) -> str:
    """Rows for all rooms, and for each language in total. Files beside rooms count to the room above."""
    by_room: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
    for room, files in found.items():
        by_room[room.rpartition("/")[0] if Path(room).suffix else room] |= files
    lines = [
        "| room | lines | covered | branches | covered |",
        "|---|---:|---:|---:|---:|",
        *(f"| `{room}` | {shown(total(files))} |" for room, files in sorted(by_room.items())),
    ]
    for language in ("python", "src"):
        every = {name: of for room, files in found.items() if room.startswith(language) for name, of in files.items()}
        lines.append(f"| {language} together | {shown(total(every))} |")
    return "\n".join(lines) + "\n"


def render(result: Path) -> None:
    """The page's table from a result."""
    text = table(json.loads(result.read_text(encoding="utf-8")))
    PAGE.write_text(with_block(PAGE.read_text(encoding="utf-8"), Path(__file__).name, text), encoding="utf-8")


def main() -> int:
    """Build, run, and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="tests, instead of all")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=int, default=7200, help="after which the tests are stopped")
    parser.add_argument("--built", action="store_true", help="it is built already")
    parser.add_argument("--output", type=Path, help="where the counts go, as JSON")
    parser.add_argument("--render", type=Path, help="only write the page's table, from this result")
    options = parser.parse_args()
    if options.render is not None:
        render(options.render)
        return 0
    if not options.built:
        build()
    run(options.only, options.workers, options.seconds)
    found: Any = rooms()
    print(table(found))
    if options.output is not None:
        options.output.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
