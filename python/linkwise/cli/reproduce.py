"""``linkwise reproduce``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from linkwise._core import UsageError
from linkwise.reports.console import console
from linkwise.reports.plots import check_picture, comparison_picture
from linkwise.reports.terminal import print_names
from linkwise.reproduce.experiment import Row, Statement
from linkwise.reproduce.registry import EXPERIMENTS, reproduce


def reproduce_experiment(
    name: Annotated[str, typer.Argument(metavar="LIST|NAME", help="list, or an experiment as sort22-fig12.")],
    machine: Annotated[
        str | None, typer.Option(help="local, or a described machine, in place of the paper's machines.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw our figures and the paper's here: .svg, .png or .pdf.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run an experiment of the papers; print what they state, Linkwise's figures, and the ratio."""
    if picture is not None:
        check_picture(picture)
    if name.lower() == "list":
        print_names({experiment.name: experiment.title for experiment in EXPERIMENTS.values()}, as_json=as_json)
        return
    rows = reproduce(name, machine)
    title = f"{name}: {EXPERIMENTS[name].title}"
    if picture is not None:
        drawn = [(row.what, row.unit, row.ours, row.paper) for row in rows if row.ours is not None]
        if not drawn:
            raise UsageError(f"{name} has no figure to draw")
        comparison_picture(drawn, picture, title=title)
    statements = EXPERIMENTS[name].statements if machine is None else ()  # they are of the paper's machines
    if as_json:
        told = {"name": name, "machine": machine or "as in the paper", "simulated": machine != "local"}
        said = [
            {"says": each.says, "where": each.where, "holds": each.holds(rows), "why_not": each.fails}
            for each in statements
        ]
        typer.echo(json.dumps(told | {"rows": [row.as_dict() for row in rows], "statements": said}))
    else:
        how = "measured on this machine" if machine == "local" else "simulated, nothing was measured"
        out = console()
        print_experiment(out, title, how, rows)
        print_statements(out, statements, rows)


def print_experiment(console: Console, title: str, how: str, rows: Iterable[Row]) -> None:
    """Print the paper's figures, ours, and their ratio."""
    console.print(f"[bold]{escape(title)}[/bold] ({how})")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "paper", "ours", "ratio", "", ""):
        table.add_column(heading, justify="right" if heading else "left")
    for row in rows:
        stated = f"{row.paper:.3g}" if row.paper is not None else ""
        ours = f"{row.ours:.3g}" if row.ours is not None else "–"
        ratio = "" if row.ratio is None else "fitted" if row.fitted else f"{row.ratio:.2f}"
        table.add_row(escape(row.what), stated, ours, ratio, row.unit, escape(row.fitted or row.note))
    console.print(table)


def print_statements(console: Console, statements: Iterable[Statement], rows: Sequence[Row]) -> None:
    """Print what the paper says in words, and whether ours does it."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for statement in statements:
        holds = {True: "yes", False: "no", None: "–"}[statement.holds(rows)]
        why = f" ({statement.fails})" if statement.fails else ""
        table.add_row(holds, statement.where, escape(statement.says + why))
    if table.row_count:
        console.print("\n[bold]In words[/bold]")
        console.print(table)
