"""Processes started together by MPI, for tests."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_BESIDE_PYTHON = Path(sys.executable).parent / "mpiexec"
_LAUNCHER = str(_BESIDE_PYTHON) if _BESIDE_PYTHON.exists() else shutil.which("mpiexec")

needs_mpi = pytest.mark.skipif(
    _LAUNCHER is None or importlib.util.find_spec("mpi4py") is None, reason="there is no MPI"
)


def launch(script: str, processes: int, *arguments: str) -> str:
    """What the processes of a script beside this file print; it must not fail."""
    assert _LAUNCHER is not None
    is_open_mpi = (
        "Open MPI" in subprocess.run([_LAUNCHER, "--version"], capture_output=True, text=True, check=False).stdout
    )
    flags = ["--allow-run-as-root", "--oversubscribe"] if is_open_mpi else []
    done = subprocess.run(
        [_LAUNCHER, *flags, "-n", str(processes), sys.executable, str(Path(__file__).parent / script), *arguments],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
