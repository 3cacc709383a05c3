"""Programs in C++ that use the library as its users' do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from conftest import ROOT


def build_and_run(source: Path, binary: Path, *, options: Sequence[str] = (), tree: str = "*") -> str:
    """Links a program with the library that was built, runs it, and returns what it prints."""
    libraries = sorted(ROOT.glob(f"build/{tree}/liblinkwise.a"), key=lambda path: path.stat().st_mtime)
    assert libraries, "build the package first: make install"
    runtime = next(
        (
            path
            for root in sys.path
            for path in Path(root).glob("nvidia/cu13/lib")
            if list(path.glob("libcudart_static.a"))
        ),
        Path("/usr/local/cuda/lib64"),
    )
    built = subprocess.run(
        ["g++", "-std=c++20", "-O1", *options, f"-I{ROOT / 'src'}", str(source), str(libraries[-1]),
         f"-L{runtime}", "-lcudart_static", "-fopenmp", "-ldl", "-lrt", "-lpthread", "-o", str(binary)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    kept = os.environ | {"XDG_CACHE_HOME": str(binary.parent / "cache")}
    done = subprocess.run([str(binary)], capture_output=True, text=True, check=False, env=kept)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
