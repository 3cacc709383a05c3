"""Read sparse matrices from Matrix Market files (``.mtx``) and edge lists, also gzipped or from pipes."""

from __future__ import annotations

import gzip
import io
import shutil
import tempfile
import warnings
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TextIO

import numpy as np

from linkwise._core import UsageError
from linkwise._typing import Array
from linkwise.apps.sparse_matrix import Matrix, matrix_of

_MOST_VERTICES = 2**31
_LONGEST_LINE = 1 << 16  # characters
_WORDS = {"real": 3, "integer": 3, "pattern": 2}
_MIRROR_SIGNS = {"general": 0, "symmetric": 1, "skew-symmetric": -1}


@dataclass(frozen=True)
class _Header:
    """What a file states before its entries; an edge list states nothing."""

    lines: int = 0
    """Lines before the entries."""
    base: int = 0
    words: tuple[int, ...] = (2, 3)
    """The numbers of words that an entry's line may have."""
    mirror_sign: int = 0
    """The sign of mirrored entries (1: symmetric, -1: skew-symmetric); 0 if none are mirrored."""
    rows: int = _MOST_VERTICES
    columns: int = _MOST_VERTICES
    entries: int | None = None


def read_matrix(path: Path, *, square: bool = True) -> Matrix:
    """Read a matrix from a Matrix Market file, or from a list of edges ``from to [weight]`` numbered from 0.

    Entries without a value (pattern matrices) are 1. An edge list has as many rows and columns as its numbers need,
    and as many rows as columns if it must be square.

    Raises
    ------
    UsageError
        If the file cannot be read or a line is invalid (names the file, and the first such line), or if the matrix
        must be square and is not.

    """
    try:
        with _opened(path) as file:
            header = _header_of(file, path)
            entries = _entries_of(file, header, path)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not len(entries):
        raise UsageError(f"{path} has no entries")
    if header.entries not in (None, len(entries)):
        raise UsageError(f"{path} has {len(entries)} entries, and says that it has {header.entries}")
    row, column = entries[:, :2].astype(np.int64).T - header.base
    value = entries[:, 2]
    rows, columns = header.rows, header.columns
    if header.entries is None:
        rows, columns = int(row.max()) + 1, int(column.max()) + 1
        if square:
            rows = columns = max(rows, columns)
    elif square and rows != columns:
        raise UsageError(f"{path} has {rows} rows and {columns} columns; give a square matrix")
    if header.mirror_sign:
        off = row != column
        row, column, value = (
            np.concatenate(pair)
            for pair in ((row, column[off]), (column, row[off]), (value, header.mirror_sign * value[off]))
        )  # fmt: skip
    return matrix_of(row, column, value, rows, columns)


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """Open the file as text that can be rewound; a pipe's contents are first copied to a temporary file."""
    with ExitStack() as files:
        raw: IO[bytes] = files.enter_context(path.open("rb"))
        file: Any = files.enter_context(gzip.open(raw)) if path.suffix == ".gz" else raw
        if not raw.seekable():
            kept = files.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(file, kept)
            kept.seek(0)
            file = kept
        # Invalid UTF-8 is replaced: it is in a comment, or else it does not parse as a number anyway.
        yield files.enter_context(io.TextIOWrapper(file, "utf-8-sig", errors="replace"))


def _lines(file: TextIO, path: Path) -> Iterator[str]:
    """The remaining lines of the file. Raises ``UsageError`` for a line that is too long to be an entry."""
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE and not line.endswith("\n"):
            raise UsageError(f"{path}: a line has more than {_LONGEST_LINE} characters: this is no list of entries")
        yield line


def _header_of(file: TextIO, path: Path) -> _Header:
    numbered = enumerate(_lines(file, path), 1)
    words = next((line.lower().split() for _, line in numbered if line.strip()), [])
    if words[:1] != ["%%matrixmarket"]:
        file.seek(0)
        return _Header()
    if words[1:3] != ["matrix", "coordinate"] or len(words) < 5 or words[3] not in _WORDS:
        raise UsageError(f"{path}: only real, integer or pattern matrices by coordinates are read")
    if words[4] not in _MIRROR_SIGNS:
        raise UsageError(f"{path}: a matrix is general, symmetric or skew-symmetric, not {words[4]}")
    said = ((at, line.split()) for at, line in numbered if line.strip() and not line.startswith("%"))
    lines, sizes = next(said, (0, []))
    try:
        rows, columns, entries = (int(size) for size in sizes)
    except ValueError:
        raise UsageError(f"{path}: there is no line with rows, columns and entries") from None
    if not (1 <= rows <= _MOST_VERTICES and 1 <= columns <= _MOST_VERTICES and entries >= 0):
        raise UsageError(f"{path}: a matrix has from 1 to 2^31 rows and columns, not {rows} and {columns}")
    if words[4] != "general" and rows != columns:
        raise UsageError(f"{path}: a {words[4]} matrix has as many rows as columns, not {rows} and {columns}")
    return _Header(lines, 1, (_WORDS[words[3]],), _MIRROR_SIGNS[words[4]], rows, columns, entries)


def _entries_of(file: TextIO, header: _Header, path: Path) -> Array:
    """Rows, columns and values, [entries][3]."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # NumPy warns of empty input, which the caller reports
        try:
            entries = np.loadtxt(_lines(file, path), comments=["#", "%"], ndmin=2)
        except UsageError:
            raise
        except ValueError:  # lines of different lengths, or an invalid one
            return _entries_line_by_line(file, header, path)
    if entries.size == 0:
        return np.empty((0, 3))
    if entries.shape[1] not in header.words:
        return _entries_line_by_line(file, header, path)
    if entries.shape[1] == 2:
        entries = np.column_stack([entries, np.ones(len(entries))])
    return entries if _fault(entries, header) is None else _entries_line_by_line(file, header, path)


def _entries_line_by_line(file: TextIO, header: _Header, path: Path) -> Array:
    """The same line by line: slower, but it can tell which line is wrong."""
    found: list[tuple[float, float, float]] = []
    places: list[tuple[int, str]] = []

    def refuse(at: int, line: str, why: str) -> UsageError:
        return UsageError(f"{path}, line {at}: '{line[:40]}' {why}")

    file.seek(0)
    for at, line in enumerate(map(str.strip, _lines(file, path)), 1):
        if at <= header.lines or not line or line[0] in "#%":
            continue
        try:
            words = line.split()
            row, column, value = (*map(float, words), 1.0)[:3]
        except ValueError:
            raise refuse(at, line, "is no row, column and value") from None
        if len(words) not in header.words:
            raise refuse(at, line, f"has {len(words)} words, not {' or '.join(map(str, header.words))}")
        found.append((row, column, value))
        places.append((at, line))
    entries = np.array(found).reshape(-1, 3)
    fault = _fault(entries, header)
    if fault is not None:
        raise refuse(*places[fault[0]], fault[1])
    return entries


def _fault(entries: Array, header: _Header) -> tuple[int, str] | None:
    """The first invalid entry and what is wrong with it, if any."""
    place = entries[:, :2]
    with np.errstate(invalid="ignore", over="ignore"):
        is_wrong = {
            "is no row, column and value": ~np.isfinite(entries).all(1)
            | ((place % 1 != 0) | (place < header.base)).any(1),
            f"lies outside of {header.rows} rows and {header.columns} columns": (
                place >= np.array([header.rows, header.columns]) + header.base
            ).any(1),
            "has a value beyond those of 32-bit floating point": ~np.isfinite(entries[:, 2].astype(np.float32)),
        }
        if header.mirror_sign < 0:
            is_wrong["lies on a skew-symmetric matrix's diagonal, where all is 0"] = (place[:, 0] == place[:, 1]) & (
                entries[:, 2] != 0
            )
    faults = [(int(where.argmax()), why) for why, where in is_wrong.items() if where.any()]
    return min(faults, key=lambda fault: fault[0], default=None)
