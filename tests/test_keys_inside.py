"""Sorts and joins by fields of structs, named by their paths."""

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

HOWS = ("inner", "left", "right", "full", "semi", "anti")
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
    assert "there is no column 'address.street' among 'n', 'address'" in run("address.street").stderr
    with pytest.raises(linkwise.UsageError, match="'address' is sorted by, and not among the columns that are kept"):
        linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.parquet", by="address.city", columns=["n"], **CPU)


def towns() -> pa.Table:
    """Some of the cities that people live in, some twice; a column of the same name as one on the left."""
    names = [f"city {n}" for n in (*range(12), *range(5), 77)] + [None]
    place = pa.StructArray.from_arrays(
        [pa.array(names), pa.array(range(len(names)), pa.int64())], ["city", "zip"],
        mask=pa.array([n == 3 for n in range(len(names))]),
    )  # fmt: skip
    return pa.table({"address": place, "city": names, "n": range(len(names))})


def value_in(row: dict[str, Any] | None, path: str) -> Any:
    for name in path.split("."):
        row = None if row is None else row[name]  # type: ignore[assignment]
    return row


def expected_rows(left: pa.Table, right: pa.Table, on: tuple[str, str], how: str) -> list[str]:
    """Each pair of rows in turn."""
    lefts, rights = left.to_pylist(), right.to_pylist()
    pairs = [
        (a, b)
        for a, row in enumerate(lefts)
        for b, other in enumerate(rights)
        if value_in(row, on[0]) is not None and value_in(row, on[0]) == value_in(other, on[1])
    ]
    of_left, of_right = {a for a, _ in pairs}, {b for _, b in pairs}
    if how in ("semi", "anti"):
        return sorted(repr(row) for at, row in enumerate(lefts) if (at in of_left) == (how == "semi"))
    no_left, no_right = dict.fromkeys(left.column_names), dict.fromkeys(right.column_names)
    rows = [(lefts[a], rights[b]) for a, b in pairs]
    rows += [(row, no_right) for at, row in enumerate(lefts) if how in ("left", "full") and at not in of_left]
    rows += [(no_left, row) for at, row in enumerate(rights) if how in ("right", "full") and at not in of_right]
    names = {name: f"{name}_right" if name in no_left else name for name in no_right}
    return sorted(repr(a | {names[name]: value for name, value in b.items()}) for a, b in rows)


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("on", ["address.city", ("address.city", "city"), ("address.at.zip", "address.zip")], ids=str)
def test_joins_of_tables(on: Any, how: Any) -> None:
    left, right = people(300), towns()
    named: dict[str, Any] = {"on": on} if isinstance(on, str) else {"left_on": on[0], "right_on": on[1]}
    pair = (on, on) if isinstance(on, str) else on
    found = linkwise.join(left, right, how=how, verify="all", **named, **CPU)
    assert rows_of(found) == expected_rows(left, right, pair, how)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("limit", [None, "64KiB"])
@pytest.mark.parametrize("order", [None, "key"])
def test_joins_of_files(how: Any, limit: str | None, order: Any, tmp_path: Path) -> None:
    left, right = people(), towns()
    pq.write_table(left, tmp_path / "left.parquet", row_group_size=150)
    (tmp_path / "right.jsonl").write_text("".join(json.dumps(row) + "\n" for row in right.to_pylist()))
    sides, out = (tmp_path / "left.parquet", tmp_path / "right.jsonl"), tmp_path / "o.parquet"
    how_else: dict[str, Any] = {"how": how, "host_memory_limit": limit, "order": order, "verify": "all", **CPU}
    report = linkwise.join_file(*sides, out, "address.city", **how_else)
    expected = expected_rows(left, right, ("address.city", "address.city"), how)
    assert rows_of(pq.read_table(out)) == expected and report.rows == len(expected)
    assert linkwise.join_file(*sides, None, "address.city", **how_else).rows == len(expected)


def test_joins_by_a_field_and_a_column() -> None:
    """The column appears once, the struct on both sides."""
    left = pa.table({"a": [{"b": 1}, {"b": 2}], "n": [5, 6]})
    right = pa.table({"a": [{"b": 2}, {"b": 1}], "n": [6, 9]})
    found = linkwise.join(left, right, ["a.b", "n"], how="full", order="key", **CPU)
    assert found.column_names == ["a", "n", "a_right"]
    assert found.to_pylist() == [
        {"a": {"b": 1}, "n": 5, "a_right": None},
        {"a": None, "n": 9, "a_right": {"b": 1}},
        {"a": {"b": 2}, "n": 6, "a_right": {"b": 2}},
    ]


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        (["a", "a"], "a.x"),
        ([[("x", pa.int64()), ("x", pa.int64())]], "a.x"),
        ([[("b.c", pa.int64())], [("c", pa.int64())]], "a.b.c"),
    ],
)
def test_fields_that_names_do_not_tell_apart(columns: list[Any], name: str) -> None:
    kinds = [pa.struct([("x", pa.int64())] if column == "a" else column) for column in columns]
    names = ["a", "a" if columns == ["a", "a"] else "a.b"][: len(kinds)]
    table = pa.schema(zip(names, kinds, strict=True)).empty_table()
    other = pa.table({name: pa.array([], pa.int64())})
    with pytest.raises(linkwise.UsageError, match="there are several columns"):
        linkwise.sort(table, by=name, **CPU)
    with pytest.raises(linkwise.UsageError, match="the left table has several columns"):
        linkwise.join(table, other, name, **CPU)


def test_a_column_that_only_seems_to_contain_the_field(tmp_path: Path) -> None:
    table = pa.table({"a": [{"b.c": 2}, {"b.c": 1}], "a.b": [1, 2]})
    pq.write_table(table, tmp_path / "t.parquet")
    assert linkwise.sort(table, by="a.b.c", **CPU)["a.b"].to_pylist() == [2, 1]
    linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.parquet", by="a.b.c", **CPU)
    assert pq.read_table(tmp_path / "o.parquet")["a.b"].to_pylist() == [2, 1]
    assert linkwise.join(table, table, "a.b.c", **CPU).num_rows == 2
    linkwise.join_file(*[tmp_path / "t.parquet"] * 2, tmp_path / "o.parquet", "a.b.c", **CPU)
    assert pq.read_table(tmp_path / "o.parquet").num_rows == 2


def test_the_command_that_joins(tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "l.parquet")
    pq.write_table(towns(), tmp_path / "r.parquet")

    def run(on: str, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "linkwise", "join", "l.parquet", "r.parquet", "-o", "o.parquet", "--on", on, *more],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert run("address.city").returncode == 0
    expected = expected_rows(people(), towns(), ("address.city", "address.city"), "inner")
    assert rows_of(pq.read_table(tmp_path / "o.parquet")) == expected
    assert "the left table has no column 'address.street'" in run("address.street").stderr
    assert "'address' is joined by" in run("address.city", "--left-columns", "n").stderr
