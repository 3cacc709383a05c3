"""The formats of files: which name means which, and what can go wrong with all of them."""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from linkwise._core import Error, UsageError
from linkwise._typing import Format
from linkwise.encoders.parquet_options import ParquetOptions

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
    columns: list[str] | None = None
    """Those that are read and written; all unless given."""
    filter: Any | None = None
    """Which rows are: a PyArrow expression, or text (see ``columns/row_filter.py``)."""
    delimiter: str | None = None
    """Between the values of text; what the format says unless given."""
    null_string: str = ""
    """What stands for null in text that is read."""
    parquet: ParquetOptions = field(default_factory=ParquetOptions)
    """How a Parquet file is written."""


def check_delimiter(delimiter: str | None) -> None:
    """Raise ``UsageError`` unless it is one letter that can stand between values."""
    if delimiter is not None and (len(delimiter.encode()) != 1 or delimiter in '"\r\n'):
        raise UsageError(f"a delimiter is one letter, as ';' or '|', not {delimiter!r}")


def format_of(path: Path, named: str | None = None) -> Format:
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


def known_format(path: Path) -> Format | None:
    """What the end of a file's name tells; text may be compressed, as ``.csv.gz``."""
    if codec_of(path) is None:
        return _BY_SUFFIX.get(path.suffix.lower())
    kind = _BY_SUFFIX.get(Path(path.stem).suffix.lower())
    return kind if kind in TEXT_FORMATS else None


def codec_of(path: Path) -> str | None:
    """How a file is compressed as a whole, as the end of its name tells."""
    return _CODECS.get(path.suffix.lower())


def is_pipe(path: Path) -> bool:
    """Whether it is a stream: standard input or output, a named pipe, a device."""
    # Unlike the methods of a path, these take any name.
    return path == PIPE or (os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path))


def size_of(path: Path) -> int | None:
    """Bytes of a file; nobody knows a stream's."""
    return None if is_pipe(path) else path.stat().st_size


def as_path(name: str | Path) -> Path:
    """A file's name, by which the standard streams may be meant."""
    return PIPE if str(name) in ("-", "/dev/stdin", "/dev/stdout") else Path(name)


def name_of(path: Path, what: Literal["read", "write"]) -> str:
    """What to call a file in a message."""
    return {"read": "standard input", "write": "standard output"}[what] if path == PIPE else str(path)


def expand(sources: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files that are meant, in the order of their names: those like a pattern, and those in a directory."""
    paths: list[Path] = []
    if not isinstance(sources, str | Path | Sequence):
        raise UsageError(f"name files to read, not a {type(sources).__name__}")
    for source in [sources] if isinstance(sources, str | Path) else sources:
        path = as_path(source)
        if path != PIPE and not os.path.exists(path) and glob.has_magic(str(source)):
            found = sorted(glob.glob(str(source), recursive=True))
            if not found:
                raise UsageError(f"no file is like {source}")
            every = (_files_in(each) if each.is_dir() else [each] for each in map(Path, found))
            paths += dict.fromkeys(itertools.chain(*every))  # '**' finds directories and what is in them
        elif path != PIPE and os.path.isdir(path):
            paths += _files_in(path)
        else:
            paths.append(path)
    if not paths:
        raise UsageError("name at least one file to read")
    return paths


def _files_in(directory: Path) -> list[Path]:
    """The tables in a directory and those inside of it; what begins with a dot or a low line is no part of them."""
    found: list[Path] = []
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        inside = [Path(folder, name) for name in names if not name.startswith((".", "_"))]
        found += [path for path in inside if known_format(path) not in (None, *ARRAY_FORMATS)]
    kinds = sorted({str(known_format(path)) for path in found})
    if not found:
        raise UsageError(f"there is no table in the directory {directory}")
    if len(kinds) > 1:
        raise UsageError(
            f"{directory} has tables of several formats, {', '.join(kinds)}; name those of one, as '*.parquet'"
        )
    return sorted(found)


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a name like ``int32``, ``string``, ``timestamp[us]`` or ``decimal(10,2)``."""
    decimal = re.fullmatch(r"decimal(?:128)?\((\d+),\s*(-?\d+)\)", name)
    try:
        return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else pa.type_for_alias(name)
    except (ValueError, OverflowError, pa.ArrowException):
        raise UsageError(f"there is no type '{name}'; name one like int64, string, date32 or decimal(10,2)") from None


@contextmanager
def one_clear_line(what: Literal["read", "write"], path: Path) -> Iterator[None]:
    """Turn what libraries raise about a file into an ``Error`` that names it."""
    try:
        yield
    except (Error, BrokenPipeError):  # who reads a pipe may have had enough
        raise
    except Exception as error:  # damaged files make libraries raise whatever their parsers do
        reason = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
        raise Error(f"cannot {what} {name_of(path, what)}: {reason}") from None
