"""What proact21 says of its figures in words."""

from __future__ import annotations

from linkwise.reproduce.experiment import Rows, Statement

_GENERATIONS = ("kepler4", "pascal4", "volta4")
_APPS = ("xray_ct", "jacobi", "pagerank", "sssp", "als")
_KIB = (4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144)


def _curve(rows: Rows, machine: str, agent: str) -> dict[int, float]:
    return {kib: rows[f"{machine}, {agent}, {kib} KiB"] for kib in _KIB}


def _share_of_machine(rows: Rows, machine: str, what: str) -> list[float]:
    return [rows[f"{machine}, {app}, {what}"] for app in _APPS]


STATEMENTS: dict[str, tuple[Statement, ...]] = {
    "fig2": (
        Statement("stores of more than 128 bytes are efficient, and 4 bytes carry a fraction", "§II-C",
                  lambda r: all(r[f"{name}, stores of 256 bytes"] > 0.8 > 5 * r[f"{name}, stores of 4 bytes"]
                                for name in ("kepler4", "volta4"))),
    ),
    "fig4": (
        Statement("best between 64 KiB and 1 MiB with more than 128 threads", "§III-A",
                  lambda r: max(r.of("256 threads, ")) == max(r[f"256 threads, {kib} KiB"] for kib in (64, 256, 1024))),
        Statement("128 threads saturate Kepler's links: more gain nothing, and fewer lose with large chunks", "§III-A",
                  lambda r: r["1024 threads, 256 KiB"] < 1.02 * r["128 threads, 256 KiB"]
                  and r["32 threads, 4096 KiB"] < 0.7 * r["128 threads, 4096 KiB"]),
    ),
    "fig6": (
        Statement("Kepler, dynamic: chunks of less than 16 KiB are slower than copying", "§V-A",
                  lambda r: _curve(r, "kepler4", "dynamic")[4] < 1),
        Statement("Kepler, dynamic: at its best from 16 KiB to 1 MiB", "§V-A",
                  lambda r: max(_curve(r, "kepler4", "dynamic").values())
                  == max(_curve(r, "kepler4", "dynamic")[kib] for kib in (16, 64, 256, 1024))),
        Statement("Kepler, dynamic: the largest chunks are slower than copying", "§V-A",
                  lambda r: _curve(r, "kepler4", "dynamic")[262144] < 1),
        Statement("Kepler: polling is slower than copying and than dynamic", "§V-A",
                  lambda r: r["kepler4, polling, best"] < 1 < r["kepler4, dynamic, best"]),
        Statement("Pascal: polling is the best", "§V-A",
                  lambda r: r["pascal4, polling, best"] > r["pascal4, dynamic, best"]),
        Statement("Volta, dynamic: small chunks are slower than copying", "§V-A",
                  lambda r: max(_curve(r, "volta4", "dynamic")[kib] for kib in (4, 16, 64)) < 1),
        Statement("Volta: polling is faster at nearly all granularities", "§V-A",
                  lambda r: sum(
                      _curve(r, "volta4", "polling")[kib] > _curve(r, "volta4", "dynamic")[kib] for kib in _KIB
                  ) >= len(_KIB) - 2),
    ),
    "fig7": (
        Statement("inline stores beat decoupled transfers in four cases of fifteen", "§V-B",
                  lambda r: sum(r[f"{name}, {app}, inline"] > r[f"{name}, {app}, decoupled"]
                                for name in _GENERATIONS for app in _APPS) == 4),
        Statement("copying gains less than half of PageRank's on Volta and Pascal, slower than one GPU", "§V-B",
                  lambda r: all(r[f"{name}, pagerank, memcpy"] < 1 for name in ("volta4", "pascal4")),
                  "our PageRank reads more for each vertex than it sends: 1.4 and 1.0 of one GPU"),
        Statement("with proactive transfers every application gains on every machine", "§V-B",
                  lambda r: all(min(_share_of_machine(r, name, "proact")) > 1 for name in _GENERATIONS)),
        Statement("unified memory is on average slower than one GPU", "§V-B", None,
                  "described machines have none; on H200s it is 0.1 to 0.3 of one GPU"),
    ),
    "fig8": (
        Statement("tracking takes 10 to 15 % on average on each platform", "§V-C",
                  lambda r: all(0.087 < r[f"{name}, mean tracking"] < 0.1725 for name in _GENERATIONS)),
        Statement("from almost nothing to 40 % for PageRank", "§V-C",
                  lambda r: r["volta4, pagerank"] > 0.3,
                  "one share of the memory's bandwidth stands for all applications"),
    ),
    "fig9": (
        Statement("at least 75 % of the transfers are always hidden", "§V-C",
                  lambda r: all(r[f"{name}, {app}"] >= 0.75 for name in _GENERATIONS for app in _APPS)),
    ),
    "fig10": (
        Statement("with two GPUs of Volta the method hardly matters", "§V-D",
                  lambda r: r["volta16, 2 GPUs, as fast as memcpy"] < 1.1),
        Statement("copying flattens beyond five or six Voltas, and falls", "§V-D",
                  lambda r: r["volta16, 16 GPUs, memcpy"] < r["volta16, 8 GPUs, memcpy"]
                  < 1.1 * r["volta16, 6 GPUs, memcpy"]),
        Statement("proactive transfers scale nearly linearly", "§V-D",
                  lambda r: r["volta16, 16 GPUs, proact"] > 0.65 * 16),
        Statement("copying flattens beyond two Keplers", "§V-D",
                  lambda r: r["kepler4, 4 GPUs, memcpy"] < 1.35 * r["kepler4, 2 GPUs, memcpy"]),
        Statement("Pascal's copies keep up to three GPUs", "§V-D",
                  lambda r: r["pascal4, 3 GPUs, memcpy"] > 1.1 * r["pascal4, 2 GPUs, memcpy"]
                  and r["pascal4, 4 GPUs, memcpy"] < 1.1 * r["pascal4, 3 GPUs, memcpy"]),
    ),
    "table2": (
        Statement("the agents of at least twelve of fifteen are the paper's", "table II",
                  lambda r: sum(row.ours or 0 for row in r.rows if row.unit == "the same agent") >= 12),
    ),
}  # fmt: skip
