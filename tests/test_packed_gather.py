"""Gathering several columns on the GPUs by records of their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conftest import SEEDS, cuda_runtime
from linkwise import UsageError, _core
from test_device_join import parts_of
from test_device_sort import on_gpu
from test_host_join import virtual

DTYPES = (np.uint8, np.int16, np.uint32, np.float64, np.int64, np.float32, np.int8, np.uint64, np.float16)


def check(runtime: _core.Runtime, gpus: int, columns: int, rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    named = list(range(gpus))
    chosen = [DTYPES[number] for number in random.integers(0, len(DTYPES), columns)]
    wholes = [random.integers(0, 100, rows).astype(dtype) for dtype in chosen]
    numbers = random.integers(0, max(rows, 1), 2 * rows).astype([np.uint32, np.int64][seed % 2])
    if rows:
        numbers[random.random(len(numbers)) < 0.1] = np.array(-1).astype(numbers.dtype)

    def lent(column: Any, of: int) -> list[_core.DeviceArray]:
        parts = parts_of(column, gpus, of)
        if not runtime.simulated:
            parts = [on_gpu(part, g) for g, part in enumerate(parts)]
        return _core.lend_arrays(runtime, named, parts, [None] * gpus)

    found = _core.take_columns(runtime, named, [lent(column, seed) for column in wholes], lent(numbers, seed + 1))
    everything = numbers == np.array(-1).astype(numbers.dtype)
    for column, parts in zip(wholes, found, strict=True):
        bits = np.dtype(f"u{column.itemsize}")
        expected = column.view(bits)[np.where(everything, 0, numbers).astype(np.int64)] if rows else np.zeros(0, bits)
        expected = np.where(everything, np.array(-1).astype(bits), expected)
        assert (np.concatenate([part.numpy() for part in parts]).view(bits) == expected).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_legal_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    check(virtual(seed), int(random.integers(1, 9)), int(random.integers(1, 14)), int(random.integers(0, 300)), seed)


def test_without_room_columns_are_gathered_one_by_one() -> None:
    for failing in range(1, 6):
        runtime = virtual(failing)
        columns = [_core.lend_arrays(runtime, [0], [np.arange(9.0) + number], [None]) for number in range(3)]
        rows = _core.lend_arrays(runtime, [0], [np.array([8, 0, 3])], [None])
        runtime.set_faults(failing_allocation=failing)
        found = _core.take_columns(runtime, [0], columns, rows)
        assert [part.numpy().tolist() for (part,) in found] == [[8 + n, 0 + n, 3 + n] for n in range(3)]


def test_columns_of_different_lengths() -> None:
    runtime = virtual()
    columns = [_core.lend_arrays(runtime, [0], [np.arange(length)], [None]) for length in (3, 4)]
    with pytest.raises(UsageError, match="the columns differ in length on a GPU"):
        _core.take_columns(runtime, [0], columns, columns[0])


@pytest.mark.gpu
def test_on_gpus() -> None:
    pytest.importorskip("cupy")
    runtime = cuda_runtime()
    for gpus in range(1, runtime.machine.num_gpus + 1):
        for seed in range(20):
            check(runtime, gpus, 1 + seed % 13, 100 * seed * seed, seed)
