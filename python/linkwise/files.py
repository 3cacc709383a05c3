"""Files in and out, at once or a batch at a time.

What goes out is written beside its place and renamed: nothing half-written is ever there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from linkwise._core import Error, UsageError

Contents: TypeAlias = pa.Table | npt.NDArray[np.generic]
FORMATS = (".parquet", ".npy", ".bin")


def check_format(path: Path) -> None:
    """Raise ``UsageError`` unless the name ends in a format that can be read and written."""
    if path.suffix not in FORMATS:
        raise UsageError(
            f"{path}: cannot tell the format; file names end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        )


@contextmanager
def _one_clear_line(what: str, path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
        raise Error(f"cannot {what} {path}: {reason}") from None


def _map_array(path: Path, dtype: str | None) -> npt.NDArray[np.generic]:
    with _one_clear_line("read", path):
        path.open("rb").close()  # says what is wrong better than the libraries do
        if path.suffix == ".npy":
            return cast(npt.NDArray[np.generic], np.load(path, mmap_mode="r", allow_pickle=False))
    if dtype is None:
        raise UsageError(f"{path}: a .bin file is raw; name the type of its numbers with --dtype, as uint32 or f8")
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise UsageError(f"there is no type '{dtype}'; name one like uint32, int64 or f8") from None
    with _one_clear_line("read", path):
        return np.memmap(path, dtype=kind, mode="r") if path.stat().st_size else np.empty(0, kind)


class Reader(Protocol):
    """A file that is read from its beginning to its end."""

    rows: int
    row_bytes: int  # in memory, about
    columns: list[str]  # of a table

    @property
    def is_table(self) -> bool:
        """Whether its batches are tables."""
        ...

    def everything(self) -> Contents:
        """All of it at once; arrays are mapped, not loaded."""
        ...

    def batches(self, rows: int) -> Iterator[Contents]:
        """Consecutive parts of about that many rows."""
        ...


class _ArrayReader:
    is_table = False

    def __init__(self, path: Path, dtype: str | None) -> None:
        self.columns: list[str] = []
        self._array = _map_array(path, dtype)
        self.rows, self.row_bytes = len(self._array), self._array.itemsize

    def everything(self) -> Contents:
        return self._array

    def batches(self, rows: int) -> Iterator[Contents]:
        for first in range(0, self.rows, rows):
            yield np.array(self._array[first : first + rows])


class _ParquetReader:
    is_table = True

    def __init__(self, path: Path) -> None:
        self._path = path
        with _one_clear_line("read", path):
            path.open("rb").close()  # says what is wrong better than the library does
            self._file = pq.ParquetFile(path)
        metadata = self._file.metadata
        self.columns: list[str] = self._file.schema_arrow.names
        self.rows = metadata.num_rows
        encoded = sum(metadata.row_group(g).total_byte_size for g in range(metadata.num_row_groups))
        self.row_bytes = max(2 * encoded // max(self.rows, 1), 8 * metadata.num_columns)

    def everything(self) -> Contents:
        with _one_clear_line("read", self._path):
            return self._file.read()

    def batches(self, rows: int) -> Iterator[Contents]:
        parts: list[pa.RecordBatch] = []
        held = 0
        with _one_clear_line("read", self._path):
            for batch in self._file.iter_batches(min(rows, 1 << 20)):
                parts.append(batch)
                held += batch.num_rows
                if held >= rows:
                    yield pa.Table.from_batches(parts)
                    parts, held = [], 0
        if parts:
            yield pa.Table.from_batches(parts)


def open_reader(path: Path, dtype: str | None = None) -> Reader:
    """A reader of ``.parquet``, ``.npy``, or raw ``.bin`` of a given type. Raises ``Error`` with one clear line."""
    check_format(path)
    return _ParquetReader(path) if path.suffix == ".parquet" else _ArrayReader(path, dtype)


class Writer:
    """Writes a file beside its place and renames it at the end: it appears complete or not at all."""

    def __init__(self, path: Path, rows: int) -> None:
        self._path, self._rows = path, rows
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._parquet: pq.ParquetWriter | None = None
        self._file: Any = None

    def __enter__(self) -> Self:
        return self

    def write(self, contents: Contents) -> None:
        """Append rows."""
        with _one_clear_line("write", self._path):
            if isinstance(contents, pa.Table):
                if self._parquet is None:
                    self._parquet = pq.ParquetWriter(self._temporary, contents.schema)
                self._parquet.write_table(contents)
            else:
                self._open_array(contents.dtype)
                contents.tofile(self._file)

    def _open_array(self, dtype: np.dtype[Any]) -> None:
        if self._file is not None:
            return
        self._file = self._temporary.open("wb")
        if self._path.suffix == ".npy":
            header = {"descr": dtype.str, "fortran_order": False, "shape": (self._rows,)}
            np.lib.format.write_array_header_2_0(self._file, header)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with _one_clear_line("write", self._path):
                for file in (self._parquet, self._file):
                    if file is not None:
                        file.close()
                if kind is None:
                    self._temporary.replace(self._path)
        finally:
            self._temporary.unlink(missing_ok=True)
