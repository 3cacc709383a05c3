"""The interface of engines that run stages: workers that call functions, and a store for the returned values.

Stages depend on their arguments only. The first argument is ``Fetch``, which reads values that other stages returned.
So the same stages run on a cluster, and in one process in tests.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from linkwise._core import Error

Handle: TypeAlias = Any
"""A reference to a value in the store."""
Fetch: TypeAlias = Callable[[Sequence[Handle]], list[Any]]
"""The values of some handles, in their order."""
Done: TypeAlias = Callable[[int, list[Handle]], object]
"""Called with the number of a finished call, and the handles of its values."""

_LOOK_AGAIN = 0.5  # seconds
_RECOVERY = 30.0  # seconds without a call that ends, after which calls whose inputs are lost are withdrawn
_SLOW = 2.0  # times the median of all others
_PATIENCE = 120.0  # seconds without a call that ends, …
_FAR_SLOWER = 10.0  # … or so many times as long as the slowest call took: what runs may be lost
_LONGEST_PATIENCE = 3600.0  # likewise, before anything has ended, and before it is given up
_MOST_TRIES = 4


@dataclass(frozen=True)
class Worker:
    """The resources that a call has to itself: a node, or a part of one."""

    cores: int
    """Cores, as the engine counts them."""
    threads: int
    """Threads that run on these cores."""
    gpus: int
    memory: int
    """Bytes."""
    store: int
    """Its share of its node's object store, in bytes."""


@dataclass(frozen=True)
class Call:
    """A function for a worker to call. It yields ``values`` values, or returns its only one."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    values: int = 1
    inputs: Sequence[Handle] = ()
    """The handles in its arguments whose values it fetches."""

    def values_with(self, fetch: Fetch) -> Iterator[Any]:
        """Call the function, and yield its values."""
        made = self.function(fetch, *self.arguments)
        if isinstance(made, Generator):
            yield from made
        else:
            yield made


class Engine(Protocol):
    """Runs calls on workers. The engine itself handles the loss of workers; its callers need not."""

    workers: int
    worker: Worker

    def submit(self, call: Call) -> list[Handle]:
        """Submit a call, and return the handles of its values."""

    def stream(self, call: Call) -> Iterator[Handle]:
        """The handles of a call's values, as they are yielded, however many there are."""

    def finished(self, handles: Sequence[Handle], seconds: float) -> list[Handle]:
        """The handles whose values are available: waits for one, or returns none at timeout. Moves no values."""

    def value(self, handle: Handle) -> Any:
        """Wait for a value. Raises what its call raised."""

    def cancel(self, handles: Sequence[Handle], *, wait: bool = False) -> None:
        """Cancel the calls of these values; with ``wait``, wait for them to end."""


@dataclass
class _Try:
    handles: list[Handle]
    began: float = field(default_factory=time.monotonic)


@dataclass
class _Running:
    number: int
    call: Call
    tries: list[_Try] = field(default_factory=list)
    """Those that have not failed; none while it waits for lost inputs."""
    submitted: int = 0

    def submit(self, engine: Engine) -> None:
        self.tries.append(_Try(engine.submit(self.call)))
        self.submitted += 1

    def has_inputs(self, engine: Engine) -> bool:
        return not self.call.inputs or len(engine.finished(self.call.inputs, 0.0)) == len(self.call.inputs)

    @property
    def handles(self) -> list[Handle]:
        return [handle for tried in self.tries for handle in tried.handles]


def run_all(engine: Engine, calls: Iterable[Call], at_once: int, done: Done, *, second_tries: bool = False) -> None:
    """Run calls, ``at_once`` at a time. Raises what one of them raises, after cancelling the others.

    Calls must be safe to run twice. What a cluster loses may neither end nor fail: if none ends for long, all that run
    are submitted again, and the first try to end counts; in the end, ``Error`` is raised. Calls whose inputs are lost
    are withdrawn until these have been made again. With ``second_tries``, a call that takes much longer than most is
    submitted again as soon as a worker is idle.
    """
    waiting = enumerate(calls)
    running: list[_Running] = []
    seconds: list[float] = []
    last_end = time.monotonic()
    try:
        while True:
            while len(running) < at_once and (following := next(waiting, None)) is not None:
                running.append(_Running(*following))
                running[-1].submit(engine)
            if not running:
                return
            there = _finished(engine, [tried.handles[-1] for each in running for tried in each.tries])
            for each in [each for each in running if any(_is_in(tried.handles[-1], there) for tried in each.tries)]:
                first = next(tried for tried in each.tries if _is_in(tried.handles[-1], there))
                others = [tried for tried in each.tries if tried is not first]
                if others and each.submitted < _MOST_TRIES and _has_failed(engine, first.handles[-1]):
                    each.tries = others
                    continue
                running.remove(each)
                engine.cancel([handle for tried in others for handle in tried.handles])
                seconds.append(time.monotonic() - first.began)
                done(each.number, first.handles)
            if there:
                last_end = time.monotonic()
            elif _may_be_lost(running, last_end, seconds):
                _try_all_again(engine, running)
                last_end = time.monotonic()
            else:
                if second_tries:
                    _try_slow_ones_again(engine, running, at_once, seconds)
                _wait_for_lost_inputs(engine, running, last_end)
    except BaseException:
        engine.cancel([handle for each in running for handle in each.handles], wait=True)
        raise


def _finished(engine: Engine, handles: Sequence[Handle]) -> list[Handle]:
    if handles:
        return engine.finished(handles, _LOOK_AGAIN)
    time.sleep(_LOOK_AGAIN)  # everything waits for lost inputs
    return []


def _is_in(handle: Handle, there: Sequence[Handle]) -> bool:
    return any(handle is each for each in there)


def _has_failed(engine: Engine, handle: Handle) -> bool:
    try:
        engine.value(handle)
    except Error:
        return True
    return False


def _may_be_lost(running: Sequence[_Running], last_end: float, seconds: Sequence[float]) -> bool:
    """Whether none has ended for very long; twice as long for each further try."""
    tries = max(each.submitted for each in running)
    patience = max(_PATIENCE, _FAR_SLOWER * max(seconds, default=0.0)) * (1 << (tries - 1))
    if not seconds or tries >= _MOST_TRIES:
        patience = max(patience, _LONGEST_PATIENCE)
    return time.monotonic() - last_end > patience


def _try_all_again(engine: Engine, running: Sequence[_Running]) -> None:
    if any(each.submitted >= _MOST_TRIES for each in running):
        raise Error(
            f"the cluster has finished nothing for very long, and what it was given {_MOST_TRIES} times neither ends "
            "nor fails; look at 'ray status' for nodes that are gone"
        )
    for each in running:
        each.submit(engine)


def _try_slow_ones_again(engine: Engine, running: list[_Running], at_once: int, seconds: Sequence[float]) -> None:
    idle = min(engine.workers, at_once) - sum(len(each.tries) for each in running)
    slow = time.monotonic() - _SLOW * statistics.median(seconds) if seconds else 0.0
    for each in running:
        if idle > 0 and len(each.tries) == 1 and each.submitted < _MOST_TRIES and each.tries[0].began < slow:
            each.submit(engine)
            idle -= 1


def _wait_for_lost_inputs(engine: Engine, running: Sequence[_Running], last_end: float) -> None:
    """Withdraw calls that have long been waiting for lost inputs, and submit them once these are there.

    While they wait, they may hold the workers that would make these inputs again.
    """
    for each in running:
        if not each.tries and each.has_inputs(engine):
            each.submit(engine)
    if time.monotonic() - last_end > _RECOVERY:
        waiting = [each for each in running if each.tries and not each.has_inputs(engine)]
        engine.cancel([handle for each in waiting for handle in each.handles])
        for each in waiting:
            each.tries = []
