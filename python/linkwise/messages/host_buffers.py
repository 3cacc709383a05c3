"""Host buffers that messages are staged in."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from linkwise import _core
from linkwise._typing import Array


class HostBuffers:
    """Staging buffers, pinned or pageable, by purpose; they are reused, since pinning takes longer than copying."""

    def __init__(self, *, pinned: bool) -> None:
        self._pinned = pinned
        self._kept: dict[Hashable, Array] = {}

    def of(self, key: Hashable, count: int, dtype: Any) -> Array:
        """The buffer of a purpose, with room for ``count`` elements; its previous contents are lost."""
        size = max(count * np.dtype(dtype).itemsize, 1)
        if key not in self._kept or self._kept[key].nbytes < size:
            self._kept[key] = _core.pinned_bytes(size) if self._pinned else np.empty(size, np.uint8)
        return self._kept[key][: count * np.dtype(dtype).itemsize].view(dtype)
