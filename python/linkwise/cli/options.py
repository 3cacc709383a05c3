"""Options that several commands have."""

from __future__ import annotations

import csv
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

MOST_SHOWN = 12
"""Rows of a table that is sorted by what matters."""

Output = Annotated[
    Any,  # a path or a remote file, or none: typer takes no two types
    typer.Option("-o", "--output", parser=target_of, metavar="OUT", help="Where the result goes; - for stdout."),
]

Machine = Annotated[
    str, typer.Option(help="auto: GPUs, or else cores; local: GPUs; a described machine to simulate ('machine list').")
]

Gpus = Annotated[str, typer.Option(metavar="0,2|auto", help="GPUs, in this order.")]
Verify = Annotated[
    Literal["yes", "all", "no"],
    typer.Option(help="Check the result; all: on the host too, and the file by reading it again before it appears."),
]
Strategy = Annotated[Literal["auto", "radix", "p2p_merge", "het", "cpu"], typer.Option(help="How to sort.")]
Plan = Annotated[
    str | None,
    typer.Option(
        metavar="WORDS|FILE.json", help="What is pinned, as 'het,buffers=3,eager', or a plan from 'linkwise plan -o'."
    ),
]
MemoryLimit = Annotated[str | None, typer.Option(metavar="4GiB|80%", help="Memory to use on each GPU.")]

HostMemory = Annotated[
    str | None,
    typer.Option("--host-memory", "-S", metavar="64GiB|80%", help="Host memory to use: what does not fit is spilled."),
]

TemporaryDirectory = Annotated[
    Path | None, typer.Option("--temporary-directory", "-T", metavar="DIR", help="Where to spill.")
]

Types = Annotated[
    list[str] | None,
    typer.Option(
        "--types", "--type", metavar="COL=TYPE", help="The type of a column of text, as id=int64; several, one by one."
    ),
]

Force = Annotated[
    bool, typer.Option("--force", help="Replace a read-only output; begin though the disk seems too small.")
]

Header = Annotated[bool, typer.Option(help="Whether text begins with the columns' names.")]
InputFormat = Annotated[str | None, typer.Option(metavar="csv", help="If the name does not tell.")]
OutputFormat = Annotated[str | None, typer.Option(metavar="arrow", help="If the name does not tell.")]
Delimiter = Annotated[str | None, typer.Option(metavar="';'", help="Between the values of CSV.")]
NullString = Annotated[str, typer.Option(metavar="TEXT", help="What stands for null in CSV that is read.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", "--columns", metavar="COL,…", help="Only these columns; several, one by one."),
]
Filter = Annotated[
    str | None,
    typer.Option("--filter", metavar="ROWS", help="Only such rows, as \"price > 3 and city in ('Oslo', 'Lima')\"."),
]
Compression = Annotated[
    str | None, typer.Option(metavar="CODEC[:LEVEL]", help="Of a Parquet output, as zstd:3; the input's unless given.")
]
RowGroupRows = Annotated[int | None, typer.Option(metavar="ROWS", min=1, help="Of a row group of a Parquet output.")]
DictionaryColumns = Annotated[
    Literal["auto", "all", "none"], typer.Option("--dictionary", help="Which columns of a Parquet output have one.")
]
PageIndex = Annotated[bool, typer.Option("--page-index", help="Have an index of pages in a Parquet output.")]
PartitionBy = Annotated[
    str | None,
    typer.Option(metavar="COL[,COL]", help="Write a directory, with one like day=2024-05-01 for each value."),
]
FileRows = Annotated[
    int | None, typer.Option(metavar="ROWS", min=1, help="Write a directory of files of so many rows.")
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="local:4|auto|HOST:PORT", help="Work over many nodes, on Ray, and write a directory of Parquet files."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a run of a cluster whose driver was killed.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
RawResults = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the raw results.")]


def where(machine: str) -> str:
    """``auto`` as what it means where GPUs are needed. Raises ``DeviceError`` if there are none."""
    if machine != "auto":
        return machine
    if local_machine() is None:
        raise no_gpu("use")
    return "local"


def parse_types(texts: list[str] | None) -> dict[str, str]:
    """Types by column from ``--types``. Raises ``UsageError``."""
    types = dict(text.rpartition("=")[::2] for text in texts or [])
    if not all(types) or not all(types.values()):
        raise UsageError("--types is NAME=TYPE, as id=int64 or when=timestamp[us]")
    return types


def parse_columns(text: str | None) -> list[str] | None:
    """Names between commas; one that has commas stands in quotes, as in a CSV file."""
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
