"""How columns are encoded: with a dictionary where a sample shows that it makes them smaller.

PyArrow tries a dictionary for every column; where it does not pay, that takes three times as long, and more space.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from linkwise import _core
from linkwise._core import UsageError
from linkwise.columns.gather_pyarrow import bytes_of

Dictionary = Literal["auto", "all", "none"]

CODECS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
_LEVELS = {"gzip": range(1, 10), "brotli": range(12), "zstd": range(-7, 23)}

# Adjacent rows show the repeats in sorted columns; slices spread over the column show those in others.
_SAMPLED_SLICES, _SAMPLED_ROWS = 16, 256
_LARGEST_DICTIONARY = 1 << 20  # bytes; beyond that, the writer abandons the dictionary halfway
_GAIN = 0.8  # of the plain size, which a dictionary and its indices may take at most
_LEAST_ROWS = 1 << 10  # fewer are encoded quickly either way


@dataclass(frozen=True)
class ParquetOptions:
    """How a Parquet file is written."""

    compression: str | None = None
    """A codec, optionally with a level: ``"zstd:3"``; by default those of the input's columns, otherwise snappy."""
    row_group_rows: int | None = None
    """Rows per row group; by default 2^17 to 2^18 (2^19 on many cores), fewer where memory is scarce."""
    dictionary: Dictionary = "auto"
    """Which columns are dictionary-encoded; ``"auto"``: those where a sample shows that it pays."""
    page_index: bool = False
    """Whether to write a page index, by which readers skip pages that they do not need."""

    def __post_init__(self) -> None:
        if self.compression is not None:
            self.codec()
        if self.row_group_rows is not None and self.row_group_rows < 1:
            raise UsageError(f"a row group has one row at least, not {self.row_group_rows}")
        if self.dictionary not in get_args(Dictionary):
            raise UsageError(f"dictionary is '{self.dictionary}'; it is one of {', '.join(get_args(Dictionary))}")

    def codec(self) -> tuple[str, int | None]:
        """The codec, and its level if one is named. Raises ``UsageError``."""
        named = re.fullmatch(r"(\w+)(?::(-?\d+))?", str(self.compression).lower())
        codec = named[1] if named else ""
        level = int(named[2]) if named and named[2] else None
        codec = {"uncompressed": "none", "lz4_raw": "lz4"}.get(codec, codec)
        if codec not in CODECS:
            raise UsageError(
                f"there is no codec '{self.compression}'; there are {', '.join(CODECS)}, as zstd:3 with a level"
            )
        if level is not None and level not in _LEVELS.get(codec, ()):
            levels = _LEVELS.get(codec)
            which = f"are {levels[0]} to {levels[-1]}" if levels else "are none"
            raise UsageError(f"{codec} has no level {level}; there {which}")
        return codec, level


def _bits(kind: pa.DataType, sample: pa.Array) -> float:
    """Bits of a value in plain encoding; nulls are none."""
    if pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
        return float(kind.bit_width)
    offset = 8 if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) else 4
    bytes_of_nulls = sample.null_count and sample.null_count * offset + -(-len(sample) // 8)  # in offsets and validity
    return float(32 + 8 * (bytes_of(sample) - bytes_of_nulls) / max(len(sample) - sample.null_count, 1))


def _distinct_values(sample: pa.Array) -> int:
    """How many different values there are; nulls are none."""
    hashes = np.zeros(len(sample), np.uint64)
    # Neither by PyArrow's functions nor by np.unique, which loads numpy.ma: all cores would wait for these to load.
    if _core.hash_rows([sample], hashes):
        hashes.sort()
        return int(np.count_nonzero(np.diff(hashes))) + bool(len(hashes)) - bool(sample.null_count)
    return len(sample.drop_null().unique())


def pays(column: pa.ChunkedArray) -> bool:
    """Whether a dictionary makes a column smaller, as far as a sample tells."""
    kind, rows = column.type, len(column)
    if pa.types.is_dictionary(kind) or pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return True
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return False
    if rows < _LEAST_ROWS:
        return True
    step = rows / _SAMPLED_SLICES
    size = min(_SAMPLED_ROWS, int(step))
    slices = [column.slice(int(at * step), size) for at in range(_SAMPLED_SLICES)]
    sample = pa.concat_arrays([chunk for each in slices for chunk in each.chunks])
    values = len(sample) - sample.null_count
    if not values:
        return True
    repeated = values - _distinct_values(sample)
    if not repeated:
        return False
    # s draws from n equally likely values repeat about s²/2n; skewed ones repeat more, and have a smaller dictionary.
    distinct = max(values**2 / (2 * repeated), values - repeated)
    bits = _bits(kind, sample)
    with_dictionary = rows * np.ceil(np.log2(max(distinct, 2))) + distinct * bits
    return bool(distinct * bits < 8 * _LARGEST_DICTIONARY and with_dictionary < _GAIN * rows * bits)


def codec_arguments(options: ParquetOptions, of_input: dict[str, str]) -> dict[str, Any]:
    """PyArrow's arguments: the codec that was named, or those that the input's columns have."""
    if options.compression is not None:
        codec, level = options.codec()
        return {"compression": codec, "compression_level": level}
    kept = {path: codec.replace("UNCOMPRESSED", "NONE") for path, codec in of_input.items()}
    return {"compression": kept or "snappy"}
