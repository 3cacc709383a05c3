"""Tables of other libraries that lie on a GPU: with Arrow's C device interface, and frames and series of cuDF.

Those of cuDF with columns that the GPUs do not support, such as lists and categories, go through host memory
(``interop.containers``).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from linkwise._arrow import pa
from linkwise.columns.sort_keys import By
from linkwise.interop.containers import Held, is_cudf_frame, library_of, series_by_name, series_of
from linkwise.interop.foreign_arrays import ArrowPart, can_lie_on_gpus
from linkwise.interop.gpu_column import GpuColumn, GpuColumnDict


def columns_of_table(value: Any) -> dict[str, ArrowPart] | None:
    """The columns of a table on a GPU with Arrow's C device interface; ``None`` for anything else."""
    if hasattr(value, "__dlpack_device__") or type(value).__module__.startswith("pyarrow"):
        return None
    part = ArrowPart.of(value)
    return part.columns() if part is not None and part.is_table and part.gpu is not None else None


def columns_of_frame(value: Any) -> dict[str, ArrowPart] | None:
    """The columns of a frame of cuDF; ``None`` for anything else."""
    return _parts(series_by_name(value)) if is_cudf_frame(value) else None


def hold_keys(values: Any, by: By) -> tuple[Held, dict[str, ArrowPart]] | None:
    """The keys of a frame or series of cuDF, and what takes rows by their numbers; ``None`` for anything else."""
    if library_of(values) != "cudf" or not hasattr(values, "iloc"):
        return None
    series, labels = series_of(values, by)
    parts = _parts(series)
    if parts is None:
        return None
    none = pa.table({name: pa.nulls(0, part.kind) for name, part in parts.items()})
    return Held(none, take=values.take, labels=labels), parts


def frame_of(columns: Mapping[str, GpuColumn], like: Any) -> Any:
    """A frame of columns."""
    of_libcudf = importlib.import_module("pylibcudf").Table.from_arrow(GpuColumnDict(columns))
    return type(like).from_pylibcudf(of_libcudf, {"columns": list(columns)})


def with_labels(frame: Any, labels: Mapping[str, Any]) -> Any:
    """A frame that was just made, with the labels of columns that are not text, by their names."""
    if labels:
        frame.columns = [labels.get(name, name) for name in frame.columns]
    return frame


def _parts(series: Mapping[str, Any]) -> dict[str, ArrowPart] | None:
    """The columns of series, if the types of all are those of the bytes that lie there."""
    is_plain = [isinstance(each.dtype, np.dtype) or str(each.dtype) in ("str", "string") for each in series.values()]
    if not all(is_plain) or not all(hasattr(each, "to_pylibcudf") for each in series.values()):
        return None
    parts = {name: ArrowPart.of(each.to_pylibcudf()[0]) for name, each in series.items()}
    found = {name: part for name, part in parts.items() if part is not None and can_lie_on_gpus(part.kind)}
    return found if len(found) == len(parts) else None
