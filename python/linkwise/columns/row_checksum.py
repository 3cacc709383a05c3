"""An order-independent checksum of rows, to verify that a table has the same rows as another."""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from linkwise import _core
from linkwise._arrow import pa, pc
from linkwise.columns.take import plain_of_runs, take, without_view
from linkwise.runtime.parallel import in_order

_AT_ONCE = 1 << 18  # rows, whose hashes stay in the cores' caches
_BETWEEN_INTERRUPTS = 1 << 24  # rows, after which Ctrl-C is noticed
_SUMS = 1 << 64

Hashes = npt.NDArray[np.uint64]


class RowChecksum:
    """The sum of the hashes of all rows of some tables. Thread-safe."""

    def __init__(self, *tables: pa.Table) -> None:
        self._sum = 0
        self._rows = 0
        self._lock = threading.Lock()
        for table in tables:
            self.add_on_all_cores(table)

    def add_on_all_cores(self, table: pa.Table) -> None:
        """Add a table's rows, in parallel on all cores."""
        for first in range(0, table.num_rows, _BETWEEN_INTERRUPTS):
            part = table.slice(first, _BETWEEN_INTERRUPTS)
            total = _sum_by_core(part)
            if total is None:
                slices = (part.slice(at, _AT_ONCE) for at in range(0, part.num_rows, _AT_ONCE))
                deque(in_order(partial(self.add, each) for each in slices), maxlen=0)
            else:
                self.add_value((total, part.num_rows))

    def add(self, table: pa.Table) -> pa.Table:
        """Add a table's rows on the calling thread; returns the table."""
        total = _sum_by_core(table) if table.num_rows else 0
        if total is None:
            total = sum(_sum_of_hashes(table.slice(first, _AT_ONCE)) for first in range(0, table.num_rows, _AT_ONCE))
        self.add_value((total, table.num_rows))
        return table

    @property
    def value(self) -> tuple[int, int]:
        """The sum modulo 2⁶⁴, and the number of rows."""
        return self._sum, self._rows

    def add_value(self, value: tuple[int, int]) -> None:
        """Add the value of another checksum, of rows held elsewhere."""
        with self._lock:
            self._sum = (self._sum + value[0]) % _SUMS
            self._rows += value[1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowChecksum) and (self._sum, self._rows) == (other._sum, other._rows)

    __hash__ = None  # type: ignore[assignment]


def check_same_rows(before: RowChecksum, after: RowChecksum) -> None:
    """Raise ``CorruptDataError`` if rows were lost, changed or made up."""
    if before != after:
        raise _core.CorruptDataError(
            "the rows of the result are not those of the input, which memory, a disk or the input that changed may be "
            "the cause of"
        )


def _sum_by_core(table: pa.Table) -> int | None:
    """The sum of the rows' hashes; ``None`` if the core does not support the type of a column.

    Uses all cores, unless this thread works alone. Handing over the columns takes the interpreter's lock, so that one
    call for many rows is faster than many calls on many threads.
    """
    columns = [column for column in table.columns if not pa.types.is_null(column.type)]
    return _core.Columns([[chunk for chunk in each.chunks if len(chunk)] for each in columns]).sum_of_hashes()


def row_hashes(table: pa.Table) -> Hashes:
    """The hash of each row."""
    hashes = np.zeros(table.num_rows, np.uint64)
    for column in table.columns:
        _mix(column, hashes)
    return hashes


def _sum_of_hashes(table: pa.Table) -> int:
    return int(row_hashes(table).sum(dtype=np.uint64))


def _mix(column: pa.ChunkedArray, hashes: Hashes) -> None:
    """Mix a column's values into the hashes of their rows."""
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if pa.types.is_null(column.type) or not chunks or _core.hash_rows(chunks, hashes):
        return
    done = 0
    for chunk in chunks:
        part = hashes[done : done + len(chunk)]
        for plain in _plain(chunk):
            _mix(pa.chunked_array([plain]), part)
        done += len(chunk)


def _hashes_of(values: pa.Array) -> Hashes:
    hashes = np.zeros(len(values), np.uint64)
    _mix(pa.chunked_array([values]), hashes)
    return hashes


def _plain(values: Any) -> list[pa.Array]:  # noqa: PLR0911 - one for each kind of type
    """Arrays of types that the core supports, which differ where these values differ."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return [values.storage]
    if pa.types.is_dictionary(kind):
        of_values = pa.array(_hashes_of(values.dictionary), mask=~np.asarray(values.dictionary.is_valid()))
        return [of_values.take(values.indices)]
    if pa.types.is_run_end_encoded(kind):
        return [plain_of_runs(values)]
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return [values.cast(without_view(kind))]
    if pa.types.is_struct(kind):
        return [values.is_valid(), *(_field(values, at) for at in range(kind.num_fields))]
    if pa.types.is_union(kind):
        return [_hashes_of_union(values)]
    return [_list_of_hashes(values)]


def _field(values: pa.StructArray, at: int) -> pa.Array:
    """A field of structs; what it has beneath a null struct does not matter."""
    if not pa.types.is_union(values.type.field(at).type):
        return pc.struct_field(values, [at])
    return pa.array(_hashes_of(values.field(at)), mask=~np.asarray(values.is_valid()))  # unions have no nulls


def _hashes_of_union(values: pa.UnionArray) -> pa.Array:
    """Hashes of which child each row has, and of its value."""
    kind = values.type
    # For a slice, PyArrow's type_codes and offsets are those of the whole array.
    _, of_codes, *of_places = values.buffers()
    here = slice(values.offset, values.offset + len(values))
    codes = np.frombuffer(of_codes, np.int8)[here]
    places = np.frombuffer(of_places[0], np.int32)[here] if kind.mode == "dense" else np.arange(len(values))
    hashes = np.zeros((2, len(values)), np.uint64)
    hashes[0] = codes
    for number, code in enumerate(kind.type_codes):
        of_child = codes == code
        if of_child.any():
            hashes[1][of_child] = _hashes_of(values.field(number))[places[of_child]]
    _mix(pa.chunked_array([pa.array(hashes[1])]), hashes[0])
    return pa.array(hashes[0])


def _list_of_hashes(values: Any) -> pa.Array:
    """Lists as byte strings of their elements' hashes; elements beneath a null list do not matter."""
    kind = values.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        offsets = np.asarray(values.offsets).astype(np.int64)
        elements = [values.keys, values.items] if pa.types.is_map(kind) else [values.values]
        elements = [each.slice(offsets[0], offsets[-1] - offsets[0]) for each in elements]
    else:
        lengths = np.asarray(pc.list_value_length(values).cast(pa.int64()).fill_null(0))
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        if pa.types.is_fixed_size_list(kind):
            begins = (values.offset + np.arange(len(values))) * kind.list_size
        else:
            begins = np.asarray(values.offsets).astype(np.int64)[: len(values)]
        elements = [take(values.values, np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], lengths))]
    hashes = np.zeros(len(elements[0]), np.uint64)
    for each in elements:
        _mix(pa.chunked_array([each]), hashes)
    buffers = [values.is_valid().buffers()[1], pa.py_buffer((offsets - offsets[0]) * 8), pa.py_buffer(hashes)]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)
