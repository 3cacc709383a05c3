"""Sorts of tables in host memory by numbers, where these fit on the GPUs: numbers that are carried go there as well."""

from __future__ import annotations

from collections.abc import Sequence

from linkwise._arrow import pa
from linkwise._core import OutOfMemoryError
from linkwise.columns.gather import gather_columns, gpus_gather_faster
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.key_types import is_number
from linkwise.columns.sort_keys import SortKey
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.gpu_start import gpus_may_sort
from linkwise.sorting.device.brought import bring, in_host_memory
from linkwise.sorting.device.device_columns import MOST_ROWS, GpuColumns, Parts, fit_there, for_rows
from linkwise.sorting.device.device_tables import sorted_rows

_LEAST_ROWS = 1 << 20  # fewer are sorted as fast in other ways


def may_be_resident(table: pa.Table, keys: Sequence[SortKey], execution: ExecutionOptions) -> bool:
    """Whether the keys are numbers, the options leave the sort to GPUs, and these gather its rows faster."""
    names = table.column_names
    if not _LEAST_ROWS <= table.num_rows <= MOST_ROWS or len(set(names)) < len(names):
        return False
    if not all(key.column in names and is_number(table.schema.field(key.column).type) for key in keys):
        return False
    is_open = execution.strategy in ("auto", "radix") and execution.plan is None and execution.on_progress is None
    if not is_open or not gpus_may_sort(execution, bytes_of(table)):
        return False
    execution = for_rows(execution, table.num_rows)
    numbers = [column for column in table.columns if is_number(column.type)]
    return fit_there(numbers, execution) and gpus_gather_faster(numbers, table.num_rows, execution)


def resident_sort(table: pa.Table, keys: Sequence[SortKey], execution: ExecutionOptions) -> pa.Table | None:
    """The rows in order, the numbers gathered on the GPUs and then fetched; ``None`` if that takes too much memory.

    Columns that are no numbers are gathered as those of other sorts are.
    """
    execution = for_rows(execution, table.num_rows)
    gpus = GpuColumns(execution)
    try:
        return _sorted(table, keys, gpus)
    except OutOfMemoryError:  # other ways take less memory
        return None


def _sorted(table: pa.Table, keys: Sequence[SortKey], gpus: GpuColumns) -> pa.Table:
    numbers = [name for name in table.column_names if is_number(table.schema.field(name).type)]
    others = [name for name in table.column_names if name not in numbers]
    brought = {name: bring(table[name], gpus) for name in numbers}
    nulls = {name: column.nulls for name, column in brought.items() if column.nulls is not None}
    rows, first = sorted_rows(gpus, keys, lambda name: [brought[name].numbers], nulls.get)
    carried = [name for name in numbers if first is None or name != keys[0].column]
    taken = gpus.take_all([*(brought[name].numbers for name in carried), *nulls.values()], rows)
    on_gpus: list[Parts] = [*taken, *([] if first is None else [first]), *([rows] if others else [])]
    fetched = iter(gpus.fetch(on_gpus))
    found = {name: next(fetched) for name in carried}
    is_null = {name: next(fetched) for name in nulls}
    if first is not None:
        found[keys[0].column] = next(fetched)
    columns = {
        name: in_host_memory(found[name], is_null.get(name), None, table.schema.field(name).type) for name in numbers
    }
    if others:
        gathered = gather_columns([table[name] for name in others], next(fetched), gpus.execution)
        columns |= zip(others, gathered, strict=True)
    return pa.table([columns[name] for name in table.column_names], schema=table.schema)
