"""Common types for the key columns of two relations, in which they can be compared."""

from __future__ import annotations

from linkwise import _core
from linkwise._arrow import pa, pc
from linkwise._core import UsageError
from linkwise.columns.decode import KEY_TYPES, decoded
from linkwise.columns.dictionaries import in_one_wide_dictionary

_UNITS = ("s", "ms", "us", "ns")
_MOST_DIGITS = 76


def _of_integers(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The narrowest integer type that can hold the values of both; a decimal type if there is none."""
    signed_a, signed_b = pa.types.is_signed_integer(a), pa.types.is_signed_integer(b)
    if signed_a == signed_b:
        return a if a.bit_width >= b.bit_width else b
    signed, unsigned = (a, b) if signed_a else (b, a)
    if signed.bit_width > unsigned.bit_width:
        return signed
    wider = 2 * unsigned.bit_width
    return pa.decimal128(20, 0) if wider > 64 else {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[wider]


def _of_decimals(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    scale = max(a.scale, b.scale)
    digits = max(a.precision - a.scale, b.precision - b.scale) + scale
    if digits > _MOST_DIGITS:
        raise UsageError(f"{a} and {b} have no common type of {_MOST_DIGITS} digits; cast one")
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)


def _finer(a: pa.DataType, b: pa.DataType) -> str:
    return _UNITS[max(_UNITS.index(a.unit), _UNITS.index(b.unit))]


def _both(test: object, a: pa.DataType, b: pa.DataType) -> bool:
    return bool(test(a) and test(b))  # type: ignore[operator]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _as_decimal(kind: pa.DataType) -> pa.DataType:
    return pa.decimal128(20, 0) if pa.types.is_integer(kind) else kind


def _common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:  # noqa: PLR0911 - a case for each kind of type
    """The type in which values of both can be compared; ``None`` if there is none."""
    if a == b:
        return a
    if pa.types.is_null(a) or pa.types.is_null(b):
        return b if pa.types.is_null(a) else a
    if _both(pa.types.is_integer, a, b):
        return _of_integers(a, b)
    if _both(pa.types.is_floating, a, b):
        return a if a.bit_width >= b.bit_width else b
    if all(pa.types.is_decimal(kind) or pa.types.is_integer(kind) for kind in (a, b)):
        return _of_decimals(_as_decimal(a), _as_decimal(b))
    if _both(_is_text, a, b):
        return pa.large_string()
    if _both(_is_bytes, a, b):
        return pa.large_binary()
    if _both(pa.types.is_timestamp, a, b) and (a.tz is None) == (b.tz is None):
        return pa.timestamp(_finer(a, b), a.tz)
    if _both(pa.types.is_duration, a, b):
        return pa.duration(_finer(a, b))
    if _both(pa.types.is_time, a, b):
        return pa.time64("ns")
    return pa.date64() if _both(pa.types.is_date, a, b) else None


def _innermost(kind: pa.DataType) -> pa.DataType:
    """The value type of dictionary, run-end encoded and extension types."""
    if isinstance(kind, pa.BaseExtensionType):
        return _innermost(kind.storage_type)
    encoded = pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
    return _innermost(kind.value_type) if encoded else kind


def common_value_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """A type that can hold the values of both; ``None`` if there is none."""
    if left == right:
        return left
    if any(_is_period(kind) for kind in (left, right)):
        return None  # stored as numbers of periods, which mean nothing beside those of another frequency
    return _common_type(_innermost(left), _innermost(right))


def _is_period(kind: pa.DataType) -> bool:
    """Whether it is the type of pandas' periods."""
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "pandas.period"


def has_floats(kind: pa.DataType) -> bool:
    """Whether its values are floats, whatever they are wrapped in."""
    return bool(pa.types.is_floating(_innermost(kind)))


def _with_one_zero(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats as a join compares them: -0.0 is 0.0, and NaN is NaN whatever its bits."""
    if not has_floats(column.type):
        return column
    plain = decoded(column)
    plain = plain.cast(pa.float32()) if pa.types.is_float16(plain.type) else plain
    nan = pa.scalar(float("nan"), plain.type)
    return pc.if_else(pc.is_nan(plain), nan, pc.add(plain, pa.scalar(0.0, plain.type)))


def common_type(left: pa.DataType, right: pa.DataType, names: tuple[str, str]) -> pa.DataType:
    """A key type that can hold the values of both. Raises ``UsageError`` if there is none."""
    kind = common_value_type(left, right)
    if kind is None:
        raise UsageError(f"'{names[0]}' of {left} and '{names[1]}' of {right} cannot be compared; cast one")
    if not _core.can_be_key(_innermost(kind)):
        raise UsageError(f"'{names[0]}' of type {kind} cannot be a key; {KEY_TYPES} can")
    # Joins compare values for equality, so the order of categories is dropped.
    is_ordered = pa.types.is_dictionary(kind) and kind.ordered
    return pa.dictionary(kind.index_type, kind.value_type) if is_ordered else kind


def _cast(column: pa.ChunkedArray, kind: pa.DataType, names: tuple[str, str]) -> pa.ChunkedArray:
    if pa.types.is_dictionary(kind) and column.type == pa.dictionary(kind.index_type, kind.value_type, ordered=True):
        chunks = [pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=kind)
    plain = column if column.type == kind else decoded(column)
    try:
        return plain if plain.type == kind else plain.cast(kind)
    except pa.ArrowInvalid as error:
        raise UsageError(f"'{names[0]}' and '{names[1]}' cannot be compared as {kind}: {error}") from None


def comparable(column: pa.ChunkedArray, kind: pa.DataType, names: tuple[str, str]) -> pa.ChunkedArray:
    """A column in the common type, such that matching keys are bitwise equal. Raises ``UsageError``."""
    return _with_one_zero(_cast(column, kind, names))


def in_one_type(left: pa.ChunkedArray, right: pa.ChunkedArray, names: tuple[str, str]) -> pa.ChunkedArray:
    """The left column followed by the right one, in their common type. Raises ``UsageError``."""
    kind = common_type(left.type, right.type, names)
    chunks = [chunk for side in (left, right) for chunk in _cast(side, kind, names).chunks]
    column = pa.chunked_array(chunks, type=kind)
    return in_one_wide_dictionary(column) if pa.types.is_dictionary(kind) else column


def together(left: pa.ChunkedArray, right: pa.ChunkedArray, names: tuple[str, str]) -> pa.ChunkedArray:
    """As ``in_one_type``, such that matching keys are bitwise equal."""
    return _with_one_zero(in_one_type(left, right, names))
