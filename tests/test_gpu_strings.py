"""Tables on the GPUs with columns of Arrow types: strings, bytes, times and bools, nulls included."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings

import linkwise
from linkwise import GpuColumn, GpuTable, UsageError
from linkwise.interop.gpu_column import GpuColumnDict
from linkwise.joining.device.device_columns import JoinableColumns
from test_gpu_tables import OnlyArrow

MACHINE = "h200x8"
TEXTS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
OF_PYARROW = {
    "inner": "inner",
    "left": "left outer",
    "right": "right outer",
    "full": "full outer",
    "semi": "left semi",
    "anti": "left anti",
}


def some_table(rows: int, seed: int, kind: pa.DataType | None = None) -> pa.Table:
    """Names of many lengths that often begin alike, with nulls and empty ones; and other columns."""
    random = np.random.default_rng(seed)
    names = ["", "a", "a\0", "é", "prefix" * 3, "prefix" * 3 + "x", *(f"name {n}" for n in range(20))]
    chosen = [None if n == len(names) else names[n] for n in random.integers(0, len(names) + 1, rows)]
    return pa.table(
        {
            "name": pa.array(chosen, pa.string()).cast(kind or pa.string()),
            "at": pa.array(random.integers(0, 50, rows), pa.timestamp("us"), mask=random.random(rows) < 0.1),
            "day": pa.array(random.integers(0, 9, rows).astype("i4"), pa.date32()),
            "is": pa.array(random.random(rows) < 0.5, mask=random.random(rows) < 0.2),
            "row": np.arange(rows),
        }
    )


def shares(table: pa.Table, ends: list[int]) -> dict[str, Any]:
    """The rows up to each end as the columns of a GPU: slices, for which PyArrow stands."""
    begins = [0, *ends[:-1]]
    return {
        name: [table[name].combine_chunks().slice(b, e - b) for b, e in zip(begins, ends, strict=True)]
        for name in table.column_names
    }


def as_table(columns: dict[str, Any]) -> pa.Table:
    """What lies on the GPUs, in host memory."""
    parts = {name: column if isinstance(column, list) else [column] for name, column in columns.items()}
    return pa.table({name: pa.chunked_array([part.to_arrow() for part in of]) for name, of in parts.items()})


def rows_of(table: pa.Table) -> list[Any]:
    """The rows, in an order of their own."""
    return sorted(table.to_pylist(), key=repr)


@pytest.mark.parametrize("kind", TEXTS, ids=str)
@pytest.mark.parametrize("ends", [[300], [0, 100, 300], [150, 150, 151, 300]])
def test_sort(kind: pa.DataType, ends: list[int]) -> None:
    table = some_table(300, 1, kind)
    for by, descending in (["name"], [False]), (["is", "name"], [True, False]), (["name", "at"], [False, True]):
        found = as_table(linkwise.sort(shares(table, ends), by=by, descending=descending, machine=MACHINE))
        assert found.schema == table.schema
        assert found.equals(linkwise.sort(table, by=by, descending=descending, strategy="cpu"))
        found.validate(full=True)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.none() | st.text(max_size=30), max_size=40), st.integers(0, 40), st.booleans())
def test_sort_any_text(values: list[str | None], cut: int, descending: bool) -> None:
    column = pa.array(values, pa.string())
    cut = min(cut, len(column))
    columns = {"k": [column.slice(0, cut), column.slice(cut)]}
    found = linkwise.sort(columns, by="k", descending=descending, machine=MACHINE)["k"]
    order = pc.sort_indices(column, sort_keys=[("", "descending" if descending else "ascending")])
    assert pa.concat_arrays([part.to_arrow() for part in found]).equals(column.take(order))


@pytest.mark.parametrize("how", list(OF_PYARROW))
@pytest.mark.parametrize("is_on_gpus", [True, False])
def test_join_by_text(how: Any, is_on_gpus: bool) -> None:
    """Text keys of every kind of join, each side with nulls, and a merged key of both sides."""
    left, right = some_table(200, 2).drop_columns(["is"]), some_table(90, 3).select(["name", "row", "is"])
    right = right.rename_columns(["name", "other", "is"])
    expected = left.join(right, "name", join_type=OF_PYARROW[how])
    if is_on_gpus:
        sides = shares(left, [150, 200]), shares(right, [20, 90])
        found = as_table(linkwise.join(*sides, on="name", how=how, machine=MACHINE))
    else:
        tables = GpuTable(left, machine=MACHINE, gpus=[0, 1]), GpuTable(right, machine=MACHINE, gpus=[0, 1])
        found = tables[0].join(tables[1], on="name", how=how).to_arrow()
    assert rows_of(found.select(expected.column_names)) == rows_of(expected)


def test_two_keys_of_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows whose hashes are equal and whose keys are not are found out, and joined by ranks."""
    left, right = some_table(100, 4), some_table(50, 5).select(["name", "row"]).rename_columns(["name", "other"])
    expected = left.join(right, "name", join_type="full outer")
    sides = shares(left, [60, 100]), shares(right, [50, 50])
    asked = []

    def hashes(self: JoinableColumns, columns: list[Any]) -> Any:
        asked.append(len(columns))
        return self.without_nulls(sum(columns[0].lengths))

    monkeypatch.setattr(JoinableColumns, "row_hashes", hashes)
    found = as_table(linkwise.join(*sides, on="name", how="full", machine=MACHINE))
    assert asked == [1, 1] and rows_of(found.select(expected.column_names)) == rows_of(expected)


def test_text_of_two_joins() -> None:
    """A merged key is sorted by and joined by again, and carried text is gathered through both joins."""
    one = pa.table({"k": ["b", None, "longer than seven bytes", "c"], "x": ["1", "2", None, "4"]})
    two = pa.table({"k": ["c", "d", "longer than seven bytes"], "y": [b"p", b"q", None]})
    tables = [GpuTable(shares(each, [1, len(each)]), machine=MACHINE) for each in (one, two)]
    joined = tables[0].join(tables[1], "k", how="full").sort("k")
    assert joined.to_arrow().equals(one.join(two, "k", join_type="full outer").sort_by("k").combine_chunks())
    again = joined.join(tables[1].select(["k"]), "k").sort("k")
    assert again.to_arrow()["x"].to_pylist() == ["4", None, None]
    assert pa.concat_arrays([part.to_arrow() for part in again["y"]]).to_pylist() == [b"p", b"q", None]


def test_more_bytes_than_narrow_offsets_count(monkeypatch: pytest.MonkeyPatch) -> None:
    table = some_table(300, 8)
    there = GpuTable(shares(table, [120, 300]), machine=MACHINE)
    for module in ("interop.foreign_arrays", "sorting.device.brought"):
        monkeypatch.setattr(f"linkwise.{module}.MOST_NARROW_BYTES", 100)
    found = there.sort("row").to_arrow()
    assert found.equals(table) and found["name"].num_chunks > 10
    assert max(pc.sum(pc.binary_length(chunk)).as_py() or 0 for chunk in found["name"].chunks) <= 100
    assert [part.to_arrow().type for part in there["name"]] == [pa.large_string()] * 2


def test_host_tables_have_text_there() -> None:
    table = pa.table({"k": pa.array(["x", None, "yy"]).dictionary_encode(), "long": ["z" * 1000, "", None]})
    there = GpuTable(table, machine=MACHINE, gpus=[0])
    assert there["k"].to_arrow().to_pylist() == ["x", None, "yy"] and there["k"].type == pa.string()
    assert there["long"].to_arrow().equals(table["long"].combine_chunks())
    assert there.sort("k")["long"].to_arrow().to_pylist() == ["z" * 1000, None, ""]
    assert repr(there["k"]) == "GpuColumn(3 rows of string on GPU 0)"


def test_told() -> None:
    def told(what: str, call: Any) -> None:
        with pytest.raises(UsageError, match=what):
            call()

    short = pa.array(["x"])
    told("is list<.*cast to these", lambda: linkwise.sort({"k": pa.array([[1]])}, by="k", machine=MACHINE))
    told("is string_view", lambda: linkwise.sort({"k": short.cast(pa.string_view())}, by="k", machine=MACHINE))
    told("differ in type", lambda: linkwise.sort({"k": [short, pa.array([1])]}, by="k", machine=MACHINE))
    told("name one with machine=", lambda: linkwise.sort({"k": short}, by="k"))
    told("no array of values", lambda: linkwise.sort({"k": short}, by="k", machine=MACHINE)["k"].values)


def test_strings_of_many_words() -> None:
    """Of a thousand bytes and more, as keys and carried."""
    long, short = pa.array(["x" * 1000 + end for end in "ba"]), pa.array(["x", "y"])
    assert linkwise.sort({"k": long}, by="k", machine=MACHINE)["k"].to_arrow().to_pylist() == sorted(long.to_pylist())
    assert linkwise.sort({"k": long, "n": short}, by="n", machine=MACHINE)["k"].to_arrow().equals(long)
    assert len(linkwise.join({"k": long}, {"k": short}, "k", machine=MACHINE)["k"]) == 0
    brought = GpuTable(
        pa.table({"k": [*long.to_pylist(), *short.to_pylist()], "n": range(4)}), machine=MACHINE, gpus=[0]
    )
    joined = GpuTable({"k": long}, machine=MACHINE, gpus=[0]).join(brought, "k", order="left").to_arrow()
    assert joined.to_pydict() == {"k": long.to_pylist(), "n": [0, 1]}


@pytest.mark.gpu
@pytest.mark.parametrize("kind", TEXTS, ids=str)
@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_arrow_on_gpus(kind: pa.DataType, rows: int) -> None:
    """Tables and columns there and back, with bits of bools and validity, and offsets of both widths."""
    table = some_table(rows, rows, kind)
    there = GpuTable(table, gpus=[0])
    expected = linkwise.sort(table, by=["name", "row"], strategy="cpu")
    by_row = linkwise.sort(OnlyArrow(there), by="row")
    assert isinstance(by_row, GpuColumnDict) and isinstance(by_row["name"], GpuColumn)
    for given_table in (OnlyArrow(there), by_row, OnlyArrow(by_row)):
        assert as_table(linkwise.sort(given_table, by=["name", "row"])).equals(expected)
    joined = linkwise.join(OnlyArrow(there), OnlyArrow(there), on=["name", "row"], order="key")
    assert as_table(joined)["row"].equals(expected.filter(pc.is_valid(expected["name"]))["row"])
    with pytest.raises(UsageError, match="as a column of a table"):
        linkwise.sort(OnlyArrow(by_row["name"]))


@pytest.mark.gpu
def test_cudf() -> None:
    """Tables and columns of libcudf's Python package."""
    plc = pytest.importorskip("pylibcudf")
    table = some_table(5000, 7)
    there = plc.Table.from_arrow(table)
    expected = linkwise.sort(table, by=["name", "row"], strategy="cpu")
    found = linkwise.sort(dict(zip(table.column_names, there.columns(), strict=True)), by=["name", "row"])
    assert as_table(found).equals(expected)
    again = plc.Table.from_arrow(found)
    assert as_table(linkwise.sort(dict(zip(table.column_names, again.columns(), strict=True)), by="row")).equals(table)
    nulls_last = plc.sorting.sort(again, [plc.types.Order.ASCENDING] * 5, [plc.types.NullOrder.AFTER] * 5)
    in_host_memory = pa.RecordBatch._import_from_c_capsule(*nulls_last.__arrow_c_array__())
    by_all = linkwise.sort(table, by=table.column_names, strategy="cpu")
    assert pa.table(in_host_memory).rename_columns(table.column_names).cast(table.schema).equals(by_all)
    by_position = linkwise.join(there, plc.Table.from_arrow(table.select(["row"])), left_on="4", right_on="0")
    assert len(by_position["0"]) == 5000


@pytest.mark.gpu
def test_many_strings() -> None:
    """More than a kernel has threads, gathered from several GPUs if there are."""
    random = np.random.default_rng(0)
    names = pa.array([f"{n:0{n % 30}d}" for n in range(5000)])
    table = pa.table({"k": names.take(pa.array(random.integers(0, 5000, 2_000_000))), "row": np.arange(2_000_000)})
    found = GpuTable(table).sort("k")
    expected = linkwise.sort(table, by="k", strategy="cpu")
    columns = found["k"] if isinstance(found["k"], list) else [found["k"]]
    assert pa.chunked_array([part.to_arrow() for part in columns]).equals(expected["k"])
    assert found.to_arrow().equals(expected)
