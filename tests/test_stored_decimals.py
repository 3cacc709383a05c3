"""Decimals that are read, sorted and written as the integers that Parquet stores for them."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from io import BytesIO
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
from hypothesis import given, settings
from hypothesis import strategies as st

import linkwise
from linkwise import _core
from linkwise.encoders.parquet_writer import ParquetWriter
from linkwise.files import file_sort
from linkwise.files.reading.parquet.parquet_reader import ParquetReader

ROWS = 1 << 17


@pytest.fixture
def all_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of small files, and packed."""
    monkeypatch.setattr(file_sort, "_LEAST_STORED", 0)
    monkeypatch.setattr(file_sort, "WORTH_PACKING", 0)


def decimals(random: np.random.Generator, rows: int, kind: pa.DataType, nulls: float = 0.1) -> pa.Array:
    """Also the least and the greatest."""
    most = 10**kind.precision - 1
    numbers = [int(number) * most >> 62 for number in random.integers(-(1 << 62), 1 << 62, rows)]
    numbers[:2] = [most, -most][:rows]
    is_null = random.random(rows) < nulls
    values = [None if null else Decimal(f"{each}E-{kind.scale}") for each, null in zip(numbers, is_null, strict=True)]
    return pa.array(values, kind)


KINDS = {
    "d1": pa.decimal128(1, 0), "d9": pa.decimal128(9, 2), "d10": pa.decimal128(10, 9), "d18": pa.decimal128(18, 4),
    "d19": pa.decimal128(19, 4), "d38": pa.decimal128(38, 0), "wide": pa.decimal256(12, 3),
}  # fmt: skip


def table_of(rows: int, seed: int = 1, nulls: float = 0.1) -> pa.Table:
    random = np.random.default_rng(seed)
    columns = {name: decimals(random, rows, kind, nulls) for name, kind in KINDS.items()}
    flags = pa.array(["A", "N"]).take(pa.array(random.integers(0, 2, rows)))
    return pa.table({"k": random.integers(0, 50, rows), "flag": flags, **columns})


def sorted_by(table: pa.Table, *keys: tuple[str, str]) -> pa.Table:
    rows = pa.array(np.arange(table.num_rows))
    return table.take(pc.sort_indices(table.append_column("_", rows), [*keys, ("_", "ascending")]))


@given(st.integers(1, 8), st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=40), st.booleans())
def test_integers_of_bytes(width: int, numbers: list[int], narrow: bool) -> None:
    to = 4 if narrow and width <= 4 else 8
    numbers = [number >> (64 - 8 * width) for number in numbers]
    data = np.frombuffer(b"".join(number.to_bytes(width, "big", signed=True) for number in numbers), np.uint8)
    assert _core.decode_big_endian(data, width, to).view(f"i{to}").tolist() == numbers  # type: ignore[attr-defined]


def test_many_integers_of_bytes() -> None:
    numbers = np.random.default_rng(1).integers(-(1 << 55), 1 << 55, 200_000)
    data = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 1:].ravel()
    assert np.array_equal(_core.decode_big_endian(data, 7, 8).view(np.int64), numbers)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("size", "width", "to"), [(8, 0, 8), (9, 9, 8), (8, 8, 4), (8, 2, 2), (7, 2, 4)])
def test_what_cannot_be_decoded(size: int, width: int, to: int) -> None:
    with pytest.raises(linkwise.UsageError):
        _core.decode_big_endian(np.zeros(size, np.uint8), width, to)


@pytest.mark.usefixtures("all_stored")
@pytest.mark.parametrize("as_integer", [False, True])
def test_what_is_sorted_are_integers(as_integer: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the rows that are read to those that are encoded, keys included."""
    seen: list[dict[str, pa.DataType]] = []
    for owner, name in ((file_sort._Parts, "read"), (ParquetWriter, "_encoded")):
        method = getattr(owner, name)

        def see(self: Any, table: pa.Table, method: Any = method) -> Any:
            seen.append(dict(zip(table.schema.names, table.schema.types, strict=True)))
            return method(self, table)

        monkeypatch.setattr(owner, name, see)
    pq.write_table(table_of(300), tmp_path / "in.parquet", store_decimal_as_integer=as_integer)
    linkwise.sort_file(tmp_path / "in.parquet", tmp_path / "out.parquet", by="d18")
    assert len(seen) == 2
    for types in seen:
        assert [types[name] for name in ("d1", "d9", "d10", "d18")] == [pa.int32()] * 2 + [pa.int64()] * 2
        assert [types[name] for name in ("d19", "d38")] == [KINDS["d19"], KINDS["d38"]]


@pytest.mark.usefixtures("all_stored")
@pytest.mark.parametrize("as_integer", [False, True])
@settings(max_examples=20, deadline=None)
@given(rows=st.integers(0, 300), seed=st.integers(0, 999), nulls=st.sampled_from([0.0, 0.2, 1.0]), data=st.data())
def test_files_come_out_as_pyarrow_sorts_them(
    tmp_path_factory: pytest.TempPathFactory, as_integer: bool, rows: int, seed: int, nulls: float, data: Any
) -> None:
    folder = tmp_path_factory.mktemp("files")
    table = table_of(rows, seed, nulls)
    pq.write_table(table, folder / "in.parquet", row_group_size=70, store_decimal_as_integer=as_integer)
    key = data.draw(st.sampled_from([name for name in table.column_names if name != "flag"]))
    order = data.draw(st.sampled_from(["ascending", "descending"]))
    linkwise.sort_file(folder / "in.parquet", folder / "out.parquet", by=key, descending=order == "descending")
    found = pq.read_table(folder / "out.parquet")
    assert found.schema.equals(table.schema)
    assert found.equals(sorted_by(table, (key, order)))


def written(path: Path, table: pa.Table, by: str) -> None:
    if by == "pyarrow":
        pq.write_table(table, path, row_group_size=ROWS // 3)
    elif by == "duckdb":
        duckdb.from_arrow(table).write_parquet(str(path), row_group_size=ROWS // 3)
    else:
        pl.from_arrow(table).write_parquet(path, row_group_size=ROWS // 3)  # type: ignore[union-attr]


@pytest.mark.parametrize("by", ["pyarrow", "duckdb", "polars"])
def test_files_of_others(by: str, tmp_path: Path) -> None:
    """What is written is equal for all readers, and its statistics are those that PyArrow writes."""
    source, out, theirs = (tmp_path / f"{name}.parquet" for name in ("in", "out", "theirs"))
    written(source, table_of(ROWS).drop_columns(["wide"]), by)
    assert {"d10", "d18"} <= {*ParquetReader(source).storable(0).decimals} <= {"d1", "d9", "d10", "d18"}
    before = pq.read_table(source)
    expected = sorted_by(before, ("k", "ascending"))
    linkwise.sort_file(source, out, by="k", row_group_rows=ROWS)
    after = pq.read_table(out)
    assert after.schema.equals(expected.schema) and after.equals(expected)
    assert pl.read_parquet(out).equals(pl.from_arrow(expected))
    assert duckdb.read_parquet(str(out)).arrow().read_all().select(["d18", "d9"]).equals(expected.select(["d18", "d9"]))
    pq.write_table(expected, theirs, store_decimal_as_integer=True)
    for at, name in enumerate(expected.column_names):
        ours, like = (pq.read_metadata(path).row_group(0).column(at) for path in (out, theirs))
        assert ours.physical_type == like.physical_type, name
        for end in ("min_raw", "max_raw"):  # older versions of PyArrow cannot tell them as decimals
            assert getattr(ours.statistics, end) == getattr(like.statistics, end), name


@pytest.mark.usefixtures("all_stored")
@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"limit": 200}, lambda table: table.slice(0, 200)),
        ({"columns": ["k", "d18"]}, lambda table: table.select(["k", "d18"])),
        ({"filter": ds.field("d18") > Decimal(0)}, lambda table: table.filter(pc.field("d18") > Decimal(0))),
        ({"filter": ds.field("k") > 99}, lambda table: table.slice(0, 0)),
        ({"host_memory_limit": "16MB"}, lambda table: table),
        ({"verify": "all"}, lambda table: table),
        ({"dictionary": "all"}, lambda table: table),
        ({"dictionary": "none", "delta": False, "page_index": True}, lambda table: table),
    ],
)
def test_with_options(how: dict[str, Any], expected: Any, tmp_path: Path) -> None:
    table, source, out = table_of(400), tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(table, source, row_group_size=150)
    linkwise.sort_file(source, out, by="k", **how)
    wanted = expected(sorted_by(table, ("k", "ascending")))
    assert pq.read_table(out).equals(wanted) and pq.read_schema(out).equals(wanted.schema)


@pytest.mark.usefixtures("all_stored")
def test_what_has_a_field_of_its_name_inside(tmp_path: Path) -> None:
    """Decimals inside of structs and lists stay decimals, of whatever name."""
    table = table_of(500).select(["k", "d9", "d18"])
    inner = pa.StructArray.from_arrays([table["d18"].combine_chunks(), table["d9"].combine_chunks()], ["d18", "d9"])
    offsets = pa.array(range(501), pa.int32())
    table = table.add_column(0, "s", inner).append_column(
        "d10", pa.ListArray.from_arrays(offsets, table["d9"].combine_chunks())
    )
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=100)
    assert ParquetReader(tmp_path / "in.parquet").storable(0).decimals == ["d9", "d18"]
    linkwise.sort_file(tmp_path / "in.parquet", tmp_path / "out.parquet", by="k")
    assert pq.read_table(tmp_path / "out.parquet").equals(sorted_by(table, ("k", "ascending")))


@pytest.mark.usefixtures("all_stored")
def test_several_files(tmp_path: Path) -> None:
    """One is empty; one stores integers, and the others bytes."""
    parts = [table_of(300, 1), table_of(300, 2), table_of(0)]
    for number, part in enumerate(parts):
        pq.write_table(part, tmp_path / f"{number}.parquet", store_decimal_as_integer=number == 1)
    linkwise.sort_file([tmp_path / f"{number}.parquet" for number in range(3)], tmp_path / "out.parquet", by="d9")
    assert pq.read_table(tmp_path / "out.parquet").equals(sorted_by(pa.concat_tables(parts), ("d9", "ascending")))


def test_a_parquet_file_on_standard_output(tmp_path: Path) -> None:
    """It has the input's types, whatever the rows are read as."""
    table = table_of(ROWS).drop_columns(["wide"])
    pq.write_table(table, tmp_path / "in.parquet")
    command = [sys.executable, "-m", "linkwise", "sort", str(tmp_path / "in.parquet"), "-k", "k", "-o", "-"]
    done = subprocess.run([*command, "--output-format", "parquet"], check=True, capture_output=True)
    found = pq.read_table(BytesIO(done.stdout))
    assert found.schema.equals(table.schema) and found.equals(sorted_by(table, ("k", "ascending")))


@pytest.mark.usefixtures("all_stored")
@pytest.mark.parametrize("as_integer", [False, True])
def test_types_of_32_and_64_bits(as_integer: bool, tmp_path: Path) -> None:
    table = table_of(300)
    table = table.append_column("short", table["d9"].cast(pa.decimal32(9, 2)))
    table = table.append_column("long", table["d18"].cast(pa.decimal64(18, 4)))
    try:
        pq.write_table(table, tmp_path / "in.parquet", store_decimal_as_integer=as_integer)
    except pa.ArrowNotImplementedError:
        pytest.skip("this version of PyArrow does not write them")
    linkwise.sort_file(tmp_path / "in.parquet", tmp_path / "out.parquet", by="k")
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.schema.equals(table.schema)
    assert found.to_pylist() == sorted(table.to_pylist(), key=lambda row: row["k"])
