"""Checks formatting, types and the house rules. `--fix` lets the formatters rewrite."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FIX = "--fix" in sys.argv
CPP = sorted(
    str(p)
    for folder in ("src", "apps", "examples", "python/binding", "tests/programs")
    for p in Path(folder).rglob("*")
    if p.suffix in {".cpp", ".hpp", ".cu", ".cuh"}
)
ROOMS = ["error", "team", "machine", "device", "primitives", "transfer", "sort", "join", "plan", "probe"]


def run(*command: str) -> bool:
    print("$", " ".join(command[:6]), "…" if len(command) > 6 else "", flush=True)
    return subprocess.run(command, check=False).returncode == 0


def house_rules() -> bool:
    """Rules that no tool knows: where CUDA may be named, and that rooms include only downwards."""
    problems = []
    for name in CPP:
        path = Path(name)
        text = path.read_text(encoding="utf-8")
        if not {"cuda", "apps"} & set(path.parts) and re.search(r"#include [<\"](cuda|cub/|thrust/)", text):
            problems.append(f"{name}: CUDA headers belong into cuda/ folders")
        if path.parts[:2] != ("src", "linkwise") or len(path.parts) < 4:
            continue
        room = ROOMS.index(path.parts[2])
        for included in re.findall(r'#include "linkwise/(\w+)', text):
            # The virtual and CUDA runtimes own their kernels, whose contract lies one room up.
            owns_kernels = path.parts[2] == "device" and included == "primitives"
            if ROOMS.index(included) > room and not owns_kernels:
                problems.append(f"{name}: {path.parts[2]}/ must not include {included}/")
        if len(text.splitlines()) > 450:
            problems.append(f"{name}: {len(text.splitlines())} lines; is it still one subject?")
    for problem in problems:
        print(problem)
    return not problems


def clang_tidy() -> bool:
    databases = sorted(Path("build").glob("*/compile_commands.json"), key=lambda p: p.stat().st_mtime)
    if not databases:
        print("clang-tidy needs a build first: make build")
        return False
    sources = [name for name in CPP if name.endswith(".cpp") and not name.startswith("tests")]
    # clang reads what is compiled by GCC, and has no omp.h of its own: it gets GCC's, but for an attribute of GCC's.
    includes = Path("build/lint-include").absolute()
    includes.mkdir(exist_ok=True)
    omp = subprocess.run(["gcc", "-print-file-name=include/omp.h"], capture_output=True, text=True, check=True)
    text = Path(omp.stdout.strip()).read_text(encoding="utf-8")
    (includes / "omp.h").write_text(re.sub(r"__malloc__ \(\w+\)", "__malloc__", text), encoding="utf-8")
    command = ["clang-tidy", "--quiet", f"--extra-arg=-isystem{includes}", "-p", str(databases[-1].parent)]
    return run(*command, *sources)


def main() -> None:
    checks = [
        run("clang-format", *(["-i"] if FIX else ["--dry-run", "--Werror"]), *CPP),
        run("ruff", "format", *([] if FIX else ["--check"]), "."),
        run("ruff", "check", *(["--fix"] if FIX else []), "."),
        house_rules(),
    ]
    if not FIX:
        checks += [run(sys.executable, "-m", "mypy", "--strict", "-p", "linkwise"), clang_tidy()]
    sys.exit(0 if all(checks) else 1)


if __name__ == "__main__":
    main()
