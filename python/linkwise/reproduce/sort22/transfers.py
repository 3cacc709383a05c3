"""Evaluating Multi-GPU Sorting, SIGMOD 2022: figures 2 to 7, transfers of 4 GB a GPU between pinned memory and GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from linkwise.reproduce.experiment import LINKS, Lab, Row, attempt

AC922, D22X, A100 = "ibm-ac922", "delta-d22x", "dgx-a100"
Paper = dict[tuple[tuple[int, ...], str], float]


def _host_transfers(name: str, sets: Sequence[tuple[int, ...]], paper: Paper) -> Callable[[Lab], list[Row]]:
    def run(lab: Lab) -> list[Row]:
        machine = lab.machine(name)
        rows = []
        for gpus in sets:
            for direction in ("htod", "dtoh", "bidir"):
                stated = paper.get((gpus, direction))
                row = attempt(f"{gpus}, {direction}", "GB/s", partial(lab.host, machine, gpus, direction), stated)
                rows.append(row.fitted_to(LINKS))
        return rows

    return run


_fig2 = _host_transfers(
    AC922,
    [(0,), (1,), (2,), (3,), (0, 1), (2, 3), (0, 1, 2, 3)],
    {
        **{((g,), d): 72.0 for g in (0, 1) for d in ("htod", "dtoh")},
        **{((g,), "htod"): 41.0 for g in (2, 3)},
        **{((g,), "dtoh"): 35.0 for g in (2, 3)},
        ((0,), "bidir"): 127,
        ((1,), "bidir"): 127,
        ((0, 1), "dtoh"): 109,
        ((0, 1), "bidir"): 136,
    },
)

_fig3 = _host_transfers(
    D22X, [(0,), (2,), (0, 1), (0, 1, 2, 3)], {((g,), d): 12.5 for g in (0, 2) for d in ("htod", "dtoh")}
)

_fig4 = _host_transfers(
    A100,
    [(0,), (4,), (0, 1), (0, 2), (4, 6), (0, 2, 4, 6), tuple(range(8))],
    {
        **{((g,), d): 24.5 for g in (0, 4) for d in ("htod", "dtoh")},
        ((0,), "bidir"): 39,
        ((4,), "bidir"): 32,
        ((0, 2), "bidir"): 82,
        ((4, 6), "bidir"): 61,
    },
)


def _mirrored(gpus: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(gpus[: len(gpus) // 2], reversed(gpus[len(gpus) // 2 :]), strict=True))


def _peer_transfers(
    name: str,
    pairs: dict[tuple[int, int], float | None],
    sets: dict[tuple[int, ...], tuple[float | None, str]],
) -> Callable[[Lab], list[Row]]:
    def run(lab: Lab) -> list[Row]:
        machine = lab.machine(name)
        rows = [
            attempt(f"{a} → {b}", "GB/s", partial(lab.peers, machine, [(a, b)]), paper).fitted_to(LINKS)
            for (a, b), paper in pairs.items()
        ]
        for gpus, (paper, note) in sets.items():
            rows.append(
                attempt(
                    f"{gpus}, mirrored pairs both ways",
                    "GB/s",
                    partial(lab.peers, machine, _mirrored(gpus), both=True),
                    paper,
                    note,
                )
            )
        return rows

    return run


_fig5 = _peer_transfers(
    AC922,
    {(0, 1): 72, (0, 2): 0.46 * 72, (0, 3): 0.46 * 72},
    {(0, 1): (None, "optimal"), (0, 1, 2, 3): (53, "")},
)

_fig6 = _peer_transfers(
    D22X, {(0, 1): 48, (0, 2): 48, (0, 3): 9}, {(0, 1): (None, "optimal"), (0, 1, 2, 3): (None, "0↔3, 1↔2: no links")}
)

_fig7 = _peer_transfers(
    A100,
    {(0, 1): 279, (0, 7): 279},
    {(0, 1): (None, ""), (0, 2, 4, 6): (1060, "894 to 1060, by set"), tuple(range(8)): (2116, "")},
)

TRANSFERS: dict[str, tuple[str, Callable[[Lab], list[Row]]]] = {
    "fig2": ("CPU–GPU transfers on the IBM AC922", _fig2),
    "fig3": ("CPU–GPU transfers on the DELTA D22x", _fig3),
    "fig4": ("CPU–GPU transfers on the DGX A100", _fig4),
    "fig5": ("P2P transfers on the IBM AC922", _fig5),
    "fig6": ("P2P transfers on the DELTA D22x", _fig6),
    "fig7": ("P2P transfers on the DGX A100", _fig7),
}
