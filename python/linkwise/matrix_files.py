"""Sparse matrices from files: Matrix Market's (``.mtx``), and lists of edges."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linkwise._core import UsageError
from linkwise.app_data import Matrix, matrix_of

Array = npt.NDArray[Any]
_MOST_VERTICES = 2**31


class _Header(NamedTuple):
    """What is known before the entries, and the line behind it."""

    lines: int = 0
    base: int = 0
    is_symmetric: bool = False
    sign: int = 1  # of the entries' mirror images
    size: int | None = None
    entries: int | None = None


def read_matrix(path: Path) -> Matrix:
    """A square matrix from a Matrix Market file, or a list of edges ``from to [weight]``, numbered from 0.

    Entries without a value, as those of patterns, are 1.

    Raises
    ------
    UsageError
        Naming the file, and the first line that is not as it should be.

    """
    try:
        header = _header_of(path)
        entries = _entries_of(path, header)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not len(entries):
        raise UsageError(f"{path} has no entries")
    if header.entries is not None and len(entries) != header.entries:
        raise UsageError(f"{path} has {len(entries)} entries, and says that it has {header.entries}")
    ends = entries[:, :2].astype(np.int64) - header.base
    size = max(header.size or 0, 0 if header.size else int(ends.max()) + 1)
    if int(ends.max()) >= min(size, _MOST_VERTICES) or size > _MOST_VERTICES:
        raise UsageError(f"{path}: row or column {int(ends.max()) + header.base} is too large")
    row, column, value = ends[:, 0], ends[:, 1], entries[:, 2]
    if header.is_symmetric:
        off = row != column
        row, column, value = (
            np.concatenate(pair)
            for pair in ((row, column[off]), (column, row[off]), (value, header.sign * value[off]))
        )  # fmt: skip
    return matrix_of(row, column, value, size, size)


def _header_of(path: Path) -> _Header:
    with path.open(encoding="utf-8") as file:
        words = file.readline().lower().split()
        if not words or words[0] != "%%matrixmarket":
            return _Header()
        if words[1:3] != ["matrix", "coordinate"] or len(words) < 5 or words[3] not in ("real", "integer", "pattern"):
            raise UsageError(f"{path}: only real, integer or pattern matrices by coordinates are read")
        if words[4] not in ("general", "symmetric", "skew-symmetric"):
            raise UsageError(f"{path}: a matrix is general, symmetric or skew-symmetric, not {words[4]}")
        for lines, line in enumerate(file, 2):
            if line.startswith("%") or not line.strip():
                continue
            try:
                rows, columns, entries = (int(word) for word in line.split())
            except ValueError:
                break
            sign = -1 if words[4] == "skew-symmetric" else 1
            return _Header(lines, 1, words[4] != "general", sign, max(rows, columns), entries)
    raise UsageError(f"{path}: there is no line with rows, columns and entries")


def _entries_of(path: Path, header: _Header) -> Array:
    """Rows, columns and values, [entries][3]."""
    with path.open(encoding="utf-8") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of no entries, which is said otherwise
        try:
            entries = np.loadtxt(itertools.islice(file, header.lines, None), comments=["#", "%"], ndmin=2)
        except ValueError:  # lines of several lengths, or a wrong one
            return _entries_line_by_line(path, header)
    numbers = entries[:, :2]
    if entries.size == 0:
        return np.empty((0, 3))
    if not 2 <= entries.shape[1] <= 3 or not np.isfinite(entries).all() or (numbers < header.base).any() or (
        numbers % 1
    ).any():  # fmt: skip
        return _entries_line_by_line(path, header)
    return entries if entries.shape[1] == 3 else np.column_stack([entries, np.ones(len(entries))])


def _entries_line_by_line(path: Path, header: _Header) -> Array:
    """The same, slowly, to say which line is wrong."""
    found: list[tuple[float, float, float]] = []
    with path.open(encoding="utf-8") as file:
        for at, line in enumerate(file, 1):
            if at <= header.lines or not line.strip() or line.lstrip()[0] in "#%":
                continue
            try:
                row, column, value = (*map(float, line.split()), 1.0)[:3]
                if len(line.split()) > 3 or not np.isfinite([row, column, value]).all():
                    raise ValueError
                if min(row, column) < header.base or row % 1 or column % 1:
                    raise ValueError
            except ValueError:
                raise UsageError(f"{path}, line {at}: '{line.strip()[:40]}' is no row, column and value") from None
            found.append((row, column, value))
    return np.array(found).reshape(-1, 3)
