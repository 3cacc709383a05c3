"""When GPUs are started, which takes most of a second, and when the cores do the work meanwhile."""

from __future__ import annotations

import threading

import pytest

from linkwise.runtime import gpu_start
from linkwise.runtime.execution import ExecutionOptions

SOME = 10**8  # bytes, which two cores sort in a ninth of a second


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_start, "_taken_by_cores", 0.0)
    monkeypatch.setattr(gpu_start, "gpus_have_started", lambda: False)
    monkeypatch.setattr(gpu_start.os, "sched_getaffinity", lambda _: {0, 1})


def test_cores_are_asked_until_they_have_taken_a_start() -> None:
    asked = [gpu_start.is_left_to_cores(ExecutionOptions(), SOME) for _ in range(8)]
    assert asked == [True] * 6 + [False] * 2
    assert gpu_start.is_left_to_cores(ExecutionOptions(), 1000)  # which is nothing beside a start


def test_what_takes_longer_than_a_start_is_the_gpus() -> None:
    assert not gpu_start.is_left_to_cores(ExecutionOptions(), 10**10)
    assert gpu_start.is_left_to_cores(ExecutionOptions(), SOME)
    assert not gpu_start.join_is_left_to_cores(ExecutionOptions(), 2 * SOME)


@pytest.mark.parametrize(
    "said", [{"machine": "local"}, {"gpus": [0]}, {"strategy": "radix"}, {"strategy": "cpu"}, {"memory_limit": "1GiB"}]
)
def test_who_says_where_it_runs_is_heard(said: dict[str, object]) -> None:
    assert not gpu_start.is_left_to_cores(ExecutionOptions(**said), 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "size", "starts"),
    [
        ({}, SOME, False), ({}, 10**10, True), ({"strategy": "radix"}, SOME, True),
        ({"strategy": "cpu"}, 10**10, False), ({"machine": "h200x8"}, 10**10, False),
    ],
)  # fmt: skip
def test_the_driver_is_loaded_beside_reading_for_whom_gpus_will_sort(
    said: dict[str, object], size: int, starts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()
    monkeypatch.setattr(gpu_start, "local_machine", begun.set)
    gpu_start.start_beside(ExecutionOptions(**said), size)  # type: ignore[arg-type]
    assert begun.wait(5 if starts else 0.05) == starts


def test_gpus_that_have_started_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_start, "gpus_have_started", lambda: True)
    assert not gpu_start.is_left_to_cores(ExecutionOptions(), 1)
