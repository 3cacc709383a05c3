"""Joins of tables in host memory by numbers or text that fit on the GPUs; numbers that are carried go there as well."""

from __future__ import annotations

from linkwise._arrow import pa
from linkwise._core import OutOfMemoryError
from linkwise.columns.gather import gpus_gather_faster
from linkwise.columns.key_types import is_number, is_text
from linkwise.joining.device.gpu_table import GpuTable
from linkwise.joining.host_join import KEY_BYTES, leaves_to_gpus
from linkwise.joining.joined_rows import JoinedRows, KeyPairs
from linkwise.joining.matching import How, Order
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.gpu_start import cores_join_first
from linkwise.sorting.device.brought import is_long_text
from linkwise.sorting.device.device_columns import MOST_ROWS, fit_there, for_rows

_LEAST_ROWS = 1 << 20  # of both sides; fewer are found and gathered as fast in other ways


def resident_join(
    left: pa.Table, right: pa.Table, keys: KeyPairs, how: How, order: Order, suffix: str, execution: ExecutionOptions
) -> pa.Table | None:
    """The join, its numbers gathered on the GPUs and then fetched; ``None`` if that does not apply.

    Columns that are no numbers are gathered as other joins' are. Null keys match nothing. Rows of semi and anti joins
    keep the left table's order.
    """
    rows = left.num_rows + right.num_rows
    is_open = execution.strategy == "auto" and execution.plan is None
    if not _LEAST_ROWS <= rows <= MOST_ROWS or not is_open or not _are_comparable_there(left, right, keys):
        return None
    if cores_join_first(execution, KEY_BYTES * rows) or not leaves_to_gpus(execution, left.num_rows, right.num_rows):
        return None
    execution = for_rows(execution, rows)
    longer = max(left, right, key=lambda side: side.num_rows)
    lefts, rights = ([pair[side] for pair in keys.pairs] for side in (0, 1))
    going = [*_going_there(left, lefts), *_going_there(right, rights)]
    if any(map(is_long_text, going)):
        return None
    by_text = any(is_text(column.type) for column in going)  # which the cores take longer to compare than to copy
    is_faster = by_text or gpus_gather_faster(_numbers(longer), longer.num_rows, execution)
    if not is_faster or not fit_there(going, execution):
        return None
    schema = JoinedRows(left.schema, right.schema, keys, how, suffix, execution).schema(left, right)
    where = {name: getattr(execution, name) for name in ("machine", "gpus", "memory_limit", "verify")}
    try:
        tables = GpuTable(left, **where), GpuTable(right, **where)
        joined = tables[0].join(
            tables[1], lefts if keys.are_one else None, left_on=None if keys.are_one else lefts,
            right_on=None if keys.are_one else rights, how=how, suffix=suffix,
            order="left" if how in ("semi", "anti") else order,
        )  # fmt: skip
        return pa.table(joined.to_arrow().columns, schema=schema)
    except OutOfMemoryError:  # other ways take less memory
        return None


def _are_comparable_there(left: pa.Table, right: pa.Table, keys: KeyPairs) -> bool:
    """Whether the keys are numbers, times or text, which the GPUs compare without ranks found by the host."""
    if any(keys.inside) or any(len(set(side.column_names)) < side.num_columns for side in (left, right)):
        return False
    types = [(left.schema.field(one).type, right.schema.field(other).type) for one, other in keys.pairs]
    return all(one == other and (is_number(one) or is_text(one)) for one, other in types)


def _numbers(table: pa.Table) -> list[pa.ChunkedArray]:
    return [column for column in table.columns if is_number(column.type)]


def _going_there(table: pa.Table, keys: list[str]) -> list[pa.ChunkedArray]:
    """The columns that are copied to the GPUs: numbers, and the keys."""
    names = [name for name in table.column_names if name in keys or is_number(table.schema.field(name).type)]
    return [table[name] for name in names]
