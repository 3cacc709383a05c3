"""The site: `make docs` builds it into build/site."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import linkwise
from linkwise.reports.machine_svg import machine_svg

ROOT = Path(__file__).parent.parent
GENERATED = ROOT / "build" / "docs"

project = "Linkwise"
release = metadata.version("linkwise")
copyright = "the authors of Linkwise"  # noqa: A001
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.intersphinx"]
html_theme = "furo"
html_title = f"Linkwise {release}"
html_static_path: list[str] = []
html_extra_path = [str(GENERATED / "extra")]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4
suppress_warnings = ["mystnb.unknown_mime_type"]
nb_execution_mode = "cache"
nb_execution_cache_path = str(GENERATED / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 300

autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

if shutil.which("doxygen"):
    extensions.append("breathe")
    breathe_default_project = "linkwise"
    breathe_projects = {"linkwise": str(GENERATED / "doxygen" / "xml")}
    tags.add("doxygen")  # type: ignore[name-defined]  # noqa: F821


def _command_line() -> None:
    """The reference of the command line, by typer."""
    done = subprocess.run(
        [sys.executable, "-m", "typer", "linkwise.cli.app", "utils", "docs", "--name", "linkwise"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (GENERATED / "cli.md").write_text(done.stdout, encoding="utf-8")


def _pictures() -> None:
    """Drawings of machines, and the probe's page of one."""
    pictures = GENERATED / "extra" / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    for name in ("ibm-ac922", "dgx-a100", "h200x8"):
        (pictures / f"{name}.svg").write_text(machine_svg(linkwise.load_machine(name)), encoding="utf-8")


def _doxygen() -> None:
    """Comments of the C++ headers as XML, which breathe reads."""
    (GENERATED / "doxygen").mkdir(parents=True, exist_ok=True)
    settings = {
        "INPUT": " ".join(str(ROOT / "src" / "linkwise" / name) for name in ("sort.hpp", "join.hpp", "probe.hpp")),
        "OUTPUT_DIRECTORY": GENERATED / "doxygen", "GENERATE_XML": "YES", "GENERATE_HTML": "NO",
        "GENERATE_LATEX": "NO", "QUIET": "YES", "WARNINGS": "NO",
    }  # fmt: skip
    text = "\n".join(f"{key} = {value}" for key, value in settings.items())
    subprocess.run(["doxygen", "-"], input=text, text=True, check=True)


def _links_inside(_app: object, _page: str, source: list[str]) -> None:
    """Raw results come along; what else lies outside of docs/ is named and not linked."""
    text = re.sub(r"\]\(\.\./benchmarks/results/([^)]+)\)", r"](results/\1){.external}", source[0])
    source[0] = re.sub(r"\[([^\]]+)\]\(\.\./[^)]+\)", r"`\1`", text)


def setup(app: object) -> None:
    """Sphinx calls it."""
    GENERATED.mkdir(parents=True, exist_ok=True)
    _command_line()
    _pictures()
    if shutil.which("doxygen"):
        _doxygen()
    shutil.copytree(ROOT / "benchmarks" / "results", GENERATED / "extra" / "results", dirs_exist_ok=True)
    app.connect("source-read", _links_inside)  # type: ignore[attr-defined]
