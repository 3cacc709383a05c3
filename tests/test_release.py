"""What a release hangs on: one version everywhere, and the same dependencies in each kind of package."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import build_seconds
import check_version

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_versions_agree() -> None:
    """But for the changelog, whose heading gets its day when it is released."""
    tag = f"v{PROJECT['version']}"
    assert [line for line in check_version.disagreements(tag) if "CHANGELOG" not in line] == []
    forgotten = check_version.disagreements("v99.1.2")
    assert len(forgotten) == 4 and "CMakeLists.txt says 0.1.0, and the tag 99.1.2" in forgotten


def test_the_recipe_for_conda_asks_for_the_same() -> None:
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()
    assert f'version: "{PROJECT["version"]}"' in recipe
    run = recipe[recipe.index("\n  run:\n") : recipe.index("\ntests:")]
    wanted = {re.sub("^python-", "", line).replace(" ", "") for line in re.findall(r"^    - (.+)$", run, re.MULTILINE)}
    assert wanted == {"python", *(each.replace(" ", "") for each in PROJECT["dependencies"])}


def test_where_the_cpp_library_is() -> None:
    """An installation from source has none inside, and says how to get it."""
    done = subprocess.run(
        [sys.executable, "-m", "linkwise", "--cmake-dir"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and done.stdout == ""
    assert (
        done.stderr.startswith("linkwise: this installation came without the C++ library")
        and "\n" not in done.stderr[:-1]
    )


@pytest.mark.parametrize(("most", "slow"), [(30.0, ["c.o"]), (2.0, ["b.o", "c.o"]), (90.0, [])])
def test_files_that_take_long_to_compile(most: float, slow: list[str], tmp_path: Path) -> None:
    """The last time counts, and only of what is compiled and still there."""
    log = tmp_path / ".ninja_log"
    files = (
        {"b.o": 90_000, "c.o": 80_000, "all.so": 99_000} | {f"{number}.o": 100 for number in range(9)} | {"b.o": 5000}
    )
    rows = [("b.o", 90_000), ("linkwise.dir/src/linkwise/removed.cpp.o", 99_000), *files.items()]
    log.write_text("# ninja log v7\n" + "".join(f"7\t{7 + took}\t1\t{name}\tx\n" for name, took in rows))
    assert [line.split()[0] for line in build_seconds.too_slow(log, most)] == slow
    log.write_text("# ninja log v7\n")
    assert build_seconds.too_slow(log) == []
