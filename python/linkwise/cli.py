"""The command line; ``linkwise sort`` and ``linkwise plan`` themselves."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from linkwise import __version__, files
from linkwise._core import Error, UsageError
from linkwise.checking import first_out_of_order
from linkwise.cli_errors import fail, interrupt_is_a_failure, without_it
from linkwise.cli_machines import bench_app, doctor, machine_app, probe_machine, reproduce_experiment
from linkwise.file_sorting import columns_of, sort_file
from linkwise.machine import is_nominal
from linkwise.plan_report import plan_sort
from linkwise.planning import Gpus
from linkwise.plots import phase_picture
from linkwise.report import format_seconds, print_explanation, print_plan, print_report, where_it_ran
from linkwise.session import ADVICE_TO_PROBE, NoGpuWarning, NominalMachineWarning
from linkwise.trace import write_trace

app = typer.Typer(
    help="Sorts, joins and moves data across the GPUs of a machine as fast as its links allow.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(machine_app, name="machine")
plan_app = typer.Typer(help="What work would take, before it is done.", no_args_is_help=True)
app.add_typer(plan_app, name="plan")
app.add_typer(bench_app, name="bench")
app.command("probe")(probe_machine)
app.command("reproduce")(reproduce_experiment)
app.command("doctor")(doctor)


_MOST_ROWS = 1e13  # 10,000 times what the largest machine holds


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"linkwise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def _parse_gpus(text: str) -> Gpus:
    if text == "auto":
        return "auto"
    try:
        numbers = [int(part) for part in text.split(",")]
        if any(abs(number) > 1 << 20 for number in numbers):
            raise ValueError
        return numbers
    except ValueError:
        raise UsageError(f"--gpus is 'auto' or numbers like 0,2, not '{text}'") from None


def _parse_by(by: str | None, columns: list[str]) -> tuple[str | None, bool]:
    """(column, descending) from ``COL``, ``COL:desc`` or, for arrays, ``:desc``."""
    name, colon, direction = (by or "").rpartition(":") if by and ":" in by else (by or "", "", "")
    if colon and direction not in ("asc", "desc"):
        if by not in columns:  # a column may have a colon in its name
            raise UsageError(f"--by is COL, COL:asc or COL:desc, not '{by}'")
        name, direction = by or "", ""
    if columns and not name:
        raise UsageError(f"--by must name a column: {', '.join(columns)}")
    if name and not columns:
        raise UsageError("--by names a column, and an array has none; use --by :desc to turn its order round")
    return name or None, direction == "desc"


@contextmanager
def _progress_bar() -> Any:
    """Yields a function ``step(name) -> advance(fraction)``; draws on a terminal only."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:

        def step(name: str) -> Any:
            task = progress.add_task(name, total=1.0)
            return lambda fraction: progress.update(task, completed=fraction)

        yield step


@app.command()
def sort(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A .parquet, .npy or raw .bin file.")],
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="OUT", help="Where the result goes.")] = None,
    by: Annotated[str | None, typer.Option(metavar="COL[:desc]", help="The column to sort a table by.")] = None,
    nulls: Annotated[Literal["first", "last"], typer.Option(help="Where rows without a key go.")] = "last",
    machine: Annotated[
        str, typer.Option(help="auto, local, or a described machine to simulate (see 'linkwise machine list').")
    ] = "auto",
    gpus: Annotated[str, typer.Option(metavar="0,2|auto", help="GPUs, in the order of the result.")] = "auto",
    strategy: Annotated[
        Literal["auto", "radix", "p2p_merge", "het", "cpu"], typer.Option(help="How to sort; cpu uses no GPU.")
    ] = "auto",
    memory_limit: Annotated[str | None, typer.Option(metavar="4GiB", help="Memory to use on each GPU.")] = None,
    host_memory: Annotated[
        str | None,
        typer.Option(metavar="64GiB", help="Host memory to use: what does not fit is spilled."),
    ] = None,
    temporary: Annotated[
        Path | None, typer.Option("--temporary-directory", "-T", metavar="DIR", help="Where to spill.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="The type of the numbers in a .bin file, as uint32.")] = None,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a Chrome/Perfetto trace.")] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the phases, as .svg, .png or .pdf.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what the plan expected beside what it took.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", "-c", help="Only say whether it is in order; exit 1 if it is not.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object about the sort.")] = False,
) -> None:
    """Sort a file by a column, and write the result to another."""
    files.check_format(source)
    column, descending = _parse_by(by, columns_of(source, dtype))
    if check:
        contents = files.open_reader(source, dtype).everything()
        row = first_out_of_order(contents, by=column, descending=descending, nulls=nulls)
        if row is not None:
            fail(f"{source}: row {row}, counted from 0, is out of order", 1)
        return
    if out is None:
        raise UsageError("name the file to write with -o, or --check whether it is in order")
    files.check_format(out)
    with _progress_bar() as step, interrupt_is_a_failure():
        advance = step(f"sort {source.name}")
        report = sort_file(
            source,
            out,
            by=column,
            descending=descending,
            nulls=nulls,
            machine=machine,
            gpus=_parse_gpus(gpus),
            strategy=strategy,
            memory_limit=memory_limit,
            host_memory_limit=host_memory,
            temporary_directory=temporary,
            dtype=dtype,
            on_progress=advance,
        )
        advance(1.0)
    if trace is not None:
        write_trace(trace, report)
    if picture is not None:
        phase_picture({report.strategy: report.phases}, picture, title=f"{report.plan}; {where_it_ran(report)}")
    if as_json:
        typer.echo(json.dumps(report.as_dict() | ({"predicted": report.predicted_phases()} if explain else {})))
        return
    if explain:
        print_explanation(Console(), report)
    elif sys.stdout.isatty():
        print_report(Console(), report)
    else:
        typer.echo(f"{report.rows} rows sorted in {format_seconds(report.seconds)}. {where_it_ran(report)}")
    if not report.simulated and report.gpus and is_nominal():
        typer.echo(ADVICE_TO_PROBE, err=True)


@plan_app.command("sort")
def plan_of_sort(
    rows: Annotated[float, typer.Option(help="How many, as 2000000000 or 2e9.")],
    key: Annotated[str, typer.Option(metavar="u32", help="u8 … u64, i8 … i64, f16 … f64.")] = "u32",
    value: Annotated[int, typer.Option(metavar="BYTES", help="That follow each key: 0, 4, 8 or 16.")] = 0,
    machine: Annotated[str, typer.Option(help="auto, local, a described machine, or a .json file.")] = "auto",
    without: Annotated[str | None, typer.Option(metavar="nvlink", help="A described machine without it.")] = None,
    gpus: Annotated[str, typer.Option(metavar="0,2|auto", help="GPUs, in the order of the result.")] = "auto",
    strategy: Annotated[Literal["auto", "radix", "p2p_merge", "het", "cpu"], typer.Option(help="How.")] = "auto",
    memory_limit: Annotated[str | None, typer.Option(metavar="4GiB", help="Memory to use on each GPU.")] = None,
    pageable: Annotated[bool, typer.Option("--pageable", help="Ordinary memory, in and out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say how a sort would be done, what it would take, and why. Nothing is sorted."""
    if not 0 <= rows <= _MOST_ROWS:
        raise UsageError(f"--rows is {rows:g}; it is a number from 0 to {_MOST_ROWS:g}")
    report = plan_sort(
        int(rows),
        key,
        value_bytes=value,
        machine=machine if without is None else without_it(machine, without),
        gpus=_parse_gpus(gpus),
        strategy=strategy,
        memory_limit=memory_limit,
        pageable=pageable,
    )
    if as_json:
        typer.echo(json.dumps(report.as_dict()))
    else:
        print_plan(Console(), report)


def main() -> None:
    """Run the command line. Exit codes: 0, 1 (failed; one line on stderr), 2 (usage), 130 (interrupted)."""
    import warnings  # noqa: PLC0415

    # The commands' own output says both.
    warnings.simplefilter("ignore", NoGpuWarning)
    warnings.simplefilter("ignore", NominalMachineWarning)
    try:
        app()
    except UsageError as error:
        fail(error, 2)
    except Error as error:
        fail(error, 1)
