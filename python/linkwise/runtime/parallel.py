"""Runs functions on all cores that release the GIL, as those of NumPy, PyArrow and the core do."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from linkwise import _core

Result = TypeVar("Result")

BLOCK = 1 << 26
"""Elements in a block, which one core processes at once."""


def in_blocks(function: Callable[[int], Any], count: int, block: int = BLOCK) -> list[Any]:
    """``function(first)`` for the first position of each block."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, range(0, count, block)))


def in_order(
    functions: Iterable[Callable[[], Result]], most_ahead: int | None = None, *, threads: int | None = None
) -> Iterator[Result]:
    """The results of functions, in order; the functions run in a thread pool, by default one for each core.

    At most ``most_ahead`` of them, by default as many as there are threads, are ahead of the consumer, running or done.
    """
    threads = len(os.sched_getaffinity(0)) if threads is None else threads
    most_ahead = threads if most_ahead is None else most_ahead
    ahead: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, "linkwise", initializer=_core.work_alone) as pool:
        try:
            for function in functions:
                ahead.append(pool.submit(function))
                if len(ahead) > most_ahead:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


_AHEAD = 2  # functions per core that are running or done: cores do not idle while the first in order takes longest


class InOrder(Generic[Result]):
    """Runs functions concurrently, one on each core, and passes on their results in the order of submission.

    Results are passed on in the calling thread. ``most_bytes`` limits the memory of all work in flight, unless a
    single function takes more. What a function raises is raised by a later call; after that, only call ``cancel``.
    """

    def __init__(self, hand_on: Callable[[Result], object], most_bytes: int) -> None:
        self._hand_on = hand_on
        self._most_bytes = most_bytes
        self._cores = len(os.sched_getaffinity(0))
        self._pool: ThreadPoolExecutor | None = None
        self._in_hand: deque[tuple[Future[Result], int]] = deque()
        self._bytes = 0

    def submit(self, function: Callable[[], Result], expected_bytes: int) -> None:
        """Wait until a core and this much memory are available, and start a function."""
        while self._in_hand and (
            self._in_hand[0][0].done()
            or len(self._in_hand) > _AHEAD * self._cores
            or self._bytes + expected_bytes > self._most_bytes
        ):
            self._take_first()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._cores, "linkwise", initializer=_core.work_alone)
        self._bytes += expected_bytes
        self._in_hand.append((self._pool.submit(function), expected_bytes))

    def _take_first(self) -> None:
        future, expected_bytes = self._in_hand.popleft()
        self._bytes -= expected_bytes
        self._hand_on(future.result())

    def finish(self) -> None:
        """Wait for the remaining functions, and pass on their results."""
        while self._in_hand:
            self._take_first()
        self._shut_down()

    def cancel(self) -> None:
        """Cancel functions that have not started, and wait for those that have."""
        self._in_hand.clear()
        self._shut_down()

    def _shut_down(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
