"""Files in and out. What goes out is written beside its place and renamed: nothing half-written is ever there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, cast

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


def first_line(error: Exception) -> str:
    """What an error of a library says, in one line."""
    return getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]


def open_array(path: Path, dtype: str | None = None) -> npt.NDArray[np.generic]:
    """The array of a ``.npy`` file, or the numbers of type ``dtype`` in a raw ``.bin`` file; mapped, not loaded."""
    check_format(path)
    try:
        path.open("rb").close()  # says what is wrong better than the libraries do
        if path.suffix == ".npy":
            return cast(npt.NDArray[np.generic], np.load(path, mmap_mode="r", allow_pickle=False))
        if dtype is None:
            raise UsageError(f"{path}: a .bin file is raw; name the type of its numbers with --dtype, as uint32 or f8")
        return np.memmap(path, dtype=_plain_dtype(dtype), mode="r") if path.stat().st_size else np.empty(0, dtype)
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, UsageError):
            raise
        raise Error(f"cannot read {path}: {first_line(error)}") from None


def _plain_dtype(name: str) -> np.dtype[np.generic]:
    try:
        return np.dtype(name)
    except TypeError:
        raise UsageError(f"there is no type '{name}'; name one like uint32, int64 or f8") from None


def read(path: Path, dtype: str | None = None) -> Contents:
    """A table from ``.parquet``, an array from ``.npy`` or ``.bin``. Raises ``Error`` with one clear line."""
    check_format(path)
    if path.suffix != ".parquet":
        return open_array(path, dtype)
    try:
        path.open("rb").close()
        return cast(Contents, pq.read_table(path))
    except (OSError, pa.ArrowException) as error:
        raise Error(f"cannot read {path}: {first_line(error)}") from None


def write(path: Path, contents: Contents) -> None:
    """Write a table or an array; ``path`` appears complete or not at all. Raises ``Error`` with one clear line."""
    check_format(path)
    if (path.suffix == ".parquet") != isinstance(contents, pa.Table):
        raise UsageError(
            f"{path}: a {'table' if isinstance(contents, pa.Table) else 'NumPy array'} cannot be written there"
        )

    def store(temporary: Path) -> None:
        if isinstance(contents, pa.Table):
            pq.write_table(contents, temporary)
        elif path.suffix == ".bin":
            contents.tofile(temporary)
        else:
            with temporary.open("wb") as file:
                np.save(file, contents, allow_pickle=False)

    _write_and_rename(path, store)


def _write_and_rename(path: Path, store: Callable[[Path], None]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        store(temporary)
        temporary.replace(path)
    except (OSError, pa.ArrowException) as error:
        raise Error(f"cannot write {path}: {first_line(error)}") from None
    finally:
        temporary.unlink(missing_ok=True)
