"""One GPU: the sort by the most significant digits beside CUB's, as primitives, in one process and in turn.

    python benchmarks/record_sorts.py --rows 1e8 1e9 --types 4,4 8,8 --output record-sorts.json

A type is the bytes of the key and of the value. Times are of the work on the GPU. Ours includes the sample that tells
whether it suits the keys; where it does not, sorts take CUB's, after the sample. Results are compared: both are stable.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from device_joins import scattered
from harness import write_results
from linkwise import _core
from linkwise.runtime.session import open_session

REPETITIONS = 9
TYPES = ("4,0", "8,0", "4,4", "8,8")
KINDS = {4: _core.KeyType.u32, 8: _core.KeyType.u64}
_SPREAD = {4: 2_654_435_761, 8: 0x9E3779B97F4A7C15}  # odd: multiples of it are all over the range
_PIECE = 1 << 28  # keys that are made at once

Keys = Any  # an array on the GPU


@dataclass
class _Piece:
    """Some consecutive keys of an array: all at once, random 64-bit floats of 4·10⁹ keys would not fit."""

    random: Any
    begin: int
    count: int
    rows: int  # of the array
    dtype: Any

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize

    def words(self) -> Keys:
        words = self.random.integers(0, 1 << 32, self.count * self.itemsize // 4, dtype=cupy.uint32)
        return words.view(self.dtype)

    def positions(self) -> Keys:
        return cupy.arange(self.begin, self.begin + self.count, dtype=self.dtype)


def _normal(piece: _Piece) -> Keys:
    middle, deviation = (1 << 62, 1 << 40) if piece.itemsize == 8 else (1 << 31, 1 << 28)
    return (piece.random.standard_normal(piece.count) * deviation + middle).astype(piece.dtype)


def _heavy(share: float) -> Callable[[_Piece], Keys]:
    return lambda piece: cupy.where(piece.random.random(piece.count) < share, piece.dtype(42), piece.words())


def _zipf(piece: _Piece) -> Keys:
    return cupy.minimum(cupy.maximum(piece.random.random(piece.count), 1e-9) ** -1.5, 4e9).astype(piece.dtype)


def _few_bits(piece: _Piece) -> Keys:
    words = piece.words()
    return words & (words >> piece.dtype(7)) & (words >> piece.dtype(13))


def _times(times: int) -> Callable[[_Piece], Keys]:
    """As foreign keys have it: about as many records of each key, and keys that lie at random."""
    return lambda piece: scattered(piece.words() % piece.dtype(max(1, piece.rows // times)), piece.dtype)


def _clusters(piece: _Piece) -> Keys:
    return (piece.words() % piece.dtype(700)) * piece.dtype(1 << 20) + piece.words() % piece.dtype(5000)


DISTRIBUTIONS: dict[str, Callable[[_Piece], Keys]] = {
    "uniform": _Piece.words,
    "below 10⁹": lambda piece: piece.words() % piece.dtype(10**9),
    "1,000 values": lambda piece: piece.words() % piece.dtype(1000),
    "10⁶ values": lambda piece: piece.words() % piece.dtype(10**6) * piece.dtype(_SPREAD[piece.itemsize]),
    "each ten times": _times(10),
    "each 100 times": _times(100),
    "each 1,000 times": _times(1000),
    "each 10⁴ times": _times(10**4),
    "each 10⁵ times": _times(10**5),
    "in order": _Piece.positions,
    "reversed": lambda piece: piece.dtype(piece.rows - 1) - piece.positions(),
    "equal": lambda piece: cupy.full(piece.count, 77, dtype=piece.dtype),
    "normal": _normal,
    "few bits set": _few_bits,
    "40 % equal": _heavy(0.4),
    "70 % equal": _heavy(0.7),
    "Zipf": _zipf,
    "clusters": _clusters,
}  # fmt: skip


def _fill(keys: Keys, distribution: str) -> None:
    random = cupy.random.default_rng(1)
    for begin in range(0, len(keys), _PIECE):
        part = keys[begin : begin + _PIECE]
        part[...] = DISTRIBUTIONS[distribution](_Piece(random, begin, len(part), len(keys), keys.dtype.type))


def _array(view: _core.MemoryView, dtype: Any) -> Keys:
    """The same memory as a CuPy array."""
    memory = cupy.cuda.UnownedMemory(view.address, view.bytes, None)
    count = view.bytes // np.dtype(dtype).itemsize
    return cupy.ndarray((count,), dtype, cupy.cuda.MemoryPointer(memory, 0))


class _Bench:
    """Buffers for records of one type, and both sorts of them."""

    def __init__(self, runtime: _core.Runtime, kind: _core.RecordType, rows: int) -> None:
        self._runtime, self._kind, self._rows = runtime, kind, rows
        self._place = _core.Place.gpu(0)
        self._stream = runtime.stream(self._place, "compute")
        self._dtype = np.uint32 if kind.key_bytes == 4 else np.uint64
        self._buffers: list[_core.Buffer] = []
        self._source, self._first, self._second, self._result = (self._records() for _ in range(4))
        self._cub_scratch = self._memory(_core.sort_scratch_bytes(runtime, kind, rows))
        self._scratch = self._memory(_core.msd_sort_scratch_bytes(runtime, kind, rows))

    def _memory(self, size: int) -> _core.MemoryView:
        self._buffers.append(self._runtime.allocate(self._place, size, "benchmark"))
        return self._buffers[-1].view

    def _records(self) -> _core.Records:
        return _core.records_in(self._memory(_core.record_bytes(self._kind, self._rows)), self._kind, self._rows)

    def _timed(self, before: Callable[[], None], work: Callable[[], None]) -> list[float]:
        seconds = []
        for _ in range(REPETITIONS + 1):
            before()
            self._runtime.synchronize()
            self._runtime.clear_timeline()
            work()
            self._runtime.synchronize()
            seconds.append(_core.seconds_of_work(self._runtime))
        return seconds[1:]

    def _refill(self) -> None:
        self._runtime.copy(self._stream, self._first.keys, self._source.keys)
        if self._kind.value_bytes:
            self._runtime.copy(self._stream, self._first.values, self._source.values)

    def _look(self) -> tuple[bool, bool]:
        buffers = _core.SortBuffers.three
        kind = KINDS[self._kind.key_bytes]
        return _core.look_at_keys(self._runtime, self._stream, kind, False, self._source, buffers, self._scratch)

    def run(self, distribution: str) -> dict[str, Any]:
        _fill(_array(self._source.keys, self._dtype), distribution)
        if self._kind.value_bytes:
            values = _array(self._source.values, cupy.uint32)
            values[...] = cupy.arange(len(values), dtype=cupy.uint32)
        cupy.cuda.Device().synchronize()
        where: list[_core.Records] = []

        def by_cub() -> None:
            bits = 8 * self._kind.key_bytes
            where[:] = [_core.sort(self._runtime, self._stream, self._first, self._second, 0, bits, self._cub_scratch)]

        cub = self._timed(self._refill, by_cub)
        room = self._second if where[0].keys.address == self._first.keys.address else self._first
        none = self._memory(0)
        suits = False

        def by_leading_digits() -> None:
            nonlocal suits
            suits, are_narrow = self._look()
            _core.msd_sort(
                self._runtime, self._stream, KINDS[self._kind.key_bytes], False, self._source, self._result, room,
                are_narrow, self._scratch, none,
            )  # fmt: skip

        ours = self._timed(lambda: None, by_leading_digits)
        look = self._timed(lambda: None, lambda: (self._look(), None)[1])
        self._compare(where[0])
        picked = ours if suits else [a + b for a, b in zip(cub, look, strict=True)]
        return {"cub": cub, "leading digits": ours, "sample": look, "suits": suits, "picked": picked}

    def _compare(self, cub: _core.Records) -> None:
        for found, expected in ((self._result.keys, cub.keys), (self._result.values, cub.values)):
            if not bool((_array(found, cupy.uint32) == _array(expected, cupy.uint32)).all()):
                raise SystemExit("the two sorts differ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e9])
    parser.add_argument("--types", nargs="+", default=TYPES)
    parser.add_argument("--distributions", nargs="+", default=list(DISTRIBUTIONS), choices=list(DISTRIBUTIONS))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results = []
    with open_session("local") as runtime:
        for rows in map(int, options.rows):
            for key_bytes, value_bytes in (map(int, name.split(",")) for name in options.types):
                bench = _Bench(runtime, _core.RecordType(key_bytes, value_bytes), rows)
                for distribution in options.distributions:
                    case = {"key_bytes": key_bytes, "value_bytes": value_bytes, "distribution": distribution}
                    found = bench.run(distribution)
                    medians = {name: statistics.median(found[name]) for name in ("cub", "leading digits", "picked")}
                    results.append({**case, "rows": rows, "seconds": found, "medians": medians})
                    ratio = medians["picked"] / medians["cub"]
                    told = ", ".join(f"{name} {1e3 * seconds:.3f} ms" for name, seconds in medians.items())
                    print(f"{rows:.3g} {key_bytes} + {value_bytes}, {distribution}: {told} ({ratio:.2f})", flush=True)
                del bench
    write_results(options.output, results)


if __name__ == "__main__":
    main()
