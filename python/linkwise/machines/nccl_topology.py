"""Machine descriptions from the topology that NCCL writes as XML; nothing is measured."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linkwise._core import UsageError
from linkwise.machines.nominal import description_of, nvlink, pcie_gb_per_s, pcie_link

_SWITCH, _BRIDGE = "0x068000", "0x0604"  # PCI classes of an NVSwitch and of PCIe switches and bridges
_MOST_LANES = 16  # and where the system does not tell
_SPEEDS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}  # GT/s of a lane


def _number(text: str) -> int:
    """A whole number of a few digits. Raises ``ValueError``."""
    if len(text) > 9:
        raise ValueError(f"'{text[:9]}…' is no number of anything that a machine has")
    return int(text)


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
        width = pcie_gb_per_s(_SPEEDS.get(speed, 4), _number(element.get("link_width") or "0") or _MOST_LANES)
        gpu = element.find("gpu")
        if gpu is not None:
            name = f"gpu{len(self.nodes['gpus'])}"
            self.nodes["gpus"].append(name)
            self.gpu_of[element.get("busid", "").lower()] = name
            self.capability = _number(gpu.get("sm", "80"))
            for link in gpu.findall("nvlink"):
                target, kind = link.get("target", "").lower(), link.get("tclass", "")
                self.nvlinks.append((name, target, kind, _number(link.get("count", "1"))))
        elif element.get("class", _BRIDGE).startswith(_BRIDGE):
            name = f"switch{len(self.nodes['pcie_switches'])}"
            self.nodes["pcie_switches"].append(name)
        else:
            return
        self.links.append(pcie_link([[parent, name]], width))
        for child in element.findall("pci"):
            self.pci(child, name)

    def join(self) -> None:
        """Add the NVLinks: NCCL identifies their targets by bus id, but an NVSwitch only by its class."""
        generations = ((100, 5), (90, 4), (80, 3), (70, 2))
        version = next((version for least, version in generations if self.capability >= least), 1)
        to_switch = Counter[str]()
        for name, target, kind, count in self.nvlinks:
            other = self.gpu_of.get(target)
            if kind == _SWITCH:
                to_switch[name] += count
            elif other is not None and name < other:
                self.links.append(nvlink([[name, other]], version, count))
        if to_switch:
            self.nodes["nvswitches"].append("nvswitch")
            self.links += [nvlink([[name, "nvswitch"]], version, count) for name, count in to_switch.items()]


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
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{path}: {error}") from None
    except RecursionError:
        raise UsageError(f"{path}: its <pci>s are in each other too deep") from None
    if not found.nodes["gpus"]:
        raise UsageError(f"{path} has no <gpu>")
    found.join()
    gpus: Sequence[str] = found.nodes["gpus"]
    return description_of(
        found.nodes,
        found.links,
        capability=found.capability,
        name=name or path.stem,
        description=f"{len(gpus)} GPUs of compute capability {found.capability / 10:.1f}, as NCCL sees them",
        source=f"imported from {path.name}; links as wide as is usual for their kind, nothing is measured",
        gpu={"name": f"GPU of compute capability {found.capability / 10:.1f}"},
    )
