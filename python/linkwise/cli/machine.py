"""``linkwise machine``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from linkwise._core import Machine, UsageError
from linkwise.machines.catalog import described_machines, load_machine
from linkwise.machines.description import machine_from_dict, machine_to_dict
from linkwise.machines.nccl_topology import import_nccl
from linkwise.reports.console import console
from linkwise.reports.machine_svg import machine_svg
from linkwise.reports.terminal import print_names
from linkwise.runtime.atomic_file import check_json_output, write_json

machine_app = typer.Typer(help="List, show and import machine descriptions.", no_args_is_help=True)


@machine_app.command("list")
def machine_list() -> None:
    """List the described machines."""
    print_names(described_machines())


@machine_app.command("show")
def machine_show(
    name: Annotated[str, typer.Argument(help="A described machine, summit-node:4 for four nodes, or a .json file.")],
    without: Annotated[str | None, typer.Option(metavar="nvlink", help="Leave this out.")] = None,
    svg: Annotated[bool, typer.Option("--svg", help="Print a drawing as SVG.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the description as one JSON object.")] = False,
) -> None:
    """Show the nodes, links and constraints of a machine."""
    machine = load_machine(name, without=without)
    if svg and as_json:
        raise UsageError("--svg and --json are two outputs; name one")
    if as_json:
        typer.echo(json.dumps(machine_to_dict(machine)))
    elif svg:
        typer.echo(machine_svg(machine), nl=False)
    else:
        _print_machine(console(), machine)


@machine_app.command("import")
def machine_import(
    source: Annotated[Path, typer.Argument(metavar="NCCL.XML", help="As NCCL writes it into NCCL_TOPO_DUMP_FILE.")],
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.json", help="Write the machine.")] = None,
) -> None:
    """Make a machine description from NCCL's topology dump, with usual rates for each kind of link."""
    if out is not None:
        check_json_output(out)
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
