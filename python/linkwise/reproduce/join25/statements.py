"""What join25 says of its figures in words."""

from __future__ import annotations

from linkwise.reproduce.experiment import Rows, Statement


def _times(rows: Rows, way: str) -> list[float]:
    return [row.ours for row in rows.rows if row.what.endswith(way) and row.ours is not None]


_BEHIND = (
    Statement("Rui et al.'s sort-merge join takes longer at every size", "§4.2",
              lambda r: min(_times(r, "Rui et al.'s sort-merge")) > 1),
    Statement("their hybrid radix join as well", "§4.2",
              lambda r: min(_times(r, "Rui et al.'s hybrid radix")) > 1,
              "theirs takes half of its time on the cores, by code of its own; here the host partitions as fast as its "
              "memory copies"),
    Statement("the hybrid radix join is the faster of the two", "§4.2",
              lambda r: max(_times(r, "Rui et al.'s hybrid radix")) < max(_times(r, "Rui et al.'s sort-merge"))),
)  # fmt: skip


def _faster(rows: Rows, gpus: int, billions: str) -> bool:
    what = f"{billions}·10⁹ ⋈ {billions}·10⁹ on {gpus} GPUs"
    return rows[f"radix, {what}"] <= rows[f"merge, {what}"]


def _share(rows: Rows, what: str, phase: str) -> float:
    return rows[f"{what}, {phase}"]


STATEMENTS: dict[int, tuple[Statement, ...]] = {
    1: _BEHIND,
    11: _BEHIND,
    12: (
        Statement("Rui et al.'s sort-merge join takes longer where the GPUs hold S", "§4.2",
                  lambda r: all(r[f"dgx-h100, {what}: Rui et al.'s sort-merge"] > 1.4
                                for what in ("A, f = 5", "A, f = 30", "B, f = 4", "B, f = 16"))),
        Statement("where they do not, it does as well", "§4.2",
                  lambda r: r["dgx-h100, A, f = 38: Rui et al.'s sort-merge"] > 1),
        *_BEHIND[1:],
    ),
    13: (
        Statement("sorting by radix is never slower than by merging", "§4.3",
                  lambda r: all(_faster(r, gpus, "1.5") for gpus in (1, 2, 4))),
        Statement("four GPUs are slower than two", "§4.3",
                  lambda r: r["merge, 1.5·10⁹ ⋈ 1.5·10⁹ on 4 GPUs"] > r["merge, 1.5·10⁹ ⋈ 1.5·10⁹ on 2 GPUs"]),
        Statement("one GPU needs the host to merge, two do not", "§4.3",
                  lambda r: _share(r, "merge, 1.5·10⁹ ⋈ 1.5·10⁹ on 1 GPUs", "merge runs") > 0.1
                  and not r.of("merge, 1.5·10⁹ ⋈ 1.5·10⁹ on 2 GPUs, merge runs")),
    ),
    14: (
        Statement("sorting by radix is always better than by merging on several GPUs, by 2 to 12 %", "§4.3",
                  lambda r: all(_faster(r, gpus, "16") for gpus in (2, 4, 8)),
                  fails="on two GPUs merging is ahead by 2 %: it sorts more on each GPU, and our local sort is faster "
                        "than the paper's"),
        Statement("up to four GPUs the host merges, on eight it does not", "§4.3",
                  lambda r: all(r.of(f"radix, 16·10⁹ ⋈ 16·10⁹ on {gpus} GPUs, merge runs") for gpus in (1, 2, 4))
                  and not r.of("radix, 16·10⁹ ⋈ 16·10⁹ on 8 GPUs, merge runs")),
    ),
    15: (
        Statement("one GPU scales linearly with the size", "§4.4",
                  lambda r: 0.8 < r["dgx-h100, 20·10⁹ on 1 GPUs"] / (10 * r["dgx-h100, 2·10⁹ on 1 GPUs"]) < 1.6),
        Statement("eight GPUs of the DGX H100 are the best, where four do not hold the relations", "§4.4",
                  lambda r: all(r[f"dgx-h100, {size}·10⁹ on 8 GPUs"] < r[f"dgx-h100, {size}·10⁹ on {gpus} GPUs"]
                                for size in (12, 16, 20) for gpus in (1, 2, 4))),
    ),
}  # fmt: skip
