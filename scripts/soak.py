"""Run the same scenarios repeatedly by several threads of one process, whose memory must not grow.

    python scripts/soak.py --minutes 60 --threads 8 --output soak.json

Scenarios are those of ``scripts/swarm.py`` without faults, each checked against NumPy. Between rounds, when no thread
works, three sizes are read: what ``malloc`` has allocated and not freed, which must stay within 1 %; and the resident
set before and after ``malloc`` returned free memory to the system, of which it keeps as much as it likes.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import json
import os
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import pyarrow as pa

from swarm_draw import draw
from swarm_scenarios import run

MOST_DIFFERENCE = 0.01
_ORDERS = 4
WARM_UP = 0.1  # share of the time, in which allocators and caches fill up


_MALLINFO2 = (
    "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
)  # fmt: skip


class _MallocInfo(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _MALLINFO2)


def resident_bytes() -> int:
    """The resident set size of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def sample(seconds: float) -> dict[str, float]:
    """The memory that this process holds."""
    gc.collect()
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _MallocInfo
    told = libc.mallinfo2()
    resident = resident_bytes()
    libc.malloc_trim(0)
    pa.default_memory_pool().release_unused()
    return {
        "seconds": round(seconds, 1), "in_use": told.uordblks + told.hblkhd + pa.total_allocated_bytes(),
        "resident": resident, "trimmed": resident_bytes(),
    }  # fmt: skip


def one(scenario: dict[str, Any]) -> str | None:
    """What went wrong, if anything did."""
    try:
        ended = run(scenario)
    except Exception as error:
        return f"{scenario['seed']}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return None if ended in ("right", "too large", "UsageError", "OutOfMemoryError") else ended


def soak(minutes: float, threads: int, count: int, first: int) -> dict[str, Any]:
    """Run rounds until the time is over."""
    scenarios = [draw(number) | {"fault": None} for number in range(first, first + count)]
    began = time.monotonic()
    samples: list[dict[str, float]] = []
    wrong: list[str] = []
    with ThreadPoolExecutor(threads) as pool:
        for number in itertools.count():
            # Each round uses other legal orders. There are few, to keep memory constant: the C library keeps a copy
            # of each value that an environment variable ever had.
            orders = [told | {"order": told["order"] + number % _ORDERS} for told in scenarios]
            wrong += filter(None, pool.map(one, orders))
            samples.append(sample(time.monotonic() - began))
            if samples[-1]["seconds"] > 60 * minutes:
                break
    settled = [told for told in samples if told["seconds"] >= WARM_UP * samples[-1]["seconds"]]
    middle = {name: statistics.median(told[name] for told in settled) for name in ("in_use", "resident", "trimmed")}
    return {
        "threads": threads, "scenarios": count * len(samples), "rounds": len(samples), "wrong": wrong,
        "cpu_hours": time.process_time() / 3600, "threads_left": threading.active_count(),
        "open_files": len(list(Path("/proc/self/fd").iterdir())), "median_bytes": middle,
        "largest_difference": {
            name: max(abs(told[name] / middle[name] - 1) for told in settled) for name in middle
        },
        "samples": samples,
    }  # fmt: skip


def main() -> int:
    """Return 1 if something went wrong, or the memory differed by more than 1 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--count", type=int, default=300, help="scenarios of a round")
    parser.add_argument("--seed", type=int, default=0, help="the first scenario's number")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    results = soak(arguments.minutes, arguments.threads, arguments.count, arguments.seed)
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for line in results["wrong"]:
        print(line, file=sys.stderr)
    print(f"{results['rounds']} rounds, {results['scenarios']} scenarios, {len(results['wrong'])} wrong")
    for name, middle in results["median_bytes"].items():
        print(f"{name}: {middle / 1e6:.1f} MB, at most {results['largest_difference'][name]:.2%} from that")
    return 1 if results["wrong"] or results["largest_difference"]["in_use"] > MOST_DIFFERENCE else 0


if __name__ == "__main__":
    sys.exit(main())
