"""Joins whose results are large: refused with one line in memory, written in row groups to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import linkwise
from linkwise import UsageError

ROOM_FOR_INPUTS = 100_000  # bytes; the results take more


@pytest.mark.parametrize("where", [{"strategy": "cpu"}, {"machine": "dgx-a100"}])
def test_more_rows_than_memory_holds(where: dict[str, Any]) -> None:
    """10^10 and more, from few input rows: nothing is allocated, and they can be counted."""
    same = np.full(200_000, 7, np.int64)
    assert linkwise.join_count(same, same, **where) == 4 * 10**10
    for call in (
        lambda: linkwise.join_indices(same, same, **where),
        lambda: linkwise.join(pa.table({"k": same}), pa.table({"k": same}), "k", **where),
    ):
        with pytest.raises(UsageError, match="the join has 40000000000 rows, which take .* MiB where .* are free"):
            call()
    assert len(linkwise.join_indices(same, same, "semi", **where)[0]) == 200_000


@pytest.mark.parametrize("strategy", ["cpu", "radix"])
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "anti"])
def test_files_are_written_in_row_groups(how: Any, strategy: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    left = pa.table({"k": random.integers(0, 50, 900), "a": random.random(900)})
    right = pa.table({"k": random.integers(20, 70, 700), "b": [str(i) for i in range(700)]})
    for name, table in (("l", left), ("r", right)):
        pq.write_table(table, tmp_path / f"{name}.parquet")

    where: dict[str, Any] = {"machine": "auto" if strategy == "cpu" else "dgx-a100", "strategy": strategy}

    def joined(out: Path, memory: int | None) -> int:
        return linkwise.join_file(
            tmp_path / "l.parquet", tmp_path / "r.parquet", out, "k", how=how, host_memory_limit=memory, **where
        ).rows

    rows = joined(tmp_path / "whole.parquet", None)
    assert joined(tmp_path / "parts.parquet", ROOM_FOR_INPUTS) == rows
    whole, parts = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("whole", "parts"))
    assert whole.equals(parts)
    if how != "anti":
        assert pq.ParquetFile(tmp_path / "parts.parquet").num_row_groups > 3


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_few_rows_beside_many_that_are_spilled(how: Any, tmp_path: Path) -> None:
    """What is left of few rows comes in many parts, which are more runs than those few would be expected to take."""
    left = pa.table({"k": np.arange(100) * 400, "a": np.arange(100)})
    right = pa.table({"k": np.arange(0, 40_000, 8) // 800 * 800, "b": np.arange(5000)})
    feather.write_feather(left, tmp_path / "l.arrow")
    feather.write_feather(pa.concat_tables([right] * 8), tmp_path / "r.arrow", chunksize=150)
    linkwise.join_file(
        tmp_path / "l.arrow", tmp_path / "r.arrow", tmp_path / "o.arrow", "k", how=how, host_memory_limit="64KiB",
        strategy="cpu",
    )  # fmt: skip
    expected = left.take(np.arange(int(how == "anti"), 100, 2))
    assert feather.read_table(tmp_path / "o.arrow").equals(expected)
