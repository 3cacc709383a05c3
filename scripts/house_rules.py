"""House rules that no tool checks: where CUDA may be named, what rooms may include and import, and their size.

That rooms of Python import only downwards is a contract of import-linter (``pyproject.toml``).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOMS = ["error", "team", "machine", "device", "primitives", "transfer", "sort", "join", "plan", "probe"]
"""The rooms of C++, lowest layer first."""

PYTHON = Path("python/linkwise")
_FACES = (PYTHON, PYTHON / "cluster", PYTHON / "polars")
"""The packages that users import from."""
_OF_PLANS = re.compile(
    r"_core\.(SortPlan|JoinPlan|SortConstraints|JoinConstraints|SortWorkload|JoinWorkload|plan_sort|plan_join"
    r"|estimate_sort|estimate_join|estimate_device_sort|records_that_fit)\b"
)
_MAKE_PLANS = {"runtime", "planning", "sorting", "joining"}
_MOST_LINES = 450
_MOST_MODULES = 15


def broken_in_cpp(files: Sequence[str]) -> Iterator[str]:
    """What breaks a rule, each in one line."""
    for name in files:
        path = Path(name)
        text = path.read_text(encoding="utf-8")
        if not {"cuda", "apps"} & set(path.parts) and re.search(r"#include [<\"](cuda|cub/|thrust/)", text):
            yield f"{name}: CUDA headers belong into cuda/ folders"
        if path.parts[:2] != ("src", "linkwise") or len(path.parts) < 4:
            continue
        room = path.parts[2]
        for included in re.findall(r'#include "linkwise/(\w+)', text):
            if ROOMS.index(included) > ROOMS.index(room):
                yield f"{name}: {room}/ must not include {included}/"
        if len(text.splitlines()) > _MOST_LINES:
            yield f"{name}: {len(text.splitlines())} lines; is it still one subject?"


def broken_in_python() -> Iterator[str]:
    """The same of the Python package."""
    for package in sorted(path.parent for path in PYTHON.rglob("__init__.py")):
        modules = [path for path in package.glob("*.py") if path.name != "__init__.py"]
        if len(modules) > _MOST_MODULES:
            yield f"{package}: {len(modules)} modules; is it still one room?"
        face = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
        if package not in _FACES and (len(face.body) != 1 or ast.get_docstring(face) is None):
            yield f"{package}/__init__.py: a room's holds one docstring, and imports nothing"
        for path in modules:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                imports_face = isinstance(node, ast.Import) and any(name.name == "linkwise" for name in node.names)
                takes_from_face = isinstance(node, ast.ImportFrom) and node.module == "linkwise"
                if imports_face or (takes_from_face and any(name.name != "_core" for name in node.names)):
                    yield f"{path}:{node.lineno}: inside, names come from the module that has them, not from the face"
    for path in [*PYTHON.rglob("*.py"), *Path("benchmarks").glob("*.py")]:
        if _MAKE_PLANS & set(path.parts):
            continue
        for found in _OF_PLANS.findall(path.read_text(encoding="utf-8")):
            yield f"{path}: _core.{found} stays inside; take SortPlan, JoinPlan, plan_sort and plan_join"
