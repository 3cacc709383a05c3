"""Damaged files, odd arguments, mutated machines and random tables: each ends well, or in one line of an ``Error``.

    python scripts/fuzz.py --seconds 600 --seed 1
    python scripts/fuzz.py --seconds 0 --seed 1 --start 4711    # that iteration again

An iteration depends on nothing but the seed and its number. The folder ``--keep`` has ``work``, the files of the last
one; ``iteration.txt``, which tells where a crash or a hang came from; and the files of each kind's first finding.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import inspect
import io
import json
import resource
import shutil
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import hypothesis
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import linkwise
from linkwise import Error
from linkwise.files import formats
from linkwise.files.reading import readers
from linkwise.runtime.arguments import parse_bytes

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from columns import KEY_TYPES, column_of, cut, expected_rows, row_comparison

PATIENCE = 60  # seconds that an iteration may take
FOLDER = Path(linkwise.__file__).parent / "machines" / "described"
MACHINES = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]
MACHINES += [linkwise.probe("dgx-a100", tests="smallest").as_dict()] * 5  # a profile, of few measurements
NOT_IN = {"parquet": ["runs of"], "csv": ["runs of", "view", "binary"], "tsv": ["runs of", "view", "binary"]}
DTYPES = ["i1", "u2", ">i4", "u8", "f2", "f4", ">f8", "?", "M8[ns]", "m8[D]", "c8", "S3", "U2", "i4,f4", "V5", "2i4"]
NUMBERS = [0, 1, 2, 3, 7, 64, -1, -2, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, 1 << 64, 10**30]
WEIRD: list[Any] = [None, True, 1e-300, 0, 1e300, 10**400, float("nan"), float("inf"), "x", "", [], {}, [[]], {"x": 1}]
NAMES = ["in", "new", "missing/x", "spilled", "loop", "", ".", "..", "a\0b", "x" * 300, "[", "*", "é"]
PIECES = [*"01-.²٣é%K[()],:*?ab \0", "38", "e9", "9" * 400, "MiB", "nan", "int64", "u4", ">i2", "S3", "O", "V0"]
PIECES += ["decimal(", "timestamp[us", "h200x8", "dgx2:2", "summit-node", ".json", "auto", "cpu", "first", "csv"]


def call(here: Path, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    def contents() -> dict[Path, Any]:
        return {path: path.read_bytes() if path.is_file() else None for path in here.rglob("*")}

    before = contents()
    try:
        result = function(*arguments, **options)
    except Error as error:
        result = error
        assert str(error).strip() and len(str(error).splitlines()) == 1, f"not one line: {error}"
    except Exception as error:
        told = [*map(repr, arguments), *(f"{name}={value!r}" for name, value in options.items())]
        error.add_note(f"{function.__name__}({' '.join(', '.join(told).split())})")
        raise
    after = contents()
    if function is linkwise.sort_file and not isinstance(result, Error):  # only the output may have changed
        before[arguments[1].resolve()] = after.get(arguments[1].resolve(), "missing")
    changed = {path.name for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert not changed, f"changed, missing or left behind: {changed}, {result!r}"
    return result


@cache
def pool(name: str) -> list[Any]:
    # Values as the tests draw them; cached, because drawing takes long.
    values: list[Any] = []
    draw: Any = hypothesis.given(KEY_TYPES[name][1])(lambda value: values.extend([value]))
    hypothesis.seed(0)(hypothesis.settings(database=None, deadline=None)(draw))()
    return values


def column(random: Random, name: str, rows: int) -> list[Any]:
    few = random.choices(pool(name), k=random.choice([1, 3, 50]))
    return random.choices(few + [None] * random.randrange(3), k=rows)


def write_table(random: Random, table: pa.Table, form: str) -> bytes:
    sink, piece = io.BytesIO(), random.choice([40, 300, 1 << 20])  # for views, each piece repeats all bytes
    if form == "parquet":
        codec, page = random.choice(["none", "snappy", "zstd", "gzip", "lz4"]), random.choice(["1.0", "2.0"])
        how = {"use_dictionary": random.random() < 0.5, "write_page_checksum": random.random() < 0.3}
        pq.write_table(table, sink, row_group_size=piece, compression=codec, data_page_version=page, **how)
    elif form in ("csv", "tsv"):
        pa.csv.write_csv(table, sink, pa.csv.WriteOptions(delimiter="," if form == "csv" else "\t"))
    else:
        options = pa.ipc.IpcWriteOptions(compression=random.choice([None, "lz4", "zstd"]), unify_dictionaries=True)
        with (pa.ipc.new_stream if form == "stream" else pa.ipc.new_file)(sink, table.schema, options=options) as to:
            to.write_table(table, max_chunksize=piece)
    return sink.getvalue()


def valid_file(random: Random, form: str) -> tuple[bytes, list[str]]:
    rows = random.choice([0, 1, 50, 300, 2000])
    if form in ("npy", "bin"):
        kind, sink = np.dtype(random.choice(DTYPES)), io.BytesIO()
        data = np.frombuffer(random.randbytes(rows * kind.itemsize), kind)
        np.save(sink, data.reshape(-1, 2) if rows > 1 and random.random() < 0.1 else data)
        return (sink.getvalue() if form == "npy" else data.tobytes()), []
    names = [name for name in KEY_TYPES if not any(part in name for part in NOT_IN.get(form, ()))]
    types = random.choices(names, k=random.randint(1, 3))
    columns = {str(i): column_of(KEY_TYPES[name][0], column(random, name, rows)) for i, name in enumerate(types)}
    return write_table(random, pa.table(columns), form), list(columns)


def damaged(random: Random, content: bytes, other: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(random.choice([1, 1, 2, 5])):
        at = random.randrange(len(data) + 1)
        at = random.choice([at, at, at % 300, max(len(data) - at % 300, 0)])  # metadata are at the ends of files
        end = at + random.choice([1, 4, 8, 64, 1000])
        begin, end, instead = random.choice([
            (at, len(data), b""),  # truncated
            (at, end, b""),
            (at, at, data[at:end]),  # twice
            (at, end, random.randbytes(end - at)),
            (at, end, random.choice([b"\0", b"\xff", b'"', b"\n", b","]) * (end - at)),
            (at, at + 1, bytes(byte ^ 1 << random.randrange(8) for byte in data[at : at + 1])),
            (at & ~7, (at & ~7) + 8, random.choice(NUMBERS[:-2]).to_bytes(9, "little", signed=True)[:8]),  # a length
            (at, len(data), other[random.randrange(len(other) + 1) :]),
        ])  # fmt: skip
        data[begin:end] = instead
    return bytes(data)


def files(random: Random, here: Path) -> None:
    form = random.choice(["parquet", "arrow", "stream", "csv", "tsv", "npy", "bin"])
    content, names = valid_file(random, form)
    is_damaged = random.random() < 0.9
    source = here / f"in.{'arrow' if form == 'stream' else form}"
    source.write_bytes(damaged(random, content, valid_file(random, form)[0]) if is_damaged else content)
    out = here / f"out.{random.choice(['parquet', 'arrow', 'csv', 'tsv'] if names else ['npy', 'bin'])}"
    dtype = random.choice(DTYPES) if form == "bin" else None
    how: dict[str, Any] = {"by": random.sample(names, random.randint(1, len(names))) if names else None}
    how |= {"descending": random.random() < 0.5, "nulls": random.choice(["first", "last"])}
    more: dict[str, Any] = {"dtype": dtype, "strategy": "cpu", "temporary_directory": here / "spilled"}
    more |= {"unique": random.random() < 0.2, "limit": random.choice([None, None, 5])}
    if random.random() < 0.5:
        out.write_bytes(b"as it was")
    results: list[Any] = []
    for memory in (None, random.choice(["64KiB", "16KiB", "6KiB"])):
        result = call(here, linkwise.sort_file, source, out, host_memory_limit=memory, **how, **more)
        results.append(result if isinstance(result, Error) else written(out, how))
    failed = sum(isinstance(result, Error) for result in results)
    assert failed == 2 or (failed and is_damaged) or results[0] == results[1], f"not the same: {results!r:.200}"


def written(path: Path, how: dict[str, Any]) -> Any:
    if path.suffix not in (".parquet", ".arrow"):
        return path.read_bytes()
    if (
        path.suffix == ".arrow"
    ):  # our reader would refuse what readers of other formats accept: a time beyond the day, invalid UTF-8
        table = pa.ipc.open_file(path.read_bytes()).read_all()
    else:
        table = readers.open_reader([path], formats.FileOptions()).everything()
    assert linkwise.is_sorted(table, **how), "the result is out of order"
    return len(table)


def arguments(random: Random, here: Path) -> None:
    def text(*good: str) -> str:
        return random.choice(good) if random.random() < 0.6 else "".join(random.choices(PIECES, k=random.randrange(5)))

    def several(make: Callable[[], Any]) -> Any:
        many = [make() for _ in range(random.randrange(4))]
        return random.choice([make(), many, tuple(many)])

    numbers, form = random.choices(NUMBERS, k=3), random.choice(["csv", "bin", "npy"])
    sizes = [random.choice([random.choice(NUMBERS), text("80%", "1MiB", "4096")]) for _ in range(2)]
    odd = {
        "by": several(lambda: text("a", "b")), "descending": several(lambda: random.random() < 0.5), "header": False,
        "nulls": several(lambda: text("first", "last")), "gpus": numbers[: random.randrange(4)], "unique": True,
        "machine": random.choice([str, Path])(text("auto", "dgx-a100", "h200x8")), "input_format": text("csv", "bin"),
        "strategy": text("auto", "cpu", "radix", "het", "p2p_merge"), "key": text("u32", "f64"), "limit": numbers[0],
        "memory_limit": sizes[0], "host_memory_limit": sizes[1], "dtype": text("u4", ">f8"), "value_bytes": numbers[1],
        "column_types": {text("a", "b"): text("int64", "string")}, "output_format": text("csv", "parquet"),
        "temporary_directory": here / random.choice(NAMES),
    }  # fmt: skip
    rows = random.choice([0, 1, 30, 300])
    table = pa.table({"a": [i * 7919 % 101 for i in range(rows)], "b": [f"{i % 5}" for i in range(rows)]})
    values = random.choice([table, table["b"], table["a"].to_numpy(), table.to_pandas(), np.zeros((2, 3))])
    (here / "loop").symlink_to("loop")
    (here / f"in.{form}").write_bytes(write_table(random, table, "csv") if form == "csv" else b"12345678" * rows)
    suffix = random.choice([f".{form}", f".{form}", ".parquet", ""])
    source = f"{here}/" + random.choice([f"in.{form}", f"in.{form}", random.choice(NAMES) + suffix])
    calls: list[Any] = [(linkwise.sort_file, source, here / (random.choice(NAMES) + suffix))] * 2
    calls += [(linkwise.sort, values), (linkwise.top_k, values, numbers[0]), (linkwise.unique, values)]
    calls += [
        (linkwise.is_sorted, values),
        (linkwise.plan_sort, numbers[0]),
        (parse_bytes, sizes[0], 1 << 30),
    ]
    function, *given = random.choice(calls)
    taken = inspect.signature(function).parameters
    # Only some of them: with all at once, one would hide the effects of the others.
    how = {name: value for name, value in odd.items() if name in taken and random.random() < 0.3}
    default = {"by": "a"} if form == "csv" and function is linkwise.sort_file else {}
    call(here, function, *given, **default | how)


def places_in(value: Any) -> list[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *places_in(value[key]))]


def machines(random: Random, here: Path) -> None:
    document, path = copy.deepcopy(random.choice(MACHINES)), here / "machine.json"
    for _ in range(random.choice([1, 1, 2, 4])):
        (within, key), (elsewhere, other) = random.choices(places_in(document), k=2)
        new = [random.choice(WEIRD), elsewhere[other]]
        if isinstance(within[key], int | float | list):
            factor = 2 if isinstance(within[key], list) else random.choice([-1, 3, 1000, 10**30])
            new += [within[key] * factor] * 3
        within[key] = copy.deepcopy(random.choice(new))
        if random.random() < 0.2:
            del within[key]
    text = json.dumps(document).encode()
    if random.random() < 0.1:
        text = random.choice([damaged(random, text, text), b"[" * 100_000, b'{"x":' * 100_000, b"\xff", b"9" * 5000])
    path.write_bytes(text)
    call(here, linkwise.load_profile, path)
    if not isinstance(call(here, linkwise.load_machine, path), Error):
        strategy = random.choice(["auto", "auto", "radix", "het", "p2p_merge"])
        call(here, linkwise.plan_sort, 1_000_000, machine=path, strategy=strategy)
        call(here, linkwise.sort, np.arange(1000), machine=path, strategy=strategy)


def tables(random: Random, here: Path) -> None:
    rows, types = random.choice([0, 1, 2, 10, 100, 300]), random.choices(list(KEY_TYPES), k=random.randint(1, 4))
    plain = [column(random, name, rows) for name in types]
    order = ([random.random() < 0.5 for _ in types], [random.choice(["first", "last"]) for _ in types])
    where = [random.randint(0, rows) for _ in range(random.randrange(3))]
    columns = [cut(column_of(KEY_TYPES[name][0], values), where) for name, values in zip(types, plain, strict=True)]
    table = pa.table([*columns, pa.array(range(rows))], [*map(str, range(len(types))), "row"])
    expected, compare = expected_rows(plain, *order), row_comparison(plain, *order)
    ones = [row for at, row in enumerate(expected) if at == 0 or compare(expected[at - 1], row)]
    how: dict[str, Any] = {"by": table.column_names[:-1], "descending": order[0], "nulls": order[1]}
    calls: list[Any] = [(linkwise.sort, [], expected), (linkwise.top_k, [rows // 3], expected[: rows // 3])]
    for function, given, wanted in [*calls, (linkwise.unique, [], ones)]:
        result = call(here, function, table, *given, strategy="cpu", **how)
        result.validate(full=True)
        found = result["row"].to_pylist()
        assert found == wanted and linkwise.is_sorted(result, **how), f"{function.__name__} of {types} has {found}"


def held() -> str:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return f"{pages * resource.getpagesize() >> 20} MiB and {len(list(Path('/proc/self/fd').iterdir()))} open files"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("seconds", 600.0), ("seed", 0), ("start", 0), ("keep", Path("build/fuzz"))):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    options = parser.parse_args()
    work = options.keep.absolute() / "work"
    work.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))  # damaged lengths must not exhaust memory
    log = (work.parent / "iteration.txt").open("w", encoding="utf-8")
    faulthandler.enable(log)
    print(f"should this end without a summary, {log.name} has the iteration and the trace", flush=True)
    done, findings, warm, end = Counter[str](), Counter[str](), held(), time.monotonic() + options.seconds
    sys.unraisablehook = lambda ignored: findings.update([f"ignored {ignored.exc_value!r} in {ignored.object!r:.60}"])
    for iteration in range(options.start, sys.maxsize):
        kind = (files, files, files, arguments, machines, tables)[iteration % 6]
        place = f"seed {options.seed}, iteration {iteration}, {kind.__name__}"
        log.truncate(log.seek(0))
        print(place, file=log, flush=True)
        shutil.rmtree(work)
        (work / "spilled").mkdir(parents=True)
        faulthandler.dump_traceback_later(PATIENCE, exit=True, file=log)
        try:
            kind(Random(f"{options.seed} {iteration}"), work)
        except Exception as error:
            last = sorted(traceback.extract_tb(error.__traceback__), key=lambda at: "/linkwise/" in at.filename)[-1]
            what = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
            print(f"{place}: {what}: {str(error)[:300]!r} {getattr(error, '__notes__', '')!s:.600}", flush=True)
            if not findings[what]:
                shutil.copytree(work, work.with_name(place), ignore_dangling_symlinks=True, dirs_exist_ok=True)
            findings[what] += 1
        faulthandler.cancel_dump_traceback_later()
        done[kind.__name__] += 1
        warm = held() if done.total() <= 500 else warm
        if time.monotonic() >= end:
            break
    print("; ".join(f"{count} of {name}" for name, count in sorted(done.items())), f"held {warm}, in the end {held()}")
    print(*(f"{count} times: {what}" for what, count in findings.most_common()), sep="\n")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
