"""Device-resident arrays of torch, CuPy and other DLPack libraries, one for each GPU.

On a simulated machine, NumPy arrays stand in for them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from linkwise import _core
from linkwise._core import DeviceArray, UsageError
from linkwise.interop.containers import cannot_sort, library_of
from linkwise.interop.foreign_arrays import ForeignArray
from linkwise.runtime.execution import ExecutionOptions, memory_limit_of
from linkwise.runtime.session import open_session

_CUDA = 2  # kDLCUDA


def _as_array(value: Any) -> Any:
    """The value if it supports DLPack, or a wrapper that does; ``None`` if it is no array with a known device."""
    if type(value).__name__ == "MaskedArray" and isinstance(value, np.ndarray):
        raise cannot_sort(value)
    if library_of(value) == "pyarrow":  # whose arrays know their device, but not their elements as others do
        return None
    if hasattr(value, "__dlpack_device__"):
        return value
    if hasattr(value, "__cuda_array_interface__"):
        return ForeignArray.of_cuda_interface(value)
    # Such an array may also be in host memory; ``of_arrow`` checks that.
    return ForeignArray.of_arrow(value) if hasattr(value, "__arrow_c_device_array__") else None


def list_of_arrays(values: object) -> list[Any] | None:
    """The arrays, one for each GPU, if the values are a list of arrays with known devices."""
    if not isinstance(values, list | tuple) or not values:
        return None
    arrays = [_as_array(value) for value in values]
    return None if any(array is None for array in arrays) else arrays


def single_array(value: object) -> list[Any] | None:
    """A list of the value alone if it is an array on a GPU."""
    if isinstance(value, np.ndarray | list | tuple) or type(value).__module__.startswith(
        ("pyarrow", "pandas", "polars")
    ):
        return None
    array = _as_array(value)
    return [array] if array is not None and int(array.__dlpack_device__()[0]) == _CUDA else None


def check_one_dimension(arrays: Sequence[Any]) -> None:
    """Raise ``UsageError`` for arrays of several dimensions, or of none."""
    for array in arrays:
        if len(array.shape) != 1:
            raise UsageError(f"an array has {len(array.shape)} dimensions; sorts and joins take arrays of one")


def gpus_of(arrays: Sequence[Any]) -> list[int] | None:
    """The GPU that each array lies on; None if they are in host memory."""
    devices = [tuple(map(int, array.__dlpack_device__())) for array in arrays]
    if all(kind == _CUDA for kind, _ in devices):
        return [number for _, number in devices]
    if all(isinstance(array, np.ndarray) for array in arrays):
        return None
    raise UsageError("the arrays of a list must all lie on GPUs; sort a single array of host memory by itself")


def stream_of(array: Any, on_gpus: list[int] | None) -> int | None:
    """``_current_stream`` of an array; None in host memory."""
    return None if on_gpus is None else _current_stream(array, int(array.__dlpack_device__()[1]))


def _current_stream(array: Any, gpu: int) -> int | None:
    """The current stream of the array's library, in DLPack's numbering; None if unknown."""
    library = library_of(array)
    if isinstance(array, ForeignArray):
        return array.stream
    if library == "torch":
        return int(importlib.import_module("torch").cuda.current_stream(gpu).cuda_stream)
    if library == "cupy":
        cupy = importlib.import_module("cupy")
        with cupy.cuda.Device(gpu):
            return int(cupy.cuda.get_current_stream().ptr)
    return None


def dtype_of(array: Any) -> np.dtype[Any]:
    """The type of the elements in NumPy's terms, in which torch's types are named too; ``object`` if it has none."""
    if isinstance(array.dtype, np.dtype):
        return array.dtype
    try:
        return np.dtype(str(array.dtype).removeprefix("torch."))
    except TypeError:
        return np.dtype(object)


def as_on_gpu(array: Any, kinds: str = "iuf") -> Any:
    """``as_numbers`` of an array as the core takes it: one of NumPy, for one on a GPU, in native order, and writable.

    Raises ``UsageError`` for elements of other kinds, as NumPy calls them, and for long doubles, which GPUs lack.
    """
    array = as_numbers(array)
    if not isinstance(array, np.ndarray):
        return array
    if array.dtype.kind not in kinds or array.dtype.char in "gG":
        raise UsageError(f"an array of type {array.dtype} is no array of numbers on a GPU")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return np.require(native, requirements=["C", "W"])


def viewed(array: Any, kind: str) -> Any:
    """The same bytes as elements of another type of the array's library."""
    return array.view(
        getattr(importlib.import_module("torch"), kind) if library_of(array) == "torch" else np.dtype(kind)
    )


def as_numbers(array: Any) -> Any:
    """The array, or, of bools, its bytes as unsigned integers without a copy."""
    if dtype_of(array).kind != "b" or isinstance(array, ForeignArray):
        return array
    return viewed(array, "uint8")


def column_like(array: DeviceArray, original: Any) -> Any:
    """``like``, with bools again if the original's bools became numbers."""
    column = like(array, original)
    if dtype_of(original).kind != "b" or isinstance(column, DeviceArray):
        return column
    return viewed(column, "bool")


def like(array: DeviceArray, original: Any) -> Any:
    """The array in the library that the original came from, without a copy."""
    library = library_of(original)
    if library == "torch":
        return importlib.import_module("torch").from_dlpack(array)
    if library == "cupy":
        cupy = importlib.import_module("cupy")
        with cupy.cuda.Device(array.gpu):
            return cupy.from_dlpack(array)
    if library == "numpy":
        return array.numpy()
    return array


def copied_to_host(array: Any) -> npt.NDArray[Any]:
    """A copy of an array in host memory; of a list, of all its arrays one after the other."""
    if isinstance(array, list | tuple):
        return np.concatenate([copied_to_host(each) for each in array])
    library = library_of(array)
    if isinstance(array, DeviceArray):
        return np.asarray(array.numpy())
    if library == "torch":
        return np.asarray(array.cpu())
    return np.asarray(array.get() if library == "cupy" else array)


@contextmanager
def open_where_they_lie(execution: ExecutionOptions, *, on_gpus: bool, done: str) -> Iterator[_core.Runtime]:
    """Open the runtime of the GPUs that hold the arrays, or of the simulated machine for which they stand.

    ``done`` is the verb for error messages. Raises ``UsageError`` if the execution names another machine.
    """
    on_this_machine = execution.machine in ("auto", "local")
    if on_this_machine != on_gpus:
        raise UsageError(
            f"arrays on GPUs can only be {done} there; leave machine= at 'auto'"
            if on_gpus
            else "a list of NumPy arrays stands for arrays on the GPUs of a simulated machine; name one, or pass a "
            "single array"
        )
    with open_session(execution.machine) as runtime:
        runtime.set_memory_limit(memory_limit_of(execution, runtime.machine))
        yield runtime
