"""Bandwidth of plain copies between host memory and a set of GPUs: a bound for sorts and joins. For benchmarks."""

from __future__ import annotations

import statistics
from typing import Any

from linkwise import _core
from linkwise._typing import Array

_REPETITIONS = 5


def gpu_sets(num_gpus: int) -> list[tuple[int, ...]]:
    """The sets of GPUs whose copy bandwidth is measured."""
    sets = [tuple(range(size)) for size in range(1, num_gpus + 1) if size in (1, 2, 4, num_gpus)]
    return [*sets, (4, 5, 6, 7)] if num_gpus == 8 else sets


def wire_rates(runtime: _core.Runtime, gpus: tuple[int, ...], source: Array, out: Array) -> dict[str, float]:
    """GB/s into and out of a set of GPUs with equal shares: medians of plain copies between pinned memory and them.

    ``source`` and ``out`` are of 32-bit elements; ``out`` is overwritten.
    """
    share = min(1 << 29, min(len(source), len(out)) // len(gpus))
    buffers = {gpu: runtime.allocate(_core.Place.gpu(gpu), 4 * share) for gpu in gpus}
    rates: dict[str, list[float]] = {"in": [], "out": []}
    for _ in range(_REPETITIONS + 1):
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


def best_wire(runtime: _core.Runtime, source: Array, out: Array) -> dict[str, Any]:
    """The rates of each set, and the best of each direction."""
    rates = {gpus: wire_rates(runtime, gpus, source, out) for gpus in gpu_sets(runtime.machine.num_gpus)}
    best = {side: max(each[side] for each in rates.values()) for side in ("in", "out")}
    return {"best": best, "by_gpus": [{"gpus": gpus, **each} for gpus, each in rates.items()]}


def described_wire(machine: _core.Machine) -> dict[str, Any]:
    """The same for a described machine, where uneven shares may reach more."""
    everyone = list(range(machine.num_gpus))
    directions = {"in": _core.Traffic.host_to_device, "out": _core.Traffic.device_to_host}
    best = {
        side: max(
            _core.best_host_shares(machine, everyone, direction, False).gb_per_s,
            *(_core.even_host_rate(machine, list(gpus), direction, False) for gpus in gpu_sets(machine.num_gpus)),
        )
        for side, direction in directions.items()
    }
    return {"best": best, "by_gpus": []}
