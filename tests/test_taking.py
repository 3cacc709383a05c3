"""Rows of arrays of every type, nested in each other at random, against Python's lists."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import linkwise
from linkwise.columns.take import take

N = 60


def leaf(random: np.random.Generator, rows: int, kind: int) -> pa.Array:
    numbers = random.integers(0, 100, rows)
    mask = random.random(rows) < 0.2
    words = [f"a text that is longer than twelve {n}" if n % 3 else str(n) for n in numbers]
    if kind == 0:
        return pa.array(numbers, mask=mask)
    if kind == 1:
        return pa.array(words, pa.string_view(), mask=mask)
    if kind == 2:
        return pa.array([word.encode() for word in words], pa.binary_view(), mask=mask)
    if kind == 3:
        return pa.array(words, mask=mask).dictionary_encode()
    return pa.array(numbers % 2 == 0, mask=mask)


def lists(random: np.random.Generator, rows: int, depth: int, kind: Any) -> pa.Array:
    lengths = random.integers(0, 4, rows)
    ends = np.cumsum(lengths)
    child = nested(random, int(ends[-1]), depth)
    offsets = np.concatenate([[0], ends])
    wide = kind in (pa.LargeListArray, pa.LargeListViewArray)
    width = np.int64 if wide else np.int32
    mask = pa.array(random.random(rows) < 0.2)
    if kind in (pa.ListViewArray, pa.LargeListViewArray):
        order = random.permutation(rows)  # views may lie in any order
        return kind.from_arrays(
            pa.array(offsets[:-1][order].astype(width)), pa.array(lengths[order].astype(width)), child, mask=mask
        )
    return kind.from_arrays(pa.array(offsets.astype(width)), child, mask=mask)


def runs(random: np.random.Generator, rows: int, depth: int) -> pa.Array:
    ends = np.unique(np.append(random.integers(1, rows + 1, rows // 3 + 1), rows)).astype(np.int32)
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends), nested(random, len(ends), depth))


def nested(random: np.random.Generator, rows: int, depth: int) -> pa.Array:
    """An array of a random type; several of them inside each other."""
    if depth == 0 or rows == 0:
        return leaf(random, rows, int(random.integers(0, 5)))
    way = int(random.integers(0, 11))
    if way < 4:
        kind = (pa.ListArray, pa.LargeListArray, pa.ListViewArray, pa.LargeListViewArray)[way]
        return lists(random, rows, depth - 1, kind)
    children = [nested(random, rows, depth - 1) for _ in range(2)]
    if way == 4:
        return pa.StructArray.from_arrays(children, ["a", "b"], mask=pa.array(random.random(rows) < 0.2))
    if way == 5:
        child = nested(random, 2 * rows, depth - 1)
        return pa.FixedSizeListArray.from_arrays(child, 2, mask=pa.array(random.random(rows) < 0.2))
    if way == 6:
        return runs(random, rows, depth - 1)
    codes = pa.array(random.integers(0, 2, rows), pa.int8())
    if way == 7:
        return pa.UnionArray.from_sparse(codes, children, ["a", "b"])
    if way == 8:
        places = np.sort(random.integers(0, rows, rows)).astype(np.int32)  # a child's rising, says Arrow
        return pa.UnionArray.from_dense(codes, pa.array(places), children, ["a", "b"])
    if way == 9 and not isinstance(children[0].type, pa.BaseExtensionType):  # which none may hold
        return pa.ExtensionArray.from_storage(pa.opaque(children[0].type, "name", "vendor"), children[0])
    lengths = random.integers(0, 3, rows)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    keys = pa.array([f"key {i}" for i in range(int(lengths.sum()))], pa.string_view())
    return pa.MapArray.from_arrays(offsets, keys, nested(random, int(lengths.sum()), depth - 1))


@pytest.mark.parametrize("seed", range(150))
def test_rows_of_any_type(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = nested(random, N, 1 + seed % 3)
    for part in (values, values.slice(7, 30), values.slice(11, 0)):
        rows = random.integers(-1, len(part), 2 * len(part)) if len(part) else np.array([-1, -1])
        for some in (rows, rows[rows >= 0].astype(np.uint32), rows[:0]):
            found = take(part, some)
            found.validate(full=True)
            as_list = part.to_pylist()
            assert found.type == part.type
            assert found.to_pylist() == [None if row < 0 else as_list[row] for row in some.tolist()], values.type


@pytest.mark.parametrize("seed", range(0, 150, 5))
def test_tables_of_any_type_are_sorted(seed: int) -> None:
    random = np.random.default_rng(seed)
    column = nested(random, N, 1 + seed % 3)
    table = pa.table({"key": random.permutation(N), "payload": column})
    parts = [table, table.slice(5)]
    with suppress(pa.ArrowNotImplementedError):  # then several chunks are refused
        pa.concat_arrays([column, column])
        parts.append(pa.concat_tables([table.slice(0, 20), table.slice(20)]))
    for part in parts:
        found = linkwise.sort(part, by="key", strategy="cpu")
        order = np.argsort(part["key"].to_numpy())
        payload = part["payload"].to_pylist()
        assert found["payload"].to_pylist() == [payload[row] for row in order]
        assert found.schema == part.schema


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view(), pa.dictionary(pa.int8(), pa.string())])
def test_runs_of_views_are_keys(kind: pa.DataType) -> None:
    values = pa.array(["b", "a", None, "c"], pa.string())
    values = values.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else values.cast(kind)
    key = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5, 6]), values)
    found = linkwise.sort(pa.table({"k": key, "row": range(6)}), by="k", strategy="cpu")
    assert found["row"].to_pylist() == [2, 0, 1, 5, 3, 4]


def test_chunks_that_share_a_dictionary() -> None:
    values = pa.array([*map(str, range(99)), None])
    chunk = pa.DictionaryArray.from_arrays(pa.array([5, 3, 99], pa.int8()), values)
    table = pa.table({"k": pa.chunked_array([chunk, chunk]), "i": range(6)})
    assert linkwise.sort(table, by="i", descending=True, strategy="cpu")["k"].to_pylist() == [None, "3", "5"] * 2
