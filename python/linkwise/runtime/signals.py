"""Signals that must not interrupt what has to be done as a whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals by which users end a process."""


@contextmanager
def uninterrupted(done: str) -> Iterator[None]:
    """Defer Ctrl-C and the like until the block has ended.

    If the block has not failed, an interrupt that comes of them afterwards says ``done``: what is complete by then.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread is interrupted
        yield
        return
    caught: list[int] = []
    before = {each: handler for each in ENDING if callable(handler := signal.getsignal(each))}
    for each in before:
        signal.signal(each, lambda number, _: caught.append(number))
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    try:
        for number in caught:
            signal.raise_signal(number)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(done) from None
