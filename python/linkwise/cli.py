"""The command line: ``linkwise sort``, ``linkwise machine``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from linkwise import __version__, files, probe_mpi
from linkwise._core import Error, Machine, UsageError
from linkwise.drawing import machine_svg
from linkwise.file_sorting import columns_of, sort_file
from linkwise.html_report import write_report
from linkwise.machine import (
    DEFAULT_VIRTUAL_MACHINE,
    described_machines,
    is_nominal,
    load_machine,
    local_machine,
    machine_from_dict,
)
from linkwise.nominal import import_nccl
from linkwise.plan_benchmark import bench_plan
from linkwise.plan_report import plan_sort
from linkwise.planning import Gpus
from linkwise.plots import phase_picture
from linkwise.probing import measurements, probe
from linkwise.profile import write_json
from linkwise.report import (
    format_seconds,
    print_experiment,
    print_explanation,
    print_plan,
    print_plan_benchmark,
    print_profile,
    print_report,
    where_it_ran,
)
from linkwise.reproduce import EXPERIMENTS, reproduce
from linkwise.session import ADVICE_TO_PROBE, NoGpuWarning, NominalMachineWarning
from linkwise.trace import write_trace

app = typer.Typer(
    help="Sorts, joins and moves data across the GPUs of a machine as fast as its links allow.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
machine_app = typer.Typer(help="The machines that Linkwise knows.", no_args_is_help=True)
app.add_typer(machine_app, name="machine")
plan_app = typer.Typer(help="What work would take, before it is done.", no_args_is_help=True)
app.add_typer(plan_app, name="plan")
bench_app = typer.Typer(help="Benchmarks, with raw results.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")


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
        return [int(part) for part in text.split(",")]
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


@contextmanager
def _interrupt_is_a_failure() -> Any:
    try:
        yield
    except KeyboardInterrupt:  # typer would swallow it without a word
        _fail("interrupted; nothing was written", 130)


@app.command()
def sort(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A .parquet, .npy or raw .bin file.")],
    out: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="Where the result goes.")],
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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object about the sort.")] = False,
) -> None:
    """Sort a file by a column, and write the result to another."""
    files.check_format(source)
    files.check_format(out)
    column, descending = _parse_by(by, columns_of(source, dtype))
    with _progress_bar() as step, _interrupt_is_a_failure():
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
    report = plan_sort(
        int(rows),
        key,
        value_bytes=value,
        machine=machine if without is None else load_machine(machine, without=without),
        gpus=_parse_gpus(gpus),
        strategy=strategy,
        memory_limit=memory_limit,
        pageable=pageable,
    )
    if as_json:
        typer.echo(json.dumps(report.as_dict()))
    else:
        print_plan(Console(), report)


@bench_app.command("plan")
def bench_of_plans(
    machine: Annotated[str, typer.Option(help="auto, local, or a described machine to simulate.")] = "auto",
    scale: Annotated[float, typer.Option(help="Of the sizes: 0.5, 2 and 8 billion keys.")] = 1.0,
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the raw results.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as one JSON object.")] = False,
) -> None:
    """Hold the planner's predictions and choices against measured sorts over a grid."""
    if machine == "auto":
        machine = "local" if local_machine() is not None else DEFAULT_VIRTUAL_MACHINE
    with _interrupt_is_a_failure():
        results = bench_plan(machine, scale)
    if out is not None:
        write_json(out, results)
    if as_json:
        typer.echo(json.dumps(results))
    else:
        print_plan_benchmark(Console(), results)


@app.command("probe")
def probe_machine(
    machine: Annotated[
        str, typer.Option(help="local, or a described machine to simulate: what a probe would find out there.")
    ] = "local",
    full: Annotated[bool, typer.Option("--full/--quick", help="Everything, in minutes; or enough to plan.")] = False,
    tests: Annotated[
        str | None, typer.Option("--tests", "-t", metavar="PATTERN", help="Only what has a name like this.")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the profile.")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report, as one HTML file with pictures.")
    ] = None,
    without: Annotated[str | None, typer.Option(metavar="nvlink", help="A described machine without it.")] = None,
    list_them: Annotated[bool, typer.Option("--list", help="Name every measurement and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the profile as one JSON object.")] = False,
) -> None:
    """Measure this machine's links and processors, and find out what they share."""
    if list_them:
        _print_names(measurements())
        return
    of = machine if without is None else load_machine(machine, without=without)
    with _interrupt_is_a_failure():
        profile = probe(of, out, mode="full" if full else "quick", tests=tests)
    if probe_mpi.rank() > 0:  # the first of several processes tells
        return
    if report is not None:
        write_report(profile, report)
    if as_json:
        typer.echo(json.dumps(profile.as_dict()))
    else:
        print_profile(Console(), profile)


def _print_names(names: Mapping[str, str]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, what in names.items():
        table.add_row(name, what)
    Console().print(table)


@app.command("reproduce")
def reproduce_experiment(
    name: Annotated[str, typer.Argument(metavar="LIST|NAME", help="list, or an experiment as sort22-fig12.")],
    machine: Annotated[
        str | None, typer.Option(help="local, or a described machine, in place of the paper's machines.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run an experiment of the papers: what they state, ours, and the ratio."""
    if name.lower() == "list":
        _print_names({experiment.name: experiment.title for experiment in EXPERIMENTS.values()})
        return
    with _interrupt_is_a_failure():
        rows = reproduce(name, machine)
    if as_json:
        told = {"name": name, "machine": machine or "as in the paper", "simulated": machine != "local"}
        typer.echo(json.dumps(told | {"rows": [row.as_dict() for row in rows]}))
    else:
        how = "measured on this machine" if machine == "local" else "simulated, nothing was measured"
        print_experiment(Console(), f"{name}: {EXPERIMENTS[name].title}", how, rows)


@machine_app.command("list")
def machine_list() -> None:
    """Name every described machine."""
    _print_names(described_machines())


@machine_app.command("show")
def machine_show(
    name: Annotated[str, typer.Argument(help="A described machine, summit-node:4 for four nodes, or a .json file.")],
    without: Annotated[str | None, typer.Option(metavar="nvlink", help="The machine without it.")] = None,
    svg: Annotated[bool, typer.Option("--svg", help="Print a drawing, as an SVG file holds it.")] = False,
) -> None:
    """Show the nodes, links and constraints of a machine."""
    machine = load_machine(name, without=without)
    if svg:
        typer.echo(machine_svg(machine), nl=False)
    else:
        _print_machine(Console(), machine)


@machine_app.command("import")
def machine_import(
    source: Annotated[Path, typer.Argument(metavar="NCCL.XML", help="As NCCL_TOPO_DUMP_FILE has it written.")],
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the machine.")] = None,
) -> None:
    """Make a machine of the topology that NCCL has found; its links get what is usual of their kind."""
    description = import_nccl(source)
    machine = machine_from_dict(description, str(source))
    if out is None:
        typer.echo(json.dumps(description, indent=1))
        return
    write_json(out, description)
    typer.echo(f"{out}: {machine.num_gpus} GPUs; name it wherever a machine is asked for")


def _format_capacity(points: list[Any]) -> str:
    return " … ".join(
        f"{point.gb_per_s:g}" + (f" at {point.flows} flows" if len(points) > 1 else "") for point in points
    )


def _print_machine(console: Console, machine: Machine) -> None:
    console.print(f"[bold]{machine.name}[/bold]  {machine.description}")
    console.print(f"source: {machine.source}")
    console.print(f"GPU: {machine.gpu.name}, {machine.gpu.memory_gib:g} GiB;  host: {machine.host.name}")
    table = Table(title="links, GB/s", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("link", "kind", "forward", "backward", "both ways", "nominal"):
        table.add_column(heading)
    for link in machine.links:
        table.add_row(
            f"{machine.nodes[link.a].name} – {machine.nodes[link.b].name}",
            link.kind,
            _format_capacity(link.forward),
            _format_capacity(link.backward),
            _format_capacity(link.duplex),
            f"{link.nominal_gb_per_s:g}" if link.nominal_gb_per_s else "",
        )
    console.print(table)
    if machine.constraints:
        table = Table(title="constraints, GB/s", title_justify="left", box=None, padding=(0, 2, 0, 0))
        for heading in ("name", "capacity", "weight · traffic"):
            table.add_column(heading)
        for constraint in machine.constraints:
            terms = [f"{t.weight:g} · {t.traffic.name} {t.source or ''}→{t.target or ''}" for t in constraint.terms]
            table.add_row(constraint.name, _format_capacity(constraint.capacity), "\n".join(terms))
        console.print(table)


def main() -> None:
    """Run the command line. Exit codes: 0, 1 (failed; one line on stderr), 2 (usage), 130 (interrupted)."""
    import warnings  # noqa: PLC0415

    # The commands' own output says both.
    warnings.simplefilter("ignore", NoGpuWarning)
    warnings.simplefilter("ignore", NominalMachineWarning)
    try:
        app()
    except UsageError as error:
        _fail(error, 2)
    except Error as error:
        _fail(error, 1)


def _fail(error: object, code: int) -> None:
    print(f"linkwise: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(code)
