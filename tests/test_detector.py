"""The virtual machine's detector is itself tested: planted faults are caught by name, in every seed."""

from __future__ import annotations

import numpy as np
import pytest

import linkwise
from conftest import SEEDS
from linkwise import _core

GPU0, GPU1 = _core.Place.gpu(0), _core.Place.gpu(1)
SIZE = 4096
MACHINE = linkwise.load_machine("dgx-a100")


class Program:
    """Two streams and two buffers, for short wrong programs."""

    def __init__(self, seed: int) -> None:
        self.runtime = _core.VirtualRuntime(MACHINE, _core.VirtualMode.execute, seed)
        self.one = self.runtime.stream(GPU0, "one")
        self.two = self.runtime.stream(GPU1, "two")
        self.first = self.runtime.allocate(GPU0, SIZE, "first")
        self.second = self.runtime.allocate(GPU1, SIZE, "second")
        self.runtime.copy_in(self.one, self.first.view, np.zeros(SIZE, np.uint8))
        self.runtime.copy_in(self.two, self.second.view, np.zeros(SIZE, np.uint8))
        self.runtime.synchronize()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_event_between_write_and_read(seed: int) -> None:
    program = Program(seed)
    program.runtime.copy_in(program.one, program.first.view, np.ones(SIZE, np.uint8))
    program.runtime.copy(program.two, program.second.view, program.first.view)  # nothing waits for stream one
    with pytest.raises(_core.RaceError, match=r"gpu0/one.*gpu1/two|gpu1/two.*gpu0/one") as caught:
        program.runtime.synchronize()
    assert f"seed {seed}" in str(caught.value)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_event_between_read_and_write(seed: int) -> None:
    program = Program(seed)
    program.runtime.copy(program.two, program.second.view, program.first.view)
    program.runtime.copy_in(program.one, program.first.slice(SIZE - 1, 1), np.ones(1, np.uint8))
    with pytest.raises(_core.RaceError, match="nothing orders them"):
        program.runtime.synchronize()


@pytest.mark.parametrize("seed", SEEDS)
def test_an_event_recorded_too_early(seed: int) -> None:
    program = Program(seed)
    too_early = program.runtime.record(program.one)
    program.runtime.copy_in(program.one, program.first.view, np.ones(SIZE, np.uint8))
    program.runtime.stream_wait(program.two, too_early)
    program.runtime.copy(program.two, program.second.view, program.first.view)
    with pytest.raises(_core.RaceError):
        program.runtime.synchronize()


@pytest.mark.parametrize("seed", SEEDS)
def test_reading_together_and_writing_apart_is_no_race(seed: int) -> None:
    program = Program(seed)
    half = SIZE // 2
    program.runtime.copy(program.two, program.second.slice(0, half), program.first.slice(0, half))
    three = program.runtime.stream(GPU1, "three")
    program.runtime.copy(three, program.second.slice(half, half), program.first.slice(0, half))
    program.runtime.synchronize()


@pytest.mark.parametrize("seed", SEEDS)
def test_use_after_free(seed: int) -> None:
    program = Program(seed)
    program.runtime.copy(program.two, program.second.view, program.first.view)
    program.first.release()
    with pytest.raises(_core.UseAfterFreeError, match="'first'"):
        program.runtime.synchronize()


@pytest.mark.parametrize("seed", SEEDS)
def test_giving_back_what_may_still_be_in_use(seed: int) -> None:
    """The user has run already, in this order; but nobody waited for it."""
    program = Program(seed)
    program.runtime.copy(program.two, program.second.view, program.first.view)
    event = program.runtime.record(program.two)
    program.runtime.copy_in(program.one, program.first.slice(0, 0), np.empty(0, np.uint8))
    other = program.runtime.stream(GPU0, "other")
    program.runtime.stream_wait(other, event)
    program.runtime.wait(program.runtime.record(program.one))  # not the stream that uses the buffer
    program.first.release()
    with pytest.raises(_core.UseAfterFreeError, match="'first'"):
        program.runtime.synchronize()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_flag_that_is_never_set(seed: int) -> None:
    program = Program(seed)
    flag = program.runtime.flag("chunk 3 is ready")
    program.runtime.wait_flag(program.two, flag, 1)
    program.runtime.copy(program.two, program.second.view, program.first.view)
    with pytest.raises(_core.DeadlockError, match="'chunk 3 is ready' to reach 1"):
        program.runtime.synchronize()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_flag_that_is_set_too_low(seed: int) -> None:
    program = Program(seed)
    flag = program.runtime.flag("both halves")
    program.runtime.set_flag(program.one, flag, 1)
    program.runtime.wait_flag(program.two, flag, 2)
    program.runtime.copy(program.two, program.second.view, program.first.view)
    with pytest.raises(_core.DeadlockError, match="it is 1"):
        program.runtime.synchronize()


@pytest.mark.parametrize("seed", SEEDS)
def test_two_streams_that_wait_for_each_other(seed: int) -> None:
    program = Program(seed)
    ping, pong = program.runtime.flag("ping"), program.runtime.flag("pong")
    program.runtime.wait_flag(program.one, ping, 1)
    program.runtime.set_flag(program.one, pong, 1)
    program.runtime.wait_flag(program.two, pong, 1)
    program.runtime.set_flag(program.two, ping, 1)
    with pytest.raises(_core.DeadlockError, match=r"'ping'.*'pong'|'pong'.*'ping'"):
        program.runtime.synchronize()


def test_freed_memory_is_poisoned() -> None:
    program = Program(0)
    view = program.first.view
    address = view.address
    program.runtime.reserve(GPU0, SIZE)  # keeps the block
    program.first.release()
    import ctypes

    assert set(ctypes.string_at(address, SIZE)) == {0xDB}


def test_fresh_memory_is_not_zero() -> None:
    runtime = _core.VirtualRuntime(MACHINE)
    buffer = runtime.allocate(GPU0, SIZE)
    assert set(runtime.read_back(runtime.stream(GPU0), buffer.view)) == {0xDB}


def test_an_estimate_takes_the_expectation_and_allocates_nothing() -> None:
    runtime = _core.VirtualRuntime(MACHINE, _core.VirtualMode.estimate, 0)
    buffer = runtime.allocate(GPU0, 1 << 35)  # 32 GiB: far beyond this machine
    stream = runtime.stream(GPU0)
    assert runtime.read_back(stream, buffer.slice(0, 4), b"\1\2\3\4") == b"\1\2\3\4"
    assert runtime.read_back(stream, buffer.slice(0, 4)) == b"\0\0\0\0"
    assert len(runtime.timeline()) == 2
