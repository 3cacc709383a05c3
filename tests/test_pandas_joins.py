"""Joins of pandas frames: columns of every type go through, and come back of the type that pandas' own merge gives."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import linkwise
from linkwise import UsageError
from test_join import CPU

THING = object()
DAY = datetime.date(2000, 1, 1)
COLUMNS: dict[str, Any] = {
    "int8": np.arange(3, dtype="i1"),
    "uint64": np.array([1, 2**64 - 1, 3], "u8"),
    "float16": np.arange(3, dtype="f2"),
    "complex": np.arange(3) * 1j,
    "datetime s": np.array([1, 2, 3], "M8[s]"),
    "timedelta us": np.array([1, 2, 3], "m8[us]"),
    "with a zone": pd.date_range("2020", periods=3, tz="Europe/Berlin"),
    "ordered": pd.Categorical(["a", "b", "a"], ["b", "a"], ordered=True),
    "categories of numbers": pd.Categorical([3, 1, 3]),
    "categories of intervals": pd.cut([1, 5, 9], 3),
    "Int32": pd.array([1, None, 3], dtype="Int32"),
    "boolean": pd.array([True, None, False], dtype="boolean"),
    "Float64": pd.array([1.5, None, 2], dtype="Float64"),
    "string[python]": pd.array(["a", None, "b"], dtype="string[python]"),
    "string": pd.array(["a", None, "b"], dtype="string"),
    "period": pd.period_range("2020", periods=3, freq="M"),
    "interval": pd.interval_range(0, 3),
    "sparse": pd.arrays.SparseArray([0, 0, 1]),
    "int64[pyarrow]": pd.array([1, None, 3], dtype="int64[pyarrow]"),
    "decimal[pyarrow]": pd.array([Decimal(1), None, Decimal(3)], dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
    "list[pyarrow]": pd.array([[1], None, [2, 3]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
    "dictionary[pyarrow]": pd.array(["a", "b", "a"], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))),
    "objects": pd.Series([THING, {1: 2}, [1]], dtype=object),
    "object integers": pd.Series([2**70, 1, None], dtype=object),
    "object decimals": pd.Series([Decimal(1), Decimal("2.5"), None], dtype=object),
    "object text": pd.Series(["a", "b", None], dtype=object),
    "object dates": pd.Series([DAY] * 3, dtype=object),
    "mixed": pd.Series([1, "a", None], dtype=object),
}


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_either_side(name: str, how: Literal["inner", "left", "right", "outer"]) -> None:
    has = pd.DataFrame({"k": [1, 2, 3], "column": COLUMNS[name]}, index=[7, 8, 9])
    other = pd.DataFrame({"k": [4, 1, 1], "n": [1, 2, 3]})
    for left, right in ((has, other), (other, has)):
        joined = linkwise.join(left, right, "k", how="full" if how == "outer" else how, order="key", **CPU)
        merged = left.merge(right, how, on="k").sort_values("k", kind="stable").reset_index(drop=True)
        pd.testing.assert_frame_equal(joined, merged)


NO_KEYS = {"complex", "interval", "categories of intervals", "sparse", "list[pyarrow]"}
NO_KEYS |= {"objects", "object integers", "mixed"}


@pytest.mark.parametrize("name", sorted(set(COLUMNS) - NO_KEYS))
def test_keys(name: str) -> None:
    left = pd.DataFrame({"k": COLUMNS[name], "a": range(3)})
    joined = linkwise.join(left, left.rename(columns={"a": "b"}), "k", nulls_equal=True, **CPU)
    assert joined["k"].dtype == left["k"].dtype
    again = linkwise.join(left, joined[["a"]], "a", **CPU).drop_duplicates("a").reset_index(drop=True)
    pd.testing.assert_frame_equal(again, left[["k", "a"]])


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_rows_of_the_left_frame(how: Literal["semi", "anti"]) -> None:
    left = pd.DataFrame({"k": [3, 1, 2], "thing": [THING, None, {1}]})
    kept = linkwise.join(left, pd.DataFrame({"k": [2, 3]}), "k", how=how, **CPU)
    assert kept["thing"].tolist() == ([THING, {1}] if how == "semi" else [None])
    assert kept.index.tolist() == list(range(len(kept)))


def test_the_other_table_need_not_be_a_frame() -> None:
    left = pd.DataFrame({"k": [3, 1], "thing": [THING, 5]})
    joined = linkwise.join(left, pa.table({"k": [3], "x": [True]}), "k", how="left", order="key", **CPU)
    assert joined["thing"].tolist() == [5, THING]
    assert joined["x"].tolist() == [None, True]
    with pytest.raises(UsageError, match="this DataFrame has a column that Arrow cannot hold"):
        linkwise.join(pa.table({"k": [3]}), left, "k", **CPU)


@pytest.mark.parametrize("values", [[THING, 1, 2], [1, "a", 2], [1j, 2, 3], [2**70, 1, 2]])
def test_keys_that_arrow_has_no_type_for(values: list[Any]) -> None:
    frame = pd.DataFrame({"k": pd.Series(values)})
    with pytest.raises(UsageError, match="column 'k' of this DataFrame cannot be a key: [^\n]*$"):
        linkwise.join(frame, frame, "k", **CPU)


def test_columns_of_one_name() -> None:
    frame = pd.DataFrame([[1, 2, 3]], columns=["k", "a", "a"])
    with pytest.raises(UsageError, match="this DataFrame has several columns 'a'; rename them"):
        linkwise.join(frame, frame, "k", **CPU)


@pytest.mark.parametrize("how", ["inner", "right", "full"])
def test_integer_keys_of_which_one_side_may_be_missing(how: Literal["inner", "right", "full"]) -> None:
    left = pd.DataFrame({"k": [2**60 + 1, 5]})
    for right in (pd.array([2**60 + 1, None], "Int64"), pd.array([5, None], "Int32")):
        keys = linkwise.join(left, pd.DataFrame({"k": right}), "k", how=how, order="key", **CPU)["k"]
        expected = {"inner": [right[0]], "right": [right[0], pd.NA], "full": [5, 2**60 + 1, pd.NA]}[how]
        assert keys.tolist() == expected
    of_objects = pd.DataFrame({"k": pd.Series([2**60 + 1, None], dtype=object)})
    assert linkwise.join(of_objects, left, "k", how="left", **CPU)["k"].tolist() == [2**60 + 1, None]


def test_labels_stay_those_of_their_side() -> None:
    left, right = pd.DataFrame({"k": [1], "1": [3]}), pd.DataFrame({"k": [1], 1: [3], 2: [4]})
    assert linkwise.join(left, right, "k", how="semi", **CPU).columns.tolist() == ["k", "1"]
    assert linkwise.join(left, right, "k", **CPU).columns.tolist() == ["k", "1", "1_right", 2]
    alike = pd.DataFrame([[1, 2, 3]], columns=["k", True, 1])
    assert linkwise.join(alike, left, "k", **CPU).to_numpy().tolist() == [[1, 2, 3, 3]]
    joined = linkwise.join(pa.table({"k": [1, 2]}), right[[1, 2]], left_on="k", right_on="1", how="left", **CPU)
    assert joined.column_names == ["k", "1", "2"]
