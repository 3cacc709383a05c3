"""Joins of files one of which streams by: against DuckDB, for all kinds, key types and sizes of row groups."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import linkwise
from join_oracle import HOWS, KEYS, oracle, rows_of, side, written
from linkwise.files import streamed_join
from linkwise.files.reading.parquet.parquet_reader import ParquetReader


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_join, "_PART_ROWS", 100)


@pytest.mark.parametrize("sizes", [(1500, 90), (90, 1500)], ids=["right is held", "left is held"])
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("how", HOWS)
def test_rows_are_those_of_duckdb(how: Any, kind: str, sizes: tuple[int, int], tmp_path: Path) -> None:
    left, right = side(kind, sizes[0], 1, "a"), side(kind, sizes[1], 5, "b")
    paths = written(tmp_path, left, right)
    keys = [name for name in left.column_names if name.startswith("k")]
    report = linkwise.join_file(*paths, tmp_path / "o.parquet", keys, how=how)
    assert "streamed" in report.strategy
    assert ("left side" in report.strategy) == (sizes[0] < sizes[1])
    found, expected = pq.read_table(tmp_path / "o.parquet"), oracle(left, right, how)
    assert rows_of(found) == expected
    assert linkwise.join_file(*paths, None, keys, how=how).rows == report.rows == found.num_rows == len(expected)
    assert report.rows > 0 or how == "anti" or kind == "bool"


@pytest.mark.parametrize("how", HOWS)
def test_nulls_that_match(how: Any, tmp_path: Path) -> None:
    left, right = side("int64", 800, 1, "a"), side("int64", 60, 5, "b")
    report = linkwise.join_file(
        *written(tmp_path, left, right), tmp_path / "o.parquet", "k0", how=how, nulls_equal=True
    )
    assert "streamed" in report.strategy
    assert rows_of(pq.read_table(tmp_path / "o.parquet")) == oracle(left, right, how, nulls_equal=True)


@pytest.mark.parametrize("how", HOWS)
def test_the_order_of_the_left_side(how: Any, tmp_path: Path) -> None:
    left, right = side("int64", 700, 1, "a"), side("int64", 300, 5, "b")
    paths = written(tmp_path, left, right)
    linkwise.join_file(*paths, tmp_path / "o.parquet", "k0", how=how, order="left")
    expected = linkwise.join(left, right, "k0", how=how, order="left")
    assert pq.read_table(tmp_path / "o.parquet").to_pydict() == expected.to_pydict()


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("empty", [0, 1])
@pytest.mark.parametrize("kind", ["int64", "string"])
def test_an_empty_side(how: Any, empty: int, kind: str, tmp_path: Path) -> None:
    sides = [side(kind, 300, 1, "a"), side(kind, 200, 5, "b")]
    sides[empty] = sides[empty].slice(0, 0)
    report = linkwise.join_file(*written(tmp_path, *sides), tmp_path / "o.parquet", "k0", how=how)
    found = pq.read_table(tmp_path / "o.parquet")
    assert rows_of(found) == oracle(*sides, how) and report.rows == found.num_rows
    assert found.schema.equals(linkwise.join(*sides, "k0", how=how).schema)


def test_one_key_has_most_rows(tmp_path: Path) -> None:
    """Of which there are more than a row group has, from one part of the side that streams by."""
    left = pa.table({"k": np.where(np.arange(400) % 10 == 0, np.arange(400), -1), "a": np.arange(400)})
    right = pa.table({"k": np.where(np.arange(300) % 5 == 0, np.arange(300), -1), "b": np.arange(300)})
    paths = written(tmp_path, left, right, 150)
    report = linkwise.join_file(*paths, tmp_path / "o.parquet", "k", row_group_rows=1000)
    found = pq.ParquetFile(tmp_path / "o.parquet")
    assert report.rows == found.metadata.num_rows == linkwise.join_count(left["k"], right["k"]) > 80_000
    groups = [found.metadata.row_group(at).num_rows for at in range(found.num_row_groups)]
    assert max(groups) == 1000 and len(groups) > 80
    assert rows_of(found.read()) == rows_of(linkwise.join(left, right, "k"))


def test_columns_and_filters_of_either_side(tmp_path: Path) -> None:
    left, right = side("int64", 900, 1, "a"), side("int64", 200, 5, "b")
    paths = written(tmp_path, left, right)
    report = linkwise.join_file(
        *paths, tmp_path / "o.parquet", "k0", left_columns=["a", "k0"], right_filter="b >= 50", left_filter="a < 700"
    )
    found = pq.read_table(tmp_path / "o.parquet")
    assert found.column_names == ["a", "k0", "b", "b text"]
    expected = oracle(left.slice(0, 700), right.slice(50), "inner")
    assert rows_of(found.select(["k0", "a", "b", "b text"])) == [(k, a, b, text) for k, a, _, b, text in expected]
    assert report.rows == len(expected)
    with pytest.raises(linkwise.UsageError, match="'k0' is joined by, and not among the columns that are kept"):
        linkwise.join_file(*paths, tmp_path / "x.parquet", "k0", left_columns=["a"])
    assert not (tmp_path / "x.parquet").exists()


def test_row_groups_without_a_key_of_the_other_side_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[int]] = []
    decode = ParquetReader._decoded_groups

    def seen(self: ParquetReader, groups: list[int], columns: Any) -> pa.Table:
        read.append(groups)
        return decode(self, groups, columns)

    monkeypatch.setattr(ParquetReader, "_decoded_groups", seen)
    left = pa.table({"k": np.arange(10_000), "a": np.arange(10_000)})
    right = pa.table({"k": np.arange(4_050, 4_150), "b": np.arange(100)})
    paths = written(tmp_path, left, right, 100)
    for how, groups in (("inner", {40, 41}), ("semi", {40, 41}), ("right", {40, 41}), ("left", {*range(100)})):
        read.clear()
        linkwise.join_file(*paths, tmp_path / "o.parquet", "k", how=how)
        assert {group for some in read for group in some} == groups, how
        assert pq.read_table(tmp_path / "o.parquet").num_rows == (10_000 if how == "left" else 100)


def test_columns_of_rows_without_a_match_are_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    decode = ParquetReader._decoded_groups

    def seen(self: ParquetReader, groups: list[int], columns: Any) -> pa.Table:
        asked.append(columns)
        return decode(self, groups, columns)

    monkeypatch.setattr(ParquetReader, "_decoded_groups", seen)
    keys = np.tile(np.arange(0, 200, 2), 10)
    left = pa.table({"k": keys, "a": np.arange(1000)})
    right = pa.table({"k": [1, 199], "b": [1, 2]})  # within the range, and never there
    assert linkwise.join_file(*written(tmp_path, left, right, 100), tmp_path / "o.parquet", "k").rows == 0
    assert asked == [["k"]] * 10


@pytest.mark.parametrize(("validate", "held"), [("m:1", "right"), ("1:m", "left")])
def test_a_key_that_may_occur_once_only(validate: Any, held: str, tmp_path: Path) -> None:
    left, right = pa.table({"k": [1, 2, 2, 3], "a": range(4)}), pa.table({"k": [1, 2, 2], "b": range(3)})
    paths = written(tmp_path, left, right)
    with pytest.raises(linkwise.UsageError, match=f"more than once on the {held}, which validate='{validate}'"):
        linkwise.join_file(*paths, tmp_path / "o.parquet", "k", validate=validate)
    assert not (tmp_path / "o.parquet").exists()
    once = pa.table({"k": [3, 2], "c": range(2)})
    pq.write_table(once, paths[0 if held == "left" else 1])
    report = linkwise.join_file(*paths, tmp_path / "o.parquet", "k", validate=validate)
    assert "streamed" in report.strategy and f"{held} side" in report.strategy
    assert "streamed" not in linkwise.join_file(paths[0], paths[0], None, "k", order="key").strategy


def test_types_that_differ(tmp_path: Path) -> None:
    left = pa.table({"k": pa.array([1, -5, 300, None], pa.int16()), "a": range(4)})
    right = pa.table({"k": pa.array([300, 1, 2**40], pa.int64()), "b": range(3)})
    paths = written(tmp_path, left, right)
    for how in HOWS:
        linkwise.join_file(*paths, tmp_path / "o.parquet", "k", how=how)
        expected = linkwise.join(left, right, "k", how=how)
        found = pq.read_table(tmp_path / "o.parquet")
        assert found.schema.equals(expected.schema) and rows_of(found) == rows_of(expected)
    pq.write_table(pa.table({"k": ["a"]}), paths[1])
    with pytest.raises(linkwise.UsageError, match="cannot be compared; cast one"):
        linkwise.join_file(*paths, tmp_path / "o.parquet", "k")


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize("categories", [False, True])
def test_several_files_of_any_format(suffix: str, categories: bool, tmp_path: Path) -> None:
    left, right = side("string", 500, 1, "a"), side("string", 90, 5, "b")
    if categories and suffix != "csv":
        left = left.set_column(0, "k0", left["k0"].dictionary_encode())
    for at in range(5):
        part = left.slice(100 * at, 100)
        path = tmp_path / f"l{at}.{suffix}"
        if suffix == "parquet":
            pq.write_table(part, path)
        elif suffix == "arrow":
            with pa.ipc.new_file(path, part.schema, options=pa.ipc.IpcWriteOptions(unify_dictionaries=True)) as out:
                out.write_table(part)
        else:
            pa.csv.write_csv(part, path)
    pq.write_table(right, tmp_path / "r.parquet")
    for how in HOWS:
        linkwise.join_file(
            tmp_path / f"l?.{suffix}", tmp_path / "r.parquet", tmp_path / "o.parquet", left_on="k0", right_on="k0",
            how=how,
        )  # fmt: skip
        found = pq.read_table(tmp_path / "o.parquet")
        expected = linkwise.join(left, right, left_on="k0", right_on="k0", how=how)
        if suffix != "csv":  # in which nulls are empty texts
            assert rows_of(found) == rows_of(expected)
            assert found.num_rows == expected.num_rows


def test_several_columns_of_one_name(tmp_path: Path) -> None:
    long = pa.table([np.arange(1000), np.arange(1000), np.arange(1000)], names=["k", "x", "x"])
    pq.write_table(long, tmp_path / "l.parquet")
    pq.write_table(pa.table({"k": [1, 2], "y": [5, 6]}), tmp_path / "r.parquet")
    report = linkwise.join_file(tmp_path / "l.parquet", tmp_path / "r.parquet", tmp_path / "o.arrow", "k")
    assert report.rows == 2


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    """Neither the least key of a side nor what Parquet's statistics tell can be had of it."""
    odd = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"\xff\xfe", b"c"]).buffers())
    pq.write_table(pa.table({"k": pa.chunked_array([odd] * 200), "v": range(600)}), tmp_path / "odd.parquet")
    pq.write_table(pa.table({"k": ["a", "c", "d"] * 200, "w": range(600)}), tmp_path / "long.parquet")
    pq.write_table(pa.table({"k": ["a", "c"], "w": [1, 2]}), tmp_path / "short.parquet")
    pq.write_table(pa.table({"k": odd, "v": [1, 2, 3]}), tmp_path / "short odd.parquet")
    for left, right in (("odd", "short"), ("long", "short odd")):
        report = linkwise.join_file(tmp_path / f"{left}.parquet", tmp_path / f"{right}.parquet", None, "k")
        assert report.rows == 400


def test_progress_goes_up_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_join, "_MOST_PART_ROWS", 100)
    paths = written(tmp_path, side("int64", 3000, 1, "a"), side("int64", 60, 5, "b"))
    told: list[float] = []
    linkwise.join_file(*paths, tmp_path / "o.parquet", "k0", how="left", on_progress=told.append)
    assert told == sorted(told) and told[-1] == 1.0 and len(told) > 10
    for order in ("key", "left"):
        told.clear()
        linkwise.join_file(*paths, tmp_path / "o.parquet", "k0", how="full", order=order, on_progress=told.append)
        assert told == sorted(told) and told[-1] == 1.0 and len(told) > 1


def test_random_shapes(tmp_path: Path) -> None:
    draw = random.Random(4)
    for _ in range(25):
        kind, how = draw.choice(KEYS), draw.choice(HOWS)
        left = side(kind, draw.choice([1, 7, 150, 900]), draw.randrange(100), "a")
        right = side(kind, draw.choice([1, 9, 140, 800]), draw.randrange(100), "b")
        paths = written(tmp_path, left, right, draw.choice([1, 13, 100, 5000]))
        keys = [name for name in left.column_names if name.startswith("k")]
        linkwise.join_file(*paths, tmp_path / "o.parquet", keys, how=how)
        found = pq.read_table(tmp_path / "o.parquet")
        assert rows_of(found) == rows_of(linkwise.join(left, right, keys, how=how))


def test_the_command(tmp_path: Path) -> None:
    left, right = side("int64", 900, 1, "a"), side("int64", 200, 5, "b")
    paths = written(tmp_path, left, right)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "linkwise", "join", *map(str, paths), "--on", "k0"),
            *("-o", str(tmp_path / "o.parquet"), "--left-columns", "k0,a", "--right-filter", "b >= 50"),
        ],
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    assert "rows joined in" in done.stdout and "hash table of the right side" in done.stdout
    assert pq.read_table(tmp_path / "o.parquet").column_names == ["k0", "a", "b", "b text"]


@pytest.mark.parametrize("memory", ["64KiB", None])
def test_traces_and_explanations(memory: str | None, tmp_path: Path) -> None:
    written(tmp_path, side("dense", 3000, 1, "a"), side("dense", 3000, 5, "b"))
    limit = ["-S", memory] if memory else []
    done = subprocess.run(
        [sys.executable, "-m", "linkwise", "join", "l.parquet", "r.parquet", "-o", "o.parquet", "--on", "k0", "--trace",
         "t.json", "--explain", *limit],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    told = " ".join(done.stderr.split())
    assert "3,000 rows joined in" in told and "left 1 file, about 0 MiB in memory" in told
    assert ("partitions by hashes" if memory else "hash table of the") in told and "look up" in told
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = {event["name"] for event in events if event["ph"] == "X"}
    assert {"decode", "table", "look up", "gather"} <= names and ("spill" in names) == (memory is not None)
    threads = {event["tid"] for event in events if event["ph"] == "M"}
    assert all(event["tid"] in threads and event["dur"] >= 0 for event in events if event["ph"] == "X")
