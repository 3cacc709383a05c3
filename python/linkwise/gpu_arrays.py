"""Sorting arrays that lie on the GPUs: those of torch, CuPy and whoever else speaks DLPack, one for each GPU.

On a machine that is simulated, NumPy arrays stand in for them.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from linkwise import _core
from linkwise._core import DeviceArray, UsageError
from linkwise.containers import library_of
from linkwise.planning import Request, gpu_numbers, memory_limit_of, strategy_for
from linkwise.session import open_session, run_interruptibly
from linkwise.sort_report import SortReport

_CUDA = 2  # kDLCUDA


class ForeignArray:
    """An array on a GPU whose library does not speak DLPack, as one that does. ``stream`` orders it, as in DLPack."""

    def __init__(
        self, address: int, count: int, dtype: np.dtype[Any], gpu: int, owner: Any, stream: int | None
    ) -> None:
        self.shape, self.dtype, self.stream = (count,), dtype, stream
        self._address, self._gpu, self._owner = address, gpu, owner

    @classmethod
    def of_cuda_interface(cls, array: Any) -> ForeignArray:
        """From the CUDA array interface (https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html)."""
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
        column = _core.ArrowDeviceColumn(array)
        if not column.on_gpu:
            return None
        if column.format not in _OF_ARROW:
            raise UsageError(f"columns of Arrow format '{column.format}' on GPUs cannot be sorted; numbers can")
        if column.has_nulls:
            raise UsageError("a column with nulls on a GPU cannot be sorted; drop them first")
        dtype = np.dtype(_OF_ARROW[column.format])
        return cls(column.address(dtype.itemsize), len(column), dtype, column.gpu, column, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self._gpu

    def __dlpack__(self, **_: Any) -> Any:
        code = "iuf".index(self.dtype.kind) if self.dtype.kind in "iuf" else -1
        if code < 0 or not self.dtype.isnative:
            raise UsageError(f"keys of type {self.dtype} cannot be sorted; integers and floats of 8 to 64 bits can")
        return _core.dlpack_of(self._address, *self.shape, code, 8 * self.dtype.itemsize, self._gpu, self._owner)


_OF_ARROW = dict(zip("cCsSiIlLefg", ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"), strict=True))


def _as_array(value: Any) -> Any:
    """The value if it speaks DLPack, or what does so for it; ``None`` if it is no array that lies somewhere."""
    if hasattr(value, "__dlpack_device__"):
        return value
    if hasattr(value, "__cuda_array_interface__"):
        return ForeignArray.of_cuda_interface(value)
    # What can be in host memory as well is asked there.
    return ForeignArray.of_arrow(value) if hasattr(value, "__arrow_c_device_array__") else None


def list_of_arrays(values: object) -> list[Any] | None:
    """The arrays that lie somewhere, one for each GPU, if the values are a list of them."""
    if not isinstance(values, list | tuple) or not values:
        return None
    arrays = [_as_array(value) for value in values]
    return None if any(array is None for array in arrays) else arrays


def single_array(value: object) -> list[Any] | None:
    """A list of the one array that the value is, if it lies on a GPU."""
    if isinstance(value, np.ndarray | list | tuple) or type(value).__module__.startswith(
        ("pyarrow", "pandas", "polars")
    ):
        return None
    array = _as_array(value)
    return [array] if array is not None and int(array.__dlpack_device__()[0]) == _CUDA else None


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
    """The stream on which its library now works with the array, as DLPack numbers it; None if nobody knows."""
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


@contextmanager
def open_where_they_lie(request: Request, *, on_gpus: bool, done: str) -> Iterator[_core.Runtime]:
    """Lend the runtime of the GPUs that arrays lie on, or of a simulated machine on whose GPUs they are said to.

    ``done`` says what is done with them. Raises ``UsageError`` if the request names another machine.
    """
    with open_session(request.machine) as runtime:
        if runtime.simulated == on_gpus:
            raise UsageError(
                f"arrays on GPUs can only be {done} there; leave machine= at 'auto'"
                if on_gpus
                else "a list of NumPy arrays stands for arrays on the GPUs of a simulated machine; name one, "
                "or pass a single array"
            )
        runtime.set_memory_limit(memory_limit_of(request, runtime.machine))
        yield runtime


class GpuSort:
    """One sort of arrays on GPUs: ``run``, and then what it did."""

    def __init__(self, keys: Sequence[Any], payload: Sequence[Any] | None, request: Request, *, donate: bool) -> None:
        if payload is not None and len(payload) != len(keys):
            raise UsageError(f"payload must be a list of {len(keys)} arrays, one for each array of keys")
        self._keys, self._payload, self._request, self._donate = keys, payload, request, donate
        on_gpus = gpus_of(keys)
        if payload is not None and gpus_of(payload) != on_gpus:
            raise UsageError("an array of the payload does not lie on the GPU of its keys")
        self._streams = [stream_of(array, on_gpus) for array in keys]
        self.plan = self._plan(on_gpus)
        self._is_real = on_gpus is not None

    def _plan(self, on_gpus: list[int] | None) -> _core.SortPlan:
        plan = _core.SortPlan()
        asked = None if self._request.gpus == "auto" else gpu_numbers(self._request.gpus)
        if on_gpus is not None and asked not in (None, on_gpus):
            raise UsageError(f"the arrays lie on GPUs {on_gpus}; gpus= cannot say otherwise")
        plan.gpus = on_gpus or asked or list(range(len(self._keys)))
        if len(plan.gpus) != len(self._keys):
            raise UsageError(f"there are {len(self._keys)} arrays for {len(plan.gpus)} GPUs; give one for each")
        if self._request.strategy != "auto":
            plan.strategy = strategy_for(self._request.strategy, plan.gpus)
        return plan

    def run(self, *, with_report: bool) -> tuple[Any, SortReport | None]:
        """The sorted arrays (with a payload: two lists), and a report if wanted: it waits until all is done."""
        began = time.perf_counter()
        with open_where_they_lie(self._request, on_gpus=self._is_real, done="sorted") as runtime:
            options = _core.SortOptions(self._request.descending, self._request.verify)

            def work() -> Any:
                return _core.sort_device(
                    runtime, self.plan, self._keys, self._payload or [], self._streams, self._donate, options
                )

            # On GPUs the call takes milliseconds, and a thread to listen for Ctrl-C a good part of one.
            sorted_parts = work() if self._is_real else run_interruptibly(runtime, work)
            report = self._report(runtime, options, began) if with_report else None
            keys = [like(part, original) for (part, _), original in zip(sorted_parts, self._keys, strict=True)]
            if self._payload is None:
                return keys, report
            carried = [like(part, original) for (_, part), original in zip(sorted_parts, self._payload, strict=True)]
            return (keys, carried), report

    def _report(self, runtime: _core.Runtime, options: _core.SortOptions, began: float) -> SortReport:
        return SortReport.of_core(
            _core.report_of(runtime, options),
            runtime,
            self.plan,
            rows=sum(int(array.shape[0]) for array in self._keys),
            row_bytes=sum(array.dtype.itemsize for array in (self._keys[0], *(self._payload or [])[:1])),
            plan_text=f"{self.plan.strategy.name} of data on GPUs ({','.join(map(str, self.plan.gpus))})",
            wall_seconds=time.perf_counter() - began,
        )
