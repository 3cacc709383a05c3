"""``df.linkwise``: pandas' own arguments and results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import linkwise
import linkwise.pandas

RANDOM = np.random.default_rng(1)


def frame(rows: int, keys: int, value: str = "value") -> pd.DataFrame:
    key = pd.array(RANDOM.integers(0, keys, rows), dtype="Int64")
    key[RANDOM.random(rows) < 0.05] = pd.NA
    return pd.DataFrame({"key": key, value: RANDOM.random(rows), "label": RANDOM.integers(0, 9, rows).astype(str)})


@pytest.mark.parametrize("ascending", [True, False, [False, True]])
@pytest.mark.parametrize("na_position", ["first", "last"])
def test_sort_values(ascending: Any, na_position: Any) -> None:
    rows = frame(2000, 30)
    by = ["label", "key"] if isinstance(ascending, list) else "key"
    found = rows.linkwise.sort_values(by, ascending=ascending, na_position=na_position)
    pd.testing.assert_frame_equal(
        found, rows.sort_values(by, ascending=ascending, na_position=na_position, kind="stable")
    )
    assert list(rows.linkwise.sort_values(by, ignore_index=True).index[:3]) == [0, 1, 2]


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("na_position", ["first", "last"])
def test_orders_that_are_pandas_own(ascending: Any, na_position: Any) -> None:
    """Categories come in their order, whether or not they are called ordered; -0.0 and 0.0 are one key."""
    sizes = pd.Categorical(RANDOM.choice(["L", "S", "M", None], 500), categories=["S", "M", "L"])
    rows = pd.DataFrame({"size": sizes, "zero": RANDOM.choice([0.0, -0.0, -1.0, np.nan], 500), "row": range(500)})
    for by in ("size", "zero", ["zero", "size"], ["size", "zero", "row"]):
        found = rows.linkwise.sort_values(by, ascending=ascending, na_position=na_position)
        expected = rows.sort_values(by, ascending=ascending, na_position=na_position, kind="stable")
        pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_merge(how: Any) -> None:
    left, right = frame(300, 40), frame(60, 40, "other")
    found, expected = left.linkwise.merge(right, how, "key"), left.merge(right, how, "key")
    assert list(found.columns) == list(expected.columns) == ["key", "value", "label_x", "other", "label_y"]
    columns = list(expected.columns)
    sorted_rows = [each.sort_values(columns, ignore_index=True) for each in (found, expected)]
    pd.testing.assert_frame_equal(*sorted_rows, check_dtype=False)
    if how in ("inner", "left"):
        in_order = left.linkwise.merge(right, how, "key")
        pd.testing.assert_series_equal(in_order["value"], left.merge(right, how, "key")["value"])


def test_merge_by_names_that_differ() -> None:
    left, right = frame(100, 20), frame(50, 20, "other").rename(columns={"key": "id"})
    found = left.linkwise.merge(right, left_on="key", right_on="id", suffixes=(None, "_right"))
    expected = left.merge(right, left_on="key", right_on="id", suffixes=(None, "_right"))
    assert list(found.columns) == list(expected.columns)
    assert len(found) == len(expected)


def test_merge_by_the_columns_that_both_have() -> None:
    left, right = frame(300, 40), frame(60, 40, "other")
    found, expected = left.linkwise.merge(right), left.merge(right)
    assert list(found.columns) == list(expected.columns) == ["key", "value", "label", "other"]
    columns = list(expected.columns)
    pd.testing.assert_frame_equal(
        *(each.sort_values(columns, ignore_index=True) for each in (found, expected)), check_dtype=False
    )
    with pytest.raises(linkwise.UsageError, match="no column in common"):
        left.linkwise.merge(right.add_prefix("its "))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_narwhals_frames(library: str) -> None:
    """They are taken as what they stand for, and come back as they were."""
    narwhals = pytest.importorskip("narwhals")
    rows = {"key": [3, 1, 2, 1], "value": [0, 1, 2, 3]}
    frame = narwhals.from_dict(rows, backend=library)
    in_order = linkwise.sort(frame, by="key")
    assert type(in_order) is type(frame) and in_order["value"].to_list() == [1, 3, 2, 0]
    assert linkwise.sort(frame["key"]).to_list() == [1, 1, 2, 3]
    joined = linkwise.join(frame, narwhals.from_dict({"key": [1, 9], "name": ["a", "b"]}, backend=library), on="key")
    assert type(joined) is type(frame) and sorted(joined["value"].to_list()) == [1, 3]


def test_labels_and_types_of_merged_columns() -> None:
    left, right = pd.DataFrame({0: [1], 1: [2]}), pd.DataFrame({0: [1], 1: [3]})
    merged = left.linkwise.merge(right, on=0, suffixes=(None, "_r"))
    assert list(merged.columns) == list(left.merge(right, on=0, suffixes=(None, "_r")).columns)
    flags = pd.DataFrame({"a": [True], "b": [1]})
    others = pd.DataFrame({"a": [True, False], "c": [1, 2]})
    both = flags.linkwise.merge(others, left_on=["a", "b"], right_on=["a", "c"], how="right")
    assert both["a"].dtype == bool and both["a"].tolist() == [True, False]


def test_periods_match_those_of_their_frequency() -> None:
    years, months = (pd.DataFrame({"when": pd.PeriodIndex([text], freq=text_of), "n": [1]})
                     for text, text_of in (("2000", "Y"), ("1972-07", "M")))  # fmt: skip
    assert len(years.linkwise.merge(years, on="when")) == 1
    for other in (months, pd.DataFrame({"when": [30]})):
        with pytest.raises(linkwise.UsageError, match="cannot be compared"):
            linkwise.join(years, other, on="when")


def test_one_clear_line() -> None:
    levels = pd.DataFrame({("a", "k"): [1], ("a", "v"): [2]})
    with pytest.raises(linkwise.UsageError, match="several levels"):
        levels.linkwise.merge(levels, on=[("a", "k")])
    with pytest.raises(linkwise.UsageError, match="there is no column 'kay'"):
        frame(10, 2).linkwise.sort_values("kay")
    with pytest.raises(linkwise.UsageError, match="how is one of inner, left, right, outer, not 'cross'"):
        frame(10, 2).linkwise.merge(frame(10, 2), "cross", "key")
    with pytest.raises(linkwise.UsageError, match="both frames have 'value', 'label'; give two suffixes"):
        frame(10, 2).linkwise.merge(frame(10, 2), on="key", suffixes=(None, None))


def test_merges_keep_categories_and_types_of_missing_keys() -> None:
    kind = pd.CategoricalDtype(["c", "b", "a"])
    left = pd.DataFrame({"k": pd.Series(["a", None], dtype=kind), "v": [1, 2]})
    for values in ([], ["c"]):
        right = pd.DataFrame({"k": pd.Series(values, dtype=kind), "w": pd.Series(range(len(values)), dtype="int64")})
        assert linkwise.join(left, right, on="k")["k"].dtype == kind
        for how in ("inner", "left", "right", "outer"):
            for on in ({"on": "k"}, {"left_on": ["k", "v"], "right_on": ["k", "w"]}, {"left_on": "v", "right_on": "w"}):
                merged = left.linkwise.merge(right, how=how, **on)
                assert merged.dtypes.to_dict() == left.merge(right, how=how, **on).dtypes.to_dict(), (how, on)
