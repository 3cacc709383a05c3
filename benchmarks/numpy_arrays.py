"""Without a GPU: the public call on NumPy arrays beside `np.sort`, in one process and in turn.

    python benchmarks/numpy_arrays.py --rows 2e7 --output numpy.json

Neither changes the array; ours checks order and sum by default. Every result is compared with NumPy's.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np

import linkwise
from harness import timed, times_in_turn
from linkwise.bench.results import commit, cores, now

REPETITIONS = 9


def keys(dtype: str, rows: int) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(1)
    if dtype == "float64":
        return random.standard_normal(rows)
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max, rows, dtype=dtype, endpoint=True)


def run(dtype: str, rows: int) -> dict[str, Any]:
    data = keys(dtype, rows)
    calls = {"linkwise": lambda: linkwise.sort(data), "numpy": lambda: np.sort(data)}
    if not np.array_equal(calls["linkwise"](), calls["numpy"]()):
        raise SystemExit(f"{dtype}: the result is not NumPy's")
    seconds = times_in_turn(calls, REPETITIONS, timed)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    ratio = medians["linkwise"] / medians["numpy"]
    told = ", ".join(f"{name} {1e3 * median:.1f} ms" for name, median in medians.items())
    print(f"{rows:.3g} {dtype}: {told}, ratio {ratio:.2f}", flush=True)
    return {"case": dtype, "rows": rows, "seconds": seconds, "medians": medians, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=2e7)
    parser.add_argument("--types", nargs="+", default=("uint32", "int64", "float64"))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results = [run(dtype, int(options.rows)) for dtype in options.types]
    if options.output:
        told = {"date": now(), "commit": commit(), "machine": cores(), "numpy": np.__version__, "results": results}
        options.output.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
