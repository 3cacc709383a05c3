"""Joins of files neither of which fits into memory, by partitions, against DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import linkwise
from join_oracle import HOWS, KEYS, oracle, rows_of, side, written
from linkwise.files.spilling import grace_join

LITTLE: dict[str, Any] = {"host_memory_limit": "128KiB"}


@pytest.fixture
def spill(tmp_path: Path) -> Path:
    (tmp_path / "spill").mkdir()
    return tmp_path / "spill"


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("how", HOWS)
def test_rows_are_those_of_duckdb(how: Any, kind: str, spill: Path, tmp_path: Path) -> None:
    sizes = (3000, 2000) if how in ("inner", "right", "semi") else (2000, 3000)
    left, right = side(kind, sizes[0], 1, "a"), side(kind, sizes[1], 5, "b")
    if kind not in ("dense", "two columns"):  # or there would be very many matches
        left = left.set_column(0, "k0", pa.chunked_array([spread(left["k0"], 40)]))
        right = right.set_column(0, "k0", pa.chunked_array([spread(right["k0"], 40)]))
    paths = written(tmp_path, left, right)
    keys = [name for name in left.column_names if name.startswith("k")]
    report = linkwise.join_file(*paths, tmp_path / "o.parquet", keys, how=how, temporary_directory=spill, **LITTLE)
    assert "partitions by hashes" in report.strategy and not list(spill.iterdir())
    found, expected = pq.read_table(tmp_path / "o.parquet"), oracle(left, right, how)
    assert rows_of(found) == expected
    counted = linkwise.join_file(*paths, None, keys, how=how, temporary_directory=spill, host_memory_limit="16KiB")
    assert counted.rows == report.rows == len(expected) and not list(spill.iterdir())


def spread(column: pa.ChunkedArray, share: int) -> pa.Array:
    """Most of the values are null."""
    keep = np.arange(len(column)) % share == 0
    return pa.compute.if_else(pa.array(keep), column.combine_chunks(), None)


def test_partitions_inside_of_partitions(spill: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grace_join, "_MOST_PARTITIONS", 2)
    levels: list[int] = []
    of = grace_join.GraceJoin.of.__func__  # type: ignore[attr-defined]

    def watched(kind: Any, join: Any, directory: Any, level: int = 0) -> Any:
        levels.append(level)
        return of(kind, join, directory, level)

    monkeypatch.setattr(grace_join.GraceJoin, "of", classmethod(watched))
    left, right = side("dense", 6000, 1, "a"), side("dense", 5000, 5, "b")
    paths = written(tmp_path, left, right)
    for how in HOWS:
        linkwise.join_file(*paths, tmp_path / "o.parquet", "k0", how=how, temporary_directory=spill, **LITTLE)
        assert rows_of(pq.read_table(tmp_path / "o.parquet")) == oracle(left, right, how)
    assert max(levels) == 3


@pytest.mark.parametrize("how", HOWS)
def test_a_key_with_most_rows_is_joined_otherwise(how: Any, spill: Path, tmp_path: Path) -> None:
    keys = np.where(np.arange(4000) % 4 == 0, np.arange(4000), 77)
    left = pa.table({"k0": keys, "a": np.arange(4000), "a text": ["a"] * 4000})
    right = pa.table({"k0": np.where(np.arange(3000) < 2997, 77, 5), "b": np.arange(3000), "b text": ["b"] * 3000})
    right = right.filter(pa.compute.field("b") > 2950) if how not in ("semi", "anti") else right
    right = pa.concat_tables([right, side("dense", 5000, 2, "b").filter(pa.compute.field("k0") > 100)])
    paths = written(tmp_path, left, right)
    report = linkwise.join_file(*paths, tmp_path / "o.parquet", "k0", how=how, temporary_directory=spill, **LITTLE)
    assert "partitions by hashes" in report.strategy and not list(spill.iterdir())
    assert rows_of(pq.read_table(tmp_path / "o.parquet")) == oracle(left, right, how)


@pytest.mark.parametrize("validate", ["1:m", "m:1"])
def test_keys_that_may_occur_once_only(validate: Any, spill: Path, tmp_path: Path) -> None:
    once, often = side("dense", 4000, 1, "a"), side("int64", 4000, 5, "a")
    sides = (once, often) if validate == "1:m" else (often, once)
    how: dict[str, Any] = {"validate": validate, "temporary_directory": spill, **LITTLE}
    report = linkwise.join_file(*written(tmp_path, *sides), tmp_path / "o.parquet", "k0", suffix="_r", **how)
    assert report.rows == len(linkwise.join(*sides, "k0")) and "partitions" in report.strategy
    with pytest.raises(linkwise.UsageError, match="a key occurs more than once on the"):
        linkwise.join_file(*written(tmp_path, *sides[::-1]), tmp_path / "n.parquet", "k0", suffix="_r", **how)
    assert not (tmp_path / "n.parquet").exists() and not list(spill.iterdir())


def test_nulls_that_match_and_progress(spill: Path, tmp_path: Path) -> None:
    left, right = side("string", 3000, 1, "a"), side("string", 2500, 5, "b")
    left = left.set_column(0, "k0", pa.chunked_array([spread(left["k0"], 50)])).slice(0, 2000)
    right = right.set_column(0, "k0", pa.chunked_array([spread(right["k0"], 2)]))
    seen: list[float] = []
    report = linkwise.join_file(
        *written(tmp_path, left, right), tmp_path / "o.parquet", "k0", how="semi", nulls_equal=True,
        temporary_directory=spill, on_progress=seen.append, **LITTLE,
    )  # fmt: skip
    assert rows_of(pq.read_table(tmp_path / "o.parquet")) == oracle(left, right, "semi", nulls_equal=True)
    assert report.rows and seen == sorted(seen) and seen[-1] == 1.0
