"""Evaluating Multi-GPU Sorting, SIGMOD 2022, §6.2, figure 15: HET sort of more than the GPUs hold, and the cores alone.

Both approaches have 33 GB of each GPU: chunks of 4.125·10⁹ keys in two buffers, of 2.75·10⁹ in three.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from linkwise._core import Machine
from linkwise.reproduce.experiment import Lab, Row
from linkwise.reproduce.sort22.transfers import A100, AC922

HOST_MERGES = "the host's rates of merging are from these"
CPU_RATE = "the cores' rate is from this"

_BILLIONS = (12, 24, 36, 48, 60)
_CHUNK = {2: 4_125_000_000, 3: 2_750_000_000}  # keys, by the number of buffers
_MEASURED = 100  # where GPUs are measured, sizes and chunks are this many times smaller


def fitting(machine: Machine, gpus: Iterable[int]) -> list[int]:
    """Those of the GPUs that this machine has."""
    return [gpu for gpu in gpus if gpu < machine.num_gpus]


def on_cores(lab: Lab, machine: Machine, count: int, *, of_one_node: bool = False) -> float:
    """Seconds by PARADIS. A described machine's rate is that of keys spread over the memory of all NUMA nodes.

    ``of_one_node``: the keys lie in one node's memory, as those of §6.1 do. In-place passes are bound by the memory,
    of whose controllers they then have one node's share.
    """
    if lab.measures:
        return lab.sort(machine, "cpu", [], count, cpu_algorithm="paradis")["total"]
    return lab.sort(machine, "cpu", [], count)["total"] * (machine.num_host_memories if of_one_node else 1)


def _het(lab: Lab, machine: Machine, gpus: list[int], count: int, buffers: int, *, eager: bool) -> dict[str, float]:
    chunks: dict[str, Any] = {"chunkset_records": _CHUNK[buffers] * len(gpus) // (_MEASURED if lab.measures else 1)}
    if lab.instead is not None and not lab.measures:
        chunks = {}  # as large as fits its GPUs
    return lab.sort(machine, "het", gpus, count, het_buffers=buffers, eager_merge=eager, **chunks)


def out_of_core(lab: Lab) -> list[Row]:
    """HET sort by approach and size, beside the cores."""
    machine = lab.machine(A100)
    gpus, ours = fitting(machine, range(8)), lab.instead is None
    rows: list[Row] = []
    eagerly: dict[int, list[float]] = {2: [], 3: []}
    for billions in _BILLIONS:
        count = billions * 10**9 // (_MEASURED if lab.measures else 1)
        size = f"{billions}·10⁹ keys" if not lab.measures else f"{billions}/{_MEASURED}·10⁹ keys"
        largest = ours and billions == _BILLIONS[-1]
        took: dict[tuple[int, bool], dict[str, float]] = {}
        for buffers in (2, 3):
            for eager in (False, True):
                took[buffers, eager] = _het(lab, machine, gpus, count, buffers, eager=eager)
                called = f"{size}, HET sort, {buffers}n" + (", eager merging" if eager else "")
                whole = largest and not eager
                rows.append(
                    Row(
                        called,
                        "s",
                        took[buffers, eager]["total"],
                        10.0 if whole else None,
                        fitted=HOST_MERGES if whole else "",
                    )
                )
        total = {way: phases["total"] for way, phases in took.items()}
        rows.append(Row(f"{size}, 3n to 2n", "×", total[3, False] / total[2, False], 1.0 if ours else None,
                        "almost identical"))  # fmt: skip
        for buffers, so_far in eagerly.items():  # merges early with two groups or more
            so_far.append(total[buffers, True] / total[buffers, False])
            rows.append(Row(f"{size}, eager merging to not, {buffers}n", "×", so_far[-1]))
        if largest:
            share = took[2, False]["merge"] / total[2, False]
            rows.append(Row(f"{size}, HET sort, 2n, share of the final merge", "of 1", share, 0.5, fitted=HOST_MERGES))
        rows.append(Row(f"{size}, HET sort over the cores", "×", on_cores(lab, machine, count) / total[2, False],
                        2.6 if largest else None, fitted=CPU_RATE if largest else ""))  # fmt: skip
    rows += [
        Row(f"eager merging to not, {buffers}n, at most", "×", max(ratios), 1.6 if ours else None, "1.5 to 1.75")
        for buffers, ratios in eagerly.items()
    ]  # fmt: skip
    return rows + _ac922(lab) if ours else rows


def _ac922(lab: Lab) -> list[Row]:
    """32·10⁹ keys on two GPUs of the machine whose host merges the slowest, in chunks as large as figure 12 sorts."""
    took = lab.sort(
        lab.machine(AC922), "het", [0, 1], 32 * 10**9,
        het_buffers=2, eager_merge=False, chunkset_records=2 * 2 * 10**9,
    )  # fmt: skip
    called = "AC922, 32·10⁹ keys, HET sort on two GPUs"
    over_cores = on_cores(lab, lab.machine(AC922), 32 * 10**9) / took["total"]
    return [
        Row(called, "s", took["total"], 13.0, fitted=HOST_MERGES),
        Row(f"{called}, share of the final merge", "of 1", took["merge"] / took["total"], 0.77, fitted=HOST_MERGES),
        Row(f"{called}, over the cores", "×", over_cores, 2.4, "2.3 to 2.5", fitted=CPU_RATE),
    ]
