"""Columns drawn at random, and what sorts and joins of them must give, by NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers = npt.NDArray[np.int64]
MOST_PAIRS = 200_000


class TooLargeError(Exception):
    """A join that would take longer than all others together."""


Column = dict[str, Any]
"""A column's ``type``, ``spread`` of values, share of ``nulls``, ``chunks`` and ``seed``."""

_WORDS = ["", "a", "a\x00", "a\x00b", "é", "𝄞", "a common beginning ", "a common beginning and", "z" * 40]
_CATEGORIES = ["medium", "low", "high", "none", "all"]


def _texts(codes: Integers) -> list[str]:
    return [_WORDS[code % len(_WORDS)] + (str(code // len(_WORDS)) if code >= len(_WORDS) else "") for code in codes]


def _floats(kind: Any) -> Callable[[Integers], pa.Array]:
    def make(codes: Integers) -> pa.Array:
        values = ((codes - 50) / 4).astype(kind)
        for special, at in ((-0.0, 3), (0.0, 4), (np.nan, 5), (np.inf, 6), (-np.inf, 7)):
            values[codes % 23 == at] = special
        return pa.array(values)

    return make


def _integers(kind: Any) -> Callable[[Integers], pa.Array]:
    def make(codes: Integers) -> pa.Array:
        told = np.iinfo(kind)
        ends = [told.min, told.max, told.min + 1, told.max - 1]
        values = (codes * 2654435761 % (1 << 62)).astype(np.uint64).astype(kind)
        values[codes < 100] = codes[codes < 100].astype(kind)
        for at, end in enumerate(ends):
            values[codes % 29 == at] = end
        return pa.array(values)

    return make


def _stored(kind: pa.DataType, storage: Any) -> Callable[[Integers], pa.Array]:
    return lambda codes: pa.array((codes - 5).astype(storage)).cast(kind)


def _dictionary(kind: pa.DataType) -> Callable[[Integers], pa.Array]:
    def make(codes: Integers) -> pa.Array:
        if kind.ordered:
            indices = pa.array((codes % len(_CATEGORIES)).astype(np.int8))
            return pa.DictionaryArray.from_arrays(indices, pa.array(_CATEGORIES, kind.value_type), ordered=True)
        return pa.array(_texts(codes % 90), kind.value_type).dictionary_encode().cast(kind)

    return make


KEYS: dict[str, Callable[[Integers], pa.Array]] = {
    **{name: _integers(np.dtype(name)) for name in ("int8", "int16", "int32", "int64")},
    **{name: _integers(np.dtype(name)) for name in ("uint8", "uint16", "uint32", "uint64")},
    **{name: _floats(np.dtype(name)) for name in ("float16", "float32", "float64")},
    "bool": lambda codes: pa.array(codes % 2 == 0),
    "date32": _stored(pa.date32(), np.int32),
    "timestamp": _stored(pa.timestamp("us"), np.int64),
    "duration": _stored(pa.duration("ns"), np.int64),
    "decimal": lambda codes: pa.array(codes - 9).cast(pa.decimal128(30, 0)).cast(pa.decimal128(38, 4)),
    "string": lambda codes: pa.array(_texts(codes), pa.string()),
    "large_string": lambda codes: pa.array(_texts(codes), pa.large_string()),
    "string_view": lambda codes: pa.array(_texts(codes), pa.string_view()),
    "binary": lambda codes: pa.array([text.encode() for text in _texts(codes)], pa.binary()),
    "fixed": lambda codes: pa.array([f"{code % 1000:03}".encode() for code in codes], pa.binary(3)),
    "dictionary": _dictionary(pa.dictionary(pa.int32(), pa.string())),
    "ordered": _dictionary(pa.dictionary(pa.int8(), pa.string(), ordered=True)),
}
OTHERS: dict[str, Callable[[Integers], pa.Array]] = {
    "list": lambda codes: pa.array([[int(code)] * int(code % 3) for code in codes], pa.list_(pa.int64())),
    "struct": lambda codes: pa.array([{"x": int(code), "y": str(code)} for code in codes],
                                     pa.struct({"x": pa.int64(), "y": pa.string()})),
}  # fmt: skip


def codes_of(spread: str, rows: int, random: np.random.Generator) -> Integers:
    """Integer codes of which values are made; equal codes make equal values."""
    if spread == "few":
        return random.integers(0, 5, rows)
    if spread == "skewed":
        return np.where(random.random(rows) < 0.8, 42, random.integers(0, 1 << 30, rows))
    if spread == "equal":
        return np.full(rows, 42)
    many = random.integers(0, 1 << 40, rows) if spread == "many" else random.integers(0, max(rows, 1), rows)
    return {"sorted": np.sort(many), "reversed": np.sort(many)[::-1].copy()}.get(spread, many)


def column_of(told: Column, rows: int) -> pa.ChunkedArray:
    """The column of a description; with fewer rows, its first ones."""
    random = np.random.default_rng(told["seed"])
    column = (KEYS | OTHERS)[told["type"]](codes_of(told["spread"], told["rows"], random))
    is_null = random.random(told["rows"]) < told["nulls"]
    if is_null.any():
        if pa.types.is_dictionary(column.type):
            indices = pc.if_else(pa.array(is_null), pa.scalar(None, column.indices.type), column.indices)
            column = pa.DictionaryArray.from_arrays(indices, column.dictionary, ordered=column.type.ordered)
        else:
            column = _with_nulls(column, is_null)
    column = column.slice(0, rows)
    cuts = sorted({0, len(column), *random.integers(0, len(column) + 1, told["chunks"] - 1)})
    chunks = [column.slice(a, b - a) for a, b in itertools.pairwise(cuts)]
    return pa.chunked_array(chunks, type=column.type)


def _with_nulls(column: pa.Array, is_null: npt.NDArray[np.bool_]) -> pa.Array:
    if pa.types.is_string_view(column.type):
        return pa.array([None if n else v for v, n in zip(column.to_pylist(), is_null, strict=True)], column.type)
    return column.take(pa.array(np.arange(len(column)), mask=is_null))


def ranks(column: pa.ChunkedArray) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Numbers in the order of the values, and which of these are null."""
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    is_null = np.asarray(whole.is_null())
    kind = whole.type
    if pa.types.is_dictionary(kind) and kind.ordered:
        return np.asarray(whole.indices.fill_null(0)).astype(np.int64), is_null
    if pa.types.is_dictionary(kind):
        return ranks(pa.chunked_array([whole.cast(kind.value_type)]))
    if pa.types.is_floating(kind):
        values = np.asarray(whole.to_numpy(zero_copy_only=False)).astype(np.float64)  # which holds all of them exactly
        bits = values.view(np.int64)
        values = np.where(bits >= 0, bits, -(bits & np.int64((1 << 63) - 1)) - 1)
        values[np.isnan(np.asarray(whole.to_numpy(zero_copy_only=False)).astype(np.float64))] = np.iinfo(np.int64).max
    elif pa.types.is_integer(kind):
        values = np.asarray(whole.fill_null(0))
    elif pa.types.is_boolean(kind):
        values = np.asarray(whole.fill_null(False)).astype(np.int64)
    elif pa.types.is_temporal(kind):
        values = np.asarray(whole.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).fill_null(0))
    else:
        plain = [value.encode() if isinstance(value, str) else value for value in whole.to_pylist()]
        order = {value: at for at, value in enumerate(sorted({value for value in plain if value is not None}))}
        values = np.array([order.get(value, 0) for value in plain], np.int64)
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64), is_null


def order_of(columns: Sequence[pa.ChunkedArray], descending: Sequence[bool], nulls: Sequence[str]) -> Integers:
    """The rows in their stable order."""
    found: list[Integers] = []
    for column, turned, end in zip(columns, descending, nulls, strict=True):
        values, is_null = ranks(column)
        found += [
            np.where(is_null, -1 if end == "first" else 1, 0),
            np.where(is_null, 0, -values if turned else values),
        ]
    return np.lexsort(found[::-1])


def firsts(columns: Sequence[pa.ChunkedArray], rows: Integers) -> Integers:
    """Of rows in order, the first of each key."""
    is_new = np.zeros(len(rows), bool)
    is_new[:1] = True
    for column in columns:
        values, is_null = (part[rows] for part in ranks(column))
        values = np.where(is_null, -1, values)
        is_new[1:] |= values[1:] != values[:-1]
    return rows[is_new]


def pairs_of(
    left: Sequence[pa.ChunkedArray], right: Sequence[pa.ChunkedArray], how: str, *, nulls_equal: bool
) -> Integers:
    """Rows of both sides that a join has, [pairs][2], in some order; -1: none."""
    sizes = len(left[0]), len(right[0])
    codes = np.zeros(sum(sizes), np.int64)
    has_null = np.zeros(sum(sizes), bool)
    for a, b in zip(left, right, strict=True):
        values, is_null = ranks(pa.chunked_array([*a.chunks, *b.chunks], type=a.type))
        if pa.types.is_floating(a.type):  # joins treat both zeros as one key
            numbers = np.array([0 if v is None else v for v in [*a.to_pylist(), *b.to_pylist()]], np.float64)
            values = np.unique(np.where(numbers == 0, 0.0, numbers), return_inverse=True)[1].reshape(-1)
        values = np.where(is_null, values.max(initial=0) + 1, values)
        codes = np.unique(codes * (values.max(initial=0) + 1) + values, return_inverse=True)[1].reshape(-1)
        has_null |= is_null
    keys, others = codes[: sizes[0]].copy(), codes[sizes[0] :].copy()
    if not nulls_equal:
        keys[has_null[: sizes[0]]] = -1
        others[has_null[sizes[0] :]] = -2
    by_key = np.argsort(others, kind="stable")
    begins = np.searchsorted(others[by_key], keys, "left")
    counts = np.searchsorted(others[by_key], keys, "right") - begins
    if how in ("semi", "anti"):
        rows = np.flatnonzero((counts > 0) == (how == "semi"))
        return np.column_stack([rows, np.full(len(rows), -1)])
    if counts.sum() > MOST_PAIRS:
        raise TooLargeError
    rows = np.repeat(np.arange(sizes[0]), counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    matched = by_key[np.repeat(begins, counts) + within] if len(rows) else np.empty(0, np.int64)
    found = [np.column_stack([rows, matched])]
    if how in ("left", "full"):
        alone = np.flatnonzero(counts == 0)
        found.append(np.column_stack([alone, np.full(len(alone), -1)]))
    if how in ("right", "full"):
        alone = np.setdiff1d(np.arange(sizes[1]), matched)
        found.append(np.column_stack([np.full(len(alone), -1), alone]))
    return np.concatenate(found)


def in_order(pairs: Integers) -> Integers:
    """Pairs in a canonical order, to compare them as multisets."""
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def by_left(pairs: Integers) -> Integers:
    """In the order of the left rows; where there is none, at the end."""
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0].astype(np.uint64)))]


def exact(data: Any) -> Any:
    """Something that is equal only if every value has the same bits."""
    if isinstance(data, np.ndarray):
        return data.dtype.str.replace("=", "<"), data.tobytes()
    if isinstance(data, pa.Table):
        return data.column_names, [exact(column) for column in data.columns]
    if isinstance(data, pa.Array):
        data = pa.chunked_array([data])
    kind = data.type
    if pa.types.is_dictionary(kind):
        data = data.cast(kind.value_type)
    if pa.types.is_floating(kind):
        values = np.concatenate([np.asarray(c.to_numpy(zero_copy_only=False)) for c in data.chunks] or [np.empty(0)])
        nulls = np.asarray(data.is_null())
        return (
            str(kind),
            np.where(nulls, np.zeros((), values.dtype), values).astype(kind.to_pandas_dtype()).tobytes(),
            nulls.tobytes(),
        )
    if pa.types.is_temporal(kind):
        data = data.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):  # file formats exchange these types
        kind = pa.string()
    return "nested" if pa.types.is_nested(kind) else str(kind), data.to_pylist()
