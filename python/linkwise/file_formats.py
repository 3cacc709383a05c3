"""The formats of files: which name means which, and what can go wrong with all of them."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pyarrow as pa

from linkwise._core import Error, UsageError

Format = Literal["parquet", "arrow", "csv", "tsv", "npy", "bin"]

_BY_SUFFIX: dict[str, Format] = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".tsv": "tsv",
    ".npy": "npy",
    ".bin": "bin",
}
ARRAY_FORMATS = ("npy", "bin")
PIPE = Path("-")
"""Stands for standard input and output."""


@dataclass(frozen=True)
class FileOptions:
    """What file names do not say."""

    dtype: str | None = None
    """The NumPy type of the numbers in a raw file."""
    column_types: dict[str, str] = field(default_factory=dict)
    """Types of columns of text files, by their Arrow names; others are inferred."""
    header: bool = True
    """Whether text files begin with the names of their columns."""
    input_format: str | None = None
    output_format: str | None = None


def format_of(path: Path, named: str | None = None) -> Format:
    """The format of a file: as named, or by the end of its name. Raises ``UsageError``."""
    if named is not None:
        if named not in _BY_SUFFIX.values():
            raise UsageError(f"there is no format '{named}'; there are {', '.join(dict.fromkeys(_BY_SUFFIX.values()))}")
        return _BY_SUFFIX[f".{named}"]
    suffix = path.suffix.lower()
    if suffix not in _BY_SUFFIX:
        *most, last = _BY_SUFFIX
        raise UsageError(f"{path}: cannot tell the format; file names end in {', '.join(most)} or {last}")
    return _BY_SUFFIX[suffix]


def expand(sources: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files that are meant, patterns like ``part-*.csv`` expanded in the order of their names."""
    paths: list[Path] = []
    for source in [sources] if isinstance(sources, str | Path) else sources:
        path = Path(source)
        if path != PIPE and not os.path.exists(path) and glob.has_magic(str(source)):
            found = sorted(glob.glob(str(source), recursive=True))
            if not found:
                raise UsageError(f"no file is like {source}")
            paths += map(Path, found)
        else:
            paths.append(path)
    if not paths:
        raise UsageError("name at least one file to read")
    return paths


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a name like ``int32``, ``string``, ``timestamp[us]`` or ``decimal(10,2)``."""
    decimal = re.fullmatch(r"decimal(?:128)?\((\d+),\s*(-?\d+)\)", name)
    try:
        return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else pa.type_for_alias(name)
    except (ValueError, OverflowError, pa.ArrowException):
        raise UsageError(f"there is no type '{name}'; name one like int64, string, date32 or decimal(10,2)") from None


@contextmanager
def one_clear_line(what: str, path: Path) -> Iterator[None]:
    """Turn what libraries raise about a file into an ``Error`` that names it."""
    try:
        yield
    except Error:
        raise
    except Exception as error:  # damaged files make libraries raise whatever their parsers do
        reason = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
        name = {"read": "standard input", "write": "standard output"}[what] if path == PIPE else path
        raise Error(f"cannot {what} {name}: {reason}") from None
