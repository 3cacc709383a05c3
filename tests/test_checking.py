"""is_sorted, sort --check and doctor."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkwise
from conftest import HAVE_GPU
from linkwise.columns.sort_keys import SortKey
from linkwise.files import sort_file as file_sorting
from linkwise.files.formats import FileOptions
from linkwise.sorting.check import first_out_of_order

UP = [SortKey("")]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "linkwise", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def expected(values: list[Any], descending: bool, nulls: str) -> int | None:
    """By comparing neighbours one after the other."""

    def place(value: Any) -> tuple[int, Any]:
        if value is None:
            return (-1 if nulls == "first" else 1, 0)
        return (0, -value if descending else value)

    return next((i for i in range(1, len(values)) if place(values[i]) < place(values[i - 1])), None)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | st.integers(-4, 4), max_size=8), st.booleans(), st.sampled_from(["first", "last"]))
def test_tables(values: list[int | None], descending: bool, nulls: str) -> None:
    table = pa.table({"x": pa.array(values, pa.int16())})
    row = expected(values, descending, nulls)
    assert first_out_of_order(table, [SortKey("x", descending, nulls)]) == row  # type: ignore[arg-type]
    assert linkwise.is_sorted(table, by="x", descending=descending, nulls=nulls) == (row is None)  # type: ignore[arg-type]


def test_arrays() -> None:
    values = np.sort(np.random.default_rng(0).random(10_000_000, np.float32))
    assert linkwise.is_sorted(values)
    assert linkwise.is_sorted(values[::-1], descending=True)
    for row in (1, (1 << 22) - 1, 1 << 22, (1 << 22) + 1, len(values) - 1):  # around the blocks that are compared
        changed = values.copy()
        changed[row] = -1
        assert first_out_of_order(changed, UP) == row
    assert linkwise.is_sorted(np.array([-0.0, 0.0, np.inf, np.nan]))
    assert first_out_of_order(np.array([0.0, -0.0]), UP) == 1
    assert linkwise.is_sorted(np.array([], np.int8))
    with pytest.raises(linkwise.UsageError, match="a list cannot be sorted or joined; make it an array"):
        linkwise.is_sorted([1, 2])


def test_command_line(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2, 5, 4]}), tmp_path / "t.parquet")
    np.save(tmp_path / "a.npy", np.arange(10))
    assert run("sort", str(tmp_path / "a.npy"), "--check").returncode == 0
    np.save(tmp_path / "b.npy", [1, 2, 2, 3])
    assert run("sort", str(tmp_path / "b.npy"), "--check").returncode == 0
    twice = run("sort", str(tmp_path / "b.npy"), "--check", "--unique")
    assert twice.returncode == 1
    assert "row 2," in twice.stderr
    wrong = run("sort", str(tmp_path / "t.parquet"), "-c", "--by", "x")
    assert wrong.returncode == 1
    assert wrong.stderr == f"linkwise: {tmp_path / 't.parquet'}: row 3, counted from 0, is out of order\n"
    assert run("sort", str(tmp_path / "a.npy")).returncode == 2


def test_doctor() -> None:
    done = run("doctor", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["linkwise"] == linkwise.__version__
    assert bool(told["gpus"]) == HAVE_GPU
    if not HAVE_GPU:
        assert told["why_no_gpus"]
    assert "linkwise: " in run("doctor").stdout


@pytest.mark.parametrize("kind", ["npy", "arrow"])
def test_files_are_checked_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(file_sorting, "_AT_ONCE", 64)
    random = np.random.default_rng(0)
    for trial in range(60):
        values = np.sort(random.integers(0, 40, 50))
        if trial % 3:
            values[random.integers(0, 50)] = random.integers(0, 40)
        path = tmp_path / f"{trial}.{kind}"
        if kind == "npy":
            np.save(path, values)
        else:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, pa.schema({"k": pa.int64()})) as writer:
                writer.write_table(pa.table({"k": values}), max_chunksize=7)
        for unique in (False, True):
            falls = np.flatnonzero(np.diff(values) <= 0 if unique else np.diff(values) < 0)
            wanted = int(falls[0]) + 1 if len(falls) else None
            found = file_sorting.first_out_of_order_in([path], lambda *_: [SortKey("k")], FileOptions(), unique=unique)
            assert found == (None if wanted is None else ([path], wanted))
