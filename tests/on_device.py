"""Puts NumPy arrays on a device and brings them back, for the contract suites."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwise import _core

CANARY = 0xA5
_GUARD = 256
KEY_TYPES: dict[_core.KeyType, Any] = {
    _core.KeyType.u8: np.uint8, _core.KeyType.u16: np.uint16, _core.KeyType.u32: np.uint32,
    _core.KeyType.u64: np.uint64,
    _core.KeyType.i8: np.int8, _core.KeyType.i16: np.int16, _core.KeyType.i32: np.int32, _core.KeyType.i64: np.int64,
    _core.KeyType.f16: np.float16, _core.KeyType.f32: np.float32, _core.KeyType.f64: np.float64,
}  # fmt: skip


class OnDevice:
    """One device of a runtime. Every allocation has canaries on both sides, which `check_canaries` looks at."""

    def __init__(self, runtime: _core.Runtime, gpu: int = 0) -> None:
        self.runtime = runtime
        self.place = _core.Place.gpu(gpu)
        self.stream = runtime.stream(self.place, "test")
        self._buffers: list[tuple[_core.Buffer, int]] = []

    def memory(self, num_bytes: int, place: _core.Place | None = None) -> _core.MemoryView:
        buffer = self.runtime.allocate(place or self.place, num_bytes + 2 * _GUARD, "test")
        guarded = np.full(num_bytes + 2 * _GUARD, CANARY, np.uint8)
        self.runtime.copy_in(self.stream, buffer.view, guarded)
        self.runtime.synchronize()
        self._buffers.append((buffer, num_bytes))
        return buffer.slice(_GUARD, num_bytes)

    def put(self, array: np.ndarray[Any, Any]) -> _core.MemoryView:
        view = self.memory(array.nbytes)
        if array.nbytes:
            self.runtime.copy_in(self.stream, view, np.ascontiguousarray(array).view(np.uint8))
            self.runtime.synchronize()
        return view

    def get(self, view: _core.MemoryView, dtype: Any) -> np.ndarray[Any, Any]:
        return np.frombuffer(self.runtime.read_back(self.stream, view), dtype).copy()

    def records(self, keys: np.ndarray[Any, Any], values: np.ndarray[Any, Any] | None = None) -> _core.Records:
        value_bytes = 0 if values is None else values.itemsize
        record = _core.RecordType(keys.itemsize, value_bytes)
        empty = np.empty(0, np.uint8)
        return _core.Records(record, len(keys), self.put(keys), self.put(empty if values is None else values))

    def records_like(
        self, records: _core.Records, key_bytes: int, value_bytes: int, count: int | None = None
    ) -> _core.Records:
        length = records.count if count is None else count
        record = _core.RecordType(key_bytes, value_bytes)
        return _core.Records(record, length, self.memory(length * key_bytes), self.memory(length * value_bytes))

    def check_canaries(self) -> None:
        """Nothing wrote outside of what it was given."""
        for buffer, num_bytes in self._buffers:
            for guard in (buffer.slice(0, _GUARD), buffer.slice(_GUARD + num_bytes, _GUARD)):
                assert (self.get(guard, np.uint8) == CANARY).all(), "a primitive wrote out of bounds"
