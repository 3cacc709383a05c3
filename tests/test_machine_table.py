"""Holds the machine model against what was measured: each within 10 %, but for two exceptions that are named."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

import linkwise
from benchmark_on_machine import gb_per_s, host_transfers, mirrored_pairs, peer_transfers

TOLERANCE = 0.10
MACHINES = {"AC922": "ibm-ac922", "DELTA_D22x": "delta-d22x", "DGX-A100": "dgx-a100"}
PAPER_BYTES = 4e9  # sort22 §4.2 copies 4 GB a GPU
GIB = float(1 << 30)

# Rows whose pattern this test reproduces; ratios and other machines are for the probe's issue.
ROWS = [
    row
    for row in csv.DictReader((Path(__file__).parent / "paper_bandwidths.csv").open(encoding="utf-8"))
    if row["platform"] in MACHINES and row["unit"] == "GB/s" and not row["pattern"].startswith(("theory:", "e2e:"))
]

EXCEPTIONS = {
    "h2d {4,5,6}: 144": "three of the fast GPUs read slower than two plus one of four: 144 against 109 and 175 GB/s; "
    "no set of linear constraints has 3x = 144 and 4x = 175 with 2x = 110, and no mechanism is known",
    "d2h, 30 % over {0,1,2,3}: 90": "measured once; it lies below both of its neighbours' trend (20 %: 113, 40 %: 86)",
}


def gpu_groups(row: dict[str, str], num_gpus: int) -> list[list[int]]:
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


def predictions(row: dict[str, str]) -> list[float]:
    machine = linkwise.load_machine(MACHINES[row["platform"]])
    pattern = row["pattern"]
    found = []
    for group in gpu_groups(row, machine.num_gpus):
        if pattern.startswith("p2p_parallel_pairs"):
            pairs = [(0, 3), (1, 2)] if "(0-3)" in pattern else mirrored_pairs(group)
            found.append(gb_per_s(machine, peer_transfers(pairs, True, PAPER_BYTES)))
        elif pattern.startswith("p2p"):
            pair = (group[0], group[1] if len(group) > 1 else (group[0] + 1) % machine.num_gpus)
            found.append(gb_per_s(machine, peer_transfers([pair], False, PAPER_BYTES)))
        else:
            for direction in row["direction"].replace("bidir_sum", "bidir").split("|"):
                found.append(gb_per_s(machine, host_transfers(group, direction, PAPER_BYTES)))
    return found


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: "-".join((row["platform"], row["pattern"], row["gpus"], row["direction"]))
)
def test_published_bandwidth(row: dict[str, str]) -> None:
    measured = float(row["value"])
    for predicted in predictions(row):
        if row["pattern"].endswith("_min"):  # the least of what the paper measured
            assert predicted >= measured * (1 - TOLERANCE)
        elif row["pattern"].endswith(("_max", "_upper")):
            assert predicted <= measured * (1 + TOLERANCE)
        else:
            assert predicted == pytest.approx(measured, rel=TOLERANCE)


def test_the_table_is_not_empty() -> None:
    assert len(ROWS) == 25


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
