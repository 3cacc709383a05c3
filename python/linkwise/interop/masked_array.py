"""Arrays on GPUs some of whose elements are null."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from linkwise import _core
from linkwise._arrow import pa
from linkwise._core import DeviceArray, UsageError
from linkwise.interop.containers import library_of
from linkwise.interop.device_arrays import as_numbers, dtype_of, gpus_of, like, stream_of, viewed
from linkwise.interop.gpu_column import GpuColumn
from linkwise.runtime.session import open_session


@dataclass(frozen=True, eq=False)
class MaskedArray:
    """An array on a GPU some of whose elements are null, as ``numpy.ma`` has them in host memory.

    Attributes
    ----------
    values
        Shape (n,): an array of CuPy or torch, or of NumPy where that stands for one on a described machine. What it
        holds where the mask is true means nothing. (Of a result of a table in host memory, a ``DeviceArray``.)
    mask
        Shape (n,): bools of the same library and GPU, true where there is no value. (Of a result in a
        ``DeviceArray``, which has no bools: bytes, 255 where there is no value and otherwise 0.)

    Raises
    ------
    UsageError
        If these are not two such arrays of one length.

    """

    values: Any
    mask: Any

    def __post_init__(self) -> None:
        """Check the arrays."""
        if isinstance(self.values, DeviceArray):
            return
        libraries = [library_of(array) for array in (self.values, self.mask)]
        if libraries[0] != libraries[1] or libraries[0] not in ("cupy", "torch", "numpy"):
            raise UsageError("values and mask are two arrays of CuPy or of torch")
        if len(self.mask.shape) != 1 or self.mask.shape != self.values.shape or dtype_of(self.mask).kind != "b":
            raise UsageError(
                f"values of shape {tuple(self.values.shape)} have a mask of shape {tuple(self.mask.shape)} and type "
                f"{self.mask.dtype}; it has a bool for each"
            )

    def __len__(self) -> int:
        """How many elements there are, null or not."""
        return int(self.values.shape[0])

    def __arrow_c_device_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Arrow's C device interface, through which cuDF and others take the column without copying its values."""
        gpus = gpus_of([self.values])
        if gpus is None:
            raise UsageError("a MaskedArray in host memory stands for one on a GPU: it is a column, as {'name': array}")
        nulls = self.mask if isinstance(self.mask, DeviceArray) else null_bytes(self)
        with open_session("auto") as runtime:
            arrays: list[Any] = [as_numbers(self.values), nulls]
            values, mask = (_core.lend_arrays(runtime, gpus, [each], [stream_of(each, gpus)])[0] for each in arrays)
        column = GpuColumn(pa.from_numpy_dtype(dtype_of(self.values)), values, None, mask)
        return column.__arrow_c_device_array__(requested_schema)


def null_bytes(array: MaskedArray) -> Any:
    """For each element a byte: 0 if it has a value, otherwise 255, which is also what a gather makes of no row."""
    with _on_its_gpu(array.mask):
        return as_numbers(array.mask) * 255


def values_to_compare(array: MaskedArray) -> Any:
    """The values, with all bits set where there is none, so that a sort takes null rows for equal."""
    with _on_its_gpu(array.values):
        values = array.values.clone() if library_of(array.values) == "torch" else array.values.copy()
        viewed(values, f"int{8 * values.dtype.itemsize}")[array.mask] = -1
        return values


def with_nulls(values: Any, nulls: DeviceArray, original: Any) -> MaskedArray:
    """A result's column, given ``null_bytes`` of it."""
    mask = like(nulls, original)
    if isinstance(mask, DeviceArray):
        return MaskedArray(values, mask)
    with _on_its_gpu(mask):
        if dtype_of(values).kind == "b":
            values = as_numbers(values) == 1  # a gather makes 255 of no row, which is no bool
        return MaskedArray(values, mask != 0)


def _on_its_gpu(array: Any) -> AbstractContextManager[Any]:
    """Makes an array's GPU the current one where its library would otherwise compute on another."""
    return array.device if library_of(array) == "cupy" else nullcontext()
