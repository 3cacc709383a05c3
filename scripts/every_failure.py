"""Whatever fails, the result is right or there is a one-line error; the output is as before, nothing is left behind,
and the next call works.

    python scripts/every_failure.py                     # every call that files take, once with each kind of failure
    python scripts/every_failure.py --kills 500         # kill -9 at random times
    python scripts/every_failure.py --interrupts 200    # Ctrl-C at random times
    python scripts/every_failure.py --flips 1000        # bits of spilled runs

Each kind of failure is counted by how it ended; ``--output`` writes the counts.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import linkwise
from linkwise.files.spilling.spill_file import SpillFile

ROWS = 20_000
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}
KINDS = {
    "read": ["EIO", "short"],
    "write": ["EIO", "ENOSPC", "short"],
    "open": ["EIO"],
    "mmap": ["EIO"],
    "fsync": ["EIO"],
    "rename": ["EIO"],
    "link": ["EIO"],
    "chmod": ["EIO"],
}
SOURCE = Path(__file__).resolve().parent.parent / "tests" / "programs" / "failing_calls.c"


class LeftBehindError(AssertionError):
    """Something is not as it should be after a failure."""


class Work:
    """Sorts and joins of files in a directory, and whether it is as it should be afterwards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        numbers = np.random.default_rng(1).integers(0, 1 << 40, ROWS)
        table = pa.table({"k": numbers, "text": [f"row {n}" for n in range(ROWS)]})
        pq.write_table(table, folder / "t.parquet", row_group_size=4000, compression="zstd")
        with pa.ipc.new_file(folder / "t.arrow", table.schema) as file:
            file.write_table(table, max_chunksize=3000)
        pyarrow.csv.write_csv(table, folder / "t.csv")
        np.save(folder / "t.npy", numbers)
        pq.write_table(table.select(["k"]), folder / "r.parquet")
        (folder / "spill").mkdir()
        self.outputs = ("out.parquet", "joined.parquet", "out.npy")
        for name in self.outputs:
            (folder / name).write_text("precious")
        self._inputs = self._contents()
        self.expected = table.sort_by("k")

    def _contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}

    def calls(self) -> dict[str, Callable[[], Any]]:
        """What is tried: each writes one output."""

        def sort(source: str, memory: str | None = None) -> Callable[[], Any]:
            out = self.folder / ("out.npy" if source.endswith("npy") else "out.parquet")
            by = None if source.endswith("npy") else "k"
            return lambda: linkwise.sort_file(
                self.folder / source,
                out,
                by=by,
                strategy="cpu",
                host_memory_limit=memory,
                temporary_directory=self.folder / "spill",
            )

        def join(out: str, order: Any, memory: str) -> Callable[[], Any]:
            return lambda: linkwise.join_file(
                self.folder / "t.parquet",
                self.folder / "r.parquet",
                self.folder / out,
                "k",
                order=order,
                strategy="cpu",
                host_memory_limit=memory,
                temporary_directory=self.folder / "spill",
            )

        return {
            "parquet": sort("t.parquet"),
            "parquet, spilled": sort("t.parquet", "256KiB"),
            "arrow": sort("t.arrow"),
            "arrow, spilled": sort("t.arrow", "256KiB"),
            "csv": sort("t.csv"),
            "npy": sort("t.npy"),
            "npy, spilled": sort("t.npy", "64KiB"),
            "join, partitioned": join("joined.parquet", None, "1MiB"),
            "join, spilled": join("out.parquet", "key", "256KiB"),
        }

    def is_right(self) -> bool:
        """Whether the output is right; then restores the outputs for the next call."""
        contents = self._contents()
        written = [name for name in self.outputs if contents[name] != b"precious"]
        if written == ["out.npy"]:
            right = bool((np.load(self.folder / "out.npy") == np.sort(np.load(self.folder / "t.npy"))).all())
        else:
            found = pq.read_table(self.folder / written[0]) if written else self.expected.slice(0, 0)
            if written == ["joined.parquet"]:
                found = found.sort_by("k")  # its rows come in any order
            right = found["k"].equals(self.expected["k"]) and found["text"].equals(self.expected["text"])
        for name in written:
            (self.folder / name).write_text("precious")
        return right and len(written) == 1

    def check_as_before(self, *, may_be_swept: bool = False) -> None:
        """Raise ``LeftBehindError`` unless all is as it was."""
        now = self._contents()
        if may_be_swept:  # the next process removes what a killed one has left
            now = {name: data for name, data in now.items() if not name.endswith("linkwise-tmp")}
        if now != self._inputs or any((self.folder / "spill").iterdir()):
            changed = [name for name in now.keys() | self._inputs.keys() if now.get(name) != self._inputs.get(name)]
            raise LeftBehindError(f"changed or left behind: {sorted(changed)}, {os.listdir(self.folder / 'spill')}")


def tried(work: Work, call: Callable[[], Any], disarm: Callable[[], Any] = lambda: None) -> str:
    """How a call ended. Raises if it ended in a way that it must not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                call()
            finally:
                disarm()
    except linkwise.Error as error:
        if len(str(error).splitlines()) != 1:
            raise
        work.check_as_before()
        return "one line"
    if not work.is_right():
        raise LeftBehindError("a wrong result")
    work.check_as_before()
    return "right"


def failing_calls(work: Work, step: int) -> Counter[str]:
    """Fail the k-th call of each kind, in each way, for every ``step``-th k."""
    library = ctypes.CDLL(os.environ["LD_PRELOAD"])
    folder = str(work.folder).encode()
    ended: Counter[str] = Counter()
    for name, call in work.calls().items():
        tried(work, call)  # loads everything
        for kind, ways in KINDS.items():
            library.arm(folder, kind.encode(), ctypes.c_long(-1), 0)
            call()
            calls = library.calls_since()
            work.is_right()

            def disarm() -> None:
                library.arm(folder, b"", ctypes.c_long(-1), 0)

            for k in range(1, calls + 1, step):
                for way in ways:
                    library.arm(folder, kind.encode(), ctypes.c_long(k), ERRORS.get(way, 0))
                    told = tried(work, call, disarm)
                    ended[f"{name}: {kind}, {way}: {told}"] += 1
        if tried(work, call) != "right":
            raise LeftBehindError("the next call does not work")
    return ended


def flipped_bits(work: Work, count: int) -> Counter[str]:
    """Flip one bit of a spilled run before it is read back."""
    ended: Counter[str] = Counter()
    chance = random.Random(7)
    really_read = SpillFile.read
    call = work.calls()["parquet, spilled"]

    def flip(self: SpillFile, run: Any) -> Any:
        nonlocal left
        if left:
            left = False
            at = chance.randrange(self._end)
            byte = os.pread(self._file.fileno(), 1, at)[0]
            os.pwrite(self._file.fileno(), bytes([byte ^ 1 << chance.randrange(8)]), at)
        return really_read(self, run)

    for _ in range(count):
        left = True
        SpillFile.read = flip  # type: ignore[method-assign]
        try:
            ended[f"flipped bit: {'found' if tried(work, call) == 'one line' else 'overlooked'}"] += 1
        finally:
            SpillFile.read = really_read  # type: ignore[method-assign]
    return ended


def signalled(work: Work, count: int, number: signal.Signals) -> Counter[str]:
    """Send a signal to processes at random times."""
    ended: Counter[str] = Counter()
    chance = random.Random(int(number))
    command = [
        sys.executable,
        "-m",
        "linkwise",
        "sort",
        "t.parquet",
        "-o",
        "out.parquet",
        "-k",
        "k",
        "-S",
        "128KiB",
        "--strategy",
        "cpu",
        "--temporary-directory",
        "spill",
    ]
    began = time.monotonic()
    subprocess.run(command, cwd=work.folder, check=True, capture_output=True)
    longest = 1.1 * (time.monotonic() - began)
    work.is_right()
    for _ in range(count):
        process = subprocess.Popen(
            command, cwd=work.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        time.sleep(chance.uniform(0.05, longest))
        process.send_signal(number)
        errors = process.communicate()[1]
        if process.returncode == 0:
            told = "too late"
            if not work.is_right():
                raise LeftBehindError("a wrong result")
        else:
            told = {-9: "killed", 130: "130 and one line", -2: "before Python listened"}.get(process.returncode, errors)
            if process.returncode == 130 and len(errors.splitlines()) != 1:
                raise LeftBehindError(f"not one line: {errors}")
            if (work.folder / "out.parquet").read_text(errors="replace") != "precious" and not work.is_right():
                raise LeftBehindError("half an output")
        work.check_as_before(may_be_swept=number == signal.SIGKILL)
        ended[f"{number.name}: {told}"] += 1
    subprocess.run(command, cwd=work.folder, check=True, capture_output=True)
    if not work.is_right():
        raise LeftBehindError("the next call does not work")
    work.check_as_before()
    return ended


def preloaded(folder: Path) -> None:
    """Start again with the library that makes calls fail."""
    library = folder / "failing_calls.so"
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("g++")
    if compiler is None:
        sys.exit("a C compiler is needed")
    subprocess.run([compiler, "-xc", "-shared", "-fPIC", "-O1", "-w", "-o", library, SOURCE, "-ldl"], check=True)
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"LD_PRELOAD": str(library)})


def main() -> None:
    """Print and write how each kind of failure ended; anything else is an exception."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=int, default=1, help="fail every step-th call of each kind; 0: none")
    parser.add_argument("--flips", type=int, default=0)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--interrupts", type=int, default=0)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if arguments.step and "failing_calls" not in os.environ.get("LD_PRELOAD", ""):
            preloaded(Path(tempfile.mkdtemp(prefix="failing_calls-")))
        folder = Path(name).resolve() / "files"
        folder.mkdir()
        work = Work(folder)
        ended = failing_calls(work, arguments.step) if arguments.step else Counter()
        os.environ.pop("LD_PRELOAD", None)
        ended += flipped_bits(work, arguments.flips)
        ended += signalled(work, arguments.kills, signal.SIGKILL)
        ended += signalled(work, arguments.interrupts, signal.SIGINT)
    for told, times in sorted(ended.items()):
        print(f"{times:6} {told}")
    if arguments.output:
        arguments.output.write_text(json.dumps(dict(sorted(ended.items())), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
