"""``linkwise join``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from linkwise._core import UsageError
from linkwise.cli import options
from linkwise.cli.progress import progress_bar
from linkwise.encoders.parquet_options import ParquetOptions
from linkwise.files.file_join import JoinRequest
from linkwise.files.formats import FileOptions
from linkwise.files.join_files import join_files
from linkwise.files.locations import PIPE
from linkwise.reports.summary import join_summary
from linkwise.reports.trace import check_trace, write_join_trace
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.join_plan import JoinPlan


def _columns_of(side: str) -> Any:
    told = f"Columns of {side} whose values must be equal; a name with a comma in quotes. Repeatable."
    return typer.Option(metavar="COL[,COL]", help=told)


def _named(texts: list[str] | None) -> list[str] | None:
    return None if texts is None else [name for text in texts for name in options.parse_columns(text) or ()]


def join(
    left: Annotated[str, typer.Argument(metavar="L", help="A table, a pattern of files or a directory; - for stdin.")],
    right: Annotated[str, typer.Argument(metavar="R", help="Likewise.")],
    out: options.Output = None,
    on: Annotated[list[str] | None, _columns_of("both sides")] = None,
    left_on: Annotated[list[str] | None, _columns_of("L")] = None,
    right_on: Annotated[list[str] | None, _columns_of("R")] = None,
    how: Annotated[
        Literal["inner", "left", "right", "full", "semi", "anti"], typer.Option(help="Which rows are kept.")
    ] = "inner",
    count: Annotated[bool, typer.Option("--count", help="Only print how many rows the join has.")] = False,
    suffix: Annotated[str, typer.Option(help="Appended to columns of R whose names L has, too.")] = "_right",
    nulls_equal: Annotated[bool, typer.Option("--nulls-equal", help="Nulls match each other.")] = False,
    validate: Annotated[
        Literal["1:1", "1:m", "m:1", "m:m"], typer.Option(help="Fail if a key occurs twice where it must not.")
    ] = "m:m",
    presorted: Annotated[
        Literal["neither", "left", "right", "both"],
        typer.Option(help="Sides that are sorted by their keys already; this is checked."),
    ] = "neither",
    order: Annotated[
        Literal["none", "key", "left"],
        typer.Option(help="Order of the rows: any, by key, or that of L."),
    ] = "none",
    machine: options.Machine = "auto",
    gpus: options.Gpus = "auto",
    strategy: options.Strategy = "auto",
    verify: options.Verify = "yes",
    memory_limit: options.MemoryLimit = None,
    plan: options.Plan = None,
    host_memory: options.HostMemory = None,
    temporary: options.TemporaryDirectory = None,
    types: options.Types = None,
    header: options.Header = True,
    input_format: options.InputFormat = None,
    output_format: options.OutputFormat = None,
    delimiter: options.Delimiter = None,
    null_string: options.NullString = "",
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
    left_columns: Annotated[str | None, typer.Option(metavar="COL[,COL]", help="Only these columns of L.")] = None,
    right_columns: Annotated[str | None, typer.Option(metavar="COL[,COL]", help="Only these columns of R.")] = None,
    left_filter: Annotated[
        str | None, typer.Option(metavar="ROWS", help="Only such rows of L, as 'price > 3'.")
    ] = None,
    right_filter: Annotated[str | None, typer.Option(metavar="ROWS", help="Only such rows of R.")] = None,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a Chrome/Perfetto trace.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what decided how it was joined, and what that took.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object about the join.")] = False,
) -> None:
    """Join two files, or sets of files, by equal keys, and write the result to another."""
    if (out is None) == (not count):
        raise UsageError("name the file to write with -o, or --count the rows")
    if trace is not None:
        check_trace(trace)
    options.check_beside("--trace", trace, [left, right, out])
    parquet = ParquetOptions(compression, row_group_rows, dictionary, delta, page_index)
    kept = (options.parse_columns(left_columns), left_filter), (options.parse_columns(right_columns), right_filter)
    asked = JoinRequest(
        left=left, right=right, on=_named(on), left_on=_named(left_on),
        right_on=_named(right_on), how=how,
        options=FileOptions(
            None, options.parse_types(types), header, input_format, output_format, None, None, delimiter,
            null_string, tuple(options.parse_columns(partition_by) or ()), file_rows, parquet,
        ),
        suffix=suffix, nulls_equal=nulls_equal, validate=validate, presorted=presorted,
        order=None if order == "none" else order, host_memory_limit=host_memory, temporary_directory=temporary,
        sides=kept, force=force,
    )  # fmt: skip
    if cluster is not None:
        from linkwise.cli.cluster import join_on_cluster, refuse  # noqa: PLC0415 - not needed on one machine
        from linkwise.cluster.runs import RunOptions  # noqa: PLC0415

        refuse(
            count=count, output_format=output_format, partition_by=partition_by, file_rows=file_rows, trace=trace,
            explain=explain, plan=plan, memory_limit=memory_limit, machine=machine != "auto",
            gpus=gpus != "auto", presorted=presorted != "neither", verify=verify != "yes",
        )  # fmt: skip
        asked = replace(asked, options=replace(asked.options, output_format="parquet"))
        run = RunOptions.of(out, temporary, force=force, resume=resume, strategy=strategy)
        join_on_cluster(left, right, asked, run, cluster, host_memory, as_json=as_json)
        return
    if resume:
        raise UsageError("--resume goes on with a run of a cluster: name it with --cluster")
    with progress_bar() as step:
        advance = step(f"join {Path(left).name}")
        execution = ExecutionOptions(
            machine=machine, gpus=options.parse_gpus(gpus), strategy=strategy, memory_limit=memory_limit,
            verify=options.VERIFY[verify],
            plan=None if plan is None else JoinPlan.parse(plan), on_progress=advance,
        )  # fmt: skip
        report = join_files(asked, out, execution)
    if trace is not None:
        write_join_trace(trace, report)
    if explain and not as_json:
        from linkwise.reports.console import console  # noqa: PLC0415
        from linkwise.reports.terminal import print_join_explanation  # noqa: PLC0415

        print_join_explanation(console(to_stderr=True), report)
    in_words = str(report.rows) if count else join_summary(report)
    if count or as_json or not explain:
        typer.echo(json.dumps(report.as_dict()) if as_json else in_words, err=out == PIPE)
