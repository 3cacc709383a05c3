"""Evaluating Characteristics of CUDA Communication Primitives (Comm|Scope), ICPE 2019: figures 2 and 6 to 11.

The paper prints two figures of bandwidth and otherwise tells which is higher; its notes stand beside ours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from linkwise import _core
from linkwise._core import Machine
from linkwise.reproduce.experiment import Experiment, Lab, Row, attempt

AC922, S822LC, X4029 = "ibm-ac922", "ibm-s822lc", "supermicro-4029gp"
_SIZE = 1e9


def _three(lab: Lab, rows_of: Callable[[Lab, Machine, str], list[Row]]) -> list[Row]:
    """The same on the paper's three machines, or on the one that stands in for them."""
    names = (AC922,) if lab.instead else (AC922, S822LC, X4029)
    rows = []
    for name in names:
        machine = lab.machine(name)
        rows += rows_of(lab, machine, machine.name)
    return rows


def _places(machine: Machine) -> list[tuple[str, int]]:
    return [("local", 0)] + ([("remote", 1)] if machine.num_host_memories > 1 else [])


def _pinned(lab: Lab, machine: Machine, name: str) -> list[Row]:
    paper = {("ibm-ac922", "local"): 72.0, ("ibm-ac922", "remote"): 41.0}
    rows = [
        attempt(
            f"{name}, pinned to GPU, {where}",
            "GB/s",
            partial(lab.host, machine, [0], "htod", _SIZE, node),
            paper.get((name, where)),
        )
        for where, node in _places(machine)
    ]
    pageable = [_core.Transfer(_core.Place.host(), _core.Place.gpu(0), int(_SIZE), True)]
    rows.append(
        attempt(
            f"{name}, pageable to GPU",
            "GB/s",
            partial(lab.transfers, machine, pageable),
            note="at most pageable to pinned, which is below pinned to GPU",
        )
    )
    return rows


def _both_ways(lab: Lab, machine: Machine, name: str) -> list[Row]:
    one = lab.host(machine, [0], "htod", _SIZE)
    both = lab.host(machine, [0], "bidir", _SIZE)
    return [
        Row(f"{name}, pinned both ways", "GB/s", both),
        Row(f"{name}, both ways to one", "×", both / one, 2.0, "about; sort22 measures 1.76 on the AC922"),
    ]


def _peers(lab: Lab, machine: Machine, name: str) -> list[Row]:
    if machine.num_gpus < 2:
        return [Row(f"{name}, peers", "GB/s", None, note="it takes two GPUs")]
    on = lab.peers(machine, [(0, 1)], size=_SIZE)
    rows = [Row(f"{name}, 0 → 1, peer access on", "GB/s", on)]
    last = machine.num_gpus - 1
    rows.append(Row(f"{name}, 0 → {last}, peer access on", "GB/s", lab.peers(machine, [(0, last)], size=_SIZE)))
    if lab.measures:
        return rows + _families(lab, ("peer access",))
    off = lab.peers(lab.machine(name, "nvlink"), [(0, 1)], size=_SIZE)
    paper = 10.0 if name in (AC922, S822LC) else None
    rows.append(Row(f"{name}, 0 → 1, peer access off", "GB/s", off))
    rows.append(Row(f"{name}, what peer access adds", "GB/s", on - off, paper, "by around 10"))
    return rows


def _zero_copy(lab: Lab, machine: Machine, name: str) -> list[Row]:
    if lab.measures:
        return _families(lab, ("host zero-copy",))
    explicit = lab.host(machine, [0], "htod", _SIZE)
    read = min(machine.zero_copy_read_gb_per_s or explicit, explicit)
    paper = 10.0 if name == S822LC else 0.0 if name == AC922 else None
    return [
        Row(f"{name}, zero-copy read", "GB/s", read),
        Row(f"{name}, copy less zero-copy read", "GB/s", explicit - read, paper, "matches on the AC922"),
    ]


def _families(lab: Lab, names: tuple[str, ...]) -> list[Row]:
    """What the probe's families measure on this machine."""
    if not lab.measures:
        return [
            Row(name, "", None, note="described machines have no model of it; --machine local measures it")
            for name in names
        ]
    rows = []
    for row in lab.families(names):
        measured = row.measured.gb_per_s > 0
        value = row.measured.gb_per_s if measured else 1e6 * row.measured.seconds
        rows.append(Row(f"{row.name}, {row.what}", "GB/s" if measured else "µs", None if row.why_not else value,
                        note=row.why_not))  # fmt: skip
    return rows


COMMSCOPE19 = (
    Experiment("commscope19-fig2", "the effect of flushing caches", lambda lab: _families(lab, ("host cache",))),
    Experiment("commscope19-fig6", "pageable and pinned memory to GPUs", lambda lab: _three(lab, _pinned)),
    Experiment("commscope19-fig7", "host and GPU, both ways", lambda lab: _three(lab, _both_ways)),
    Experiment("commscope19-fig8", "GPU to GPU with and without peer access", lambda lab: _three(lab, _peers)),
    Experiment("commscope19-fig9", "copies and zero-copy", lambda lab: _three(lab, _zero_copy)),
    Experiment("commscope19-fig10", "unified memory on demand", lambda lab: _families(lab, ("unified demand",))),
    Experiment("commscope19-fig11", "unified memory prefetched", lambda lab: _families(lab, ("unified prefetch",))),
)
