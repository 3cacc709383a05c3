"""Joining files into a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pyarrow as pa

from linkwise._core import UsageError
from linkwise.file_formats import FileOptions, expand
from linkwise.file_readers import Reader, open_reader
from linkwise.file_writers import Writer
from linkwise.host_memory import host_memory
from linkwise.planning import Request
from linkwise.table_joining import Columns, How, TableJoin, check_how, count_matches, key_pairs

_ROOM = 3  # times a part: its row numbers, its rows, and what writing them takes
_MOST_ROWS = 1 << 24  # of a part: more of them at once are no faster


def _read(source: str | Path, options: FileOptions) -> tuple[Reader, pa.Table]:
    reader = open_reader(expand(source), options)
    if not reader.columns:
        raise UsageError(f"{source} has no columns; a join takes tables")
    return reader, cast(pa.Table, reader.everything())


def join_files(
    left: str | Path,
    right: str | Path,
    out: Path | None,
    request: Request,
    *,
    on: Columns,
    left_on: Columns,
    right_on: Columns,
    how: How,
    options: FileOptions,
    suffix: str = "_right",
    nulls_equal: bool = False,
    validate: str = "m:m",
    presorted: bool = False,
) -> int:
    """Join two files (or patterns of files) into one; returns the number of rows. Without ``out``, only counts them.

    Parameters and errors: as ``linkwise.join``.
    """
    check_how(how)
    reader, left_table = _read(left, options)
    _, right_table = _read(right, options)
    keys = key_pairs(left_table.column_names, right_table.column_names, on, left_on, right_on)
    if out is None:
        return count_matches(left_table, right_table, keys, request, how, nulls_equal=nulls_equal, presorted=presorted)
    rows = 0
    with Writer(out, options, like=reader) as writer:
        joined = TableJoin(
            left_table, right_table, keys, request, how, suffix=suffix, nulls_equal=nulls_equal, validate=validate,
            presorted=presorted,
        )  # fmt: skip
        for part in _parts(joined, how):
            writer.write(part)
            rows += part.num_rows
    return rows


def _parts(joined: TableJoin, how: How) -> Iterator[pa.Table]:
    """The result at once, or, where it would take most of the memory that is free, in row groups."""
    at_once = host_memory("MemAvailable") // _ROOM // joined.row_bytes
    if how in ("semi", "anti") or joined.count() <= at_once:
        yield joined.table()
    else:
        yield from joined.windows(max(min(at_once, _MOST_ROWS), 1))
