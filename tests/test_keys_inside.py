"""Sorts by what is inside of structs, called by the names on the way to it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import linkwise

CPU: dict[str, Any] = {"strategy": "cpu"}
NESTED = ["address.city", "address.at.zip", "address.at.x"]


def people(rows: int = 2000) -> pa.Table:
    draw = np.random.default_rng(5)
    numbers = draw.integers(0, 90, rows)
    city = pa.array([None if n % 31 == 0 else f"city {n % 23}" for n in numbers])
    at = pa.StructArray.from_arrays(
        [pa.array(numbers, pa.int32(), mask=numbers % 17 == 0), pa.array(draw.standard_normal(rows))],
        ["zip", "x"], mask=pa.array(numbers % 13 == 0),
    )  # fmt: skip
    address = pa.StructArray.from_arrays([city, at], ["city", "at"], mask=pa.array(draw.random(rows) < 0.03))
    return pa.table({"n": np.arange(rows), "address": address})


def expected_order(table: pa.Table, keys: list[tuple[str, str]], nulls: str) -> pa.Table:
    flat = table.flatten().flatten()
    rows = pc.sort_indices(flat, [(*key, f"at_{'start' if nulls == 'first' else 'end'}") for key in keys])
    return table.take(rows)


@pytest.mark.parametrize("nulls", ["first", "last"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("names", [[name] for name in NESTED] + [["address.city", "n"], ["address.at.zip", "n"]])
def test_tables(names: list[str], descending: bool, nulls: Any) -> None:
    table = people()
    direction = "descending" if descending else "ascending"
    expected = expected_order(table, [(name, direction) for name in names], nulls)
    found = linkwise.sort(table, by=names, descending=descending, nulls=nulls, **CPU)
    assert found.equals(expected)
    assert linkwise.is_sorted(found, by=names, descending=descending, nulls=nulls)
    assert linkwise.top_k(table, 7, by=names, descending=descending, nulls=nulls, **CPU).equals(expected.slice(0, 7))


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "jsonl"])
@pytest.mark.parametrize("options", [{}, {"host_memory_limit": "64KiB"}, {"limit": 9}, {"columns": ["address"]}])
def test_files(suffix: str, options: dict[str, Any], tmp_path: Path) -> None:
    table = people()
    source, out = tmp_path / f"t.{suffix}", tmp_path / "o.parquet"
    if suffix == "parquet":
        pq.write_table(table, source, row_group_size=150)
    elif suffix == "jsonl":
        source.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        with pa.ipc.new_file(source, table.schema) as file:
            file.write_table(table, max_chunksize=150)
    linkwise.sort_file(source, out, by=["address.at.zip", "address.city"], **options, **CPU)
    expected = expected_order(table, [("address.at.zip", "ascending"), ("address.city", "ascending")], "last")
    expected = expected.slice(0, options.get("limit")).select(options.get("columns", table.column_names))
    assert pq.read_table(out).to_pylist() == expected.to_pylist()


def test_lines_of_json_stay_as_they_are(tmp_path: Path) -> None:
    lines = ['{"a": {"b":2}, "c": 1.50}', '{"a":{"b" : 1},"c":0}']
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    linkwise.sort_file(tmp_path / "t.jsonl", tmp_path / "o.jsonl", by="a.b", **CPU)
    assert (tmp_path / "o.jsonl").read_text().splitlines() == lines[::-1]


def test_a_column_of_that_name_comes_first() -> None:
    table = pa.table({"a": [{"b": 1, "c.d": 2}, {"b": 2, "c.d": 1}], "a.b": [2, 1]})
    assert linkwise.sort(table, by="a.b", **CPU)["a.b"].to_pylist() == [1, 2]
    assert linkwise.sort(table, by="a.c.d", **CPU)["a.b"].to_pylist() == [1, 2]


def test_the_command_and_what_is_not_there(tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "t.parquet")

    def run(key: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "linkwise", "sort", "t.parquet", "-o", "o.parquet", "-k", key, "--limit", "3"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert run("address.at.zip:desc").returncode == 0
    expected = expected_order(people(), [("address.at.zip", "descending")], "last").slice(0, 3)
    assert pq.read_table(tmp_path / "o.parquet").equals(expected)
    assert "there is no column 'address.street' among n, address" in run("address.street").stderr
    with pytest.raises(linkwise.UsageError, match="'address' is sorted by, and not among the columns that are kept"):
        linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.parquet", by="address.city", columns=["n"], **CPU)
