"""What the described machines predict for each row of paper_bandwidths.csv: one function a pattern."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable
from pathlib import Path

import linkwise
from benchmark_on_machine import HOST, gb_per_s, host_transfers, mirrored_pairs, peer_transfers
from linkwise import _core
from sort_on import plan_for

Row = dict[str, str]
PAPER_BYTES = 4e9  # sort22 §4.2 copies 4 GB a GPU
MACHINES = {
    "AC922": "ibm-ac922", "DELTA_D22x": "delta-d22x", "DGX-A100": "dgx-a100", "S822LC": "ibm-s822lc",
    "4029GP-TVRT": "supermicro-4029gp", "P100-DGX-1": "dgx1-p100", "V100-DGX-1": "dgx1-v100", "DGX-2": "dgx2",
    "RTX2080-SLI": "sli-rtx2080", "SummitDev": "summitdev-node", "Summit": "summit-node", "DGX-H100": "dgx-h100",
}  # fmt: skip
BIDIR = ("htod", "dtoh")

ROWS: list[Row] = [
    row
    for row in csv.DictReader((Path(__file__).parent / "paper_bandwidths.csv").open(encoding="utf-8"))
    if row["unit"] in ("GB/s", "ratio")
]


def name_of(row: Row) -> str:
    return "-".join((row["paper"], row["platform"], row["pattern"], row["gpus"], row["direction"]))


def machine_of(row: Row) -> _core.Machine:
    return linkwise.load_machine(MACHINES[row["platform"]])


def gpu_groups(row: Row, num_gpus: int) -> list[list[int]]:
    """`0|1` means either, `0+1` both at once, `0-7` a range at once, `any` each."""
    text = row["gpus"]
    if text in {"any", "local"}:
        return [[gpu] for gpu in range(num_gpus if text == "any" else 1)]
    if text == "remote":
        return [[num_gpus // 2]]
    if text == "4_gpus":
        return [[0, 1, 2, 3], [0, 2, 4, 6], [4, 5, 6, 7]]
    if "-" in text and "parallel" in row["pattern"]:
        first, last = map(int, text.split("-"))
        return [list(range(first, last + 1))]
    return [[int(gpu) for gpu in group.replace("-", "+").split("+")] for group in text.split("|")]


def host(machine: _core.Machine, gpus: list[int], direction: str) -> float:
    return gb_per_s(machine, host_transfers(gpus, direction.replace("bidir_sum", "bidir"), PAPER_BYTES))


def pairs(machine: _core.Machine, gpus: list[int]) -> float:
    return gb_per_s(machine, peer_transfers(mirrored_pairs(gpus), True, PAPER_BYTES))


def peer(machine: _core.Machine, a: int, b: int, both: bool = False) -> float:
    return gb_per_s(machine, peer_transfers([(a, b)], both, PAPER_BYTES))


def latency(machine: _core.Machine, path: list[int]) -> float:
    """Microseconds of the smallest copy along GPUs, one hop after the other (tartan20 §3.1.3)."""
    runtime = _core.VirtualRuntime(machine, _core.VirtualMode.estimate, 0)
    stream = runtime.stream(_core.Place.gpu(path[0]), "smallest")
    buffers = [runtime.allocate(_core.Place.gpu(gpu), 4) for gpu in path]
    for source, target in itertools.pairwise(buffers):
        runtime.copy(stream, target.view, source.view)
    return max(entry.end_ps for entry in runtime.timeline()) * 1e-6


def measured_copies(row: Row) -> list[float]:
    """Rows that are a bandwidth of a pattern of copies."""
    machine, pattern, found = machine_of(row), row["pattern"], []
    for group in gpu_groups(row, machine.num_gpus):
        if pattern.startswith("p2p_parallel_pairs"):
            both = [(0, 3), (1, 2)] if "(0-3)" in pattern else mirrored_pairs(group)
            found.append(gb_per_s(machine, peer_transfers(both, True, PAPER_BYTES)))
        elif pattern.startswith("p2p"):
            other = group[1] if len(group) > 1 else (group[0] + 1) % machine.num_gpus
            found.append(peer(machine, group[0], other))
        else:
            found += [host(machine, group, direction) for direction in row["direction"].split("|")]
    return found


def ratios_of_copies(row: Row) -> list[float]:
    """sort22 §4: one set of GPUs against another."""
    machine, pattern = machine_of(row), row["pattern"]
    directions = row["direction"].replace("any", "htod|dtoh").split("|")
    sets: dict[str, tuple[list[int], list[int]]] = {
        "cpu0-gpu_parallel_lower_bound_vs_serial_remote": ([2, 3], [2]),
        "cpu0-gpu_parallel_vs_parallel(2+3)": ([0, 1, 2, 3], [2, 3]),
        "cpu0-gpu_local(0+1)_over_remote(2+3)_max": ([0, 1], [2, 3]),
        "cpu0-gpu_parallel_vs_serial": ([0, 1, 2, 3], [0]),
        "cpu0-gpu_parallel_vs_serial(different PCIe switches)": ([0, 2], [0]),
    }
    if pattern in sets:
        one, other = sets[pattern]
        return [host(machine, one, direction) / host(machine, other, direction) for direction in directions]
    if pattern == "cpu0-gpu_parallel_vs_four_local_3xNVLink2":
        return [host(machine, [0, 1, 2, 3], row["direction"]) / (4 * 75)]
    if pattern.startswith("cpu0-gpu_serial_bidir_vs_2x_uni"):
        return [host(machine, [0], "bidir") / (2 * host(machine, [0], "htod"))]
    if pattern == "cpu0-gpu_parallel_vs_parallel(4+6)_approx":
        sets_of = ([0, 2, 4, 6], list(range(8)))
        return [host(machine, gpus, "bidir") / host(machine, [4, 6], "bidir") for gpus in sets_of]
    if pattern == "cpu0-gpu_parallel_vs_parallel(0+2+4+6)_no_increase":
        return [host(machine, list(range(8)), d) / host(machine, [0, 2, 4, 6], d) for d in directions]
    if pattern == "p2p_serial_vs_direct":
        return [peer(machine, 0, 2) / peer(machine, 0, 1), peer(machine, 0, 3) / peer(machine, 0, 1)]
    if pattern == "p2p_parallel_vs_all_3xNVLink2":
        return [pairs(machine, [0, 1, 2, 3]) / (4 * 75)]
    if pattern == "p2p_serial_drop_vs_direct":
        return [1 - peer(machine, 0, 3) / peer(machine, 0, 1)]
    raise KeyError(pattern)


def machine_against_machine(row: Row) -> list[float]:
    """sort22 §4.3: the DGX A100's NVSwitch against the others' links."""
    switch = linkwise.load_machine("dgx-a100")
    other = linkwise.load_machine("delta-d22x" if "AC922" not in row["platform"] else "ibm-ac922")
    if row["pattern"] == "p2p_serial_speedup":
        pair = (0, 1) if "AC922" in row["platform"] else (0, 3)
        return [peer(switch, 0, 1) / peer(other, *pair)]
    gpus = [0, 1] if row["gpus"] == "2_gpus" else [0, 1, 2, 3]
    return [pairs(switch, gpus) / pairs(other, gpus)]


def phases(machine: _core.Machine, gpus: list[int]) -> dict[str, float]:
    workload = _core.SortWorkload()
    workload.count, workload.verify = 2_000_000_000, False  # sort22 §6.1: 8 GB of int32, nothing verified
    report = _core.estimate_sort(machine, workload, plan_for(gpus, "p2p_merge", "copies"))
    return {phase.phase: phase.seconds for phase in report.phases} | {"total": report.seconds}


SETS_OF_THE_PAPER = {
    "0": [0], "0+1": [0, 1], "0+2": [0, 2], "0+1+2+3": [0, 1, 2, 3], "0+2+4+6": [0, 2, 4, 6], "0-7": list(range(8)),
}  # fmt: skip


def sorts(row: Row) -> list[float]:
    """sort22 §6.1: P2P sort, its speed-ups and the shares of its phases."""
    machine, pattern = machine_of(row), row["pattern"].removeprefix("e2e:p2p_sort_")
    own, one = phases(machine, SETS_OF_THE_PAPER[row["gpus"]]), phases(machine, [0])
    if pattern == "dtoh_phase_2gpu_vs_1gpu":
        return [own["DtoH"] / one["DtoH"]]
    if pattern == "htod_phase_2gpu_vs_1gpu":
        return [own["HtoD"] / one["HtoD"]]
    if pattern == "merge_phase_4gpu_vs_2gpu":
        return [own["merge"] / phases(machine, [0, 1])["merge"]]
    if pattern in ("speedup_2gpu_vs_1gpu", "speedup_vs_1gpu"):
        return [one["total"] / own["total"]]
    if pattern == "speedup_2gpu_vs_4gpu":
        return [phases(machine, [0, 1, 2, 3])["total"] / own["total"]]
    if pattern == "share_cpu-gpu_transfers":
        return [(own["HtoD"] + own["DtoH"]) / own["total"]]
    if pattern == "share_merge":
        return [own["merge"] / own["total"]]
    raise KeyError(pattern)


KINDS = {
    "NVLink2x3": "nvlink2x3", "NVLink2x2": "nvlink2x2", "NVLink2x1": "nvlink2x1", "NVLink1x2": "nvlink1x2",
    "NVLink3": "nvlink3", "NVLink4": "nvlink4", "NVSLI": "nvlink2-sli", "XBus": "xbus", "UPI": "upi",
    "InfinityFabric": "infinity", "PCIe3": "pcie3", "PCIe4": "pcie4", "PCIe5": "pcie5", "dram": "dram",
}  # fmt: skip


def nominal(row: Row) -> list[float]:
    """What the vendors state, as the links of the machines carry it; of both directions where the row sums them."""
    machine = machine_of(row)
    name = row["pattern"].removeprefix("theory:").removeprefix("link_").split(" ")[0]
    kind = next(kind for prefix, kind in KINDS.items() if name.startswith(prefix))
    found = {link.nominal_gb_per_s for link in machine.links if link.kind.startswith(kind)}
    # commscope19 calls the sockets' figures bidirectional; its own 41 GB/s one way shows that they are not.
    both = 2 if row["direction"] == "bidir_sum" and kind not in ("xbus", "upi") else 1
    return [value * both / (3 if "one_lane" in row["pattern"] else 1) for value in found]


def commscope(row: Row) -> list[float]:
    pattern = row["pattern"]
    if pattern == "pinned_memcpyasync_vs_theory75":
        return [host(machine_of(row), [0], "htod") / 75]
    if pattern == "pinned_bidir_vs_uni_approx":
        # Not on the AC922: there sort22 measures 127 of 2 x 72, which a row of its own holds.
        machines = [linkwise.load_machine(name) for name in ("ibm-s822lc", "supermicro-4029gp")]
        return [host(machine, [0], "bidir") / host(machine, [0], "htod") for machine in machines]
    if pattern == "gpu-gpu_peer_on_minus_off_approx":
        names = ("ibm-ac922", "ibm-s822lc")
        return [
            peer(linkwise.load_machine(n), 0, 1) - peer(linkwise.load_machine(n, without="nvlink"), 0, 1) for n in names
        ]
    if pattern == "zerocopy_read_deficit_vs_explicit_approx":
        machine = machine_of(row)
        return [host(machine, [0], "htod") - machine.zero_copy_read_gb_per_s]
    return [host(machine_of(row), group, row["direction"]) for group in gpu_groups(row, 4)]


def tartan(row: Row) -> list[float]:
    pattern = row["pattern"]
    if pattern == "p2p_latency_routed_vs_direct_approx":
        machine = machine_of(row)
        return [latency(machine, [0, 1, 5]) / latency(machine, [0, 1])]
    if pattern == "p2p_nvswitch_2hop_vs_1hop":
        machine = machine_of(row)
        return [peer(machine, 0, 8) / peer(machine, 0, 1), peer(machine, 0, 8, True) / peer(machine, 0, 1, True)]
    if pattern == "p2p_bidir_vs_uni":
        machines = [linkwise.load_machine(name) for name in ("dgx2", "sli-rtx2080")]
        return [peer(machine, 0, 1, True) / peer(machine, 0, 1) for machine in machines]
    if pattern == "cl_bandwidth_nccl2_speedup_approx":
        gpus = list(range(int(row["gpus"][0])))
        newer, older = (
            _core.rings_of(linkwise.load_machine(name), gpus).gb_per_s for name in ("dgx1-v100", "dgx1-p100")
        )
        return [newer / older]
    nodes = linkwise.load_machine(f"{MACHINES[row['platform']]}:8")
    if pattern == "internode_GPUDirect-RDMA_64MB":
        return [gb_per_s(nodes, peer_transfers([(0, nodes.num_gpus // 8)], False, 64e6))]
    # Through pinned memory of both hosts: collectives, and copies whose three legs follow each other in chunks.
    return [gb_per_s(nodes, [(HOST, _core.Place.host(2), 1e9)])]


def proact(row: Row) -> list[float]:
    machine = linkwise.load_machine({"NVLink": "volta4", "PCIe3": "kepler4"}[row["platform"]])
    return [machine.store_goodput[4]]


def copies_of_eight(row: Row) -> list[float]:
    """join25 §4.3: the same bytes on eight GPUs and on four."""
    machine = machine_of(row)

    def seconds(gpus: list[int], direction: str) -> float:
        return 1 / host(machine, gpus, direction)

    one, other = ([seconds(list(range(g)), d) for d in BIDIR] for g in (8, 4))
    return [sum(one) / sum(other)]


def shuffles(row: Row) -> list[float]:
    """join25 §4.2: what P2P merge sort and radix partitioning exchange, on four GPUs against two."""
    machine = machine_of(row)
    total = 8e9
    if "block" in row["pattern"]:
        # Two stages of neighbours and one of opposites, each swapping half (sort22 figure 9); on two GPUs one stage.
        two = phases(machine, [0, 1])["merge"]
        return [phases(machine, [0, 1, 2, 3])["merge"] / two]

    def exchange(gpus: list[int]) -> float:
        each = total / len(gpus) ** 2
        transfers = [(_core.Place.gpu(a), _core.Place.gpu(b), each) for a in gpus for b in gpus if a != b]
        return sum(t[2] for t in transfers) / gb_per_s(machine, transfers)

    return [exchange([0, 1, 2, 3]) / exchange([0, 1])]


def predict(row: Row) -> list[float]:
    """All values that the row may mean; raises KeyError for a row that nobody knows."""
    by_paper: dict[str, Callable[[Row], list[float]]] = {"commscope19": commscope, "tartan19": tartan, "proact": proact}
    pattern = row["pattern"]
    if pattern.startswith("theory:cpu0"):
        return [host(machine_of(row), [0, 1], "htod")]
    if row["platform"] == "DGX-2" and pattern.startswith("theory:"):
        links = {link.kind: link for link in linkwise.load_machine("dgx2").links}
        kind = "nvlink2x6" if "gpu-gpu" in pattern else "nvlink2x48"
        return [2 * links[kind].nominal_gb_per_s]
    if pattern.startswith("theory:"):
        return nominal(row)
    if row["paper"] in by_paper:
        return by_paper[row["paper"]](row)
    if row["paper"] == "join25":
        return copies_of_eight(row) if "htod+dtoh" in pattern else shuffles(row)
    if pattern.startswith("e2e:"):
        return sorts(row)
    if "/" in row["platform"]:
        return machine_against_machine(row)
    return measured_copies(row) if row["unit"] == "GB/s" else ratios_of_copies(row)
