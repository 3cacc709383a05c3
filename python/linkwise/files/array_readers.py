"""Reading arrays of numbers: ``.npy`` and raw files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linkwise._core import UsageError
from linkwise._typing import Array
from linkwise.columns.key_types import key_type_of
from linkwise.files.formats import Format, one_clear_line
from linkwise.files.reader import Reader
from linkwise.interop.containers import Contents


class ArrayReader(Reader):
    """NumPy's ``.npy``, or raw numbers; mapped."""

    def __init__(self, path: Path, kind: Format, dtype: str | None) -> None:
        self.array = _map_array(path, kind, dtype)
        if self.array.ndim != 1:
            raise UsageError(f"{path}: an array to sort has one dimension, not {self.array.ndim}")
        super().__init__(kind, size=self.array.nbytes)

    def everything(self) -> Contents:
        """See ``Reader``."""
        return self.array

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        rows = max(most_bytes // self.array.itemsize, 1)
        for first in range(0, len(self.array), rows):
            yield np.array(self.array[first : first + rows])


def _map_array(path: Path, kind: Format, dtype: str | None) -> Array:
    with one_clear_line("read", path):
        path.open("rb").close()  # says what is wrong better than the libraries do
        if kind == "npy":
            array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
            _check_type(array.dtype)
            return array
    if dtype is None:
        raise UsageError(f"{path}: a .bin file is raw; name the type of its numbers with --dtype, as uint32 or f8")
    try:
        of_numbers = np.dtype(dtype)
    except Exception:  # NumPy evaluates what it is given
        raise UsageError(f"there is no type '{dtype}'; name one like uint32, int64 or f8") from None
    _check_type(of_numbers)
    with one_clear_line("read", path):
        return np.memmap(path, of_numbers, "r") if path.stat().st_size else np.empty(0, of_numbers)


def _check_type(kind: np.dtype[Any]) -> None:
    """Before anything is looked at: elements that are references would be followed."""
    key_type_of(np.dtype(np.uint64) if kind.kind in "bmM" else kind.newbyteorder("="))


class SeveralArrays(Reader):
    """Several of them with numbers of one type, one behind the other."""

    def __init__(self, readers: Sequence[ArrayReader], paths: Sequence[Path]) -> None:
        super().__init__(readers[0].format, size=sum(reader.array.nbytes for reader in readers))
        self._readers = readers
        for reader, path in zip(readers, paths, strict=True):
            kind, first = reader.array.dtype, readers[0].array.dtype
            if kind != first:
                raise UsageError(f"{path} has numbers of type {kind}, and {paths[0]} of {first}")

    def everything(self) -> Contents:
        """See ``Reader``."""
        arrays = [reader.array for reader in self._readers]
        return np.concatenate(arrays, dtype=arrays[0].dtype)  # with its byte order

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        for reader in self._readers:
            yield from reader.batches(most_bytes)
