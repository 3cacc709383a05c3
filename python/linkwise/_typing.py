"""Names of types that many rooms share."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""An array of any type."""

Rows = npt.NDArray[Any]
"""Row numbers: unsigned integers of 4 or 8 bytes, one-dimensional."""

Bytes = npt.NDArray[np.uint8]
"""Memory, byte by byte."""

Format = Literal["parquet", "arrow", "csv", "tsv", "jsonl", "npy", "bin"]
"""A file format."""
