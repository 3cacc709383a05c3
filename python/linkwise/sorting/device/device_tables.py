"""Tables whose columns lie on the GPUs: an array of each column, or one for each of several GPUs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from linkwise._arrow import pa
from linkwise._core import DeviceArray, UsageError
from linkwise.columns.key_types import has_narrow_offsets, is_text
from linkwise.columns.sort_keys import By, Descending, Nulls, SortKey, sort_keys_of
from linkwise.interop.device_arrays import (
    as_on_gpu,
    column_like,
    dtype_of,
    gpus_of,
    like,
    list_of_arrays,
    single_array,
    stream_of,
)
from linkwise.interop.foreign_arrays import ArrowPart, can_lie_on_gpus
from linkwise.interop.gpu_column import GpuColumn, as_dict
from linkwise.interop.masked_array import MaskedArray, null_bytes, values_to_compare, with_nulls
from linkwise.runtime.arguments import gpu_numbers
from linkwise.runtime.execution import ExecutionOptions
from linkwise.sorting.device.brought import TextExtent
from linkwise.sorting.device.device_columns import MOST_ROWS, GpuColumns, Parts, Strings
from linkwise.sorting.device.text_keys import text_keys

_NULLS = {"of_set": 0, "of_clear": 255}  # the bytes that bits of validity become
_BOOLS = {"of_set": 1, "of_clear": 0}


class Lent(NamedTuple):
    """A column as the core takes it, and for each row a byte that is 0 unless it is null."""

    values: Parts | Strings
    nulls: Parts | None = None


class GivenColumn(ABC):
    """A column of a table on GPUs as the caller gives it, one array on each, and in whose library results come back."""

    kind: pa.DataType
    gpus: list[int] | None
    """On which it lies; None if host memory stands for them."""
    lengths: list[int]

    @abstractmethod
    def lent(self, gpus: GpuColumns) -> Lent:
        """The column there. It is not copied, but for bits, the offsets of strings, and numbers with nulls."""

    @abstractmethod
    def like(self, column: Lent) -> list[Any]:
        """Such a column's parts as this library has them."""

    @abstractmethod
    def row_numbers(self, parts: Parts) -> list[Any]:
        """Row numbers as this library has them."""

    @staticmethod
    def of(name: Any, column: Any) -> GivenColumn:
        """Raises ``UsageError`` for other types."""
        parts = column if isinstance(column, list | tuple) else [column]
        by_arrow = [ArrowPart.of(part) for part in parts if _has_only_arrow(part)]
        if by_arrow and len(by_arrow) == len(parts):
            return ArrowColumn(name, [part for part in by_arrow if part is not None])
        return LibraryColumn(name, column)


class LibraryColumn(GivenColumn):
    """Arrays of CuPy, torch and the like, perhaps masked; or of NumPy, which stands for them."""

    def __init__(self, name: Any, column: Any) -> None:
        parts = column if isinstance(column, list | tuple) else [column]
        self._masked = [part for part in parts if isinstance(part, MaskedArray)]
        if self._masked and len(self._masked) < len(parts):
            raise UsageError(f"some arrays of column '{name}' are masked and others are not; give each a mask")
        self._arrays = _arrays_of(name, [part.values for part in self._masked] or column)
        self.gpus, self.lengths = gpus_of(self._arrays), [array.shape[0] for array in self._arrays]

    @property
    def kind(self) -> pa.DataType:
        """See ``GivenColumn``; PyArrow is loaded only when it is asked for."""
        return pa.from_numpy_dtype(dtype_of(self._arrays[0]))

    def lent(self, gpus: GpuColumns) -> Lent:
        """See ``GivenColumn``."""
        if not self._masked:
            return Lent(self._lent(gpus, self._arrays))
        if isinstance(self._masked[0].mask, DeviceArray):  # which has bytes of nulls
            nulls = self._lent(gpus, [part.mask for part in self._masked])
            return Lent(gpus.with_nulls_filled(self._lent(gpus, self._arrays), nulls), nulls)
        values = self._lent(gpus, [values_to_compare(part) for part in self._masked])
        return Lent(values, self._lent(gpus, [null_bytes(part) for part in self._masked]))

    def _lent(self, gpus: GpuColumns, arrays: list[Any]) -> Parts:
        streams = [stream_of(array, self.gpus) for array in arrays]
        return gpus.lend([as_on_gpu(array) for array in arrays], streams)

    def like(self, column: Lent) -> list[Any]:
        """See ``GivenColumn``."""
        return _like_arrays(column, self._arrays)

    def row_numbers(self, parts: Parts) -> list[Any]:
        """See ``GivenColumn``."""
        return [like(part, original) for part, original in zip(parts, self._arrays, strict=True)]


class ArrowColumn(GivenColumn):
    """Columns of Arrow's C device interface; or of PyArrow, which stand for them."""

    def __init__(self, name: Any, parts: list[ArrowPart]) -> None:
        self._parts, self.kind = parts, parts[0].kind
        if any(part.kind != self.kind for part in parts):
            raise UsageError(f"the arrays of column '{name}' differ in type")
        if not can_lie_on_gpus(self.kind):
            raise UsageError(
                f"column '{name}' is {self.kind}; on GPUs it has numbers, times, bools, strings or bytes, and views "
                "and dictionaries are cast to these"
            )
        on_gpus = [part.gpu for part in parts if part.gpu is not None]
        if on_gpus and len(on_gpus) < len(parts):
            raise UsageError(f"the arrays of column '{name}' must all lie on GPUs")
        self.gpus, self.lengths = on_gpus or None, [len(part) for part in parts]

    def lent(self, gpus: GpuColumns) -> Lent:
        """See ``GivenColumn``."""
        has_nulls = any(part.has_nulls for part in self._parts)
        nulls = gpus.bytes_of_bits([part.bits(0) for part in self._parts], **_NULLS) if has_nulls else None
        if is_text(self.kind):
            return Lent(self._strings(gpus), nulls)
        if pa.types.is_boolean(self.kind):
            values = gpus.bytes_of_bits([part.bits(1) for part in self._parts], **_BOOLS)
        else:
            values = gpus.lend([part.numbers() for part in self._parts])
        return Lent(values if nulls is None else gpus.with_nulls_filled(values, nulls), nulls)

    def _strings(self, gpus: GpuColumns) -> Strings:
        width = np.dtype(np.int32 if has_narrow_offsets(self.kind) else np.int64)
        # Without rows there may be no offsets.
        given = [part.array(1, width, len(part) + 1 if len(part) else 0) for part in self._parts]
        offsets, ends = gpus.wide_offsets(gpus.lend(given), self.lengths)
        values = [part.array(2, np.dtype(np.uint8), end, 0) for part, end in zip(self._parts, ends, strict=True)]
        return Strings(offsets, gpus.lend(values))

    def like(self, column: Lent) -> list[Any]:
        """See ``GivenColumn``."""
        return gpu_columns(column, self.kind)

    def row_numbers(self, parts: Parts) -> list[Any]:
        """See ``GivenColumn``."""
        return gpu_columns(Lent(parts), pa.int64())


def own_columns(column: Lent, kind: pa.DataType) -> list[Any]:
    """The parts of a column of that type as a table of host memory has them: numbers in arrays of our own."""
    return gpu_columns(column, kind) if isinstance(column.values, Strings) else _like_arrays(column, column.values)


def gpu_columns(column: Lent, kind: pa.DataType) -> list[Any]:
    """The parts of a column of that type."""
    values: Parts
    strings: Sequence[DeviceArray | None]
    if isinstance(column.values, Strings):
        values, strings = column.values
    else:
        values, strings = column.values, [None] * len(column.values)
    nulls: Sequence[DeviceArray | None] = column.nulls or [None] * len(values)
    return [GpuColumn(kind, *part) for part in zip(values, strings, nulls, strict=True)]


def _like_arrays(column: Lent, originals: Sequence[Any]) -> list[Any]:
    """The parts as arrays of the originals' library, masked if the column has nulls."""
    assert not isinstance(column.values, Strings)
    arrays = [column_like(part, original) for part, original in zip(column.values, originals, strict=True)]
    if column.nulls is None:
        return arrays
    return [with_nulls(*each) for each in zip(arrays, column.nulls, originals, strict=True)]


def _has_only_arrow(part: Any) -> bool:
    """Whether a column is to be taken through Arrow's interface."""
    if isinstance(part, ArrowPart):
        return True
    if isinstance(part, MaskedArray | DeviceArray):
        return False
    is_of_pyarrow = type(part).__module__.startswith("pyarrow")
    return hasattr(part, "__arrow_c_device_array__") and (is_of_pyarrow or not hasattr(part, "__dlpack_device__"))


class ArraysOnGpus:
    """A dictionary of columns, checked. ``execution`` are the options with the GPUs on which they lie.

    Raises ``UsageError`` for columns of other types, or on other GPUs than each other.
    """

    def __init__(self, columns: Mapping[str, Any], options: ExecutionOptions) -> None:
        if not columns:
            raise UsageError("a table has at least one column")
        self.columns = {str(name): GivenColumn.of(name, column) for name, column in columns.items()}
        first_name, first = next(iter(self.columns.items()))
        for name, column in self.columns.items():
            if column.gpus != first.gpus or column.lengths != first.lengths:
                raise UsageError(f"columns '{first_name}' and '{name}' have not as many rows on the same GPUs")
        if sum(first.lengths) > MOST_ROWS:
            raise UsageError("a table on the GPUs has fewer than 2**32 rows; sort or join its keys as arrays")
        if (options.machine in ("auto", "local")) != (first.gpus is not None):
            raise UsageError(
                "columns on GPUs can only be used there; leave machine= at 'auto'"
                if first.gpus is not None
                else "NumPy arrays stand for columns on the GPUs of a simulated machine; name one with machine=, or "
                "pass pyarrow.table(columns), which is in host memory"
            )
        asked = None if options.gpus == "auto" else gpu_numbers(options.gpus)
        gpus = first.gpus or asked or list(range(len(first.lengths)))
        if asked not in (None, gpus) or len(gpus) != len(first.lengths):
            told = first.gpus or list(range(len(first.lengths)))
            raise UsageError(f"the columns lie on GPUs {told}; gpus= cannot say otherwise")
        self.execution = replace(options, gpus=tuple(gpus))
        self.is_list = isinstance(next(iter(columns.values())), list | tuple)

    def lent_to(self, gpus: GpuColumns) -> dict[str, Lent]:
        """The columns as the core takes them."""
        return {name: column.lent(gpus) for name, column in self.columns.items()}

    def like(self, columns: Mapping[str, Lent]) -> dict[str, Any]:
        """Such columns in the libraries that these came from: an array of each, or a list of one on each GPU."""
        found = {name: column.like(columns[name]) for name, column in self.columns.items()}
        return as_dict({name: parts if self.is_list else parts[0] for name, parts in found.items()})


def sorted_rows(
    gpus: GpuColumns,
    keys: Sequence[SortKey],
    words: Callable[[str], list[Parts]],
    nulls: Callable[[str], Parts | None],
) -> tuple[Parts, Parts | None]:
    """The row numbers in the order of some columns, and the first of these in order if it has no nulls. Stable.

    ``words`` has the numbers that a column sorts by: itself, or words of its strings. One with nulls sorts by whether
    there is a value, and then by these.
    """
    columns: list[Parts] = []
    descending: list[bool] = []
    nulls_of_keys = [nulls(key.column) for key in keys]
    for key, of_key in zip(keys, nulls_of_keys, strict=True):
        if of_key is not None:
            columns.append(of_key)
            descending.append(key.nulls_first)
        of_key_column = words(key.column)
        columns += of_key_column
        descending += [key.descending] * len(of_key_column)
    rows, first = gpus.sorted(columns, descending)
    return rows, first if nulls_of_keys[0] is None else None


class SortedColumns:
    """A table on the GPUs, and the numbers of its rows in the order of ``linkwise.sort``. Stable."""

    def __init__(
        self, columns: Mapping[str, Any], options: ExecutionOptions, by: By, descending: Descending, nulls: Nulls
    ) -> None:
        self._arrays = ArraysOnGpus(columns, options)
        self._gpus = GpuColumns(self._arrays.execution)
        self._lent = self._arrays.lent_to(self._gpus)
        keys = sort_keys_of(list(self._lent), by, descending, nulls)
        self._first_key = keys[0].column
        self._rows, self._first = _order(self._gpus, self._lent, keys)

    def columns(self) -> dict[str, Any]:
        """The rows in order, there."""
        return self._arrays.like(_taken(self._gpus, self._lent, self._rows, self._first_key, self._first))

    def row_numbers(self) -> Any:
        """Their numbers, int64, in the library of the first key: an array, or a list of one on each GPU."""
        given = self._arrays.columns[self._first_key]
        parts = given.row_numbers(self._gpus.take(self._gpus.numbers(given.lengths, width=8), self._rows))
        return parts if self._arrays.is_list else parts[0]


def order_of_columns(columns: Mapping[str, Any], options: ExecutionOptions, keys: Sequence[SortKey]) -> Parts:
    """The numbers of a table's rows in order, there."""
    arrays = ArraysOnGpus(columns, options)
    gpus = GpuColumns(arrays.execution)
    return _order(gpus, arrays.lent_to(gpus), keys)[0]


def _order(gpus: GpuColumns, lent: Mapping[str, Lent], keys: Sequence[SortKey]) -> tuple[Parts, Parts | None]:
    return sorted_rows(gpus, keys, lambda name: _words(gpus, lent[name]), lambda name: lent[name].nulls)


def _words(gpus: GpuColumns, column: Lent) -> list[Parts]:
    """The numbers that a column sorts by."""
    if not isinstance(column.values, Strings):
        return [column.values]
    extent = TextExtent.of(*gpus.extent(column.values, column.nulls))
    return text_keys(gpus, column.values, extent, column.nulls)


def _taken(
    gpus: GpuColumns, columns: Mapping[str, Lent], rows: Parts, first_key: str, first: Parts | None
) -> dict[str, Lent]:
    """These rows of all columns. ``first``: what ``sorted_rows`` has of the first key, which is that in order."""
    taken: dict[str, Lent] = {}
    if first is not None and not isinstance(columns[first_key].values, Strings):
        taken[first_key] = Lent(first)
    others = {name: column for name, column in columns.items() if name not in taken}
    numbers = {name: column.values for name, column in others.items() if not isinstance(column.values, Strings)}
    nulls = {name: column.nulls for name, column in others.items() if column.nulls is not None}
    in_order = gpus.take_all([*numbers.values(), *nulls.values()], rows) if numbers or nulls else []
    values: dict[str, Parts | Strings] = dict(zip(numbers, in_order[: len(numbers)], strict=True))
    of_nulls = dict(zip(nulls, in_order[len(numbers) :], strict=True))
    for name, column in others.items():
        if isinstance(column.values, Strings):
            values[name] = gpus.take_strings(column.values, rows)
        taken[name] = Lent(values[name], of_nulls.get(name))
    return taken


def _arrays_of(name: Any, column: Any) -> list[Any]:
    arrays = list_of_arrays(column) or single_array(column)
    if arrays is None and isinstance(column, np.ndarray):
        arrays = list_of_arrays([column])
    if arrays is None:
        raise UsageError(
            f"column '{name}' is a {type(column).__name__}; a column is an array on a GPU, or a list with one for each"
        )
    for array in arrays:
        if len(array.shape) != 1 or dtype_of(array).kind not in "biuf":
            raise UsageError(
                f"column '{name}' is of {len(array.shape)} dimensions and type {array.dtype}; on GPUs it has one "
                "dimension, and integers, floats or bools"
            )
    if len({dtype_of(array) for array in arrays}) > 1:
        raise UsageError(f"the arrays of column '{name}' differ in type")
    return arrays
