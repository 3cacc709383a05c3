"""``take`` for Arrow arrays of any type, including nested types for which PyArrow has none."""

from __future__ import annotations

import numpy as np

from linkwise._arrow import pa, pc
from linkwise._typing import Rows
from linkwise.columns.key_types import arrow_of_numbers


def take(values: pa.Array, rows: Rows) -> pa.Array:
    """Rows of an array of any type. A negative row number gives a null."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, take(values.storage, rows))
    if _is_view(kind):
        return _take_views(values, rows)
    if pa.types.is_run_end_encoded(kind):
        return _take_runs(values, rows)
    if not _is_strange(kind):
        return pc.take(values, _indices(rows))
    if pa.types.is_struct(kind):
        children = [take(values.field(i), rows) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=_nulls(values, rows))
    return _take_of_union(values, rows) if pa.types.is_union(kind) else _take_lists(values, rows)


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def types_inside(kind: pa.DataType) -> list[pa.DataType]:
    """The types of the fields of a nested type."""
    return [kind.field(i).type for i in range(kind.num_fields)]


def _is_strange(kind: pa.DataType) -> bool:
    """Whether PyArrow has no ``take`` for a type, or for a type nested in it."""
    if isinstance(kind, pa.BaseExtensionType) or _is_view(kind) or pa.types.is_run_end_encoded(kind):
        return True
    if pa.types.is_fixed_size_list(kind) and pa.types.is_fixed_size_list(kind.value_type):
        return True  # of a slice, PyArrow takes other elements
    return pa.types.is_nested(kind) and any(map(_is_strange, types_inside(kind)))


def _indices(rows: Rows) -> pa.Array:
    """Row numbers for PyArrow; a negative one is a null."""
    return pa.array(rows, mask=rows < 0) if rows.dtype.kind == "i" and (rows < 0).any() else arrow_of_numbers(rows)


def _nulls(values: pa.Array, rows: Rows) -> pa.Array:
    """Which of the rows that are taken are null."""
    return pc.fill_null(pc.take(values.is_null(), _indices(rows)), True)


def _physical(values: pa.RunEndEncodedArray) -> Rows:
    """For each row, the index of its run's value."""
    ends = np.asarray(values.run_ends)
    return np.searchsorted(ends, np.arange(values.offset, values.offset + len(values)), "right")


def plain_of_runs(values: pa.RunEndEncodedArray) -> pa.Array:
    """The values of all rows."""
    return take(values.values, _physical(values))


def _take_runs(values: pa.RunEndEncodedArray, rows: Rows) -> pa.Array:
    physical = np.append(_physical(values), -1)[rows] if len(rows) else np.empty(0, np.int64)
    last = np.ones(len(physical), bool)  # whether it is the last row of a run
    last[:-1] = physical[1:] != physical[:-1]
    ends = pa.array(1 + np.flatnonzero(last)).cast(values.type.run_end_type)
    return pa.RunEndEncodedArray.from_arrays(ends, take(values.values, physical[last]), values.type)


def _take_lists(values: pa.Array, rows: Rows) -> pa.Array:
    kind, rows = values.type, rows.astype(np.int64)
    mask = _nulls(values, rows)
    is_there = ~np.asarray(mask)
    if pa.types.is_fixed_size_list(kind):
        first = (values.offset + rows[:, None]) * kind.list_size + np.arange(kind.list_size)
        child = take(values.values, np.where(is_there[:, None], first, -1).ravel())
        validity = pa.array(is_there).buffers()[1]  # PyArrow's from_arrays divides by the size, which may be 0
        return pa.Array.from_buffers(kind, len(rows), [validity], children=[child])
    is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    begins = np.asarray(values.offsets).astype(np.int64)
    sizes = np.asarray(values.sizes).astype(np.int64) if is_view else np.diff(begins)
    where = np.where(is_there, rows, 0) if len(values) else np.zeros(len(rows), np.int64)
    lengths = np.where(is_there, sizes[where] if len(values) else 0, 0)
    ends = np.cumsum(lengths)
    # The source index of each element that is taken.
    shift = (begins[where] if len(values) else 0) - (ends - lengths)
    elements = np.arange(ends[-1] if len(ends) else 0) + np.repeat(shift, lengths)
    wide = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
    offsets = np.concatenate([[0], ends]).astype(np.int64 if wide else np.int32)
    if pa.types.is_map(kind):
        keys, items = take(values.keys, elements), take(values.items, elements)
        return pa.MapArray.from_arrays(pa.array(offsets), keys, items, type=kind, mask=mask)
    child = take(values.values, elements)
    if is_view:
        return type(values).from_arrays(
            pa.array(offsets[:-1]), pa.array(lengths.astype(offsets.dtype)), child, type=kind, mask=mask
        )
    return type(values).from_arrays(pa.array(offsets), child, type=kind, mask=mask)


def _take_of_union(values: pa.UnionArray, rows: Rows) -> pa.Array:
    kind = values.type
    names = [kind.field(i).name for i in range(kind.num_fields)]
    at = np.where(rows < 0, -1, rows.astype(np.int64))  # -1: the entry for nulls, appended below
    # For a slice, PyArrow's type_codes and offsets are those of the whole array.
    _, of_codes, *of_places = values.buffers()
    all_codes = np.frombuffer(of_codes, np.int8)[values.offset : values.offset + len(values)]
    codes = np.append(all_codes, np.int8(kind.type_codes[0]))[at]
    if kind.mode == "sparse":
        children = [take(values.field(i), rows) for i in range(kind.num_fields)]
        return pa.UnionArray.from_sparse(pa.array(codes, pa.int8()), children, names, kind.type_codes)
    all_places = np.frombuffer(of_places[0], np.int32)[values.offset : values.offset + len(values)]
    places = np.append(all_places, np.int32(-1))[at]
    children, offsets = [], np.empty(len(rows), np.int32)
    for number, code in enumerate(kind.type_codes):
        of_child = codes == code
        children.append(take(values.field(number), places[of_child]))
        offsets[of_child] = np.arange(of_child.sum())
    return pa.UnionArray.from_dense(pa.array(codes, pa.int8()), pa.array(offsets), children, names, kind.type_codes)


def _take_views(values: pa.Array, rows: Rows) -> pa.Array:
    """String and binary views: only their 16-byte views are gathered; the data buffers are shared."""
    validity, views, *elsewhere = values.buffers()
    as_bytes = pa.Array.from_buffers(pa.binary(16), len(values), [validity, views], offset=values.offset)
    taken = pc.take(as_bytes, _indices(rows))
    return compact_views(pa.Array.from_buffers(values.type, len(taken), [*taken.buffers(), *elsewhere]))


def compact_views(values: pa.Array) -> pa.Array:
    """The same array; views are copied if most bytes of their data buffers are unreferenced."""
    kind = values.type
    if not len(values) or not _is_view(kind):
        return values
    _, views, *elsewhere = values.buffers()
    held = sum(buffer.size for buffer in elsewhere if buffer is not None)
    lengths = np.frombuffer(views, np.int32)[4 * values.offset : 4 * (values.offset + len(values)) : 4]
    shown = int(lengths.sum(dtype=np.int64))
    return values.cast(without_view(kind)).cast(kind) if held > 2 * shown + 4096 else values


def without_view(kind: pa.DataType) -> pa.DataType:
    """The plain type for a view type, with contiguous bytes."""
    return pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary()
