"""Tartan's figures 32 to 39: its fourteen applications, within the DGX-1s and over nodes (§4).

The paper prints them as pictures, so that only its text can be checked: ``tests/test_tartan_figures.py`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from linkwise._core import Machine, UsageError
from linkwise.apps.tartan.program import Program
from linkwise.apps.tartan_registry import TARTAN
from linkwise.apps.tartan_run import Scaling, can_grow, priced_run, run_tartan
from linkwise.machines.catalog import load_machine
from linkwise.machines.network import message_costs
from linkwise.machines.variants import node_of_gpus
from linkwise.messages.pricing import RunTime
from linkwise.messages.ways import BETWEEN_NODES, WAYS
from linkwise.reproduce.experiment import Experiment, Lab, Row
from linkwise.reproduce.tartan20.nodes import SUMMIT, SUMMITDEV
from linkwise.reproduce.tartan20.scale_statements import APPLICATIONS

P100, V100 = "dgx1-p100", "dgx1-v100"
_COUNTS = (1, 2, 4, 8)
_TRAFFIC = ("HtoD", "DtoH", "peer")
_MEASURED_SCALE = 1 / 8


def programs(scales: str) -> list[type[Program]]:
    """Those that scale ``"up"`` or ``"out"`` in the paper."""
    return [kind for kind in TARTAN.values() if kind.scales == scales]


def way_of_version(kind: type[Program], version: str) -> str:
    """The way of messages in the paper's two versions: NCCL where its authors replaced the host by it (§4.1)."""
    if kind.copies_between_any_two:
        return "peer"  # both use NVLink already
    return "nccl" if version == "NCCL" and kind.is_converted else "host"


def _problem(kind: type[Program], scaling: Scaling, gpus: int) -> Program:
    full = kind.full()
    return full.grown(gpus) if scaling == "weak" else full


def _scale_up(name: str, scaling: Scaling) -> Callable[[Lab], list[Row]]:
    def run(lab: Lab) -> list[Row]:
        if lab.measures:
            return _measured(programs("up"), scaling, ("host", "nccl"))
        rows: list[Row] = []
        for label, machine in lab.variants(name):
            for kind in programs("up"):
                for gpus in (count for count in _COUNTS if count <= machine.num_gpus):
                    rows += _versions(label, kind, machine, gpus, scaling)
        return rows

    return run


def _versions(label: str, kind: type[Program], machine: Machine, gpus: int, scaling: Scaling) -> Iterator[Row]:
    """Milliseconds of the three kinds of traffic in both versions, and how long the whole application takes in them."""
    what = f"{label}, {kind.abbreviation}, {gpus} GPUs"
    if scaling == "weak" and not can_grow(kind.full()):
        yield Row(what, "ms", None, note="one search: it cannot be grown by a factor")
        return
    found: dict[str, RunTime] = {}
    for version in ("baseline", "NCCL"):
        way = WAYS[way_of_version(kind, version)]
        try:
            found[version] = priced_run(kind, _problem(kind, scaling, gpus), machine, range(gpus), way, None)
        except UsageError as error:
            yield Row(f"{what}, {version}", "ms", None, note=str(error))
            return
        for traffic in _TRAFFIC:
            yield Row(f"{what}, {version}, {traffic}", "ms", 1e3 * found[version].by_kind.get(traffic, 0.0))
    yield Row(f"{what}, all of NCCL's to the baseline's", "×", found["NCCL"].seconds / found["baseline"].seconds)


def _scale_out(name: str, scaling: Scaling) -> Callable[[Lab], list[Row]]:
    def run(lab: Lab) -> list[Row]:
        if lab.measures:
            return _measured(programs("out"), scaling, ("host", "host-pinned", "nccl"))
        if lab.instead is not None:
            return [Row("applications over nodes", "×", None, note="it takes nodes: run it on the paper's")]
        costs = message_costs(name)
        rows = []
        for kind in programs("out"):
            single = priced_run(kind, kind.full(), load_machine(name), [0], WAYS["host"], costs).seconds
            for nodes in _COUNTS:
                machine = load_machine(f"{name}:{nodes}")
                gpus = sorted(set(node_of_gpus(machine)))[:nodes]
                work = nodes if scaling == "weak" else 1
                for way in BETWEEN_NODES:
                    run = priced_run(kind, _problem(kind, scaling, nodes), machine, gpus, WAYS[way], costs)
                    speedup = work * single / run.seconds
                    rows.append(Row(f"{kind.abbreviation}, {nodes} nodes, {way}", "×", speedup))
        return rows

    return run


def _measured(kinds: Sequence[type[Program]], scaling: Scaling, ways: Sequence[str]) -> list[Row]:
    """Rows measured on this machine's GPUs, at an eighth of the size."""
    rows = []
    for kind in kinds:
        for way in ways:
            what = f"{kind.abbreviation}, {way}"
            try:
                report = run_tartan(kind.name, via=way, scaling=scaling, scale=_MEASURED_SCALE, repetitions=3)
            except UsageError as error:
                rows.append(Row(what, "ms", None, note=str(error)))
                continue
            rows.append(Row(f"{what}, {len(report.gpus)} GPUs", "ms", 1e3 * report.seconds))
            rows.append(Row(f"{what}, {len(report.gpus)} GPUs", "×", report.speedup))
    return rows


def _experiments() -> Iterator[Experiment]:
    within, over = (
        ((32, P100, "the P100 DGX-1"), (34, V100, "the V100 DGX-1")),
        (
            (36, SUMMITDEV, "SummitDev"),
            (38, SUMMIT, "Summit"),
        ),
    )
    scalings: tuple[Scaling, Scaling] = ("strong", "weak")
    for figure, name, called in within:
        for at, scaling in enumerate(scalings):
            title = f"applications in {called}, {scaling} scaling"
            yield Experiment(f"tartan20-fig{figure + at}", title, _scale_up(name, scaling), APPLICATIONS[figure + at])
    for figure, name, called in over:
        for at, scaling in enumerate(scalings):
            title = f"applications over nodes of {called}, {scaling} scaling"
            yield Experiment(f"tartan20-fig{figure + at}", title, _scale_out(name, scaling), APPLICATIONS[figure + at])


TARTAN20_APPS = tuple(_experiments())
