"""Every code block of the README and the docs runs."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import linkwise
from conftest import HAVE_GPU, ROOT
from cpp_programs import build_and_run

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page's blocks run one after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        if block.startswith("# needs GPUs") and not HAVE_GPU:
            continue
        if block.startswith("# needs GPUs and cuDF") and importlib.util.find_spec("cudf") is None:
            continue
        exec(compile(block, str(page), "exec"), names)


def test_cpp_blocks(tmp_path: Path) -> None:
    """A C++ program of the docs compiles with the headers and any compiler, and runs."""
    programs = [block for page in PAGES for block in blocks(page, "cpp") if "int main()" in block]
    assert programs
    for number, program in enumerate(programs):
        (tmp_path / f"{number}.cpp").write_text(program)
        assert build_and_run(tmp_path / f"{number}.cpp", tmp_path / str(number)).startswith("1000000 in ")


@pytest.mark.slow
def test_a_project_of_ones_own(tmp_path: Path) -> None:
    """The example is configured as its readers would do it, and its kernel compiled by nvcc; the library is there."""
    nvcc = next((path for root in sys.path for path in Path(root).glob("nvidia/cu13/bin/nvcc")), shutil.which("nvcc"))
    cmake = ["cmake", "-G", "Ninja", "-S", ROOT / "examples" / "proactive", "-B", tmp_path]
    for command in (
        [*cmake, f"-DCMAKE_CUDA_COMPILER={nvcc}", f"-DPython_EXECUTABLE={sys.executable}"],
        ["ninja", "-C", tmp_path, "CMakeFiles/heat.dir/heat.cu.o"],
    ):
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": path})
        assert done.returncode == 0 and "warning" not in done.stdout + done.stderr, done.stdout + done.stderr
    told = build_and_run(tmp_path / "CMakeFiles" / "heat.dir" / "heat.cu.o", tmp_path / "heat")
    assert told.endswith("heat 1.000000000000\n")
    [plan] = [kept.read_text() for kept in (tmp_path / "cache" / "linkwise").glob("tuned-*.txt")]
    assert plan.split()[0] in told and "heat in 2^20 cells" in plan


def shell_lines() -> list[str]:
    lines = [line for page in PAGES for block in blocks(page, "sh") for line in block.splitlines()]
    return [line.split("#")[0].strip() for line in lines]


TAKES_LONG = re.compile("linkwise (reproduce tartan|plan sort --rows 1e12|plan join --left 1e11)|.*--cluster")
COMMANDS = [
    pytest.param(line, marks=[pytest.mark.slow] if TAKES_LONG.match(line) else [])
    for line in shell_lines()
    if re.match("(linkwise|cat|LINKWISE_)", line)
]


@pytest.mark.parametrize("line", COMMANDS)
def test_command_lines(line: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    orders = pa.table({"what": ["b"] * 1000, "ts": random.integers(0, 99, 1000), "x": random.random(1000)})
    pq.write_table(orders, tmp_path / "orders.parquet")
    pq.write_table(orders.sort_by([("ts", "descending")]), tmp_path / "sorted.parquet")
    pa.csv.write_csv(orders, tmp_path / "orders.csv")
    pa.csv.write_csv(orders, tmp_path / "part-0.csv")
    pa.csv.write_csv(pa.table({"what": ["b", "c"], "n": [7, 8]}), tmp_path / "more.csv")
    np.save(tmp_path / "keys.npy", random.random(1000))
    linkwise.SortPlan(strategy="het", eager_merge=True).save(tmp_path / "plan.json")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ | {"PATH": path}
    )
    assert done.returncode == 0, done.stderr


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = " ".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"`make (\w+)`", text)) | {
        line.split()[1] for line in shell_lines() if line.startswith("make ")
    }
    assert {"demo", "test", "lint", "bench"} <= named
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in named)


def test_the_measurements_page_is_made_from_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import render as benchmark

    assert benchmark.MEASUREMENTS_PAGE.read_text(encoding="utf-8") == benchmark.measurements_page()


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_map_names_what_there_is() -> None:
    for path in re.findall(
        r"`((?:src|python|tests|scripts|benchmarks)/[\w/.]*)`", (ROOT / "CONTRIBUTING.md").read_text()
    ):
        assert (ROOT / path).exists(), path
