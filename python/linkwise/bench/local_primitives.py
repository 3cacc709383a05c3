"""Sorts and merges of keys in one GPU's memory, as sort22 compares them in table 2 and §5.2."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np

from linkwise import _core
from linkwise._core import CorruptDataError
from linkwise.runtime.session import open_session

_REPETITIONS = 9
_KEY_BYTES = 4


def local_primitives(count: int) -> list[tuple[str, float | None, str]]:
    """Rows for ``count`` uniform 32-bit keys on GPU 0: name, median seconds or ``None``, and why there are none."""
    with open_session("local") as runtime:
        return _Bench(runtime, count).run()


class _Bench:
    def __init__(self, runtime: _core.Runtime, count: int) -> None:
        self._runtime, self._count = runtime, count
        self._place = _core.Place.gpu(0)
        self._stream = runtime.stream(self._place, "compute")
        self._type = _core.RecordType(_KEY_BYTES, 0)
        self._keys = np.random.default_rng(1).integers(0, 1 << 32, count, dtype=np.uint32)
        self._buffers: list[_core.Buffer] = []
        self._source, self._first, self._second = (self._records() for _ in range(3))
        runtime.copy_in(self._stream, self._source.keys, self._keys.view(np.uint8))

    def _memory(self, size: int) -> _core.MemoryView:
        self._buffers.append(self._runtime.allocate(self._place, size, "benchmark"))
        return self._buffers[-1].view

    def _records(self) -> _core.Records:
        return _core.records_in(self._memory(_core.record_bytes(self._type, self._count)), self._type, self._count)

    def _timed(self, before: Callable[[], None], work: Callable[[], None]) -> float:
        """Median GPU seconds of ``work``, without ``before``."""
        taken = []
        for _ in range(_REPETITIONS + 1):
            before()
            self._runtime.synchronize()
            self._runtime.clear_timeline()
            work()
            self._runtime.synchronize()
            taken.append(_core.seconds_of_work(self._runtime))
        return statistics.median(taken[1:])

    def _refill(self) -> None:
        self._runtime.copy(self._stream, self._first.keys, self._source.keys)

    def _check(self, found: _core.MemoryView) -> None:
        data = np.frombuffer(self._runtime.read_back(self._stream, found), np.uint32)
        step = max(self._count // 1_000_000, 1)
        if not (data[:-1:step] <= data[1::step]).all() or int(data.sum(dtype=np.uint64)) != int(
            self._keys.sum(dtype=np.uint64)
        ):
            raise CorruptDataError("a sort or merge that was timed is wrong: do not trust this machine")

    def run(self) -> list[tuple[str, float | None, str]]:
        rows: list[tuple[str, float | None, str]] = []
        scratch = self._memory(_core.sort_scratch_bytes(self._runtime, self._type, self._count))
        where: list[_core.Records] = []

        def by_cub() -> None:
            where[:] = [_core.sort(self._runtime, self._stream, self._first, self._second, 0, 32, scratch)]

        rows.append(("CUB's radix sort by least significant digits", self._timed(self._refill, by_cub), ""))
        self._check(where[0].keys)
        rows += self._by_msd()
        rows.append(self._merged(where[0]))
        return rows

    def _by_msd(self) -> list[tuple[str, float | None, str]]:
        what = "our radix sort by most significant digits, after Stehle and Jacobsen's"
        size = _core.msd_sort_scratch_bytes(self._runtime, self._type, self._count)
        if size == 0:
            return [(what, None, "it takes a GPU of compute capability 9.0")]
        scratch, room = self._memory(size), self._records()
        kind, none = _core.KeyType.u32, self._memory(0)

        def by_us() -> None:
            _, are_narrow = _core.look_at_keys(
                self._runtime, self._stream, kind, False, self._source, _core.SortBuffers.three, scratch
            )
            _core.msd_sort(
                self._runtime, self._stream, kind, False, self._source, self._second, room, are_narrow, scratch, none
            )

        seconds = self._timed(lambda: None, by_us)
        self._check(self._second.keys)
        return [(what, seconds, "")]

    def _merged(self, in_order: _core.Records) -> tuple[str, float | None, str]:
        """Merge two sorted halves, each with every second key."""
        data = np.sort(self._keys)
        half = self._count // 2
        both = np.concatenate([data[::2], data[1::2]])
        self._runtime.copy_in(self._stream, self._source.keys, both.view(np.uint8))
        left, right = self._source.slice(0, self._count - half), self._source.slice(self._count - half, half)
        scratch = self._memory(_core.merge_scratch_bytes(self._runtime, self._type, left.count, right.count))

        def merge() -> None:
            _core.merge(self._runtime, self._stream, left, right, in_order, scratch)

        seconds = self._timed(lambda: None, merge)
        self._check(in_order.keys)
        return ("CUB's merge of two halves, which Thrust's is", seconds, "")
