"""How far a command is, on a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Any, TextIO


def is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal; ``None`` stands for a stream that was closed."""
    return stream is not None and stream.isatty()


@contextmanager
def progress_bar() -> Any:
    """Yields a function ``step(name) -> advance(fraction)``; draws on a terminal only."""
    if not is_terminal(sys.stderr):
        yield lambda name: lambda fraction: None
        return
    # Loading rich takes longer than sorting small files.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:

        def step(name: str) -> Any:
            task = progress.add_task(name, total=1.0)
            return lambda fraction: progress.update(task, completed=fraction)

        yield step
