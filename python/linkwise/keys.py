"""From NumPy and Arrow types to the key types that the core sorts, and back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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


def array_of_column(column: pa.ChunkedArray, name: str) -> npt.NDArray[np.generic]:
    """The values of a column without nulls as a NumPy array; without a copy if it has one chunk."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise UsageError(f"column '{name}' of type {kind} cannot be a key; {_SUPPORTED} can")
    if column.num_chunks == 1:
        return plain_array(column.chunk(0).to_numpy(zero_copy_only=True))
    return plain_array(column.to_numpy())
