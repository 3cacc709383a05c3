"""What lies between GPUs on PCIe and may corrupt, refuse or slow peer copies: an IOMMU, and Access Control Services.

An IOMMU that translates addresses must map one GPU's memory for another; some drivers and firmware do that wrongly, and
copies arrive corrupt (open-gpu-kernel-modules#1257, pytorch#84803). Access Control Services (PCI Express Base
Specification, §6.12) make the ports of a switch send peer traffic up to the root complex, and through that IOMMU.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_ACS = 0x000D
_REDIRECTS = 0b1100  # bits of the ACS control register: P2P Request Redirect, P2P Completion Redirect
_TRANSLATING = ("DMA", "DMA-FQ")


@dataclass(frozen=True)
class PciPath:
    """The bridges above a GPU, from the root complex down, and how the IOMMU treats it."""

    bus_id: str
    bridges: tuple[str, ...]
    redirecting: tuple[str, ...]
    """Bridges whose Access Control Services redirect peer traffic."""
    unreadable: tuple[str, ...]
    """Bridges whose extended configuration space only root may read."""
    iommu: str | None
    """The type of its IOMMU group: ``DMA`` and ``DMA-FQ`` translate, ``identity`` does not; ``None`` without one."""


@dataclass(frozen=True)
class PciFindings:
    """Facts about the paths of all GPUs, and what may cause faults of peer copies, each with a remedy."""

    facts: dict[str, str] = field(default_factory=dict)
    causes: list[str] = field(default_factory=list)


def _acs_control(config: bytes) -> int | None:
    """The ACS control register of a device's configuration space; ``None`` if it has none or it is cut short."""
    offset, seen = 0x100, set[int]()
    while 0x100 <= offset <= len(config) - 8 and offset not in seen:
        seen.add(offset)
        (header,) = struct.unpack_from("<I", config, offset)
        if header & 0xFFFF == _ACS:
            return int(struct.unpack_from("<H", config, offset + 6)[0])
        offset = header >> 20
    return None


def path_of(bus_id: str, root: Path = Path("/sys")) -> PciPath | None:
    """A GPU's path in sysfs, ``root``; ``None`` if the system does not show the GPU (a container, for one)."""
    domain, _, rest = bus_id.lower().partition(":")
    name = f"{domain[-4:].rjust(4, '0')}:{rest}"
    device = root / "bus" / "pci" / "devices" / name
    if not device.exists():
        return None
    bridges = [part for part in device.resolve().parts[:-1] if part.count(":") == 2]
    redirecting, unreadable = [], []
    for bridge in bridges:
        try:
            config = (root / "bus" / "pci" / "devices" / bridge / "config").read_bytes()
        except OSError:
            config = b""
        if len(config) <= 0x100:
            unreadable.append(bridge)
        elif (_acs_control(config) or 0) & _REDIRECTS:
            redirecting.append(bridge)
    group = device / "iommu_group" / "type"
    iommu = group.read_text().strip() if group.exists() else None
    return PciPath(name, tuple(bridges), tuple(redirecting), tuple(unreadable), iommu)


def pci_findings(
    bus_ids: Sequence[str], root: Path = Path("/sys"), cpuinfo: Path = Path("/proc/cpuinfo")
) -> PciFindings:
    """What may be wrong between these GPUs; the causes are only likely ones, and matter only if copies fail."""
    paths = [path for path in (path_of(each, root) for each in bus_ids) if path is not None]
    is_virtual = cpuinfo.exists() and " hypervisor" in cpuinfo.read_text()
    if not paths:
        hidden = {"paths": "not shown by this system"} if bus_ids else {}
        return PciFindings(hidden, [_VIRTUAL] if is_virtual and bus_ids else [])
    translated = sorted({path.bus_id for path in paths if path.iommu in _TRANSLATING})
    redirecting = sorted({bridge for path in paths for bridge in path.redirecting})
    unreadable = sorted({bridge for path in paths for bridge in path.unreadable})
    kinds = sorted({path.iommu or "none" for path in paths})
    facts = {"IOMMU": ", ".join(kinds)}
    facts["ACS"] = (
        f"redirects at {', '.join(redirecting)}"
        if redirecting
        else f"not readable at {', '.join(unreadable)}: run as root"
        if unreadable
        else "redirects nothing"
    )
    causes = []
    if translated:
        causes.append(
            f"the IOMMU translates addresses of {', '.join(translated)}: boot with iommu=pt, or switch it off in the "
            "firmware"
        )
    if redirecting:
        causes.append(
            f"Access Control Services redirect peer traffic at {', '.join(redirecting)}: switch them off in the "
            f"firmware, or with 'setpci -s {redirecting[0]} ECAP_ACS+6.w=0' for each"
        )
    elif unreadable:
        causes.append("Access Control Services may redirect peer traffic: run 'linkwise doctor' as root to see")
    return PciFindings(facts, [*causes, _VIRTUAL] if is_virtual else causes)


_VIRTUAL = (
    "this is a virtual machine, whose host decides on peer access: it must pass the GPUs through together, and has an "
    "IOMMU of its own"
)
