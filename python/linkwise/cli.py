"""The command line, and ``linkwise plan``."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Annotated, Literal

import typer
from rich.console import Console

from linkwise import __version__
from linkwise._core import Error, UsageError
from linkwise.cli_errors import fail
from linkwise.cli_join import join
from linkwise.cli_machines import bench_app, doctor, machine_app, probe_machine, reproduce_experiment
from linkwise.cli_options import parse_gpus, without_it
from linkwise.cli_sort import sort
from linkwise.plan_report import MOST_ROWS, plan_sort
from linkwise.report import print_plan
from linkwise.session import NoGpuWarning, NominalMachineWarning

app = typer.Typer(
    help="Sorts, joins and moves data across the GPUs of a machine as fast as its links allow.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"auto_envvar_prefix": "LINKWISE"},
)
app.add_typer(machine_app, name="machine")
plan_app = typer.Typer(help="What work would take, before it is done.", no_args_is_help=True)
app.add_typer(plan_app, name="plan")
app.add_typer(bench_app, name="bench")
app.command("probe")(probe_machine)
app.command("reproduce")(reproduce_experiment)
app.command("doctor")(doctor)
app.command("sort")(sort)
app.command("join")(join)


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
    if not 0 <= rows <= MOST_ROWS:  # before it becomes an integer: it may be infinite
        raise UsageError(f"--rows is {rows:g}; it is a number from 0 to {MOST_ROWS:g}")
    report = plan_sort(
        int(rows),
        key,
        value_bytes=value,
        machine=machine if without is None else without_it(machine, without),
        gpus=parse_gpus(gpus),
        strategy=strategy,
        memory_limit=memory_limit,
        pageable=pageable,
    )
    if as_json:
        typer.echo(json.dumps(report.as_dict()))
    else:
        print_plan(Console(), report)


def _show_warning(message: Warning | str, *_: object) -> None:
    print(f"linkwise: warning: {' '.join(str(message).split())}", file=sys.stderr)


def main() -> None:
    """Run the command line. Exit codes: 0, 1 (failed; one line on stderr), 2 (usage), 130 (interrupted)."""
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    # The commands' own output says both.
    warnings.simplefilter("ignore", NoGpuWarning)
    warnings.simplefilter("ignore", NominalMachineWarning)
    try:
        code = app(standalone_mode=False)
    except UsageError as error:
        fail(error, 2)
    except Error as error:
        fail(error, 1)
    except (KeyboardInterrupt, typer.Abort):
        fail("interrupted; nothing was written", 130)
    except (OSError, MemoryError) as error:
        fail(f"{type(error).__name__}: {error}", 1)
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's own have one; where their class is, depends on its version
            raise
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "linkwise"
        fail(f"{error.format_message().rstrip('.')}; see '{command} --help'", 2)
    sys.exit(code if isinstance(code, int) else 0)
