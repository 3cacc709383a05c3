"""How much memory sorts of files really take, by format, codec and limit.

    python scripts/peak_memory.py --mebibytes 400 --output memory.json

Each file is sorted by its own process, whose peak resident memory is reported beside what it had when all code was
loaded and nothing was read.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

LIMITS = (32, 64, 128, 256)
PROGRAM = """
import json, resource, sys
from pathlib import Path
import numpy as np, pyarrow.parquet, pyarrow.csv, linkwise
def peak(): return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10
source, out, by, limit, dtype = sys.argv[1:6]
linkwise.sort(np.arange(100000)[::-1].copy(), strategy="cpu")
linkwise.sort_file(sys.argv[6], out, by=by or None, strategy="cpu", dtype=dtype or None)
open("/proc/self/clear_refs", "w").write("5")
before = peak()
linkwise.sort_file(source, out, by=by or None, strategy="cpu", host_memory_limit=f"{limit}MiB", dtype=dtype or None)
print(json.dumps({"before": before, "peak": peak()}))
"""


def write_all(folder: Path, mebibytes: int, *, small: bool) -> dict[str, tuple[Path, str]]:
    """Files by what they are, and what each is sorted by."""
    rows = 1000 if small else (mebibytes << 20) // 40
    random = np.random.default_rng(1)
    table = pa.table(
        {
            "k": random.integers(0, 1 << 60, rows),
            "x": random.random(rows),
            "text": pa.array(np.char.add("some text ", random.integers(0, 1 << 30, rows).astype("U"))),
        }
    )
    found: dict[str, tuple[Path, str]] = {}
    for codec in ("none", "snappy", "zstd"):
        found[f"parquet, {codec}"] = folder / f"{codec}.parquet", "k"
        pq.write_table(table, folder / f"{codec}.parquet", compression=codec)
    found["parquet, zstd, one row group"] = folder / "one.parquet", "k"
    pq.write_table(table, folder / "one.parquet", compression="zstd", row_group_size=rows)
    for codec in (None, "lz4", "zstd"):
        found[f"arrow, {codec or 'none'}"] = folder / f"{codec}.arrow", "k"
        with pa.ipc.new_file(
            folder / f"{codec}.arrow", table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)
        ) as file:
            file.write_table(table, max_chunksize=65_536)
    found["arrow, none, one batch"] = folder / "one.arrow", "k"
    with pa.ipc.new_file(folder / "one.arrow", table.schema) as file:
        file.write_table(table)
    found["csv"] = folder / "t.csv", "k"
    pyarrow.csv.write_csv(table, folder / "t.csv")
    numbers = random.integers(0, 1 << 60, 5 * rows)
    found["npy"], found["bin"] = (folder / "t.npy", ""), (folder / "t.bin", "")
    np.save(folder / "t.npy", numbers)
    numbers.tofile(folder / "t.bin")
    return found


def main() -> None:
    """Print and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=400, help="of each table in memory")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    measured = []
    with tempfile.TemporaryDirectory() as name:
        folder, little = Path(name) / "large", Path(name) / "small"
        folder.mkdir(), little.mkdir()
        small = write_all(little, 0, small=True)
        for what, (path, by) in write_all(folder, arguments.mebibytes, small=False).items():
            for limit in LIMITS:
                out = folder / f"out{path.suffix}"
                dtype = "int64" if path.suffix == ".bin" else ""
                told = [path, out, by, str(limit), dtype, small[what][0]]
                done = subprocess.run(
                    [sys.executable, "-c", PROGRAM, *told], capture_output=True, text=True, check=False
                )
                if done.returncode:
                    print(f"{what}, {limit} MiB: {done.stderr.strip().splitlines()[-1]}")
                    continue
                row = {"file": what, "limit": limit << 20, **json.loads(done.stdout)}
                measured.append(row)
                taken = (row["peak"] - row["before"]) / (1 << 20)
                print(
                    f"{what}, {limit} MiB: {taken:.0f} MiB, {taken / limit:.2f} × (from {row['before'] >> 20} MiB)",
                    flush=True,
                )
    if arguments.output:
        arguments.output.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
