"""Joining files into a file: in memory where they fit, by spilled runs where they do not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa

from linkwise._core import UsageError
from linkwise._log import log
from linkwise.columns.sort_keys import listed
from linkwise.encoders.parquet_options import Dictionary, ParquetOptions
from linkwise.files.file_join import FileJoin, JoinRequest, open_sides
from linkwise.files.formats import FileOptions
from linkwise.files.listing import check_output, expand
from linkwise.files.locations import RemoteFile, Source, TableSource, is_pipe, target_of
from linkwise.files.reading.reader import unchanged
from linkwise.files.writing.directory_writer import writer_of
from linkwise.files.writing.free_space import check_room_for_output
from linkwise.files.writing.writer import SeenWriter
from linkwise.joining.join_check import JoinCheck, parts_for
from linkwise.joining.matching import Columns, How, Order, Presorted, Validate
from linkwise.joining.pair_sums import PairSum, check_pairs
from linkwise.joining.report import JoinReport
from linkwise.runtime.execution import ExecutionOptions, JoinExecution, Progress, takes_execution
from linkwise.runtime.join_plan import JoinPlan

_LEAST_ROW = 8  # bytes, to estimate the number of rows where it is unknown
_PARTS = 8  # a batch of the second read takes memory / _PARTS


@takes_execution(JoinExecution)
def join_file(
    left: Source | Sequence[Source],
    right: Source | Sequence[Source],
    out: str | Path | None,
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
    output_format: str | None = None,
    delimiter: str | None = None,
    null_string: str = "",
    left_columns: Sequence[str] | None = None,
    right_columns: Sequence[str] | None = None,
    left_filter: Any | None = None,
    right_filter: Any | None = None,
    compression: str | None = None,
    row_group_rows: int | None = None,
    dictionary: Dictionary = "auto",
    delta: bool = True,
    page_index: bool = False,
    partition_by: str | Sequence[str] = (),
    file_rows: int | None = None,
    force: bool = False,
    on_progress: Progress | None = None,
    **execution: Unpack[JoinExecution],
) -> JoinReport:
    """Join two files, or several as one on either side, and write one; without ``out``, only count the rows.

    A side that fits into host memory becomes a hash table; the other side is streamed and probes it, and the result
    is written as it is produced. What does not fit is spilled. Counts read only keys; semi and anti joins read only
    keys of the right side. The output appears complete or not at all. Parameters that are not listed here, and
    errors: as ``linkwise.join`` and ``linkwise.sort_file``.

    Parameters
    ----------
    left, right, out
        File names, whose endings set the formats, patterns like ``part-*.parquet``, directories, URIs, or objects, as
        for ``sort_file``.
    left_columns, right_columns
        The columns of a side that are read and returned; they must include the keys.
    left_filter, right_filter
        A filter on the rows of a side, like ``filter`` of ``sort_file``.
    on_progress
        Called with the fraction of the rows that have been joined, from 0 to 1.
    **execution
        Where and how it runs: see ``linkwise.options``.

    """
    parquet = ParquetOptions(compression, row_group_rows, dictionary, delta, page_index)
    asked = JoinRequest(
        left=left, right=right, on=on, left_on=left_on, right_on=right_on, how=how, suffix=suffix,
        nulls_equal=nulls_equal, validate=validate, presorted=presorted, order=order,
        host_memory_limit=host_memory_limit,
        temporary_directory=None if temporary_directory is None else Path(temporary_directory),
        sides=((left_columns, left_filter), (right_columns, right_filter)), force=force,
        options=FileOptions(
            None, dict(column_types or {}), header, input_format, output_format, None, None, delimiter, null_string,
            tuple(listed(partition_by)), file_rows, parquet,
        ),
    )  # fmt: skip
    target = None if out is None else target_of(out)
    return join_files(asked, target, ExecutionOptions.of(execution, JoinPlan, on_progress))


def _check_can_be_read_twice(asked: JoinRequest) -> None:
    for location in (each for side in (asked.left, asked.right) for each in expand(side)):
        if is_pipe(location) or (isinstance(location, TableSource) and not isinstance(location.source, pa.Table)):
            raise UsageError(
                f"verify='all' reads both sides twice, and {location} may be read once; write it to a file"
            )


def _check_of(asked: JoinRequest, join: FileJoin, *, only_count: bool) -> JoinCheck:
    """A check that reads both sides a second time, with its own readers."""
    again = open_sides(asked, only_count=only_count)
    rows = sum(reader.rows or (reader.size or 0) // _LEAST_ROW for reader in again.readers)
    schemas = [reader.schema for reader in again.readers]

    def side(at: int) -> Callable[[], Iterable[Any]]:
        def batches() -> Iterable[Any]:
            return open_sides(asked, only_count=only_count).readers[at].batches(join.memory // _PARTS)

        return batches

    return JoinCheck(
        side(0), side(1), (schemas[0], schemas[1], join.schema()), again.keys, asked.how,
        nulls_equal=asked.nulls_equal, parts=parts_for(rows, join.memory),
    )  # fmt: skip


def join_files(asked: JoinRequest, out: Path | RemoteFile | None, execution: ExecutionOptions) -> JoinReport:
    """Join files into one, or only count the rows; see ``join_file``."""
    began = time.perf_counter()
    if execution.verify_all:
        _check_can_be_read_twice(asked)
    sides = open_sides(asked, only_count=out is None)
    if out is not None:
        for source, files in zip((asked.left, asked.right), sides.files, strict=True):
            check_output(out, source, files, asked.options)
    join = FileJoin(asked, sides, execution)
    check = _check_of(asked, join, only_count=out is None) if execution.verify_all else None
    if out is None:
        rows = join.count()
        if check is not None:
            with unchanged(join.readers):
                wanted = check.expected()
                check_pairs(wanted, PairSum(rows, wanted.total))
    else:
        with writer_of(
            out, asked.options, like=join.readers[0], memory=join.memory, force=asked.force,
            verify_all=execution.verify_all,
        ) as writer:  # fmt: skip
            check_room = partial(check_room_for_output, out, writer.format)
            seen = writer if check is None else SeenWriter(writer, check.see)
            rows = join.write(seen, (lambda _: None) if asked.force else check_room)
            if check is not None:
                writer.flush()
                with unchanged(join.readers):
                    check.check()
    join.steps.begin("")
    wall = time.perf_counter() - began
    report = JoinReport(rows, asked.how, join.told, wall, join.steps.seconds, join.reasons(), join.steps.spans)
    log.info("%s: %s", report.shown_line(), report.strategy)
    return report
