"""What doctor says of an IOMMU and Access Control Services, on file systems made up as sysfs shows them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from linkwise import _core
from linkwise.probing import doctor
from linkwise.probing.pci_paths import PciFindings, path_of, pci_findings

GPUS = ["00000000:17:00.0", "00000000:18:00.0"]
ROOT_PORT, SWITCH = "0000:15:01.0", "0000:16:00.0"


def config(acs: int | None) -> bytes:
    """4 KiB of configuration space with two other capabilities, and ACS behind them."""
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | 0x148 << 20)
    struct.pack_into("<I", space, 0x148, 0x0003 | 1 << 16 | (0x220 if acs is not None else 0) << 20)
    if acs is not None:
        struct.pack_into("<IHH", space, 0x220, 0x000D | 1 << 16, 0x5F, acs)
    return bytes(space)


def sysfs(root: Path, *, acs: int | None, iommu: str | None, as_root: bool = True) -> Path:
    """Two GPUs below one switch."""
    devices = root / "bus" / "pci" / "devices"
    devices.mkdir(parents=True)
    place = root / "devices" / "pci0000:15"
    for bridge, control in ((ROOT_PORT, None), (SWITCH, acs)):
        place = place / bridge
        place.mkdir(parents=True)
        (place / "config").write_bytes(config(control) if as_root else config(control)[:64])
        (devices / bridge).symlink_to(place)
    for gpu in ("0000:17:00.0", "0000:18:00.0"):
        (place / gpu).mkdir()
        (devices / gpu).symlink_to(place / gpu)
        if iommu is not None:
            group = root / "kernel" / "iommu_groups" / gpu
            group.mkdir(parents=True)
            (group / "type").write_text(f"{iommu}\n")
            (place / gpu / "iommu_group").symlink_to(group)
    return root


def found(root: Path, flags: str = "flags: fpu vme") -> PciFindings:
    cpuinfo = root / "cpuinfo"
    cpuinfo.write_text(flags)
    return pci_findings(GPUS, root, cpuinfo)


def test_nothing_in_the_way(tmp_path: Path) -> None:
    root = sysfs(tmp_path, acs=0b01, iommu="identity")
    path = path_of(GPUS[0], root)
    assert path is not None and path.bridges == (ROOT_PORT, SWITCH) and path.redirecting == path.unreadable == ()
    assert found(root) == PciFindings({"IOMMU": "identity", "ACS": "redirects nothing"}, [])


def test_what_redirects_and_translates_is_named(tmp_path: Path) -> None:
    told = found(sysfs(tmp_path, acs=0b11101, iommu="DMA-FQ"))
    assert told.facts == {"IOMMU": "DMA-FQ", "ACS": f"redirects at {SWITCH}"}
    assert [cause.split(":")[0] for cause in told.causes] == [
        "the IOMMU translates addresses of 0000",
        "Access Control Services redirect peer traffic at 0000",
    ]
    assert "boot with iommu=pt" in told.causes[0] and f"setpci -s {SWITCH} ECAP_ACS+6.w=0" in told.causes[1]


def test_only_root_reads_all(tmp_path: Path) -> None:
    told = found(sysfs(tmp_path, acs=0b100, iommu=None, as_root=False))
    assert told.facts == {"IOMMU": "none", "ACS": f"not readable at {ROOT_PORT}, {SWITCH}: run as root"}
    assert told.causes == ["Access Control Services may redirect peer traffic: run 'linkwise doctor' as root to see"]


def test_virtual_machines_and_containers(tmp_path: Path) -> None:
    assert path_of(GPUS[0], tmp_path) is None
    told = found(tmp_path, "flags: fpu hypervisor lahf_lm")
    assert told.facts == {"paths": "not shown by this system"} and "virtual machine" in told.causes[0]
    assert pci_findings([], tmp_path) == PciFindings()


@pytest.mark.parametrize("damage", [b"", b"\x0d\x00\x01\xff", b"\x03\x00\x01\x10"])
def test_odd_configuration_spaces(tmp_path: Path, damage: bytes) -> None:
    """Capabilities that point nowhere or at themselves end the search."""
    root = sysfs(tmp_path, acs=None, iommu=None)
    space = bytearray(config(None))
    space[0x100 : 0x100 + len(damage)] = damage
    (root / "bus" / "pci" / "devices" / SWITCH / "config").write_bytes(space[: 0x106 if damage else 4096])
    path = path_of(GPUS[1], root)
    assert path is not None and path.redirecting == ()


def test_doctor_names_causes_where_copies_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a machine with GPUs, of which one pair is corrupt."""

    class Gpu:
        name, memory_gib, pci_bus_id, compute_capability = "a GPU", 80.0, GPUS[0], 90

    root = sysfs(tmp_path, acs=0b100, iommu="DMA")
    monkeypatch.setattr(_core, "cuda_unavailable_reason", lambda: "")
    monkeypatch.setattr(_core, "cuda_gpus", lambda: [Gpu, Gpu])
    monkeypatch.setattr(doctor, "open_session", lambda _machine: open(root / "here", "w"))  # noqa: SIM115
    monkeypatch.setattr(doctor, "pci_findings", lambda gpus: pci_findings(gpus, root, tmp_path / "none"))
    monkeypatch.setattr(doctor, "_peers", lambda _runtime: {"0→1": "verified", "1→0": "verified"})
    told = doctor.examine("1")
    assert told["healthy"] and told["pci"]["IOMMU"] == "DMA" and "likely_causes" not in told
    monkeypatch.setattr(doctor, "_peers", lambda _runtime: {"0→1": "CORRUPT: 3 bytes", "1→0": "verified"})
    told = doctor.examine("1")
    assert not told["healthy"] and len(told["likely_causes"]) == 2
