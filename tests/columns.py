"""Random columns of every type that can be a key, and the order that they should have, by Python's own rules."""

from __future__ import annotations

import datetime
import decimal
import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

INSTANTS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))
DURATIONS = st.timedeltas(datetime.timedelta(-9999), datetime.timedelta(9999))
UNITS = ("s", "ms", "us", "ns")
# Few letters, so that prefixes are shared and rows are equal; zeros and a letter of several bytes, which order wrongly
# when padding or code units are taken for the bytes.
LETTERS = "a\x00bé𝄞"
TEXTS = st.text(LETTERS, max_size=20) | st.text(LETTERS, max_size=3).map(lambda tail: "a common beginning " + tail)
BYTES = st.binary(max_size=12) | st.lists(st.sampled_from([0, 1, 255]), max_size=20).map(bytes)


def _integers(bits: int, *, signed: bool) -> Any:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return st.integers(low, high) | st.integers(max(low, -3), 3)


def decimals(digits: int, scale: int) -> Any:
    most = 10**digits - 1
    numbers = st.integers(-most, most) | st.integers(-2, 2)

    def scaled(number: int) -> decimal.Decimal:
        with decimal.localcontext(prec=80):
            return decimal.Decimal(number).scaleb(-scale)

    return numbers.map(scaled)


def _floats(width: int) -> Any:
    special = st.sampled_from([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0])
    return special | st.floats(width=width, allow_nan=False)  # type: ignore[call-overload]


KEY_TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "bool": (pa.bool_(), st.booleans()),
    **{f"int{b}": (getattr(pa, f"int{b}")(), _integers(b, signed=True)) for b in (8, 16, 32, 64)},
    **{f"uint{b}": (getattr(pa, f"uint{b}")(), _integers(b, signed=False)) for b in (8, 16, 32, 64)},
    **{f"float{b}": (getattr(pa, f"float{b}")(), _floats(b)) for b in (16, 32, 64)},
    "date32": (pa.date32(), st.dates()),
    "date64": (pa.date64(), st.dates()),
    "time32": (pa.time32("ms"), st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))),
    "time64": (pa.time64("us"), st.times()),
    **{f"timestamp {u}": (pa.timestamp(u), INSTANTS.map(lambda t: t.replace(microsecond=0))) for u in UNITS},
    "timestamp with a zone": (
        pa.timestamp("us", "Europe/Berlin"),
        INSTANTS.map(lambda t: t.replace(tzinfo=datetime.UTC)),
    ),
    **{f"duration {u}": (pa.duration(u), DURATIONS.map(lambda d: datetime.timedelta(d.days))) for u in UNITS},
    "decimal32": (pa.decimal32(7, 2), decimals(7, 2)),
    "decimal64": (pa.decimal64(16, 2), decimals(16, 2)),
    "decimal128": (pa.decimal128(18, 4), decimals(18, 4)),
    "wide decimal128": (pa.decimal128(38, 5), decimals(38, 5)),
    "decimal256": (pa.decimal256(70, 5), decimals(70, 5)),
    "string": (pa.string(), TEXTS),
    "large_string": (pa.large_string(), TEXTS),
    "string_view": (pa.string_view(), TEXTS),
    "binary": (pa.binary(), BYTES),
    "large_binary": (pa.large_binary(), BYTES),
    "binary_view": (pa.binary_view(), BYTES),
    "fixed-size binary": (pa.binary(3), st.lists(st.sampled_from([0, 1, 255]), min_size=3, max_size=3).map(bytes)),
    "dictionary of integers": (pa.dictionary(pa.int8(), pa.int32()), st.integers(-50, 50)),
    "dictionary of strings": (pa.dictionary(pa.int32(), pa.string()), TEXTS),
    "runs of integers": (pa.run_end_encoded(pa.int32(), pa.int16()), st.integers(-2, 2)),
    "null": (pa.null(), st.none()),
}


def column_of(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """A column with these values; ``None`` is null."""
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(pa.array(values, kind.value_type))
    if pa.types.is_float16(kind):
        return pa.array([None if value is None else np.float16(value) for value in values], kind)
    return pa.array(values, kind)


def _comparable(value: Any) -> Any:
    """Something that Python compares as documented: floats in total order, and strings by code points."""
    if isinstance(value, float | np.floating):
        bits = struct.unpack("<q", struct.pack("<d", float(value)))[0]
        is_nan = float(value) != float(value)
        return (is_nan, bits if bits >= 0 else -(bits & ((1 << 63) - 1)) - 1)
    return value.encode() if isinstance(value, str) else value


def _compare(a: Any, b: Any, *, descending: bool, nulls: str) -> int:
    if a is None or b is None:
        return 0 if a is b else -1 if (a is None) == (nulls == "first") else 1
    x, y = _comparable(a), _comparable(b)
    order = (x > y) - (x < y)
    return -order if descending else order


def row_comparison(
    columns: Sequence[Sequence[Any]], descending: Sequence[bool], nulls: Sequence[str]
) -> Callable[[int, int], int]:
    """How two rows of columns of plain values stand to each other."""

    def compare(a: int, b: int) -> int:
        for column, turned, end in zip(columns, descending, nulls, strict=True):
            order = _compare(column[a], column[b], descending=turned, nulls=end)
            if order:
                return order
        return 0

    return compare


def expected_rows(columns: Sequence[Sequence[Any]], descending: Sequence[bool], nulls: Sequence[str]) -> list[int]:
    """The row numbers in order; Python's sort is stable."""
    return sorted(range(len(columns[0])), key=functools.cmp_to_key(row_comparison(columns, descending, nulls)))


def cut(column: pa.Array, where: Sequence[int]) -> pa.ChunkedArray:
    """The same column in chunks, which begin at odd places of their buffers."""
    ends = [0, *sorted(min(w, len(column)) for w in where), len(column)]
    return pa.chunked_array(
        [column.slice(a, b - a) for a, b in zip(ends[:-1], ends[1:], strict=True)], type=column.type
    )


@st.composite
def key_columns(draw: Any, rows: int) -> tuple[str, list[Any]]:
    """The name of a type, and values of it; often few different ones."""
    name = draw(st.sampled_from(sorted(KEY_TYPES)))
    values = KEY_TYPES[name][1]
    if draw(st.booleans()):
        values = st.sampled_from(draw(st.lists(values, min_size=1, max_size=3)))
    if draw(st.booleans()):
        values = st.none() | values
    return name, draw(st.lists(values, min_size=rows, max_size=rows))
