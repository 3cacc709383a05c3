"""Corruptions planted one at a time, and whether ``verify="all"`` finds each.

    python scripts/plant_corruptions.py --count 10000 --output corruptions.json

``links``    a bit of a copy between the host and GPUs, or between GPUs, of the virtual machine
``gathers``  a value of a row, or a whole row, as rows are gathered
``files``    a bit of a file, when it is complete and before it appears
``matches``  a row of a join that is lost, comes twice, or has another row beside it

A corruption is *found* if the call raises an error, and *harmless* if its result is right all the same: for instance,
if it changed a key that was only sampled. Everything else is *missed*. A corruption depends only on its number.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partialmethod
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

import linkwise
from linkwise import _core
from linkwise.files.writing.output_check import OutputCheck
from linkwise.joining.hash_join import HashMatches
from linkwise.joining.host_join import GpuMatches
from linkwise.joining.matches import HostMatches
from linkwise.runtime import session
from linkwise.sorting.tables import SortedTable

Random = np.random.Generator
KINDS = ("links", "gathers", "files", "matches")
HOWS = ("inner", "left", "right", "full", "semi", "anti")
_VERIFIED: dict[str, Any] = {"verify": "all"}
_MOST_TOLD = 50  # missed corruptions whose numbers are listed


def table_of(random: Random, rows: int, suffix: str = "") -> pa.Table:
    """Repeated keys, and columns of several types."""
    return pa.table(
        {
            "key": pa.array(random.integers(0, rows // 3 + 1, rows), mask=random.random(rows) < 0.05),
            f"number{suffix}": random.normal(size=rows),
            f"text{suffix}": [f"text {value}" * (value % 3) for value in random.integers(0, 1000, rows)],
        }
    )


def canonical(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows in a canonical order."""
    return sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))  # type: ignore[arg-type]


class Planted:
    """What happened to a corruption that was to be planted."""

    def __init__(self) -> None:
        self.is_there = False


# ---- Where they are planted


@contextmanager
def in_links(random: Random, planted: Planted) -> Iterator[None]:
    """Plant in one of the copies that virtual machines make from now on."""
    number, made = int(random.integers(1, 7)), []
    really_make = session._virtual_runtime

    def make(machine: _core.Machine) -> _core.Runtime:
        runtime = really_make(machine)
        assert isinstance(runtime, _core.VirtualRuntime)
        runtime.set_faults(flipped_copy=number)
        made.append(runtime)
        return runtime

    with patch.object(session, "_virtual_runtime", make):
        yield
    planted.is_there = any(runtime.large_copies >= number for runtime in made)


def changed(table: pa.Table, random: Random) -> pa.Table:
    """A table with another value in one place, or with one row in place of another."""
    if not table.num_rows:
        return table
    row, at = int(random.integers(table.num_rows)), int(random.integers(table.num_columns))
    if random.random() < 0.3:
        rows = np.arange(table.num_rows)
        rows[row] = random.integers(table.num_rows)
        return table.take(pa.array(rows))
    values = table.column(at).to_pylist()
    old = values[row]
    values[row] = old + "x" if isinstance(old, str) else 1 if old is None else old + 1
    return table.set_column(at, table.field(at), pa.chunked_array([pa.array(values, table.field(at).type)]))


@contextmanager
def in_gathers(random: Random, planted: Planted) -> Iterator[None]:
    """Plant in rows that are gathered from a table that is sorted."""
    whole, part = SortedTable.whole, SortedTable.part

    def of_all(self: SortedTable, *given: Any) -> pa.Table:
        table = whole(self, *given)
        planted.is_there = table.num_rows > 0
        return changed(table, random)

    def of_some(self: SortedTable, first: int, count: int) -> pa.Table:
        table = part(self, first, count)
        if planted.is_there or not table.num_rows:
            return table
        planted.is_there = True
        return changed(table, random)

    with patch.object(SortedTable, "whole", of_all), patch.object(SortedTable, "part", of_some):
        yield


@contextmanager
def in_files(random: Random, planted: Planted) -> Iterator[None]:
    """Plant in a file that has been written."""
    check = OutputCheck.check

    def flip_and_check(self: OutputCheck, file: Any, name: object) -> None:
        file.flush()
        size = file.seek(0, 2)
        if size:
            at = int(random.integers(size))
            file.seek(at)
            byte = file.read(1)[0] ^ 1 << int(random.integers(8))
            file.seek(at)
            file.write(bytes([byte]))
            planted.is_there = True
        check(self, file, name)

    with patch.object(OutputCheck, "check", flip_and_check):
        yield


def other_rows(rows: Any, random: Random) -> tuple[Any, Any]:
    """Row numbers of both sides with one match lost, made up, or beside another row."""
    left, right = (None if side is None else np.array(side) for side in rows)
    if left is None or not len(left):
        return left, right
    at = int(random.integers(len(left)))
    kind = random.integers(3 if right is not None else 2)
    if kind == 0:
        keep = np.arange(len(left)) != at
    elif kind == 1:
        keep = np.sort(np.append(np.arange(len(left)), at))
    else:
        assert right is not None
        right[at] = right[int(random.integers(len(right)))]
        return left, right
    return left[keep], None if right is None else right[keep]


@contextmanager
def in_matches(random: Random, planted: Planted) -> Iterator[None]:
    """Plant in the row numbers of a join, or in its count."""

    def wrong(self: Any, really: Callable[..., Any], *given: Any) -> Any:
        found = really(self, *given)
        if isinstance(found, int):
            planted.is_there = True
            return found + int(random.choice([-1, 1]))
        if found[0] is None:
            return found
        made = other_rows(found, random)
        planted.is_there = len(found[0]) > 0
        return made

    patches = [
        patch.object(kind, name, partialmethod(wrong, getattr(kind, name)))
        for kind in (HashMatches, HostMatches, GpuMatches)
        for name in ("rows_to_gather", "indices", "count")
        if name in vars(kind)
    ]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


WHERE = {"links": in_links, "gathers": in_gathers, "files": in_files, "matches": in_matches}


# ---- What is called


def sort_of_array(random: Random, folder: Path, how: dict[str, Any]) -> Callable[[], Any]:
    """Sort an array of numbers on simulated GPUs."""
    del folder
    dtype = random.choice(["u4", "i8", "f8"])
    values = random.integers(0, 1000, 3000).astype(dtype)
    strategy = random.choice(["radix", "p2p_merge", "het"])
    return lambda: linkwise.sort(values, machine="dgx-a100", gpus=[0, 1], strategy=str(strategy), **how).tobytes()


def sort_of_table(random: Random, folder: Path, how: dict[str, Any]) -> Callable[[], Any]:
    """Sort a table, on simulated GPUs or on the cores."""
    del folder
    table = table_of(random, 1200)
    where: dict[str, Any] = {"machine": "dgx-a100", "strategy": "radix"} if random.random() < 0.5 else {}
    return lambda: linkwise.sort(table, by=["key", "number"], **where, **how).to_pylist()


def sort_of_file(random: Random, folder: Path, how: dict[str, Any]) -> Callable[[], Any]:
    """Sort a file to Parquet, Arrow or text, in memory or spilled."""
    pq.write_table(table_of(random, 600), folder / "in.parquet")
    out = folder / str(random.choice(["out.parquet", "out.arrow", "out.csv"]))
    limit = "64KiB" if random.random() < 0.3 else None

    def call() -> Any:
        linkwise.sort_file(folder / "in.parquet", out, by=["key", "number"], host_memory_limit=limit, **how)
        return out.read_bytes()

    return call


def join_of_tables(random: Random, folder: Path, how: dict[str, Any]) -> Callable[[], Any]:
    """Join tables in any way, on simulated GPUs or on the cores: rows, row numbers or a count."""
    del folder
    left, right = table_of(random, 300), table_of(random, 200, "_right")
    kind, what = str(random.choice(HOWS)), random.integers(3)
    where: dict[str, Any] = {"machine": "dgx-a100", "strategy": "radix"} if random.random() < 0.5 else {}
    options: dict[str, Any] = {"how": kind, **where, **how}
    if what == 0:
        return lambda: canonical(linkwise.join(left, right, on="key", **options))
    keys = left.select(["key"]), right.select(["key"])
    if what == 1:
        return lambda: linkwise.join_count(*keys, **options)
    return lambda: sorted(zip(*(side.tolist() for side in linkwise.join_indices(*keys, **options)), strict=True))


def join_of_files(random: Random, folder: Path, how: dict[str, Any]) -> Callable[[], Any]:
    """Join files, streamed or partitioned."""
    pq.write_table(table_of(random, 300), folder / "left.parquet")
    pq.write_table(table_of(random, 200, "_right"), folder / "right.parquet")
    out = folder / str(random.choice(["joined.parquet", "joined.csv"]))
    kind, limit = str(random.choice(HOWS)), "64KiB" if random.random() < 0.3 else None

    def call() -> Any:
        linkwise.join_file(
            folder / "left.parquet", folder / "right.parquet", out, "key", how=kind, host_memory_limit=limit, **how
        )
        return canonical(pq.read_table(out) if out.suffix == ".parquet" else csv.read_csv(out))

    return call


CALLS: dict[str, list[Callable[..., Callable[[], Any]]]] = {
    "links": [sort_of_array, sort_of_table, join_of_tables],
    "gathers": [sort_of_table, sort_of_file],
    "files": [sort_of_file, join_of_files],
    "matches": [join_of_tables, join_of_files],
}


def plant(number: int, how: dict[str, Any], only: str = "") -> tuple[str, str, str, str]:
    """Plant the corruption with that number: where, in which call, how that ended, and what was said."""
    random = np.random.default_rng(number)
    kind = only or KINDS[number % len(KINDS)]
    calls = CALLS[kind]
    make = calls[int(random.integers(len(calls)))]
    with tempfile.TemporaryDirectory() as directory:
        call = make(random, Path(directory), how)
        expected, planted = call(), Planted()
        said = ""
        try:
            with WHERE[kind](random, planted):
                found = call()
        except (linkwise.Error, _core.ProgramError) as error:
            end, said = "found", f"{type(error).__name__}: {error}"
        else:
            end = "not there" if not planted.is_there else "harmless" if found == expected else "missed"
    return kind, make.__name__, end, said


def run(count: int, how: dict[str, Any], first: int = 0) -> dict[str, Any]:
    """Plant until ``count`` corruptions took effect, and count how they ended."""
    ends: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    missed, number = [], first
    while sum(sum(of_call.values()) - of_call["not there"] for of_call in ends.values()) < count:
        kind, call, end, _ = plant(number, how)
        ends[kind, call][end] += 1
        if end == "missed":
            missed.append(number)
        number += 1
    table = [{"where": kind, "call": call, **of_call} for (kind, call), of_call in sorted(ends.items())]
    return {"verify": how.get("verify"), "planted": count, "ends": table, "missed": missed[:_MOST_TOLD]}


def main() -> int:
    """Plant corruptions, print the counts, and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--replay", type=int, help="plant the one with this number, and say how it ended")
    parser.add_argument("--default", action="store_true", help="with verify=True, which misses some")
    parser.add_argument("--output", type=Path, help="where the counts go, as JSON")
    options = parser.parse_args()
    how = {} if options.default else _VERIFIED
    if options.replay is not None:
        print(*plant(options.replay, how))
        return 0
    told = run(options.count, how, options.first)
    for each in told["ends"]:
        print(each)
    print("missed:", told["missed"])
    if options.output is not None:
        options.output.write_text(json.dumps(told, indent=1) + "\n")
    return 1 if told["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
