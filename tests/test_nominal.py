"""Machines from what is said about them: NCCL's topology XML, NVML; several nodes; without NVLinks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import linkwise
from benchmark_on_machine import gb_per_s, peer_transfers
from linkwise import UsageError, _core
from linkwise.machines.catalog import load_machine
from linkwise.machines.description import machine_from_dict
from linkwise.machines.nccl_topology import import_nccl
from linkwise.machines.nominal import nominal_description


def gpu_xml(index: int, bus: str, links: str, sm: int = 70, speed: str = "8.0 GT/s PCIe") -> str:
    return (
        f'<pci busid="0000:{bus}:00.0" class="0x030200" link_speed="{speed}" link_width="16">'
        f'<gpu dev="{index}" sm="{sm}" rank="{index}" gdr="1">{links}</gpu></pci>'
    )


def peer_link(bus: str, count: int) -> str:
    return f'<nvlink target="0000:{bus}:00.0" count="{count}" tclass="0x030200"/>'


MESH = (
    '<system version="1"><cpu numaid="0" arch="x86_64">'
    '<pci busid="0000:04:00.0" class="0x060400" link_speed="8.0 GT/s PCIe" link_width="16">'
    + gpu_xml(0, "06", peer_link("07", 1) + peer_link("86", 2))
    + gpu_xml(1, "07", peer_link("06", 1))
    + '<pci busid="0000:05:00.0" class="0x020700"><nic><net name="mlx5_0" dev="0" speed="100000"/></nic></pci>'
    "</pci></cpu>"
    '<cpu numaid="1" arch="x86_64">' + gpu_xml(2, "86", peer_link("06", 2)) + "</cpu></system>"
)
SWITCHED = (
    '<system version="1"><cpu numaid="0">'
    + "".join(
        gpu_xml(i, f"1{i}", '<nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>', 90, "32.0 GT/s PCIe")
        for i in range(4)
    )
    + "</cpu></system>"
)


def imported(tmp_path: Path, xml: str) -> _core.Machine:
    path = tmp_path / "nccl.xml"
    path.write_text(xml)
    return machine_from_dict(import_nccl(path))


def test_links_between_gpus(tmp_path: Path) -> None:
    machine = imported(tmp_path, MESH)
    assert machine.num_gpus == 3
    kinds = sorted(link.kind for link in machine.links)
    assert kinds == ["dram", "dram", "nvlink2x1", "nvlink2x2", "pcie", "pcie", "pcie", "pcie", "sockets"]
    one, two = (gb_per_s(machine, peer_transfers([(0, b)], False, 1e9)) for b in (1, 2))
    assert two == pytest.approx(2 * one, rel=0.01)
    assert {round(link.nominal_gb_per_s) for link in machine.links if link.kind == "pcie"} == {16}


def test_a_switch(tmp_path: Path) -> None:
    machine = imported(tmp_path, SWITCHED)
    assert [node.name for node in machine.nodes if node.kind == _core.NodeKind.nvswitch] == ["nvswitch"]
    assert gb_per_s(machine, peer_transfers([(0, 3)], False, 4e9)) == pytest.approx(396, rel=0.03)
    assert linkwise.plan_sort(10**9, machine=machine).best.seconds > 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not XML"),
        ("<graphs/>", "is no topology of NCCL's"),
        ('<system><cpu numaid="0"/></system>', "has no <gpu>"),
        (MESH.replace('sm="70"', 'sm="volta"'), "volta"),
    ],
)
def test_what_is_no_topology_says_so(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        imported(tmp_path, text)


def test_import_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "nccl.xml").write_text(MESH)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "linkwise", *arguments], capture_output=True, text=True, cwd=tmp_path, check=False
        )

    assert machine_from_dict(json.loads(run("machine", "import", "nccl.xml").stdout)).num_gpus == 3
    assert run("machine", "import", "nccl.xml", "-o", "m.json").returncode == 0
    assert load_machine(tmp_path / "m.json").num_gpus == 3
    missing = run("machine", "import", "other.xml")
    assert missing.returncode == 2
    assert missing.stderr == "linkwise: cannot read other.xml: No such file or directory\n"


def seat(node: int, bus: str, nvlinks: list[SimpleNamespace]) -> SimpleNamespace:
    return SimpleNamespace(bus_id=bus, numa_node=node, pcie_generation=4, pcie_width=16, nvlinks=nvlinks)


def nvlink(target: str = "", to_switch: bool = False, version: int = 3) -> SimpleNamespace:
    return SimpleNamespace(version=version, to_switch=to_switch, target_bus_id=target)


def nominal(seats: list[SimpleNamespace], *, apart: bool = False) -> _core.Machine:
    several = range(len(seats))
    gpus = [
        SimpleNamespace(
            name="A", memory_gib=40.0, compute_capability=80, peers=[] if apart else [p for p in several if p != gpu]
        )
        for gpu in several
    ]
    return machine_from_dict(nominal_description(gpus, seats))  # type: ignore[arg-type]


def test_nvml_tells_links_sockets_and_widths() -> None:
    machine = nominal([seat(0, "a", [nvlink("b")] * 2), seat(1, "b", [nvlink("a")] * 2)])
    assert {link.name: link.kind for link in machine.links}["gpu0-gpu1"] == "nvlink3x2"
    assert machine.num_host_memories == 2
    switched = nominal([seat(0, "a", [nvlink(to_switch=True)] * 12), seat(0, "b", [nvlink(to_switch=True)] * 12)])
    assert gb_per_s(switched, peer_transfers([(0, 1)], False, 4e9)) == pytest.approx(0.88 * 300, rel=0.02)
    alone = nominal([seat(-1, "a", []), seat(-1, "b", [])])
    assert not any(link.kind.startswith("nvlink") for link in alone.links)
    assert not alone.staged_peers
    assert nominal([seat(-1, "a", []), seat(-1, "b", [])], apart=True).staged_peers


def test_nodes_are_joined_by_their_network() -> None:
    two = load_machine("summitdev-node:2")
    assert two.num_gpus == 8
    assert two.num_host_memories == 4
    inside, across = (gb_per_s(two, peer_transfers([pair], False, 1e9)) for pair in ((0, 1), (0, 4)))
    assert inside == pytest.approx(38, rel=0.02)
    assert across == pytest.approx(12, rel=0.02)  # tartan20 §3.3: GPUDirect RDMA
    both = gb_per_s(two, peer_transfers([(0, 4), (1, 5)], False, 1e9))
    assert both == pytest.approx(across, rel=0.05)  # a node has one network
    for name, says in (("dgx-a100:2", "names no network"), ("summit-node:0", "one at least"), ("summit-node:x", "4")):
        with pytest.raises(UsageError, match=says):
            load_machine(name)


@pytest.mark.parametrize("name", linkwise.described_machines())
def test_without_nvlink_peers_go_through_the_host(name: str) -> None:
    if name == "kepler4":
        with pytest.raises(UsageError, match="has no NVLink"):
            load_machine(name, without="nvlink")
        return
    machine = load_machine(name, without="nvlink")
    nodes = machine.nodes
    for a in range(machine.num_gpus):
        for b in range(machine.num_gpus):
            if a != b:
                crossed = {nodes[i].kind for n in _core.route_links(machine, a, b)
                           for i in (machine.links[n].a, machine.links[n].b)}  # fmt: skip
                assert _core.NodeKind.memory in crossed
    with_links = linkwise.plan_sort(10**8, machine=name, strategy="p2p_merge").best.seconds
    assert linkwise.plan_sort(10**8, machine=machine, strategy="p2p_merge").best.seconds >= 0.99 * with_links


def test_gathers_take_as_long_as_the_cores_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, rows = [[pa.array(np.zeros(100_000))]], np.zeros(1 << 24, np.uint32)

    def on_cores(cores: int) -> float:
        monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
        return float(_core.price_of_gather(nominal([seat(0, "a", [])]), [0], 0, columns, rows)[1])

    assert on_cores(16) == pytest.approx(8 * on_cores(128), rel=0.02)
