"""Damaged files, odd arguments, mutated machines and random tables: each ends well, or in one line of an ``Error``.

    python scripts/fuzz.py --seconds 600 --seed 1
    python scripts/fuzz.py --seed 1 --start 4711 --count 1    # that iteration again

An iteration depends on nothing but the seed and its number, and uses no GPU. The folder ``--keep`` has
``iteration.txt``, which tells where a crash or a hang came from, ``work``, the files of the last iteration, and those
of the first finding of each kind.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import io
import itertools
import json
import os
import resource
import shutil
import struct
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any, TextIO

import hypothesis
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import linkwise
from linkwise.file_formats import FileOptions
from linkwise.file_readers import open_reader
from linkwise.planning import parse_bytes

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from columns import KEY_TYPES, column_of, cut, expected_rows, row_comparison

PATIENCE = 60  # seconds that an iteration may take
MOST_MEMORY = 16 << 30  # a length in a damaged file must not take the machine down
ONLY_IN_ARROW = ("runs of integers", "string_view", "binary_view")
DTYPES = ["i1", "u2", ">i4", "u8", "f2", "f4", ">f8", "?", "M8[ns]", "m8[D]", "c8", "S3", "U2", "i4,f4", "V5", "2i4"]
NUMBERS = [0, 1, 2, 3, 7, 64, -1, -2, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, 1 << 64, 10**30, 10**400]
WEIRD = [None, True, -1, 0, 1e-300, 1e300, 10**400, float("nan"), float("inf"), "x", "", [], {}, [[]], {"x": 1}]
NAMES = ["in", "new", "missing/x", "folder", "loop", "", ".", "..", "a\0b", "two\nlines", "x" * 300, "[", "*", "é"]
PIECES = [
    *("0", "1", "38", "9" * 400, "-", ".", "e9", "²", "٣", " ", "\n", "\0", "é", "%", "K", "MiB", "TB", "[", "(", ")"),
    *("]", ",", ":", "*", "?", "nan", "int64", "u4", ">i2", "S3", "O", "V0", "decimal(", "timestamp[us", "x" * 300),
    *("h200x8", "dgx2:2", "summit-node:2", ".json", "auto", "cpu", "radix", "parquet", "csv", "npy", "first", "a"),
]


class FindingError(Exception):
    """Something other than an exception that must not be."""


@dataclass
class Case:
    """What an iteration has: its random numbers, a folder, and what it called last."""

    random: Random
    folder: Path
    called: str = ""

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the function returns, or the ``Error`` that it may raise."""
        told = [*map(repr, arguments), *(f"{name}={value!r}" for name, value in options.items())]
        self.called = f"{function.__name__}({', '.join(told)})"
        try:
            return function(*arguments, **options)
        except linkwise.Error as error:
            if not str(error).strip() or len(str(error).splitlines()) != 1:
                raise FindingError("a message is not one line") from error
            return error

    def sort_file(self, source: Any, out: Path, **options: Any) -> Any:
        """Sort a file: nothing but the output may change, and that only by a success."""
        before = self._files()
        result = self.call(linkwise.sort_file, source, out, **options)
        after = self._files()
        if not isinstance(result, linkwise.Error):
            before[out.resolve()] = after.get(out.resolve(), "missing")
        for path in before.keys() | after.keys():
            if before.get(path) != after.get(path):
                what = "changed" if path in before else "left behind"
                raise FindingError(f"{path.parent.name}/{path.name} was {what}")
        return result

    def _files(self) -> dict[Path, Any]:
        return {path: path.read_bytes() if path.is_file() else None for path in self.folder.rglob("*")}


@cache
def pool(name: str) -> list[Any]:
    """Values of a type, as the tests draw them; drawing anew each time would take most of the time."""
    values: list[Any] = []
    quiet = hypothesis.settings(database=None, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
    hypothesis.seed(0)(quiet(hypothesis.given(KEY_TYPES[name][1])(values.append)))()
    return values


def column(random: Random, name: str, rows: int) -> list[Any]:
    """Values of a type, often few different ones, with nulls in some columns."""
    return random.choices(random.choices(pool(name), k=random.choice([1, 3, 50])) + [None] * random.randrange(3), k=rows)


def write_table(random: Random, table: pa.Table, form: str) -> bytes:
    """A file with a table: of a format, in one of its many ways."""
    sink, piece = io.BytesIO(), random.choice([3, 100, 1 << 20])
    if form == "parquet":
        pq.write_table(
            table, sink, row_group_size=piece, compression=random.choice(["none", "snappy", "zstd", "gzip", "lz4"]),
            use_dictionary=random.random() < 0.5, data_page_version=random.choice(["1.0", "2.0"]),
            write_page_checksum=random.random() < 0.3, data_page_size=random.choice([64, 1 << 20]),
        )  # fmt: skip
    elif form in ("csv", "tsv"):
        pa.csv.write_csv(table, sink, pa.csv.WriteOptions(delimiter="," if form == "csv" else "\t"))
    else:
        options = pa.ipc.IpcWriteOptions(compression=random.choice([None, None, "lz4", "zstd"]), unify_dictionaries=True)
        with (pa.ipc.new_stream if form == "stream" else pa.ipc.new_file)(sink, table.schema, options=options) as stream:
            stream.write_table(table, max_chunksize=piece)
    return sink.getvalue()


def valid_file(random: Random, form: str) -> tuple[bytes, list[str]]:
    """The bytes of a small file, and the names of its columns."""
    rows = random.choice([0, 1, 50, 1000, 4000])
    if form in ("npy", "bin"):
        kind = np.dtype(random.choice(DTYPES))
        data = np.frombuffer(random.randbytes(rows * kind.itemsize), kind)
        sink = io.BytesIO()
        np.save(sink, data.reshape(-1, 2) if rows > 1 and random.random() < 0.1 else data)
        return (sink.getvalue() if form == "npy" else data.tobytes()), []
    names = [name for name in KEY_TYPES if form in ("arrow", "stream") or name not in ONLY_IN_ARROW]
    kinds = dict(enumerate(random.choices(names, k=random.randint(1, 3))))
    columns = {f"{i}": column_of(KEY_TYPES[name][0], column(random, name, rows)) for i, name in kinds.items()}
    return write_table(random, pa.table(columns), form), list(columns)


def damaged(random: Random, content: bytes, other: bytes) -> bytes:
    """The bytes after some accidents, often near one of the ends, where formats keep what describes the rest."""
    data = bytearray(content)
    for _ in range(random.choice([1, 1, 2, 5])):
        at = random.randrange(len(data) + 1)
        at = random.choice([at, at, at % 300, max(len(data) - at % 300, 0)])
        length = random.choice([1, 4, 8, 64, 1000])
        number = struct.pack("<q", random.choice([-1, 1 << 20, 1 << 31, 1 << 40, 1 << 62]))
        begin, end, instead = random.choice([
            (at, len(data), b""),  # truncated
            (at, at + length, b""),
            (at, at, data[at : at + length]),  # twice
            (at, at + length, random.randbytes(length)),
            (at, at + length, random.choice([b"\0", b"\xff", b'"', b"\n", b","]) * length),
            (at, at + 1, bytes(byte ^ 1 << random.randrange(8) for byte in data[at : at + 1])),
            (at & ~7, (at & ~7) + 8, number),  # a length or an offset
            (at, len(data), other[random.randrange(len(other) + 1) :]),
        ])  # fmt: skip
        data[begin:end] = instead
    return bytes(data)


def files(case: Case) -> None:
    """Sort a damaged file, in memory and by spilled runs, with the same result."""
    random = case.random
    form = random.choice(["parquet", "arrow", "stream", "csv", "tsv", "npy", "bin"])
    suffix = "arrow" if form == "stream" else form
    content, names = valid_file(random, form)
    is_damaged = random.random() < 0.9
    source, out = case.folder / f"in.{suffix}", case.folder / f"out.{suffix}"
    source.write_bytes(damaged(random, content, valid_file(random, form)[0]) if is_damaged else content)
    if random.random() < 0.5:
        out = out.with_suffix(f".{random.choice(['parquet', 'arrow', 'csv', 'tsv'] if names else ['npy', 'bin'])}")
    order: dict[str, Any] = {"descending": random.random() < 0.5}
    if names:
        order |= {"by": random.sample(names, random.randint(1, len(names)))}
    dtype = random.choice(DTYPES) if form == "bin" else None
    wanted = {"unique": random.random() < 0.2, "limit": random.choice([None, None, 5]), "dtype": dtype, **order}
    spilled = case.folder / "spilled"
    spilled.mkdir()
    results: list[Any] = []
    for memory in (None, random.choice(["64KiB", "16KiB", "2KiB"])):
        out.unlink(missing_ok=True)
        if random.random() < 0.5:
            out.write_bytes(b"as it was")
        limits = {"host_memory_limit": memory, "temporary_directory": spilled}
        result = case.sort_file(source, out, strategy="cpu", **limits, **wanted)
        results.append(result if isinstance(result, linkwise.Error) else written(out, dtype, order))
    failed = [isinstance(result, linkwise.Error) for result in results]
    if failed == [False, False] and results[0] != results[1] or failed.count(True) == 1 and not is_damaged:
        raise FindingError(f"in memory {results[0]!r:.80}, spilled {results[1]!r:.80}")


def written(path: Path, dtype: str | None, order: dict[str, Any]) -> Any:
    """What a file has, as something that can be compared. It must be readable, and in order."""
    if path.suffix in (".csv", ".tsv"):  # which have lost their types
        return path.read_bytes()
    contents = open_reader([path], FileOptions(dtype)).everything()
    if not linkwise.is_sorted(contents, **order):
        raise FindingError("the result is out of order")
    try:
        return repr(contents.to_pylist()) if isinstance(contents, pa.Table) else contents.tobytes()
    except (ValueError, OverflowError):  # damaged text, or a date that Python does not have
        return len(contents)


def arguments(case: Case) -> None:
    """Call something with arguments of the right types, whatever their values."""
    random = case.random

    def text(*good: str) -> str:
        return random.choice(good) if random.random() < 0.6 else "".join(random.choices(PIECES, k=random.randrange(5)))

    def several(make: Callable[[], Any]) -> Any:
        many = [make() for _ in range(random.randrange(4))]
        return random.choice([make(), many, tuple(many)])

    def size() -> Any:
        return random.choice([random.choice(NUMBERS), text("80%", "1MiB", "4096")])

    def some(**options: Any) -> dict[str, Any]:  # with all of them, one would hide what the others do
        return {name: value for name, value in options.items() if random.random() < 0.3}

    order = some(
        by=several(lambda: text("a", "b")), descending=several(lambda: random.random() < 0.5),
        nulls=several(lambda: text("first", "last")),
    )  # fmt: skip
    machine = text("auto", "dgx-a100", "h200x8", "delta-d22x")
    how = some(
        machine=random.choice([machine, Path(machine)]), strategy=text("auto", "cpu", "radix", "het", "p2p_merge"),
        gpus=random.choice(["auto", random.choices(NUMBERS, k=random.randrange(4))]), memory_limit=size(),
    )  # fmt: skip
    of_files = some(
        limit=random.choice(NUMBERS), unique=random.random() < 0.5, dtype=text("u4", ">f8", "M8[ns]"),
        column_types={text("a", "b"): text("int64", "string", "decimal(10,2)")}, header=random.random() < 0.5,
        input_format=text("csv", "bin"), output_format=text("csv", "parquet", "npy"), host_memory_limit=size(),
        temporary_directory=case.folder / random.choice(NAMES),
    )  # fmt: skip
    rows = random.choice([0, 1, 30, 300])
    table = pa.table({"a": [i * 7919 % 101 for i in range(rows)], "b": [f"{i % 5}" for i in range(rows)]})
    values = random.choice([table, table["b"], table["a"].to_numpy(), table.to_pandas(), np.zeros((2, 3))])
    form = random.choice(["csv", "bin", "npy"])
    suffix = random.choice([f".{form}", f".{form}", ".parquet", ""])
    (case.folder / "folder").mkdir()
    (case.folder / "loop").symlink_to("loop")
    (case.folder / f"in.{form}").write_bytes(write_table(random, table, "csv") if form == "csv" else bytes(8 * rows))
    source = f"{case.folder}/" + (random.choice(NAMES) + suffix if random.random() < 0.3 else f"in.{form}")
    by = {"by": "a"} if form == "csv" else {}
    number = random.choice(NUMBERS)
    random.choice([
        lambda: case.call(parse_bytes, size(), 1 << 30),
        lambda: case.call(linkwise.sort, values, **order, **how),
        lambda: case.call(linkwise.top_k, values, number, **order, **how),
        lambda: case.call(linkwise.unique, values, **order, **how),
        lambda: case.call(linkwise.is_sorted, values, **order),
        lambda: case.call(linkwise.plan_sort, number, text("u32", "f64"), value_bytes=random.choice(NUMBERS), **how),
        lambda: case.sort_file(source, case.folder / (random.choice(NAMES) + suffix), **by | order | how | of_files),
    ])()  # fmt: skip


@cache
def descriptions() -> list[Any]:
    """The machines that come with Linkwise, and a profile, as they are written."""
    folder = resources.files("linkwise") / "machines"
    found = [json.loads(path.read_text(encoding="utf-8")) for path in folder.iterdir() if path.name.endswith(".json")]
    profile = json.loads(json.dumps(linkwise.probe("dgx-a100").as_dict()))
    return [*found, *[profile | {"measurements": profile["measurements"][:3]}] * 5]


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a parsed JSON file, with each of its keys."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places_in(value[key])


def machines(case: Case) -> None:
    """Load a mutated description of a machine or a profile, and plan and sort with it."""
    random, path = case.random, case.folder / "machine.json"
    document = copy.deepcopy(random.choice(descriptions()))
    for _ in range(random.choice([1, 1, 2, 4])):
        within, key = random.choice(list(places_in(document)))
        elsewhere, other = random.choice(list(places_in(document)))
        new = random.choice([random.choice(WEIRD), copy.deepcopy(elsewhere[other]), None])
        if isinstance(within[key], int | float) and random.random() < 0.5:
            new = within[key] * random.choice([1e-30, 0.5, -1, 3, 1e30])
        if isinstance(within, list) and random.random() < 0.3:
            within.insert(key, new if random.random() < 0.5 else copy.deepcopy(within[key]))
        elif random.random() < 0.2:
            del within[key]
        else:
            within[key] = new
    text = json.dumps(document).encode()
    if random.random() < 0.1:
        deep = [opening * 100_000 for opening in (b"[", b'{"x":')]
        text = random.choice([damaged(random, text, text), *deep, b"\xff", b"9" * 5000])
    path.write_bytes(text)
    profile = case.call(linkwise.load_profile, path)
    if isinstance(profile, linkwise.Profile):
        json.dumps(profile.as_dict(), allow_nan=False)
    if isinstance(case.call(linkwise.load_machine, path), linkwise.Machine):
        strategy = random.choice(["auto", "auto", "radix", "het", "p2p_merge"])
        case.call(linkwise.plan_sort, 1_000_000, machine=path, strategy=strategy)
        case.call(linkwise.sort, np.arange(1000), machine=path, strategy=strategy)


def tables(case: Case) -> None:
    """Sort a random table, against Python's order of the same rows."""
    random = case.random
    rows = random.choice([0, 1, 2, 10, 100, 300])
    types = random.choices(list(KEY_TYPES), k=random.randint(1, 4))
    plain = [column(random, name, rows) for name in types]
    order = ([random.random() < 0.5 for _ in types], [random.choice(["first", "last"]) for _ in types])
    where = [random.randint(0, rows) for _ in range(random.randrange(3))]
    columns = [cut(column_of(KEY_TYPES[name][0], values), where) for name, values in zip(types, plain, strict=True)]
    names = [f"key {i}" for i in range(len(types))]
    table = pa.table([*columns, pa.array(range(rows))], [*names, "row"])
    expected = expected_rows(plain, *order)
    compare = row_comparison(plain, *order)
    ones = [row for at, row in enumerate(expected) if at == 0 or compare(expected[at - 1], row)]
    how: dict[str, Any] = {"by": names, "descending": order[0], "nulls": order[1]}
    k = random.randint(0, rows + 1)
    for function, given, wanted in (
        (linkwise.sort, (), expected), (linkwise.top_k, (k,), expected[:k]), (linkwise.unique, (), ones)
    ):  # fmt: skip
        result = case.call(function, table, *given, strategy="cpu", **how)
        result.validate(full=True)
        if result["row"].to_pylist() != wanted or result.schema != table.schema:
            raise FindingError(f"{function.__name__} has the wrong rows, of {types}")
        if not linkwise.is_sorted(result, **how):
            raise FindingError(f"is_sorted is wrong about {types}")


KINDS = (files, files, files, arguments, machines, tables)


def held() -> str:
    """What the process has by now; nothing should grow."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return f"{pages * resource.getpagesize() >> 20} MiB and {len(os.listdir('/proc/self/fd'))} open files"


def where(error: BaseException) -> str:
    """The exception and its place in Linkwise, which tell one kind of finding from another."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = [frame for frame in frames if "/linkwise/" in frame.filename] or frames
    return f"{type(error).__name__} at {Path(inner[-1].filename).name}:{inner[-1].lineno}"
