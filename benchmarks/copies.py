"""The probe's copies beside nvbandwidth's, by its definitions, in one run; writes raw JSON. Needs GPUs and CuPy.

nvbandwidth times copies of 512 MiB by the copy engine, 16 in a row behind a kernel that holds the stream until all
are queued, with events, and takes the median of three; for both directions, it reports the one that is measured while
the other one runs. Here CuPy does the same, independently of the probe.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
from pathlib import Path
from typing import Any

import cupy

import linkwise
from harness import about

BYTES = 512 << 20
IN_A_ROW = 16
SAMPLES = 3
HOLD = cupy.RawKernel(
    r'extern "C" __global__ void hold(volatile int* go) { while (*go == 0) {} }', "hold"
)  # spins until the host sets the flag


class Copies:
    """Copies of one direction, in a row on a stream of one GPU."""

    def __init__(self, gpu: int, to: int, source: int) -> None:
        self.gpu, self.to, self.source = gpu, to, source
        with cupy.cuda.Device(gpu):
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self.events = cupy.cuda.Event(), cupy.cuda.Event()

    def enqueue(self, flag: Any) -> None:
        with cupy.cuda.Device(self.gpu), self.stream:
            HOLD((1,), (1,), (flag,))
            self.events[0].record(self.stream)
            for _ in range(IN_A_ROW):
                cupy.cuda.runtime.memcpyAsync(
                    self.to, self.source, BYTES, cupy.cuda.runtime.memcpyDefault, self.stream.ptr
                )
            self.events[1].record(self.stream)

    def gb_per_s(self) -> float:
        self.stream.synchronize()
        return BYTES * IN_A_ROW / cupy.cuda.get_elapsed_time(*self.events) / 1e6


def median_rate(measured: Copies, *others: Copies) -> float:
    flag = cupy.cuda.alloc_pinned_memory(4)
    seen = memoryview(flag).cast("B").cast("i")
    rates = []
    for _ in range(SAMPLES + 1):
        seen[0] = 0
        for copies in (measured, *others):
            copies.enqueue(flag.ptr)
        seen[0] = 1
        rates.append(measured.gb_per_s())
        for copies in others:
            copies.stream.synchronize()
    return statistics.median(rates[1:])


def by_definition(gpus: int) -> dict[str, float]:
    """GB/s by name and endpoints, as in the probe; both ways: their sum, each measured while the other one runs."""
    memory, back = [], []
    for gpu in range(gpus):
        with cupy.cuda.Device(gpu):
            memory.append(cupy.cuda.alloc(BYTES))
            back.append(cupy.cuda.alloc(BYTES))
            for peer in range(gpus):
                if peer != gpu:
                    with contextlib.suppress(cupy.cuda.runtime.CUDARuntimeError):  # the probe has enabled it
                        cupy.cuda.runtime.deviceEnablePeerAccess(peer)
    host, host_back = cupy.cuda.alloc_pinned_memory(BYTES), cupy.cuda.alloc_pinned_memory(BYTES)
    # Load the kernel on every GPU first: to load it while another one spins would wait forever.
    flag = cupy.cuda.alloc_pinned_memory(4)
    memoryview(flag).cast("B").cast("i")[0] = 1
    for gpu in range(gpus):
        with cupy.cuda.Device(gpu):
            HOLD((1,), (1,), (flag.ptr,))
            cupy.cuda.Device(gpu).synchronize()
    found: dict[str, float] = {}
    for gpu in range(gpus):
        into = Copies(gpu, memory[gpu].ptr, host.ptr)
        out = Copies(gpu, host_back.ptr, back[gpu].ptr)
        found[f"host to device|{gpu}"] = median_rate(into)
        found[f"device to host|{gpu}"] = median_rate(out)
        found[f"host and device, both ways|{gpu}"] = median_rate(into, out) + median_rate(out, into)
        for peer in range(gpus):
            if peer == gpu:
                continue
            there = Copies(gpu, memory[peer].ptr, memory[gpu].ptr)
            found[f"device to device|{gpu}→{peer}"] = median_rate(there)
            if gpu < peer:
                reverse = Copies(peer, back[gpu].ptr, back[peer].ptr)
                both = median_rate(there, reverse) + median_rate(reverse, there)
                found[f"device to device, both ways|{gpu}↔{peer}"] = both
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/bench/copies.json"))
    options = parser.parse_args()
    profile = linkwise.probe("local")
    definition = by_definition(profile.machine.num_gpus)
    rows = []
    for row in profile.measurements:
        key = f"{row['name']}|{row['what']}"
        if key in definition:
            rows.append({"name": row["name"], "what": row["what"], "probe_gb_per_s": row["gb_per_s"],
                         "definition_gb_per_s": definition[key],
                         "difference": row["gb_per_s"] / definition[key] - 1})  # fmt: skip
    options.output.parent.mkdir(parents=True, exist_ok=True)
    results = about(profile.machine, simulated=False) | {"rows": rows}
    options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for name in ("host to device", "device to host", "host and device", "device to device"):
        apart = [abs(each["difference"]) for each in rows if each["name"].startswith(name)]
        if apart:
            middle, worst = statistics.median(apart), max(apart)
            print(f"{name}: {len(apart)} copies, {middle:.1%} apart in the median, {worst:.1%} at worst")


if __name__ == "__main__":
    main()
