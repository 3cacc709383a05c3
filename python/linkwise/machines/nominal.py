"""Machines from what is said about them, nothing measured: NVML and the kernel, or NCCL's topology XML.

Links get what is usual of their kind: measured machines carry 85 to 90 % of what a link could.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from linkwise import _core
from linkwise._core import UsageError

PCIE_LANE_GB_PER_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""GB/s of a lane in one direction, by generation, after line coding."""

NVLINK_GB_PER_S = {1: 20, 2: 25, 3: 25, 4: 25, 5: 50}
"""GB/s of a link in one direction, by generation."""

_PCIE_EFFICIENCY, _NVLINK_EFFICIENCY = 0.87, 0.88
_PCIE_BOTH_WAYS = 1.75  # times one way
_DRAM_GB_PER_S = 200
_SOCKETS_GB_PER_S = 60


def pcie_gb_per_s(generation: int, width: int) -> float:
    """What a PCIe link could carry in one direction; 0 where it is not known."""
    return PCIE_LANE_GB_PER_S.get(generation, 0.0) * width


def like_description(compute_capability: int) -> dict[str, Any]:
    """The description of the nearest machine that was measured: its rates stand in."""
    name = "h200x8" if compute_capability >= 90 else "dgx-a100" if compute_capability >= 80 else "dgx1-v100"
    text = (resources.files("linkwise.machines") / "described" / f"{name}.json").read_text(encoding="utf-8")
    described: dict[str, Any] = json.loads(text)
    return described


def _pcie_link(between: list[list[str]], gb_per_s: float) -> dict[str, Any]:
    usual = round(_PCIE_EFFICIENCY * gb_per_s, 1)
    return {
        "kind": "pcie",
        "between": between,
        "gb_per_s": usual,
        "duplex_gb_per_s": round(_PCIE_BOTH_WAYS * usual, 1),
        "latency_us": 0.5,
        "nominal_gb_per_s": round(gb_per_s, 1),
    }


def _nvlink(between: list[list[str]], version: int, count: int) -> dict[str, Any]:
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


def _description(
    nodes: dict[str, list[str]], links: list[dict[str, Any]], *, capability: int, **fields: Any
) -> dict[str, Any]:
    """A whole description: the links that are given, what joins sockets and memories, and everybody's usual rates."""
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
    """The machine that this process runs on, as CUDA, NVML and the kernel tell it.

    Where NVML says nothing, as in some virtual machines, each GPU of a data centre is assumed on its own PCIe link and
    all of them on a switch.
    """
    capability = gpus[0].compute_capability
    names = [f"gpu{index}" for index in range(len(gpus))]
    numa = sorted({max(seat.numa_node, 0) for seat in seats} or {0})
    sockets = {node: f"cpu{index}" for index, node in enumerate(numa)}
    links = []
    for name, seat in zip(names, seats, strict=True):
        width = pcie_gb_per_s(seat.pcie_generation, seat.pcie_width) or pcie_gb_per_s(5 if capability >= 90 else 4, 16)
        links.append(_pcie_link([[sockets[max(seat.numa_node, 0)], name]], width))
    peers, switches = _peer_links(names, seats)
    if not peers and len(gpus) > 1 and not any(seat.pcie_generation for seat in seats):
        peers, switches = [_nvlink([[name, "nvswitch"] for name in names], 4 if capability >= 90 else 3, 18)], True
    return _description(
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
        gpu={"name": gpus[0].name},
    )


def _peer_links(names: list[str], seats: list[_core.GpuSeat]) -> tuple[list[dict[str, Any]], bool]:
    """NVLinks between GPUs, or to a switch that all of them share; and whether there is one."""
    by_bus_id = {seat.bus_id: name for name, seat in zip(names, seats, strict=True)}
    links, switches = [], False
    for name, seat in zip(names, seats, strict=True):
        to_switch = [link for link in seat.nvlinks if link.to_switch]
        if to_switch:
            switches = True
            links.append(_nvlink([[name, "nvswitch"]], to_switch[0].version, len(to_switch)))
        joined = Counter(link.target_bus_id for link in seat.nvlinks if not link.to_switch)
        for bus_id, count in joined.items():
            other = by_bus_id.get(bus_id)
            if other is not None and name < other:
                links.append(_nvlink([[name, other]], seat.nvlinks[0].version, count))
    return links, switches


_SWITCH, _BRIDGE = "0x068000", "0x0604"  # PCI classes of an NVSwitch and of PCIe switches and bridges
_SPEEDS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}  # GT/s of a lane


class _NcclXml:
    """Collects nodes and links from NCCL's tree: cpu, pci in pci, gpu, nvlink."""

    def __init__(self) -> None:
        self.nodes: dict[str, list[str]] = {
            kind: [] for kind in ("sockets", "memories", "pcie_switches", "gpus", "nvswitches")
        }
        self.links: list[dict[str, Any]] = []
        self.gpu_of: dict[str, str] = {}
        self.nvlinks: list[tuple[str, str, str, int]] = []  # GPU, target's bus id and class, number of links
        self.capability = 0

    def cpu(self, element: ET.Element) -> None:
        number = len(self.nodes["sockets"])
        self.nodes["sockets"].append(f"cpu{number}")
        self.nodes["memories"].append(f"mem{number}")
        for child in element.findall("pci"):
            self.pci(child, f"cpu{number}")

    def pci(self, element: ET.Element, parent: str) -> None:
        if element.find(".//gpu") is None:
            return
        speed = element.get("link_speed", "").split(" ")[0].removesuffix(".0")
        width = pcie_gb_per_s(_SPEEDS.get(speed, 4), int(element.get("link_width", "16") or 16))
        gpu = element.find("gpu")
        if gpu is not None:
            name = f"gpu{len(self.nodes['gpus'])}"
            self.nodes["gpus"].append(name)
            self.gpu_of[element.get("busid", "").lower()] = name
            self.capability = int(gpu.get("sm", "80"))
            for link in gpu.findall("nvlink"):
                target, kind = link.get("target", "").lower(), link.get("tclass", "")
                self.nvlinks.append((name, target, kind, int(link.get("count", "1"))))
        elif element.get("class", _BRIDGE).startswith(_BRIDGE):
            name = f"switch{len(self.nodes['pcie_switches'])}"
            self.nodes["pcie_switches"].append(name)
        else:
            return
        self.links.append(_pcie_link([[parent, name]], width))
        for child in element.findall("pci"):
            self.pci(child, name)

    def join(self) -> None:
        """Lay the NVLinks: NCCL names targets by bus id, and every NVSwitch by its class alone."""
        generations = ((100, 5), (90, 4), (80, 3), (70, 2))
        version = next((version for least, version in generations if self.capability >= least), 1)
        to_switch = Counter[str]()
        for name, target, kind, count in self.nvlinks:
            other = self.gpu_of.get(target)
            if kind == _SWITCH:
                to_switch[name] += count
            elif other is not None and name < other:
                self.links.append(_nvlink([[name, other]], version, count))
        if to_switch:
            self.nodes["nvswitches"].append("nvswitch")
            self.links += [_nvlink([[name, "nvswitch"]], version, count) for name, count in to_switch.items()]


def import_nccl(path: str | Path, name: str | None = None) -> dict[str, Any]:
    """A machine's description from the topology that NCCL writes with ``NCCL_TOPO_DUMP_FILE``.

    Raises ``UsageError`` if the file cannot be read or is no such topology.
    """
    path = Path(path)
    try:
        root = ET.fromstring(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (ET.ParseError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not XML: {error}") from None
    if root.tag != "system" or root.find("cpu") is None:
        raise UsageError(f"{path} is no topology of NCCL's: its root is <{root.tag}>, not <system> with <cpu>s in it")
    found = _NcclXml()
    try:
        for cpu in root.findall("cpu"):
            found.cpu(cpu)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None
    if not found.nodes["gpus"]:
        raise UsageError(f"{path} has no <gpu>")
    found.join()
    gpus: Sequence[str] = found.nodes["gpus"]
    return _description(
        found.nodes,
        found.links,
        capability=found.capability,
        name=name or path.stem,
        description=f"{len(gpus)} GPUs of compute capability {found.capability / 10:.1f}, as NCCL sees them",
        source=f"imported from {path.name}; links as wide as is usual for their kind, nothing is measured",
        gpu={"name": f"GPU of compute capability {found.capability / 10:.1f}"},
    )
