"""The command line."""

from __future__ import annotations

import gc
import io
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import typer

from linkwise._core import Error, UsageError
from linkwise._log import tell_on_stderr
from linkwise.cli.errors import INTERRUPTED, fail, fail_interrupted, interrupt_is_a_failure
from linkwise.exceptions import NominalMachineWarning

_COMMANDS = {
    "machine": "machine:machine_app", "plan": "plan:plan_app", "bench": "bench:bench_app", "doctor": "doctor:doctor",
    "reproduce": "reproduce:reproduce_experiment", "probe": "probe:probe_machine", "sort": "sort:sort",
    "join": "join:join", "app": "app:app_command", "tune": "app:tune_command",
    "cluster": "cluster:cluster_app",
}  # fmt: skip
"""The module and function of each command; only that of the requested command is loaded."""


def _needed(arguments: Sequence[str]) -> Iterable[str]:
    """The command that is named; all where none is, except to answer an option that needs none."""
    first = next((argument for argument in arguments if not argument.startswith("-")), "")
    if first in _COMMANDS:
        return [first]
    return [] if arguments[:1] in (["--version"], ["--cmake-dir"]) else _COMMANDS


def commands_for(arguments: Sequence[str]) -> typer.Typer:
    """The commands that such a call needs."""
    app = typer.Typer(
        help="Sorts, joins and moves data across the GPUs of a machine as fast as its links allow.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for name in _needed(arguments):
        module, _, function = _COMMANDS[name].partition(":")
        found = getattr(import_module(f"linkwise.cli.{module}"), function)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


_SHOW_TRACEBACK = "LINKWISE_TRACEBACK"


class _WithoutPandas:
    """Hides pandas: PyArrow would import it during the work, for half a second, and swallow interrupts meanwhile."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Refuse to find pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError("the command line does without pandas", name=fullname)


def _terminate(*_: object) -> NoReturn:
    """End as after Ctrl-C: no half-written file stays."""
    raise KeyboardInterrupt


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415

        typer.echo(f"linkwise {version('linkwise')}")
        raise typer.Exit


def _show_cmake_dir(wanted: bool) -> None:
    if wanted:
        directory = Path(__file__).parents[1] / "cpp" / "lib" / "cmake" / "linkwise"
        if not directory.is_dir():
            raise UsageError(
                "this installation came without the C++ library, which wheels have; "
                "of a build from source it is installed by: cmake --install build/cp… --component cpp --prefix DIR"
            )
        typer.echo(directory)
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    cmake_dir: Annotated[
        bool,
        typer.Option(
            "--cmake-dir", callback=_show_cmake_dir, is_eager=True, help="Show where CMake finds the C++ library."
        ),
    ] = False,
) -> None:
    pass


def _end_as_programs_do(command: Any) -> None:
    """Have every command end as described in ``main`` when it is interrupted, or when nobody reads its output."""
    if command.callback is not None:
        command.callback = interrupt_is_a_failure()(command.callback)
    for inner in getattr(command, "commands", {}).values():
        _end_as_programs_do(inner)


def _name_variables(command: Any, prefix: str) -> None:
    """Name the environment variable of every option after the option: LINKWISE_SORT_OUTPUT for --output."""
    for option in command.params:
        if option.param_type_name == "option":
            option.envvar = f"{prefix}_{max(option.opts, key=len).lstrip('-')}".replace("-", "_").upper()
            option.show_envvar = False  # the rule is in the documentation; one by one they would fill the help
    for name, inner in getattr(command, "commands", {}).items():
        _name_variables(inner, f"{prefix}_{name}")


def _tell(_context: Any, _option: Any, times: int) -> None:
    if times:
        tell_on_stderr(logging.INFO if times == 1 else logging.DEBUG)


def _add_verbose(command: Any) -> None:
    """Add ``--verbose`` to every command."""
    told = "Say on standard error which plan runs, what is spilled; -vv: each step."
    verbose = typer.core.TyperOption(
        param_decls=["-v", "--verbose"], type=int, default=0, count=True, expose_value=False, is_eager=True,
        callback=_tell, help=told, show_default=False,
    )  # fmt: skip
    command.params.append(verbose)
    for inner in getattr(command, "commands", {}).values():
        _add_verbose(inner)


def _show_warning(message: Warning | str, *_: object) -> None:
    print(f"linkwise: warning: {' '.join(str(message).split())}", file=sys.stderr)


def main() -> None:
    """Run the command line. Exit codes: 0, 1 (failed; a line on stderr), 2 (usage), 130 (interrupted), 141 (unread)."""
    sys.meta_path.insert(0, cast(Any, _WithoutPandas()))
    try:
        _run()
    except Exception:  # raised only if a traceback was asked for
        traceback.print_exc()
        _end_mpi(1)
        sys.exit(1)
    except SystemExit as end:
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except OSError:  # the reader has closed them
            if not end.code:
                raise end from None
        _end_mpi(end.code)
        # Skip Python's shutdown: it takes a tenth of a second to free what the system frees at once, and Arrow's
        # threads may still be reading from Python's standard input, which would not work during it.
        os._exit(cast(int, end.code or 0))


def _end_mpi(code: object) -> None:
    """Tell MPI, if it was used, that this process ends; where it failed, that none of the others need wait for it."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        if code:
            mpi.COMM_WORLD.Abort(code if isinstance(code, int) else 1)
        mpi.Finalize()


def _prepare_process() -> None:
    for asked in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(asked) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(asked, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a character that the terminal lacks is no reason to fail
            stream.reconfigure(errors="replace")
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    # The commands' own output says as much.
    warnings.simplefilter("ignore", NominalMachineWarning)


def _run() -> None:
    _prepare_process()
    try:
        command: Any = typer.main.get_command(commands_for(sys.argv[1:]))
        gc.freeze()  # what was imported stays, and need not be looked at again
        gc.enable()
        _add_verbose(command)
        _end_as_programs_do(command)
        _name_variables(command, "LINKWISE")
        code = command(standalone_mode=False)
    except UsageError as error:
        fail(error, 2)
    except Error as error:
        fail(error, 1)
    except (KeyboardInterrupt, typer.Abort) as interrupt:
        fail_interrupted(interrupt)
    except (OSError, MemoryError) as error:
        fail(f"{type(error).__name__}: {error}", 1)
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's own errors have one; their class moved between versions
            if os.environ.get(_SHOW_TRACEBACK):
                raise
            told = f"{type(error).__name__}: {error}"
            fail(f"{told}; this is a mistake in linkwise: please report it with what {_SHOW_TRACEBACK}=1 shows", 1)
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "linkwise"
        told = error.format_message().rstrip(".")
        if not told:  # the help has been shown, as no command was named
            sys.exit(2)
        fail(f"{told}; see '{command} --help'", 2)
    if code == INTERRUPTED:  # typer's exit code for Ctrl-C
        fail("interrupted; nothing was written", INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)
