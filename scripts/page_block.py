"""The part of a page that a script writes, between comments that name the script."""

from __future__ import annotations

_END = "<!-- up to here -->\n"


def with_block(page: str, script: str, text: str) -> str:
    """A page with new text in the block of a script. Raises ``ValueError`` if the page has no such block."""
    begin = f"<!-- written by scripts/{script} -->\n"
    first, rest = page.split(begin, 1)
    _, last = rest.split(_END, 1)
    return f"{first}{begin}\n{text}\n{_END}{last}"
