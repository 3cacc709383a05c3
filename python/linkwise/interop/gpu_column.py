"""Columns of Arrow types on a GPU, as results have them: strings, times and bools as well as numbers, and nulls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linkwise import _core
from linkwise._arrow import pa
from linkwise._core import DeviceArray, UsageError
from linkwise.interop.foreign_arrays import column_of, is_text, text_of
from linkwise.runtime.session import open_session

_NULLS, _BOOLS = 0, 1  # the bytes whose bits are set in Arrow's layout: of rows with a value, and of true


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
        """A copy in host memory."""
        values, strings, is_null = (
            None if part is None else np.asarray(part.numpy()) for part in (self._values, self._strings, self._nulls)
        )
        assert values is not None
        return (
            column_of(values, is_null, self.type) if strings is None else text_of(values, strings, is_null, self.type)
        )

    def __arrow_c_device_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Arrow's C device interface, in which nothing but bits and 32-bit offsets is copied."""
        kind, buffers = self._in_arrow_layout()
        return kind.__arrow_c_schema__(), _core.arrow_device_array(buffers, len(self), self.gpu)

    def _in_arrow_layout(self) -> tuple[pa.DataType, list[DeviceArray | None]]:
        """The type, and the buffers: strings with more bytes than 32-bit offsets count are large ones."""
        with open_session("auto") as runtime:
            validity = None if self._nulls is None else _core.bits_of_bytes(runtime, self._nulls, _NULLS)[0]
            if self._strings is not None:
                if not _has_narrow_offsets(self.type):
                    return self.type, [validity, self._values, self._strings]
                if len(self._strings) >= 1 << 31:
                    large = pa.large_string() if pa.types.is_string(self.type) else pa.large_binary()
                    return large, [validity, self._values, self._strings]
                narrow = _core.resized_offsets(runtime, [self.gpu], [self._values], [len(self)], 4)
                return self.type, [validity, narrow[0], self._strings]
            if pa.types.is_boolean(self.type):
                return self.type, [validity, _core.bits_of_bytes(runtime, self._values, _BOOLS)[0]]
            return self.type, [validity, self._values]


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


def struct_of(columns: Mapping[str, Any]) -> tuple[object, object]:
    """The capsules of a struct of columns that have Arrow's interface, and as many rows on one GPU."""
    fields, arrays = [], []
    for name, column in columns.items():
        kind, array = _typed_array(column)
        fields.append(pa.field(name, kind))
        arrays.append(array)
    first = next(iter(columns.values()))
    schema = pa.struct(fields).__arrow_c_schema__()
    return schema, _core.arrow_device_struct(arrays, len(first), first.gpu)


def _typed_array(column: GpuColumn) -> tuple[pa.DataType, object]:
    kind, buffers = column._in_arrow_layout()
    return kind, _core.arrow_device_array(buffers, len(column), column.gpu)


def _has_narrow_offsets(kind: pa.DataType) -> bool:
    assert is_text(kind)
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))
