"""Sorts and joins of what a program holds: batch readers, datasets, lazy frames, relations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import linkwise

CPU: dict[str, Any] = {"strategy": "cpu"}


def rows(count: int = 5000) -> pa.Table:
    draw = np.random.default_rng(7)
    return pa.table({"k": draw.permutation(count), "v": draw.random(count), "s": [f"s{n % 7}" for n in range(count)]})


def stream(table: pa.Table) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches(300)

    return pa.RecordBatchReader.from_batches(table.schema, batches())


def dataset(table: pa.Table, folder: Path) -> Any:
    folder = folder / f"set {len(list(folder.iterdir()))}"
    pa.dataset.write_dataset(table, folder, format="parquet", max_rows_per_file=1000, max_rows_per_group=500)
    return pa.dataset.dataset(folder)


SOURCES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "table": lambda table, _: table,
    "stream": lambda table, _: stream(table),
    "dataset": dataset,
    "scanner": lambda table, folder: dataset(table, folder).scanner(),
    "polars frame": lambda table, _: pl.from_arrow(table),
    "lazy frame": lambda table, _: pl.from_arrow(table).lazy(),  # type: ignore[union-attr]
    "relation": lambda table, _: duckdb.from_arrow(table),
    "pandas": lambda table, _: table.to_pandas(),
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("memory", [None, "64KiB"])
def test_sorts(kind: str, memory: str | None, tmp_path: Path) -> None:
    table = rows()
    source = SOURCES[kind](table, tmp_path)
    linkwise.sort_file(source, tmp_path / "o.parquet", by="k", host_memory_limit=memory, **CPU)
    found = pq.read_table(tmp_path / "o.parquet")
    assert found.cast(table.schema).equals(table.sort_by("k"))


@pytest.mark.parametrize("kind", SOURCES)
def test_columns_filters_and_limits(kind: str, tmp_path: Path) -> None:
    table = rows()
    expected = table.filter(pa.compute.field("s") == "s3").sort_by("k").select(["k", "v"]).slice(0, 50)
    source = SOURCES[kind](table, tmp_path)
    linkwise.sort_file(source, tmp_path / "o.parquet", by="k", columns=["k", "v"], filter="s = 's3'", limit=50, **CPU)
    assert pq.read_table(tmp_path / "o.parquet").equals(expected)


@pytest.mark.parametrize("kind", SOURCES)
def test_joins(kind: str, tmp_path: Path) -> None:
    table, other = rows(), pa.table({"k": np.arange(0, 9000, 3), "w": np.arange(3000)})
    expected = linkwise.join(table, other, "k", order="left")
    for left_columns in (None, ["k", "v"]):
        source = SOURCES[kind](table, tmp_path)
        linkwise.join_file(source, stream(other), tmp_path / "j.arrow", "k", left_columns=left_columns, order="left")
        with pa.memory_map(str(tmp_path / "j.arrow")) as file:
            found = pa.ipc.open_file(file).read_all()
        wanted = expected if left_columns is None else expected.select(["k", "v", "w"])
        assert found.cast(wanted.schema).equals(wanted)
    report = linkwise.join_file(SOURCES[kind](table, tmp_path), stream(other), None, "k")
    assert report.rows == expected.num_rows
    is_known = kind == "table"  # how large it is
    assert ("nobody knows whether a side fits" in report.reasons["held"]) == (not is_known)


def test_several_of_them_and_files(tmp_path: Path) -> None:
    table = rows(300)
    pq.write_table(table.slice(200), tmp_path / "t.parquet")
    sources = [table.slice(0, 100), tmp_path / "t.parquet", stream(table.slice(100, 100))]
    linkwise.sort_file(sources, tmp_path / "o.parquet", by="k", **CPU)
    assert pq.read_table(tmp_path / "o.parquet").equals(table.sort_by("k"))


def test_what_is_no_table(tmp_path: Path) -> None:
    for odd in (7, object(), pa.table):
        with pytest.raises(linkwise.UsageError, match="name files to read, not a"):
            linkwise.sort_file(odd, tmp_path / "o.parquet", by="k")
    with pytest.raises(linkwise.UsageError, match="name a file to write, not the Table"):
        linkwise.sort_file(rows(3), rows(3), by="k")  # type: ignore[arg-type]
    with pytest.raises(linkwise.UsageError, match=r"the Table: there is no column 'x'; there are 'k', 'v', 's'"):
        linkwise.sort_file(rows(3), tmp_path / "o.parquet", by="x")
    broken = pa.RecordBatchReader.from_batches(rows(3).schema, iter([rows(2).to_batches()[0], None]))
    with pytest.raises(linkwise.Error, match="cannot read the RecordBatchReader: "):
        linkwise.sort_file(broken, tmp_path / "o.parquet", by="k")
    assert not (tmp_path / "o.parquet").exists()
