"""String columns with few distinct values, which are sorted as codes and written with dictionaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import linkwise
from linkwise.columns.string_codes import StringCodes
from linkwise.encoders import parquet_layout as layout
from linkwise.encoders.parquet_footer import metadata_of
from linkwise.encoders.thrift import parse
from linkwise.files import file_sort
from linkwise.files.reading.parquet.parquet_reader import ParquetReader

ROWS = 1 << 17


def random_strings(rng: np.random.Generator, values: list[Any], rows: int, nulls: float = 0.1) -> pa.Array:
    at = rng.integers(0, len(values), rows)
    return pa.array(values).take(pa.array(at, mask=rng.random(rows) < nulls))


def table_of(rows: int = ROWS, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({
        "k": rng.integers(0, 1 << 40, rows), "flag": random_strings(rng, ["A", "N", "R"], rows, 0.0),
        "city": random_strings(rng, [f"city {n}" for n in range(300)], rows),
        "raw": random_strings(rng, [b"\x00", b"\xff\xfe", b""], rows), "name": [f"name {n}" for n in range(rows)],
        "none": pa.nulls(rows, pa.string()), "v": rng.random(rows),
    })  # fmt: skip


chunks = st.lists(
    st.tuples(st.lists(st.binary(max_size=4), unique=True, max_size=5), st.lists(st.integers(-1, 4), max_size=20)),
    min_size=1, max_size=4,
)  # fmt: skip


@given(chunks, st.integers(0, 3), st.integers(1, 3))
def test_codes_and_back(parts: list[tuple[list[bytes], list[int]]], skipped: int, apart: int) -> None:
    """Each part has a dictionary of its own; slices of the codes have those values that they need, in order."""
    codes = StringCodes(["s"])
    plain, coded = [], []
    for values, indices in parts:
        which = [None if at < 0 or at >= len(values) else at for at in indices]
        column = pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), pa.array(values, pa.binary()))
        column = column.slice(min(skipped, len(column)))
        plain.append(column.cast(pa.binary()))
        coded.append(codes.coded(pa.table({"s": column, "v": pa.nulls(len(column), pa.int8())})))
    table = pa.concat_tables(coded)
    assert table.schema.field("s").type == pa.int32()
    whole = pa.chunked_array(plain, pa.binary())
    for first in range(0, table.num_rows + 1, apart):
        found = codes.with_dictionaries(table.slice(first, apart))["s"]
        assert found.type == pa.dictionary(pa.int32(), pa.binary())
        assert found.to_pylist() == whole.slice(first, apart).to_pylist()
        for chunk in found.chunks:
            chunk.validate(full=True)
            values = chunk.dictionary.to_pylist()
            assert values == sorted(values)
            assert chunk.null_count or {*values} == {*chunk.to_pylist()}


@pytest.mark.parametrize("nulls", [False, True])
def test_an_index_that_the_dictionary_lacks(nulls: bool) -> None:
    indices = pa.array([0, 1, 2, None] if nulls else [0, 1, 2, 0], pa.int32())
    damaged = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
    with pytest.raises(pa.ArrowInvalid, match="an index"):
        StringCodes(["s"]).coded(pa.table({"s": damaged}))


def written(path: Path, table: pa.Table, by: str) -> None:
    if by == "pyarrow":
        pq.write_table(table, path, row_group_size=ROWS // 3, use_dictionary=["flag", "city", "raw", "none"])
    elif by == "duckdb":
        duckdb.from_arrow(table).write_parquet(str(path), row_group_size=ROWS // 3)
    else:
        pl.from_arrow(table).write_parquet(path, row_group_size=ROWS // 3)  # type: ignore[union-attr]


@pytest.mark.parametrize("by", ["pyarrow", "duckdb", "polars"])
def test_files_of_others(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is as if there were no codes, and equal for all readers."""
    coded: list[list[str]] = []
    monkeypatch.setattr(file_sort, "StringCodes", lambda names: coded.append(names) or StringCodes(names))
    table, source, out = table_of(), tmp_path / "in.parquet", tmp_path / "out.parquet"
    written(source, table, by)
    assert {"flag", "city"} <= {*ParquetReader(source).storable(0).strings} < {*table.column_names}
    before = pq.read_table(source)
    expected = before.take(pc.sort_indices(before["k"]))
    for how in ({}, {"verify": "all"}, {"dictionary": "none"}, {"columns": ["k", "city", "flag"]}):
        linkwise.sort_file(source, out, by="k", **how)
        wanted = expected.select(how.get("columns", table.column_names))  # type: ignore[arg-type]
        assert bool(coded) == ("verify" not in how) and all({"flag", "city"} <= {*names} for names in coded)
        coded.clear()
        after = pq.read_table(out)
        assert after.schema.equals(wanted.schema) and after.equals(wanted)
        assert pl.read_parquet(out).equals(pl.from_arrow(wanted))
        assert duckdb.read_parquet(str(out)).arrow().read_all().column("city").to_pylist() == wanted["city"].to_pylist()


def test_the_same_file_each_time(tmp_path: Path) -> None:
    """Codes are given in whatever order row groups are decoded; the file does not tell."""
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(table_of(), source, row_group_size=ROWS // 16)
    files = set()
    for _ in range(4):
        linkwise.sort_file(source, out, by="k")
        files.add(out.read_bytes())
    assert len(files) == 1


def test_a_part_has_the_values_that_occur_in_it(tmp_path: Path) -> None:
    table, source, out = table_of(), tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(table, source)
    linkwise.sort_file(source, out, by=["flag", "k"], row_group_rows=ROWS // 8)
    expected = tmp_path / "expected.parquet"
    by_flag = table.take(pc.sort_indices(table, [("flag", "ascending"), ("k", "ascending")]))
    pq.write_table(by_flag, expected, row_group_size=ROWS // 8)
    for path in (out, expected):
        assert pq.read_table(path).equals(by_flag)
    statistics = [
        [pq.read_metadata(path).row_group(group).column(2).statistics for group in range(8)] for path in (out, expected)
    ]
    assert statistics[0] == statistics[1]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"limit": ROWS // 2}, lambda table: table.slice(0, ROWS // 2)),
        ({"filter": ds.field("city") == "city 7"}, lambda table: table.filter(pc.field("city") == "city 7")),
        ({"filter": ds.field("v") < 0.5}, lambda table: table.filter(pc.field("v") < 0.5)),
        ({"host_memory_limit": "16MB"}, lambda table: table),
    ],
)
def test_with_options(how: dict[str, Any], expected: Any, tmp_path: Path) -> None:
    table, source, out = table_of(), tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(table, source, row_group_size=ROWS // 4)
    linkwise.sort_file(source, out, by="k", **how)
    assert pq.read_table(out).equals(expected(table.take(pc.sort_indices(table["k"]))))


def test_several_files_and_text(tmp_path: Path) -> None:
    """Only what has few distinct values in all files is coded; other formats get strings."""
    parts = [table_of(seed=1), table_of(seed=2)]
    parts[1] = parts[1].set_column(2, "city", pa.array([f"{n} elsewhere" for n in range(ROWS)]))
    for number, part in enumerate(parts):
        pq.write_table(part.drop_columns(["raw", "none"]), tmp_path / f"{number}.parquet")
    whole = pa.concat_tables(parts).drop_columns(["raw", "none"])
    expected = whole.take(pc.sort_indices(whole["k"]))
    sources = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for suffix in ("parquet", "arrow"):
        out = tmp_path / f"out.{suffix}"
        linkwise.sort_file(sources, out, by="k")
        assert (pq.read_table(out) if suffix == "parquet" else pa.ipc.open_file(out).read_all()).equals(expected)


def test_codes_that_take_more_room_as_strings(tmp_path: Path) -> None:
    """Without a dictionary and without compression, far more than the rows have taken in memory."""
    strings = pa.array([f"{n:0150}" for n in range(8)]).take(pa.array(np.arange(ROWS) % 8))
    table = pa.table({"k": np.random.default_rng(1).permutation(ROWS), "s": strings})
    pq.write_table(table, tmp_path / "in.parquet")
    linkwise.sort_file(tmp_path / "in.parquet", tmp_path / "out.parquet", by="k", dictionary="none", compression="none")
    assert (tmp_path / "out.parquet").stat().st_size > 150 * ROWS
    assert pq.read_table(tmp_path / "out.parquet").equals(table.take(pc.sort_indices(table["k"])))


def test_columns_of_one_name(tmp_path: Path) -> None:
    """They are neither coded nor fetched alone, as nothing tells them apart."""
    table = table_of().select(["k", "flag", "city"]).rename_columns(["k", "s", "s"])
    pq.write_table(table, tmp_path / "in.parquet")
    for limit in (None, 9):
        linkwise.sort_file(tmp_path / "in.parquet", tmp_path / "out.parquet", by="k", limit=limit)
        expected = table.take(pc.sort_indices(table["k"])).slice(0, limit)
        assert pq.ParquetFile(tmp_path / "out.parquet").read().equals(expected)


def test_strings_that_are_no_text(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are carried as they are."""
    offsets = pa.py_buffer(np.arange(ROWS + 1, dtype=np.int32))
    letters = np.random.default_rng(1).choice(np.array([0x41, 0xFF, 0xC3], np.uint8), ROWS)
    text = pa.Array.from_buffers(pa.string(), ROWS, [None, offsets, pa.py_buffer(letters)])
    keys = np.random.default_rng(2).permutation(ROWS)
    pq.write_table(pa.table({"k": keys, "s": text}), tmp_path / "in.parquet")
    linkwise.sort_file(tmp_path / "in.parquet", tmp_path / "out.parquet", by="k")
    found = pq.read_table(tmp_path / "out.parquet")["s"].cast(pa.binary())
    assert b"".join(found.to_pylist()) == letters[np.argsort(keys)].tobytes()


def test_page_indexes_tell_the_values_of_each_page(tmp_path: Path) -> None:
    """The least and the greatest of each, though PyArrow gets numbers and a dictionary."""
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    rows = np.arange(ROWS)
    city = pa.array([f"city {row // 500:03}" for row in rows])
    shuffled = np.random.default_rng(1).permutation(ROWS)
    pq.write_table(pa.table({"k": shuffled, "city": city.take(pa.array(shuffled))}), source)
    linkwise.sort_file(source, out, by="k", page_index=True, row_group_rows=ROWS // 2)
    whole = out.read_bytes()
    metadata, _ = metadata_of(memoryview(whole))
    first = pages = 0
    for group in metadata[layout.ROW_GROUPS][1][1]:
        chunk = group[layout.COLUMNS][1][1][1]
        index, offsets = (
            parse(whole[chunk[at][1] : chunk[at][1] + chunk[size][1]])[0]
            for at, size in (
                (layout.COLUMN_INDEX, layout.COLUMN_INDEX_SIZE), (layout.OFFSET_INDEX, layout.OFFSET_INDEX_SIZE),
            )
        )  # fmt: skip
        begins = [first + page[3][1] for page in offsets[layout.PAGES][1][1]]
        first += group[layout.GROUP_ROWS][1]
        for begin, end, least, greatest in zip(
            begins, [*begins[1:], first], index[2][1][1], index[3][1][1], strict=True
        ):
            assert (least, greatest) == (city[begin].as_py().encode(), city[end - 1].as_py().encode())
            pages += 1
    assert first == ROWS and pages > 2


def test_statistics_are_those_that_pyarrow_writes(tmp_path: Path) -> None:
    """Though PyArrow is not asked for those of strings, which take it longer than all else."""
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    random = np.random.default_rng(4)
    words = ["", "a", "\u00e9", "z", "\U0001f600", "b" * 9, None]
    text = pa.array([words[at] for at in random.integers(0, len(words), ROWS)])
    table = pa.table({
        "k": random.permutation(ROWS), "text": text, "raw": text.cast(pa.binary()), "long": ["l" * 5000] * ROWS,
        "null": pa.nulls(ROWS, pa.string()), "same": pa.array(["x"] * ROWS), "list": [[1]] * ROWS,
        "number": np.arange(ROWS),
    })  # fmt: skip
    pq.write_table(table, source)
    linkwise.sort_file(source, out, by="k", row_group_rows=ROWS // 3)
    found = pq.ParquetFile(out)
    assert found.read().equals(linkwise.sort(table, by="k"))
    told = 0
    for group in range(found.num_row_groups):
        pq.write_table(found.read_row_group(group), tmp_path / "one.parquet")
        expected = pq.read_metadata(tmp_path / "one.parquet").row_group(0)
        for at in range(expected.num_columns):
            ours, theirs = (each.column(at).statistics for each in (found.metadata.row_group(group), expected))
            assert (ours.null_count, ours.has_min_max) == (theirs.null_count, theirs.has_min_max)
            if theirs.has_min_max:
                assert (ours.min, ours.max) == (theirs.min, theirs.max)
                told += 1
    assert told == 6 * found.num_row_groups
