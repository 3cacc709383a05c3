"""Spilled runs, as they are written, read back and merged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import linkwise
from linkwise.columns.sort_keys import SortKey
from linkwise.files.spilling.external_sort import SpillSort
from linkwise.files.spilling.spill_file import SpillFile


def batches_of(table: pa.Table, rows: int) -> list[pa.Table]:
    return [table.slice(first, rows) for first in range(0, table.num_rows, rows)]


def spilled(table: pa.Table, rows: int, memory: int) -> tuple[pa.Table, int, int]:
    """The sorted rows, how many runs were spilled, and how often rows were merged."""
    merges = 0

    def sort_batch(batch: pa.Table) -> pa.Table:
        nonlocal merges
        merges += 1
        return linkwise.sort(batch, by="k", strategy="cpu")

    sort = SpillSort([SortKey("k")], sort_batch, False, memory, table.nbytes, None)
    found: list[pa.Table] = []
    runs = sort.run(batches_of(table, rows), found.append)
    return pa.concat_tables(found), runs, merges - runs


@pytest.mark.parametrize("distinct", [1, 3, 100, 1 << 40])
def test_equal_keys_keep_their_order_over_runs_and_blocks(distinct: int) -> None:
    table = pa.table({"k": np.random.default_rng(1).integers(0, distinct, 120_000), "n": np.arange(120_000)})
    found, runs, _ = spilled(table, 5_000, table.nbytes // 3)
    assert runs == 24
    assert found.equals(linkwise.sort(table, by="k", strategy="cpu"))


def test_most_rows_in_memory_are_merged_at_once() -> None:
    """Merged a block of one run at a time, rows of random keys would be cut into parts of a few rows."""
    table = pa.table({"k": np.random.default_rng(1).integers(0, 1 << 40, 1_600_000), "n": np.arange(1_600_000)})
    found, runs, merges = spilled(table, 100_000, table.nbytes // 2)
    assert runs == 16
    assert found.equals(linkwise.sort(table, by="k", strategy="cpu"))
    assert merges <= 2 * (2 * 6)  # a sixth of the memory is read ahead, and at least half of that is merged


@pytest.mark.parametrize("shuffled", [False, True])
def test_runs_that_follow_each_other_are_merged_at_once(shuffled: bool) -> None:
    """Each run in turn has most of the memory; a block of each at a time, there would be hundreds of merges."""
    keys = np.arange(1_600_000).reshape(16, -1)
    order = np.random.default_rng(1).permutation(16) if shuffled else np.arange(16)
    table = pa.table({"k": keys[order].ravel(), "n": np.arange(1_600_000)})
    found, runs, merges = spilled(table, 100_000, table.nbytes // 2)
    assert runs == 16
    assert found.equals(linkwise.sort(table, by="k", strategy="cpu"))
    assert merges <= 2 * (2 * 6)


def test_more_runs_than_expected_are_merged_in_one_pass() -> None:
    """Up to twice as many; of more, some are merged first, and these rows once more."""
    table = pa.table({"k": np.random.default_rng(1).integers(0, 1 << 40, 1_600_000), "n": np.arange(1_600_000)})
    for rows, is_merged_twice in ((60_000, False), (30_000, True)):
        found, runs, merges = spilled(table, rows, table.nbytes // 2)
        assert runs == -(-1_600_000 // rows)
        assert found.equals(linkwise.sort(table, by="k", strategy="cpu"))
        assert (merges > 2 * (2 * 6)) is is_merged_twice


@pytest.mark.parametrize("columns", [1, 700])
def test_blocks_are_written_whole_however_little_is_written_at_once(columns: int, monkeypatch: Any) -> None:
    really_write = os.pwritev
    calls: list[int] = []

    def a_little(descriptor: int, pieces: list[memoryview], at: int) -> int:
        calls.append(len(pieces))
        assert len(pieces) <= os.sysconf("SC_IOV_MAX")
        return really_write(descriptor, [pieces[0][:1000], *([] if len(pieces[0]) > 1000 else pieces[1:700])], at)

    monkeypatch.setattr(os, "pwritev", a_little)
    table = pa.table({f"c{number}": np.arange(2_000) * number for number in range(columns)})
    with SpillFile(None) as file:
        runs = [file.write(table.schema, batches_of(table, 512)) for _ in range(2)]
        for run in runs:
            assert [chunk.size > 0 for chunk in run.chunks] == [True] * 5  # four blocks, and the end of the stream
            blocks = list(file.read(run))
            assert [block.num_rows for block in blocks] == [512, 512, 512, 464]
            assert pa.concat_tables(blocks).equals(table)
    assert len(calls) >= 2 * 5


def test_a_run_that_was_cut_off_is_found(tmp_path: Path) -> None:
    table = pa.table({"k": np.arange(5_000)})
    with SpillFile(tmp_path) as file:
        run = file.write(table.schema, batches_of(table, 1_000))
        os.truncate(file._file.fileno(), 30_000)
        with pytest.raises(linkwise.CorruptDataError, match="is not what was written"):
            list(file.read(run))
