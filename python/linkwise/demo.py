"""``python -m linkwise.demo``: write a Parquet file, sort it here, verify it, and show what eight GPUs would do."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linkwise._shown import format_bytes
from linkwise.files.sort_file import sort_file
from linkwise.reports.console import console
from linkwise.reports.summary import summary
from linkwise.reports.terminal import print_report
from linkwise.reports.trace import write_trace
from linkwise.sorting.api import sort_and_report


def make_table(rows: int, seed: int = 1) -> pa.Table:
    """Columns of u32, i64 and f64, uniform and skewed."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": random.integers(0, 1 << 32, rows, dtype=np.uint32),
            "ts": random.integers(-(1 << 62), 1 << 62, rows, dtype=np.int64),
            "customer": np.minimum(random.zipf(1.2, rows), (1 << 32) - 1).astype(np.uint32),
            "price": random.lognormal(3, 1, rows),
        }
    )


def sum_of_row_hashes(table: pa.Table) -> int:
    """A number that differs if a row was lost, doubled or mixed with another one; the order of rows does not matter."""
    hashes = np.zeros(table.num_rows, np.uint64)
    for name in table.column_names:
        values = table[name].to_numpy()
        hashes ^= values.view(f"u{values.itemsize}")
        hashes *= np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    return int(hashes.sum())


def verify(before: pa.Table, after: pa.Table, by: str) -> None:
    """Check independently of Linkwise that the key column is in order and that every row was kept."""
    keys = after[by].to_numpy()
    assert bool((keys[:-1] <= keys[1:]).all()), "the result is not in order"
    assert before.num_rows == after.num_rows, "rows are missing"
    assert sum_of_row_hashes(before) == sum_of_row_hashes(after), "the rows are not those of the input"


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--by", default="customer")
    parser.add_argument("--machine", default="h200x8", help="the machine that is simulated beside this one")
    parser.add_argument("--simulated-rows", type=int, default=2_000_000)
    parser.add_argument("--folder", type=Path, default=Path("demo"))
    options = parser.parse_args()
    shown = console()
    options.folder.mkdir(exist_ok=True)
    path, out = options.folder / "orders.parquet", options.folder / "orders.sorted.parquet"

    shown.print(f"[bold]1. Write[/bold] {path}: {options.rows:,} rows of u32, i64, skewed u32 and f64")
    pq.write_table(make_table(options.rows), path)
    shown.print(f"   {format_bytes(path.stat().st_size)} on disk")

    shown.print(f"[bold]2. Sort[/bold] by '{options.by}' into {out}, on what this machine has")
    report = sort_file(path, out, by=options.by)
    shown.print(f"   {summary(report)}")

    shown.print("[bold]3. Verify[/bold] with PyArrow and NumPy")
    table = pq.read_table(path)
    verify(table, pq.read_table(out), options.by)
    shown.print("   in order, and with the rows of the input")

    shown.print(f"[bold]4. Simulate[/bold] {options.machine}, with the first {options.simulated_rows:,} rows")
    result, simulated = sort_and_report(table[: options.simulated_rows], by=options.by, machine=options.machine)
    verify(table[: options.simulated_rows], result, options.by)
    write_trace(options.folder / "trace.json", simulated)
    print_report(shown, simulated)
    shown.print(f"Trace for Perfetto or chrome://tracing: {options.folder / 'trace.json'}")


if __name__ == "__main__":
    main()
