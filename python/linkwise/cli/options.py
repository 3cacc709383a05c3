"""Options that several commands have."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from linkwise import _core
from linkwise._core import UsageError
from linkwise.files.locations import target_of
from linkwise.machines.catalog import load_machine
from linkwise.machines.local import local_machine
from linkwise.runtime.execution import Gpus as GpuNumbers
from linkwise.runtime.session import no_gpu

VERIFY: dict[str, Any] = {"yes": True, "all": "all", "no": False}

_WITH_ZONE = re.compile(r"(.+)=(timestamp\[\w+, *tz=[^\]]+\])")  # the last = of others is that before the type

MOST_SHOWN = 12
"""Rows to show of a table that is sorted by importance."""

Output = Annotated[
    Any,  # a path, a remote file or None: typer does not take unions
    typer.Option("-o", "--output", parser=target_of, metavar="OUT", help="The output; - for stdout."),
]

Machine = Annotated[
    str, typer.Option(help="auto: GPUs, or else cores; local: GPUs; a described machine to simulate ('machine list').")
]

Gpus = Annotated[str, typer.Option(metavar="0,2|auto", help="GPUs to use, in this order.")]
Verify = Annotated[
    Literal["yes", "all", "no"],
    typer.Option(help="Verify the result; all: also on the host, and by reading the file again before it appears."),
]
Strategy = Annotated[Literal["auto", "radix", "p2p_merge", "het", "cpu"], typer.Option(help="How to sort.")]
Plan = Annotated[
    str | None,
    typer.Option(
        metavar="WORDS|FILE.json", help="Fields to pin, as 'het,buffers=3,eager', or a plan from 'linkwise plan -o'."
    ),
]
MemoryLimit = Annotated[str | None, typer.Option(metavar="4GiB|80%", help="Memory to use on each GPU.")]

HostMemory = Annotated[
    str | None,
    typer.Option("--host-memory", "-S", metavar="64GiB|80%", help="Host memory to use; what does not fit is spilled."),
]

TemporaryDirectory = Annotated[
    Path | None, typer.Option("--temporary-directory", "-T", metavar="DIR", help="Directory to spill to.")
]

Types = Annotated[
    list[str] | None,
    typer.Option("--types", "--type", metavar="COL=TYPE", help="The type of a text column, as id=int64. Repeatable."),
]

Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace a read-only output, or a directory with all its files; start even if the disk seems too small.",
    ),
]

Header = Annotated[bool, typer.Option(help="Whether text files begin with a line of column names.")]
InputFormat = Annotated[str | None, typer.Option(metavar="csv", help="Format of the input, if its name does not tell.")]
OutputFormat = Annotated[
    str | None, typer.Option(metavar="arrow", help="Format of the output, if its name does not tell.")
]
Delimiter = Annotated[str | None, typer.Option(metavar="';'", help="The delimiter of CSV.")]
NullString = Annotated[str, typer.Option(metavar="TEXT", help="The text that means null in CSV input.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", "--columns", metavar="COL,…", help="Keep only these columns. Repeatable."),
]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter", metavar="ROWS", help="Keep only these rows, as \"price > 3 and city in ('Oslo', 'Lima')\"."
    ),
]
Compression = Annotated[
    str | None,
    typer.Option(metavar="CODEC[:LEVEL]", help="Codec of a Parquet output, as zstd:3; the input's by default."),
]
RowGroupRows = Annotated[
    int | None, typer.Option(metavar="ROWS", min=1, help="Rows in a row group of a Parquet output.")
]
DictionaryColumns = Annotated[
    Literal["auto", "all", "none"], typer.Option("--dictionary", help="Columns of a Parquet output with a dictionary.")
]
Delta = Annotated[
    bool, typer.Option("--delta/--no-delta", help="Encode integers of a Parquet output by deltas where it pays.")
]
PageIndex = Annotated[bool, typer.Option("--page-index", help="Write a page index into a Parquet output.")]
PartitionBy = Annotated[
    str | None,
    typer.Option(metavar="COL[,COL]", help="Write a directory, partitioned like day=2024-05-01 by these columns."),
]
FileRows = Annotated[
    int | None, typer.Option(metavar="ROWS", min=1, help="Write a directory of files with this many rows.")
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="local:4|auto|HOST:PORT", help="Run on a Ray cluster, and write a directory of Parquet files."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue a cluster run whose driver was killed.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
RawResults = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the raw results.")]


def where(machine: str) -> str:
    """Resolve ``auto`` where GPUs are needed. Raises ``DeviceError`` if there are none."""
    if machine != "auto":
        return machine
    if local_machine() is None:
        raise no_gpu("use")
    return "local"


def check_beside(option: str, path: Path | None, others: Iterable[Any]) -> None:
    """Raise ``UsageError`` if a report would replace an input or the output."""
    for other in others:
        if path is not None and isinstance(other, str | Path) and os.path.realpath(other) == os.path.realpath(path):
            raise UsageError(f"{option} {path} would replace {other}; name another file")


def parse_types(texts: list[str] | None) -> dict[str, str]:
    """Types by column from ``--types``. Raises ``UsageError``."""
    types = {}
    for text in texts or []:
        with_zone = _WITH_ZONE.fullmatch(text)
        name, kind = with_zone.groups() if with_zone else text.rpartition("=")[::2]
        types[name] = kind
    if not all(types) or not all(types.values()):
        raise UsageError("--types is NAME=TYPE, as id=int64 or when=timestamp[us]")
    return types


def parse_columns(text: str | None) -> list[str] | None:
    """Comma-separated names; a name with commas is quoted, as in a CSV file."""
    if text is None:
        return None
    try:
        return [name for names in csv.reader([text]) for name in names]
    except csv.Error:  # a name with a line break
        return text.split(",")


def parse_gpus(text: str) -> GpuNumbers:
    """GPU numbers from an option. Raises ``UsageError``."""
    if text == "auto":
        return "auto"
    try:
        numbers = [int(part) for part in text.split(",")]
        if any(abs(number) > 1 << 20 for number in numbers):
            raise ValueError
        return numbers
    except ValueError:
        raise UsageError(f"--gpus is 'auto' or numbers like 0,2, not '{text}'") from None


def without_it(machine: str, what: str) -> _core.Machine:
    """A described machine without something, as ``--without`` asks. Raises ``UsageError``."""
    if machine in ("auto", "local"):
        raise UsageError(f"--without {what} is for described machines; name one with --machine")
    return load_machine(machine, without=what)
