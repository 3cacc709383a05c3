"""Sorted rows as a stream of batches."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import linkwise

CPU: dict[str, Any] = {"strategy": "cpu"}


def rows(count: int = 1_000_000) -> pa.Table:
    draw = np.random.default_rng(6)
    return pa.table({"k": draw.permutation(count), "v": draw.random(count)})


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("linkwise")]


@pytest.mark.parametrize("memory", [None, "4MiB"])
def test_batches_are_the_rows_in_order(memory: str | None, tmp_path: Path) -> None:
    table = rows()
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet", table.to_reader(1000)):
        found = linkwise.sort_batches(source, by="k", host_memory_limit=memory, temporary_directory=tmp_path, **CPU)
        assert found.schema == table.schema
        assert found.read_all().equals(table.sort_by("k"))
    assert not workers()


def test_options() -> None:
    table = rows(1000)
    found = linkwise.sort_batches(table, by="v", descending=True, columns=["v"], filter="k < 500", limit=9, **CPU)
    expected = table.filter(pa.compute.field("k") < 500).sort_by([("v", "descending")]).select(["v"]).slice(0, 9)
    assert found.read_all().equals(expected)
    assert linkwise.sort_batches(table.slice(0, 0), by="k", **CPU).read_all().num_rows == 0


@pytest.mark.parametrize("memory", [None, "2MiB"])
@pytest.mark.parametrize("how", ["inner", "left", "full", "semi"])
def test_joins(how: Any, memory: str | None, tmp_path: Path) -> None:
    left, right = rows(100_000), rows(60_000).rename_columns(["k", "w"])
    expected = linkwise.join(left, right, "k", how=how).sort_by("k")
    pq.write_table(left, tmp_path / "l.parquet")
    found = linkwise.join_batches(
        tmp_path / "l.parquet", right, "k", how=how, host_memory_limit=memory, temporary_directory=tmp_path
    )
    assert found.read_all().sort_by("k").equals(expected)
    few = linkwise.join_batches(left, right, "k", left_columns=["k"], right_filter="w < 0.5", host_memory_limit=memory)
    assert (
        few.schema.names == ["k", "w"]
        and few.read_all().num_rows == pa.compute.sum(pa.compute.less(right["w"], 0.5)).as_py()
    )
    with pytest.raises(linkwise.UsageError, match="has no column .x."):
        linkwise.join_batches(left, right, "x")


def test_others_go_on_with_them() -> None:
    table = rows(10_000)
    assert duckdb.sql("select 1").fetchall() == [(1,)]
    batches = linkwise.sort_batches(table, by="k", **CPU)
    assert duckdb.from_arrow(batches).filter("k % 1000 = 0").fetchall()[3][0] == 3000
    frame = pl.from_arrow(linkwise.sort_batches(table, by="k", **CPU))
    assert isinstance(frame, pl.DataFrame) and frame["k"].is_sorted()


@pytest.mark.parametrize("memory", [None, "4MiB"])
def test_who_lets_go_of_them_ends_the_work(memory: str | None, tmp_path: Path) -> None:
    found = linkwise.sort_batches(rows(), by="k", host_memory_limit=memory, temporary_directory=tmp_path, **CPU)
    assert found.read_next_batch()["k"][0].as_py() == 0
    del found
    gc.collect()
    until = time.monotonic() + 30
    while workers() and time.monotonic() < until:
        time.sleep(0.01)
    assert not workers() and not list(tmp_path.iterdir())


def test_what_goes_wrong_is_raised_by_the_reader(tmp_path: Path) -> None:
    for wrong, told in (
        ({"by": "x"}, "there is no column 'x'"), ({"host_memory_limit": "much"}, "much"), ({"limit": -1}, "limit is -1")
    ):  # fmt: skip
        with pytest.raises(linkwise.UsageError, match=told):  # by the call
            linkwise.sort_batches(rows(10), **({"by": "k"} | wrong), **CPU)
    whole = rows(10)
    broken = pa.RecordBatchReader.from_batches(whole.schema, iter([whole.to_batches()[0], None]))
    with pytest.raises(Exception, match="cannot read the RecordBatchReader: "):
        linkwise.sort_batches(broken, by="k", **CPU).read_all()
    np.save(tmp_path / "numbers.npy", np.arange(9))
    with pytest.raises(linkwise.UsageError, match="batches are made of tables"):
        linkwise.sort_batches(tmp_path / "numbers.npy", **CPU)
