"""Joining files into a file."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pyarrow as pa

from linkwise._core import UsageError
from linkwise.file_formats import FileOptions, expand
from linkwise.file_readers import Reader, open_reader
from linkwise.file_writers import Writer
from linkwise.planning import Request
from linkwise.table_joining import Columns, How, check_how, count_matches, join_tables, key_pairs


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
    with Writer(out, options, like=reader) as writer:
        result = join_tables(
            left_table, right_table, keys, request, how, suffix=suffix, nulls_equal=nulls_equal, validate=validate,
            presorted=presorted,
        )  # fmt: skip
        writer.write(result)
    return int(result.num_rows)
