"""Stack arenas, join25 §3.1.3."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import linkwise
from conftest import cuda_runtime
from linkwise import _core


def test_allocations_are_aligned_and_stacked() -> None:
    arena = _core.StackArena(1024, 128)
    assert [arena.allocate(size) for size in (1, 128, 129)] == [0, 128, 256]
    assert arena.top == 512


def test_what_does_not_fit_is_refused() -> None:
    arena = _core.StackArena(256, 128)
    assert arena.allocate(200) == 0
    assert arena.allocate(1) is None


def test_top_falls_to_the_highest_that_lives() -> None:
    arena = _core.StackArena(1024, 128)
    first, second, third = (arena.allocate(100) for _ in range(3))
    arena.release(second)
    assert arena.top == 384, "a hole below the top stays"
    arena.release(third)
    assert arena.top == 128, "and closes with what lay above it"
    arena.release(first)
    assert arena.empty and arena.top == 0


def test_releasing_nothing_is_an_error() -> None:
    arena = _core.StackArena(1024, 128)
    with pytest.raises(linkwise.Error, match="nothing alive starts at offset 128"):
        arena.release(128)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5000)), max_size=60), st.sampled_from([16, 128]))
def test_living_allocations_never_overlap(steps: list[tuple[bool, int]], alignment: int) -> None:
    arena = _core.StackArena(1 << 16, alignment)
    living: dict[int, int] = {}
    for allocate, number in steps:
        if allocate:
            offset = arena.allocate(number)
            if offset is None:
                continue
            assert offset % alignment == 0
            assert offset + number <= 1 << 16
            assert all(offset + number <= at or at + size <= offset for at, size in living.items())
            living[offset] = max(number, 1)
        elif living:
            offset = sorted(living)[number % len(living)]
            arena.release(offset)
            del living[offset]
    assert arena.empty == (not living)
    assert arena.top >= max((at + size for at, size in living.items()), default=0)


@pytest.mark.gpu
def test_what_was_kept_makes_way_for_more_than_is_free() -> None:
    """Without a limit the device itself is full: what an earlier call left behind goes back to it first."""
    runtime, place = cuda_runtime(), _core.Place.gpu(0)
    runtime.trim()
    possible = runtime.available(place)
    first = runtime.allocate(place, int(0.4 * possible))
    del first
    larger = runtime.allocate(place, int(0.8 * possible))
    assert larger.view.bytes == int(0.8 * possible)
    del larger
    runtime.trim()
