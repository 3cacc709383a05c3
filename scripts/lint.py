"""Checks formatting, types, rooms and the house rules. `--fix`: formatters rewrite; `--quick`: without clang-tidy."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import build_seconds
import house_rules

FIX, QUICK = "--fix" in sys.argv, "--quick" in sys.argv
CPP = sorted(
    str(p)
    for folder in ("src", "apps", "examples", "python/binding", "tests/programs")
    for p in Path(folder).rglob("*")
    if p.suffix in {".cpp", ".hpp", ".cu", ".cuh"}
)


def run(*command: str) -> bool:
    print("$", " ".join(command[:6]), "…" if len(command) > 6 else "", flush=True)
    return subprocess.run(command, check=False).returncode == 0


def house_rules_are_kept() -> bool:
    problems = [*house_rules.broken_in_cpp(CPP), *house_rules.broken_in_python()]
    logs = sorted(Path("build").glob("cp*/.ninja_log"), key=lambda log: log.stat().st_mtime)
    problems += build_seconds.too_slow(logs[-1]) if logs else []
    for problem in problems:
        print(problem)
    return not problems


def clang_tidy() -> bool:
    databases = sorted(Path("build").glob("cp*/compile_commands.json"), key=lambda p: p.stat().st_mtime)
    if not databases:
        print("clang-tidy needs a build first: make build")
        return False
    sources = [name for name in CPP if name.endswith(".cpp") and not name.startswith("tests")]
    # clang-tidy has no omp.h of its own: give it GCC's, without an attribute argument that only GCC knows.
    includes = Path("build/lint-include").absolute()
    includes.mkdir(exist_ok=True)
    omp = subprocess.run(["gcc", "-print-file-name=include/omp.h"], capture_output=True, text=True, check=True)
    text = Path(omp.stdout.strip()).read_text(encoding="utf-8")
    (includes / "omp.h").write_text(re.sub(r"__malloc__ \(\w+\)", "__malloc__", text), encoding="utf-8")
    # Nor can it read GCC's precompiled headers. Files of a unity build get the compile command of a unity file.
    text = re.sub(r" -Winvalid-pch| -include [^ ]*cmake_pch\.hxx", "", databases[-1].read_text(encoding="utf-8"))
    commands = json.loads(text)
    together = next(each for each in commands if re.search(r"linkwise\.dir/Unity/.*_cxx\.cxx$", each["file"]))
    for file in {str(Path(name).absolute()) for name in sources} - {each["file"] for each in commands}:
        commands.append({**together, "file": file, "command": together["command"].replace(together["file"], file)})
    (includes / "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")
    return run("clang-tidy", "--quiet", f"--extra-arg=-isystem{includes}", "-p", str(includes), *sources)


def main() -> None:
    checks = [
        run("clang-format", *(["-i"] if FIX else ["--dry-run", "--Werror"]), *CPP),
        run("ruff", "format", *([] if FIX else ["--check"]), "."),
        run("ruff", "check", *(["--fix"] if FIX else []), "."),
        house_rules_are_kept(),
        run(sys.executable, "benchmarks/figures.py", *([] if FIX else ["--check"])),
    ]
    if not FIX:
        checks += [run("lint-imports"), run(sys.executable, "-m", "mypy", "--strict", "-p", "linkwise")]
        checks += [] if QUICK else [clang_tidy()]
    sys.exit(0 if all(checks) else 1)


if __name__ == "__main__":
    main()
