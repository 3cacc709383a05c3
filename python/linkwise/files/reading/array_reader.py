"""Reading arrays of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linkwise import _core
from linkwise._core import UsageError
from linkwise._typing import Format
from linkwise.columns.key_types import key_type_of
from linkwise.files.formats import one_clear_line
from linkwise.files.locations import Location
from linkwise.files.reading.reader import FileVersion, Reader, Seen, not_looked_at
from linkwise.interop.containers import Contents


class ArrayReader(Reader):
    """A memory-mapped file of numbers: NumPy's ``.npy``, or raw."""

    def __init__(self, path: Path, kind: Format, dtype: str | None) -> None:
        self._version = FileVersion(path)
        with one_clear_line("read", path):
            path.open("rb").close()  # its error messages are clearer than those of the libraries
            of_numbers, self._begin, shape = _header_of(path) if kind == "npy" else (_named_type(path, dtype), 0, None)
            _check_type(of_numbers)
            self._mapped = _core.MappedFile(str(path))
            contents = self._mapped.bytes[self._begin :]
            if shape is None and len(contents) % of_numbers.itemsize:
                raise UsageError(f"cannot read {path}: {len(contents)} bytes are no whole number of {of_numbers}")
            self.array = contents[: None if shape is None else math.prod(shape) * of_numbers.itemsize].view(of_numbers)
        if shape is not None and len(shape) != 1:
            raise UsageError(f"{path}: an array to sort has one dimension, not {len(shape)}")
        super().__init__(kind, size=self.array.nbytes)

    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """See ``Reader``."""
        contents: Contents = seen(self.array)
        return contents

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        width = self.array.itemsize
        rows = max(most_bytes // width, 1)
        for first in range(0, len(self.array), rows):
            yield np.array(self.array[first : first + rows])
            self._mapped.forget(0, self._begin + (first + rows) * width)

    def check_unchanged(self) -> None:
        """See ``Reader``."""
        self._version.check(is_whole=self._mapped.is_whole())


def _header_of(path: Path) -> tuple[np.dtype[Any], int, tuple[int, ...]]:
    """The element type, data offset and shape of a ``.npy`` file."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)  # also checks that the file has all elements
    if isinstance(array, np.memmap):
        return array.dtype, array.offset, array.shape
    raise UsageError(f"{path} is no .npy file")


def _named_type(path: Path, dtype: str | None) -> np.dtype[Any]:
    if dtype is None:
        raise UsageError(f"{path}: a .bin file is raw; name the type of its numbers with --dtype, as uint32 or f8")
    try:
        return np.dtype(dtype)
    except Exception:  # NumPy evaluates the text, so anything may be raised
        raise UsageError(f"there is no type '{dtype}'; name one like uint32, int64 or f8") from None


def _check_type(kind: np.dtype[Any]) -> None:
    """Raise before any element is accessed: object references in a file would be followed."""
    key_type_of(np.dtype(np.uint64) if kind.kind in "bmM" else kind.newbyteorder("="))


class SeveralArrays(Reader):
    """Several arrays of one element type, concatenated."""

    def __init__(self, readers: Sequence[ArrayReader], paths: Sequence[Location]) -> None:
        super().__init__(readers[0].format, size=sum(reader.array.nbytes for reader in readers))
        self._readers = readers
        for reader, path in zip(readers, paths, strict=True):
            kind, first = reader.array.dtype, readers[0].array.dtype
            if kind != first:
                raise UsageError(f"{path} has numbers of type {kind}, and {paths[0]} of {first}")

    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """See ``Reader``."""
        arrays = [reader.array for reader in self._readers]
        contents: Contents = seen(np.concatenate(arrays, dtype=arrays[0].dtype))  # keeps the byte order
        return contents

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        for reader in self._readers:
            yield from reader.batches(most_bytes)

    def check_unchanged(self) -> None:
        """See ``Reader``."""
        for reader in self._readers:
            reader.check_unchanged()
