"""Files that are read and written a batch at a time, for what does not fit into memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linkwise._core import Error
from linkwise.files import Contents, first_line, open_array


class Reader(Protocol):
    """A file that is read from its beginning to its end."""

    rows: int
    row_bytes: int  # in memory, about
    columns: list[str]  # of a table

    @property
    def is_table(self) -> bool:
        """Whether its batches are tables."""
        ...

    def batches(self, rows: int) -> Iterator[Contents]:
        """Consecutive parts of about that many rows."""
        ...


class _ArrayReader:
    is_table = False

    def __init__(self, path: Path, dtype: str | None) -> None:
        self.columns: list[str] = []
        self._array = open_array(path, dtype)
        self.rows, self.row_bytes = len(self._array), self._array.itemsize

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
    return _ParquetReader(path) if path.suffix == ".parquet" else _ArrayReader(path, dtype)


@contextmanager
def _one_clear_line(what: str, path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException, ValueError) as error:
        raise Error(f"cannot {what} {path}: {first_line(error)}") from None


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
