"""The commands about machines: ``linkwise probe``, ``machine`` and ``reproduce``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from linkwise import probe_mpi
from linkwise._core import Machine
from linkwise.cli_errors import interrupt_is_a_failure
from linkwise.cli_options import without_it
from linkwise.doctor import examine
from linkwise.drawing import machine_svg
from linkwise.html_report import write_report
from linkwise.machine import (
    described_machines,
    load_machine,
    machine_from_dict,
)
from linkwise.nominal import import_nccl
from linkwise.probing import measurements, probe
from linkwise.profile import write_json
from linkwise.report import print_experiment, print_profile
from linkwise.reproduce import EXPERIMENTS, reproduce

machine_app = typer.Typer(help="The machines that Linkwise knows.", no_args_is_help=True)


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
    of = machine if without is None else without_it(machine, without)
    with interrupt_is_a_failure():
        profile = probe(of, out, mode="full" if full else "quick", tests=tests)
    if machine == "local" and probe_mpi.rank() > 0:  # the first of several processes tells
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
    with interrupt_is_a_failure():
        rows = reproduce(name, machine)
    if as_json:
        told = {"name": name, "machine": machine or "as in the paper", "simulated": machine != "local"}
        typer.echo(json.dumps(told | {"rows": [row.as_dict() for row in rows]}))
    else:
        how = "measured on this machine" if machine == "local" else "simulated, nothing was measured"
        print_experiment(Console(), f"{name}: {EXPERIMENTS[name].title}", how, rows)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what a bug report needs: build, host, GPUs, peer access with verified data, profile. Exit 1 if not well."""
    told = examine(version("linkwise"))
    if as_json:
        typer.echo(json.dumps(told))
    else:
        for name, value in told.items():
            parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
            shown = "".join(f"\n  {key}: {each}" for key, each in parts) if parts is not None else f" {value}"
            typer.echo(f"{name.replace('_', ' ')}:{shown}")
    if not told["healthy"]:
        raise typer.Exit(1)


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
    console.print(f"[bold]{escape(machine.name)}[/bold]  {escape(machine.description)}")
    console.print(f"source: {escape(machine.source)}")
    told = f"GPU: {machine.gpu.name}, {machine.gpu.memory_gib:g} GiB;  host: {machine.host.name}"
    console.print(escape(told))
    table = Table(title="links, GB/s", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("link", "kind", "forward", "backward", "both ways", "nominal"):
        table.add_column(heading)
    for link in machine.links:
        table.add_row(
            escape(f"{machine.nodes[link.a].name} – {machine.nodes[link.b].name}"),
            escape(link.kind),
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
            table.add_row(escape(constraint.name), _format_capacity(constraint.capacity), "\n".join(terms))
        console.print(table)
