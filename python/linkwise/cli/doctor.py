"""``linkwise doctor``."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Annotated

import typer

from linkwise.probing.doctor import examine


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check this machine; print what a bug report needs: build, host, GPUs, peer copies, profile. Exit 1 on faults."""
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
