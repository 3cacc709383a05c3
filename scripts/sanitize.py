"""Linkwise under AddressSanitizer and UndefinedBehaviorSanitizer: its C++ programs, its fuzzers' seeds and its swarm.

    python scripts/sanitize.py                   # what CI runs
    python scripts/sanitize.py --scenarios 2000

Everything but the kernels is built again into ``build/sanitized``. A finding of a sanitizer ends the process it is in
with a report, and so this script.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE, SITE = "build/sanitized/tree", "build/sanitized/site"
FLAGS = ["-fsanitize=address,undefined", "-fno-sanitize=vptr", "-fno-sanitize-recover=all"]
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:alloc_dealloc_mismatch=0",  # Python does not free everything at exit
    "UBSAN_OPTIONS": "print_stacktrace=1",
}

sys.path.insert(0, str(ROOT / "tests"))


def build() -> None:
    """Build and install beside the other build."""
    command = [
        sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--upgrade",
        "--target", str(ROOT / SITE), f"--config-settings=build-dir={ROOT / TREE}",
        "--config-settings=cmake.define.LINKWISE_SANITIZE=ON",
        # Without precompiled headers, each file has to include what it uses.
        "--config-settings=cmake.define.CMAKE_DISABLE_PRECOMPILE_HEADERS=ON", str(ROOT),
    ]  # fmt: skip
    subprocess.run(command, check=True)


def sanitized() -> dict[str, str]:
    """An environment in which Python has the sanitizers, and the package that was built with them."""
    libraries = [
        subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so", "libstdc++.so")
    ]
    return os.environ | OPTIONS | {"LD_PRELOAD": " ".join(libraries), "PYTHONPATH": str(ROOT / SITE)}


def programs() -> None:
    """Build and run what is in C++: programs, and fuzzers with inputs of their own."""
    from cpp_programs import build_and_run  # noqa: PLC0415

    sources = [*(ROOT / "tests" / "programs").glob("*.cpp"), *(ROOT / "tests" / "fuzzers").glob("*.cpp")]
    os.environ.update(OPTIONS)
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted(sources):
            told = build_and_run(source, Path(folder) / source.stem, options=FLAGS, tree="sanitized/tree")
            print(f"{source.relative_to(ROOT)}: {told.strip()}", flush=True)


def swarm(scenarios: int) -> None:
    """Run scenarios of the swarm, always the same."""
    command = [sys.executable, str(ROOT / "scripts" / "swarm.py"), "--count", str(scenarios), "--seed", "0"]
    subprocess.run(command, env=sanitized(), check=True)


def main() -> int:
    """Build, and run all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=int, default=500, help="of the swarm")
    options = parser.parse_args()
    build()
    programs()
    swarm(options.scenarios)
    return 0


if __name__ == "__main__":
    sys.exit(main())
