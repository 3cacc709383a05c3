"""Which encoding each column of a Parquet file has, and what readers find in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import linkwise
from linkwise.encoders.parquet_encodings import Encoding, encoding_of
from linkwise.encoders.parquet_options import ParquetOptions
from test_parquet_writer import write

ROWS = 100_000
RANDOM = np.random.default_rng(17)
UNIQUE = RANDOM.permutation(ROWS)
OF_FEW = RANDOM.integers(0, 1000, ROWS)
WIDE = RANDOM.integers(-(1 << 63), (1 << 63) - 1, ROWS)
CENTS = pa.array(RANDOM.integers(100, 50_000, ROWS))


def decimals(precision: int) -> pa.Array:
    return CENTS.cast(pa.decimal128(21, 0)).cast(pa.decimal128(precision, 2), safe=False)


COLUMNS: dict[str, tuple[Any, Encoding]] = {
    "few": (OF_FEW, "dictionary"),
    "runs": (np.sort(OF_FEW % 50), "dictionary"),
    "texts of few": (pa.array([f"city {value}" for value in OF_FEW]), "dictionary"),
    "bytes": (UNIQUE.astype(np.uint8), "dictionary"),
    "nulls": (pa.nulls(ROWS, pa.int64()), "dictionary"),
    "texts": (pa.array([f"city {value}" for value in UNIQUE]), "plain"),
    "bools": (OF_FEW % 2 == 0, "plain"),
    "floats": (RANDOM.random(ROWS), "plain"),
    "any integers": (WIDE, "plain"),
    "any unsigned": (WIDE.astype(np.uint32), "plain"),
    "long decimals": (pa.array(UNIQUE).cast(pa.decimal128(19, 0)), "plain"),
    "days in milliseconds": (pa.array(UNIQUE * 86_400_000, pa.date64()), "plain"),
    "unique": (UNIQUE, "delta"),
    "sorted": (np.sort(UNIQUE), "delta"),
    "sorted, with nulls": (pa.array(np.sort(UNIQUE), mask=WIDE % 3 == 0), "delta"),
    "sorted unsigned": (np.sort(WIDE.astype(np.uint32)), "delta"),
    "sorted, of 64 bits": (np.sort(WIDE.view(np.uint64)), "delta"),
    "descending": (np.sort(WIDE)[::-1].copy(), "delta"),
    "repeated": (np.tile(np.arange(2000), ROWS // 2000), "delta"),
    "decimals": (decimals(18), "delta"),
    "short decimals": (decimals(9), "delta"),
    "dates": (pa.array(UNIQUE.astype(np.int32), pa.date32()), "delta"),
    "seconds": (pa.array(np.sort(UNIQUE), pa.timestamp("s")), "delta"),
    "times": (pa.array(np.linspace(0, 86_399, ROWS).astype(np.int32), pa.time32("s")), "delta"),
    "durations": (pa.array(np.sort(WIDE), pa.duration("us")), "delta"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_encoding_that_takes_the_least_space(name: str, tmp_path: Path) -> None:
    """It is chosen, it is what the file has, and it is not larger than the others by much."""
    values, expected = COLUMNS[name]
    column = pa.chunked_array([values])
    assert encoding_of(column) == expected
    assert encoding_of(pa.chunked_array([values[:333], values[333:70_000], values[70_000:]])) == expected
    assert encoding_of(column, dictionary=False, delta=False) == "plain"
    sizes = {}
    kinds = {
        "auto": ParquetOptions("none"), "all": ParquetOptions("none", dictionary="all"),
        "none": ParquetOptions("none", dictionary="none"), "no delta": ParquetOptions("none", delta=False),
    }  # fmt: skip
    for how, options in kinds.items():
        chunk = write(pa.table({"v": column}), tmp_path / "t.parquet", options).row_group(0).column(0)
        sizes[how] = chunk.total_compressed_size
        if how == "auto":
            assert chunk.has_dictionary_page == (expected == "dictionary")
            assert ("DELTA_BINARY_PACKED" in chunk.encodings) == (expected == "delta")
        if how == "no delta":
            assert "DELTA_BINARY_PACKED" not in chunk.encodings
        assert pq.read_table(tmp_path / "t.parquet")["v"].cast(column.type).equals(column)  # Parquet has no seconds
    assert sizes["auto"] <= 1.25 * min(sizes.values())
    if expected == "delta":
        assert sizes["auto"] < 0.8 * sizes["no delta"]


def test_what_is_delta_encoded_is_read_by_others(tmp_path: Path) -> None:
    duckdb, pl = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    names = [name for name, (_, encoding) in COLUMNS.items() if encoding == "delta"]
    table = pa.table({name: COLUMNS[name][0] for name in names})
    path = tmp_path / "t.parquet"
    metadata = write(table, path, ParquetOptions(page_index=True, row_group_rows=30_000))
    for group in range(metadata.num_row_groups):
        assert all("DELTA_BINARY_PACKED" in metadata.row_group(group).column(at).encodings for at in range(len(names)))
    assert pq.read_table(path).cast(table.schema).equals(table)
    of_polars = pl.read_parquet(path)
    assert of_polars.equals(pl.from_arrow(table).cast(of_polars.schema))  # seconds become milliseconds
    plain = table.drop_columns(["seconds", "times", "durations"])  # which DuckDB reads as numbers
    ours, theirs = f"from '{path}'", "from plain"
    for name in plain.column_names:
        of_column = f'select min("{name}"), max("{name}"), count("{name}"), bit_xor(hash("{name}"))'
        assert duckdb.sql(f"{of_column} {ours}").fetchall() == duckdb.sql(f"{of_column} {theirs}").fetchall()


def test_rows_are_taken_from_what_is_delta_encoded(tmp_path: Path) -> None:
    """A limit fetches few rows of a file of Linkwise's own."""
    table = pa.table({"k": UNIQUE, "v": np.arange(ROWS), "w": WIDE})
    pq.write_table(table, tmp_path / "t.parquet")
    linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.parquet", by="v", strategy="cpu", descending=True)
    linkwise.sort_file(tmp_path / "o.parquet", tmp_path / "few.parquet", by="k", limit=7, strategy="cpu")
    order = np.argsort(UNIQUE)[:7]
    assert pq.read_table(tmp_path / "few.parquet").equals(table.take(order))


def test_no_delta(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": UNIQUE}), tmp_path / "t.parquet")
    for delta in (True, False):
        linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.parquet", by="k", strategy="cpu", delta=delta)
        encodings = pq.read_metadata(tmp_path / "o.parquet").row_group(0).column(0).encodings
        assert ("DELTA_BINARY_PACKED" in encodings) == delta


@given(st.data())
def test_any_integers(data: st.DataObject) -> None:
    """Of any type, with nulls, in any order: what is written is read back."""
    kind = data.draw(st.sampled_from([pa.int8(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]))
    bits, low = kind.bit_width, 0 if pa.types.is_unsigned_integer(kind) else -(1 << kind.bit_width - 1)
    least = data.draw(st.integers(low, low + (1 << bits) - 1))
    greatest = data.draw(st.integers(least, low + (1 << bits) - 1))
    draws = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    dtype = np.uint64 if kind == pa.uint64() else np.int64
    values = draws.integers(least, greatest, data.draw(st.integers(256, 5000)), dtype=dtype, endpoint=True)
    if data.draw(st.booleans()):
        values = np.sort(values)
    column = pa.chunked_array([pa.array(values, kind, mask=draws.random(len(values)) < data.draw(st.floats(0, 1)))])
    encoding = encoding_of(column.slice(data.draw(st.integers(0, 3))))
    out = pa.BufferOutputStream()
    deltas = {"column_encoding": {"k": "DELTA_BINARY_PACKED"}} if encoding == "delta" else {}
    pq.write_table(pa.table({"k": column}), out, use_dictionary=encoding == "dictionary", **deltas)
    assert pq.read_table(pa.BufferReader(out.getvalue()))["k"].equals(column)


def test_nulls_among_strings_do_not_make_a_dictionary_look_small() -> None:
    texts = [f"{at:0200}" for at in range(10_000)]
    is_there = RANDOM.random(1 << 18) < 0.3
    picked = RANDOM.integers(0, len(texts), 1 << 18)
    values = [texts[at] if there else None for at, there in zip(picked, is_there, strict=True)]
    for kind in (pa.string(), pa.large_string()):
        assert encoding_of(pa.chunked_array([values], kind)) == "plain"
