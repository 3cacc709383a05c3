"""Measures the sorts on the machine at hand and writes raw JSON and a Markdown table.

Every timed result is checked. On a machine without GPUs the same cases are simulated on a described machine, and the
output says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import linkwise
from linkwise import _core

REPETITIONS = 5


@dataclass(frozen=True)
class Case:
    strategy: str
    exchange: str
    gpus: tuple[int, ...]
    count: int
    dtype: str = "uint32"

    @property
    def name(self) -> str:
        where = ",".join(map(str, self.gpus))
        return f"{self.strategy}/{self.exchange} {self.count / 1e9:g}·10⁹ {self.dtype} on ({where})"


def gpu_sets(num_gpus: int) -> list[tuple[int, ...]]:
    sets = [tuple(range(size)) for size in range(1, num_gpus + 1) if size in (1, 2, 4, num_gpus)]
    return [*sets, (4, 5, 6, 7)] if num_gpus == 8 else sets


def cases(num_gpus: int, counts: list[int]) -> list[Case]:
    sets = gpu_sets(num_gpus)
    found = []
    for count in counts:
        for gpus in sets:
            found.append(Case("radix", "streamed", gpus, count))
            if count > 4e9:
                continue
            found += [Case("radix", "copies", gpus, count), Case("het", "2n", gpus, count)]
            if len(gpus) > 1:
                found.append(Case("radix", "fused", gpus, count))
                if len(gpus) & (len(gpus) - 1) == 0:
                    found.append(Case("p2p_merge", "copies", gpus, count))
    return found


def plan_of(case: Case) -> _core.SortPlan:
    plan = _core.SortPlan()
    plan.strategy = getattr(_core.SortStrategy, case.strategy)
    plan.streamed = case.exchange == "streamed"
    if case.strategy == "het":
        plan.het_buffers = int(case.exchange[0])
    elif not plan.streamed:
        plan.exchange = getattr(_core.Exchange, case.exchange)
    plan.gpus = list(case.gpus)
    return plan


BLOCK = 1 << 26


def in_blocks(function: Callable[[int], Any], count: int) -> list[Any]:
    """function(first) for each block of the array, on all cores: NumPy lets go of the interpreter."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, range(0, count, BLOCK)))


def total(array: np.ndarray) -> int:
    return sum(in_blocks(lambda i: int(array[i : i + BLOCK].sum(dtype=np.uint64)), len(array))) % (1 << 64)


def fill(array: np.ndarray) -> None:
    def one(first: int) -> None:
        part = array[first : first + BLOCK]
        part[:] = np.random.default_rng(first + 1).integers(0, 1 << 32, len(part), dtype=np.uint32)

    in_blocks(one, len(array))


def is_sorted_permutation(before_sum: int, result: np.ndarray) -> bool:
    def in_order(i: int) -> bool:
        part = result[max(i - 1, 0) : i + BLOCK]
        return bool((part[:-1] <= part[1:]).all())

    return all(in_blocks(in_order, len(result))) and total(result) == before_sum


def wire_rates(runtime: _core.Runtime, gpus: tuple[int, ...], source: np.ndarray, out: np.ndarray) -> dict[str, float]:
    """GB/s into and out of a set of GPUs with equal shares: medians of plain copies between pinned memory and them."""
    share = min(1 << 29, len(source) // len(gpus))
    buffers = {gpu: runtime.allocate(_core.Place.gpu(gpu), 4 * share) for gpu in gpus}
    rates: dict[str, list[float]] = {"in": [], "out": []}
    for _ in range(REPETITIONS + 1):
        for direction, measured in rates.items():
            runtime.clear_timeline()
            for index, gpu in enumerate(gpus):
                stream = runtime.stream(_core.Place.gpu(gpu), "wire")
                part = slice(index * share, (index + 1) * share)
                if direction == "in":
                    runtime.copy_in(stream, buffers[gpu].view, source[part])
                else:
                    runtime.copy_out(stream, out[part], buffers[gpu].view)
            timeline = runtime.timeline()
            picoseconds = max(entry.end_ps for entry in timeline) - min(entry.start_ps for entry in timeline)
            measured.append(4 * share * len(gpus) / picoseconds * 1e3)
    return {direction: statistics.median(values[1:]) for direction, values in rates.items()}


def run_case(runtime: _core.Runtime, case: Case, source: np.ndarray, out: np.ndarray, checksum: int) -> dict[str, Any]:
    keys, result = source[: case.count], out[: case.count]
    wall, on_clock, phases = [], [], []
    for repetition in range(REPETITIONS + 1):
        began = time.perf_counter()
        report = _core.sort_host(
            runtime,
            plan_of(case),
            _core.KeyType.u32,
            keys,
            None,
            result,
            None,
            0,
            _core.SortOptions(False, True),
        )
        if repetition == 0:  # warms up, and is checked
            if not is_sorted_permutation(checksum, result):
                raise SystemExit(f"{case.name}: wrong result")
            continue
        wall.append(time.perf_counter() - began)
        on_clock.append(report.seconds)
        phases.append({phase.phase: phase.seconds for phase in report.phases})
    names = list(phases[0])
    return {
        "case": asdict(case) | {"name": case.name},
        "wall_seconds": wall,
        "event_seconds": on_clock,
        "median_wall_seconds": statistics.median(wall),
        "median_event_seconds": statistics.median(on_clock),
        "spread": (max(wall) - min(wall)) / statistics.median(wall),
        "phases": {name: statistics.median(p.get(name, 0) for p in phases) for name in names},
    }


def simulate_case(machine: _core.Machine, case: Case) -> dict[str, Any]:
    workload = _core.SortWorkload()
    workload.count = case.count
    report = _core.estimate_sort(machine, workload, plan_of(case))
    return {
        "case": asdict(case) | {"name": case.name},
        "simulated_seconds": report.seconds,
        "phases": {phase.phase: phase.seconds for phase in report.phases},
    }


def commit() -> str:
    if "LINKWISE_COMMIT" in os.environ:  # where the repository's history did not come along
        return os.environ["LINKWISE_COMMIT"]
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def measure(counts: list[int]) -> dict[str, Any]:
    machine = linkwise.local_machine()
    about: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(),
        "commit": commit(),
        "linkwise": linkwise.__version__,
    }
    if machine is None:
        machine = linkwise.load_machine("h200x8")
        results = [simulate_case(machine, case) for case in cases(machine.num_gpus, counts)]
        return about | {"machine": machine.name, "simulated": True, "results": results}
    gpus = _core.cuda_gpus()
    about |= {
        "machine": machine.name,
        "simulated": False,
        "gpus": [gpu.name for gpu in gpus],
        "cpu": platform.processor(),
    }
    runtime = _core.cuda_runtime(machine)
    source, out = linkwise.empty(max(counts), np.uint32), linkwise.empty(max(counts), np.uint32)
    fill(source)
    sums = {count: total(source[:count]) for count in counts}
    wire = {gpus: wire_rates(runtime, gpus, source, out) for gpus in gpu_sets(machine.num_gpus)}
    best = {direction: max(rates[direction] for rates in wire.values()) for direction in ("in", "out")}
    about |= {"wire_gb_per_s": {"best": best, "by_gpus": [{"gpus": gpus, **rates} for gpus, rates in wire.items()]}}
    results = []
    for case in cases(machine.num_gpus, counts):
        result = run_case(runtime, case, source, out, sums[case.count])
        result["wire_seconds"] = 4 * case.count * (1 / best["in"] + 1 / best["out"]) / 1e9
        results.append(result)
        print(f"{results[-1]['median_wall_seconds'] * 1e3:9.2f} ms  {case.name}", file=sys.stderr, flush=True)
        runtime.trim()
    return about | {"results": results}


def markdown(results: dict[str, Any]) -> str:
    kind = "simulated" if results["simulated"] else f"measured, medians of {REPETITIONS}"
    lines = [f"{results['machine']}, {kind}, {results['date'][:10]}, commit {results['commit']}", ""]
    wire = results.get("wire_gb_per_s", {}).get("best")
    if wire:
        lines += [
            f"Best plain copies of equal shares: {wire['in']:.0f} GB/s in, {wire['out']:.0f} GB/s out (the wire).",
            "",
        ]
    lines += ["| sort | ms | × wire | phases, ms |", "|---|---:|---:|---|"]
    for result in results["results"]:
        seconds = result.get("median_wall_seconds", result.get("simulated_seconds"))
        phases = ", ".join(f"{name} {value * 1e3:.1f}" for name, value in result["phases"].items())
        ratio = f"{seconds / result['wire_seconds']:.2f}" if "wire_seconds" in result else ""
        lines.append(f"| {result['case']['name']} | {seconds * 1e3:.1f} | {ratio} | {phases} |")
    return "\n".join(lines) + "\n"


RESULTS = Path(__file__).parent / "results"
PERFORMANCE_PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def performance_page() -> str:
    """docs/performance.md, made from the raw results."""
    page = [
        "# Performance",
        "",
        "Host to host: pinned memory in, pinned memory out, order and checksum verified on the GPUs. Made from the raw",
        "results in `benchmarks/results/` by `python benchmarks/sort.py --render`; `make bench` measures your machine.",
        "",
    ]
    for path in sorted(RESULTS.glob("*sort.json"), reverse=True):
        page += [f"## {path.stem}", "", markdown(json.loads(path.read_text(encoding="utf-8")))]
    return "\n".join(page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=float, nargs="+", default=[2e9])
    parser.add_argument("--output", type=Path, default=Path("build/bench/sort.json"))
    parser.add_argument("--render", action="store_true", help="only make docs/performance.md from the results")
    options = parser.parse_args()
    if options.render:
        PERFORMANCE_PAGE.write_text(performance_page(), encoding="utf-8")
        return
    results = measure([int(count) for count in options.counts])
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    table = markdown(results)
    options.output.with_suffix(".md").write_text(table, encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
