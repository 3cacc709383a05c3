"""The contract of device/: one suite, every backend."""

from __future__ import annotations

import numpy as np
import pytest

import linkwise
from linkwise import _core

GPU0 = _core.Place.gpu(0)
SIZE = 1 << 16


def random_bytes(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, SIZE, dtype=np.uint8)


def places(runtime: _core.Runtime) -> list[_core.Place]:
    return [_core.Place.host(), *(_core.Place.gpu(g) for g in range(min(runtime.machine.num_gpus, 3)))]


def test_bytes_survive_a_copy_between_any_two_places(runtime: _core.Runtime) -> None:
    stream = runtime.stream(GPU0, "contract")
    data = random_bytes()
    for source in places(runtime):
        for target in places(runtime):
            first, second = runtime.allocate(source, SIZE), runtime.allocate(target, SIZE)
            result = np.zeros_like(data)
            runtime.copy_in(stream, first.view, data)
            runtime.copy(stream, second.view, first.view)
            runtime.copy_out(stream, result, second.view)
            runtime.synchronize()
            assert (result == data).all(), (source, target)
            first.release()
            second.release()


def test_slices_name_parts(runtime: _core.Runtime) -> None:
    stream = runtime.stream(GPU0, "contract")
    buffer = runtime.allocate(GPU0, SIZE)
    data = random_bytes()
    runtime.copy_in(stream, buffer.view, data)
    assert runtime.read_back(stream, buffer.slice(100, 50)) == data[100:150].tobytes()
    with pytest.raises(linkwise.Error, match="slice"):
        buffer.slice(SIZE - 1, 2)


def test_sizes_of_a_copy_must_agree(runtime: _core.Runtime) -> None:
    buffer = runtime.allocate(GPU0, SIZE)
    with pytest.raises(linkwise.Error, match="copy of 10 bytes into 20"):
        runtime.copy(runtime.stream(GPU0, "contract"), buffer.slice(0, 20), buffer.slice(20, 10))


def test_an_event_orders_two_streams(runtime: _core.Runtime) -> None:
    one, two = runtime.stream(GPU0, "one"), runtime.stream(GPU0, "two")
    first, second = runtime.allocate(GPU0, SIZE), runtime.allocate(GPU0, SIZE)
    data, result = random_bytes(), np.zeros(SIZE, np.uint8)
    runtime.copy_in(one, first.view, data)
    runtime.stream_wait(two, runtime.record(one))
    runtime.copy(two, second.view, first.view)
    runtime.copy_out(two, result, second.view)
    runtime.wait(runtime.record(two))
    assert (result == data).all()


def test_a_flag_may_be_awaited_before_it_is_set(runtime: _core.Runtime) -> None:
    one, two = runtime.stream(GPU0, "one"), runtime.stream(GPU0, "two")
    first, second = runtime.allocate(GPU0, SIZE), runtime.allocate(GPU0, SIZE)
    flag = runtime.flag("data is there")
    data, result = random_bytes(), np.zeros(SIZE, np.uint8)
    runtime.wait_flag(two, flag, 2)
    runtime.copy(two, second.view, first.view)
    runtime.copy_out(two, result, second.view)
    runtime.copy_in(one, first.view, data)
    runtime.set_flag(one, flag, 2)
    runtime.synchronize()
    assert (result == data).all()


def test_waiting_for_nothing_returns(runtime: _core.Runtime) -> None:
    runtime.wait(runtime.record(runtime.stream(GPU0, "nothing was ever enqueued here")))
    runtime.synchronize()


def test_memory_beyond_the_limit_is_refused_and_the_rest_stays_usable(runtime: _core.Runtime) -> None:
    runtime.trim()
    runtime.set_memory_limit(1 << 20)
    try:
        with pytest.raises(linkwise.OutOfMemoryError, match="memory_limit"):
            runtime.allocate(GPU0, 1 << 21)
        assert runtime.available(GPU0) == 1 << 20
        buffer = runtime.allocate(GPU0, 1 << 19)
        assert runtime.available(GPU0) == 1 << 19
        buffer.release()
    finally:
        runtime.set_memory_limit(0)


def test_a_gpu_that_does_not_exist_is_named(runtime: _core.Runtime) -> None:
    with pytest.raises(linkwise.UsageError, match="no gpu99"):
        runtime.stream(_core.Place.gpu(99))


def test_the_timeline_tells_order_phases_and_bytes(runtime: _core.Runtime) -> None:
    stream = runtime.stream(GPU0, "contract")
    buffer = runtime.allocate(GPU0, SIZE)
    data = random_bytes()
    runtime.clear_timeline()
    runtime.set_phase("in")
    runtime.copy_in(stream, buffer.view, data)
    runtime.set_phase("out")
    runtime.copy_out(stream, np.empty_like(data), buffer.view)
    entries = runtime.timeline()
    assert [(entry.phase, entry.bytes, entry.is_copy) for entry in entries] == [("in", SIZE, True), ("out", SIZE, True)]
    assert entries[0].start_ps < entries[0].end_ps <= entries[1].start_ps < entries[1].end_ps
    progress = runtime.progress()
    assert progress.finished == progress.enqueued > 0
    runtime.clear_timeline()
    assert runtime.timeline() == []


def test_a_stop_request_ends_waits(runtime: _core.Runtime) -> None:
    stop = _core.StopSource()
    runtime.set_stop_source(stop)
    stop.request_stop()
    buffer = runtime.allocate(GPU0, SIZE)
    try:
        with pytest.raises(linkwise.Cancelled):
            runtime.copy_in(runtime.stream(GPU0, "contract"), buffer.view, random_bytes())
    finally:
        runtime.set_stop_source(_core.StopSource())
