"""``linkwise sort``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from linkwise._core import UsageError
from linkwise.cli import options
from linkwise.cli.errors import fail
from linkwise.cli.progress import is_terminal, progress_bar
from linkwise.columns.sort_keys import Selection, SortKey, sort_keys_from_text
from linkwise.encoders.parquet_options import ParquetOptions
from linkwise.files.formats import FileOptions
from linkwise.files.locations import PIPE, Location
from linkwise.files.reading.reader import Reader
from linkwise.files.sort_file import first_out_of_order_in, keys_of_files, names_inside_of, sort_paths
from linkwise.machines.local import is_nominal
from linkwise.reports.plots import check_picture, phase_picture
from linkwise.reports.summary import summary, where_it_ran
from linkwise.reports.trace import check_trace, write_trace
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.session import ADVICE_TO_PROBE
from linkwise.runtime.sort_plan import SortPlan
from linkwise.sorting.report import SortReport


def sort(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="IN...",
            help="Files, patterns, directories: parquet, arrow, csv, tsv, jsonl, npy, bin; - for stdin.",
        ),
    ],
    out: options.Output = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            "-k",
            metavar="COL[:desc][:nulls-first]",
            help="A column, or its number from 1; repeatable, or COL,COL.",
        ),
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", "-r", help="Reverse the direction of all columns.")] = False,
    nulls: Annotated[Literal["first", "last"], typer.Option(help="Where null keys go.")] = "last",
    unique: Annotated[bool, typer.Option("--unique", "-u", help="Only the first row of each key.")] = False,
    limit: Annotated[int | None, typer.Option(metavar="K", min=0, help="Only the first K rows.")] = None,
    check: Annotated[
        bool, typer.Option("--check", "-c", help="Only say whether it is in order; exit 1 if it is not.")
    ] = False,
    machine: options.Machine = "auto",
    gpus: options.Gpus = "auto",
    strategy: options.Strategy = "auto",
    verify: options.Verify = "yes",
    memory_limit: options.MemoryLimit = None,
    plan: options.Plan = None,
    host_memory: options.HostMemory = None,
    temporary: options.TemporaryDirectory = None,
    dtype: Annotated[str | None, typer.Option(help="The type of the numbers in a .bin file, as uint32.")] = None,
    types: options.Types = None,
    header: options.Header = True,
    input_format: options.InputFormat = None,
    output_format: options.OutputFormat = None,
    delimiter: options.Delimiter = None,
    null_string: options.NullString = "",
    columns: options.Columns = None,
    filter: options.Filter = None,
    compression: options.Compression = None,
    row_group_rows: options.RowGroupRows = None,
    dictionary: options.DictionaryColumns = "auto",
    delta: options.Delta = True,
    page_index: options.PageIndex = False,
    partition_by: options.PartitionBy = None,
    file_rows: options.FileRows = None,
    force: options.Force = False,
    cluster: options.Cluster = None,
    resume: options.Resume = False,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a Chrome/Perfetto trace.")] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the phases, as .svg, .png or .pdf.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what the plan expected beside what it took.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object about the sort.")] = False,
) -> None:
    """Sort files by columns, and write the result to another file."""
    if out is None and not check:
        raise UsageError("name the file to write with -o, or --check whether it is in order")
    if check and out is not None:
        raise UsageError("--check writes nothing; leave -o out")
    if picture is not None:
        check_picture(picture)
    if trace is not None:
        check_trace(trace)
    options.check_beside("--trace", trace, [*source, out])
    options.check_beside("--picture", picture, [*source, out])
    parquet = ParquetOptions(compression, row_group_rows, dictionary, delta, page_index)
    kept = None if columns is None else [name for text in columns for name in text.split(",")]
    file_options = FileOptions(
        dtype, options.parse_types(types), header, input_format, output_format, kept, filter, delimiter, null_string,
        tuple(options.parse_columns(partition_by) or ()), file_rows, parquet,
    )  # fmt: skip

    def keys_of(reader: Reader, paths: Sequence[Location]) -> list[SortKey]:
        if unique and not by:
            keys = keys_of_files(reader, paths, None, False, nulls, unique=True)
        else:
            keys = sort_keys_from_text(by or [], reader.columns, nulls, inside=names_inside_of(reader))
        return [key.reversed() for key in keys] if reverse else keys

    if cluster is not None:
        from linkwise.cli.cluster import refuse, sort_on_cluster  # noqa: PLC0415 - not needed on one machine
        from linkwise.cluster.runs import RunOptions  # noqa: PLC0415

        refuse(
            check=check, dtype=dtype, output_format=output_format, partition_by=partition_by, file_rows=file_rows,
            trace=trace, picture=picture, explain=explain, plan=plan, memory_limit=memory_limit,
            machine=machine != "auto", verify=verify != "yes", gpus=gpus != "auto",
        )  # fmt: skip
        run = RunOptions.of(out, temporary, force=force, resume=resume, strategy=strategy)
        sort_on_cluster(
            source, by or [], nulls, Selection(unique, limit), replace(file_options, output_format="parquet"), run,
            cluster, host_memory, reverse=reverse, as_json=as_json,
        )  # fmt: skip
        return
    if resume:
        raise UsageError("--resume goes on with a run of a cluster: name it with --cluster")
    if out is None:
        found = first_out_of_order_in(source, keys_of, file_options, unique=unique)
        if found is not None:
            paths, row = found
            fail(f"{', '.join(map(str, paths))}: row {row}, counted from 0, is out of order", 1)
        return
    with progress_bar() as step:
        advance = step(f"sort {Path(source[0]).name}")
        execution = ExecutionOptions(
            machine=machine, gpus=options.parse_gpus(gpus), strategy=strategy, memory_limit=memory_limit,
            verify=options.VERIFY[verify],
            plan=None if plan is None else SortPlan.parse(plan), on_progress=advance,
        )  # fmt: skip
        report = sort_paths(
            source, out, keys_of, execution, Selection(unique, limit), file_options, host_memory, temporary,
            force=force,
        )  # fmt: skip
        advance(1.0)
    if trace is not None:
        write_trace(trace, report)
    if picture is not None:
        phase_picture({report.strategy: report.phases}, picture, title=f"{report.told_plan()}; {where_it_ran(report)}")
    _tell(report, explain=explain, as_json=as_json, to_stderr=out == PIPE)


def _tell(report: SortReport, *, explain: bool, as_json: bool, to_stderr: bool) -> None:
    if as_json:
        told = report.as_dict() | ({"predicted": report.predicted_phases()} if explain else {})
        typer.echo(json.dumps(told), err=to_stderr)
        return
    if explain or is_terminal(sys.stderr if to_stderr else sys.stdout):
        from linkwise.reports.console import console  # noqa: PLC0415
        from linkwise.reports.terminal import print_explanation, print_report  # noqa: PLC0415

        (print_explanation if explain else print_report)(console(to_stderr=to_stderr), report)
    else:
        typer.echo(summary(report), err=to_stderr)
    if not report.simulated and report.gpus and is_nominal():
        typer.echo(ADVICE_TO_PROBE, err=True)
