"""How the columns of a row group are encoded: plainly, with a dictionary or by deltas; a sample shows what pays.

PyArrow tries a dictionary for every column; where it does not pay, that takes three times as long, and more space.
Integers that lie close together take few bits as differences from one row to the next (DELTA_BINARY_PACKED in the
specification of Parquet): those of sorted timestamps a half, those of increasing identifiers next to none.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkwise import _core
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.key_types import is_number, is_valid, stored_numbers

Encoding = Literal["plain", "dictionary", "delta"]

# Adjacent rows show the repeats in sorted columns; slices spread over the column show those in others.
_SAMPLED_SLICES, _SAMPLED_ROWS = 16, 256
_LARGEST_DICTIONARY = 1 << 20  # bytes; beyond that, the writer abandons the dictionary halfway
_GAIN = 0.8  # of the bits of the simpler encoding, which another one may take at most
_LEAST_ROWS = 1 << 8  # fewer are encoded quickly either way

_MINIBLOCKS, _MINIBLOCK = 4, 32  # deltas of one width, and how many such a block has, which has one minimum
_BLOCK_BITS = 64  # the minimum and the widths
_RUN_BITS = 32  # of equal values in a row, with a dictionary


def encoding_of(column: pa.ChunkedArray, *, dictionary: bool = True, delta: bool = True) -> Encoding:
    """The encoding that takes the least space, as far as a sample tells, of those that are allowed."""
    kind, rows = column.type, len(column)
    unsampled: Encoding = "dictionary" if dictionary else "plain"
    if pa.types.is_dictionary(kind) or pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return unsampled
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return "plain"
    if rows < _LEAST_ROWS:
        return unsampled
    step = rows / _SAMPLED_SLICES
    size = min(_SAMPLED_ROWS, int(step))
    slices = [_one_array(column.slice(int(at * step), size)) for at in range(_SAMPLED_SLICES)]
    sample = pa.concat_arrays(slices)
    if sample.null_count == len(sample):
        return unsampled
    plain = _bits(kind, sample)
    integers = [_integers_of(each) for each in slices]
    deltas = [np.diff(each) for each in integers if each is not None and len(each) > 1]
    indexed = _bits_with_dictionary(rows, sample, plain, deltas) if dictionary else np.inf
    if delta and deltas and _bits_of_deltas(deltas) < min(_GAIN * plain, _GAIN * indexed):
        return "delta"
    return "dictionary" if indexed < _GAIN * plain else "plain"


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _bits(kind: pa.DataType, sample: pa.Array) -> float:
    """Bits of a value in plain encoding; nulls are none."""
    if pa.types.is_decimal(kind) and kind.precision <= 18:
        return 32.0 if kind.precision <= 9 else 64.0
    if pa.types.is_integer(kind):
        return float(max(32, kind.bit_width))
    if pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
        return float(kind.bit_width)
    offset = 8 if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) else 4
    bytes_of_nulls = sample.null_count and sample.null_count * offset + -(-len(sample) // 8)  # in offsets and validity
    return float(32 + 8 * (bytes_of(sample) - bytes_of_nulls) / max(len(sample) - sample.null_count, 1))


def _bits_with_dictionary(rows: int, sample: pa.Array, plain: float, deltas: list[npt.NDArray[Any]]) -> float:
    """Bits of a value that is an index into a dictionary, with its part of the dictionary."""
    distinct = _all_values(len(sample) - sample.null_count, _distinct_values(sample))
    if distinct * plain >= 8 * _LARGEST_DICTIONARY:
        return np.inf
    index = np.ceil(np.log2(max(distinct, 2)))
    if deltas:  # equal values in a row are stored once
        index = min(index, _RUN_BITS * float(np.mean(np.concatenate(deltas) != 0)))
    return float(index + distinct * plain / rows)


def _all_values(drawn: int, distinct: int) -> float:
    """From how many equally likely values so many distinct ones are drawn; skewed ones are taken for fewer."""
    least, most = float(distinct), float(drawn) ** 2
    for _ in range(40):  # n values give n (1 - e^(-drawn / n)) distinct ones
        middle = (least * most) ** 0.5
        least, most = (least, middle) if middle * -math.expm1(-drawn / middle) > distinct else (middle, most)
    return most


def _distinct_values(sample: pa.Array) -> int:
    """How many different values there are; nulls are none."""
    hashes = np.zeros(len(sample), np.uint64)
    # Neither by PyArrow's functions nor by np.unique, which loads numpy.ma: all cores would wait for these to load.
    if _core.hash_rows([sample], hashes):
        hashes.sort()
        return int(np.count_nonzero(np.diff(hashes))) + bool(len(hashes)) - bool(sample.null_count)
    return len(sample.drop_null().unique())


def _integers_of(values: pa.Array) -> npt.NDArray[np.int64] | None:
    """The integers that Parquet stores for the values, without nulls; ``None`` if it stores other things."""
    kind = values.type
    if pa.types.is_decimal(kind) and kind.precision <= 18:
        words, width = max(kind.bit_width // 64, 1), min(kind.bit_width // 8, 8)  # the first word has the value
        found = np.frombuffer(values.buffers()[1] or b"", f"i{width}")
        numbers = found[words * values.offset : words * (values.offset + len(values)) : words].astype(np.int64)
    elif pa.types.is_integer(kind) or (is_number(kind) and pa.types.is_temporal(kind) and not pa.types.is_date64(kind)):
        stored = stored_numbers(values)
        numbers = stored.view(np.int64) if stored.itemsize == 8 else stored.astype(np.int64)
        if (pa.types.is_timestamp(kind) or pa.types.is_time(kind)) and kind.unit == "s":
            numbers = numbers * 1000  # Parquet has no seconds
    else:  # date64 is stored as days
        return None
    return numbers[is_valid(values)] if values.null_count else numbers


def _bits_of_deltas(deltas: list[npt.NDArray[Any]]) -> float:
    """Bits of a value that is stored as its difference to the one before; those beyond a block's least one count."""
    block = _MINIBLOCKS * _MINIBLOCK
    joined = np.concatenate([np.resize(each, (-(-len(each) // block), _MINIBLOCKS, _MINIBLOCK)) for each in deltas])
    beyond = (joined - joined.min(axis=(1, 2), keepdims=True)).view(np.uint64).max(axis=2)  # modulo 2⁶⁴, as stored
    return float(np.mean(np.ceil(np.log2(beyond.astype(np.float64) + 1)))) + _BLOCK_BITS / block
