"""Large arrays, block by block on all cores: NumPy lets go of the interpreter meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

BLOCK = 1 << 26
"""Elements that a core works on at once."""


def in_blocks(function: Callable[[int], Any], count: int, block: int = BLOCK) -> list[Any]:
    """``function(first)`` for the first position of each block."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, range(0, count, block)))
