"""Single values of Parquet files, taken from pages whose other values are not decoded."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import linkwise
from linkwise import _core
from linkwise.encoders.thrift import parse, serialised
from linkwise.files.reading.parquet import pages
from linkwise.files.reading.parquet.pages import PageReader
from linkwise.files.reading.parquet.parquet_reader import ParquetReader
from test_parquet_pages import GROUP, some_rows, written_by
from test_parquet_writer import ROWS

TAKEN = {"i32", "i64", "u64", "f32", "f64", "date", "time", "at", "text", "large", "raw", "few", "run", "seconds"}
"""Columns whose values are in the file as in memory."""


def some_null(values: Any, kind: pa.DataType, seed: int, share: float = 0.2) -> pa.Array:
    absent = np.random.default_rng(seed).random(ROWS) < share
    return pa.array([None if null else value for value, null in zip(values, absent, strict=True)], kind)


def table_of(share: float) -> pa.Table:
    numbers = np.random.default_rng(1).integers(-(1 << 30), 1 << 30, ROWS).tolist()
    kinds: dict[str, tuple[Any, pa.DataType]] = {
        "i32": (numbers, pa.int32()), "i64": (numbers, pa.int64()), "u64": (map(abs, numbers), pa.uint64()),
        "f32": (map(float, numbers), pa.float32()), "f64": (map(float, numbers), pa.float64()),
        "date": (numbers, pa.int32()), "time": (map(abs, numbers), pa.time64("us")),
        "at": (numbers, pa.timestamp("us")),
        "text": ([f"{n:o}" for n in numbers], pa.string()), "large": ([f"{n:x}" for n in numbers], pa.large_string()),
        "raw": ([b"\xff" * (n % 5) for n in numbers], pa.binary()),
        "few": ([f"f{n % 7}" for n in numbers], pa.string()),
        "run": ([n // 600 for n in range(ROWS)], pa.int64()), "i8": ([n % 100 for n in numbers], pa.int8()),
        "bool": ([n % 3 == 0 for n in numbers], pa.bool_()), "money": (numbers, pa.decimal128(20, 2)),
        "seconds": (numbers, pa.timestamp("s")),
    }  # fmt: skip
    columns = {name: some_null(values, kind, at, share) for at, (name, (values, kind)) in enumerate(kinds.items())}
    columns["date"] = columns["date"].cast(pa.date32())
    columns["always"] = pa.nulls(ROWS, pa.int64())
    columns["present"] = pa.array(numbers)
    fields = [pa.field(name, array.type, name != "present") for name, array in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The columns of which single values were taken; others are decoded by pages or as a whole."""
    monkeypatch.setattr(pages, "_FEW", 0)
    names: set[str] = set()
    single_values = PageReader._single_values

    def noted(reader: PageReader, kept: Any, name: str) -> Any:
        found = single_values(reader, kept, name)
        if found is not None:
            names.add(name)
        return found

    monkeypatch.setattr(PageReader, "_single_values", noted)
    return names


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.99])
def test_values_of_every_type(codec: str, share: float, tmp_path: Path, taken: set[str]) -> None:
    table, path = table_of(share), tmp_path / "t.parquet"
    integers = ["i32", "i64", "u64", "date", "time", "at", "run", "seconds", "always", "present"]
    for how in (
        {"use_dictionary": False},
        {"use_dictionary": True, "write_page_checksum": True},
        {"use_dictionary": False, "column_encoding": dict.fromkeys(integers, "DELTA_BINARY_PACKED")},
    ):
        pq.write_table(
            table, path, row_group_size=GROUP, compression=codec, data_page_size=700, write_batch_size=50,
            dictionary_pagesize_limit=3000, **how,
        )  # fmt: skip
        whole = pq.read_table(path)
        for seed, count in ((3, 5), (4, 300), (5, ROWS)):
            taken.clear()
            rows = some_rows(seed, count)
            fetched = ParquetReader(path).fetch(rows, None)
            fetched.validate(full=True)
            assert fetched.equals(whole.take(rows)) and fetched.schema.equals(whole.schema)
            assert taken == TAKEN | {"always", "present"}


def test_other_pages_are_decoded(tmp_path: Path, taken: set[str]) -> None:
    """Those of the second version, and those with other encodings."""
    table, path = table_of(0.2).select(["i64", "text", "f64"]), tmp_path / "t.parquet"
    rows = some_rows(6, 9)
    for how in (
        {"data_page_version": "2.0"},
        {
            "use_dictionary": False,
            "column_encoding": {"i64": "BYTE_STREAM_SPLIT", "text": "DELTA_BYTE_ARRAY", "f64": "BYTE_STREAM_SPLIT"},
        },
        {"compression": "lz4"},
        {"compression": "gzip"},
    ):
        pq.write_table(table, path, row_group_size=GROUP, **how)
        assert ParquetReader(path).fetch(rows, None).equals(table.take(rows))
        assert not taken


@pytest.mark.parametrize("writer", ["duckdb", "polars", "linkwise"])
def test_files_of_other_writers(writer: str, tmp_path: Path, taken: set[str]) -> None:
    _, path = written_by(writer, tmp_path)
    whole = pq.read_table(path)
    for seed in range(4):
        rows = some_rows(seed, 30)
        assert ParquetReader(path).fetch(rows, None).equals(whole.take(rows))
    assert {"unique", "text"} <= taken


def test_which_way_rows_are_fetched(tmp_path: Path, taken: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Single values of few rows on many pages, not of most of them; keys and filtered columns not a second time."""
    monkeypatch.setattr(pages, "_FEW", 4)
    table, path, out = table_of(0.2), tmp_path / "t.parquet", tmp_path / "out.parquet"
    pq.write_table(table, path, row_group_size=GROUP, data_page_size=700, write_batch_size=50)
    for count, are_taken in ((9, True), (ROWS, False)):
        taken.clear()
        assert (
            ParquetReader(path).fetch(some_rows(1, count), None).equals(pq.read_table(path).take(some_rows(1, count)))
        )
        assert ("i64" in taken) is are_taken
    taken.clear()
    linkwise.sort_file(path, out, by=["i64", "text"], filter="f64 < 0 and few = 'f2'", limit=50)
    kept = pq.read_table(path).filter((pc.field("f64") < 0) & (pc.field("few") == "f2"))
    assert pq.read_table(out).equals(kept.sort_by([("i64", "ascending"), ("text", "ascending")]).slice(0, 50))
    assert {"present", "date", "few"} <= taken and not taken & {"i64", "text", "f64"}
    taken.clear()
    linkwise.sort_file(path, out, by="i64", columns=["i64", "f64"], filter="f64 < 0 and few = 'f2'", limit=50)
    assert pq.read_table(out).equals(kept.select(["i64", "f64"]).sort_by("i64").slice(0, 50)) and not taken


hybrid = st.lists(
    st.one_of(st.tuples(st.integers(1, 30), st.integers(0, 7)), st.lists(st.integers(0, 7), min_size=8, max_size=8)),
    min_size=1, max_size=6,
)  # fmt: skip


@given(hybrid, st.data())
def test_runs_and_packed_values(runs: list[Any], data: st.DataObject) -> None:
    """By an encoder of our own, as PyArrow never makes some sequences of runs."""
    encoded, values = bytearray([3]), []
    for run in runs:
        if isinstance(run, tuple):
            encoded += bytes([run[0] << 1, run[1]])
            values += [run[1]] * run[0]
        else:
            bits = sum(value << (3 * at) for at, value in enumerate(run))
            encoded += bytes([1 << 1 | 1]) + bits.to_bytes(3, "little")
            values += run
    places = np.array(sorted(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=20))), np.int64)
    found = _core.ParquetValues(4, False)
    found.set_dictionary(np.arange(8, dtype=np.uint32).view(np.uint8), 8)
    found.add(np.frombuffer(encoded, np.uint8), len(values), 8, places)
    assert found.parts()[2].view(np.uint32).tolist() == [values[at] for at in places]


def page_of_differences(values: pa.Array) -> np.ndarray[Any, Any]:
    out = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"v": values}), out, use_dictionary=False, compression="none", write_statistics=False,
        column_encoding={"v": "DELTA_BINARY_PACKED"},
    )  # fmt: skip
    file = np.frombuffer(out.getvalue(), np.uint8)
    header, size = parse(file[4:].tobytes())
    return file[4 + size :][: header[2][1]].copy()


@given(st.data())
def test_differences_of_any_width(data: st.DataObject) -> None:
    """Of 32 and of 64 bits, to the least and the greatest, beyond which they wrap around."""
    bits = data.draw(st.sampled_from([32, 64]))
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    few = data.draw(st.lists(st.integers(low, high), min_size=1, max_size=6))
    steps = st.integers(-(1 << data.draw(st.integers(0, bits))), 1 << data.draw(st.integers(0, bits)))
    values = []
    for value, step in zip(few, data.draw(st.lists(steps, min_size=len(few), max_size=len(few))), strict=True):
        values += [(value + at * step - low) % (1 << bits) + low for at in range(data.draw(st.integers(1, 200)))]
    page = page_of_differences(pa.array(values, pa.int32() if bits == 32 else pa.int64()))
    places = np.array(sorted(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=20))), np.int64)
    found = _core.ParquetValues(bits // 8, True)
    found.add(page, len(values), 5, places)
    assert found.parts()[2].view(f"i{bits // 8}").tolist() == [values[at] for at in places]
    with pytest.raises(linkwise.Error):
        _core.ParquetValues(0, True).add(page, len(values), 5, places[:1] if len(places) else np.zeros(1, np.int64))


repeated = st.lists(
    st.one_of(st.binary(max_size=90), st.tuples(st.integers(1, 300), st.integers(1, 200))), min_size=1, max_size=30
)  # fmt: skip


@given(repeated, st.integers(0, 1 << 16), st.data())
def test_bytes_that_are_compressed(parts: list[Any], before: int, data: st.DataObject) -> None:
    """By Snappy: any literals and repetitions, some far from the ends of the page, as its bytes are without it."""
    plain = np.random.default_rng(before).integers(0, 7, before, np.uint8).tobytes()
    for part in parts:
        if isinstance(part, bytes):
            plain += part
        else:
            distance, count = part
            plain += (plain[-distance:] * count)[:count]
    if not plain:
        return
    compressed = np.frombuffer(pa.compress(plain, codec="snappy", asbytes=True), np.uint8)
    places = np.array(sorted(data.draw(st.lists(st.integers(0, len(plain) - 1), min_size=1, max_size=9))), np.int64)
    found = _core.ParquetValues(1, False)
    found.add(compressed, len(plain), 0, places, len(plain))
    assert found.parts()[2].tobytes() == bytes(plain[at] for at in places)
    found.set_dictionary(compressed, len(plain) // 4, len(plain))
    entries = np.minimum(places, len(plain) // 4 - 1)
    if entries[0] >= 0:
        page = b"\x20" + b"".join(b"\x02" + int(entry).to_bytes(4, "little") for entry in entries)
        found.add(np.frombuffer(page, np.uint8), len(entries), 8, np.arange(len(entries)))
        assert found.parts()[2].tobytes()[len(places) :] == bytes(plain[at] for at in entries)


ELEMENTS = {
    "literal": bytes([2 << 2, 97, 98, 99]), "long literal": bytes([61 << 2, 99, 0]) + bytes(100),
    "copy": bytes([1 | 2 << 2, 3]),
    "long copy": bytes([2 | 63 << 2, 1, 0]), "far copy": bytes([3 | 9 << 2, 2, 0, 0, 0]),
}  # fmt: skip


def decompressed(data: bytes, size: int) -> bytes:
    values = _core.ParquetValues(1, False)
    values.add(np.frombuffer(data, np.uint8), size, 0, np.arange(size), size)
    return bytes(values.parts()[2].tobytes())


def test_elements_of_compressed_data() -> None:
    """Those that PyArrow never makes as well, each cut short, with too large a size, and from too far back."""
    plain = b"abc" + bytes(100) + bytes(6) + bytes(64) + bytes(10)
    head = bytes([len(plain) & 127 | 128, len(plain) >> 7])
    whole = head + b"".join(ELEMENTS.values())
    assert decompressed(whole, len(plain)) == plain == pa.decompress(whole, len(plain), codec="snappy", asbytes=True)
    for length in range(len(whole)):
        with pytest.raises(linkwise.Error, match="page"):
            decompressed(whole[:length], len(plain))
    for size in (len(plain) - 1, len(plain) + 1):
        with pytest.raises(linkwise.Error, match="another size"):
            decompressed(whole, size)
        with pytest.raises(linkwise.Error, match="ends early"):
            decompressed(bytes([size & 127 | 128, size >> 7]) + whole[2:], size)
    for distance in (0, 4, 1 << 31):
        with pytest.raises(linkwise.Error, match="ends early"):
            decompressed(b"\x07" + ELEMENTS["literal"] + b"\x0f" + distance.to_bytes(4, "little"), 7)
    for told in (b"", b"\xff", b"\xff\xff\xff\xff\xff\x01", b"\xff\xff\xff\xff\x0f\x00"):
        with pytest.raises(linkwise.Error, match="page"):
            decompressed(told, 8)


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_sizes_that_are_not_those_of_the_header(codec: str, tmp_path: Path, taken: set[str]) -> None:
    """Such pages are left to PyArrow, which refuses them where it would not know how much to decompress."""
    path = tmp_path / "t.parquet"
    table = pa.table({"k": np.arange(ROWS)})
    pq.write_table(table, path, compression=codec, use_dictionary=False, write_statistics=False)
    whole = bytearray(path.read_bytes())
    header, size = parse(bytes(whole[4:]))
    assert header[2][1] > 64
    told = serialised(header | {2: (header[2][0], header[2][1] + 1)})
    assert len(told) == size
    whole[4 : 4 + size] = told
    path.write_bytes(whole)
    rows = some_rows(1, 9)
    if codec == "none":
        assert ParquetReader(path).fetch(rows, None).equals(table.take(rows))
    else:
        with pytest.raises(linkwise.Error, match=r"t\.parquet"):
            ParquetReader(path).fetch(rows, None)
    assert not taken


def test_damaged_pages() -> None:
    """Whatever the bytes: values, or an error."""
    random, refused = Random(2), 0
    of_differences = page_of_differences(pa.array([random.randrange(1 << 20) for _ in range(40)]))
    for trial in range(4000):
        values = _core.ParquetValues(random.choice([0, 4, 8]), random.random() < 0.5)
        page = np.frombuffer(random.randbytes(random.randrange(200)), np.uint8) & random.choice([1, 3, 15, 255])
        count, encoding = random.randrange(1, 40), random.choice([0, 2, 5, 8])
        if encoding == 5:  # random bytes would hardly ever begin as these do
            page = of_differences.copy()
            page[random.randrange(len(page))] = random.randrange(256)
        places = np.array(sorted(random.randrange(count) for _ in range(5)), np.int64)
        try:
            values.set_dictionary(page[: random.randrange(len(page) + 1)], random.randrange(4))
            values.add(page, count, encoding, places)
        except linkwise.Error as error:
            refused += 1
            assert str(error)
        else:
            assert len(values.parts()[0]) == 5, trial
    assert 400 < refused < 3800
    for places in ([2], [-1], [1, 0]):
        with pytest.raises(linkwise.Error, match="places"):
            _core.ParquetValues(4, False).add(np.zeros(8, np.uint8), 2, 0, np.array(places, np.int64))
