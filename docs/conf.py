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
copyright = "the authors of Linkwise"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"Linkwise {release}"
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_extra_path = [str(GENERATED / "extra")]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4
suppress_warnings = ["duplicate_declaration.cpp"]  # namespaces, of which each header has a part
nb_execution_mode = "cache"
nb_execution_cache_path = str(GENERATED / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 300

napoleon_google_docstring = False
autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

HAS_DOXYGEN = shutil.which("doxygen") is not None
REFERENCE_HEADERS = (
    "sort/host_sort.hpp", "sort/device_sort.hpp", "plan/sort_planner.hpp", "join/host_join.hpp", "join/device_join.hpp",
    "join/device_join_input.hpp", "plan/join_planner.hpp", "device/runtime.hpp", "error.hpp",
    "transfer/proactive/open.hpp", "transfer/proactive/region.hpp", "transfer/proactive/producer.hpp",
    "transfer/proactive/tuned_plans.hpp", "version.hpp",
)  # fmt: skip
if HAS_DOXYGEN:
    extensions.append("breathe")
    breathe_default_project = "linkwise"
    breathe_projects = {"linkwise": str(GENERATED / "doxygen" / "xml")}


def _command_line() -> None:
    """The reference of the command line, by typer."""
    program = GENERATED / "command_line.py"
    program.write_text("from linkwise.cli.main import commands_for\n\napp = commands_for([])\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "typer", program, "utils", "docs", "--name", "linkwise"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (GENERATED / "command-line.md").write_text(done.stdout.partition("\n")[2], encoding="utf-8")


def _pictures() -> None:
    """Drawings of machines."""
    pictures = GENERATED / "extra" / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    for name in ("ibm-ac922", "dgx-a100", "h200x8"):
        (pictures / f"{name}.svg").write_text(machine_svg(linkwise.load_machine(name)), encoding="utf-8")


def _cpp() -> None:
    """The reference of the C++ headers, from their comments, by doxygen and breathe."""
    page = GENERATED / "cpp.md"
    if not HAS_DOXYGEN:
        page.write_text("Built without doxygen: the headers' comments are the reference.\n", encoding="utf-8")
        return
    (GENERATED / "doxygen").mkdir(exist_ok=True)
    settings = {
        "INPUT": " ".join(str(ROOT / "src" / "linkwise" / name) for name in REFERENCE_HEADERS),
        "OUTPUT_DIRECTORY": GENERATED / "doxygen", "GENERATE_XML": "YES", "GENERATE_HTML": "NO",
        "GENERATE_LATEX": "NO", "QUIET": "YES", "WARNINGS": "NO",
        "INPUT_FILTER": '"sed -E \'s/@throws (.*)/@note Throws \\1/\'"',  # breathe takes one name of an exception
    }  # fmt: skip
    text = "\n".join(f"{key} = {value}" for key, value in settings.items())
    subprocess.run(["doxygen", "-"], input=text, text=True, check=True, stderr=subprocess.DEVNULL)
    parts = (f"### `linkwise/{name}`\n\n```{{doxygenfile}} {Path(name).name}\n```\n" for name in REFERENCE_HEADERS)
    page.write_text("\n".join(parts), encoding="utf-8")


def _links_inside(_app: object, _page: str, source: list[str]) -> None:
    """Raw results come along; what else lies outside of docs/ is named and not linked."""
    text = re.sub(r"\]\(\.\./benchmarks/results/([^)]+)\)", r"](results/\1){.external}", source[0])
    source[0] = re.sub(r"\[([^\]]+)\]\(\.\./[^)]+\)", r"`\1`", text)


def setup(app: object) -> None:
    """Sphinx calls it."""
    GENERATED.mkdir(parents=True, exist_ok=True)
    _command_line()
    _pictures()
    _cpp()
    shutil.copytree(ROOT / "benchmarks" / "results", GENERATED / "extra" / "results", dirs_exist_ok=True)
    app.connect("source-read", _links_inside)  # type: ignore[attr-defined]
