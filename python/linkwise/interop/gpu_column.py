"""Columns of Arrow types on a GPU, as results have them: strings, times and bools as well as numbers, and nulls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linkwise import _core
from linkwise._arrow import pa
from linkwise._core import DeviceArray, UsageError
from linkwise.columns.key_types import has_narrow_offsets
from linkwise.interop.foreign_arrays import MOST_NARROW_BYTES, column_of, large_text, text_of
from linkwise.runtime.session import open_session

_WITH_A_VALUE, _TRUE = 0, 1  # the bytes whose bits Arrow has set


class GpuColumn:
    """A column of any Arrow type that the GPUs support, on one of them: numbers, times, bools, strings and bytes.

    Other software takes it through Arrow's ``__arrow_c_device_array__``: ``pylibcudf.Column.from_arrow(column)``.

    Attributes
    ----------
    type : pyarrow.DataType
    gpu : int

    """

    def __init__(
        self, kind: pa.DataType, values: DeviceArray, strings: DeviceArray | None, nulls: DeviceArray | None
    ) -> None:
        self.type, self.gpu = kind, values.gpu
        self._values, self._strings, self._nulls = values, strings, nulls

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._values) - (self._strings is not None)

    def __repr__(self) -> str:
        return f"GpuColumn({len(self):,} rows of {self.type} on GPU {self.gpu})"

    @property
    def values(self) -> DeviceArray:
        """Shape (n,), with DLPack: numbers, times as integers, bools as bytes. What null rows hold means nothing.

        Raises
        ------
        UsageError
            If it is a column of strings or bytes.

        """
        if self._strings is not None:
            raise UsageError(f"a column of {self.type} has no array of values; take it through Arrow's interface")
        return self._values

    @property
    def nulls(self) -> DeviceArray | None:
        """Shape (n,) of uint8, 0 where there is a value and otherwise 255; ``None`` if all rows have one."""
        return self._nulls

    def to_arrow(self) -> pa.Array:
        """A copy in host memory; of large strings if 32-bit offsets do not count their bytes."""
        values, strings, is_null = (
            None if part is None else np.asarray(part.numpy()) for part in (self._values, self._strings, self._nulls)
        )
        assert values is not None
        return (
            column_of(values, is_null, self.type) if strings is None else text_of(values, strings, is_null, self.type)
        )

    def __arrow_c_device_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Arrow's C device interface, in which nothing but bits and 32-bit offsets is copied."""
        kind, array = self._exported()
        return kind.__arrow_c_schema__(), array

    def _exported(self) -> tuple[pa.DataType, object]:
        """The type and the array. Strings with more bytes than 32-bit offsets count are large ones."""
        validity, null_count = None, 0
        with open_session("auto") as runtime:
            if self._nulls is not None:
                validity, num_valid = _core.bits_of_bytes(runtime, self._nulls, _WITH_A_VALUE)
                null_count = len(self) - num_valid
            kind, buffers = self._values_in_arrow_layout(runtime)
        return kind, _core.arrow_device_array([validity, *buffers], len(self), null_count, self.gpu)

    def _values_in_arrow_layout(self, runtime: _core.Runtime) -> tuple[pa.DataType, list[DeviceArray]]:
        if self._strings is None:
            is_bool = pa.types.is_boolean(self.type)
            return self.type, [_core.bits_of_bytes(runtime, self._values, _TRUE)[0] if is_bool else self._values]
        if not has_narrow_offsets(self.type):
            return self.type, [self._values, self._strings]
        if len(self._strings) > MOST_NARROW_BYTES:
            return large_text(self.type), [self._values, self._strings]
        narrow = _core.resized_offsets(runtime, [self.gpu], [self._values], [len(self)], 4)
        return self.type, [narrow[0], self._strings]


class GpuColumnDict(dict[str, GpuColumn]):
    """Columns by name, as many rows of each on one GPU, that other software takes as a table.

    ``pylibcudf.Table.from_arrow(columns)`` takes it through Arrow's ``__arrow_c_device_array__``, as a struct.
    """

    def __arrow_c_device_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Arrow's C device interface."""
        return struct_of(self)


def as_dict(columns: dict[str, Any]) -> dict[str, Any]:
    """The columns, as a table for other software if all are of Arrow types."""
    are_arrow = all(isinstance(column, GpuColumn) for column in columns.values())
    return GpuColumnDict(columns) if are_arrow else columns


def struct_of(columns: Mapping[str, GpuColumn]) -> tuple[object, object]:
    """The capsules of a struct of columns that have Arrow's interface, and as many rows on one GPU."""
    fields, arrays = [], []
    for name, column in columns.items():
        kind, array = column._exported()
        fields.append(pa.field(name, kind))
        arrays.append(array)
    first = next(iter(columns.values()))
    return pa.struct(fields).__arrow_c_schema__(), _core.arrow_device_struct(arrays, len(first), first.gpu)
