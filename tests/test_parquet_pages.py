"""A few rows of Parquet files, of which single pages are decoded."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import linkwise
from linkwise import _core
from linkwise.encoders.thrift import parse
from linkwise.files.reading.parquet import pages, parquet_file
from linkwise.files.reading.parquet.checked_chunks import CheckedChunks
from linkwise.files.reading.parquet.pages import PageReader
from linkwise.files.reading.parquet.parquet_reader import ParquetReader
from test_parquet_writer import ROWS, TABLE

GROUP = 1500
NESTED = {"list", "struct", "map"}


@pytest.fixture
def _no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes no single values."""
    monkeypatch.setattr(pages, "_FEW", 1 << 60)


@pytest.fixture
def _always(_no_values: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decodes single pages even if these are all."""
    monkeypatch.setattr(pages, "_WORTH_IT", 0)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Of each column that was asked for, whether single pages were decoded."""
    columns: dict[str, bool] = {}
    find = PageReader.find

    def noted(reader: PageReader, name: str, wanted: Any) -> Any:
        part = find(reader, name, wanted)
        columns[name] = part is not None
        return part

    monkeypatch.setattr(PageReader, "find", noted)
    return columns


def some_rows(seed: int, count: int = 6) -> Any:
    return np.sort(np.random.default_rng(seed).choice(ROWS, count, replace=False)).astype(np.int64)


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip", "brotli", "lz4"])
def test_single_pages_are_decoded(codec: str, version: str, tmp_path: Path, found: dict[str, bool]) -> None:
    table, path = TABLE.drop_columns(["a.b"]), tmp_path / "t.parquet"
    for dictionary in (False, True):
        pq.write_table(
            table, path, row_group_size=GROUP, compression=codec, use_dictionary=dictionary,
            data_page_version=version, data_page_size=500, write_batch_size=50, write_page_checksum=not dictionary,
            store_schema=dictionary,
        )  # fmt: skip
        whole = pq.read_table(path)
        for seed, memory in ((3, None), (4, 1 << 20), (5, None)):
            found.clear()
            rows = some_rows(seed)
            fetched = ParquetReader(path).fetch(rows, memory)
            assert fetched.equals(whole.take(rows)) and fetched.schema.equals(whole.schema)
            assert set(found) == set(table.column_names)
            in_groups = {name for name, by_pages in found.items() if not by_pages}
            if codec == "lz4":
                assert in_groups == set(found)
            elif memory is None:
                assert in_groups == NESTED
            else:  # narrow columns have all rows of a row group on one page, which are too many
                assert NESTED <= in_groups < set(found)


def test_names_that_could_mean_other_columns(tmp_path: Path, found: dict[str, bool]) -> None:
    """With a dot, a name could be that of a field of a struct."""
    pq.write_table(TABLE, tmp_path / "t.parquet", row_group_size=GROUP)
    fetched = ParquetReader(tmp_path / "t.parquet").fetch(some_rows(6), None)
    assert fetched.equals(pq.read_table(tmp_path / "t.parquet").take(some_rows(6)))
    assert not found


@pytest.mark.usefixtures("_no_values")
def test_pages_are_decoded_only_where_they_are_few(tmp_path: Path, found: dict[str, bool]) -> None:
    """Texts have pages of 10 rows, numbers of 256, and a dictionary is needed as a whole."""
    names = np.array([f"{at % 2500:04}" * 50 for at in range(ROWS)])
    table = pa.table({"k": np.arange(ROWS), "text": ["x" * 200] * ROWS, "name": names})
    pq.write_table(
        table,
        tmp_path / "t.parquet",
        use_dictionary=["name"],
        data_page_size=2000,
        write_batch_size=1,
        compression="none",
    )
    for rows, expected in ((1, {"k", "text"}), (9, {"k", "text"}), (90, {"text"}), (1000, set())):
        found.clear()
        wanted = some_rows(7, rows)
        fetched = ParquetReader(tmp_path / "t.parquet").fetch(wanted, None)
        assert fetched.equals(table.take(wanted))
        assert {name for name, by_pages in found.items() if by_pages} == expected


@pytest.mark.usefixtures("_always")
def test_little_memory(tmp_path: Path, found: dict[str, bool]) -> None:
    """Pages that would not fit are decoded one after the other."""
    table = pa.table({"k": np.arange(ROWS), "text": ["x" * 200] * ROWS})
    pq.write_table(table, tmp_path / "t.parquet", use_dictionary=False, data_page_size=2000, write_batch_size=1)
    for rows, memory, by_pages in ((1, 1 << 20, {"k", "text"}), (9, 1 << 20, {"text"}), (9, 1 << 10, set())):
        found.clear()
        wanted = some_rows(8, rows)
        assert ParquetReader(tmp_path / "t.parquet").fetch(wanted, memory).equals(table.take(wanted))
        assert {name for name, single in found.items() if single} == by_pages


@pytest.mark.usefixtures("_no_values")
def test_few_of_the_rows_that_pass_a_filter(
    tmp_path: Path, found: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their other columns are on few of the pages, unlike those of many rows, which are decoded at once."""
    monkeypatch.setattr(PageReader, "may_take", lambda *_: False)
    random = np.random.default_rng(3)
    table = pa.table({"k": random.random(ROWS), "v": random.random(ROWS), "row": np.arange(ROWS)})
    path, out = tmp_path / "t.parquet", tmp_path / "out.parquet"
    pq.write_table(table, path, row_group_size=GROUP, use_dictionary=False, data_page_size=500, write_batch_size=50)
    monkeypatch.setattr(parquet_file, "_LONG_PAGE", 500)
    passed = table.filter(pc.field("v") < 0.5).sort_by("k")
    for limit, by_pages in ((6, {"row"}), (100, set())):
        found.clear()
        linkwise.sort_file(path, out, by="k", filter="v < 0.5", limit=limit, strategy="cpu")
        assert pq.read_table(out).equals(passed.slice(0, limit))
        assert {name for name, single in found.items() if single} == by_pages


def written_by(writer: str, folder: Path) -> tuple[pa.Table, Path]:
    """Flat columns, and a Parquet file of them by DuckDB, Polars or Linkwise. Skips the test without that library."""
    plain, path = TABLE.drop_columns(["a.b", "category", "struct", "map", "list", "none"]), folder / "t.parquet"
    if writer == "duckdb":
        pytest.importorskip("duckdb").from_arrow(plain).write_parquet(str(path), row_group_size=2048)
    elif writer == "polars":
        polars = pytest.importorskip("polars")
        polars.from_arrow(plain).write_parquet(path, row_group_size=GROUP, data_page_size=600)
    else:
        pq.write_table(plain, folder / "in.parquet")
        linkwise.sort_file(folder / "in.parquet", path, by="unique", row_group_rows=GROUP, strategy="cpu")
    return plain, path


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("writer", ["duckdb", "polars", "linkwise"])
def test_files_of_other_writers(writer: str, tmp_path: Path, found: dict[str, bool]) -> None:
    plain, path = written_by(writer, tmp_path)
    whole = pq.read_table(path)
    for seed in range(4):
        rows = some_rows(seed, 3)
        assert ParquetReader(path).fetch(rows, None).equals(whole.take(rows))
    assert set(found) == set(plain.column_names)
    assert all(found.values())


def test_headers_of_pages(tmp_path: Path) -> None:
    """As a parser in Python reads them; those with long least and greatest values as well."""
    texts = pa.array([f"{at:05}" * 2000 for at in range(60)])
    for version, dictionary in (("1.0", False), ("2.0", False), ("1.0", True)):
        pq.write_table(
            pa.table({"s": texts}), tmp_path / "t.parquet", data_page_version=version, use_dictionary=dictionary,
            data_page_size=20_000, write_batch_size=2, write_page_checksum=True,
        )  # fmt: skip
        chunk = pq.read_metadata(tmp_path / "t.parquet").row_group(0).column(0)
        at = chunk.dictionary_page_offset or chunk.data_page_offset
        end = at + chunk.total_compressed_size
        whole = (tmp_path / "t.parquet").read_bytes()
        with (tmp_path / "t.parquet").open("rb") as file:
            told = _core.parquet_pages(file.fileno(), at, end)
            with pytest.raises(linkwise.Error, match="page"):
                _core.parquet_pages(file.fileno(), at, end - 1)
            with pytest.raises(linkwise.Error, match="ends early"):
                _core.parquet_pages(file.fileno(), len(whole), len(whole) + 1)
        for begin, header_bytes, data_bytes, plain_bytes, kind, values, encoding, checksum in told.tolist():
            header, read = parse(whole[at:])
            data = next(field for field in (5, 8, 7) if field in header)
            of_encoding = 4 if data == 8 else 2
            assert (begin, header_bytes, data_bytes, plain_bytes) == (at, read, header[3][1], header[2][1])
            assert (kind, checksum) == ({5: 0, 8: 1, 7: 2}[data], header[4][1] % (1 << 32))
            assert (values, encoding) == (header[data][1][1][1], header[data][1][of_encoding][1])
            at += header_bytes + data_bytes
        assert at == end and told[told[:, 4] < 2, 5].sum() == 60


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("single_values", [False, True])
def test_damaged_pages_are_found_or_left_to_pyarrow(
    single_values: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With checksums, no changed byte goes unnoticed: rows are those that were written, or there is an error."""
    if single_values:
        monkeypatch.setattr(pages, "_FEW", 0)
    table = TABLE.select(["unique", "text", "bool"])
    path = tmp_path / "t.parquet"
    pq.write_table(
        table, path, row_group_size=GROUP, data_page_size=500, write_batch_size=50, write_page_checksum=True,
        write_statistics=False, compression="none",
    )  # fmt: skip
    whole, metadata = path.read_bytes(), pq.read_metadata(path)
    footer = 8 + int.from_bytes(whole[-8:-4], "little")
    random = Random(1)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(random.randint(1, 40)):
            damaged[random.randrange(len(whole) - footer)] ^= 1 << random.randrange(8)
        path.write_bytes(damaged)
        with path.open("rb") as file:
            reader = PageReader(file.fileno(), CheckedChunks(metadata), table.schema, GROUP)
            for name in table.column_names:
                row = random.randrange(GROUP)
                part = reader.find(name, {1: np.array([row])})
                refused += part is None
                assert part is None or part.to_pylist() == [table[name][GROUP + row].as_py()]
    assert 0 < refused < 900
