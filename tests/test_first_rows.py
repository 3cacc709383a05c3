"""Sorts of files with a limit: the same rows as of the whole sorted table, from no more row groups than are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import linkwise
from linkwise.files.reading.parquet import parquet_reader
from linkwise.runtime import parallel

CPU: Any = {"strategy": "cpu"}
GROUP = 70_000  # rows: so many are worth a core
CORES = 2
TYPES = [
    pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.date32(), pa.date64(), pa.time32("ms"),
    pa.time64("ns"), pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("s"),
    pa.duration("us"), pa.float64(), pa.string(),
]  # fmt: skip


def column(kind: pa.DataType, numbers: Any) -> pa.Array:
    """Numbers from -100 to 100 as values of a type, in the same order."""
    if pa.types.is_string(kind):
        return pa.array([f"{number + 1000:04}" for number in numbers])
    if pa.types.is_floating(kind):
        return pa.array(numbers, kind)
    if pa.types.is_unsigned_integer(kind):
        top = 2**kind.bit_width
        return pa.array([(number + top // 2) for number in np.asarray(numbers).tolist()], kind)  # around the sign bit
    if pa.types.is_date64(kind):
        return pa.array(np.asarray(numbers, np.int64) * 86_400_000).cast(kind)
    shifted = np.asarray(numbers) + (100 if pa.types.is_time(kind) else 0)
    return pa.array(shifted, pa.int32() if kind.bit_width <= 32 else pa.int64()).cast(kind)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The row groups that were decoded for their keys, in any order."""
    monkeypatch.setattr(parallel.os, "sched_getaffinity", lambda _: set(range(CORES)))
    groups: list[int] = []
    read, batches = pq.ParquetFile.read_row_group, pq.ParquetFile.iter_batches

    def read_row_group(file: Any, group: int, columns: Any = None, **how: Any) -> pa.Table:
        groups.append(group)
        return read(file, group, columns=columns, **how)

    def iter_batches(file: Any, *args: Any, row_groups: Any, columns: Any = None, **how: Any) -> Any:
        groups.extend(row_groups if columns == ["k"] else [])
        return batches(file, *args, row_groups=row_groups, columns=columns, **how)

    monkeypatch.setattr(parquet_reader.pq.ParquetFile, "read_row_group", read_row_group)
    monkeypatch.setattr(parquet_reader.pq.ParquetFile, "iter_batches", iter_batches)
    return groups


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_the_first_rows_are_those_of_the_whole_sorted_table(
    kind: pa.DataType, descending: bool, tmp_path: Path
) -> None:
    """Of two files, in rough order, with equal keys across row groups, and with nulls in some of them."""
    random = np.random.default_rng(descending)
    rough = np.clip(np.linspace(-100, 100, 4 * GROUP) + random.normal(0, 9, 4 * GROUP), -100, 100).astype(np.int64)
    keys = column(kind, rough if descending else rough[::-1])
    is_null = (np.arange(4 * GROUP) // GROUP == 2) & (random.random(4 * GROUP) < 0.01)
    with_nulls = pc.if_else(pa.array(is_null), pa.scalar(None, kind), keys)
    whole = pa.table({"k": with_nulls, "row": np.arange(4 * GROUP)})
    for at in range(2):
        part = whole.slice(at * 2 * GROUP, 2 * GROUP)
        pq.write_table(part, tmp_path / f"in-{at}.parquet", row_group_size=GROUP)
    for limit, nulls, memory in ((1, "first", None), (40, "last", None), (4000, "first", None), (4000, "last", "3MiB")):
        how: Any = {"by": "k", "descending": descending, "nulls": nulls, **CPU}
        report = linkwise.sort_file(
            str(tmp_path / "in-*.parquet"), tmp_path / "out.parquet", limit=limit, host_memory_limit=memory, **how
        )
        found, expected = pq.read_table(tmp_path / "out.parquet"), linkwise.sort(whole, **how)[:limit]
        assert found["row"].equals(expected["row"]) and report.rows == 4 * GROUP


@pytest.mark.parametrize("memory", [None, "4MiB"])
@pytest.mark.parametrize("descending", [False, True])
def test_row_groups_that_cannot_matter_are_not_decoded(
    descending: bool, memory: str | None, decoded: list[int], tmp_path: Path
) -> None:
    """As of a log, whose last entries are asked for."""
    rows = np.arange(12 * GROUP)
    times = pa.array(rows * 1000, pa.timestamp("us"))
    pq.write_table(pa.table({"k": times, "row": rows}), tmp_path / "in.parquet", row_group_size=GROUP)
    report = linkwise.sort_file(
        tmp_path / "in.parquet", tmp_path / "out.parquet", by="k", descending=descending, limit=10,
        host_memory_limit=memory, **CPU,
    )  # fmt: skip
    expected = rows[::-1][:10] if descending else rows[:10]
    assert pq.read_table(tmp_path / "out.parquet")["row"].to_pylist() == expected.tolist()
    assert report.rows == 12 * GROUP
    ahead = CORES + 1 if memory is None else 0
    best = range(11, -1, -1) if descending else range(12)
    assert decoded and set(decoded) <= set(best[: 1 + ahead])


def test_filtered_rows_of_a_table_in_rough_order(decoded: list[int], tmp_path: Path) -> None:
    """Only row groups are decoded in which there may be some of the first that pass; the others' rows do not count."""
    random = np.random.default_rng(5)
    rows = np.arange(12 * GROUP)
    whole = pa.table({"k": rows // 7, "v": random.random(len(rows)), "row": rows})
    pq.write_table(whole, tmp_path / "in.parquet", row_group_size=GROUP)
    report = linkwise.sort_file(
        tmp_path / "in.parquet", tmp_path / "out.parquet", by="k", filter="v < 0.01", limit=100, **CPU
    )
    passed = np.flatnonzero(whole["v"].to_numpy() < 0.01)
    assert pq.read_table(tmp_path / "out.parquet")["row"].to_pylist() == passed[:100].tolist()
    assert 0 < len(decoded) <= 2 + CORES and report.rows < len(passed)


def test_columns_that_are_read_as_another_type_have_other_statistics(tmp_path: Path) -> None:
    """Of files in different units, and of one that lacks the column."""
    seconds = [pa.array(np.arange(GROUP) + at * GROUP).cast(pa.timestamp("ms")) for at in range(3)]
    pq.write_table(pa.table({"k": seconds[0], "row": np.arange(GROUP)}), tmp_path / "a.parquet", row_group_size=GROUP)
    later = pa.table({"k": pa.chunked_array(seconds[1:]).cast(pa.timestamp("ns")), "row": np.arange(2 * GROUP)})
    pq.write_table(later, tmp_path / "b.parquet", row_group_size=GROUP)
    pq.write_table(pa.table({"row": np.arange(-3, 0)}), tmp_path / "c.parquet")
    out = tmp_path / "out.parquet"
    for descending, expected in ((True, [2 * GROUP - 1, 2 * GROUP - 2]), (False, [0, 1])):
        files = [str(tmp_path / f"{name}.parquet") for name in "abc"]
        linkwise.sort_file(files, out, by="k", descending=descending, limit=2, **CPU)
        assert pq.read_table(out)["row"].to_pylist() == expected
