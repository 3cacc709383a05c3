"""PyArrow, imported lazily on first use: importing it takes longer than everything else together."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:

    class _Lazy:
        """A module that is imported when one of its names is asked for."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module(self._name), name)
            setattr(self, name, value)  # cached for the next access
            return value

    pa, pc = _Lazy("pyarrow"), _Lazy("pyarrow.compute")

__all__ = ["pa", "pc"]
