"""From NumPy and Arrow types to the key types that the core sorts, and back."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from linkwise import _core
from linkwise._arrow import pa
from linkwise._core import KeyType, UsageError

_BY_NUMPY_NAME = {
    "uint8": KeyType.u8,
    "uint16": KeyType.u16,
    "uint32": KeyType.u32,
    "uint64": KeyType.u64,
    "int8": KeyType.i8,
    "int16": KeyType.i16,
    "int32": KeyType.i32,
    "int64": KeyType.i64,
    "float16": KeyType.f16,
    "float32": KeyType.f32,
    "float64": KeyType.f64,
}

_SUPPORTED = "integers and floats of 8 to 64 bits"
_SIGN = np.uint64(1 << 63)


def key_type_of(dtype: np.dtype[np.generic]) -> KeyType:
    """The key type of a NumPy dtype, in native byte order. Raises ``UsageError`` for one that cannot be a key."""
    if dtype.name not in _BY_NUMPY_NAME:
        raise UsageError(f"keys of type {dtype} cannot be sorted; {_SUPPORTED} can")
    return _BY_NUMPY_NAME[dtype.name]


def plain_array(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """The same values, one-dimensional, contiguous and in native byte order; a copy only where it must be."""
    if values.ndim != 1:
        raise UsageError(f"an array to sort has one dimension, not {values.ndim}; sort its rows or ravel it")
    return np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))


def keys_of_array(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """The keys to sort for an array: bools as bytes, times as unsigned integers with NaT last, others as they are."""
    if values.dtype.kind == "b":
        return values.view(np.uint8)
    if values.dtype.kind in "mM":
        # NaT is the smallest integer, but sorts last, as in NumPy.
        return (values.view(np.uint64) ^ _SIGN) - np.uint64(1)
    return values


def times_of_keys(keys: npt.NDArray[np.generic], dtype: np.dtype[np.generic]) -> npt.NDArray[np.generic]:
    """The times that ``keys_of_array`` turned into these keys."""
    return ((keys.view(np.uint64) + np.uint64(1)) ^ _SIGN).view(dtype)


def _storage_of(kind: pa.DataType) -> pa.DataType | None:
    """The integer or float type that an Arrow type's values sort as; ``None`` if there is none."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return kind
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return pa.int64()
    return pa.uint8() if pa.types.is_boolean(kind) else None


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of that type is sorted as a numeric array, and can be restored from it."""
    return _storage_of(kind) is not None


def is_text(kind: pa.DataType) -> bool:
    """Whether a column's values lie between offsets: strings and bytes."""
    names = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_of(kind) for is_of in names)


def has_narrow_offsets(kind: pa.DataType) -> bool:
    """Whether a column of text has offsets of 32 bits."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def number_dtype(kind: pa.DataType) -> np.dtype[np.generic]:
    """The NumPy type that a column of that type, for which ``is_number`` holds, is sorted as."""
    empty = pa.nulls(0, _storage_of(kind))  # pa.array and to_pandas_dtype would import pandas
    return cast("np.dtype[np.generic]", empty.to_numpy(zero_copy_only=True).dtype)


def stored_numbers(values: pa.Array) -> npt.NDArray[Any]:
    """The numbers of an array of a type for which ``is_number`` holds, but of bools, without a copy; any for nulls."""
    numbers = np.frombuffer(values.buffers()[1] or b"", number_dtype(values.type))
    return numbers[values.offset : values.offset + len(values)]


def is_valid(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Which values are not null. PyArrow's function would load its other functions."""
    bits = values.buffers()[0]
    if bits is None:
        return np.ones(len(values), np.bool_)
    each = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
    return each[values.offset : values.offset + len(values)].view(np.bool_)


def array_of_column(column: pa.ChunkedArray) -> npt.NDArray[np.generic]:
    """A column of numbers without nulls as an array; without a copy if it has one chunk and is not of bool."""
    kind = column.type
    storage = _storage_of(kind)
    assert storage is not None
    if pa.types.is_boolean(kind):
        return plain_array(column.to_numpy()).view(np.uint8)
    if storage != kind:
        column = pa.chunked_array([chunk.view(storage) for chunk in column.chunks], type=storage)
    if column.num_chunks == 1:
        return plain_array(column.chunk(0).to_numpy(zero_copy_only=True))
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if not chunks:
        return plain_array(column.to_numpy())
    _, _, _, values = cast(tuple[Any, ...], _core.gather_column(chunks, None))  # by all cores
    return cast(npt.NDArray[np.generic], values.view(chunks[0].slice(0, 0).to_numpy(zero_copy_only=True).dtype))


def arrow_of_numbers(values: npt.NDArray[np.generic]) -> pa.Array:
    """Numbers as an Arrow array, without a copy. ``pa.array`` would import NumPy's masked arrays to check for one."""
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, buffer], null_count=0)


def column_of_array(keys: npt.NDArray[np.generic], kind: pa.DataType) -> pa.Array:
    """A column of that type, for which ``is_number`` holds, with these values."""
    if pa.types.is_boolean(kind):
        bits = pa.py_buffer(np.packbits(keys.view(np.uint8), bitorder="little"))
        return pa.Array.from_buffers(kind, len(keys), [None, bits], null_count=0)
    storage = arrow_of_numbers(keys)
    return storage if storage.type == kind else storage.view(kind)
