"""Rows packed into records, and gathered from them: against ``pyarrow``'s own ``take``, and in sorts of files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkwise
from linkwise import _core
from linkwise.columns.packed_rows import PackedColumns
from linkwise.files import file_sort
from linkwise.files.reading.parquet import parquet_reader

KINDS = [
    *(pa.bool_(), pa.int8(), pa.uint16(), pa.float32(), pa.int64(), pa.timestamp("us"), pa.date32(), pa.float16()),
    *(pa.decimal128(9, 2), pa.decimal256(40, 0), pa.binary(7), pa.duration("s"), pa.month_day_nano_interval()),
]


def values_of(kind: pa.DataType, rows: int, nulls: float, random: np.random.Generator) -> pa.Array:
    """Random values, of which a share are null."""
    mask = random.random(rows) < nulls
    if pa.types.is_boolean(kind):
        return pa.array(random.random(rows) < 0.5, mask=mask)
    width = kind.bit_width // 8
    bytes_ = pa.py_buffer(random.integers(0, 256, rows * width, np.uint8).tobytes())
    bits = pa.py_buffer(np.packbits(~mask, bitorder="little").tobytes())
    return pa.Array.from_buffers(kind, rows, [bits, bytes_], null_count=int(mask.sum()))


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A table in chunks that do not lie alike, sliced, with some columns that are not packed."""
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    rows = draw(st.integers(1, 700))
    columns = []
    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=11)):
        values = values_of(kind, rows + 3, draw(st.sampled_from([0, 0, 0.3, 1])), random).slice(3)
        cut = draw(st.integers(0, rows))
        columns.append(pa.chunked_array([values.slice(0, cut), values.slice(cut)]))
    columns.insert(1, pa.chunked_array([[f"text {at}" for at in range(rows)]]))
    return pa.table(columns, names=[f"c{at}" for at in range(len(columns))])


def bytes_of(values: pa.Array, width: int) -> np.ndarray:
    """The bytes of each value."""
    whole = np.frombuffer(values.buffers()[1], np.uint8)
    return whole[values.offset * width :][: len(values) * width].reshape(-1, width)


def same(one: pa.Table, other: pa.Table) -> bool:
    """Whether rows are equal bit by bit where they are not null; NaNs as well."""
    for left, right in zip(one.columns, other.columns, strict=True):
        left, right = left.combine_chunks(), right.combine_chunks()  # noqa: PLW2901
        if left.type != right.type or left.is_valid().to_pylist() != right.is_valid().to_pylist():
            return False
        width = 0 if pa.types.is_string(left.type) or pa.types.is_boolean(left.type) else left.type.bit_width // 8
        if not width and not left.equals(right):
            return False
        if width:
            there = np.asarray(left.is_valid())
            if not np.array_equal(bytes_of(left, width)[there], bytes_of(right, width)[there]):
                return False
    return True


@given(table=tables(), seed=st.integers(0, 1 << 32), wide=st.booleans(), few=st.booleans())
@settings(max_examples=60, deadline=None)
def test_rows_come_out_as_they_went_in(table: pa.Table, seed: int, wide: bool, few: bool) -> None:
    packing = PackedColumns(table.schema, ["c1"])
    parts = [table.slice(0, 100), table.slice(100)]
    packed = pa.concat_tables([packing.pack(part) for part in parts])
    assert packed.column_names == ["c1", "records"]
    assert packed.num_rows == table.num_rows
    rows = np.random.default_rng(seed).integers(0, table.num_rows, 1000 if few else 20_000)
    rows = rows.astype(np.uint64 if wide else np.uint32)
    found = packing.rows(packing.records_of(packed.columns[-1]), rows)
    expected = table.take(pa.array(rows.astype(np.int64)))
    assert same(packing.unpacked({0: expected["c1"]}, found), expected)


def test_a_row_that_does_not_exist() -> None:
    table = pa.table({"a": np.arange(9), "b": np.arange(9) % 2 == 0})
    packing = PackedColumns(table.schema, [])
    records = packing.records_of(packing.pack(table).columns[-1])
    with pytest.raises(linkwise.UsageError, match="does not exist"):
        packing.rows(records, np.array([3, 9], np.uint32))
    with_null = pa.table({"a": pa.array([1, None]), "b": [True, False]})
    packing.pack(with_null)
    found = packing.rows(records, np.array([2, -1], np.int64))
    assert found[0].to_pylist() == [2, None]


@pytest.mark.parametrize(
    ("widths", "columns", "told"),
    [
        ([], [], "one column at least"),
        ([-1], [[pa.array([1])]], "not negative"),
        ([4], [[pa.array([1])]], "width or length"),
        ([8, 8], [[pa.array([1])], [pa.array([1, 2])]], "width or length"),
        ([8], [[pa.array(["text"])]], "width or length"),
        ([8], [[]], "is empty"),
        ([8, 8], [[pa.array([1])]], "of each column"),
    ],
)
def test_what_cannot_be_packed(widths: list[int], columns: list[list[pa.Array]], told: str) -> None:
    with pytest.raises(linkwise.UsageError, match=told):
        _core.pack_rows(widths, columns)


def test_when_it_pays() -> None:
    def pays(*kinds: pa.DataType) -> bool:
        return PackedColumns(pa.schema([(f"c{at}", kind) for at, kind in enumerate(kinds)]), ["c0"]).pays

    assert pays(pa.string(), pa.int32(), pa.float64())
    assert not pays(pa.int64(), pa.int64(), pa.string())  # one is left
    assert not pays(pa.int64(), *[pa.bool_()] * 20)  # a bit becomes a byte
    assert not pays(pa.string(), pa.binary(0), pa.int32(), pa.list_(pa.int32()))


def test_names_do_not_collide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_sort, "WORTH_PACKING", 0)
    for names in (["records", "records_", "x"], ["", "a", "records"]):
        table = pa.table([np.array([3, 1, 2]), np.array([1, 2, 3]), np.array([4.0, 5.0, 6.0])], names=names)
        pq.write_table(table, tmp_path / "in.parquet")
        linkwise.sort_file(tmp_path / "in.parquet", tmp_path / "out.parquet", by=names[0])
        assert pq.read_table(tmp_path / "out.parquet").equals(table.take([1, 2, 0]))


@pytest.mark.parametrize("by", ["k", "s", "b"])
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_files_are_the_same_either_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, suffix: str) -> None:
    random = np.random.default_rng(5)
    rows = 30_000
    columns = {f"c{at}": values_of(kind, rows, 0.2 * (at % 3), random) for at, kind in enumerate(KINDS[:8])}
    table = pa.table({
        "k": random.integers(0, 9000, rows), "s": [f"city {at}" for at in random.integers(0, 500, rows)],
        "b": pa.array(random.random(rows) < 0.5), **columns,
    })  # fmt: skip
    if suffix == "parquet":
        table = table.drop_columns(["c7"])
        pq.write_table(table, tmp_path / "in.parquet", row_group_size=7000, store_decimal_as_integer=True)
    else:
        with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as file:
            file.write_table(table, max_chunksize=7000)
    monkeypatch.setattr(parquet_reader, "_WORTH_A_CORE", 1000)  # so that several threads read row groups
    packed = []
    pack = PackedColumns.pack
    monkeypatch.setattr(PackedColumns, "pack", lambda self, part: packed.append(part.num_rows) or pack(self, part))
    outputs, sizes = [], []
    for worth in (1 << 40, 0):
        monkeypatch.setattr(file_sort, "WORTH_PACKING", worth)
        report = linkwise.sort_file(tmp_path / f"in.{suffix}", tmp_path / f"out.{suffix}", by=by, strategy="cpu")
        sizes.append(report.bytes)
        out = tmp_path / f"out.{suffix}"
        outputs.append(pq.read_table(out) if suffix == "parquet" else pa.ipc.open_file(out).read_all())
    assert sum(packed) == rows and len(packed) > 1
    assert sizes[0] == pytest.approx(sizes[1], rel=0.05)
    assert outputs[0].schema.equals(outputs[1].schema, check_metadata=True)
    assert same(outputs[0], outputs[1])


def test_what_is_in_order_is_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"k": np.arange(20_000), "a": np.arange(20_000) * 2, "b": np.arange(20_000) / 3})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=6000)
    monkeypatch.setattr(file_sort, "WORTH_PACKING", 0)
    monkeypatch.setattr(PackedColumns, "pack", lambda *_: pytest.fail("packed"))
    linkwise.sort_file(tmp_path / "in.parquet", tmp_path / "out.parquet", by="k")
    assert pq.read_table(tmp_path / "out.parquet").equals(table)


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("by", ["a.inner", "n"])
def test_several_files_with_keys_inside_and_nulls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, verify: bool
) -> None:
    """One of the files is empty, and one looks sorted."""
    random = np.random.default_rng(6)
    parts = []
    for number, rows in enumerate((9000, 0, 4000)):
        inner = random.integers(0, 300, rows) if number == 0 else np.arange(rows)
        nulls = random.random(rows) < 0.1
        text = pa.array([f"{i}" for i in inner], pa.string())
        table = {
            "a": pa.StructArray.from_arrays([pa.array(inner), text], ["inner", "text"]),
            "n": pa.array(random.integers(0, 99, rows), mask=nulls), "x": random.random(rows), "y": inner,
        }  # fmt: skip
        parts.append(pa.table(table))
        pq.write_table(parts[-1], tmp_path / f"{number}.parquet", row_group_size=2500)
    packed = []
    pack = PackedColumns.pack
    monkeypatch.setattr(file_sort, "WORTH_PACKING", 0)
    monkeypatch.setattr(PackedColumns, "pack", lambda self, part: packed.append(part.num_rows) or pack(self, part))
    out = tmp_path / "out.parquet"
    linkwise.sort_file([tmp_path / f"{at}.parquet" for at in range(3)], out, by=by, verify=verify, strategy="cpu")
    whole = pa.concat_tables(parts)
    key = whole["n"] if by == "n" else pc.struct_field(whole["a"].combine_chunks(), "inner")
    order = pc.sort_indices(
        pa.table({"k": key, "row": np.arange(len(whole))}), [("k", "ascending"), ("row", "ascending")]
    )
    assert pq.read_table(out).equals(whole.take(order))
    assert sum(packed) == len(whole)
