"""Measures the sorts on the machine at hand and writes raw JSON, a Markdown table and a picture of the phases.

Every timed result is checked. On a machine without GPUs the same cases are simulated on a described machine, and the
output says so.
"""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import device_sorts
import host_sorts
import linkwise
from harness import about
from linkwise.bench.copy_bandwidth import gpu_sets, wire_rates
from linkwise.reports.plots import phase_picture
from linkwise.runtime.session import give_memory_back, open_session
from render import MEASUREMENTS_PAGE, markdown, measurements_page


def cases(
    machine: linkwise.Machine, scale: float, only: list[str]
) -> tuple[list[host_sorts.HostCase], list[device_sorts.DeviceCase]]:
    """Cases from host memory, and on the GPUs: all, or those with one of the words in their section or name."""

    def is_wanted(section: str, name: str) -> bool:
        return not only or any(word in f"{section}: {name}" for word in only)

    of_host, of_gpus = host_sorts.cases(machine, scale), device_sorts.cases(machine.num_gpus, scale)
    return (
        [case for case in of_host if is_wanted(case.section, case.name)],
        [case for case in of_gpus if is_wanted(device_sorts.SECTION, case.name)],
    )


def simulate(name: str, scale: float, only: list[str]) -> dict[str, Any]:
    machine = linkwise.load_machine(name)
    of_host, of_gpus = cases(machine, scale, only)
    results = [host_sorts.simulate(machine, case) for case in of_host]
    results += [device_sorts.simulate(machine, case) for case in of_gpus]
    return about(machine, simulated=True) | {"results": results}


def measure(machine: linkwise.Machine, scale: float, only: list[str]) -> dict[str, Any]:
    """On the GPUs of this machine."""
    results = []
    of_host, of_gpus = cases(machine, scale, only)
    if find_spec("cupy") is not None:
        for device_case in of_gpus:
            results.append(device_sorts.run(device_case))
            give_memory_back("local")
        import cupy  # noqa: PLC0415

        for gpu in range(machine.num_gpus):
            with cupy.cuda.Device(gpu):
                cupy.get_default_memory_pool().free_all_blocks()
    if not of_host:
        return about(machine, simulated=False) | {"results": results}
    arrays = host_sorts.HostArrays(max(case.bytes for case in of_host))
    keys, out = arrays.source.view(np.uint32), arrays.out.view(np.uint32)
    arrays.keys(max(of_host, key=lambda case: case.bytes))

    def measure_wire() -> list[dict[str, Any]]:
        with open_session("local") as runtime:
            return [{"gpus": gpus, **wire_rates(runtime, gpus, keys, out)} for gpus in gpu_sets(machine.num_gpus)]

    # Host memory's rate drifts by several percent within minutes: the wire rate is the best of before and after.
    before = measure_wire()
    results = [host_sorts.run(case, arrays) for case in of_host] + results
    by_gpus = [*before, *measure_wire()]
    best = {direction: max(rates[direction] for rates in by_gpus) for direction in ("in", "out")}
    for result in results:
        if "bytes" in result:
            result["wire_seconds"] = result["bytes"] * (1 / best["in"] + 1 / best["out"]) / 1e9
    return about(machine, simulated=False) | {"wire_gb_per_s": {"best": best, "by_gpus": by_gpus}, "results": results}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes; 1 is the table")
    parser.add_argument("--only", nargs="+", default=[], help="cases with one of these in their section or name")
    parser.add_argument("--machine", default="h200x8", help="the described machine where there are no GPUs")
    parser.add_argument("--output", type=Path, default=Path("build/bench/sort.json"))
    parser.add_argument("--render", action="store_true", help="only make docs/measurements.md from the results")
    options = parser.parse_args()
    if options.render:
        MEASUREMENTS_PAGE.write_text(measurements_page(), encoding="utf-8")
        return
    local = linkwise.local_machine()
    if local is None:
        results = simulate(options.machine, options.scale, options.only)
    else:
        results = measure(local, options.scale, options.only)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    table = markdown(results)
    options.output.with_suffix(".md").write_text(table, encoding="utf-8")
    rows = {row["case"]["name"]: row["phases"] for row in results["results"] if row.get("section") != host_sorts.SMALL}
    phase_picture(rows, options.output.with_suffix(".svg"), title=table.splitlines()[0])
    print(table)


if __name__ == "__main__":
    main()
