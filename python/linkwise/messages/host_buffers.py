"""The host's memory that messages go through."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from linkwise import _core
from linkwise._typing import Array


class HostBuffers:
    """Memory for messages, page-locked or not, by what it is for; kept, since pinning takes longer than copying."""

    def __init__(self, *, pinned: bool) -> None:
        self._pinned = pinned
        self._kept: dict[Hashable, Array] = {}

    def of(self, key: Hashable, count: int, dtype: Any) -> Array:
        """For so many elements; what was there before is given up."""
        size = max(count * np.dtype(dtype).itemsize, 1)
        if key not in self._kept or self._kept[key].nbytes < size:
            self._kept[key] = _core.pinned_bytes(size) if self._pinned else np.empty(size, np.uint8)
        return self._kept[key][: count * np.dtype(dtype).itemsize].view(dtype)
