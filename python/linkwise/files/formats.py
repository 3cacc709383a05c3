"""File formats: how file names determine them, and how errors of all formats are reported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from linkwise._core import Error, UsageError
from linkwise._typing import Format
from linkwise.encoders.parquet_options import ParquetOptions
from linkwise.files.locations import Location, TableSource, name_of

_BY_SUFFIX: dict[str, Format] = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".npy": "npy",
    ".bin": "bin",
}

ARRAY_FORMATS = ("npy", "bin")
TEXT_FORMATS = ("csv", "tsv", "jsonl")

_CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


@dataclass(frozen=True)
class FileOptions:
    """Options for reading and writing files that file names do not determine."""

    dtype: str | None = None
    """The NumPy type of the numbers in a raw file."""
    column_types: dict[str, str] = field(default_factory=dict)
    """Types of columns of text files, by their Arrow names; others are inferred."""
    header: bool = True
    """Whether text files begin with the names of their columns."""
    input_format: str | None = None
    output_format: str | None = None
    columns: list[str] | None = None
    """Columns to read and write; ``None`` for all."""
    filter: Any | None = None
    """Rows to read: a PyArrow expression, or text (see ``columns/row_filter.py``)."""
    delimiter: str | None = None
    """Separates the values of text; by default that of the format."""
    null_string: str = ""
    """The text that is read as null."""
    partition_by: tuple[str, ...] = ()
    """Columns whose values partition the output into subdirectories."""
    file_rows: int | None = None
    """Rows per output file; if set, the output is a directory."""
    parquet: ParquetOptions = field(default_factory=ParquetOptions)
    """How a Parquet file is written."""

    @property
    def is_directory(self) -> bool:
        """Whether the output is a directory of files."""
        return bool(self.partition_by) or self.file_rows is not None


def check_delimiter(delimiter: str | None) -> None:
    """Raise ``UsageError`` unless it is a single byte that can separate values."""
    if delimiter is not None and (len(delimiter.encode()) != 1 or delimiter in '"\r\n'):
        raise UsageError(f"a delimiter is one letter, as ';' or '|', not {delimiter!r}")


def format_of(path: Location, named: str | None = None) -> Format:
    """The format of a file: as named, or by the end of its name. Raises ``UsageError``."""
    if named is not None:
        if named not in _BY_SUFFIX.values():
            raise UsageError(f"there is no format '{named}'; there are {', '.join(dict.fromkeys(_BY_SUFFIX.values()))}")
        return _BY_SUFFIX[f".{named}"]
    kind = known_format(path)
    if kind is None:
        *most, last = _BY_SUFFIX
        raise UsageError(
            f"{path}: cannot tell the format; file names end in {', '.join(most)} or {last}, those of text also in "
            f"{', '.join(_CODECS)} behind that, or name the format with --input-format or --output-format"
        )
    return kind


def known_format(path: Location) -> Format | None:
    """The format that the end of a file's name indicates, if any; text may be compressed, as ``.csv.gz``."""
    if isinstance(path, TableSource):
        return "arrow"
    if codec_of(path) is None:
        return _BY_SUFFIX.get(path.suffix.lower())
    kind = _BY_SUFFIX.get(Path(path.stem).suffix.lower())
    return kind if kind in TEXT_FORMATS else None


def codec_of(path: Location) -> str | None:
    """The codec of a file that is compressed as a whole, as the end of its name indicates."""
    return None if isinstance(path, TableSource) else _CODECS.get(path.suffix.lower())


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a name like ``int32``, ``timestamp[us]``, ``timestamp[us, tz=UTC]`` or ``decimal(10,2)``."""
    decimal = re.fullmatch(r"decimal(?:128)?\((\d+),\s*(-?\d+)\)", name)
    zoned = re.fullmatch(r"timestamp\[(\w+),\s*(?:tz=)?([^\]]+)\]", name)
    try:
        if zoned:
            return pa.timestamp(zoned[1], zoned[2])
        return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else pa.type_for_alias(name)
    except (ValueError, OverflowError, pa.ArrowException):
        raise UsageError(
            f"there is no type '{name}'; name one like int64, string, date32, timestamp[us, tz=UTC] or decimal(10,2)"
        ) from None


@contextmanager
def one_clear_line(what: Literal["read", "write"], path: Location) -> Iterator[None]:
    """Turn exceptions of libraries about a file into a one-line ``Error`` that names it."""
    try:
        yield
    except (Error, BrokenPipeError):  # the reader of a pipe may close it early
        raise
    except Exception as error:  # on damaged files, parsers may raise anything
        reason = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
        raise Error(f"cannot {what} {name_of(path, what)}: {reason}") from None
