"""The order of a table's rows by strings and other columns, found on the GPUs.

Strings are made words of, and words and numbers are sorted one after the other, the least significant first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from linkwise import _core
from linkwise._arrow import pa
from linkwise._core import OutOfMemoryError
from linkwise._typing import Array
from linkwise.columns.key_types import is_number, is_text
from linkwise.columns.sort_keys import SortKey
from linkwise.planning.constraints import resident_plan
from linkwise.runtime.execution import ExecutionOptions, gpus_of, memory_limit_of
from linkwise.runtime.gpu_start import gpus_may_sort
from linkwise.runtime.session import open_session
from linkwise.sorting.device.brought import TextExtent, is_long_text, text_extent
from linkwise.sorting.device.device_columns import MOST_ROWS, GpuColumns, Parts, for_rows
from linkwise.sorting.device.device_tables import sorted_rows
from linkwise.sorting.device.text_keys import text_keys
from linkwise.sorting.report import SortReport

_LEAST_ROWS = 1 << 20  # fewer are sorted as fast on the cores
_WORKING_BYTES = 40  # of a row: a key and its number, before and after a sort, and a word being gathered
_TIMES_TEXT = 3  # a column of text takes while words are made: with narrow and with wide offsets
_MOST_WORDS = 8  # usually tell strings apart
_OF_MEMORY = 0.6  # of the GPUs' memory
_BROUGHT = 0.5  # of the work is done when all columns are there, about


def order_on_gpus(
    columns: Sequence[pa.ChunkedArray],
    descending: Sequence[bool],
    nulls_first: Sequence[bool],
    execution: ExecutionOptions,
) -> tuple[Array, SortReport] | None:
    """The row numbers that sort rows by these columns, of strings and perhaps numbers, stably, and what it took.

    ``None`` if the options do not leave it to GPUs, the columns are of other types, or their keys do not fit there.
    """
    if not _may_be_ordered(columns, execution):
        return None
    if any(map(is_long_text, columns)):
        return None
    extents = [text_extent(column) for column in columns]
    execution = for_rows(execution, len(columns[0]))
    if not _fits(columns, extents, execution):
        return None
    gpus = GpuColumns(execution)
    gpus.reports = []
    began = time.perf_counter()
    try:
        nulls, words = _brought(columns, extents, gpus)
        _tell(execution, _BROUGHT)
        keys = [
            SortKey(name, falls, "first" if is_first else "last")
            for name, falls, is_first in zip(words, descending, nulls_first, strict=True)
        ]
        rows, _ = sorted_rows(gpus, keys, words.__getitem__, nulls.get)
        (found,) = gpus.fetch([rows])
        _tell(execution, 1.0)
    except OutOfMemoryError:  # the cores take none of that memory
        return None
    return found, _report(gpus, gpus.reports, len(found), time.perf_counter() - began)


def _tell(execution: ExecutionOptions, progress: float) -> None:
    if execution.on_progress is not None:
        execution.on_progress(progress)


def _may_be_ordered(columns: Sequence[pa.ChunkedArray], execution: ExecutionOptions) -> bool:
    if not _LEAST_ROWS <= len(columns[0]) <= MOST_ROWS or not any(is_text(column.type) for column in columns):
        return False
    if not all(is_text(column.type) or is_number(column.type) for column in columns):
        return False
    is_open = execution.strategy in ("auto", "radix") and execution.plan is None
    return is_open and gpus_may_sort(execution, sum(column.nbytes for column in columns))


def _fits(
    columns: Sequence[pa.ChunkedArray], extents: Sequence[TextExtent | None], execution: ExecutionOptions
) -> bool:
    """Whether the words fit the GPUs, and these can read each other's memory."""
    row_bytes = _WORKING_BYTES
    for column, extent in zip(columns, extents, strict=True):
        row_bytes += 8 * (1 if extent is None else min(extent.words, _MOST_WORDS)) + bool(column.null_count)
    in_text = max(column.nbytes for column in columns if is_text(column.type))
    needed = row_bytes * len(columns[0]) + _TIMES_TEXT * in_text
    with open_session(execution.machine) as runtime:
        each = memory_limit_of(execution, runtime.machine) or int(runtime.machine.gpu.memory_gib * (1 << 30))
        gpus = gpus_of(runtime.machine, execution.gpus)
        return needed <= _OF_MEMORY * each * len(gpus) and runtime.reach_each_other(gpus)


def _brought(
    columns: Sequence[pa.ChunkedArray], extents: Sequence[TextExtent | None], gpus: GpuColumns
) -> tuple[dict[str, Parts], dict[str, list[Parts]]]:
    """By a name for each column, in order: bytes that tell its nulls, if it has some, and the numbers it sorts by."""
    nulls: dict[str, Parts] = {}
    words: dict[str, list[Parts]] = {}
    for number, (column, extent) in enumerate(zip(columns, extents, strict=True)):
        name = str(number)
        if column.null_count:
            nulls[name] = gpus.bring_nulls(column)
        is_null = nulls.get(name)
        words[name] = (
            [gpus.bring_values(column, is_null)]
            if extent is None
            else text_keys(gpus, gpus.bring_strings(column), extent, is_null)
        )
    return nulls, words


def _report(gpus: GpuColumns, reports: Sequence[_core.SortReport], rows: int, wall_seconds: float) -> SortReport:
    """What all operations took together."""
    with gpus.session() as (runtime, found):
        plan = resident_plan(gpus.execution, found)
        of_each = [
            SortReport.of_core(
                report, runtime, plan, rows=rows, row_bytes=np.dtype(np.uint32).itemsize,
                wall_seconds=wall_seconds / len(reports), on="gpus",
            )
            for report in reports
        ]  # fmt: skip
    return SortReport.together(of_each)
