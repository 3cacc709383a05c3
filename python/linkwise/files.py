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
FORMATS = (".parquet", ".npy")


def check_format(path: Path) -> None:
    """Raise ``UsageError`` unless the name ends in a format that can be read and written."""
    if path.suffix not in FORMATS:
        raise UsageError(f"{path}: cannot tell the format; file names end in {' or '.join(FORMATS)}")


def read(path: Path) -> Contents:
    """A table from ``.parquet``, an array from ``.npy`` (mapped, not loaded). Raises ``Error`` with one clear line."""
    check_format(path)
    try:
        path.open("rb").close()  # says what is wrong better than the libraries do
        if path.suffix == ".parquet":
            return cast(Contents, pq.read_table(path))
        return cast(Contents, np.load(path, mmap_mode="r", allow_pickle=False))
    except OSError as error:
        raise Error(f"cannot read {path}: {error.strerror or error}") from None
    except (pa.ArrowException, ValueError, EOFError) as error:
        raise Error(f"cannot read {path}: {str(error).splitlines()[0]}") from None


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
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise Error(f"cannot write {path}: {reason}") from None
    finally:
        temporary.unlink(missing_ok=True)
