"""What Tartan's text says of its figures 28 to 39 in words: between nodes, and of applications."""

from __future__ import annotations

from statistics import geometric_mean

from linkwise.messages.ways import BETWEEN_NODES
from linkwise.reproduce.experiment import Rows, Statement

_KIB, _MIB = 1 << 10, 1 << 20
_COLLECTIVES = ("broadcast", "all_gather", "reduce", "all_reduce", "reduce_scatter")
_FLAT = "a ring of n nodes takes n - 1 steps here; NCCL's trees are not modelled"


def _latencies(rows: Rows, size: int) -> dict[str, float]:
    return {way: rows[f"{way}, {size} B, latency"] for way in BETWEEN_NODES}


def _least(values: dict[str, float]) -> str:
    return min(values, key=values.__getitem__)


def _gains(rows: Rows, abbreviation: str) -> list[float]:
    """The time of NCCL's version relative to the baseline's, over machines and numbers of GPUs."""
    return [
        row.ours for row in rows.rows
        if f", {abbreviation}, " in row.what and row.what.endswith("to the baseline's") and row.ours is not None
    ]  # fmt: skip


def _mean_speedup(rows: Rows, way: str, nodes: int = 8) -> float:
    return geometric_mean(rows.of("", f", {nodes} nodes, {way}"))


NODES: dict[int, tuple[Statement, ...]] = {
    28: (
        Statement("SummitDev: up to 4 KB the five ways hardly differ", "§3.3 (i)",
                  lambda r: all(max(_latencies(r, size).values()) < 1.3 * min(_latencies(r, size).values())
                                for size in (4, 256, 4 * _KIB))),
        Statement("RDMA is the slowest from 4 to 64 KB", "§3.3 (ii)",
                  lambda r: all(_least({way: -us for way, us in _latencies(r, size).items()}) == "rdma"
                                for size in (16 * _KIB, 64 * _KIB))),
        Statement("pinned memory with GPUDirect reaches more than 14 GB/s", "§3.3 (iii)",
                  lambda r: r["host-pinned-gpudirect, 64 MB"] > 14),
        Statement("RDMA falls dramatically behind 64 MB", "§3.3 (v)",
                  lambda r: r[f"rdma, {1024 * _MIB} B"] < 0.7 * r["rdma, 64 MB"]),
    ),
    29: (
        Statement("Summit: RDMA always has the lowest latency, most so up to 1 MB", "§3.3",
                  lambda r: all(_least(_latencies(r, 4**power)) == "rdma" for power in range(1, 16))
                  and _latencies(r, _MIB)["host"] / _latencies(r, _MIB)["rdma"]
                  > _latencies(r, 256 * _MIB)["host-pinned"] / _latencies(r, 256 * _MIB)["rdma"]),
        Statement("there is no drop as on SummitDev", "§3.3",
                  lambda r: r[f"rdma, {1024 * _MIB} B"] >= r[f"rdma, {64 * _MIB} B"]),
    ),
    30: (
        Statement("SummitDev: the bandwidth hardly changes with the nodes", "§3.4",
                  lambda r: all(r[f"{name}, 8 nodes, 1 GiB"] > 0.95 * r[f"{name}, 2 nodes, 1 GiB"]
                                for name in ("all_gather", "all_reduce", "reduce_scatter"))),
        Statement("all patterns converge", "§3.4",
                  lambda r: all(r[f"{name}, 8 nodes, 1 GiB"] > 0.9 * r["all_reduce, 8 nodes, 1 GiB"]
                                for name in _COLLECTIVES),
                  "a broadcast over several nodes passes each node's network card twice here"),
        Statement("the latency is flat over the nodes, but for all-reduce", "§3.4",
                  lambda r: r["broadcast, 8 nodes, 4 B"] < 1.2 * r["broadcast, 2 nodes, 4 B"], _FLAT),
        Statement("reduce-scatter and all-gather dip at 3 and 5 nodes", "§3.4", None, "a ring has no such sizes"),
    ),
    31: (
        Statement("Summit: all-reduce parts much less from the others than on SummitDev, 100 µs or less", "§3.4",
                  lambda r: r["all_reduce, 8 nodes, 4 B"] - r["broadcast, 8 nodes, 4 B"] < 100),
        Statement("the latency is flat over the nodes", "§3.4",
                  lambda r: r["broadcast, 8 nodes, 4 B"] < 1.2 * r["broadcast, 2 nodes, 4 B"], _FLAT),
        Statement("dips at 3, 5, 6 and 7 nodes", "§3.4", None, "a ring has no such sizes"),
    ),
}  # fmt: skip

_WITHIN = (
    Statement("the links' gain does not carry over: most applications take as long in either version", "§4.1",
              lambda r: sum(0.94 < gain < 1.07 for gain in r.of("", "to the baseline's"))
              > 0.9 * len(r.of("", "to the baseline's"))),
    Statement("CNN's two versions are the same", "§4.1", lambda r: all(gain == 1 for gain in _gains(r, "CNN"))),
)  # fmt: skip
_GMM = Statement("GMM takes up to about 6 % less", "§4.1", lambda r: 0.93 < min(_gains(r, "GMM")) < 0.98)
_OVER = (
    Statement("GPUDirect helps with ordinary and with pinned memory", "§4.2 (i)",
              lambda r: _mean_speedup(r, "host-gpudirect") >= _mean_speedup(r, "host")
              and _mean_speedup(r, "host-pinned-gpudirect") > _mean_speedup(r, "host-pinned")),
    Statement("pinned memory helps, most with GPUDirect", "§4.2 (ii)",
              lambda r: _mean_speedup(r, "host-pinned") > _mean_speedup(r, "host")
              and _mean_speedup(r, "host-pinned-gpudirect") / _mean_speedup(r, "host-gpudirect")
              > _mean_speedup(r, "host-pinned") / _mean_speedup(r, "host")),
    Statement("a faster way between nodes gains applications much", "§4.2",
              lambda r: _mean_speedup(r, "rdma") > 1.5 * _mean_speedup(r, "host")),
)  # fmt: skip
APPLICATIONS: dict[int, tuple[Statement, ...]] = {
    32: (*_WITHIN, _GMM),
    33: _WITHIN,
    34: (*_WITHIN, _GMM),
    35: _WITHIN,
    **dict.fromkeys((36, 37, 38, 39), _OVER),
}
