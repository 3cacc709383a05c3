"""Machine descriptions from what NVML and the kernel report; nothing is measured.

Links get the rates usual for their kind: measured machines reach 85 to 90 % of a link's nominal rate.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from linkwise import _core

PCIE_LANE_GB_PER_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""GB/s of a lane in one direction, by generation, after line coding."""

NVLINK_GB_PER_S = {1: 20, 2: 25, 3: 25, 4: 25, 5: 50}
"""GB/s of a link in one direction, by generation."""

_PCIE_EFFICIENCY, _NVLINK_EFFICIENCY = 0.87, 0.88
_PCIE_BOTH_WAYS = 1.75  # times one way
_DRAM_GB_PER_S = 200
_SOCKETS_GB_PER_S = 60
_GATHER_US = 50
_GATHER_PS_OF_CORE = 21_000, 600
"""Of one core, per row and per byte, as measured with 16, 32 and 128 of them."""


def pcie_gb_per_s(generation: int, width: int) -> float:
    """The nominal rate of a PCIe link in one direction; 0 if it is not known."""
    return PCIE_LANE_GB_PER_S.get(generation, 0.0) * width


def like_description(compute_capability: int) -> dict[str, Any]:
    """The description of the most similar machine that was measured, whose rates are used instead."""
    name = "h200x8" if compute_capability >= 90 else "dgx-a100" if compute_capability >= 80 else "dgx1-v100"
    text = (Path(__file__).parent / "described" / f"{name}.json").read_text(encoding="utf-8")
    described: dict[str, Any] = json.loads(text)
    return described


def _host_like(like: dict[str, Any]) -> dict[str, Any]:
    """The host of a similar machine, with as many cores as there are here: gathers take their time in proportion."""
    cores = len(os.sched_getaffinity(0))
    gather = [_GATHER_US, *(round(ps / cores, 2) for ps in _GATHER_PS_OF_CORE)]
    return {**like, "name": f"{cores} cores", "rates": {**like["rates"], "gather": gather}}


def pcie_link(between: list[list[str]], gb_per_s: float) -> dict[str, Any]:
    """PCIe links of one width between these pairs, as a description has them."""
    usual = round(_PCIE_EFFICIENCY * gb_per_s, 1)
    return {
        "kind": "pcie",
        "between": between,
        "gb_per_s": usual,
        "duplex_gb_per_s": round(_PCIE_BOTH_WAYS * usual, 1),
        "latency_us": 0.5,
        "nominal_gb_per_s": round(gb_per_s, 1),
    }


def nvlink(between: list[list[str]], version: int, count: int) -> dict[str, Any]:
    """So many NVLinks of a generation between each of these pairs, as a description has them."""
    nominal = NVLINK_GB_PER_S.get(version, 25) * count
    usual = round(_NVLINK_EFFICIENCY * nominal, 1)
    return {
        "kind": f"nvlink{version}x{count}",
        "between": between,
        "gb_per_s": usual,
        "duplex_gb_per_s": 2 * usual,
        "latency_us": 0.5,
        "nominal_gb_per_s": nominal,
    }


def description_of(
    nodes: dict[str, list[str]], links: list[dict[str, Any]], *, capability: int, **fields: Any
) -> dict[str, Any]:
    """A complete description: the given links, those of sockets and memories, and usual rates for the rest."""
    like = like_description(capability)
    sockets, memories = nodes["sockets"], nodes["memories"]
    links = [
        {
            "kind": "dram",
            "between": [list(pair) for pair in zip(memories, sockets, strict=True)],
            "gb_per_s": _DRAM_GB_PER_S,
        },
        *links,
    ]
    between = [[a, b] for index, a in enumerate(sockets) for b in sockets[index + 1 :]]
    if between:
        links.append({"kind": "sockets", "between": between, "gb_per_s": _SOCKETS_GB_PER_S, "latency_us": 0.5})
    return {
        **{key: like[key] for key in ("copy_engines", "copy_startup_us", "pageable_gb_per_s", "host")},
        **fields,
        "nodes": {kind: names for kind, names in nodes.items() if names},
        "links": links,
        "gpu": {**like["gpu"], **fields.get("gpu", {})},
    }


def nominal_description(gpus: list[_core.CudaGpu], seats: list[_core.GpuSeat]) -> dict[str, Any]:
    """The machine that this process runs on, as CUDA, NVML and the kernel report it.

    If NVML reports nothing, as in some virtual machines, each GPU is assumed to have its own PCIe link, and all of
    them to share an NVSwitch if they can reach each other's memory.
    """
    capability = gpus[0].compute_capability
    names = [f"gpu{index}" for index in range(len(gpus))]
    numa = sorted({max(seat.numa_node, 0) for seat in seats} or {0})
    sockets = {node: f"cpu{index}" for index, node in enumerate(numa)}
    links = []
    for name, seat in zip(names, seats, strict=True):
        width = pcie_gb_per_s(seat.pcie_generation, seat.pcie_width) or pcie_gb_per_s(5 if capability >= 90 else 4, 16)
        links.append(pcie_link([[sockets[max(seat.numa_node, 0)], name]], width))
    peers, switches = _peer_links(names, seats)
    reach_each_other = all(len(gpu.peers) == len(gpus) - 1 for gpu in gpus)
    if not peers and len(gpus) > 1 and reach_each_other and not any(seat.pcie_generation for seat in seats):
        peers, switches = [nvlink([[name, "nvswitch"] for name in names], 4 if capability >= 90 else 3, 18)], True
    return description_of(
        {
            "sockets": list(sockets.values()),
            "memories": [f"mem{index}" for index in range(len(numa))],
            "gpus": names,
            "nvswitches": ["nvswitch"] if switches else [],
        },
        links + peers,
        capability=capability,
        name="local",
        description=f"{len(gpus)} × {gpus[0].name}, nominal",
        source="as NVML and the kernel tell it; nothing is measured",
        staged_peers=not reach_each_other,
        gpu={"name": gpus[0].name},
        host=_host_like(like_description(capability)["host"]),
    )


def _peer_links(names: list[str], seats: list[_core.GpuSeat]) -> tuple[list[dict[str, Any]], bool]:
    """NVLinks between GPUs, or to a switch that all of them share; and whether there is a switch."""
    by_bus_id = {seat.bus_id: name for name, seat in zip(names, seats, strict=True)}
    links, switches = [], False
    for name, seat in zip(names, seats, strict=True):
        to_switch = [link for link in seat.nvlinks if link.to_switch]
        if to_switch:
            switches = True
            links.append(nvlink([[name, "nvswitch"]], to_switch[0].version, len(to_switch)))
        joined = Counter(link.target_bus_id for link in seat.nvlinks if not link.to_switch)
        for bus_id, count in joined.items():
            other = by_bus_id.get(bus_id)
            if other is not None and name < other:
                links.append(nvlink([[name, other]], seat.nvlinks[0].version, count))
    return links, switches
