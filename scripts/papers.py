"""Write docs/papers.md: what the five papers state, how near ours is, where it is, and what is deliberately different.

    python scripts/papers.py        # some minutes: every experiment is run on the papers' machines

The text of the sections is in this file; figures and tables come from ``linkwise reproduce``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from linkwise.reproduce.exemptions import exemption_of, is_near
from linkwise.reproduce.experiment import Experiment, Row
from linkwise.reproduce.registry import EXPERIMENTS, reproduce

PAGE = Path(__file__).resolve().parent.parent / "docs" / "papers.md"

TITLES = {
    "commscope19": "Comm|Scope: Evaluating Characteristics of CUDA Communication Primitives (ICPE 2019)",
    "tartan20": "Tartan: Evaluating Modern GPU Interconnect (TPDS 2020)",
    "sort22": "Evaluating Multi-GPU Sorting with Modern Interconnects (SIGMOD 2022)",
    "join25": "Efficiently Joining Large Relations on Multi-GPU Systems (PVLDB 2025)",
    "proact21": "PROACT: Proactive Data Movement for Multi-GPU Strong Scaling (ISCA 2021)",
}
# Section: where it is, and what is deliberately different.
SECTIONS: dict[str, list[tuple[str, str, str]]] = {
    "commscope19": [
        ("§2 method: NUMA binding, cache flushes, events or the wall's clock, the governor",
         "`probe/cuda/measuring`, `probe/prober`, `probing/probe.py`",
         "repetitions end when they vary by 2 % or less and the median counts, not a second's mean; all that arrives "
         "is verified; a governor other than `performance` is a finding"),
        ("§3.2 explicit copies: pinned, pageable, pageable to pinned, peers with and without access",
         "`probe/cuda/curve_families`, `host_families`, `peer_families`", "every fourth power of two, not every one"),
        ("§3.3 zero-copy", "`probe/cuda/curve_families`, `host_families`",
         "beside the paper's words of four bytes, words of sixteen"),
        ("§3.4 unified memory, on demand and prefetched", "`probe/cuda/curve_families`, `unified_families`",
         "beside one byte a page, kernels that read all of it"),
        ("its public code: packed and 3-D faces, chunks", "`probe/cuda/halo_families`", "one grid, 256³ cells"),
    ],
    "tartan20": [
        ("§2 the machines", "`machines/described/*.json`, `machine/`", "twelve of them, DGX-2 with 32 GB"),
        ("§3.1 peer to peer: latency, bandwidth, routing, sizes, NUMA effects", "`probe/`, `machine/paths`", ""),
        ("§3.2 collectives within a machine", "`machine/rings`, `probe/cuda/collectives`",
         "described machines go along NCCL's rings; NCCL 1 and its trees are not modelled"),
        ("§3.3, §3.4 between nodes", "`messages/`, `machines/network.py`", ""),
        ("§4 the fourteen applications", "`apps/tartan/`, docs/applications.md", "small programs of our own"),
    ],
    "sort22": [
        ("§4 transfers", "`probe/`, `machines/described/`", ""),
        ("§5.1 single-GPU primitives", "`primitives/cuda/`, `bench/local_primitives.py`",
         "CUB's, and our own sort by most significant digits, which goes back to Stehle and Jacobsen's"),
        ("§5.2 P2P sort", "`sort/strategies/p2p_merge_sort`",
         "the right half keeps its order where it arrives: chunks stay at two runs, and the sort is stable"),
        ("§5.3 HET sort, 2n and 3n, eager merging", "`sort/strategies/het_sort`",
         "the host merges by multisequence selection and trees of two-way merges, with all cores"),
        ("§5.4 GPU sets and orders", "`plan/candidates`, `merge_orders`",
         "computed from the machine: sets, shares, ways, and the orders of four and of eight GPUs"),
        ("§6 CPU baselines", "`primitives/host/paradis`, `parallel_sort`",
         "PARADIS in place, libstdc++'s parallel sort, and our radix sort, which is the fastest of them"),
    ],
    "join25": [
        ("§3.1.1 multi-GPU merge sort", "`sort/strategies/p2p_merge_sort`", "as above"),
        ("§3.1.2 multi-GPU radix sort in MSB buckets",
         "`sort/strategies/bucket_radix_sort` (`splitting=\"buckets\"`)",
         "the default sort cuts by samples and streams: no pass over the keys before the exchange"),
        ("§3.1.3 chunksets", "`sort/host_sort`", ""),
        ("§3.2 multiway merge", "`sort/merge/`", "the default merges on the GPUs in one round"),
        ("§3.3 merge path, merge join", "`join/out_of_core/`",
         "the default joins on the GPUs where they hold both sides"),
        ("§4.1.4 Rui et al.'s joins", "`join/baselines/hybrid_radix_join`, `sort/merge/pairwise_merge`",
         "their algorithms on our primitives: far faster than their code, so that the paper's factors are not ours"),
        ("§4.1.4 Balkesen et al.'s joins", "`join/host_hash_join`, `host_merge_join`; `bench join`",
         "ours on the cores, measured beside; their AVX code is not here"),
    ],
    "proact21": [
        ("§III-A profiler", "`transfer/proactive/tuner`", "a third of the sweep, unless `--exhaustive`"),
        ("§III-B tracking", "`transfer/proactive/mapping`, `cuda/run_blocks`", "counters count up, never reset"),
        ("§III-C polling", "`transfer/proactive/cuda/agents`",
         "launched behind the kernel on a stream of higher priority, and takes pieces by tickets, not by a bitmap"),
        ("§III-C dynamic kernel launches", "`transfer/proactive/cuda/launching`",
         "as in listing 1, but the producer's grid is resident: today's GPUs begin a launched kernel when all blocks "
         "of the one that runs have begun"),
        ("§III-D hardware agents", "`transfer/proactive/simulated_producer`", "on described machines alone, as there"),
        ("§IV-B unified memory", "`transfer/proactive/cuda/unified`", "on GPUs alone; one set of hints for all"),
        ("§IV-C applications", "`apps/`", "ours; Jacobi and X-ray at sizes of our own, which the paper does not state"),
    ],
}  # fmt: skip


def _shown(row: Row) -> str:
    return f"{row.what}: {row.paper:.3g}, ours {row.ours:.3g} {row.unit}".rstrip()


def _stated(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """The rows of which the paper states a number: those that were not fitted to it, and those that were."""
    stated = [row for row in rows if row.ratio is not None]
    return [row for row in stated if not row.fitted], [row for row in stated if row.fitted]


def _of_experiment(experiment: Experiment, rows: list[Row]) -> tuple[str, list[str]]:
    """The experiment's line of the table, and the notes beneath it."""
    free, fitted = _stated(rows)
    near = [row for row in free if is_near(row)]
    held = [statement.holds(rows) for statement in experiment.statements]
    numbers = f"{len(near)} of {len(free)}" if free else "–"
    words = f"{held.count(True)} of {len(held)}" if held else "–"
    line = f"| `{experiment.name}` | {experiment.title} | {numbers} | {len(fitted) or '–'} | {words} |"
    beneath = []
    for row in free:
        exempt = exemption_of(experiment.name, row)
        if exempt is not None:
            beneath.append(f"- `{experiment.name}`: {_shown(row)}: {exempt.why}.")
    marks = {True: "holds", False: "does not", None: "is not modelled"}
    for statement, holds in zip(experiment.statements, held, strict=True):
        why = f": {statement.fails}" if statement.fails else ""
        beneath.append(f"- `{experiment.name}` ({statement.where}): {statement.says}. **{marks[holds]}**{why}.")
    return line, beneath


def page() -> Iterator[str]:
    """The lines of the page."""
    yield "# What the papers state, and how near ours is"
    yield ""
    yield (
        "Made by `python scripts/papers.py` from what `linkwise reproduce NAME` finds on the papers' machines, which "
        "are described in `python/linkwise/machines/described/` and simulated. `--machine local` measures the same on "
        "yours, scaled to it."
    )
    yield ""
    yield (
        "A number that a paper states is met within 15 %; a size that is read from a curve over powers of two, "
        "within one step. It counts as fitted, and says nothing, where the description of the machine was made to give "
        "it. What a paper says in words holds, does not, or is not modelled; where it does not, there is a reason."
    )
    yield ""
    free: list[Row] = []
    fitted: list[Row] = []
    body: list[str] = []
    for paper, title in TITLES.items():
        body += ["", f"## {title}", "", "| what | where | what is deliberately different |", "|---|---|---|"]
        body += [f"| {what} | {where} | {different} |" for what, where, different in SECTIONS[paper]]
        body += ["", "| experiment | what it is | numbers met | fitted | in words |", "|---|---|---:|---:|---:|"]
        beneath: list[str] = []
        for name, experiment in EXPERIMENTS.items():
            if not name.startswith(paper):
                continue
            rows = reproduce(name)
            line, said = _of_experiment(experiment, rows)
            body.append(line)
            beneath += said
            free_here, fitted_here = _stated(rows)
            free += free_here
            fitted += fitted_here
        body += ["", *beneath]
    errors = sorted(abs(row.ratio - 1) for row in free if row.ratio is not None)
    yield (
        f"Of {len(free)} numbers that were not fitted, {sum(map(is_near, free))} are met: the median is "
        f"{median(errors):.1%} away, nine of ten at most {errors[9 * len(errors) // 10]:.0%}, and one "
        f"{errors[-1]:.0%}. {len(fitted)} were fitted."
    )
    yield from body


def main() -> None:
    """Write the page."""
    PAGE.write_text("\n".join(page()) + "\n", encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
