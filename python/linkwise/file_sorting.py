"""Sorting a file into another: in memory where it fits, by spilled runs where it does not."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import Literal

from linkwise._core import UsageError
from linkwise.files import Contents, Reader, Writer, check_format, open_reader
from linkwise.planning import Gpus, MachineLike, Progress, Request, parse_bytes
from linkwise.sort_report import SortReport
from linkwise.sorting import sort_values
from linkwise.spilling import SpillSort
from linkwise.tables import check_nulls

_ROOM = 3  # times its size: the input, the result, and what comes between


def _free_memory() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def sort_file(
    source: str | Path,
    out: str | Path,
    *,
    by: str | None = None,
    descending: bool = False,
    nulls: Literal["first", "last"] = "last",
    machine: MachineLike = "auto",
    gpus: Gpus = "auto",
    strategy: str = "auto",
    memory_limit: int | str | None = None,
    host_memory_limit: int | str | None = None,
    temporary_directory: str | Path | None = None,
    dtype: str | None = None,
    verify: bool = True,
    on_progress: Progress | None = None,
) -> SortReport:
    """Sort a file and write another; ``.parquet`` by a column, ``.npy`` and raw ``.bin`` (of ``dtype``) by value.

    What does not fit into ``host_memory_limit`` (bytes, or like ``"64GiB"``; all that is free unless given) is sorted
    in runs, which are spilled to ``temporary_directory`` (the system's unless given) and merged back as a stream. The
    output appears complete or not at all, and no run is left behind. Other parameters and errors: as ``linkwise.sort``.
    """
    source, out = Path(source), Path(out)
    check_format(source)
    check_format(out)
    if (source.suffix == ".parquet") != (out.suffix == ".parquet"):
        raise UsageError(f"{out}: {source.suffix} cannot become {out.suffix}; give both the same kind of contents")
    check_nulls(nulls)
    memory = parse_bytes(host_memory_limit) if host_memory_limit is not None else _free_memory()
    request = Request(machine, gpus, strategy, memory_limit, descending, verify)
    reports: list[SortReport] = []

    def sort(contents: Contents, progress: Progress | None = None) -> Contents:
        result, report = sort_values(contents, dataclasses.replace(request, on_progress=progress), by=by, nulls=nulls)
        assert report is not None
        reports.append(report)
        return result

    began = time.perf_counter()
    reader = open_reader(source, dtype)
    _check_key(reader, source, by)
    with Writer(out, reader.rows) as writer:
        if _ROOM * reader.rows * reader.row_bytes <= memory:
            writer.write(sort(reader.everything(), on_progress))
            return reports[0]
        directory = None if temporary_directory is None else Path(temporary_directory)
        spill = SpillSort(by, descending, nulls, sort, memory, directory, on_progress or (lambda _: None))
        runs = spill.run(reader, writer)
    return _in_runs(reports, reader, runs, time.perf_counter() - began)


def _check_key(reader: Reader, source: Path, by: str | None) -> None:
    if reader.is_table and by not in reader.columns:
        raise UsageError(f"there is no column {by!r} in {source}; there are {', '.join(map(repr, reader.columns))}")
    if by is not None and not reader.is_table:
        raise UsageError(f"{source} has no columns; leave by= out")


def _in_runs(reports: list[SortReport], reader: Reader, runs: int, wall_seconds: float) -> SortReport:
    """One report of many sorts: times add up, and the rest is the first's."""
    phases: dict[str, float] = {}
    for report in reports:
        for phase, seconds in report.phases.items():
            phases[phase] = phases.get(phase, 0.0) + seconds
    return dataclasses.replace(
        reports[0],
        rows=reader.rows,
        bytes=reader.rows * reader.row_bytes,
        plan=f"{reports[0].plan}; {runs} runs spilled and merged",
        seconds=sum(report.seconds for report in reports),
        phases=phases,
        wall_seconds=wall_seconds,
        timeline=[],
        predict=None,
    )


def columns_of(source: Path, dtype: str | None) -> list[str]:
    """The columns of a file; none for an array."""
    return open_reader(source, dtype).columns
