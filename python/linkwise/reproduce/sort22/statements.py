"""What sort22 says of its figures in words."""

from __future__ import annotations

from linkwise.reproduce.experiment import Rows, Statement

_PAIR, _FOUR, _ALL = "(0, 1)", "(0, 1, 2, 3)", "(0, 1, 2, 3, 4, 5, 6, 7)"


def _linear(rows: Rows, called: str, small: int, large: int) -> bool:
    factor = rows[f"{called}, {large}·10⁹"] / rows[f"{called}, {small}·10⁹"]
    return abs(factor / (large / small) - 1) < 0.1


def _merge(rows: Rows, called: str) -> float:
    """Seconds of its merge phase."""
    return rows[called] * rows[f"{called}, merge, share"]


STATEMENTS: dict[str, tuple[Statement, ...]] = {
    "fig1": (
        Statement("both sorts beat the cores, and P2P sort beats HET sort", "§1",
                  lambda r: all(
                      r["PARADIS on the cores"] > r[f"HET sort on {gpus}"] > r[f"P2P sort on {gpus}"]
                      for gpus in ("(0, 2)", "(0, 2, 4, 6)"))),
    ),
    "fig2": (
        Statement("the two remote GPUs together get at least 82 % of one, each", "§4.2",
                  lambda r: all(r[f"(2, 3), {way}"] > 0.8 * r[f"(2,), {way}"] for way in ("htod", "dtoh"))),
        Statement("four GPUs get twice what the two remote ones do", "§4.2",
                  lambda r: all(abs(r[f"{_FOUR}, {way}"] / r[f"(2, 3), {way}"] - 2) < 0.1 for way in ("htod", "dtoh"))),
    ),
    "fig3": (
        Statement("four GPUs get four times what one does", "§4.2",
                  lambda r: all(abs(r[f"{_FOUR}, {way}"] / r[f"(0,), {way}"] - 4) < 0.1
                                for way in ("htod", "dtoh", "bidir"))),
        Statement("both directions get 77 to 83 % of twice one", "§4.2",
                  lambda r: 0.76 < r["(0,), bidir"] / (2 * r["(0,), htod"]) < 0.84),
    ),
    "fig4": (
        Statement("two GPUs behind one switch get no more than one", "§4.2",
                  lambda r: r["(0, 1), htod"] < 1.02 * r["(0,), htod"]),
        Statement("behind two switches they get twice as much", "§4.2",
                  lambda r: abs(r["(0, 2), htod"] / r["(0,), htod"] - 2) < 0.05),
        Statement("eight GPUs get no more than four", "§4.2",
                  lambda r: r[f"{_ALL}, bidir"] < 1.05 * r["(0, 2, 4, 6), bidir"]),
    ),
    "fig5": (
        Statement("four GPUs both ways are far behind two", "§4.3",
                  lambda r: r[f"{_FOUR}, mirrored pairs both ways"] < 0.6 * r[f"{_PAIR}, mirrored pairs both ways"]),
    ),
    "fig6": (
        Statement("pairs without links are five times as slow", "§4.3",
                  lambda r: r["0 → 1"] > 5 * r["0 → 3"]),
    ),
    "fig7": (
        Statement("eight GPUs get twice what four do", "§4.3",
                  lambda r: abs(r[f"{_ALL}, mirrored pairs both ways"]
                                / r["(0, 2, 4, 6), mirrored pairs both ways"] - 2) < 0.05),
    ),
    "fig12": (
        Statement("both sorts scale linearly with the keys", "§6.1",
                  lambda r: _linear(r, f"P2P sort on {_PAIR}", 1, 4) and _linear(r, f"HET sort on {_FOUR}", 1, 8)),
        Statement("on two GPUs the host takes 3.6 × as long to merge", "§6.1.1",
                  lambda r: 3 < _merge(r, f"HET sort on {_PAIR}") / _merge(r, f"P2P sort on {_PAIR}") < 4.2),
        Statement("P2P sort of 4·10⁹ keys on two GPUs is at least 1.32 × as fast as HET sort", "§6.1.1",
                  lambda r: r[f"HET sort on {_PAIR}, 4·10⁹"] / r[f"P2P sort on {_PAIR}, 4·10⁹"] > 1.32),
        Statement("on four GPUs both sorts are alike", "§6.1.1",
                  lambda r: abs(r[f"HET sort on {_FOUR}"] / r[f"P2P sort on {_FOUR}"] - 1) < 0.15),
        Statement("the order (0, 2, 1, 3) is worse for P2P sort", "§5.4",
                  lambda r: r["P2P sort in the order (0, 2, 1, 3)"] > 1.1 * r[f"P2P sort in the order {_FOUR}"]),
        Statement("HET sort does not depend on the order", "§5.4",
                  lambda r: r["HET sort in the order (0, 2, 1, 3)"] == r[f"HET sort in the order {_FOUR}"]),
    ),
    "fig13": (
        Statement("both sorts scale linearly with the keys", "§6.1",
                  lambda r: _linear(r, f"P2P sort on {_PAIR}", 1, 4) and _linear(r, f"HET sort on {_FOUR}", 1, 8)),
        Statement("on four GPUs both sorts are alike", "§6.1.2",
                  lambda r: abs(r[f"HET sort on {_FOUR}"] / r[f"P2P sort on {_FOUR}"] - 1) < 0.05),
        Statement("the host takes 3.8 × as long as two GPUs to merge", "§6.1.2",
                  lambda r: _merge(r, f"HET sort on {_PAIR}") / _merge(r, f"P2P sort on {_PAIR}") > 3.4,
                  "3.0: the host merges here as fast as the AC922's, of which the text states more"),
        Statement("the order (0, 1, 2, 3) is the best for P2P sort", "§5.4",
                  lambda r: r[f"P2P sort in the order {_FOUR}"] <= r["P2P sort in the order (0, 1, 3, 2)"],
                  "(0, 1, 3, 2) merges its two halves over links: the paper tried two orders"),
    ),
    "fig14": (
        Statement("both sorts scale linearly with the keys", "§6.1",
                  lambda r: _linear(r, "P2P sort on (0, 2)", 1, 4) and _linear(r, f"HET sort on {_ALL}", 2, 16)),
        Statement("P2P sort beats HET sort on two, four and eight GPUs", "§6.1.3",
                  lambda r: all(r[f"P2P sort on {gpus}"] < r[f"HET sort on {gpus}"]
                                for gpus in ("(0, 2)", "(0, 2, 4, 6)", _ALL))),
        Statement("transfers take no less time on eight GPUs than on four", "§6.1.3",
                  lambda r: r[f"P2P sort on {_ALL}"] * r[f"P2P sort on {_ALL}, HtoD, share"]
                  > 0.98 * r["P2P sort on (0, 2, 4, 6)"] * r["P2P sort on (0, 2, 4, 6), HtoD, share"]),
        Statement("eight GPUs are the best for P2P sort", "§6.1.3",
                  lambda r: r[f"P2P sort on {_ALL}"] < r["P2P sort on (0, 2, 4, 6)"],
                  "of 2·10⁹ keys, four are 5 % faster: three rounds of merging cost more than half of the sort saves"),
        Statement("on NVSwitch the order of the GPUs does not matter", "§5.4",
                  lambda r: max(r.of("P2P sort in the order")) < 1.01 * min(r.of("P2P sort in the order"))),
    ),
    "fig15": (
        Statement("3n sorts as fast as 2n at every size", "§6.2",
                  lambda r: all(0.85 < ratio < 1.15 for ratio in r.of("", "3n to 2n"))),
        Statement("merging eagerly is slower where there are groups to merge", "§6.2",
                  lambda r: all(r[f"{size}·10⁹ keys, eager merging to not, 3n"] > 1.1 for size in (48, 60))),
    ),
    "fig16": (
        Statement("P2P sort takes as long for normal keys as for uniform ones", "§6.3",
                  lambda r: r[f"P2P sort on {_PAIR}, normal"] == r[f"P2P sort on {_PAIR}, uniform"]),
        Statement("reversed keys take the longest, since all change sides", "§6.3",
                  lambda r: r[f"P2P sort on {_PAIR}, reversed"] > r[f"P2P sort on {_PAIR}, uniform"]),
        Statement("sorted and nearly sorted keys take 9 to 20 % less", "§6.3",
                  lambda r: all(0.79 <= r[f"P2P sort on {_PAIR}, {name}"] / r[f"P2P sort on {_PAIR}, uniform"] <= 0.92
                                for name in ("sorted", "nearly sorted"))),
        Statement("HET sort takes as long for all", "§6.3",
                  lambda r: len(set(r.of(f"HET sort on {_PAIR}"))) == 1),
    ),
}  # fmt: skip
