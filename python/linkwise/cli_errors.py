"""What all commands share: how they fail, in one line that says what to do, and an option that some have."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Any, NoReturn

from linkwise._core import Machine, UsageError
from linkwise.machine import load_machine
from linkwise.planning import Gpus


@contextmanager
def interrupt_is_a_failure() -> Any:
    """End the process with 130 and a line when Ctrl-C comes."""
    try:
        yield
    except KeyboardInterrupt:  # typer would swallow it without a word
        fail("interrupted; nothing was written", 130)


def fail(error: object, code: int) -> NoReturn:
    """Print the error in one line and end the process."""
    print(f"linkwise: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(code)


def parse_gpus(text: str) -> Gpus:
    """GPU numbers from an option. Raises ``UsageError``."""
    if text == "auto":
        return "auto"
    try:
        numbers = [int(part) for part in text.split(",")]
        if any(abs(number) > 1 << 20 for number in numbers):
            raise ValueError
        return numbers
    except ValueError:
        raise UsageError(f"--gpus is 'auto' or numbers like 0,2, not '{text}'") from None


def without_it(machine: str, what: str) -> Machine:
    """A described machine without something, as ``--without`` asks. Raises ``UsageError``."""
    if machine in ("auto", "local"):
        raise UsageError(f"--without {what} is for described machines; name one with --machine")
    return load_machine(machine, without=what)
