"""JSON of the values of Arrow columns, made by PyArrow's functions, so that all cores can write."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_TEXT = pa.large_string()
_ESCAPED = r'[\x00-\x1f"\\]'  # the characters that JSON does not have as they are
_PLAIN_SCALE = 6  # digits behind the point up to which Python writes decimals without an exponent


def lines_of_json(table: pa.Table) -> pa.Buffer:
    """A JSON object for each row, with a line end. Column names differ."""
    if not table.num_columns:
        return pa.py_buffer(b"{}\n" * table.num_rows)
    parts: list[Any] = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        begin = ("{" if not parts else ", ") + json.dumps(name, ensure_ascii=False) + ": "
        parts += [begin, pc.fill_null(_json_of(column.combine_chunks()), "null")]
    lines = _joined(*parts, "}\n")
    if not len(lines):
        return pa.py_buffer(b"")
    ends = np.frombuffer(lines.buffers()[1], np.int64)[lines.offset : lines.offset + len(lines) + 1]
    return lines.buffers()[2].slice(int(ends[0]), int(ends[-1] - ends[0]))


def _json_of(values: Any) -> Any:
    """The JSON of each value as text; null, or "null", for null."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _json_of(values.dictionary_decode())
    for is_such, json_of in _BY_KIND:
        if is_such(kind):
            return json_of(values)
    return pa.array([line_of_json(value) for value in values.to_pylist()], _TEXT)


def _of_text(values: Any) -> Any:
    text = values.cast(_TEXT)
    quoted = _quoted(text)
    letters = np.frombuffer(text.buffers()[2] or b"", np.uint8)
    if not np.any((letters < ord(" ")) | (letters == ord('"')) | (letters == ord("\\"))):  # nor behind a slice
        return quoted
    is_escaped = pc.fill_null(pc.match_substring_regex(text, _ESCAPED), fill_value=False)
    if not pc.any(is_escaped).as_py():
        return quoted
    escaped = [json.dumps(value, ensure_ascii=False) for value in text.filter(is_escaped).to_pylist()]
    return pc.replace_with_mask(quoted, is_escaped, pa.array(escaped, _TEXT))


def _of_floats(values: Any) -> Any:
    """As Python writes floats: with a point or an exponent, so that no reader takes them for integers."""
    text = values.cast(pa.float64()).cast(_TEXT)
    numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    if np.any(numbers == np.trunc(numbers)):
        is_whole = pc.invert(pc.match_substring_regex(text, "[.e]"))
        text = pc.if_else(is_whole, _joined(text, ".0"), text)
    is_minus_zero = (numbers == 0) & np.signbit(numbers)
    if is_minus_zero.any():  # PyArrow leaves out the sign
        text = pc.if_else(pa.array(is_minus_zero), pa.scalar("-0.0", _TEXT), text)
    is_finite = np.isfinite(numbers)  # neither is null
    return text if is_finite.all() else pc.if_else(pa.array(is_finite), text, pa.scalar("null", _TEXT))


def _of_timestamps(values: Any) -> Any:
    """ISO 8601, with microseconds unless these are zero, or with nanoseconds."""
    text = pc.replace_substring(values.cast(_TEXT), " ", "T", max_replacements=1)
    if values.type.unit == "ms":
        text = _joined(text, "000")
    if values.type.unit in ("ms", "us"):
        text = pc.replace_substring_regex(text, r"\.0+$", "")
    return _quoted(text)


def _of_cast(values: Any) -> Any:
    return values.cast(_TEXT)


def _quoted(text: Any) -> Any:
    return _joined('"', text, '"')


def _joined(*parts: Any) -> Any:
    """The parts of each row, behind each other: columns of text, or the same text for each."""
    return pc.binary_join_element_wise(
        *(pa.scalar(part, _TEXT) if isinstance(part, str) else part for part in (*parts, ""))
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_plain_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) and 0 <= kind.scale <= _PLAIN_SCALE)


def _is_plain_timestamp(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and (kind.tz is None or kind.unit == "ns")


_BY_KIND: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...] = (
    (pa.types.is_integer, _of_cast),
    (pa.types.is_boolean, _of_cast),
    (pa.types.is_floating, _of_floats),
    (_is_text, _of_text),
    (_is_plain_decimal, lambda values: _quoted(values.cast(_TEXT))),
    (pa.types.is_date, lambda values: _quoted(values.cast(pa.date32()).cast(_TEXT))),
    (_is_plain_timestamp, _of_timestamps),
    (lambda kind: bool(kind == pa.time64("ns")), lambda values: _quoted(values.cast(_TEXT))),
)
"""All others are made by Python, value by value."""


def line_of_json(value: Any) -> str:
    """The JSON of one value. NaN and infinities are null; what JSON lacks is text."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_as_text)
    except ValueError:  # a NaN, or an infinity
        return json.dumps(_finite(value), ensure_ascii=False, default=_as_text)


def _finite(value: Any) -> Any:
    """The value with NaN and infinities replaced by null."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _as_text(value: Any) -> str:
    return str(value.isoformat() if hasattr(value, "isoformat") else value)
