"""How the cores divide the row groups and columns of a Parquet file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import linkwise
from linkwise.encoders import parquet_layout as layout
from linkwise.encoders.parquet_footer import metadata_of
from linkwise.encoders.thrift import I32, I64, LIST, STRUCT
from linkwise.files.reading.parquet import parquet_reader

GROUP = 70_000  # rows: so many are worth a core
GROUPS = 2


@pytest.mark.parametrize(("cores", "share_columns"), [(1, False), (2, True), (8, True)])
def test_columns_are_divided_where_row_groups_are_few(
    cores: int, share_columns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(1)
    rows = GROUPS * GROUP
    keys = random.permutation(rows)
    table = pa.table({"k": keys, "s": [f"city {at % 97}" for at in range(rows)]})
    path, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(table, path, row_group_size=GROUP)
    pq.write_table(pa.table({"k": np.arange(0, rows, 3)}), tmp_path / "keys.parquet")
    monkeypatch.setattr(parquet_reader.os, "sched_getaffinity", lambda _: set(range(cores)))
    told: list[bool] = []
    for name in ("read_row_group", "read_row_groups"):
        read = getattr(pq.ParquetFile, name)

        def noted(file: Any, *args: Any, read: Any = read, use_threads: bool = True, **how: Any) -> pa.Table:
            if file.metadata.num_row_groups == GROUPS:
                told.append(use_threads)
            return read(file, *args, use_threads=use_threads, **how)

        monkeypatch.setattr(pq.ParquetFile, name, noted)
    in_order = table.sort_by("k")

    def check(expected: pa.Table) -> None:
        assert pq.read_table(out).equals(expected)
        assert told and set(told) == {share_columns}
        told.clear()

    linkwise.sort_file(path, out, by="k", strategy="cpu")
    check(in_order)
    linkwise.sort_file(path, out, by="k", limit=50, strategy="cpu")
    check(in_order.slice(0, 50))
    linkwise.join_file(path, tmp_path / "keys.parquet", out, on="k", how="semi", strategy="cpu")
    check(table.take(np.flatnonzero(keys % 3 == 0)))


@pytest.mark.parametrize(
    ("field", "damaged"),
    [
        (layout.CODEC, (I32, 99)),
        (layout.CHUNK_TYPE, (I32, 99)),
        (16, (STRUCT, {2: (LIST, (I64, [])), 3: (LIST, (I64, [0] * 7))})),  # size statistics, with a level too many
    ],
)
@pytest.mark.parametrize("group", [0, 2])
def test_damaged_metadata_does_not_end_the_process(field: int, damaged: Any, group: int, tmp_path: Path) -> None:
    """PyArrow would end it when it is asked about such a chunk."""
    path, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"k": np.arange(3000), "s": ["t"] * 3000}), path, row_group_size=1000)
    file = path.read_bytes()
    metadata, begin = metadata_of(memoryview(file))
    chunk = metadata[layout.ROW_GROUPS][1][1][group][layout.COLUMNS][1][1][0]
    told = chunk[layout.CHUNK_METADATA][1] | {field: damaged}
    chunk[layout.CHUNK_METADATA] = STRUCT, dict(sorted(told.items()))
    path.write_bytes(file[:begin] + layout.tail_of(metadata))
    for more in ([], ["--filter", "k > 2500"], ["--limit", "3"], ["--columns", "k"]):
        command = [sys.executable, "-m", "linkwise", "sort", path, "-k", "k", "-o", out, *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done
        assert done.returncode == 0 or done.stderr.startswith("linkwise: cannot read ")
