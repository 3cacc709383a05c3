"""Parquet files whose row groups were encoded apart: what PyArrow, DuckDB and Polars read in them."""

from __future__ import annotations

import datetime
import io
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import linkwise
from linkwise import UsageError
from linkwise.columns.sort_keys import SortKey
from linkwise.encoders.parquet_footer import JoinedFile, metadata_of
from linkwise.encoders.parquet_options import ParquetOptions
from linkwise.encoders.parquet_writer import ParquetWriter
from linkwise.encoders.thrift import parse, serialised

ROWS = 5000
RANDOM = np.random.default_rng(5)


def some_null(values: Any, kind: pa.DataType) -> pa.Array:
    return pa.array([None if at % 7 == 3 else value for at, value in enumerate(values)], kind)


def every_type() -> pa.Table:
    numbers = RANDOM.integers(0, 1 << 30, ROWS)
    day = datetime.date(2020, 1, 1)
    structs = [{"a": int(value), "b.c": str(value)} for value in numbers]
    kinds = [pa.int8(), pa.uint16(), pa.int64(), pa.float32()]
    columns = {
        **{str(kind): some_null((numbers % 100).tolist(), kind) for kind in kinds},
        "unique": pa.array(RANDOM.permutation(ROWS)),
        "bool": some_null((numbers % 2 == 0).tolist(), pa.bool_()),
        "text": some_null([f"t{value}" for value in numbers], pa.string()),
        "large": some_null([f"t{value % 10}" for value in numbers], pa.large_string()),
        "binary": some_null([bytes([value % 256]) * 3 for value in numbers], pa.binary()),
        "fixed": pa.array([bytes([value % 256]) * 4 for value in numbers], pa.binary(4)),
        "decimal": some_null(numbers.tolist(), pa.decimal128(20, 2)),
        "date": some_null([day + datetime.timedelta(int(value % 999)) for value in numbers], pa.date32()),
        "time": some_null((numbers % 86400).tolist(), pa.time64("us")),
        "when": some_null(numbers.tolist(), pa.timestamp("us", "UTC")),
        "list": some_null([list(range(value % 4)) for value in numbers], pa.list_(pa.int32())),
        "struct": some_null(structs, pa.struct({"a": pa.int64(), "b.c": pa.string()})),
        "a.b": pa.array(numbers),
        "map": some_null([[("k", int(value))] for value in numbers], pa.map_(pa.string(), pa.int64())),
        "category": some_null([f"c{value % 5}" for value in numbers], pa.string()).dictionary_encode(),
        "none": pa.nulls(ROWS, pa.int32()),
    }  # fmt: skip
    return pa.table(columns)


TABLE = every_type()
PLAIN = pa.schema([field.with_type(pa.string()) if field.name == "category" else field for field in TABLE.schema])


def write(table: pa.Table, path: Path, options: ParquetOptions, **how: Any) -> pq.FileMetaData:
    given = {"codecs": {}, "keys": (), "memory": 1 << 30} | how
    with path.open("wb") as file:
        writer = ParquetWriter(file, table.schema, options, **given)
        for first in range(0, table.num_rows, 700):
            writer.write_table(table.slice(first, 700))
        writer.close()
    return pq.read_metadata(path)


@pytest.mark.parametrize("dictionary", ["auto", "all", "none"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd:1", "gzip", "lz4", "brotli:2"])
def test_every_type_is_read_back(codec: str, dictionary: Any, tmp_path: Path) -> None:
    duckdb, pl = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    table = TABLE
    path = tmp_path / "t.parquet"
    options = ParquetOptions(codec, 1500, dictionary, page_index=True)
    metadata = write(table, path, options)
    assert metadata.num_row_groups == 4 and metadata.num_rows == ROWS
    whole = pq.read_table(path, page_checksum_verification=True)
    assert whole.schema.equals(table.schema)
    # Dictionaries are those of row groups, so that their values are compared.
    assert whole.cast(PLAIN).equals(table.cast(PLAIN))
    groups = pq.ParquetFile(path).read_row_groups([2, 1])
    assert groups.cast(PLAIN).equals(pa.concat_tables([table[3000:4500], table[1500:3000]]).cast(PLAIN))
    plain = table.drop_columns(["map", "category", "fixed", "time"])
    assert pl.read_parquet(path).select(plain.column_names).equals(pl.from_arrow(plain))
    sums = 'select sum("unique"), count(text), max("list"[2]), sum("struct".a), epoch_us(min("when")) from'
    assert duckdb.sql(f"{sums} '{path}'").fetchall() == duckdb.sql(f"{sums} plain").fetchall()
    few = duckdb.sql(f'select "a.b" from \'{path}\' where "unique" between 100 and 200 order by "unique"').fetchall()
    order = np.argsort(table["unique"].to_numpy())[100:201]
    assert [row[0] for row in few] == table["a.b"].to_numpy()[order].tolist()


def test_no_rows_and_no_columns(tmp_path: Path) -> None:
    for table in (TABLE[:0], pa.table({}), TABLE[:1]):
        write(table, tmp_path / "t.parquet", ParquetOptions())
        assert pq.read_table(tmp_path / "t.parquet").equals(table)


def test_what_readers_may_rely_on(tmp_path: Path) -> None:
    """Row groups are numbered and lie one behind the other; they have statistics and what was asked for."""
    table = pa.table({"k": np.arange(ROWS), "t": [f"{at:06}" for at in range(ROWS)]})
    path = tmp_path / "t.parquet"
    metadata = write(
        table, path, ParquetOptions(row_group_rows=1000), codecs={"k": "ZSTD", "t": "UNCOMPRESSED"}, keys=[SortKey("k")]
    )
    assert metadata.num_row_groups == 5
    position = 4
    for number in range(5):
        group = metadata.row_group(number)
        assert group.sorting_columns == (pq.SortingColumn(0, False, False),)
        columns = [group.column(at) for at in range(2)]
        assert [column.compression for column in columns] == ["ZSTD", "UNCOMPRESSED"]
        assert (columns[0].statistics.min, columns[0].statistics.max) == (number * 1000, number * 1000 + 999)
        for column in columns:
            begin = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
            assert begin == position
            position += column.total_compressed_size
    parsed, _ = metadata_of(memoryview(path.read_bytes()))
    assert [group[7][1] for group in parsed[4][1][1]] == list(range(5))


def offset_indexes(data: bytes) -> list[list[int]]:
    """The offsets of all pages, by the chunk."""
    metadata, _ = metadata_of(memoryview(data))
    chunks = [chunk for group in metadata[4][1][1] for chunk in group[1][1][1]]
    indexes = [parse(data[chunk[4][1] : chunk[4][1] + chunk[5][1]])[0] for chunk in chunks]
    return [[page[1][1] for page in index[1][1][1]] for index in indexes]


def test_page_indexes_and_bloom_filters_move_along(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    table = pa.table({"k": RANDOM.permutation(20_000), "t": [f"{at}" for at in range(20_000)]})
    parts = []
    for first in range(0, 20_000, 6000):
        out = pa.BufferOutputStream()
        bloom = {"k": {"ndv": 6000, "fpp": 0.01}, "t": {"ndv": 6000, "fpp": 0.01}}
        pq.write_table(
            table.slice(first, 6000), out, write_page_index=True, bloom_filter_options=bloom, data_page_size=4096,
            use_dictionary=False, write_batch_size=256,
        )  # fmt: skip
        parts.append(memoryview(out.getvalue()))
    empty = pa.BufferOutputStream()
    pq.write_table(table[:0], empty)
    joined = JoinedFile(memoryview(empty.getvalue()))
    data = b"".join([joined.begin(), *(bytes(joined.add(part, {})) for part in parts), joined.end()])
    path = tmp_path / "t.parquet"
    path.write_bytes(data)
    assert pq.read_table(path).equals(table)
    for part, of_pages in zip(parts, zip(*[iter(offset_indexes(data))] * 2, strict=True), strict=True):
        before = offset_indexes(bytes(part))
        assert len(before[0]) > 3
        for old, new in zip(before, of_pages, strict=True):  # the bytes of each page are where its index says
            for a, b in zip(old, new, strict=True):
                assert data[b : b + 20] == bytes(part[a : a + 20])
    # DuckDB skips row groups by Bloom filters; each value is found by them, others are not there.
    for value in (0, 7777, 19_999):
        assert duckdb.sql(f"select count(*) from '{path}' where t = '{value}'").fetchall() == [(1,)]
        assert duckdb.sql(f"select count(*) from '{path}' where k = {value}").fetchall() == [(1,)]
    probed = duckdb.sql(f"select bloom_filter_excludes from parquet_bloom_probe('{path}', 't', '5')").fetchall()
    assert [row[0] for row in probed] == [False, True, True, True]


@pytest.mark.slow
def test_damaged_metadata_is_an_error_and_nothing_else() -> None:
    """Whatever the bytes, they are parsed, or a ``ValueError`` says that they cannot be; and come back as they were."""
    out = pa.BufferOutputStream()
    pq.write_table(TABLE, out, row_group_size=1000, write_page_index=True)
    file = out.getvalue().to_pybytes()
    size = int.from_bytes(file[-8:-4], "little")
    metadata = file[-8 - size : -8]
    parsed, used = parse(metadata)
    assert used == size and serialised(parsed) == metadata
    random = Random(0)
    for _ in range(3000):
        damaged = bytearray(metadata[: random.choice((size, random.randrange(size)))])
        for _ in range(random.randint(0, 4) if damaged else 0):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        try:
            found, _ = parse(bytes(damaged))
        except ValueError as error:
            assert "damaged metadata" in str(error)
            continue
        assert parse(serialised(found))[0] == found
    for data in (b"", b"PAR1", b"PAR1PAR1", b"PAR1" + b"\xff" * 4 + b"PAR1", file[:-1]):
        with pytest.raises(ValueError, match="damaged"):
            metadata_of(memoryview(data))


def test_options_of_sort_file(tmp_path: Path) -> None:
    table = pa.table({"k": RANDOM.integers(0, 9, 3000), "v": np.arange(3000)})
    pq.write_table(table, tmp_path / "t.parquet", compression="gzip")
    out = tmp_path / "o.parquet"
    linkwise.sort_file(tmp_path / "t.parquet", out, by="k", strategy="cpu")
    assert pq.read_metadata(out).row_group(0).column(0).compression == "GZIP"
    linkwise.sort_file(
        tmp_path / "t.parquet", out, by="k", strategy="cpu",
        compression="zstd:5", row_group_rows=1000, dictionary="none", page_index=True,
    )  # fmt: skip
    metadata = pq.read_metadata(out)
    assert metadata.num_row_groups == 3 and metadata.row_group(0).column(0).compression == "ZSTD"
    assert metadata.row_group(2).column(1).has_offset_index and not metadata.row_group(0).column(0).has_dictionary_page
    for wrong in (
        lambda: ParquetOptions("zip"), lambda: ParquetOptions("zstd:99"), lambda: ParquetOptions("snappy:1"),
        lambda: ParquetOptions(row_group_rows=0), lambda: ParquetOptions(dictionary="some"),  # type: ignore[arg-type]
    ):  # fmt: skip
        with pytest.raises(UsageError):
            wrong()


@pytest.mark.parametrize("codec", ["snappy", "zstd", "none"])
def test_a_join_compresses_the_columns_of_both_sides(codec: str, tmp_path: Path) -> None:
    """As those of the left side are, also those that are renamed or inside of others."""
    left = pa.table({"k": np.arange(1000), "v": np.arange(1000)})
    right = left.append_column("s", pa.array([{"a": at, "b": [at]} for at in range(1000)]))
    pq.write_table(left, tmp_path / "left.parquet", compression=codec)
    pq.write_table(right, tmp_path / "right.parquet")
    out = tmp_path / "out.parquet"
    linkwise.join_file(tmp_path / "left.parquet", tmp_path / "right.parquet", out, "k")
    group = pq.read_metadata(out).row_group(0)
    found = {group.column(at).path_in_schema: group.column(at).compression for at in range(group.num_columns)}
    assert found == dict.fromkeys(
        ("k", "v", "v_right", "s.a", "s.b.list.element"), {"none": "UNCOMPRESSED"}.get(codec, codec.upper())
    )


@pytest.mark.skipif(not hasattr(pa, "decimal32"), reason="this PyArrow has no narrow decimals")
@pytest.mark.parametrize("kind", ["decimal32", "decimal64"])
def test_narrow_decimals(kind: str, tmp_path: Path) -> None:
    """Of which PyArrow does not count the distinct values."""
    values = pa.array(RANDOM.integers(0, 9, 100_000)).cast(pa.decimal128(19, 0)).cast(getattr(pa, kind)(5, 1))
    table = pa.table({"v": values})
    write(table, tmp_path / "t.parquet", ParquetOptions())
    assert pq.read_table(tmp_path / "t.parquet").equals(table)


def test_row_groups_end_together() -> None:
    writer = ParquetWriter(
        io.BytesIO(), pa.schema([("k", pa.int64())]), ParquetOptions(), codecs={}, keys=[], memory=1 << 30
    )
    for rows in (1, 1000, 1 << 17, 144_000, 300_000, 1 << 20, 20_000_000):
        at_once = writer.rows_of_parts(rows)
        parts = -(-rows // at_once)
        assert at_once <= writer.part_rows
        assert parts == 1 or rows // parts >= 1 << 17
    assert writer.rows_of_parts(0) == 1
