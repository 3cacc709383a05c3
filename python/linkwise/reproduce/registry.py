"""The papers' experiments by figure and table: on the machines that they describe, simulated, or on this one, measured.

Each prints what the paper states, where it states a number, beside ours.
"""

from __future__ import annotations

from dataclasses import replace

from linkwise._core import UsageError
from linkwise.reproduce.commscope19.experiments import COMMSCOPE19
from linkwise.reproduce.experiment import Experiment, Lab, Row
from linkwise.reproduce.join25.experiments import JOIN25
from linkwise.reproduce.proact21.experiments import PROACT21
from linkwise.reproduce.sort22.experiments import SORT22
from linkwise.reproduce.tartan20.apps import TARTAN20_APPS
from linkwise.reproduce.tartan20.collectives import TARTAN20_COLLECTIVES
from linkwise.reproduce.tartan20.experiments import TARTAN20
from linkwise.reproduce.tartan20.nodes import TARTAN20_NODES

__all__ = ["EXPERIMENTS", "Experiment", "Lab", "Row", "reproduce"]

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *SORT22,
        *JOIN25,
        *PROACT21,
        *COMMSCOPE19,
        *TARTAN20,
        *TARTAN20_COLLECTIVES,
        *TARTAN20_NODES,
        *TARTAN20_APPS,
    )
}
"""By name, as ``sort22-fig12``, in the order of the papers."""


def reproduce(name: str, machine: str | None = None) -> list[Row]:
    """Run one experiment.

    Parameters
    ----------
    name
        A key of ``EXPERIMENTS``.
    machine
        ``None``: the paper's own machines, simulated. Otherwise all of it on this one: ``"local"`` measures, a
        described machine is simulated. What needs more GPUs than it has is left out.

    Raises
    ------
    UsageError
        If there is no such experiment.

    """
    if name not in EXPERIMENTS:
        raise UsageError(f"there is no experiment '{name}'; 'linkwise reproduce list' names them all")
    with Lab.open(machine) as lab:
        rows = EXPERIMENTS[name].run(lab)
    # Only descriptions of the paper's machines have been fitted to its figures.
    return rows if machine is None else [replace(row, fitted="") for row in rows]
