"""What carries stages out: workers that are given functions, and a store for what these return.

Stages are functions of their arguments alone, of which the first is ``Fetch``: it reads what other stages returned. So
the same stages run on a cluster, and in one process in tests.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from linkwise._core import Error

Handle: TypeAlias = Any
"""Stands for a value in the store."""
Fetch: TypeAlias = Callable[[Sequence[Handle]], list[Any]]
"""The values of some handles, in their order."""
Done: TypeAlias = Callable[[int, list[Handle]], object]
"""Told the number of a call that is done, and the handles of its values."""

_LOOK_AGAIN = 0.5  # seconds
_SLOW = 2.0  # times the median of all others


@dataclass(frozen=True)
class Worker:
    """What a call has to itself: a node, or a part of one."""

    cores: int
    """As the engine counts them,"""
    threads: int
    """and as many threads as work on them."""
    gpus: int
    memory: int
    """Bytes."""
    store: int
    """Bytes of its node's object store that are its share."""


@dataclass(frozen=True)
class Call:
    """A function for a worker. It yields so many values, or returns its only one."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    values: int = 1

    def values_with(self, fetch: Fetch) -> Iterator[Any]:
        """Carry it out."""
        made = self.function(fetch, *self.arguments)
        if isinstance(made, Generator):
            yield from made
        else:
            yield made


class Engine(Protocol):
    """Runs calls on workers. A worker that is lost is the engine's business, and none of whoever asked."""

    workers: int
    worker: Worker

    def submit(self, call: Call) -> list[Handle]:
        """Have a call carried out, and return the handles of its values."""

    def stream(self, call: Call) -> Iterator[Handle]:
        """Handles of what a call yields, however many there are, as they come."""

    def finished(self, handles: Sequence[Handle], seconds: float) -> list[Handle]:
        """Those whose values are there: as soon as one is, or none after that time. No value is moved."""

    def value(self, handle: Handle) -> Any:
        """Wait for a value. Raises what its call did."""

    def cancel(self, handles: Sequence[Handle], *, wait: bool = False) -> None:
        """Do without these values, and end the calls that would give them; wait until nobody works on them."""


@dataclass
class _Running:
    number: int
    call: Call
    tries: list[list[Handle]]
    began: float = field(default_factory=time.monotonic)


def run_all(engine: Engine, calls: Iterable[Call], at_once: int, done: Done, *, second_tries: bool = False) -> None:
    """Have calls carried out, so many at once. Raises what one of them does, and then does without the others.

    With ``second_tries``, a call that takes much longer than most is begun once more on a worker that is idle, and the
    first to end counts: it must not mind being carried out twice.
    """
    waiting = enumerate(calls)
    running: list[_Running] = []
    seconds: list[float] = []
    try:
        while True:
            while len(running) < at_once and (following := next(waiting, None)) is not None:
                number, call = following
                running.append(_Running(number, call, [engine.submit(call)]))
            if not running:
                return
            there = engine.finished([tried[-1] for each in running for tried in each.tries], _LOOK_AGAIN)
            for each in [each for each in running if any(_is_in(tried[-1], there) for tried in each.tries)]:
                first = next(tried for tried in each.tries if _is_in(tried[-1], there))
                if len(each.tries) > 1 and _has_failed(engine, first[-1]):
                    each.tries.remove(first)
                    continue
                running.remove(each)
                engine.cancel([handle for tried in each.tries if tried is not first for handle in tried])
                seconds.append(time.monotonic() - each.began)
                done(each.number, first)
            if second_tries and not there:
                _try_slow_ones_again(engine, running, at_once, seconds)
    except BaseException:
        engine.cancel([handle for each in running for tried in each.tries for handle in tried], wait=True)
        raise


def _is_in(handle: Handle, there: Sequence[Handle]) -> bool:
    return any(handle is each for each in there)


def _has_failed(engine: Engine, handle: Handle) -> bool:
    try:
        engine.value(handle)
    except Error:
        return True
    return False


def _try_slow_ones_again(engine: Engine, running: list[_Running], at_once: int, seconds: Sequence[float]) -> None:
    idle = min(engine.workers, at_once) - sum(len(each.tries) for each in running)
    slow = time.monotonic() - _SLOW * statistics.median(seconds) if seconds else 0.0
    for each in running:
        if idle > 0 and len(each.tries) == 1 and each.began < slow:
            each.tries.append(engine.submit(each.call))
            idle -= 1
