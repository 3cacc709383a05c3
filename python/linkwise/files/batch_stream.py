"""Sorted and joined rows as streams of Arrow batches."""

from __future__ import annotations

import atexit
import queue
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Unpack, cast

import pyarrow as pa

from linkwise._core import Cancelled, UsageError
from linkwise.columns.sort_keys import By, Descending, Nulls, Selection, listed
from linkwise.files.file_join import FileJoin, JoinRequest, open_sides
from linkwise.files.formats import FileOptions
from linkwise.files.locations import Source
from linkwise.files.reading.within_memory import memory_to_use
from linkwise.files.sort_file import keys_of_files, opened, sort_into
from linkwise.interop.containers import Contents
from linkwise.joining.matching import Columns, How, Order, Presorted, Validate
from linkwise.runtime.execution import ExecutionOptions, JoinExecution, SortExecution, takes_execution
from linkwise.runtime.join_plan import JoinPlan
from linkwise.runtime.parallel import InOrder
from linkwise.runtime.sort_plan import SortPlan

_AT_ONCE = 1 << 17  # rows of a batch
_WAITING = 4  # batches that are queued ahead of the consumer
_BEING_MADE = 1 << 30  # bytes that the cores gather ahead of the queue


@takes_execution(SortExecution)
def sort_batches(
    source: Source | Sequence[Source],
    *,
    by: By = None,
    descending: Descending = False,
    nulls: Nulls = "last",
    limit: int | None = None,
    unique: bool = False,
    host_memory_limit: int | str | None = None,
    temporary_directory: str | Path | None = None,
    column_types: Mapping[str, str] | None = None,
    header: bool = True,
    input_format: str | None = None,
    delimiter: str | None = None,
    null_string: str = "",
    columns: Sequence[str] | None = None,
    filter: Any | None = None,
    **execution: Unpack[SortExecution],
) -> pa.RecordBatchReader:
    """Sort tables as ``sort_file`` does, and return the rows as a stream of Arrow batches instead of writing a file.

    A background thread sorts, and blocks while its queue of batches is full. Its errors are raised by the reader.
    Dropping the reader ends the work, which PyArrow's ``close`` does not, and no run is left behind. Parameters and
    errors: as ``sort_file``.
    """
    options = FileOptions(
        column_types=dict(column_types or {}), header=header, input_format=input_format,
        columns=None if columns is None else listed(columns), filter=filter, delimiter=delimiter,
        null_string=null_string,
    )  # fmt: skip
    keys_of = partial(keys_of_files, by=by, descending=descending, nulls=nulls, unique=unique)
    _, reader, keys = opened(source, keys_of, options)
    if reader.schema is None:
        raise UsageError("batches are made of tables; sort_file sorts arrays")
    batches = BatchQueue()
    work = partial(
        sort_into, batches, reader, keys, ExecutionOptions.of(execution, SortPlan, None), Selection(unique, limit),
        memory_to_use(host_memory_limit), temporary_directory, check_room=True,
    )  # fmt: skip
    return pa.RecordBatchReader.from_batches(reader.schema, batches.filled_by(work))


@takes_execution(JoinExecution)
def join_batches(
    left: Source | Sequence[Source],
    right: Source | Sequence[Source],
    on: Columns = None,
    *,
    left_on: Columns = None,
    right_on: Columns = None,
    how: How = "inner",
    suffix: str = "_right",
    nulls_equal: bool = False,
    validate: Validate = "m:m",
    presorted: Presorted = False,
    order: Order = None,
    host_memory_limit: int | str | None = None,
    temporary_directory: str | Path | None = None,
    column_types: Mapping[str, str] | None = None,
    header: bool = True,
    input_format: str | None = None,
    delimiter: str | None = None,
    null_string: str = "",
    left_columns: Sequence[str] | None = None,
    right_columns: Sequence[str] | None = None,
    left_filter: Any | None = None,
    right_filter: Any | None = None,
    **execution: Unpack[JoinExecution],
) -> pa.RecordBatchReader:
    """Join tables as ``join_file`` does, and give the rows as a stream of Arrow batches; see ``sort_batches``.

    Parameters and errors: as ``join_file``.
    """
    asked = JoinRequest(
        left=left, right=right, on=on, left_on=left_on, right_on=right_on, how=how, suffix=suffix,
        nulls_equal=nulls_equal, validate=validate, presorted=presorted, order=order,
        host_memory_limit=host_memory_limit,
        temporary_directory=None if temporary_directory is None else Path(temporary_directory),
        sides=((left_columns, left_filter), (right_columns, right_filter)),
        options=FileOptions(
            column_types=dict(column_types or {}), header=header, input_format=input_format, delimiter=delimiter,
            null_string=null_string,
        ),
    )  # fmt: skip
    sides = open_sides(asked, only_count=False)
    join = FileJoin(asked, sides, ExecutionOptions.of(execution, JoinPlan, None))
    batches = BatchQueue()
    schema = join.schema()
    found = batches.filled_by(lambda: join.write(batches, lambda _: None))
    wide = _with_wide_indices(schema, sides.keys.merged if how in ("right", "full") else ())
    if wide == schema:
        return pa.RecordBatchReader.from_batches(schema, found)
    return pa.RecordBatchReader.from_batches(wide, (batch.cast(wide) for batch in found))


def _with_wide_indices(schema: pa.Schema, keys: Collection[str]) -> pa.Schema:
    """The schema with indices of 32 bits at least where keys of both sides share a dictionary."""

    def wide(field: pa.Field) -> pa.Field:
        kind = field.type
        if field.name not in keys or not pa.types.is_dictionary(kind) or kind.index_type.bit_width >= 32:
            return field
        return field.with_type(pa.dictionary(pa.int32(), kind.value_type, kind.ordered))

    return pa.schema([wide(field) for field in schema], schema.metadata)


_RUNNING: weakref.WeakKeyDictionary[threading.Thread, threading.Event] = weakref.WeakKeyDictionary()
_ENDS_WITHIN = 5.0  # seconds


@atexit.register
def _end_all() -> None:
    """End the threads of streams that nobody has read to their end: Python's end would abort in the midst of them."""
    for is_abandoned in _RUNNING.values():
        is_abandoned.set()
    for thread in list(_RUNNING):
        thread.join(_ENDS_WITHIN)


class BatchQueue:
    """A bounded queue of batches: a sort or join writes to it as to a file, and a consumer takes them out."""

    def __init__(self) -> None:
        self._batches: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(_WAITING)
        self._is_abandoned = threading.Event()
        self._made: InOrder[pa.Table] = InOrder(self._put_batches, _BEING_MADE)

    def filled_by(self, work: Callable[[], object]) -> Iterator[pa.RecordBatch]:
        """Run ``work`` in a thread, and yield the batches that it writes. Raises what ``work`` raises."""

        def run() -> None:
            try:
                work()
                self._put(None)
            except BaseException as error:
                self._made.cancel()
                with suppress(Cancelled):
                    self._put(error)

        thread = threading.Thread(target=run, name="linkwise", daemon=True)
        thread.start()
        _RUNNING[thread] = self._is_abandoned
        batch: pa.RecordBatch | BaseException | None = None
        try:
            while (batch := self._batches.get()) is not None:
                if isinstance(batch, BaseException):
                    raise batch
                yield batch
        finally:
            del batch  # an error would refer to itself, and keep what it came through
            self._is_abandoned.set()
            thread.join()

    def _put(self, batch: pa.RecordBatch | BaseException | None) -> None:
        while not self._is_abandoned.is_set():
            try:
                return self._batches.put(batch, timeout=0.1)
            except queue.Full:
                continue
        raise Cancelled("nobody wants the batches any more")

    def write(self, contents: Contents) -> None:
        """See ``TableWriter``."""
        self._made.finish()  # rows that were to come before these
        self._put_batches(cast(pa.Table, contents))

    def _put_batches(self, rows: pa.Table) -> None:
        for batch in rows.to_batches(_AT_ONCE):
            self._put(batch)

    def write_parts(
        self, rows: int, row_bytes: int, make: Callable[[int, int], pa.Table], *, of_many: bool = False
    ) -> None:
        """See ``TableWriter``. Returns while the last parts are still being made."""
        del of_many
        for at in range(0, rows, _AT_ONCE):
            count = min(_AT_ONCE, rows - at)
            self._made.submit(partial(make, at, count), count * row_bytes)

    def flush(self) -> None:
        """See ``TableWriter``. Batches stay queued until they are taken."""
        self._made.finish()
