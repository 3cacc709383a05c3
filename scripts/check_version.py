"""Ends with an error unless a tag, the package and the header say the same version, and the changelog names it.

Usage: check_version.py v0.1.0
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def disagreements(tag: str) -> list[str]:
    """A line for each place that says something else."""
    wanted = tag.removeprefix("v")
    header = (ROOT / "src" / "linkwise" / "version.hpp").read_text(encoding="utf-8")
    cmake = re.search(r"project\(linkwise VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
    said = {
        "pyproject.toml": tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"],
        "src/linkwise/version.hpp": ".".join(re.findall(r"#define LINKWISE_VERSION_[A-Z]+ (\d+)", header)),
        "CMakeLists.txt": cmake.group(1) if cmake else "nothing",
    }
    found = [f"{file} says {version}, and the tag {wanted}" for file, version in said.items() if version != wanted]
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if not any(re.fullmatch(rf"{re.escape(wanted)} \(\d{{4}}-\d\d-\d\d\)", heading) for heading in headings):
        found.append(f"CHANGELOG.md has no heading '## {wanted} (YYYY-MM-DD)'")
    return found


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = disagreements(sys.argv[1])
    print(*found, sep="\n", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
