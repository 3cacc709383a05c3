"""Holds the machine model against what was measured: within 10 %, but for exceptions that are named."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

import linkwise
from benchmark_on_machine import gb_per_s, host_transfers, mirrored_pairs, peer_transfers
from paper_rows import ROWS, name_of, predict

TOLERANCE = 0.10
GIB = float(1 << 30)

EXCEPTIONS = {
    "h2d {4,5,6}: 144": "three of the fast GPUs read slower than two plus one of four: 144 against 109 and 175 GB/s; "
    "no set of linear constraints has 3x = 144 and 4x = 175 with 2x = 110, and no mechanism is known",
    "d2h, 30 % over {0,1,2,3}: 90": "measured once; it lies below both of its neighbours' trend (20 %: 113, 40 %: 86)",
}


# Rows of the papers that no description holds, and why: five of 111.
PAPER_EXCEPTIONS = {
    "sort22-AC922-e2e:p2p_sort_merge_phase_4gpu_vs_2gpu-0+1+2+3-p2p": "its copies at the paper's own 53 GB/s and its "
    "local merges explain a factor of 2.9; what took the rest is not said",
    "join25-AC922-e2e:p2p_block_shuffle_4gpu_vs_2gpu_slowdown-0+1+2+3-p2p": "the same phase on the same machine",
    "join25-AC922-e2e:p2p_bucket_swap_4gpu_vs_2gpu_slowdown-0+1+2+3-p2p": "at sort22's rates over X-Bus and NVLink it "
    "is 2.6; join25 does not say what else the phase holds",
    "tartan19-V100-DGX-1-p2p_latency_routed_vs_direct_approx-remote-lat": "two copies in a row take twice as long as "
    "one, as on P100s; why three times on V100s is not known",
    "tartan19-Summit-internode_cl_peak_approx-8_nodes-coll": "more than a node's two rails of EDR carry, 25 GB/s",
}


def is_held(row: dict[str, str], predictions: list[float]) -> bool:
    measured, pattern = float(row["value"]), row["pattern"]
    # sort22's sorts: 15 %, the others 10 %.
    tolerance = 0.15 if pattern.startswith("e2e:") else TOLERANCE
    if pattern.endswith("_min") or "lower_bound" in pattern:  # the least of what the paper measured
        return all(predicted >= measured * (1 - tolerance) for predicted in predictions)
    if pattern.endswith(("_max", "_upper")):
        return all(predicted <= measured * (1 + tolerance) for predicted in predictions)
    return all(predicted == pytest.approx(measured, rel=tolerance) for predicted in predictions)


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_published_figure(row: dict[str, str]) -> None:
    predictions = predict(row)
    assert predictions
    if name_of(row) in PAPER_EXCEPTIONS:
        assert not is_held(row, predictions), "it is no exception any more"
    else:
        assert is_held(row, predictions), f"{row['value']} {row['unit']}, not {predictions}"


def test_every_row_is_looked_at() -> None:
    assert len(ROWS) == 111
    assert len(PAPER_EXCEPTIONS) <= 5
    assert set(PAPER_EXCEPTIONS) <= {name_of(row) for row in ROWS}


def test_the_papers_numa_effects() -> None:
    """tartan20 §3.1.2: GPUs behind one PCIe switch reach each other more slowly than others, most so both ways."""
    for name, near, far in (("dgx1-v100", (2, 3), (1, 2)), ("dgx2", (0, 2), (0, 4))):
        machine = linkwise.load_machine(name, without="nvlink")

        def rate(pair: tuple[int, int], both: bool, machine: linkwise._core.Machine = machine) -> float:
            return gb_per_s(machine, peer_transfers([pair], both, 4e7))

        assert 0.7 * rate(far, False) < rate(near, False) < 0.95 * rate(far, False)
        assert rate(near, True) < 0.7 * rate(far, True)
    volta = linkwise.load_machine("dgx1-v100")

    def over(*path: int) -> float:
        hops = itertools.pairwise(path)
        return min(gb_per_s(volta, peer_transfers([hop], False, 4e7)) for hop in hops)

    assert over(0, 4, 7) > 1.9 * over(0, 2, 6)  # §3.1.3: the best and the worst route
    assert over(0, 3) > 1.9 * over(0, 1)  # double and single links


def test_collectives_over_links_gain_with_gpus_and_over_pcie_lose() -> None:
    """tartan20 §3.2.1, figure 20: and five GPUs of a DGX-1 make no good ring."""

    def rates(machine: linkwise._core.Machine) -> list[float]:
        return [linkwise._core.rings_of(machine, list(range(g))).gb_per_s for g in (2, 4, 5, 8)]

    two, four, five, eight = rates(linkwise.load_machine("dgx1-v100"))
    assert two < four < eight
    assert five < four / 2
    two, four, five, eight = rates(linkwise.load_machine("dgx1-v100", without="nvlink"))
    assert two >= four >= eight


# Eight H200s, measured on 2026-11-20: sets of GPUs with equal shares, 2 GiB a GPU and direction.
SETS = [
    ((0,), 55.4, 55.2, 96.5), ((0, 1), 79, 77, 100), ((0, 2), 88, 68, 85), ((0, 1, 2, 3), 89, 72, 93),
    ((0, 4), 108, 106, 137), ((4, 5, 6, 7), 175, 143, 178), ((0, 2, 4, 6), 163, 103, 141),
    (tuple(range(8)), 156, 92, 120),
    ((4, 6), 109.5, 109.5, None), ((4, 5, 6), 144, 130, None),
]  # fmt: skip
# 8 GiB in all; the share in percent that {0,1,2,3} carry of it.
SHARES = [(0, 177, 142), (10, 175, 120), (20, 175, 113), (30, 174, 90), (40, 174, 86), (50, 149, 79)]


def h200_cases() -> list[tuple[str, Callable[[], float], float]]:
    machine = linkwise.load_machine("h200x8")
    cases: list[tuple[str, Callable[[], float], float]] = []

    def add(name: str, transfers: list, measured: float | None) -> None:
        if measured is not None:
            cases.append((f"{name}: {measured:g}", lambda: gb_per_s(machine, transfers), measured))

    for gpus, h2d, d2h, both in SETS:
        label = "{" + ",".join(map(str, gpus)) + "}"
        for direction, measured in (("htod", h2d), ("dtoh", d2h), ("bidir", both)):
            name = {"htod": "h2d", "dtoh": "d2h", "bidir": "both"}[direction]
            add(f"{name} {label}", host_transfers(gpus, direction, 2 * GIB), measured)
    for share, h2d, d2h in SHARES:
        slow, fast = 2 * GIB * share / 100, 2 * GIB * (100 - share) / 100
        for direction, measured in (("htod", h2d), ("dtoh", d2h)):
            transfers = [
                transfer
                for gpus, num_bytes in ((range(4), slow), (range(4, 8), fast))
                if num_bytes
                for transfer in host_transfers(list(gpus), direction, num_bytes)
            ]
            add(f"{direction[0]}2{direction[-1]}, {share} % over {{0,1,2,3}}", transfers, measured)
    add("peer", peer_transfers([(0, 5)], False, 2 * GIB), 396)
    add("peer, both ways", peer_transfers([(0, 5)], True, 2 * GIB), 782)
    add("peer, four mirrored pairs", peer_transfers(mirrored_pairs(range(8)), True, 2 * GIB), 3118)
    everyone = [(a, b) for a in range(8) for b in range(8) if a != b]
    add("peer, all to all", peer_transfers(everyone, False, GIB / 4), 3035)
    return cases


@pytest.mark.parametrize(("name", "predict", "measured"), h200_cases(), ids=[case[0] for case in h200_cases()])
def test_measured_set_of_the_h200s(name: str, predict: Callable[[], float], measured: float) -> None:
    predicted = predict()
    if name in EXCEPTIONS:
        assert predicted != pytest.approx(measured, rel=TOLERANCE), f"{name} is no exception any more: {predicted:.1f}"
        return
    assert predicted == pytest.approx(measured, rel=TOLERANCE)


def test_at_most_two_exceptions() -> None:
    names = [name for name, _, _ in h200_cases()]
    assert set(EXCEPTIONS) <= set(names)
    assert len(EXCEPTIONS) <= 2
