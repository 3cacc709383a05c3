"""What Comm|Scope's paper says of its figures in words."""

from __future__ import annotations

from linkwise.reproduce.experiment import Rows, Statement

AC922, S822LC, X4029 = "ibm-ac922", "ibm-s822lc", "supermicro-4029gp"
_ALL = (AC922, S822LC, X4029)
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


def _demand(rows: Rows, machine: str, where: str = "local", size: int = _GIB) -> float:
    return rows[f"{machine}, GPU touches the host's pages, {where}, {size} B"]


def _threads(rows: Rows, machine: str, threads: int) -> float:
    return rows[f"{machine}, {threads} host threads touch the GPU's, local"]


STATEMENTS: dict[int, tuple[Statement, ...]] = {
    2: (
        Statement("what fits the CPU's caches is copied faster, unless it was flushed", "§2.2.4",
                  lambda r: all(
                      r[f"{name}, pageable, {4 * _MIB} B"] > 1.2 * r[f"{name}, pageable, flushed, {4 * _MIB} B"]
                      for name in _ALL)),
        Statement("what does not fit is not", "§2.2.4",
                  lambda r: all(r[f"{name}, pageable, {_GIB} B"] == r[f"{name}, pageable, flushed, {_GIB} B"]
                                for name in _ALL)),
    ),
    6: (
        Statement("pageable copies have low bandwidths for what the links can do", "§4.1",
                  lambda r: all(r[f"{name}, pageable to GPU"] < 0.7 * r[f"{name}, pinned to GPU, local"]
                                for name in _ALL)),
        Statement("pageable to GPU is no faster than pageable to pinned, which is slower than pinned to GPU", "§4.1",
                  lambda r: all(r[f"{name}, pageable to GPU"] <= 1.01 * r[f"{name}, pageable to pinned"]
                                < r[f"{name}, pinned to GPU, local"] for name in (AC922, S822LC))),
        Statement("remote GPUs are far slower on the AC922, and hardly on the others", "§4.2",
                  lambda r: r[f"{AC922}, pinned to GPU, remote"] < 0.65 * r[f"{AC922}, pinned to GPU, local"]
                  and all(r[f"{name}, pinned to GPU, remote"] > 0.85 * r[f"{name}, pinned to GPU, local"]
                          for name in (S822LC, X4029))),
    ),
    7: (
        Statement("pinned copies both ways carry about twice as much as one way", "§4.1",
                  lambda r: all(r[f"{name}, pinned, both ways to one"] > 1.7 for name in _ALL)),
        Statement("two pageable copies are staged one after the other", "§4.1",
                  lambda r: all(r[f"{name}, pageable, both ways to one"] < 1.1 for name in _ALL)),
    ),
    8: (
        Statement("remote pairs of the AC922 cross the X-Bus, and are slower", "§4.2",
                  lambda r: r[f"{AC922}, 0 → 2"] < 0.6 * r[f"{AC922}, 0 → 1, peer access on"]),
        Statement("without peer access the 4029GP copies over PCIe", "§4.3",
                  lambda r: r[f"{X4029}, 0 → 1, peer access off"] < 13 < r[f"{X4029}, 0 → 1, peer access on"]),
        Statement("the 4029GP's GPUs have one link, two links, or none between them", "fig. 8e",
                  lambda r: r[f"{X4029}, 0 → 3"] > 1.9 * r[f"{X4029}, 0 → 1, peer access on"] > r[f"{X4029}, 0 → 7"]),
    ),
    9: (
        Statement("on the 4029GP PCIe hides what zero-copy costs", "§4.4",
                  lambda r: r[f"{X4029}, zero-copy read to a copy"] > 0.9),
        Statement("on the S822LC writes match copies, reads do not", "§4.4",
                  lambda r: r[f"{S822LC}, zero-copy write"] > 1.2 * r[f"{S822LC}, zero-copy read"]),
        Statement("very large transfers by zero-copy are slower", "§4.4", None,
                  "the text says by how much in no figure"),
    ),
    10: (
        Statement("one host thread does not reach what several do", "§4.5",
                  lambda r: all(_threads(r, name, 8) > 1.5 * _threads(r, name, 1) for name in _ALL)),
        Statement("with enough threads it exceeds pageable copies", "§4.5",
                  lambda r: all(min(_threads(r, name, 8), _demand(r, name)) > r[f"{name}, pageable copies"]
                                for name in _ALL)),
        Statement("where memory lies hardly matters", "§4.6",
                  lambda r: all(_demand(r, name, "remote") > 0.9 * _demand(r, name) for name in _ALL)),
        Statement("the 4029GP is the slowest", "§4.6",
                  lambda r: _demand(r, X4029) < min(_demand(r, AC922), _demand(r, S822LC))),
        Statement("it is far slower than pinned copies over NVLink", "§4.7",
                  lambda r: all(_demand(r, name) < 0.6 * r[f"{name}, pinned copies"] for name in (AC922, S822LC))),
    ),
    11: (
        Statement("large prefetches nearly match explicit copies", "§4.7",
                  lambda r: all(r[f"{name}, prefetch to a pinned copy, local, {_GIB} B"] > 0.9 for name in _ALL)),
        Statement("from 4 KiB to 32 MiB they are far slower", "§4.7",
                  lambda r: all(r[f"{name}, prefetch to a pinned copy, local, {size} B"] < 0.85
                                for name in (AC922, S822LC) for size in (4 * _KIB, _MIB, 16 * _MIB))),
        Statement("they depend on where memory lies as copies do", "§4.7",
                  lambda r: r[f"{AC922}, prefetch to GPU, remote, {_GIB} B"]
                  < 0.65 * r[f"{AC922}, prefetch to GPU, local, {_GIB} B"]),
    ),
}  # fmt: skip
