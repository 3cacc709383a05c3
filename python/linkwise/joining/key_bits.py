"""Single-number keys as integers that are equal exactly if the keys are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkwise._arrow import pa, pc
from linkwise._typing import Array
from linkwise.columns.gather import in_one_array


def is_one_word(kind: pa.DataType) -> bool:
    """Whether values of this type fit into a word of 64 bits."""
    return bool(pa.types.is_primitive(kind)) and kind.bit_width <= 64


def bits_of(column: pa.ChunkedArray) -> Array:
    """The values as integers of 4 or 8 bytes; undefined for nulls."""
    kind = column.type
    if pa.types.is_boolean(kind) or (pa.types.is_integer(kind) and kind.bit_width < 32):
        column = column.cast(pa.int32())
    elif pa.types.is_floating(kind):
        column = pa.chunked_array(
            [chunk.view(pa.int32() if kind.bit_width == 32 else pa.int64()) for chunk in column.chunks],
            pa.int32() if kind.bit_width == 32 else pa.int64(),
        )
    whole = in_one_array(column)
    width = whole.type.bit_width // 8
    signed = not pa.types.is_unsigned_integer(whole.type)
    values = np.frombuffer(whole.buffers()[1] or b"", f"{'i' if signed else 'u'}{width}")
    return values[whole.offset : whole.offset + len(whole)]


def base_of(column: pa.ChunkedArray, bits: Array, valid: Array | None) -> int:
    """The minimum of a column (floats: 0), subtracted from keys so that a dense key range can index an array."""
    of_keys = bits if valid is None else bits[valid.view(bool)]
    if pa.types.is_floating(column.type) or not len(of_keys):
        return 0
    return int(of_keys.min()) & ((1 << 8 * bits.itemsize) - 1)


def without_nulls(columns: Sequence[pa.ChunkedArray]) -> Array | None:
    """A byte for each row, 0 if any of its columns is null; ``None`` if there are no nulls."""
    with_nulls = [column for column in columns if column.null_count]
    if not with_nulls:
        return None
    valid = pc.is_valid(with_nulls[0]).to_numpy()
    for column in with_nulls[1:]:
        valid = valid & pc.is_valid(column).to_numpy()
    return np.asarray(valid).view(np.uint8)
