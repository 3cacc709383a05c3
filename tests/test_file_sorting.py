"""Sorting files into files, in memory and by spilled runs, against NumPy and PyArrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import linkwise
from data import keys

CPU = {"strategy": "cpu"}  # what is tested here lies above the sorts
LITTLE = "200KiB"  # of host memory: many runs, and many blocks of each


def table(rows: int, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    key = pa.array(random.integers(-50, 50, rows), mask=random.random(rows) < 0.05)
    words = pa.array([f"word {i % 97}" for i in range(rows)])
    return pa.table({"key": key, "row": pa.array(np.arange(rows)), "word": words})


@pytest.mark.parametrize("memory", [None, LITTLE])
@pytest.mark.parametrize("nulls", ["first", "last"])
@pytest.mark.parametrize("descending", [False, True])
def test_parquet(tmp_path: Path, memory: str | None, nulls: Any, descending: bool) -> None:
    before = table(60_000)
    pq.write_table(before, tmp_path / "in.parquet", row_group_size=7000)
    spill = tmp_path / "spill"
    spill.mkdir()
    report = linkwise.sort_file(
        tmp_path / "in.parquet", tmp_path / "out.parquet", by="key", descending=descending, nulls=nulls,
        host_memory_limit=memory, temporary_directory=spill, **CPU,
    )  # fmt: skip
    expected = linkwise.sort(before, by="key", descending=descending, nulls=nulls, **CPU)
    after = pq.read_table(tmp_path / "out.parquet")
    assert after.equals(expected), "stable, nulls included"
    assert ("spilled" in report.spilled) == (memory is not None)
    assert report.rows == 60_000
    assert not list(spill.iterdir()), "a run was left behind"


@pytest.mark.parametrize("suffix", [".npy", ".bin"])
@pytest.mark.parametrize("distribution", ["uniform", "all_equal", "zipf", "sorted", "one_bit"])
@pytest.mark.parametrize("dtype", [np.float64, np.uint32, np.int8])
def test_arrays(tmp_path: Path, distribution: str, suffix: str, dtype: Any) -> None:
    data = keys(distribution if np.dtype(dtype).kind != "f" else "sorted", 150_000, dtype)
    source, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    if suffix == ".npy":
        np.save(source, data)
    else:
        data.tofile(source)
    report = linkwise.sort_file(source, out, host_memory_limit=LITTLE, dtype=np.dtype(dtype).name, **CPU)
    after = np.load(out) if suffix == ".npy" else np.fromfile(out, dtype)
    assert after.dtype == data.dtype and after.tobytes() == np.sort(data).tobytes()
    assert "spilled" in report.spilled


def test_the_gpus_of_a_simulated_machine_sort_batches(tmp_path: Path) -> None:
    data = keys("uniform", 100_000, np.uint32)
    np.save(tmp_path / "in.npy", data)
    report = linkwise.sort_file(
        tmp_path / "in.npy", tmp_path / "out.npy", host_memory_limit=LITTLE, machine="h200x8", strategy="radix"
    )
    assert (np.load(tmp_path / "out.npy") == np.sort(data)).all()
    assert report.simulated and report.verified and report.phases["HtoD"] > 0


def test_what_goes_wrong_leaves_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", keys("uniform", 100_000, np.uint32))
    (tmp_path / "out.npy").write_bytes(b"as it was")

    def fails(error: type[Exception], match: str, source: str = "in.npy", out: str = "out.npy", **more: Any) -> None:
        with pytest.raises(error, match=match):
            linkwise.sort_file(tmp_path / source, tmp_path / out, **{"host_memory_limit": LITTLE, **CPU, **more})

    fails(linkwise.UsageError, "name an existing directory", temporary_directory=tmp_path / "none")
    fails(linkwise.UsageError, "has no columns", by="x")
    fails(linkwise.UsageError, "cannot become", out="out.parquet")
    (tmp_path / "in.txt").touch()
    fails(linkwise.UsageError, "names? end in", source="in.txt")
    (tmp_path / "in.txt").unlink()
    fails(linkwise.UsageError, "not a size", host_memory_limit="much")
    fails(linkwise.Error, "cannot read", source="missing.npy")
    fails(linkwise.Error, "cannot write", out="none/out.npy")
    (tmp_path / "raw.bin").write_bytes(b"12345678")
    fails(linkwise.UsageError, "name the type", source="raw.bin", out="out.bin")
    fails(linkwise.UsageError, "no type 'u32x'", source="raw.bin", out="out.bin", dtype="u32x")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 torn")
    fails(linkwise.Error, "cannot read", source="torn.parquet", out="out.parquet", by="x")
    assert (tmp_path / "out.npy").read_bytes() == b"as it was"
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]


@pytest.mark.parametrize("memory", [None, LITTLE])
@pytest.mark.parametrize("by", ["key", ["word", "row"], ["key", "word"]])
def test_few_rows_are_fetched_when_their_keys_are_known(tmp_path: Path, by: Any, memory: str | None) -> None:
    """Of several files with many row groups; the same rows as of the whole sorted table."""
    whole = table(60_000)
    for number in range(3):
        part = whole[number * 20_000 : (number + 1) * 20_000]
        pq.write_table(part, tmp_path / f"in-{number}.parquet", row_group_size=900)
    for limit, descending, nulls in (
        (0, False, "last"),
        (1, True, "first"),
        (100, False, "first"),
        (3000, True, "last"),
    ):
        how: Any = {"by": by, "descending": descending, "nulls": nulls}
        report = linkwise.sort_file(
            str(tmp_path / "in-*.parquet"),
            tmp_path / "out.parquet",
            limit=limit,
            host_memory_limit=memory,
            **how,
            **CPU,
        )
        expected = linkwise.sort(whole, **how, **CPU)[:limit]
        assert pq.read_table(tmp_path / "out.parquet").equals(expected) and report.rows == 60_000
