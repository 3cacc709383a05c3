"""Tartan's applications by name (tartan20, table 3)."""

from __future__ import annotations

from linkwise._core import UsageError
from linkwise.apps.tartan.annealing import Annealing
from linkwise.apps.tartan.convnet import ConvNet
from linkwise.apps.tartan.diffusion import Diffusion
from linkwise.apps.tartan.gaussian_mixture import GaussianMixture
from linkwise.apps.tartan.hydrodynamics import Hydrodynamics
from linkwise.apps.tartan.ising import Ising
from linkwise.apps.tartan.kmeans import KMeans
from linkwise.apps.tartan.langford import Langford
from linkwise.apps.tartan.matrix_product import MatrixProduct
from linkwise.apps.tartan.molecular import Molecular
from linkwise.apps.tartan.monte_carlo import MonteCarlo
from linkwise.apps.tartan.pagerank import MessagePageRank
from linkwise.apps.tartan.program import Program
from linkwise.apps.tartan.turbulence import Turbulence
from linkwise.apps.tartan.wave import Wave

TARTAN: dict[str, type[Program]] = {
    each.name: each
    for each in (
        ConvNet, Annealing, GaussianMixture, KMeans, MonteCarlo, Langford, Ising,
        Wave, Diffusion, Hydrodynamics, Molecular, MessagePageRank, Turbulence, MatrixProduct,
    )
}  # fmt: skip
"""In the paper's order: seven that scale within a machine, seven that scale over nodes."""


def tartan_program(name: str) -> type[Program]:
    """The application with that name or the paper's abbreviation. Raises ``UsageError``."""
    for program in TARTAN.values():
        if name == program.name or name.upper() == program.abbreviation:
            return program
    raise UsageError(f"there is no application '{name}' of Tartan's; there are {', '.join(TARTAN)}")
