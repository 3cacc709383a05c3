"""NCCL's collectives on CuPy arrays, for all GPUs of one process or one GPU per process."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from linkwise._core import DeviceError, UsageError
from linkwise.messages.schedules import Rounds

_TYPES = {
    "int8": 0,
    "uint8": 1,
    "int32": 2,
    "uint32": 3,
    "int64": 4,
    "uint64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
}
_PARTS_OF = {"complex64": ("float32", 2), "complex128": ("float64", 2)}
_OPERATIONS = {"sum": 0, "max": 2, "min": 3}
"""As NCCL's interface numbers them."""
_ADVICE = "pip install nvidia-nccl-cu13 brings it"


def _module() -> Any:
    """CuPy's NCCL binding, after loading NCCL from its package where that is installed. Raises ``DeviceError``."""
    # Multicast over NVLink needs a fabric that virtual machines often lack, and hangs without it.
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    spec = importlib.util.find_spec("nvidia.nccl") if importlib.util.find_spec("nvidia") else None
    for folder in spec.submodule_search_locations or () if spec else ():
        for library in Path(folder).glob("lib/libnccl.so*"):
            ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    try:
        module = importlib.import_module("cupy.cuda.nccl")
    except ImportError as error:
        raise DeviceError(f"NCCL cannot be used ({error}); {_ADVICE}") from None
    if not module.available:
        raise DeviceError(f"NCCL is not installed; {_ADVICE}")
    return module


def unique_id() -> Any:
    """The communicator's id: the first of several processes makes it, and all pass it to ``Nccl.of_process``."""
    module = _module()
    try:
        return module.get_unique_id()
    except Exception as error:
        raise DeviceError(f"NCCL cannot be used: {error}") from None


class Nccl:
    """This process's ranks of one communicator."""

    def __init__(self, module: Any, communicators: Sequence[Any], ranks: Sequence[int], gpus: Sequence[int]) -> None:
        self._nccl = module
        self._of = dict(zip(ranks, zip(communicators, gpus, strict=True), strict=True))

    @classmethod
    def of_all(cls, gpus: Sequence[int]) -> Nccl:
        """All ranks are in this process. Raises ``DeviceError`` where one GPU is named twice, which NCCL refuses."""
        if len(set(gpus)) < len(gpus):
            raise DeviceError("NCCL takes a GPU for each rank; let ranks that share one go through the host")
        module = _module()
        try:
            communicators = module.NcclCommunicator.initAll(list(gpus))
        except Exception as error:
            raise DeviceError(f"NCCL cannot be used: {error}") from None
        return cls(module, communicators, range(len(gpus)), gpus)

    @classmethod
    def of_process(cls, size: int, identity: Any, rank: int, gpu: int) -> Nccl:
        """One rank is in this process; all processes call this together."""
        module = _module()
        try:
            return cls(module, [module.NcclCommunicator(size, identity, rank)], [rank], [gpu])
        except Exception as error:
            raise DeviceError(f"NCCL cannot be used between these processes: {error}") from None

    def collective(self, kind: str, arrays: Sequence[Any], cuts: Sequence[int], root: int, operation: str) -> None:
        """In place, on flat arrays of equal lengths; pieces between cuts may differ in length."""
        if kind in ("reduce", "all_reduce", "reduce_scatter"):
            _check_reduction(arrays[0], operation)
        lengths = {end - begin for begin, end in pairwise(cuts)}
        if kind in ("broadcast", "reduce", "all_reduce") or len(lengths) == 1:
            self._whole(kind, arrays, cuts, root, operation)
            return
        # For pieces of different lengths: one collective per piece.
        each = "broadcast" if kind == "all_gather" else "reduce"
        self._nccl.groupStart()
        for owner, (begin, end) in enumerate(pairwise(cuts)):
            self._in_group(each, [array[begin:end] for array in arrays], owner, operation)
        self._nccl.groupEnd()

    def _whole(self, kind: str, arrays: Sequence[Any], cuts: Sequence[int], root: int, operation: str) -> None:
        self._nccl.groupStart()
        if kind in ("broadcast", "reduce", "all_reduce"):
            self._in_group(kind, arrays, root, operation)
        else:
            for (rank, (communicator, gpu)), array in zip(self._of.items(), arrays, strict=True):
                code, parts = _type_of(array)
                piece, every = array[cuts[rank] : cuts[rank + 1]], array.data.ptr
                count, stream = parts * piece.size, _stream(gpu)
                if kind == "all_gather":
                    communicator.allGather(piece.data.ptr, every, count, code, stream)
                else:
                    number = _OPERATIONS[operation]
                    communicator.reduceScatter(every, piece.data.ptr, count, code, number, stream)
        self._nccl.groupEnd()

    def _in_group(self, kind: str, arrays: Sequence[Any], root: int, operation: str) -> None:
        for (communicator, gpu), array in zip(self._of.values(), arrays, strict=True):
            code, parts = _type_of(array)
            at, count, stream, number = array.data.ptr, parts * array.size, _stream(gpu), _OPERATIONS[operation]
            if kind == "broadcast":
                communicator.broadcast(at, at, count, code, root, stream)
            elif kind == "reduce":
                communicator.reduce(at, at, count, code, number, root, stream)
            else:
                communicator.allReduce(at, at, count, code, number, stream)

    def messages(self, rounds: Rounds, sources: dict[int, Any], targets: dict[int, Any]) -> None:
        """Grouped sends and receives for hops that combine nothing; arrays are by rank, for ranks of this process."""
        for hops in rounds:
            self._nccl.groupStart()
            for hop in (hop for hop in hops if hop.source != hop.target):
                if hop.source in self._of:
                    communicator, gpu = self._of[hop.source]
                    sent = sources[hop.source][hop.begin : hop.end]
                    code, parts = _type_of(sent)
                    communicator.send(sent.data.ptr, parts * sent.size, code, hop.target, _stream(gpu))
                if hop.target in self._of:
                    communicator, gpu = self._of[hop.target]
                    received = targets[hop.target][hop.to : hop.to + hop.length]
                    code, parts = _type_of(received)
                    communicator.recv(received.data.ptr, parts * received.size, code, hop.source, _stream(gpu))
            self._nccl.groupEnd()


def _type_of(array: Any) -> tuple[int, int]:
    """NCCL's number of an array's type, and how many make an element; types that NCCL lacks are sent as bytes."""
    name, parts = _PARTS_OF.get(str(array.dtype), (str(array.dtype), 1))
    return (_TYPES[name], parts) if name in _TYPES else (_TYPES["uint8"], int(array.dtype.itemsize))


def _check_reduction(array: Any, operation: str) -> None:
    """Raise ``UsageError`` for elements that NCCL cannot combine."""
    name = str(array.dtype)
    if name not in _TYPES and (name not in _PARTS_OF or operation != "sum"):
        raise UsageError(f"NCCL has no {operation} of {name}")


def _stream(gpu: int) -> int:
    """The stream on which CuPy works on a GPU."""
    cuda = importlib.import_module("cupy.cuda")
    with cuda.Device(gpu):
        return int(cuda.get_current_stream().ptr)
