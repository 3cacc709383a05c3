"""The C++ library as an engine's authors take it: installed, found by CMake, and built against."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=300,
        env=os.environ | {"PATH": path},
    )  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `cmake --install` put it; nothing of it refers to where it was built, but the CUDA runtime library."""
    builds = sorted(ROOT.glob("build/cp*/liblinkwise.a"), key=lambda path: path.stat().st_mtime)
    assert builds, "build the package first: make build"
    prefix = tmp_path_factory.mktemp("prefix")
    done = run("cmake", "--install", builds[-1].parent, "--component", "cpp", "--prefix", prefix)
    assert done.returncode == 0, done.stderr
    return prefix


def configured(source: Path, build: Path, prefix: Path) -> subprocess.CompletedProcess[str]:
    return run("cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")


def test_what_is_installed(installed: Path) -> None:
    names = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    assert {"lib/liblinkwise.a", "lib/cmake/linkwise/linkwiseConfig.cmake", "include/linkwise/sort.hpp"} <= names
    assert all(name.startswith(("include/linkwise/", "lib/")) for name in names)
    assert not [name for name in names if name.endswith((".py", ".so"))]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    package = (installed / "lib" / "cmake" / "linkwise" / "linkwiseConfigVersion.cmake").read_text()
    assert f'set(PACKAGE_VERSION "{version}")' in package
    header = (installed / "include" / "linkwise" / "version.hpp").read_text()
    assert ".".join(re.findall(r"#define LINKWISE_VERSION_[A-Z]+ (\d+)", header)) == version
    told = "".join(path.read_text() for path in (installed / "lib" / "cmake").rglob("*Targets*.cmake"))
    assert str(ROOT) not in told


def test_an_engine_is_built_on_it(installed: Path, tmp_path: Path) -> None:
    """The example, out of the tree, by `find_package`."""
    done = configured(ROOT / "examples" / "engine", tmp_path, installed)
    assert done.returncode == 0, done.stdout + done.stderr
    done = run("cmake", "--build", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout
    done = run(tmp_path / "engine")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[0] == "19089 of 200000 orders are of a customer"
    assert done.stdout.splitlines()[1].startswith("right on ")


def test_another_version_is_refused(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.28)\nproject(p LANGUAGES CXX)\nfind_package(linkwise 0.2 REQUIRED)\n"
    )
    done = configured(tmp_path, tmp_path / "build", installed)
    assert done.returncode != 0
    assert "compatible with requested version" in done.stderr


@pytest.mark.parametrize("door", ["sort", "join", "probe", "proactive", "version"])
def test_a_door_is_enough(door: str, installed: Path, tmp_path: Path) -> None:
    """Each compiles alone, without CUDA's headers, and says which version it is of."""
    (tmp_path / "p.cpp").write_text(
        f'#include "linkwise/{door}.hpp"\nstatic_assert(LINKWISE_VERSION == 1\'000);\nint main() {{}}\n'
    )
    done = run("g++", "-std=c++20", "-Wall", "-Werror", "-fsyntax-only", f"-I{installed}/include", tmp_path / "p.cpp")
    assert done.returncode == 0, done.stderr
