"""Outputs that are directories of files: by the values of columns, and of so many rows each."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import linkwise
from linkwise.files.writing import directory_writer

CPU: dict[str, Any] = {"strategy": "cpu"}


def trips(rows: int = 3000) -> pa.Table:
    draw = np.random.default_rng(4)
    days = [None if n % 7 == 6 else date(2024, 5, 1 + n % 7) for n in draw.integers(0, 50, rows)]
    return pa.table({
        "id": draw.permutation(rows), "day": pa.array(days), "zone": [f"z/{n % 3} é" for n in range(rows)],
        "fare": draw.random(rows),
    })  # fmt: skip


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "jsonl"])
@pytest.mark.parametrize("memory", [None, "256KiB"])
def test_files_of_so_many_rows(suffix: str, memory: str | None, tmp_path: Path) -> None:
    table = trips()
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=400)
    out = tmp_path / "out"
    linkwise.sort_file(
        tmp_path / "t.parquet", out, by="id", file_rows=700, output_format=suffix, host_memory_limit=memory, **CPU
    )
    assert names(out) == [f"part-{n:05}.{suffix}" for n in range(5)]
    expected = table.sort_by("id")
    if suffix == "parquet":
        lengths = [pq.read_metadata(out / name).num_rows for name in names(out)]
        assert lengths == [700, 700, 700, 700, 200]
        assert pa.concat_tables([pq.read_table(out / name) for name in names(out)]).equals(expected)
    linkwise.sort_file(out, tmp_path / "back.parquet", by="fare", **CPU)
    assert pq.read_table(tmp_path / "back.parquet")["id"].equals(table.sort_by("fare")["id"])


@pytest.mark.parametrize("by", [["day"], ["zone", "day"]])
@pytest.mark.parametrize("options", [{}, {"host_memory_limit": "256KiB"}, {"limit": 1000}, {"file_rows": 90}])
def test_directories_by_values(by: list[str], options: dict[str, Any], tmp_path: Path) -> None:
    table, out = trips(), tmp_path / "out"
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=400)
    linkwise.sort_file(tmp_path / "t.parquet", out, by="fare", partition_by=by, **options, **CPU)
    expected = table.sort_by("fare").slice(0, options.get("limit"))
    others = [name for name in table.column_names if name not in by]
    groups = expected.group_by(by).aggregate([]).to_pylist()
    told = pa.dataset.partitioning(pa.schema([table.schema.field(name) for name in by]), flavor="hive")
    found = pa.dataset.dataset(out, partitioning=told)
    for group in groups:

        def rows_of(whole: pa.Table, group: dict[str, Any] = group) -> pa.Table:
            for name, value in group.items():
                field = pa.compute.field(name)
                whole = whole.filter(field.is_null() if value is None else field == value)
            return whole.select(others)

        one = [f for f in found.get_fragments() if pa.dataset.get_partition_keys(f.partition_expression) == group]
        assert len(one) == (1 if "file_rows" not in options else -(-rows_of(expected).num_rows // 90))
        one.sort(key=lambda fragment: fragment.path)
        assert pa.concat_tables([f.to_table().select(others) for f in one]).equals(rows_of(expected))
    told_by_duckdb = duckdb.sql(f"select count(*), sum(id) from read_parquet('{out}/**/*.parquet')").fetchall()[0]
    assert told_by_duckdb == (expected.num_rows, pa.compute.sum(expected["id"]).as_py())
    linkwise.sort_file(out, tmp_path / "back.parquet", by="fare", **CPU)
    assert pq.read_table(tmp_path / "back.parquet").select(table.column_names).cast(table.schema).equals(expected)


def test_more_directories_than_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a limit come in any order of the directories."""
    monkeypatch.setattr(directory_writer, "_MOST_OPEN", 3)
    monkeypatch.setattr(directory_writer, "_AT_ONCE", 100)
    table = pa.table({"k": np.arange(2000), "p": np.arange(2000) * 7919 % 11})
    linkwise.sort_file(table, tmp_path / "out", by="k", partition_by="p", limit=1500, output_format="parquet", **CPU)
    found = pa.dataset.dataset(tmp_path / "out", partitioning="hive").to_table()
    assert found.sort_by("k")["k"].to_pylist() == list(range(1500))
    for p in range(11):
        keys = pa.concat_tables(
            pq.read_table(tmp_path / "out" / f"p={p}" / name) for name in names(tmp_path / "out" / f"p={p}")
        )
        assert keys["k"].to_pylist() == [k for k in range(1500) if k * 7919 % 11 == p]


def test_joins(tmp_path: Path) -> None:
    table, zones = trips(), pa.table({"zone": ["z/0 é", "z/1 é"], "name": ["a", "b"]})
    pq.write_table(table, tmp_path / "t.parquet")
    linkwise.join_file(tmp_path / "t.parquet", zones, tmp_path / "out", "zone", partition_by=["name"], file_rows=400)
    found = pa.dataset.dataset(tmp_path / "out", partitioning="hive").to_table()
    expected = linkwise.join(table, zones, "zone")
    assert found.sort_by("id").select(["id", "fare"]).equals(expected.sort_by("id").select(["id", "fare"]))
    assert {name.split("/")[0] for name in names(tmp_path / "out")} == {"name=a", "name=b"}


def test_no_rows(tmp_path: Path) -> None:
    for options in ({"partition_by": "day"}, {"file_rows": 5}):
        out = tmp_path / f"out {len(options)} {next(iter(options))}"
        linkwise.sort_file(trips().slice(0, 0), out, by="id", output_format="parquet", **options, **CPU)
        assert names(out) == ["part-00000.parquet"]
        assert pq.read_table(out / "part-00000.parquet").num_rows == 0


def test_text_that_is_carried_has_its_header_in_every_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("k,v\n3,1.10\n1,007\n2,x\n")
    linkwise.sort_file(tmp_path / "t.csv", tmp_path / "out", by="k", file_rows=2, **CPU)
    texts = [(tmp_path / "out" / name).read_text() for name in names(tmp_path / "out")]
    assert texts == ["k,v\n1,007\n2,x\n", "k,v\n3,1.10\n"]
    linkwise.sort_file(tmp_path / "t.csv", tmp_path / "by", by="v", partition_by="k", **CPU)
    assert (tmp_path / "by" / "k=1" / "part-00000.csv").read_text() == '"v"\n"007"\n'


def test_a_directory_appears_complete_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, out = trips(), tmp_path / "out"
    how: dict[str, Any] = {"by": "id", "file_rows": 500, "output_format": "parquet", **CPU}
    linkwise.sort_file(table, out, **how)
    with pytest.raises(linkwise.UsageError, match=r"out has files in it; name another directory, or replace it"):
        linkwise.sort_file(table, out, **how)
    before = {name: (out / name).read_bytes() for name in names(out)}
    write = directory_writer.DirectoryWriter.write

    def fail(*given: Any) -> None:
        write(*given)
        raise OSError("no space left")

    monkeypatch.setattr(directory_writer.DirectoryWriter, "write", fail)
    with pytest.raises(OSError, match="no space left"):
        linkwise.sort_file(table, out, force=True, **how)
    monkeypatch.undo()
    assert {name: (out / name).read_bytes() for name in names(out)} == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    linkwise.sort_file(table.slice(0, 100), out, force=True, **how)
    assert names(out) == ["part-00000.parquet"]
    left = tmp_path / ".out.0123abcd.linkwise-tmp"  # by a process that is gone
    left.mkdir()
    replaced = tmp_path / ".out.0123abcd.linkwise-old"  # by one that was killed before it had put another in its place
    replaced.mkdir()
    linkwise.sort_file(table, out, force=True, **how)
    assert not left.exists() and len(names(out)) == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == [replaced.name, "out"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"partition_by": "none"}, "there is no column 'none' to partition by; there are id, day"),
        ({"partition_by": ["id", "day", "zone", "fare"]}, "every column is partitioned by"),
        ({"file_rows": 0}, "a file has one row at least"),
    ],
)
def test_what_cannot_be_done_is_one_line(options: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(linkwise.UsageError, match=told):
        linkwise.sort_file(trips(), tmp_path / "out", by="id", output_format="parquet", **options, **CPU)
    (tmp_path / "file").write_text("")
    with pytest.raises(linkwise.UsageError, match="is a file; name a directory"):
        linkwise.sort_file(trips(), tmp_path / "file", by="id", file_rows=3, output_format="parquet", **CPU)
    with pytest.raises(linkwise.UsageError, match="write into a directory of this machine"):
        linkwise.sort_file(trips(), "-", by="id", file_rows=3, **CPU)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_commands(tmp_path: Path) -> None:
    pq.write_table(trips(), tmp_path / "t.parquet")

    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, "-m", "linkwise", *arguments], cwd=tmp_path, check=True)

    run("sort", "t.parquet", "-o", "out", "-k", "id", "--partition-by", "day,zone", "--strategy", "cpu")
    assert len(names(tmp_path / "out")) == 21
    run("join", "t.parquet", "t.parquet", "-o", "joined", "--on", "id", "--file-rows", "1000")
    assert len(names(tmp_path / "joined")) == 3
