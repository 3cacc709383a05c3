"""One GPU: the public call on a CuPy array beside CuPy's, torch's and cuDF's sorts, where these are installed, in one
process and in turn. With --gpus, the same keys in an array on each of several.

    python benchmarks/local_sorts.py --rows 1e9 --output local.json

The others check nothing; torch keeps the order of equal keys and gives their positions too. A payload comes along in
a stable order: of CuPy's arrays by argsort and two takes. The result of each case is compared with CuPy's; of several
GPUs, order and sum are looked at.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
import numpy as np

import cudf_peer
import linkwise
from device_sorts import check_parts
from harness import times_in_turn, write_results

REPETITIONS = 9
CASES = (
    "uint64 uniform", "int64 below 10⁹", "float64 normal", "timestamps of a year", "uint64 in order",
    "uint64 of 10⁶ values", "uint64 equal", "uint64 few bits set", "uint32 uniform",
    "uint32 with uint32 payload", "uint64 with uint64 payload",
)  # fmt: skip
_YEAR = 365 * 86_400 * 10**9


def keys(case: str, rows: int) -> Any:
    """The case's keys, made on the GPU."""
    random = cupy.random.default_rng(1)
    words = random.integers(0, 1 << 32, rows * (1 if case.startswith("uint32") else 2), dtype=cupy.uint32)
    uniform = words if case.startswith("uint32") else words.view(cupy.uint64)
    made: dict[str, Callable[[], Any]] = {
        "int64 below 10⁹": lambda: (uniform % np.uint64(10**9)).astype(cupy.int64),
        "float64 normal": lambda: random.standard_normal(rows),
        "timestamps of a year": lambda: (uniform % np.uint64(_YEAR)).astype(cupy.int64) + np.int64(17 * 10**17),
        "uint64 in order": lambda: cupy.arange(rows, dtype=cupy.uint64),
        "uint64 of 10⁶ values": lambda: (uniform % np.uint64(10**6)) * np.uint64(0x9E3779B97F4A7C15),
        "uint64 equal": lambda: cupy.full(rows, 77, dtype=cupy.uint64),
        "uint64 few bits set": lambda: uniform & (uniform >> np.uint64(17)) & (uniform >> np.uint64(29)),
    }
    return made.get(case, lambda: uniform)()


def wait_for_all() -> None:
    for gpu in range(cupy.cuda.runtime.getDeviceCount()):
        cupy.cuda.Device(gpu).synchronize()


def timed(call: Callable[[], Any]) -> float:
    """Seconds until the GPUs are done."""
    wait_for_all()
    start = time.perf_counter()
    result = call()
    wait_for_all()
    seconds = time.perf_counter() - start
    del result
    return seconds


def payload_of(case: str, data: Any) -> Any | None:
    """As many bytes for each key, which tell its position, if the case has them."""
    return cupy.arange(len(data), dtype=data.dtype) if "payload" in case else None


def taken(data: Any, payload: Any) -> tuple[Any, Any]:
    """What a user of CuPy writes."""
    order = cupy.argsort(data)
    return data[order], payload[order]


def payload_sorters(data: Any, payload: Any) -> dict[str, Callable[[], Any]]:
    """The same of keys and payload."""
    return {
        "linkwise": lambda: linkwise.sort(data, payload=payload),
        "linkwise, unverified": lambda: linkwise.sort(data, payload=payload, verify=False),
        "cupy": lambda: taken(data, payload),
        **cudf_peer.payload_sort_calls(data, payload),
    }


def sorters(data: Any) -> dict[str, Callable[[], Any]]:
    """What a user would call: none of them changes the array."""
    found: dict[str, Callable[[], Any]] = {
        "linkwise": lambda: linkwise.sort(data),
        "linkwise, unverified": lambda: linkwise.sort(data, verify=False),
        "cupy": lambda: cupy.sort(data),
        **cudf_peer.sort_calls(data),
    }
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        return found
    if data.dtype.kind != "u":
        tensor = torch.from_dlpack(data)
        found["torch"] = lambda: torch.sort(tensor)
    return found


def run(case: str, rows: int) -> dict[str, Any]:
    """Time each in turn, and compare our result with CuPy's."""
    data = keys(case, rows)
    payload = payload_of(case, data)
    calls = sorters(data) if payload is None else payload_sorters(data, payload)
    expected, found = calls["cupy"](), calls["linkwise"]()
    pairs = [(found, expected)] if payload is None else zip(found, expected, strict=True)
    if not all(bool((cupy.asarray(ours) == theirs).all()) for ours, theirs in pairs):
        raise SystemExit(f"{case}: the result is not CuPy's")
    del expected, found, pairs
    seconds = times_in_turn(calls, REPETITIONS, timed)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    ratios = {name: median / medians["cupy"] for name, median in medians.items()}
    told = ", ".join(f"{name} {1e3 * medians[name]:.1f} ms ({ratios[name]:.2f})" for name in medians)
    print(f"{rows:.3g} {case}: {told}", flush=True)
    return {"case": case, "rows": rows, "seconds": seconds, "medians": medians, "ratio_to_cupy": ratios}


def run_on_several(case: str, rows: int, gpus: int) -> dict[str, Any]:
    """Time ours alone: the others sort arrays on one GPU."""
    parts: list[Any] = []
    payloads: list[Any] = []
    for gpu in range(gpus):
        with cupy.cuda.Device(gpu):
            parts.append(keys(case, rows // gpus))
            payloads.append(payload_of(case, parts[-1]))
    payload = None if payloads[0] is None else payloads
    calls = {
        "linkwise": lambda: linkwise.sort(parts, payload=payload),
        "linkwise, unverified": lambda: linkwise.sort(parts, payload=payload, verify=False),
    }
    found = calls["linkwise"]()
    check_parts(case, parts, found if payload is None else found[0])
    del found
    seconds = times_in_turn(calls, REPETITIONS, timed)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    told = ", ".join(f"{name} {1e3 * median:.1f} ms" for name, median in medians.items())
    print(f"{rows:.3g} {case} on {gpus} GPUs: {told}", flush=True)
    return {"case": case, "rows": rows, "gpus": gpus, "seconds": seconds, "medians": medians}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e9])
    parser.add_argument("--cases", nargs="+", default=CASES, choices=CASES)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results = [
        run(case, int(rows)) if options.gpus == 1 else run_on_several(case, int(rows), options.gpus)
        for rows in options.rows
        for case in options.cases
    ]
    write_results(options.output, results)


if __name__ == "__main__":
    main()
