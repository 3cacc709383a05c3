"""Directories of files as one table: by their names, with what their directories say, and with columns that differ."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import linkwise

CPU: dict[str, Any] = {"strategy": "cpu"}


def trips(rows: int = 3000) -> pa.Table:
    random = np.random.default_rng(2)
    return pa.table({
        "id": random.permutation(rows), "fare": random.random(rows), "zone": [f"z{n % 17}" for n in range(rows)],
        "day": pa.array([date(2024, 1, 1 + n % 5) for n in range(rows)]), "hour": pa.array(np.arange(rows) % 3),
    })  # fmt: skip


def partitioned(folder: Path, table: pa.Table, kind: str = "parquet") -> Path:
    by = pa.dataset.partitioning(pa.schema([table.schema.field("day"), table.schema.field("hour")]), flavor="hive")
    pa.dataset.write_dataset(table, folder, format=kind, partitioning=by, max_rows_per_group=100, max_rows_per_file=300)
    (folder / "_SUCCESS").write_text("")
    (folder / ".hidden.parquet").write_text("none")
    return folder


def in_order(table: pa.Table, by: str = "id") -> pa.Table:
    return table.sort_by(by)


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
@pytest.mark.parametrize("memory", [None, "256KiB"])
def test_partitioned_directories(kind: str, memory: str | None, tmp_path: Path) -> None:
    table = trips()
    folder = partitioned(tmp_path / "in", table, kind)
    linkwise.sort_file(folder, tmp_path / "o.arrow", by="id", host_memory_limit=memory, **CPU)
    with pa.memory_map(str(tmp_path / "o.arrow")) as source:
        found = pa.ipc.open_file(source).read_all()
    assert found.column_names == ["id", "fare", "zone", "day", "hour"]
    expected = in_order(table)
    assert found.cast(expected.schema).equals(expected)


def test_what_directories_say_is_sorted_filtered_and_joined_by(tmp_path: Path) -> None:
    table = trips()
    folder = partitioned(tmp_path / "in", table)
    linkwise.sort_file(folder, tmp_path / "o.parquet", by=["hour", "day", "id"], filter="day > '2024-01-03'", **CPU)
    wanted = table.filter(pa.compute.field("day") > date(2024, 1, 3))
    expected = wanted.sort_by([("hour", "ascending"), ("day", "ascending"), ("id", "ascending")])
    assert pq.read_table(tmp_path / "o.parquet").cast(expected.schema).equals(expected)
    days = pa.table({"day": pa.array([date(2024, 1, 2), date(2024, 1, 4)]), "name": ["tu", "th"]})
    pq.write_table(days, tmp_path / "days.parquet")
    for columns in (None, ["day", "id"]):
        linkwise.join_file(folder, tmp_path / "days.parquet", tmp_path / "j.parquet", "day", left_columns=columns)
        found = pq.read_table(tmp_path / "j.parquet")
        expected = linkwise.join(table if columns is None else table.select(columns), days, "day")
        assert found.sort_by("id").cast(expected.schema).equals(expected.sort_by("id").select(found.column_names))
    assert linkwise.join_file(folder, tmp_path / "days.parquet", None, "day").rows == 1200


def test_the_first_rows_of_a_directory(tmp_path: Path) -> None:
    table = trips(9000)
    folder = partitioned(tmp_path / "in", table)
    linkwise.sort_file(folder, tmp_path / "o.parquet", by="fare", descending=True, limit=7, **CPU)
    expected = table.sort_by([("fare", "descending")]).slice(0, 7)
    assert pq.read_table(tmp_path / "o.parquet").cast(expected.schema).equals(expected)


@pytest.mark.parametrize(
    ("values", "kind"),
    [(["1", "-20", "0"], pa.int64()), (["01", "2", "3"], pa.string()), (["2024-02-30", "2024-02-01", "x"], pa.string()),
     (["2024-02-29", "2024-02-01", "__HIVE_DEFAULT_PARTITION__"], pa.date32()), (["a%2Fb", "c d", "1"], pa.string())],
)  # fmt: skip
def test_types_of_what_directories_say(values: list[str], kind: pa.DataType, tmp_path: Path) -> None:
    for at, value in enumerate(values):
        (tmp_path / "in" / f"p={value}").mkdir(parents=True)
        pq.write_table(pa.table({"n": [at]}), tmp_path / "in" / f"p={value}" / "t.parquet")
    linkwise.sort_file(tmp_path / "in", tmp_path / "o.parquet", by="n", **CPU)
    found = pq.read_table(tmp_path / "o.parquet")
    assert found["p"].type == kind
    told = duckdb.sql(
        f"select p::varchar from read_parquet('{tmp_path}/in/*/*.parquet', hive_partitioning=true) order by n"
    )
    assert [None if v is None else str(v) for v in found["p"].to_pylist()] == [row[0] for row in told.fetchall()]


def differing(folder: Path) -> pa.Table:
    """Files whose columns differ in order, type, presence and encoding, and what they are together."""
    folder.mkdir()
    parts = [
        pa.table({"k": pa.array([3, 1], pa.int32()), "s": ["c", None], "x": pa.array([0.5, 1.5], pa.float32())}),
        pa.table({"s": pa.array(["b", "a"]).dictionary_encode(), "k": pa.array([2, 2**40], pa.int64())}),
        pa.table({"k": pa.array([5], pa.uint8()), "extra": [True], "x": [2.5], "s": pa.array(["e"], pa.large_utf8())}),
        pa.table({"s": pa.nulls(1), "k": pa.array([4], pa.int64()), "x": pa.nulls(1)}),
    ]  # fmt: skip
    for at, part in enumerate(parts):
        with pa.ipc.new_file(folder / f"{at}.arrow", part.schema) as out:
            out.write_table(part)
    return pa.table({
        "k": pa.array([1, 2, 3, 4, 5, 2**40]), "s": pa.array([None, "b", "c", None, "e", "a"], pa.large_string()),
        "x": pa.array([1.5, None, 0.5, None, 2.5, None]), "extra": [None, None, None, None, True, None],
    })  # fmt: skip


def test_columns_that_differ(tmp_path: Path) -> None:
    expected = differing(tmp_path / "in")
    for memory in (None, "64KiB"):
        linkwise.sort_file(tmp_path / "in", tmp_path / "o.parquet", by="k", host_memory_limit=memory, **CPU)
        assert pq.read_table(tmp_path / "o.parquet").cast(expected.schema).equals(expected)
    linkwise.sort_file(tmp_path / "in", tmp_path / "o.parquet", by="k", filter="x > 1 or extra is null", **CPU)
    kept = expected.filter((pa.compute.field("x") > 1) | pa.compute.field("extra").is_null())
    assert pq.read_table(tmp_path / "o.parquet").cast(expected.schema).equals(kept)
    linkwise.sort_file(tmp_path / "in", tmp_path / "o.parquet", by="k", columns=["extra", "k"], **CPU)
    assert pq.read_table(tmp_path / "o.parquet").equals(expected.select(["extra", "k"]))


def test_what_cannot_be_one_table_is_one_line(tmp_path: Path) -> None:
    expected = differing(tmp_path / "in")
    assert expected.num_rows == 6
    bad = pa.table({"k": ["text"]})
    with pa.ipc.new_file(tmp_path / "in" / "9.arrow", bad.schema) as out:
        out.write_table(bad)
    with pytest.raises(linkwise.UsageError, match=r"column 'k' is int64 in .*0\.arrow and string in .*9\.arrow"):
        linkwise.sort_file(tmp_path / "in", tmp_path / "o.parquet", by="k", **CPU)
    (tmp_path / "empty").mkdir()
    with pytest.raises(linkwise.UsageError, match="there is no table in the directory"):
        linkwise.sort_file(tmp_path / "empty", tmp_path / "o.parquet", by="k", **CPU)
    pa.csv.write_csv(pa.table({"k": [1]}), tmp_path / "in" / "t.csv")
    with pytest.raises(linkwise.UsageError, match="has tables of several formats, arrow, csv; name those of one"):
        linkwise.sort_file(tmp_path / "in", tmp_path / "o.parquet", by="k", **CPU)
    assert not (tmp_path / "o.parquet").exists()


def written(folder: Path, files: dict[str, pa.Table]) -> Path:
    for name, table in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / name)
    return folder


@pytest.mark.parametrize(
    ("files", "days"),
    [
        ({"a.parquet": {"k": [1]}, "day=2/b.parquet": {"k": [2]}}, [None, 2]),
        ({"day=3/h=1/a.parquet": {"k": [1]}, "h=1/day=2/b.parquet": {"k": [2]}}, [3, 2]),
        ({"day=9/a.parquet": {"k": [1], "day": [7]}, "day=2/b.parquet": {"k": [2]}}, [7, 2]),
        ({"day=9/a.parquet": {"k": [1], "day": [7]}, "day=9/b.parquet": {"k": [2], "day": [8]}}, [7, 8]),
    ],
)
def test_directories_that_differ(files: dict[str, Any], days: list[int | None], tmp_path: Path) -> None:
    folder = written(tmp_path / "in", {name: pa.table(columns) for name, columns in files.items()})
    linkwise.sort_file(folder, tmp_path / "o.parquet", by="k", **CPU)
    assert pq.read_table(tmp_path / "o.parquet")["day"].to_pylist() == days


@pytest.mark.parametrize("pattern", ["day=*", "*", "**", "**/*.parquet"])
def test_patterns_of_directories(pattern: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "in", {f"day={day}/a.parquet": pa.table({"k": [day]}) for day in (1, 2)})
    linkwise.sort_file(f"{folder}/{pattern}", tmp_path / "o.parquet", by="k", **CPU)
    assert pq.read_table(tmp_path / "o.parquet").to_pydict() == {"k": [1, 2], "day": [1, 2]}


def test_a_thousand_small_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    keys = np.random.default_rng(1).permutation(3000)
    for at in range(1000):
        pq.write_table(pa.table({"k": keys[3 * at : 3 * at + 3]}), tmp_path / "in" / f"{at:04}.parquet")
    linkwise.sort_file(tmp_path / "in", tmp_path / "o.parquet", by="k", **CPU)
    found = pq.ParquetFile(tmp_path / "o.parquet")
    assert found.read()["k"].to_pylist() == list(range(3000)) and found.num_row_groups == 1
    pq.write_table(pa.table({"k": np.arange(0, 3000, 2), "v": np.arange(1500)}), tmp_path / "r.parquet")
    report = linkwise.join_file(tmp_path / "in", tmp_path / "r.parquet", tmp_path / "j.parquet", "k")
    assert report.rows == 1500 and pq.ParquetFile(tmp_path / "j.parquet").num_row_groups == 1
