"""Tables whose columns lie on the GPUs: an array of each column, or one for each of several GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from linkwise._core import DeviceArray, UsageError
from linkwise.columns.sort_keys import By, Descending, Nulls, SortKey, sort_keys_of
from linkwise.interop.device_arrays import (
    as_numbers,
    column_like,
    dtype_of,
    gpus_of,
    list_of_arrays,
    single_array,
    stream_of,
)
from linkwise.interop.masked_array import ArrowNulls, MaskedArray, null_bytes, values_to_compare, with_nulls
from linkwise.runtime.arguments import gpu_numbers
from linkwise.runtime.execution import ExecutionOptions
from linkwise.sorting.device_columns import MOST_ROWS, GpuColumns, Parts


class ArraysOnGpus:
    """A dictionary of columns, checked. ``execution`` are the options with the GPUs on which they lie.

    Raises ``UsageError`` for columns of other types, or on other GPUs than each other.
    """

    def __init__(self, columns: Mapping[str, Any], options: ExecutionOptions) -> None:
        if not columns:
            raise UsageError("a table has at least one column")
        self._masked = {str(name): masked for name, column in columns.items() if (masked := _masked_of(name, column))}
        self.arrays = {
            str(name): _arrays_of(name, [part.values for part in self._masked.get(str(name), ())] or column)
            for name, column in columns.items()
        }
        first_name, first = next(iter(self.arrays.items()))
        self._on_gpus = gpus_of(first)
        for name, arrays in self.arrays.items():
            if gpus_of(arrays) != self._on_gpus or [a.shape[0] for a in arrays] != [a.shape[0] for a in first]:
                raise UsageError(f"columns '{first_name}' and '{name}' have not as many rows on the same GPUs")
        if sum(array.shape[0] for array in first) > MOST_ROWS:
            raise UsageError("a table on the GPUs has fewer than 2**32 rows; sort or join its keys as arrays")
        if (options.machine in ("auto", "local")) != (self._on_gpus is not None):
            raise UsageError(
                "columns on GPUs can only be used there; leave machine= at 'auto'"
                if self._on_gpus is not None
                else "NumPy arrays stand for columns on the GPUs of a simulated machine; name one with machine=, or "
                "pass pyarrow.table(columns), which is in host memory"
            )
        asked = None if options.gpus == "auto" else gpu_numbers(options.gpus)
        gpus = self._on_gpus or asked or list(range(len(first)))
        if asked not in (None, gpus) or len(gpus) != len(first):
            told = self._on_gpus or list(range(len(first)))
            raise UsageError(f"the columns lie on GPUs {told}; gpus= cannot say otherwise")
        self.execution = replace(options, gpus=tuple(gpus))
        self.is_list = isinstance(next(iter(columns.values())), list | tuple)

    def dtype(self, name: str) -> np.dtype[Any]:
        """The type of a column."""
        return dtype_of(self.arrays[name][0])

    def lent_to(self, gpus: GpuColumns) -> tuple[dict[str, Parts], dict[str, Parts]]:
        """The columns as the core takes them, and the ``null_bytes`` of those that are masked.

        Those without nulls are not copied.
        """
        by_their_library = {
            name: cast(list[MaskedArray], parts) for name, parts in self._masked.items() if _computes_masks(parts[0])
        }
        masked = {name: [values_to_compare(part) for part in parts] for name, parts in by_their_library.items()}
        nulls = {name: [null_bytes(part) for part in parts] for name, parts in by_their_library.items()}
        columns, of_nulls = self._lent(gpus, self.arrays | masked), self._lent(gpus, nulls)
        for name, parts in self._masked.items():
            if name not in by_their_library:
                of_nulls[name] = self._nulls_there(gpus, parts)
                columns[name] = gpus.with_nulls_filled(columns[name], of_nulls[name])
        return columns, {name: of_nulls[name] for name in self._masked}

    def _nulls_there(self, gpus: GpuColumns, parts: Sequence[MaskedArray | ArrowNulls]) -> Parts:
        """The ``null_bytes`` of a column whose library does not compute them."""
        if isinstance(parts[0], ArrowNulls):
            return gpus.nulls_there([cast(ArrowNulls, part).validity for part in parts])
        return self._lent(gpus, {"": [cast(MaskedArray, part).mask for part in parts]})[""]

    def _lent(self, gpus: GpuColumns, columns: dict[str, list[Any]]) -> dict[str, Parts]:
        return gpus.lend(
            {
                name: ([_contiguous(array) for array in arrays], [stream_of(array, self._on_gpus) for array in arrays])
                for name, arrays in columns.items()
            }
        )


def given_back(parts: Parts, nulls: Parts | None, originals: list[Any], *, is_list: bool) -> Any:
    """A column in the library of the original, one for each GPU if these were in a list; masked if it has nulls."""
    arrays = [column_like(part, original) for part, original in zip(parts, originals, strict=True)]
    if nulls is not None:
        arrays = [with_nulls(*each) for each in zip(arrays, nulls, originals, strict=True)]
    return arrays if is_list else arrays[0]


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


def sort_columns(
    columns: Mapping[str, Any], options: ExecutionOptions, by: By, descending: Descending, nulls: Nulls
) -> dict[str, Any]:
    """The rows of a table on the GPUs in the order of ``linkwise.sort``, there. Stable."""
    arrays = ArraysOnGpus(columns, options)
    gpus = GpuColumns(arrays.execution)
    lent, masks = arrays.lent_to(gpus)
    keys = sort_keys_of(list(lent), by, descending, nulls)
    rows, first = sorted_rows(gpus, keys, lambda name: [lent[name]], masks.get)
    others = [name for name in lent if first is None or name != keys[0].column]
    taken = gpus.take_all([*(lent[name] for name in others), *masks.values()], rows)
    in_order, nulls_in_order = (
        dict(zip(others, taken[: len(others)], strict=True)),
        dict(zip(masks, taken[len(others) :], strict=True)),
    )
    if first is not None:
        in_order[keys[0].column] = first
    return {
        name: given_back(in_order[name], nulls_in_order.get(name), originals, is_list=arrays.is_list)
        for name, originals in arrays.arrays.items()
    }


def _computes_masks(part: MaskedArray | ArrowNulls) -> bool:
    """Whether an array's library has bools, and computes with them."""
    return isinstance(part, MaskedArray) and not isinstance(part.mask, DeviceArray)


def _masked_of(name: Any, column: Any) -> list[MaskedArray | ArrowNulls]:
    """The arrays of a column that is masked; an empty list if it is not."""
    parts = column if isinstance(column, list | tuple) else [column]
    given = [part if isinstance(part, MaskedArray) else ArrowNulls.of(part) for part in parts]
    masked = [part for part in given if part is not None]
    if masked and (len(masked) < len(parts) or len(set(map(type, masked))) > 1):
        raise UsageError(f"some arrays of column '{name}' are masked and others are not; give each a mask")
    return masked


def _arrays_of(name: Any, column: Any) -> list[Any]:
    arrays = list_of_arrays(column) or single_array(column)
    if arrays is None and isinstance(column, np.ndarray):
        arrays = [column]
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


def _contiguous(array: Any) -> Any:
    array = as_numbers(array)
    if not isinstance(array, np.ndarray):
        return array
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return np.require(native, requirements=["C", "W"])
