"""Keys of several columns and of every type, against Python's sort of the same rows."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import linkwise
from columns import KEY_TYPES, column_of, cut, expected_rows, key_columns, row_comparison
from conftest import HAVE_GPU
from linkwise import _core

EXAMPLES = int(os.environ.get("LINKWISE_TEST_EXAMPLES", "60"))
MACHINE = "auto" if HAVE_GPU else "delta-d22x"
ENDS = st.sampled_from(["first", "last"])
SETTINGS = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(data=st.data())
def test_tables_by_several_columns(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 40))
    drawn = data.draw(st.lists(key_columns(rows), min_size=1, max_size=4))
    descending = data.draw(st.lists(st.booleans(), min_size=len(drawn), max_size=len(drawn)))
    nulls = data.draw(st.lists(ENDS, min_size=len(drawn), max_size=len(drawn)))
    where = data.draw(st.lists(st.integers(0, rows), max_size=3))
    names = [f"key {i}" for i in range(len(drawn))]
    columns = [cut(column_of(KEY_TYPES[name][0], values), where) for name, values in drawn]
    table = pa.table([*columns, pa.array(range(rows))], [*names, "row"])
    plain = [values for _, values in drawn]
    expected = expected_rows(plain, descending, nulls)
    strategy = data.draw(st.sampled_from(["cpu", "radix", "auto"]))
    how: dict[str, Any] = {
        "by": names,
        "nulls": nulls,
        "machine": MACHINE if strategy != "cpu" else "auto",
        "strategy": strategy,
    }

    result = linkwise.sort(table, descending=descending, **how)
    result.validate(full=True)
    assert result["row"].to_pylist() == expected
    assert result.schema == table.schema
    for name in names:
        in_order = table[name].combine_chunks().to_pylist()
        assert repr(result[name].to_pylist()) == repr([in_order[row] for row in expected])
    assert linkwise.sort_indices(table, descending=descending, **how).tolist() == expected
    ordered = {"by": names, "descending": descending, "nulls": nulls}
    assert linkwise.is_sorted(result, **ordered)
    assert linkwise.is_sorted(table, **ordered) == (expected == list(range(rows)))

    assert linkwise.top_k(table, 1, **how | {"by": [*names, names[0]], "nulls": "last"}).num_rows == min(rows, 1)
    k = data.draw(st.integers(0, rows + 1))
    assert linkwise.top_k(table, k, descending=descending, **how)["row"].to_pylist() == expected[:k]

    compare = row_comparison(plain, descending, nulls)
    first_of_each = [row for at, row in enumerate(expected) if at == 0 or compare(expected[at - 1], row)]
    assert linkwise.unique(table, descending=descending, **how)["row"].to_pylist() == first_of_each


def order_of(table: pa.Table, descending: list[bool], nulls_first: list[bool], **how: Any) -> list[int]:
    nulls = ["first" if first else "last" for first in nulls_first]
    return linkwise.sort_indices(table, by=table.column_names, descending=descending, nulls=nulls, **how).tolist()


LONG = 5000


def many_ties() -> dict[str, pa.Array]:
    """Columns in which the rows of groups far larger than what the host orders by itself agree."""
    random = np.random.default_rng(7)
    return {
        "two long strings": pa.array([f"{'x' * 50}{n}{'y' * 30}" for n in random.integers(0, 2, LONG)]),
        "prefixes of each other": pa.array(["z" * int(n) for n in random.integers(0, 40, LONG)]),
        "paths": pa.array([f"/data/{a}/part-{b:05}" for a, b in random.integers(0, 30, (LONG, 2))]),
        "zeros": pa.array([b"\0" * int(n) for n in random.integers(0, 25, LONG)]),
        "all equal": pa.array(["the same for every row, and longer than any word"] * LONG),
        "words": pa.array([["to", "be", "or", "not", None][n] for n in random.integers(0, 5, LONG)]),
        "wide": pa.array([int(n) << 90 for n in random.integers(-3, 3, LONG)], pa.decimal128(38, 0)),
    }


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", many_ties())
def test_large_groups_of_ties(name: str, descending: bool) -> None:
    column = many_ties()[name]
    numbers = pa.array(np.random.default_rng(1).integers(-(2**63), 2**63, LONG))
    table = pa.table({"text": column, "number": numbers})
    expected = expected_rows([column.to_pylist(), numbers.to_pylist()], [descending, True], ["last", "last"])
    how: dict[str, Any] = {"machine": MACHINE, "gpus": [0]} if not HAVE_GPU else {}
    assert order_of(table, [descending, True], [False, False], strategy="cpu") == expected
    assert order_of(table, [descending, True], [False, False], strategy="radix", **how) == expected


@pytest.mark.parametrize("spread", ["even", "crowded", "few", "geometric"])
@pytest.mark.parametrize("descending", [False, True])
def test_groups_of_ties_of_every_size(spread: str, descending: bool) -> None:
    """Up to those that a core orders by itself, and beyond; however their second words lie."""
    random = np.random.default_rng(7)
    sizes = np.r_[1:70, 90:300:7]
    first = random.permutation(np.repeat(random.integers(-(1 << 62), 1 << 62, len(sizes)), sizes))
    second = random.integers(-(1 << 62), 1 << 62, len(first))
    if spread == "crowded":  # one far away from the others, which are in one bucket then
        second = np.where(random.random(len(first)) < 0.02, second, random.integers(0, 1000, len(first)))
    elif spread == "few":
        second = random.integers(0, 3, len(first))
    elif spread == "geometric":
        second >>= random.integers(0, 62, len(first))
    table = pa.table({"a": first, "b": second, "row": np.arange(len(first))})
    ordered = linkwise.sort(table, by=["a", "b"], descending=[False, descending], strategy="cpu")
    assert (ordered["row"].to_numpy() == np.lexsort([-second if descending else second, first])).all()


def test_columns_that_fit_are_one_number() -> None:
    """Bits are taken for the range of values that there is, and not for the range of the type."""
    table = [
        pa.array([1000, 1001, 1007], pa.int64()),  # 3 bits
        pa.array(["DE", "US", "FR"]),  # 16 bits
        pa.array([None, True, False]),  # 1 bit for null, 1 for the value
        pa.array([5, 5, 5], pa.uint64()),  # none
        pa.array(["v-1", "v-22", "v-3"]),  # 2 bytes behind the prefix, and 2 bits for how many
    ]
    keys = _core.RowKeys([table], [False] * 5, [False] * 5)
    assert keys.decided_by_word and keys.word_bits == 3 + 16 + 2 + 0 + 18
    assert not _core.RowKeys(
        [[pa.array([0, 2**63], pa.uint64()), pa.array([1, 2])]], [False] * 2, [False] * 2
    ).decided_by_word
    whole, words = (np.empty(3, np.uint64) for _ in range(2))
    keys.write_words(whole)
    for cuts in ([0, 1, 3], [0, 0, 2, 3, 3]):
        parts = [[column.slice(a, b - a) for column in table] for a, b in zip(cuts, cuts[1:], strict=False)]
        in_parts = _core.RowKeys(parts, [False] * 5, [False] * 5)
        in_parts.write_words(words)
        assert (words == whole).all() and in_parts.rows == 3, "wherever the columns are cut"
        with pytest.raises(linkwise.UsageError, match="lie in parts"):
            in_parts.first_descent()
    assert keys.like_these([column.take(pa.array([2, 0])) for column in table]).rows == 2
    with pytest.raises(linkwise.UsageError, match="not those of these keys"):
        keys.like_these(table[::-1])


def test_bad_keys_are_refused() -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})

    def refused(match: str, **options: Any) -> None:
        with pytest.raises(linkwise.UsageError, match=match):
            linkwise.sort(table, **options)

    refused("there is no column 'c'; there are 'a', 'b'", by=["a", "c"])
    refused("by= must name a column: 'a', 'b'", by=[])
    refused("3 values of descending= for 2 columns", by=["a", "b"], descending=[True, False, True])
    refused("nulls is 'first' or 'last', not 'middle'", by="a", nulls=["middle"])
    twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(linkwise.UsageError, match="several columns 'a'"):
        linkwise.sort(twice, by="a")
    with pytest.raises(linkwise.UsageError, match="k is a number of rows"):
        linkwise.top_k(table, -1, by="a")
