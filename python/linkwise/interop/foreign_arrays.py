"""Arrays and columns on GPUs of libraries without DLPack, and their counterparts in Arrow's C device interface.

The CUDA array interface: https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html. Arrow's C device
interface: https://arrow.apache.org/docs/format/CDeviceDataInterface.html.
"""

from __future__ import annotations

from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from linkwise import _core
from linkwise._arrow import pa
from linkwise._core import UsageError
from linkwise.columns.key_types import column_of_array, has_narrow_offsets, is_number, is_text, number_dtype

_CUDA = 2  # kDLCUDA
MOST_NARROW_BYTES = int(np.iinfo(np.int32).max)
"""That 32-bit offsets count."""


class ForeignArray:
    """Adds DLPack to a GPU array whose library lacks it. Work is ordered after ``stream``, numbered as in DLPack."""

    def __init__(
        self, address: int, count: int, dtype: np.dtype[Any], gpu: int, owner: Any, stream: int | None
    ) -> None:
        self.shape, self.dtype, self.stream = (count,), dtype, stream
        self._address, self._gpu, self._owner = address, gpu, owner

    @classmethod
    def of_cuda_interface(cls, array: Any) -> ForeignArray:
        """From the CUDA array interface."""
        told = array.__cuda_array_interface__
        dtype, shape = np.dtype(told["typestr"]), tuple(told["shape"])
        if len(shape) != 1 or told.get("strides") not in (None, (dtype.itemsize,)) or told.get("mask") is not None:
            raise UsageError("an array on a GPU that is sorted has one dimension, is contiguous and has no mask")
        address = told["data"][0]
        gpu = _core.gpu_of_pointer(address) if shape[0] else 0
        return cls(address, shape[0], dtype, gpu, array, told.get("stream"))

    @classmethod
    def of_arrow(cls, array: Any) -> ForeignArray | None:
        """From Arrow's C device interface; ``None`` if the array is in host memory."""
        part = ArrowPart.of(array)
        if part is None or part.gpu is None:
            return None
        if part.has_nulls or not (pa.types.is_integer(part.kind) or pa.types.is_floating(part.kind)):
            what = "with nulls" if part.has_nulls else f"of type {part.kind}"
            raise UsageError(f"an array {what} on a GPU is sorted as a column of a table: sort({{'name': array}}, …)")
        return cast(ForeignArray, part.numbers())

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self._gpu

    def __dlpack__(self, **_: Any) -> Any:
        code = {"i": 0, "u": 1, "f": 2, "b": 1}.get(self.dtype.kind)  # DLPack's; bools are numbers of a byte
        if code is None or not self.dtype.isnative:
            raise UsageError(
                f"keys of type {self.dtype} cannot be sorted; integers and floats of 8 to 64 bits, and bools can"
            )
        return _core.dlpack_of(self._address, *self.shape, code, 8 * self.dtype.itemsize, self._gpu, self._owner)


class _Schema:
    """Hands a capsule of Arrow's to PyArrow."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __arrow_c_schema__(self) -> Any:
        return self._capsule


class _HostBytes:
    """Memory of the host as NumPy takes it, which keeps its owner alive."""

    def __init__(self, address: int, count: int, dtype: np.dtype[Any], owner: Any) -> None:
        self.__array_interface__ = {
            "shape": (count,), "typestr": dtype.str, "data": (address, False), "version": 3,
        }  # fmt: skip
        self._owner = owner


class ArrowPart:
    """A column of Arrow's C device interface on a GPU; or in host memory, where it stands for one on a GPU.

    ``kind`` is its Arrow type; ``gpu`` is None in host memory.
    """

    def __init__(self, kind: pa.DataType, array: _core.ArrowDeviceColumn) -> None:
        self.kind, self._array = kind, array
        self.gpu = array.gpu if array.on_gpu else None

    @classmethod
    def of(cls, value: Any) -> Self | None:
        """``None`` for an object without the interface; of PyArrow, that of arrays alone."""
        if isinstance(value, cls):
            return value
        if not hasattr(value, "__arrow_c_device_array__") or _is_host_table(value):
            return None
        schema, array = value.__arrow_c_device_array__()
        return cls(pa.field(_Schema(schema)).type, _core.ArrowDeviceColumn(array))

    @property
    def is_table(self) -> bool:
        """Whether it is a table: a struct, whose fields are the columns."""
        return bool(pa.types.is_struct(self.kind))

    def columns(self) -> dict[str, ArrowPart]:
        """The columns of a table; one without a name has the number of its position."""
        if self.has_nulls:
            raise UsageError("a table on a GPU has no rows that are null as a whole")
        fields = [self.kind.field(i) for i in range(self.kind.num_fields)]
        names = [field.name or str(position) for position, field in enumerate(fields)]
        if len(set(names)) < len(names):
            raise UsageError("a table's columns have different names")
        kinds = [field.type for field in fields]
        return {
            name: ArrowPart(kind, array)
            for name, kind, array in zip(names, kinds, self._array.children, strict=True)
        }  # fmt: skip

    def __len__(self) -> int:
        return len(self._array)

    @property
    def shape(self) -> tuple[int]:
        """As an array has it."""
        return (len(self),)

    @property
    def has_nulls(self) -> bool:
        """Whether some rows may be null."""
        return self._array.has_nulls

    def bits(self, buffer: int) -> tuple[int, int, int]:
        """Of a buffer of bits the address, the first one of these rows, and their number. Buffer 0 is validity."""
        return self._array.address(buffer), self._array.offset, len(self)

    def numbers(self) -> Any:
        """The values of a column of numbers or times, null or not, as an array."""
        return self.array(1, number_dtype(self.kind), len(self))

    def array(self, buffer: int, dtype: np.dtype[Any], count: int, first: int | None = None) -> Any:
        """So many elements of a buffer, from one on, or from that of the first row on."""
        at = self._array.offset if first is None else first
        address = self._array.address(buffer) + at * dtype.itemsize
        if self.gpu is not None:
            return ForeignArray(address, count, dtype, self.gpu, self._array, None)
        if not count:
            return np.empty(0, dtype)
        return np.asarray(_HostBytes(address, count, dtype, self._array))


def _is_host_table(value: Any) -> bool:
    return type(value).__module__.startswith("pyarrow") and not isinstance(value, pa.Array)


def column_of(numbers: npt.NDArray[Any], is_null: npt.NDArray[Any] | None, kind: pa.DataType) -> pa.Array:
    """A column in host memory of a type for which ``is_number`` holds. ``is_null``: bytes, 0 where there is a value."""
    if pa.types.is_boolean(kind):
        numbers = (numbers == 1).view(np.uint8)  # of a row without a partner, all bits are set
    column = column_of_array(numbers, kind)
    if is_null is None:
        return column
    return pa.Array.from_buffers(kind, len(column), [_validity(is_null), *column.buffers()[1:]])


def text_of(
    offsets: npt.NDArray[Any], values: npt.NDArray[Any], is_null: npt.NDArray[Any] | None, kind: pa.DataType
) -> pa.Array:
    """A column of strings or bytes in host memory, given one more offset; of large ones if they take so many bytes."""
    if has_narrow_offsets(kind):
        if offsets[-1] > MOST_NARROW_BYTES:
            kind = large_text(kind)
        else:
            offsets = offsets.astype(np.int32)
    buffers = [_validity(is_null), pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def _validity(is_null: npt.NDArray[Any] | None) -> pa.Buffer | None:
    return None if is_null is None else pa.py_buffer(np.packbits(is_null == 0, bitorder="little"))


def large_text(kind: pa.DataType) -> pa.DataType:
    """The same with offsets of 64 bits."""
    return pa.large_string() if pa.types.is_string(kind) else pa.large_binary()


def can_lie_on_gpus(kind: pa.DataType) -> bool:
    """Whether columns of that type are supported on the GPUs."""
    return is_number(kind) or is_text(kind)
