"""Columns of unusual types, sorted and joined: nested slices, dictionaries of anything, unions, runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import linkwise
import linkwise.pandas

NAN = float("nan")


def dictionary(indices: list[Any], values: Any) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), values)


def halves(*values: float) -> pa.Array:
    return pa.array(np.array(values, np.float16))


def in_two_chunks(array: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([array, array])


def union() -> pa.UnionArray:
    return pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])


def told(column: pa.ChunkedArray | pa.Array) -> list[str]:
    """The values as text, in which NaN is equal to itself."""
    return [repr(value) for value in column.to_pylist()]


def lists_of_lists() -> pa.Array:
    inner = pa.FixedSizeListArray.from_arrays(pa.array(range(40)), 2)
    return pa.FixedSizeListArray.from_arrays(inner, 2)


CARRIED: dict[str, pa.ChunkedArray | pa.Array] = {
    "a slice of lists of lists of one size": lists_of_lists().slice(6),
    "dictionaries of half floats": in_two_chunks(dictionary([1, 0], halves(NAN, 1))),
    "half floats in dictionaries in structs": pa.chunked_array(
        [pa.StructArray.from_arrays([dictionary([0, 0], halves(x))], ["x"]) for x in (1, 2)]
    ),
    "a dictionary with NaN and null": in_two_chunks(dictionary([0, 1], pa.array([NAN, None]))),
    "dictionaries with nulls in structs": pa.chunked_array(
        [pa.StructArray.from_arrays([dictionary([0, 1], pa.array([x, None]))], ["x"]) for x in "ab"]
    ),
    "unions in structs": in_two_chunks(pa.StructArray.from_arrays([union()], ["u"])),
    "unions with times beyond Python's": in_two_chunks(
        pa.UnionArray.from_sparse(
            pa.array([0, 1], pa.int8()),
            [pa.array([400_000_000_000, 1]).view(pa.timestamp("s")).cast(pa.timestamp("s")), pa.array(["a", "b"])],
        )
    ).slice(1, 2),
    "empty lists of views": pa.array([[], None, [], None], pa.list_(pa.string_view(), 0)),
    "lists of one view": pa.array([["a"], ["b"], None, ["d"]], pa.list_(pa.string_view(), 1)),
    "runs": pc.run_end_encode(pa.array([1, 1, 2, 3])),
    "views of lists": pa.array([["a"], None, [], ["c", "d"]], pa.list_view(pa.string_view())),
}


@pytest.mark.parametrize("name", CARRIED)
@pytest.mark.parametrize("verify", [True, "all"])
def test_what_is_carried_stays_as_it_is(name: str, verify: Any) -> None:
    column = CARRIED[name]
    table = pa.table({"k": list(range(len(column)))[::-1], "v": column})
    backwards = told(table["v"])[::-1] if "times beyond" not in name else None
    for found in (linkwise.sort(table, by="k", verify=verify), linkwise.unique(table, by="k", verify=verify)):
        assert found["k"].to_pylist() == sorted(table["k"].to_pylist())
        assert backwards is None or told(found["v"]) == backwards
    first = linkwise.top_k(table, 2, by="k")
    assert first["k"].to_pylist() == [len(column) - 1, len(column) - 2]
    assert backwards is None or told(first["v"]) == told(table["v"])[:2]


def test_streams_with_runs() -> None:
    table = pa.table({"r": pc.run_end_encode(pa.array([1, 1, 2])), "k": [3, 1, 2]})
    assert linkwise.sort_batches(table, by="k").read_all().to_pydict() == {"r": [1, 2, 1], "k": [1, 2, 3]}
    assert linkwise.join_batches(table, pa.table({"r": [1]}), "r").read_all()["k"].to_pylist() == [3, 1]


def test_batches_without_rows_of_types_that_are_cast() -> None:
    schema = pa.schema([("s", pa.string_view()), ("k", pa.int64())])
    batches = [
        pa.record_batch([pa.array(texts, pa.string_view()), pa.array(range(len(texts)), pa.int64())], schema=schema)
        for texts in ([], ["b", "a"], [])
    ]
    for some, expected in ((batches, [1, 0]), (batches[:1], [])):
        stream = pa.RecordBatchReader.from_batches(schema, some)
        assert linkwise.sort_batches(stream, by="s").read_all()["k"].to_pylist() == expected


@pytest.mark.parametrize(
    "column",
    [
        pa.array([7, 8]).dictionary_encode(),
        pa.array([[7], [8]], pa.list_(pa.dictionary(pa.int32(), pa.int64()))),
        pa.array(["a", None]).dictionary_encode(),
        pa.array([{"x": 1.5}, None], pa.struct([("x", pa.dictionary(pa.int8(), pa.float64()))])),
    ],
)
def test_files_of_dictionaries_are_read_again(column: pa.Array, tmp_path: Path) -> None:
    table = pa.table({"k": [2, 1], "v": column})
    linkwise.sort_file(table, tmp_path / "o.parquet", by="k", verify="all")
    assert told(pq.read_table(tmp_path / "o.parquet")["v"]) == told(column)[::-1]


def test_an_arrow_file_of_a_dictionary_with_null(tmp_path: Path) -> None:
    table = pa.table({"k": [2, 1], "v": dictionary([0, 1], pa.array(["a", None]))})
    linkwise.sort_file(table, tmp_path / "o.arrow", by="k")
    with pa.ipc.open_file(tmp_path / "o.arrow") as file:
        assert file.read_all()["v"].to_pylist() == [None, "a"]


def test_arrays_of_polars_with_nulls() -> None:
    frame = pl.DataFrame({"k": [1, None], "a": pl.Series([[1, 2], None], dtype=pl.Array(pl.Int8, 2))})
    assert linkwise.sort(frame, by="k", nulls="first").to_dicts() == frame.to_dicts()[::-1]


def test_a_field_whose_name_could_have_another_way() -> None:
    table = pa.table({"a": [{"b": {"c": 2}}, {"b": {"c": 1}}], "a.b": [{"d": 1}, {"d": 2}]})
    assert linkwise.sort(table, by="a.b.c")["a.b"].to_pylist() == [{"d": 2}, {"d": 1}]


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_unions_are_carried_by_joins_of_files(how: Any, tmp_path: Path) -> None:
    left, right = pa.table({"k": [1, 2], "u": union()}), pa.table({"k": [2, 3]})
    rows = linkwise.join(left, right, "k", how=how).num_rows
    assert linkwise.join_file(left, right, tmp_path / "o.arrow", "k", how=how).rows == rows
    assert linkwise.join_batches(left, right, "k", how=how).read_all().num_rows == rows


def test_joined_keys_with_more_categories_than_a_side_has() -> None:
    def side(letter: str) -> pa.Table:
        names = pa.array([f"{letter}{number}" for number in range(120)]).dictionary_encode()
        return pa.table({"k": names.cast(pa.dictionary(pa.int8(), pa.string()))})

    found = linkwise.join_batches(side("a"), side("b"), "k", how="full").read_all()
    assert sorted(found["k"].to_pylist()) == sorted([*side("a")["k"].to_pylist(), *side("b")["k"].to_pylist()])


@pytest.mark.parametrize("limit", [None, 3000])
def test_rows_without_a_left_partner_keep_their_order(limit: int | None) -> None:
    left, right = pa.table({"k": [9, 1]}), pa.table({"k": [5, 3, 4, 1] * 100, "r": range(400)})
    found = linkwise.join_batches(left, right, "k", how="right", order="left", host_memory_limit=limit).read_all()
    partners = [row for row in range(400) if row % 4 == 3]
    assert found["r"].to_pylist() == [*partners, *(row for row in range(400) if row % 4 != 3)]


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    table = pa.table({"k": [1, 2], "v": [1, 2]})
    stream = table.to_reader()

    def refused(told: str, call: Any) -> None:
        with pytest.raises(linkwise.UsageError, match=told):
            call()

    refused("both sides are one stream", lambda: linkwise.join_file(stream, stream, None, "k"))
    refused("name each column once", lambda: linkwise.sort_file(
        table, tmp_path / "o", by="k", partition_by=["v", "v"], output_format="parquet"))  # fmt: skip
    refused("descending is True or False", lambda: linkwise.sort(np.array([2, 1]), descending="no"))  # type: ignore[call-overload]
    refused("limit is 1.5", lambda: linkwise.sort_file(table, tmp_path / "o.arrow", by="k", limit=1.5))  # type: ignore[arg-type]
    refused("keys of type complex128", lambda: linkwise.is_sorted(np.array([1j, 2])))
    refused("chosen for Parquet", lambda: linkwise.sort_file(table, tmp_path / "o.csv", by="k", compression="zstd"))
    refused(
        "leave types out", lambda: linkwise.sort_file(table, tmp_path / "o.csv", by="k", column_types={"k": "string"})
    )
    refused("is a directory", lambda: linkwise.sort_file(table, tmp_path, by="k"))
    assert linkwise.sort_file(table, tmp_path / "o.arrow", by="k", columns=["k", "k"]).rows == 2


def test_frames_of_pandas_are_merged_as_pandas_does() -> None:
    left, right = pd.DataFrame({"a": [1, 2], "b": [1, 2]}), pd.DataFrame({"a": [2, 3], "c": [2, 3]})
    for keys in ({"left_on": "a", "right_on": "a"}, {"left_on": ["a", "b"], "right_on": ["a", "c"]}):
        for how in ("inner", "left", "right", "outer"):
            expected = left.merge(right, how=how, **keys)  # type: ignore[arg-type]
            found = left.linkwise.merge(right, how=how, **keys)
            in_order = [*expected.columns]
            assert [*found.columns] == in_order
            as_pandas = found.astype("float64").sort_values(in_order).reset_index(drop=True)
            pd.testing.assert_frame_equal(
                as_pandas, expected.astype("float64").sort_values(in_order, ignore_index=True)
            )
    crossed = {"left_on": ["a", "b"], "right_on": ["b", "a"], "suffixes": ("_l", "_r")}
    assert [*left.linkwise.merge(left, **crossed).columns] == [*left.merge(left, **crossed).columns]
    assert left.linkwise.sort_values("a", ascending=0)["a"].tolist() == [2, 1]
    with pytest.raises(linkwise.UsageError, match="the right frame has no column 'b'; it has 'a', 'c'"):
        left.linkwise.merge(right, on="b")


def test_labels_of_joined_categories_stay() -> None:
    frame = pd.DataFrame({0: pd.Series(["a", "b"], dtype="category")})
    assert frame.linkwise.merge(frame.copy(), on=0, how="outer").columns.tolist() == [0]
