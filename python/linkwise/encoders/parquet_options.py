"""What can be chosen of a Parquet file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from linkwise._core import UsageError

Dictionary = Literal["auto", "all", "none"]

CODECS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
_LEVELS = {"gzip": range(1, 10), "brotli": range(12), "zstd": range(-7, 23)}


@dataclass(frozen=True)
class ParquetOptions:
    """How a Parquet file is written."""

    compression: str | None = None
    """A codec, optionally with a level: ``"zstd:3"``; by default those of the input's columns, otherwise snappy."""
    row_group_rows: int | None = None
    """Rows per row group; by default 2^17 to 2^18 (2^19 on many cores), fewer where memory is scarce."""
    dictionary: Dictionary = "auto"
    """Which columns are dictionary-encoded; ``"auto"``: those where a sample shows that it pays."""
    delta: bool = True
    """Whether integers, times and decimals are delta-encoded where a sample shows that it pays."""
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


def codec_arguments(options: ParquetOptions, of_input: dict[str, str], columns: Iterable[str]) -> dict[str, Any]:
    """PyArrow's arguments: the codec that was named, or those that the input's columns have.

    Columns that the input does not have, such as those of a join's other side, get the one that most of these have.
    """
    if options.compression is not None:
        codec, level = options.codec()
        return {"compression": codec, "compression_level": level}
    if not of_input:
        return {"compression": "snappy"}
    kept = {path: codec.replace("UNCOMPRESSED", "NONE") for path, codec in of_input.items()}
    usual = Counter(kept.values()).most_common(1)[0][0]
    return {"compression": {path: kept.get(path, usual) for path in columns}}
