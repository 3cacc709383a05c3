"""What the package shows of itself: public names, what loads when, signatures, and options that hold for a block."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import linkwise
from linkwise import JoinPlan, SortPlan, UsageError

PUBLIC = [
    *("Cancelled", "CorruptDataError", "DeviceArray", "DeviceError", "Error", "FallbackWarning", "GpuColumn"),
    *("GpuTable",),
    *(
        "JoinPlan",
        "JoinPlanReport",
        "JoinRanges",
        "JoinReport",
        "Machine",
        "MaskedArray",
        "NominalMachineWarning",
        "OutOfMemoryError",
    ),
    *("PlanReport", "Profile", "SortPlan", "SortReport", "UsageError", "described_machines", "empty", "is_sorted"),
    *("join", "join_batches", "join_count", "join_file", "join_indices", "join_ranges", "load_machine", "load_profile"),
    *(
        "local_machine",
        "options",
        "plan_join",
        "plan_sort",
        "probe",
        "sort",
        "sort_and_report",
        "sort_batches",
        "sort_file",
        "sort_indices",
        "top_k",
    ),
    "unique",
]
EXECUTION = ["machine", "gpus", "strategy", "memory_limit", "verify", "plan"]
TAKE_THEM = [
    *("sort", "sort_and_report", "sort_indices", "top_k", "unique", "sort_file", "sort_batches", "plan_sort"),
    *("join", "join_batches", "join_count", "join_file", "join_indices", "join_ranges", "plan_join"),
]
KEYS = np.random.default_rng(2).integers(0, 1 << 32, 2000, dtype=np.uint32)


def loaded(program: str) -> set[str]:
    """The modules that a program of its own has loaded in the end."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys, json; print(json.dumps(list(sys.modules)))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_public_names() -> None:
    assert linkwise.__all__ == sorted(PUBLIC)
    for name in linkwise.__all__:
        assert not inspect.isfunction(getattr(linkwise, name)) or getattr(linkwise, name).__doc__, name
    assert set(PUBLIC) <= set(dir(linkwise))
    stub = Path(linkwise.__file__).with_suffix(".pyi").read_text()
    assert set(re.findall(r"import \w+ as (\w+)", stub)) == {*PUBLIC, "_core", "cluster", "PolarsEngine"}
    with pytest.raises(AttributeError, match="no attribute 'sorted'"):
        _ = linkwise.sorted


def test_what_loads_when() -> None:
    first = loaded("import linkwise")
    assert not {"numpy", "pyarrow", "rich", "typer", "matplotlib"} & first
    assert not any(name.startswith("linkwise.") and name != "linkwise._core" for name in first)
    of_arrays = loaded("import linkwise, numpy; linkwise.sort(numpy.arange(9)[::-1].copy(), strategy='cpu')")
    assert not {"pyarrow", "rich", "typer", "matplotlib"} & of_arrays
    rooms = {name.split(".")[1] for name in of_arrays if name.count(".") == 2 and name.startswith("linkwise.")}
    assert not rooms & {"files", "cli", "bench", "reproduce", "reports", "apps", "joining"}
    assert "pyarrow" in loaded("import linkwise, pyarrow as pa; linkwise.sort(pa.array([2, 1]), strategy='cpu')")


def test_files_of_numbers_and_strings_load_none_of_pyarrows_functions(tmp_path: Path) -> None:
    """Loading them takes longer than a small file takes, and all cores would wait for it."""
    rows = 20_000
    columns = {"k": KEYS.repeat(rows // len(KEYS)), "s": [f"city {at % 97}" for at in range(rows)]}
    table = pa.table(columns | {"b": np.arange(rows) % 3 == 0, "n": pa.array([None, 1.5] * (rows // 2))})
    pq.write_table(table, tmp_path / "in.parquet")
    pq.write_table(table.slice(0, 50).rename_columns(["k", "t", "c", "m"]), tmp_path / "right.parquet")
    sides, out = [str(tmp_path / name) for name in ("in.parquet", "right.parquet")], str(tmp_path / "out.parquet")
    commands = [["sort", sides[0], "-k", by] for by in ("k", "s", "b")] + [["join", *sides, "--on", "k"]]
    commands.append(["sort", sides[0], "-k", "k", "--limit", "10"])
    commands += [
        ["sort", sides[0], "-k", "k", "--filter", "k > 99 and n < 2", *more] for more in ((), ("--limit", "9"))
    ]
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "linkwise", *command, "-o", out],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        names = set(re.findall(r"\| +(\S+)$", done.stderr, re.MULTILINE))
        assert "pyarrow.parquet" in names
        assert not {"pyarrow.compute", "pyarrow.dataset", "pyarrow.acero", "numpy.ma"} & names, command


@pytest.mark.parametrize("name", TAKE_THEM)
def test_signatures_and_help_show_every_option(name: str) -> None:
    function = getattr(linkwise, name)
    shown = inspect.signature(function).parameters
    assert [each for each in shown if each in EXECUTION] == EXECUTION
    assert all(shown[each].kind is inspect.Parameter.KEYWORD_ONLY for each in EXECUTION)
    assert [shown[each].default for each in EXECUTION] == ["auto", "auto", "auto", None, True, None]
    assert "execution" not in shown
    assert "**execution" not in function.__doc__
    for option in EXECUTION:
        assert function.__doc__.count(f"\n{option}\n    ") == 1


def test_options_that_there_are_not() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'machin'"):
        linkwise.sort(KEYS, machin="dgx-a100")
    with pytest.raises(TypeError, match="unexpected keyword argument 'gpu'"), linkwise.options(gpu=[1]):
        pass
    with pytest.raises(UsageError, match="gpus= is a list of numbers"), linkwise.options(gpus="all"):
        pass


def test_editors_know_the_options(tmp_path: Path) -> None:
    """As a type checker sees the installed package: what is right passes, and what is wrong is told."""
    pytest.importorskip("basedpyright")
    program = tmp_path / "program.py"
    program.write_text(
        """
import numpy as np
import linkwise

keys = np.zeros(3, np.uint32)
ordered: np.ndarray = linkwise.sort(keys, machine="dgx-a100", gpus=[0], verify=False, plan=linkwise.SortPlan())
count: int = linkwise.join_count(keys, keys, strategy="radix", memory_limit="1GiB", plan=linkwise.JoinPlan())
changed: linkwise.SortPlan = linkwise.plan_sort(10, plan=linkwise.SortPlan()).best.replace(het_buffers=3)
with linkwise.options(machine="dgx-a100", plan=changed):
    linkwise.sort_file("a.npy", "b.npy", gpus="auto")
linkwise.sort(keys, machin="dgx-a100")  # wrong
linkwise.top_k(keys, 3, plan=linkwise.JoinPlan())  # wrong
linkwise.join_ranges(keys, keys, gpus=3)  # wrong
linkwise.SortPlan(het_buffer=3)  # wrong
""",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--level", "error", "--pythonpath", sys.executable,
         program],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    told = json.loads(done.stdout)["generalDiagnostics"]
    wrong = [at for at, line in enumerate(program.read_text().splitlines()) if line.endswith("# wrong")]
    assert sorted({each["range"]["start"]["line"] for each in told}) == wrong, told


def test_options_hold_for_a_block() -> None:
    def where(**given: object) -> tuple[str, list[int], str]:
        report = linkwise.sort_and_report(KEYS, **given)[1]
        return report.machine, report.gpus, report.strategy

    with linkwise.options(machine="dgx-a100", gpus=[3], strategy="het"):
        assert where() == ("dgx-a100", [3], "het")
        assert where(gpus=[1, 0], strategy="radix") == ("dgx-a100", [1, 0], "radix")
        assert where(machine="delta-d22x") == ("delta-d22x", [3], "het")
        with linkwise.options(gpus=[0, 2], strategy="p2p_merge"):
            assert where() == ("dgx-a100", [0, 2], "p2p_merge")
        assert where() == ("dgx-a100", [3], "het")
        assert linkwise.plan_sort(10**6).best.gpus == (3,)
        assert linkwise.sort_and_report(KEYS, strategy="cpu", machine="auto")[1].machine == "cpu"
    with linkwise.options(machine="dgx-a100"), pytest.raises(UsageError), linkwise.options(gpus=[99]):
        where()
    assert linkwise.sort_and_report(KEYS, strategy="cpu")[1].machine == "cpu"


def test_plans_of_a_block() -> None:
    plan = SortPlan(strategy="het", het_buffers=3, gpus=(1,))
    with linkwise.options(machine="dgx-a100", plan=plan):
        assert linkwise.sort_and_report(KEYS)[1].plan.pinned.items() >= plan.pinned.items()
        assert linkwise.sort_and_report(KEYS, gpus=[2])[1].gpus == [2]
        radix = linkwise.sort_and_report(KEYS, strategy="radix")[1]
        assert (radix.strategy, radix.gpus) == ("radix", [1])
        own = linkwise.sort_and_report(KEYS, plan=SortPlan(strategy="p2p_merge", gpus=(0, 1)))[1]
        assert (own.strategy, own.gpus) == ("p2p_merge", [0, 1])
        assert linkwise.join_count(KEYS, KEYS) == len(KEYS) + 2 * (len(KEYS) - len(np.unique(KEYS)))
    with linkwise.options(machine="dgx-a100", plan=JoinPlan(path="sorted", sort=SortPlan(gpus=(0,)))):
        assert linkwise.sort_and_report(KEYS, gpus=[5])[1].gpus == [5]
        assert linkwise.plan_join(1000, 1000, gpus=[4]).best.gpus == (4,)
        assert linkwise.plan_join(1000, 1000).best.path == "sorted"


def test_blocks_are_of_one_thread_and_task() -> None:
    def machine() -> str:
        return linkwise.sort_and_report(KEYS[:100], machine="volta4")[1].machine

    with linkwise.options(machine="dgx-a100", gpus=[1]), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: linkwise.sort_and_report(KEYS, machine="volta4")[1].gpus).result() != [1]

    async def task(name: str) -> str:
        with linkwise.options(machine=name):
            await asyncio.sleep(0.01)
            return linkwise.sort_and_report(KEYS[:100])[1].machine

    async def both() -> list[str]:
        return await asyncio.gather(task("dgx-a100"), task("volta4"))

    assert asyncio.run(both()) == ["dgx-a100", "volta4"]
    assert machine() == "volta4"
