"""What measurements say beyond the fit: small accesses, and whether each figure is normal for its link."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from linkwise import _core
from linkwise.machines.nominal import NVLINK_GB_PER_S, pcie_gb_per_s
from linkwise.machines.profile import Profile

LEAST_NORMAL = 0.72
"""The least normal fraction of a link's nominal rate (sound ones: commscope19 §4.2: 95 %; sort22 §4: 75 to 96 %)."""

_WORTH_TELLING = 1.03
_NEXT_TO_NOTHING = 0.01


def learn_from_families(profile: Profile) -> None:
    """Add family measurements to the machine: zero-copy, transfers without peer access, goodput by store size."""
    machine = profile.machine
    reads = [row["gb_per_s"] for row in profile.rows("host zero-copy") if row["what"].endswith("read")]
    writes = [row["gb_per_s"] for row in profile.rows("host zero-copy") if row["what"].endswith("write")]
    if reads and writes:
        machine.zero_copy_read_gb_per_s, machine.zero_copy_write_gb_per_s = median(reads), median(writes)
    off = [row["gb_per_s"] for row in profile.rows("peer access") if row["what"].endswith("off")]
    on = [row["gb_per_s"] for row in profile.rows("peer access") if row["what"].endswith("on")]
    if off:
        machine.staged_peer_gb_per_s = median(off)
    stores = {int(row["what"].split()[-2]): row["gb_per_s"] for row in profile.rows("peer store size")}
    if stores and on:
        machine.store_goodput = {size: min(rate / median(on), 1.0) for size, rate in stores.items()}
        profile.findings.append(
            f"stores of 4 bytes to a peer use {machine.store_goodput[min(stores)]:.0%} of the link, "
            f"those of {max(stores)} bytes {machine.store_goodput[max(stores)]:.0%}"
        )


def advice(machine: _core.Machine) -> list[str]:
    """Advice on which GPUs should carry the host traffic, if equal shares are not the best."""
    everyone = list(range(machine.num_gpus))
    told = []
    for direction, way in ((_core.Traffic.host_to_device, "in"), (_core.Traffic.device_to_host, "out")):
        even = _core.even_host_rate(machine, everyone, direction, False)
        best = _core.best_host_shares(machine, everyone, direction, False)
        if best.gb_per_s > _WORTH_TELLING * even:
            shares = dict(zip(everyone, best.share, strict=True))
            carriers = [gpu for gpu, share in shares.items() if share > _NEXT_TO_NOTHING]
            parts = [f"{shares[gpu]:.0%}" for gpu in carriers]
            apart = "" if len(set(parts)) == 1 else f" ({', '.join(parts)})"
            told.append(
                f"let GPUs {', '.join(map(str, carriers))} carry the traffic {way}{apart}: {best.gb_per_s:.0f} GB/s; "
                f"all in equal parts carry {even:.0f}"
            )
    return told


@dataclass
class _Alike:
    """Links of one kind with one verdict."""

    nominal: float
    rates: list[float] = field(default_factory=list)
    who: list[str] = field(default_factory=list)

    def told(self, what: str, link: str, is_normal: bool, in_all: int) -> str:
        """One finding for all of them."""
        low, high = min(self.rates), max(self.rates)
        rates = f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}"
        verdict = "normal" if is_normal else "LOW: have it looked at"
        who = "all" if len(self.who) == in_all > 1 else ", ".join(self.who)
        return f"{what}: {rates} GB/s, {low / self.nominal:.0%} of the {self.nominal:.0f} of {link}: {verdict} ({who})"


def _nominal_of_hosts(machine: _core.Machine, seats: Sequence[_core.GpuSeat]) -> list[tuple[float, str]]:
    """The nominal rate of each GPU's route to the host, and the kind of its narrowest link."""
    if seats:
        return [
            (pcie_gb_per_s(seat.pcie_generation, seat.pcie_width), f"PCIe {seat.pcie_generation}.0 ×{seat.pcie_width}")
            for seat in seats
        ]
    found = []
    for gpu in range(machine.num_gpus):
        links = [machine.links[index] for index in _core.route_links(machine, -1, gpu)]
        nominal = [link for link in links if link.nominal_gb_per_s and link.kind != "dram"]
        narrowest = min(nominal, key=lambda link: link.nominal_gb_per_s, default=None)
        found.append((narrowest.nominal_gb_per_s, narrowest.kind) if narrowest else (0.0, ""))
    return found


def normality(profile: Profile, described: _core.Machine, seats: Sequence[_core.GpuSeat]) -> list[str]:
    """Whether each GPU's host link and each pair's link performs normally for its kind; like results are grouped."""
    hosts = _nominal_of_hosts(described, seats)
    alike: dict[tuple[str, str, bool], _Alike] = {}

    def note(what: str, row: dict[str, Any], nominal: float, link: str) -> None:
        if nominal:
            is_normal = row["gb_per_s"] >= LEAST_NORMAL * nominal
            group = alike.setdefault((what, link, is_normal), _Alike(nominal))
            group.rates.append(row["gb_per_s"])
            group.who.append(row["what"])

    for row in profile.rows("host to device"):
        if row["what"].isdigit():
            note("in from the host", row, *hosts[int(row["what"])])
    for row in profile.rows("device to device"):
        ends = re.fullmatch(r"(\d+)→(\d+)", row["what"])
        if ends is not None:
            note("to a peer", row, *_nominal_of_pair(described, seats, int(ends[1]), int(ends[2])))
    in_all = {"in from the host": described.num_gpus, "to a peer": described.num_gpus * (described.num_gpus - 1)}
    return [group.told(*key, in_all[key[0]]) for key, group in alike.items()]


def _nominal_of_pair(
    machine: _core.Machine, seats: Sequence[_core.GpuSeat], source: int, target: int
) -> tuple[float, str]:
    """The nominal rate of the links between two GPUs, and their kind; 0 without direct links."""
    if seats:
        links = [link for link in seats[source].nvlinks if link.to_switch or link.target_bus_id == seats[target].bus_id]
        if not links:
            return 0.0, ""
        version = links[0].version
        return NVLINK_GB_PER_S.get(version, 25) * len(links), f"NVLink {version} ×{len(links)}"
    links_between = [machine.links[index] for index in _core.route_links(machine, source, target)]
    if not links_between or any(not link.kind.startswith("nvlink") for link in links_between):
        return 0.0, ""
    narrowest = min(links_between, key=lambda link: link.nominal_gb_per_s)
    return narrowest.nominal_gb_per_s, narrowest.kind
