"""Evaluating Characteristics of CUDA Communication Primitives (Comm|Scope), ICPE 2019: figures 2 and 6 to 11.

The paper states two bandwidths, and otherwise says which is higher: see statements.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from linkwise import _core
from linkwise._core import Machine
from linkwise.machines.host_copies import HostCopies, host_copies
from linkwise.reproduce.commscope19.statements import STATEMENTS
from linkwise.reproduce.experiment import LINKS, Experiment, Lab, Row, attempt

AC922, S822LC, X4029 = "ibm-ac922", "ibm-s822lc", "supermicro-4029gp"
_NAMES = (AC922, S822LC, X4029)
_SIZE = 1e9
_SIZES = [4096 << step for step in range(0, 21, 2)]  # 4 KiB to 4 GiB
_THREADS = (1, 2, 4, 8)


def _three(lab: Lab, rows_of: Callable[[Lab, Machine, str], list[Row]]) -> list[Row]:
    """The rows for the paper's three machines, or for the one that stands in for them."""
    names = (AC922,) if lab.instead else _NAMES
    rows = []
    for name in names:
        machine = lab.machine(name)
        rows += rows_of(lab, machine, machine.name)
    return rows


def _far_gpu(machine: Machine) -> int | None:
    """A GPU that is attached to the other socket, if there is one."""
    of_node = [len(_core.route_links(machine, -1, gpu)) for gpu in range(machine.num_gpus)]
    far = max(range(machine.num_gpus), key=of_node.__getitem__, default=0)
    return far if machine.num_gpus and of_node[far] > of_node[0] else None


def _ends(machine: Machine) -> list[tuple[str, int]]:
    far = _far_gpu(machine)
    return [("local", 0)] + ([("remote", far)] if far is not None else [])


def _pageable(size: float) -> list[_core.Transfer]:
    return [_core.Transfer(_core.Place.host(), _core.Place.gpu(0), int(size), True)]


def _pinned(lab: Lab, machine: Machine, name: str) -> list[Row]:
    paper = {("ibm-ac922", "local"): 72.0, ("ibm-ac922", "remote"): 41.0} if lab.instead is None else {}
    rows = []
    for where, gpu in _ends(machine):
        stated = paper.get((name, where))
        rate = attempt(
            f"{name}, pinned to GPU, {where}", "GB/s", partial(lab.host, machine, [gpu], "htod", _SIZE), stated
        )
        rows.append(rate.fitted_to(LINKS))
    to_gpu = lab.transfers(machine, _pageable(_SIZE))
    rows.append(Row(f"{name}, pageable to GPU", "GB/s", to_gpu))
    # One thread copies into pinned buffers, no slower than the transfer that follows.
    rows.append(Row(f"{name}, pageable to pinned", "GB/s", machine.pageable_gb_per_s))
    return rows


def _both_ways(lab: Lab, machine: Machine, name: str) -> list[Row]:
    one = lab.host(machine, [0], "htod", _SIZE)
    both = lab.host(machine, [0], "bidir", _SIZE)
    pageable = lab.transfers(machine, _pageable(_SIZE))
    back = _core.Transfer(_core.Place.gpu(0), _core.Place.host(), int(_SIZE), True)
    pageable_both = lab.transfers(machine, [*_pageable(_SIZE), back])
    return [
        Row(f"{name}, pinned both ways", "GB/s", both),
        Row(f"{name}, pinned, both ways to one", "×", both / one, 2.0 if lab.instead is None else None,
            "about; sort22 measures 1.76 on the AC922"),
        Row(f"{name}, pageable, both ways to one", "×", pageable_both / pageable),
    ]  # fmt: skip


def _peers(lab: Lab, machine: Machine, name: str) -> list[Row]:
    if machine.num_gpus < 2:
        return [Row(f"{name}, peers", "GB/s", None, note="it takes two GPUs")]
    on = lab.peers(machine, [(0, 1)], size=_SIZE)
    rows = [Row(f"{name}, 0 → 1, peer access on", "GB/s", on)]
    both = lab.peers(machine, [(0, 1)], both=True, size=_SIZE)
    rows.append(Row(f"{name}, 0 → 1, peer access on, both ways", "GB/s", both))
    for far in range(2, machine.num_gpus):
        rows.append(Row(f"{name}, 0 → {far}", "GB/s", lab.peers(machine, [(0, far)], size=_SIZE)))
    off = lab.peers(lab.machine(name, "nvlink"), [(0, 1)], size=_SIZE)
    paper = 10.0 if name in (AC922, S822LC) and lab.instead is None else None
    rows.append(Row(f"{name}, 0 → 1, peer access off", "GB/s", off))
    rows.append(Row(f"{name}, what peer access adds", "GB/s", on - off, paper, "by around 10",
                    "what GPUs send without it is from this" if paper else ""))  # fmt: skip
    return rows


def _zero_copy(lab: Lab, machine: Machine, name: str) -> list[Row]:
    explicit = lab.host(machine, [0], "htod", _SIZE)
    read = min(machine.zero_copy_read_gb_per_s or explicit, explicit)
    write = min(machine.zero_copy_write_gb_per_s or explicit, explicit)
    paper = {AC922: 1.0, S822LC: (explicit - 10) / explicit}.get(name) if lab.instead is None else None
    return [
        Row(f"{name}, zero-copy read", "GB/s", read),
        Row(f"{name}, zero-copy write", "GB/s", write),
        Row(f"{name}, zero-copy read to a copy", "×", read / explicit, paper, "as much on the AC922",
            "the machine's zero-copy is from this" if paper else ""),
    ]  # fmt: skip


def _families(lab: Lab, names: Sequence[str]) -> list[Row]:
    """What the probe's families measure on this machine."""
    rows = []
    for row in lab.families(names):
        measured = row.measured.gb_per_s > 0
        value = row.measured.gb_per_s if measured else 1e6 * row.measured.seconds
        size = f", {row.bytes} B" if row.bytes and row.name.endswith("by size") else ""
        rows.append(Row(f"{row.name}, {row.what}{size}", "GB/s" if measured else "µs", None if row.why_not else value,
                        note=row.why_not))  # fmt: skip
    return rows


def _of_host(lab: Lab, rows_of: Callable[[Lab, Machine, str, HostCopies], list[Row]]) -> list[Row]:
    """Rows for described machines that state what their hosts do to copies."""
    rows: list[Row] = []
    for name in (lab.instead.name,) if lab.instead is not None else _NAMES:
        costs = host_copies(name) if lab.instead is None else None
        if costs is None:
            rows.append(Row(name, "", None, note="its description has no 'host_copies'; --machine local measures them"))
            continue
        rows += rows_of(lab, lab.machine(name), name, costs)
    return rows


def _flushing(lab: Lab, machine: Machine, name: str, costs: HostCopies) -> list[Row]:
    """Pageable copies to the GPU of data in the host's caches, and of flushed data."""
    uncached = lab.transfers(machine, _pageable(_SIZE))
    rows = []
    for size in _SIZES:
        for flushed in (False, True):
            seconds = costs.pageable_seconds(size, uncached, flushed=flushed)
            rows.append(
                Row(f"{name}, pageable{', flushed' if flushed else ''}, {size} B", "GB/s", size / 1e9 / seconds)
            )
    return rows


def _demand(lab: Lab, machine: Machine, name: str, costs: HostCopies) -> list[Row]:
    rows = []
    for where, gpu in _ends(machine):
        link_in, link_out = (lab.host(machine, [gpu], way, _SIZE) for way in ("htod", "dtoh"))
        for size in _SIZES:
            rate = size / 1e9 / costs.demand_seconds(size, link_in)
            rows.append(Row(f"{name}, GPU touches the host's pages, {where}, {size} B", "GB/s", rate))
        for threads in _THREADS:
            rate = _SIZE / 1e9 / costs.demand_seconds(_SIZE, link_out, threads)
            rows.append(Row(f"{name}, {threads} host threads touch the GPU's, {where}", "GB/s", rate))
    rows.append(Row(f"{name}, pageable copies", "GB/s", lab.transfers(machine, _pageable(_SIZE))))
    rows.append(Row(f"{name}, pinned copies", "GB/s", lab.host(machine, [0], "htod", _SIZE)))
    return rows


def _prefetch(lab: Lab, machine: Machine, name: str, costs: HostCopies) -> list[Row]:
    rows = []
    for where, gpu in _ends(machine):
        for size in _SIZES:
            link = lab.host(machine, [gpu], "htod", size)
            rate = size / 1e9 / costs.prefetch_seconds(size, link)
            rows.append(Row(f"{name}, prefetch to GPU, {where}, {size} B", "GB/s", rate))
            rows.append(Row(f"{name}, prefetch to a pinned copy, {where}, {size} B", "×", rate / link))
    return rows


def _either(families: Sequence[str], described: Callable[[Lab], list[Row]]) -> Callable[[Lab], list[Row]]:
    """Where GPUs are measured, the probe's families take the place of the model."""

    def run(lab: Lab) -> list[Row]:
        return _families(lab, families) if lab.measures else described(lab)

    return run


_RUNS: dict[int, tuple[str, Callable[[Lab], list[Row]]]] = {
    2: ("the effect of flushing caches", _either(["host cache"], lambda lab: _of_host(lab, _flushing))),
    6: ("pageable and pinned memory to GPUs",
        _either(["host memory by size", "host to host by size"], lambda lab: _three(lab, _pinned))),
    7: ("host and GPU, both ways", _either(["host memory by size"], lambda lab: _three(lab, _both_ways))),
    8: ("GPU to GPU with and without peer access",
        _either(["peer access", "peer off by size"], lambda lab: _three(lab, _peers))),
    9: ("copies and zero-copy",
        _either(["host memory kinds", "host zero-copy by size"], lambda lab: _three(lab, _zero_copy))),
    10: ("unified memory on demand",
         _either(["unified demand", "unified demand by size"], lambda lab: _of_host(lab, _demand))),
    11: ("unified memory prefetched",
         _either(["unified prefetch", "unified prefetch by size"], lambda lab: _of_host(lab, _prefetch))),
}  # fmt: skip

COMMSCOPE19 = tuple(
    Experiment(f"commscope19-fig{figure}", title, run, STATEMENTS[figure]) for figure, (title, run) in _RUNS.items()
)
