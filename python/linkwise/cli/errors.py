"""How all commands fail: in one line that says what to do."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import Any, NoReturn

INTERRUPTED = 130
NOBODY_READS = 141
"""The exit code of a program that SIGPIPE has ended."""


@contextmanager
def interrupt_is_a_failure() -> Any:
    """End the process with 130 and a line when Ctrl-C comes, and with 141 when nobody reads what is written."""
    try:
        yield
    except BrokenPipeError:  # as head closes the pipe when it has enough; typer would make it a failure
        os._exit(NOBODY_READS)
    except KeyboardInterrupt as interrupt:  # typer would swallow it without a word
        fail_interrupted(interrupt)


def fail_interrupted(interrupt: BaseException) -> NoReturn:
    """End the process after Ctrl-C; an interrupt that came late says what is complete."""
    fail(f"interrupted; {str(interrupt) or 'nothing was written'}", INTERRUPTED)


def fail(error: object, code: int) -> NoReturn:
    """Print the error in one line and end the process."""
    if sys.stderr is not None:  # otherwise print would write among the results
        print(f"linkwise: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(code)
