"""The console that commands print on."""

from __future__ import annotations

import os
import sys

from rich.console import Console

_WIDE = 200  # columns


def console(*, to_stderr: bool = False) -> Console:
    """A console as wide as the terminal; wide where a program reads, to which broken lines would say something else."""
    stream = sys.stderr if to_stderr else sys.stdout
    is_read_by_people = "COLUMNS" in os.environ or (stream is not None and stream.isatty())
    return _Console(stderr=to_stderr, width=None if is_read_by_people else _WIDE)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command, which ends with another exit code than rich's."""
        raise  # noqa: PLE0704 - rich calls this while it handles the error
