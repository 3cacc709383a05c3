"""How values are displayed: as one line, and in a notebook as a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any


def format_seconds(seconds: float) -> str:
    """Seconds with a unit that suits them: ``812 µs``, ``12.3 ms``, ``1.24 s``."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def format_bytes(count: float) -> str:
    """Bytes in decimal units, as the rates are: ``3.2 GB``."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} bytes"


def parts_in_seconds(parts: Mapping[str, float]) -> str:
    """The time that each part took: ``read 1.2 s, sort 30 ms``."""
    return ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in parts.items())


def html_table(caption: str, rows: Mapping[str, Any]) -> str:
    """An HTML table for ``_repr_html_``, with a name for each row; rows with an empty value are left out."""
    from html import escape  # noqa: PLC0415 - slow to load

    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(str(value))}</td></tr>"
        for name, value in rows.items()
        if str(value)
    )
    return f"<table><caption style='text-align:left'><b>{escape(caption)}</b></caption>{cells}</table>"


class Shown(ABC):
    """A value displayed by ``shown_line`` and ``shown_rows``. Dataclasses need ``repr=False`` to inherit that."""

    @abstractmethod
    def shown_line(self) -> str:
        """A short description of the value."""

    @abstractmethod
    def shown_rows(self) -> Mapping[str, Any]:
        """Further details, by name."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.shown_line()}>"

    def _repr_html_(self) -> str:
        return html_table(self.shown_line(), self.shown_rows())
