"""``linkwise reproduce``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from linkwise.cli.errors import interrupt_is_a_failure
from linkwise.reports.terminal import print_names
from linkwise.reproduce.experiment import Row
from linkwise.reproduce.registry import EXPERIMENTS, reproduce


def reproduce_experiment(
    name: Annotated[str, typer.Argument(metavar="LIST|NAME", help="list, or an experiment as sort22-fig12.")],
    machine: Annotated[
        str | None, typer.Option(help="local, or a described machine, in place of the paper's machines.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run an experiment of the papers: what they state, ours, and the ratio."""
    if name.lower() == "list":
        print_names({experiment.name: experiment.title for experiment in EXPERIMENTS.values()})
        return
    with interrupt_is_a_failure():
        rows = reproduce(name, machine)
    if as_json:
        told = {"name": name, "machine": machine or "as in the paper", "simulated": machine != "local"}
        typer.echo(json.dumps(told | {"rows": [row.as_dict() for row in rows]}))
    else:
        how = "measured on this machine" if machine == "local" else "simulated, nothing was measured"
        print_experiment(Console(), f"{name}: {EXPERIMENTS[name].title}", how, rows)


def print_experiment(console: Console, title: str, how: str, rows: Iterable[Row]) -> None:
    """Print the paper's figures, ours, and their ratio."""
    console.print(f"[bold]{escape(title)}[/bold] ({how})")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "paper", "ours", "ratio", "", ""):
        table.add_column(heading, justify="right" if heading else "left")
    for row in rows:
        stated = f"{row.paper:.3g}" if row.paper is not None else ""
        ours = f"{row.ours:.3g}" if row.ours is not None else "–"
        ratio = f"{row.ratio:.2f}" if row.ratio is not None else ""
        table.add_row(escape(row.what), stated, ours, ratio, row.unit, escape(row.note))
    console.print(table)
