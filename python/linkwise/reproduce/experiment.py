"""What experiments are made of: rows, and a laboratory that gives them machines to measure on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from linkwise import _core
from linkwise._core import Machine, UsageError
from linkwise.bench.arrays import fill_uniform
from linkwise.bench.join_workload import Workload
from linkwise.machines.catalog import load_machine
from linkwise.machines.variants import without_nvlink
from linkwise.planning.sort import ExpectedOrder, plan_sort
from linkwise.probing.probe import probe_families
from linkwise.runtime.host_memory import empty
from linkwise.runtime.session import estimating_runtime, open_session
from linkwise.runtime.sort_plan import SortPlan
from linkwise.sorting.api import sort_and_report

gpu = _core.Place.gpu
_PATIENCE_SECONDS = 0.2


LINKS = "the machine's links have the paper's bandwidths"


@dataclass(frozen=True)
class Row:
    """A figure of ours, beside the paper's where it states one."""

    what: str
    unit: str
    ours: float | None
    paper: float | None = None
    note: str = ""
    """What the paper says of it in words, or why there is no figure."""
    fitted: str = ""
    """What was chosen in the machine description to reproduce this figure; if set, agreement proves nothing."""
    step: float = 1.0
    """The factor between neighbouring values of the paper's figure, where it has only such: 2 for powers of two."""

    @property
    def ratio(self) -> float | None:
        """Ours to the paper's."""
        return self.ours / self.paper if self.ours is not None and self.paper else None

    def fitted_to(self, what: str) -> Row:
        """The row, marked as fitted by ``what``; unchanged if the paper states no number."""
        return self if self.paper is None else replace(self, fitted=what)

    def as_dict(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "what": self.what,
            "unit": self.unit,
            "ours": self.ours,
            "paper": self.paper,
            "ratio": self.ratio,
            "note": self.note,
            "fitted": self.fitted,
        }


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper."""

    name: str
    title: str
    run: Callable[[Lab], list[Row]]
    statements: tuple[Statement, ...] = ()
    """What the paper says of it in words."""


class Rows:
    """An experiment's rows by name, for statements about them."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def __getitem__(self, what: str) -> float:
        """Our figure. Raises ``KeyError`` if there is none of this name."""
        for row in self.rows:
            if row.what == what and row.ours is not None:
                return row.ours
        raise KeyError(what)

    def pair(self, machine: str, pair: str) -> float:
        """Our figure for the group of GPU pairs that includes this one, such as ``"0→1"``."""
        return self[
            next(
                row.what for row in self.rows
                if row.what.startswith(f"{machine}: ") and pair in re.split(r"[ ,:]+", row.what.removeprefix(machine))
            )
        ]  # fmt: skip

    def of(self, beginning: str, end: str = "") -> list[float]:
        """All of our figures whose names begin and end like this."""
        return [
            row.ours for row in self.rows
            if row.what.startswith(beginning) and row.what.endswith(end) and row.ours is not None
        ]  # fmt: skip


@dataclass(frozen=True)
class Statement:
    """Something that a paper says in words about a figure, and whether our figures agree."""

    says: str
    where: str
    """The section of the paper."""
    test: Callable[[Rows], bool] | None = None
    """Whether the experiment's rows agree; ``None`` if there is no model of it."""
    fails: str = ""
    """Why our rows disagree, or why there is no model."""

    def holds(self, rows: Sequence[Row]) -> bool | None:
        """Whether our rows agree; ``None`` if there is no model."""
        return None if self.test is None else self.test(Rows(rows))


class TooFewGpusError(UsageError):
    """The machine has fewer GPUs than a row needs."""


def check_gpus(machine: Machine, gpus: Iterable[int]) -> None:
    """Raise ``TooFewGpusError`` if the machine does not have these GPUs."""
    most = max(gpus, default=0)
    if most >= machine.num_gpus:
        raise TooFewGpusError(f"it takes {most + 1} GPUs; {machine.name} has {machine.num_gpus}")


@dataclass
class Lab:
    """Gives each experiment its machine: the paper's, or one that the caller wants instead."""

    instead: Machine | None = None
    measures: bool = False
    """Whether the GPUs of this machine are measured, and nothing is simulated."""
    _data: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    @staticmethod
    @contextmanager
    def open(machine: str | None) -> Iterator[Lab]:
        """A laboratory with the papers' machines, with another described one, or with the GPUs of this machine."""
        if machine == "local":
            with open_session("local") as runtime:
                machine_here = runtime.machine
            yield Lab(machine_here, measures=True)
        else:
            yield Lab(load_machine(machine) if machine else None)

    def machine(self, name: str, without: str | None = None) -> Machine:
        """The named machine, or what stands in for it."""
        if self.measures and without is not None:
            raise TooFewGpusError(f"this machine cannot be had without {without}")
        if self.instead is None:
            return load_machine(name, without=without)
        return without_nvlink(self.instead) if without else self.instead

    def variants(self, name: str) -> list[tuple[str, Machine]]:
        """The named machine without and with its NVLinks; only as it is, if its GPUs have none."""
        machine = self.machine(name)
        try:
            plain = self.machine(name, "nvlink")
        except UsageError:
            return [(f"{machine.name}, PCIe", machine)]
        return [(f"{machine.name}, PCIe", plain), (f"{machine.name}, NVLink", machine)]

    @contextmanager
    def on(self, machine: Machine, gpus: Iterable[int]) -> Iterator[_core.Runtime]:
        """A runtime that measures on these GPUs, or an estimating one. Raises ``TooFewGpusError``."""
        check_gpus(machine, gpus)
        if not self.measures:
            yield estimating_runtime(machine)
            return
        with open_session("local") as runtime:
            yield runtime

    def scaled(self, workload: Workload) -> Workload:
        """The workload; where it is measured, at a twenty-fifth of its size."""
        return replace(workload, scale=workload.scale / 25) if self.measures else workload

    def families(self, names: Sequence[str]) -> list[_core.ProbeRow]:
        """What the probe's families measure on this machine."""
        with open_session("local") as runtime:
            return probe_families(runtime, list(names))

    def transfers(self, machine: Machine, pattern: Sequence[_core.Transfer]) -> float:
        """GB/s of all transfers together: total bytes over the last end, everything started at once."""
        gpus = [end.index for t in pattern for end in (t.source, t.target) if end.is_gpu]
        with self.on(machine, gpus) as runtime:
            return _core.measure_transfers(runtime, list(pattern), _PATIENCE_SECONDS).gb_per_s

    def host(self, machine: Machine, gpus: Sequence[int], direction: str, size: float = 4e9, node: int = 0) -> float:
        """GB/s between the host and GPUs: ``htod``, ``dtoh`` or ``bidir``, `size` bytes each."""
        pattern = []
        place = _core.Place.host(node)
        for each in gpus:
            if direction != "dtoh":
                pattern.append(_core.Transfer(place, gpu(each), int(size)))
            if direction != "htod":
                pattern.append(_core.Transfer(gpu(each), place, int(size)))
        return self.transfers(machine, pattern)

    def peers(
        self, machine: Machine, pairs: Sequence[tuple[int, int]], *, both: bool = False, size: float = 4e9
    ) -> float:
        """GB/s between GPUs, one way or both."""
        pattern = []
        for a, b in pairs:
            pattern.append(_core.Transfer(gpu(a), gpu(b), int(size)))
            if both:
                pattern.append(_core.Transfer(gpu(b), gpu(a), int(size)))
        return self.transfers(machine, pattern)

    def latency_us(self, machine: Machine, path: Sequence[int]) -> float:
        """Microseconds of the smallest copy along a path of GPUs, hop by hop; for one GPU, within it."""
        hops = list(pairwise(path)) or [(path[0], path[0])]
        with self.on(machine, path) as runtime:
            return sum(1e6 * _core.measure_smallest_copy(runtime, gpu(a), gpu(b)).seconds for a, b in hops)

    def sort(
        self,
        machine: Machine,
        strategy: str,
        gpus: Sequence[int],
        count: int,
        data: Any = None,
        key_type: str = "uint32",
        order: ExpectedOrder = "random",
        **fields: Any,
    ) -> dict[str, float]:
        """Seconds of a sort of keys from and to pinned memory, by phase and in ``total``.

        `data`: the keys of measured sorts; `order`: the key order of simulated ones.
        """
        check_gpus(machine, gpus)
        on_gpus: dict[str, Any] = {"gpus": tuple(gpus), "paths": ()} if gpus else {}
        in_steps: dict[str, Any] = {"streamed": False, "exchange": "copies"} if strategy == "radix" else {}
        if strategy in ("radix", "p2p_merge"):
            in_steps["merge_on_gpus"] = True
        plan = SortPlan(**{"strategy": strategy, **on_gpus, **in_steps, **fields})
        if not self.measures:  # the papers' sorts verify nothing
            best = plan_sort(count, key_type, machine=machine, plan=plan, verify=False, expected_order=order).best
            return best.phases | {"total": best.seconds}
        keys, out = self._keys(count)
        if data is not None:
            keys[:] = data
        for _ in range(2):  # the first run warms up the GPUs
            _, report = sort_and_report(keys, out=out, machine="local", plan=plan)
        return report.phases | {"total": report.seconds}

    def _keys(self, count: int) -> tuple[Any, Any]:
        """Uniform keys, and room for the result; the last size is kept."""
        if count not in self._data:
            self._data.clear()
            keys, out = empty(count, np.uint32), empty(count, np.uint32)
            fill_uniform(keys)
            self._data[count] = keys, out
        return self._data[count]


def attempt(what: str, unit: str, measure: Callable[[], float], paper: float | None = None, note: str = "") -> Row:
    """A row; where the machine has too few GPUs, one that says so."""
    try:
        return Row(what, unit, measure(), paper, note)
    except TooFewGpusError as error:
        return Row(what, unit, None, paper, str(error))


def alike_pairs(what: str, unit: str, values: dict[tuple[int, int], float], paper: dict[str, float]) -> list[Row]:
    """A heat map as rows, one for all pairs of GPUs with the same value; `paper` is by one of its pairs, ``0→1``."""
    groups: dict[str, list[tuple[int, int]]] = {}
    for pair, value in values.items():
        groups.setdefault(f"{value:.3g}", []).append(pair)
    rows = []
    for pairs in groups.values():
        named = [f"{a}→{b}" for a, b in pairs]
        shown = ", ".join(named[:6]) + (f" and {len(named) - 6} more" if len(named) > 6 else "")
        stated = next((paper[name] for name in named if name in paper), None)
        rows.append(Row(f"{what}: {shown}", unit, values[pairs[0]], stated))
    return rows


def powers_of_two(first: int, last: int) -> list[int]:
    """Sizes for `saturation`."""
    return [1 << power for power in range(first.bit_length() - 1, last.bit_length())]


def saturation(what: str, sizes: Sequence[int], rates: Sequence[float], paper: float | None) -> Row:
    """The first of these sizes, powers of two as those of the papers' curves, with 95 % of the highest rate."""
    full = next(size for size, rate in zip(sizes, rates, strict=True) if rate >= 0.95 * max(rates))
    return Row(f"{what}, full from", "MiB", full / 2**20, paper, step=2.0)
