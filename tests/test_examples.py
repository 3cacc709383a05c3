"""The examples in Python run, and a type checker has nothing to say of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import ROOT

EXAMPLES = ROOT / "examples" / "python"


def run(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, EXAMPLES / name, *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


def test_sort_files(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    tables = [pa.table({"a": random.integers(0, 9, 500), "b": random.random(500)}) for _ in range(2)]
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{number}.parquet")
    done = run("sort_files.py", tmp_path / "[01].parquet", tmp_path / "sorted.parquet", "a", "b")
    assert done.returncode == 0 and done.stdout.startswith("1,000 rows in"), done.stderr
    expected = pa.concat_tables(tables).sort_by([("a", "ascending"), ("b", "ascending")])
    assert pq.read_table(tmp_path / "sorted.parquet").equals(expected)
    wrong = run("sort_files.py", tmp_path / "0.parquet", tmp_path / "no.parquet", "c")
    assert wrong.returncode == 1 and wrong.stderr.endswith("there is no column 'c'; there are 'a', 'b'\n")
    assert not (tmp_path / "no.parquet").exists()


def test_join_columns() -> None:
    done = run("join_columns.py")
    assert done.returncode == 0, done.stderr
    known, unknown = (int(line.split()[0].replace(",", "")) for line in done.stdout.splitlines())
    assert known + unknown == 1_000_000


def test_which_gpus() -> None:
    done = run("which_gpus.py", "dgx-a100", "1e8")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == [*map(str, range(1, 9)), "of"]


def test_types_are_known(tmp_path: Path) -> None:
    pytest.importorskip("basedpyright")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict", "include": [str(EXAMPLES)]}))
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] == 3
    assert told["generalDiagnostics"] == []
