"""From the user's files to the user's file: Linkwise, DuckDB and Polars, each a process of its own, in turn.

    python benchmarks/files.py --folder /dev/shm/bench --output build/bench/files.json

Every output is checked: of a sort, its keys are those of the input in order, and its columns add up to the input's; of
a join, all three have the same rows. Ratios are to the better of the other two. Only ``linkwise sort`` and ``linkwise
join`` with their defaults are called. With ``--bounds``, two more programs run beside them: one that only starts and
loads what Linkwise needs of others, and one that only decodes and encodes (``codec_only.py``), or only decodes where
not all rows come out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from file_cases import CASES, DUCKDB, Case
from linkwise import _core
from linkwise._typing import Array
from linkwise.bench.results import commit, cores, now

RIGHT = "right.parquet"
BOUNDS = ("codec", "decode", "start")
WARM_CODEC = (
    f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
    "import codec_only; codec_only.copy('IN', out='OUT')"
)
# All programs start as they do where packages were installed as usual: with their bytecode, which the first run writes.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def run(command: list[str]) -> tuple[float, float, int]:
    """Wall-clock seconds, CPU seconds, and peak resident bytes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, used.ru_maxrss << 10


def numbers_of(column: pa.ChunkedArray) -> Array:
    """A 64-bit number for each value of a column of any type: its bits, or its length."""
    kind = column.type
    if pa.types.is_decimal(kind):
        words = [
            np.frombuffer(chunk.buffers()[1], np.uint64).reshape(-1, 2)[chunk.offset : chunk.offset + len(chunk)]
            for chunk in column.chunks
        ]
        return np.concatenate(words).sum(axis=1, dtype=np.uint64)
    if pa.types.is_floating(kind):
        return column.cast(pa.float64()).to_numpy().view(np.uint64)
    if not pa.types.is_primitive(kind):
        return pc.binary_length(column).to_numpy().astype(np.uint64)
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us"))
    return column.cast(pa.int64()).to_numpy().view(np.uint64)


def sum_of_rows(table: pa.Table) -> int:
    """A checksum that does not depend on the order of rows, but changes if a value moves to another row."""
    mixed = np.zeros(table.num_rows, np.uint64)
    for column in table.columns:
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15) + numbers_of(column)
    return int(np.sum((mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93), dtype=np.uint64))


def is_in_order(table: pa.Table, keys: list[tuple[str, str]]) -> bool:
    """Whether each row's keys, none of which is null, come before the next row's or are equal to them."""
    last = table.num_rows - 1
    so_far: Any = pa.scalar(True)
    for name, direction in reversed(keys):
        here, following = table[name].slice(0, last), table[name].slice(1)
        comes_before = pc.less if direction == "ascending" else pc.greater
        so_far = pc.or_(comes_before(here, following), pc.and_(pc.equal(here, following), so_far))
    return bool(pc.all(so_far).as_py()) if last > 0 else True


def read(path: Path) -> pa.Table:
    return pq.read_table(path) if path.suffix == ".parquet" else pa.csv.read_csv(path)


def make(case: Case, scale: float, path: Path, right: Path) -> int:
    """Write the input, and tell its rows."""
    if case.right is not None:
        write(case, case.right(int(case.right_rows * scale)), right)
    return write(case, case.make(int(case.rows * scale)), path)


def write(case: Case, table: pa.Table, path: Path) -> int:
    if case.on == "gpus":  # so large that one core would write it for a minute
        import duckdb  # noqa: PLC0415

        duckdb.from_arrow(table).write_parquet(str(path), compression="snappy", row_group_size=1 << 20)
    elif path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=1 << 20)
    else:
        pa.csv.write_csv(table, path)
    return int(table.num_rows)


def check(case: Case, source: Path, path: Path) -> None:
    """The output's keys are in order, and are those of the input; its rows are the input's where all come out."""
    before, after = read(source), read(path)
    if case.below is not None:
        before = before.filter(pc.field(case.below[0]) < case.below[1])
    if not is_in_order(after, case.keys):
        raise SystemExit(f"{case.name}: the keys of {path.name} are not in order")
    if case.unique or case.limit is not None:
        keys = before.select([name for name, _ in case.keys])
        if case.unique:
            keys = keys.group_by(keys.column_names).aggregate([])
        keys = keys.take(pc.sort_indices(keys, case.keys)[: case.limit])
        if not after.select(keys.column_names).cast(keys.schema).equals(keys):
            raise SystemExit(f"{case.name}: the keys of {path.name} are not those of the input")
    elif after.num_rows != before.num_rows or sum_of_rows(after.select(before.column_names)) != sum_of_rows(before):
        raise SystemExit(f"{case.name}: the rows of {path.name} are not those of the input")


def check_joined(case: Case, paths: list[Path]) -> None:
    """All programs have found the same rows."""
    tables = [read(path) for path in paths]
    names = sorted(tables[0].column_names)
    if len({(table.num_rows, sum_of_rows(table.select(names))) for table in tables}) > 1:
        raise SystemExit(f"{case.name}: {', '.join(path.name for path in paths)} have different rows")


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in its own process: this one stays small, as its children's peak begins at its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


class Fresh:
    """A program that runs in a new process each time."""

    def __init__(self, command: list[str]) -> None:
        self._command = command

    def run(self) -> tuple[float, float, int]:
        """Wall-clock seconds, CPU seconds, and peak resident bytes."""
        return run(self._command)

    def end(self) -> None:
        """Nothing is to be ended."""


class Warm:
    """A program that one process runs repeatedly: once per line of input, answering with a line of its cost."""

    _LOOP = """
import resource, sys, time
def work():
    {program}
for _ in sys.stdin:
    used = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    work()
    seconds, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    print('RAN', seconds, cpu, now.ru_maxrss << 10, flush=True)
"""

    def __init__(self, program: str) -> None:
        before, _, work = program.rpartition("; ")
        command = [sys.executable, "-c", before + self._LOOP.format(program=work)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )

    def run(self) -> tuple[float, float, int]:
        """As ``Fresh.run``."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("RAN"):
                seconds, cpu, most = line.split()[1:]
                return float(seconds), float(cpu), int(most)
        raise SystemExit(f"a warm program ended with {self._process.wait()}")

    def end(self) -> None:
        """Let the process end."""
        self._process.communicate()


def programs_of(
    case: Case, folder: Path, spill: Path, *, bounds: bool
) -> tuple[dict[str, Fresh | Warm], Path, dict[str, Path]]:
    """Each program by its name, the input, and the output of each."""
    source = folder / f"in.{case.suffix}"
    ours = f"import linkwise; linkwise.sort_file('IN', 'OUT', {case.linkwise[0]})" if case.warm else "sort IN -o OUT"
    if case.right is not None:
        ours = "join IN RIGHT" if "--count" in case.linkwise else "join IN RIGHT -o OUT"
    texts = {"linkwise": ours, "duckdb": DUCKDB + case.duckdb}
    if case.polars is not None:
        texts["polars"] = case.polars
    if bounds and case.suffix == "parquet":
        all_come_out = case.limit is None and case.below is None and not case.unique and case.each_has_one_match
        needs_keys_only = "--count" in case.linkwise or (case.limit is not None and case.below is None)
        if not needs_keys_only:
            texts["codec" if all_come_out else "decode"] = WARM_CODEC if case.warm else ""
    if bounds and not case.warm:
        texts["start"] = "import numpy, pyarrow.parquet, typer"
    out = {name: folder / f"out-{name}.{case.suffix}" for name in texts}

    def filled(text: str, name: str) -> str:
        places = {"IN": str(source), "RIGHT": str(folder / RIGHT), "OUT": str(out[name]), "SPILL": str(spill)}
        return re.sub("|".join(places), lambda found: places[found[0]], text)

    programs: dict[str, Fresh | Warm] = {}
    for name, text in texts.items():
        if name in ("codec", "decode") and not case.warm:
            files = [source, folder / RIGHT][: 1 + (case.right is not None)]
            files += [out[name]] if name == "codec" else []
            how = [] if name == "codec" else [f"--decode={','.join(decoded_whole(case))}".removesuffix("=")]
            command = [sys.executable, Path(__file__).with_name("codec_only.py"), *how, *files]
            programs[name] = Fresh([*map(str, command)])
        elif case.warm:
            programs[name] = Warm(filled(text, name))
        elif name == "linkwise":
            words = [*text.split(" "), *case.linkwise]
            programs[name] = Fresh([sys.executable, "-m", "linkwise", *(filled(word, name) for word in words)])
        else:
            programs[name] = Fresh([sys.executable, "-c", filled(text, name)])
    return programs, source, out


def decoded_whole(case: Case) -> list[str]:
    """The columns of which all values are needed, where a limit leaves few rows; otherwise none, for all."""
    if case.limit is None:
        return []
    return [*dict.fromkeys([*(name for name, _ in case.keys), *([case.below[0]] if case.below is not None else [])])]


def measure(
    case: Case, folder: Path, spill: Path, scale: float, repetitions: int, *, bounds: bool = False
) -> dict[str, Any]:
    programs, source, out = programs_of(case, folder, spill, bounds=bounds)
    rows = in_own_process(make, case, scale, source, folder / RIGHT)
    told: dict[str, list[tuple[float, float, int]]] = {name: [] for name in programs}
    names = list(programs)
    for turn in range(repetitions + 1):  # the first warms up; each is the first as often as the others
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            out[name].unlink(missing_ok=True)  # the system would free its memory during the run
            told[name].append(programs[name].run())
    for program in programs.values():
        program.end()
    for name in BOUNDS:  # they do not sort
        out.pop(name, folder / name).unlink(missing_ok=True)
    out = {name: path for name, path in out.items() if path.exists()}  # counts write no output
    if case.right is not None and out:
        in_own_process(check_joined, case, list(out.values()))
    for path in out.values() if case.right is None else ():
        in_own_process(check, case, source, path)
    results = {
        name: {
            "seconds": [seconds for seconds, _, _ in runs[1:]], "median": statistics.median(run[0] for run in runs[1:]),
            "cpu_seconds": statistics.median(run[1] for run in runs[1:]), "peak_bytes": max(run[2] for run in runs[1:]),
            "bytes": out[name].stat().st_size if name in out else 0,
        }
        for name, runs in told.items()
    }  # fmt: skip
    others = [result for name, result in results.items() if name not in ("linkwise", *BOUNDS)]
    better, smaller = (min(other[what] for other in others) for what in ("median", "bytes"))
    for path in (source, folder / RIGHT, *out.values()):
        path.unlink(missing_ok=True)
    return {
        "case": case.name, "rows": rows, **results, "ratio": results["linkwise"]["median"] / better,
        "size_ratio": results["linkwise"]["bytes"] / max(smaller, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm/linkwise-bench"), help="best in memory")
    parser.add_argument("--spill", type=Path, default=Path("build/bench"), help="a disk")
    parser.add_argument("--scale", type=float, default=1.0, help="of the rows")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=[case.name for case in CASES])
    parser.add_argument("--bounds", action="store_true", help="also what starting, and decoding and encoding, take")
    parser.add_argument("--output", type=Path, default=Path("build/bench/files.json"))
    options = parser.parse_args()
    for folder in (options.folder, options.spill):
        folder.mkdir(parents=True, exist_ok=True)
    runs_here = [case.name for case in CASES if case.on == "any" or _core.cuda_gpus()]
    results = []
    for case in CASES:
        if case.name not in (options.only or runs_here):
            continue
        result = measure(case, options.folder, options.spill, options.scale, options.repetitions, bounds=options.bounds)
        results.append(result)
        ran = [name for name in ("linkwise", "duckdb", "polars", *BOUNDS) if name in result]
        told = ", ".join(f"{name} {result[name]['median']:.2f} s" for name in ran)
        print(
            f"{case.name}: {told}; {result['ratio']:.2f} × the better, {result['size_ratio']:.3f} × its size",
            flush=True,
        )
    told = {
        "date": now(),
        "commit": commit(),
        "machine": cores(),
        "gpus": [gpu.name for gpu in _core.cuda_gpus()],
        "scale": options.scale,
        "results": results,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
