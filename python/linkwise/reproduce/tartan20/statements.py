"""What Tartan's text says of its figures 5 to 27 in words: the paper prints them as pictures, with few numbers."""

from __future__ import annotations

from itertools import pairwise

from linkwise.reproduce.experiment import Rows, Statement

P100, V100, DGX2, SLI = "dgx1-p100", "dgx1-v100", "dgx2", "sli-rtx2080"
_BOTH = (P100, V100)
_OPERATIONS = ("broadcast", "all-gather", "reduce", "all-reduce", "reduce-scatter")
_ONE_MODEL = "rings carry all five patterns alike here: NCCL's own schedules are not modelled"
_ONE_START = "a copy starts as fast over either generation's links here: the text says by how much in no figure"


def _alike(values: list[float], within: float = 0.05) -> bool:
    return max(values) <= (1 + within) * min(values)


def _classes(rows: Rows, machine: str) -> tuple[float, float, list[float]]:
    """A V100 DGX-1's pairs over NVLink: double links, single ones, and those that go over a third GPU."""
    label = f"{machine}, NVLink"
    return rows.pair(label, "0→3"), rows.pair(label, "0→1"), [rows.pair(label, pair) for pair in ("0→5", "0→6", "2→5")]


def _near_and_far(rows: Rows, machine: str = P100, near: str = "0→1", far: str = "0→4") -> tuple[float, float]:
    label = f"{machine}, PCIe"
    return rows.pair(label, near), rows.pair(label, far)


def _near_is_slower(rows: Rows, machine: str, far: str) -> bool:
    near, other = _near_and_far(rows, machine, far=far)
    return near < 0.95 * other


def _routes(rows: Rows, machine: str, end: str = "") -> list[float]:
    return [
        rows[f"{machine}, {route}{end}"]
        for route in ("0 → 1 → 5", "0 → 4 → 5", "0 → 2 → 6", "0 → 4 → 6", "0 → 3 → 7", "0 → 4 → 7")
    ]


def _lowest_and_highest(rows: Rows, end: str) -> bool:
    rates = _routes(rows, V100, end)
    return rates[2] < 0.9 * min(rates[:2] + rates[3:]) and rates[5] > 1.1 * max(rates[:5])


def _flat_until(rows: Rows, curve: str, size: int, within: float) -> bool:
    return rows[f"{curve}, {size} B, latency"] <= (1 + within) * rows[f"{curve}, 4 B, latency"]


def _by_gpus(rows: Rows, label: str, operation: str) -> list[float]:
    """Our figures by number of GPUs, from two on."""
    return rows.of(f"{label}, {operation}, ", " GPUs")


def _steps(rows: Rows, label: str, operation: str) -> list[float]:
    """What each further GPU adds, from the third on."""
    return [b - a for a, b in pairwise(_by_gpus(rows, label, operation))]


def _growth(rows: Rows, label: str, operation: str) -> float:
    found = _by_gpus(rows, label, operation)
    return (found[-1] - found[0]) / (len(found) - 1)


def _spread(rows: Rows, label: str, size: str) -> float:
    rates = [rows[f"{label}, {operation}, {size}"] for operation in _OPERATIONS]
    return max(rates) / min(rates)


BETWEEN_GPUS: dict[int, tuple[Statement, ...]] = {
    5: (
        Statement("over PCIe every pair has about the same latency", "§3.1.1",
                  lambda r: all(_alike(r.of(f"{name}, PCIe: "), 0.15) for name in _BOTH)),
        Statement("single and double links have the same latency", "§3.1.2",
                  lambda r: r.pair(f"{V100}, NVLink", "0→1") == r.pair(f"{V100}, NVLink", "0→3")),
        Statement("NVLink 2 has a higher latency than NVLink 1", "§3.1.1",
                  lambda r: r.pair(f"{V100}, NVLink", "0→1") > r.pair(f"{P100}, NVLink", "0→1"), _ONE_START),
    ),
    6: (
        Statement("over PCIe, two GPUs behind one switch have a lower bandwidth than others", "§3.1.2",
                  lambda r: all(_near_is_slower(r, name, "0→2") for name in _BOTH)),
        Statement("all others have the same, whatever the socket", "§3.1.2",
                  lambda r: all(_alike([r.pair(f"{name}, PCIe", pair) for pair in ("0→2", "0→4")]) for name in _BOTH)),
        Statement("over PCIe it is the same in both DGX-1s", "§3.1.1",
                  lambda r: _near_and_far(r, P100) == _near_and_far(r, V100)),
        Statement("over NVLink 1 neighbours have more than GPUs without a link", "§3.1.2",
                  lambda r: r.pair(f"{P100}, NVLink", "0→1") > 1.5 * r.pair(f"{P100}, NVLink", "0→5")),
        Statement("over NVLink 2 double links have more than single ones, and these more than none", "§3.1.2",
                  lambda r: _classes(r, V100)[0] > 1.9 * _classes(r, V100)[1] > max(_classes(r, V100)[2])),
        Statement("over NVLink 2 GPUs without a link differ by their route", "§3.1.2",
                  lambda r: max(_classes(r, V100)[2]) > 1.5 * min(_classes(r, V100)[2])),
    ),
    7: (
        Statement("anti-locality: both ways, GPUs behind one PCIe switch are slower by far more than one way", "§3.1.2",
                  lambda r: all(_near_and_far(r, name)[0] < 0.7 * _near_and_far(r, name)[1] for name in _BOTH)),
        Statement("double links have more than single ones, and these more than none", "§3.1.2",
                  lambda r: _classes(r, V100)[0] > 1.9 * _classes(r, V100)[1] > max(_classes(r, V100)[2])),
        Statement("GPUs without a link differ by their route", "fig. 7",
                  lambda r: max(_classes(r, V100)[2]) > 1.2 * min(_classes(r, V100)[2])),
    ),
    8: (
        Statement("NV-SLI has a lower latency than PCIe", "§3.1.1",
                  lambda r: r.pair(f"{SLI}, NVLink", "0→1") < r.pair(f"{SLI}, PCIe", "0→1")),
    ),
    9: (
        Statement("over NV-SLI both directions are alike", "§3.1.2",
                  lambda r: len(r.of(f"{SLI}, NVLink: ")) == 1),
        Statement("NV-SLI has more than PCIe", "§3.1.2",
                  lambda r: r.pair(f"{SLI}, NVLink", "0→1") > r.pair(f"{SLI}, PCIe", "0→1")),
    ),
    10: (
        Statement("over NV-SLI both directions are alike", "§3.1.2",
                  lambda r: r.pair(f"{SLI}, NVLink", "0→1") == r.pair(f"{SLI}, NVLink", "1→0")),
    ),
    11: (
        Statement("all pairs have about the same latency over PCIe", "§3.1.1",
                  lambda r: _alike(r.of(f"{DGX2}, PCIe: "), 0.15)),
        Statement("and over NVSwitch, where a second switch adds almost nothing", "§3.1.1",
                  lambda r: _alike(r.of(f"{DGX2}, NVLink: "), 0.02)),
    ),
    12: (
        Statement("four GPUs behind one level-2 PCIe switch have a lower bandwidth than others", "§3.1.2",
                  lambda r: _near_is_slower(r, DGX2, "0→4")),
        Statement("over NVSwitch all pairs have the same, over one board or two", "§3.1.2",
                  lambda r: len(r.of(f"{DGX2}, NVLink: ")) == 1),
    ),
    13: (
        Statement("anti-locality is stronger than one way", "§3.1.2",
                  lambda r: _near_and_far(r, DGX2)[0] < 0.7 * _near_and_far(r, DGX2)[1]),
        Statement("behind a level-2 switch slightly more than behind a level-1 one", "§3.1.4",
                  lambda r: r.pair(f"{DGX2}, PCIe", "0→2") > r.pair(f"{DGX2}, PCIe", "0→1"),
                  "the text says by how much in no figure"),
    ),
    14: (
        Statement("P100s: all six routes have the same bandwidth", "§3.1.3", lambda r: _alike(_routes(r, P100))),
        Statement("V100s: 0 → 2 → 6 has the lowest, 0 → 4 → 7 the highest", "§3.1.3",
                  lambda r: _lowest_and_highest(r, "")),
        Statement("likewise both ways", "fig. 14", lambda r: _lowest_and_highest(r, ", both ways")),
        Statement("all routes have the same latency", "§3.1.3",
                  lambda r: all(_alike(_routes(r, name, ", latency")) for name in _BOTH)),
    ),
    15: (
        Statement("P100s: the latency is flat up to 16 KB", "§3.1.4",
                  lambda r: _flat_until(r, f"{P100}, NVLink, 0→1", 16 << 10, 0.12)),
        Statement("V100s: it is flat up to 64 KB, over double links", "§3.1.4",
                  lambda r: _flat_until(r, f"{V100}, NVLink, double link, 0→3", 64 << 10, 0.2)),
        Statement("between 64 KB and 4 MB the latency rises and the bandwidth as well", "§3.1.4",
                  lambda r: all(
                      r[f"{curve}, {1 << 22} B{end}"] > 2 * r[f"{curve}, {1 << 16} B{end}"]
                      for curve in (f"{P100}, NVLink, 0→1", f"{V100}, NVLink, single link, 0→1")
                      for end in ("", ", latency"))),
    ),
    16: (
        Statement("NV-SLI: the latency is flat up to 64 KB", "§3.1.4",
                  lambda r: _flat_until(r, f"{SLI}, NVLink, 0→1", 64 << 10, 0.2),
                  "8 µs and 64 KB at 24 GB/s are 10.7 µs: a link that is not full at 64 KB would have to start later"),
        Statement("NV-SLI: it is flat up to 16 KB", "§3.1.4",
                  lambda r: _flat_until(r, f"{SLI}, NVLink, 0→1", 16 << 10, 0.12)),
    ),
    17: (
        Statement("NVSwitch: one hop and two are aligned at all sizes", "§3.1.4",
                  lambda r: all(
                      _alike([r[f"{DGX2}, NVLink, one hop, 0→1{both}, {4**power} B"],
                              r[f"{DGX2}, NVLink, two hops, 0→8{both}, {4**power} B"]], 0.02)
                      for both in ("", ", both ways") for power in range(1, 15))),
        Statement("NVSwitch: the latency is flat up to 64 KB", "§3.1.4",
                  lambda r: _flat_until(r, f"{DGX2}, NVLink, one hop, 0→1", 64 << 10, 0.1)),
        Statement("PCIe, both ways, above 64 KB: remote GPUs have more than neighbours", "§3.1.4",
                  lambda r: all(
                      r[f"{DGX2}, PCIe, remote, 0→4, both ways, {4**power} B"]
                      > r[f"{DGX2}, PCIe, {near}, both ways, {4**power} B"]
                      for near in ("level 1, 0→1", "level 2, 0→2") for power in range(8, 15))),
    ),
}  # fmt: skip

COLLECTIVES: dict[int, tuple[Statement, ...]] = {
    18: (
        Statement("PCIe: one ring through the tree", "fig. 18",
                  lambda r: all(f"{name}, PCIe, 1 rings" in {row.what for row in r.rows} for name in _BOTH)),
        Statement("NVLink 1: two rings, both ways round", "fig. 18",
                  lambda r: f"{P100}, NVLink, 4 rings" in {row.what for row in r.rows}),
        Statement("NVLink 2: a ring of double links and one of single ones carry three links' worth, both ways",
                  "fig. 18", lambda r: _alike([r.of(f"{V100}, NVLink, ")[0], 6 * 24.0], 0.02)),
    ),
    19: (
        Statement("latency grows about linearly with the GPUs", "§3.2.1",
                  lambda r: all(
                      _alike(_steps(r, f"{name}, PCIe", operation), 0.35)
                      for name in _BOTH for operation in _OPERATIONS)),
        Statement("it is the same on both platforms", "§3.2.1",
                  lambda r: all(
                      _alike([_by_gpus(r, f"{name}, {way}", operation)[-1] for name in _BOTH], 0.01)
                      for way in ("PCIe", "NVLink") for operation in _OPERATIONS)),
        Statement("PCIe: all-reduce has the largest", "§3.2.1",
                  lambda r: all(
                      _by_gpus(r, f"{name}, PCIe", "all-reduce")[-1] > _by_gpus(r, f"{name}, PCIe", operation)[-1]
                      for name in _BOTH for operation in _OPERATIONS if operation != "all-reduce")),
        Statement("over NVLink five GPUs are out of line", "§3.2.1",
                  lambda r: [step > 12 for step in _steps(r, f"{V100}, NVLink", "all-gather")].index(True) + 3 == 5),
        Statement("NVLink's grows faster than PCIe's, but for all-reduce", "§3.2.1",
                  lambda r: _growth(r, f"{P100}, NVLink", "broadcast") > _growth(r, f"{P100}, PCIe", "broadcast"),
                  "PCIe ran NCCL 1 and NVLink NCCL 2 in the paper; here one model prices both"),
    ),
    20: (
        Statement("PCIe: the bandwidth does not grow with the GPUs", "§3.2.1",
                  lambda r: all(
                      max(rates[1:]) <= rates[0]
                      for name in _BOTH for rates in [_by_gpus(r, f"{name}, PCIe", "all-reduce")])),
        Statement("NVLink: it grows from 2 to 4 and 8 GPUs", "§3.2.1",
                  lambda r: all(
                      rates[0] < rates[2] < rates[6]
                      for name in _BOTH for operation in _OPERATIONS
                      for rates in [_by_gpus(r, f"{name}, NVLink", operation)])),
        Statement("five GPUs are to be avoided", "§3.2.1",
                  lambda r: all(
                      rates[3] < 0.5 * min(rates[2], rates[4])
                      for name in _BOTH for rates in [_by_gpus(r, f"{name}, NVLink", "all-reduce")])),
        Statement("reduce-scatter and all-gather are better with 2, 4 and 8 GPUs", "§3.2.3", None, _ONE_MODEL),
    ),
    21: (
        Statement("NVLink is full from much larger sizes on than PCIe", "§3.2.1",
                  lambda r: all(
                      r[f"{name}, NVLink, all-reduce, full from"] > 4 * r[f"{name}, PCIe, all-reduce, full from"]
                      for name in _BOTH)),
        Statement("the five patterns have similar curves", "§3.2.1",
                  lambda r: all(_spread(r, f"{name}, {way}", f"{1 << 30} B") < 1.1
                                for name in _BOTH for way in ("PCIe", "NVLink"))),
        Statement("reduce and broadcast part from the others between 32 KB and 32 MB", "§3.2.3", None, _ONE_MODEL),
    ),
    22: (
        Statement("NV-SLI: all patterns but all-reduce have the same latency", "§3.2.2",
                  lambda r: _alike(
                      [r[f"{SLI}, NVLink, {name}, 2 GPUs"] for name in _OPERATIONS if name != "all-reduce"])),
        Statement("PCIe: reduce and all-reduce have less than the others", "§3.2.2",
                  lambda r: r[f"{SLI}, PCIe, all-reduce, 2 GPUs"] < r[f"{SLI}, PCIe, broadcast, 2 GPUs"],
                  "NCCL 1 on PCIe in the paper: a reduction over two GPUs is one step there"),
    ),
    23: (
        Statement("the patterns have similar bandwidths, over PCIe and over NV-SLI", "§3.2.2",
                  lambda r: all(
                      _alike([r[f"{SLI}, {way}, {name}, 2 GPUs"] for name in _OPERATIONS])
                      for way in ("PCIe", "NVLink"))),
        Statement("reduce-scatter has less than the others", "§3.2.2", None, _ONE_MODEL),
    ),
    24: (
        Statement("the patterns have similar bandwidths at large sizes", "§3.2.2",
                  lambda r: all(_spread(r, f"{SLI}, {way}", f"{1 << 30} B") < 1.1 for way in ("PCIe", "NVLink"))),
        Statement("reduce-scatter has less than the others at large sizes, all-gather before", "§3.2.2", None,
                  _ONE_MODEL),
    ),
    25: (
        Statement("PCIe: all-reduce has the longest latency", "§3.2.3",
                  lambda r: all(
                      _by_gpus(r, f"{DGX2}, PCIe", "all-reduce")[-1] > 1.5 * _by_gpus(r, f"{DGX2}, PCIe", name)[-1]
                      for name in _OPERATIONS if name != "all-reduce")),
        Statement("NVSwitch: the five curves are aligned", "§3.2.3",
                  lambda r: _alike([_by_gpus(r, f"{DGX2}, NVLink", name)[-1] for name in _OPERATIONS], 0.2),
                  "an all-reduce is two rounds of a ring here, whatever the links"),
        Statement("beyond three GPUs PCIe has less than NVSwitch, but for all-reduce", "§3.2.3",
                  lambda r: _by_gpus(r, f"{DGX2}, PCIe", "broadcast")[-1]
                  < _by_gpus(r, f"{DGX2}, NVLink", "broadcast")[-1],
                  "PCIe ran NCCL 1 and NVSwitch NCCL 2 in the paper; here one model prices both"),
    ),
    26: (
        Statement("NVSwitch has very much more than PCIe, with all patterns", "§3.2.3",
                  lambda r: all(
                      fast > 10 * slow
                      for name in _OPERATIONS
                      for fast, slow in zip(_by_gpus(r, f"{DGX2}, NVLink", name), _by_gpus(r, f"{DGX2}, PCIe", name),
                                            strict=True))),
        Statement("reduce-scatter and all-gather are better with 2, 4, 8 and 16 GPUs", "§3.2.3", None, _ONE_MODEL),
    ),
    27: (
        Statement("PCIe: the patterns are aligned at 1 GiB", "§3.2.3",
                  lambda r: _spread(r, f"{DGX2}, PCIe", f"{1 << 30} B") < 1.1),
        Statement("NVSwitch: they are aligned at 1 GiB", "§3.2.3",
                  lambda r: _spread(r, f"{DGX2}, NVLink", f"{1 << 30} B") < 1.1),
        Statement("PCIe: reduce and broadcast part from the others between 32 KB and 32 MB", "§3.2.3", None,
                  _ONE_MODEL),
    ),
}  # fmt: skip
