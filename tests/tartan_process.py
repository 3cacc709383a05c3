"""Run by mpiexec: one of Tartan's applications, a rank a process, on the cores; the first process tells the error."""

from __future__ import annotations

import sys

from linkwise.apps.tartan_registry import TARTAN
from linkwise.apps.tartan_run import checked_error
from linkwise.messages.launcher import launched
from linkwise.messages.mpi_ranks import MpiRanks
from linkwise.messages.ways import WAYS

world = launched()
assert world is not None
names = sys.argv[2].split(",")
for name in names:
    comm = MpiRanks(world.everyone, WAYS[sys.argv[1]], None)
    error = checked_error(comm, TARTAN[name].small())
    if comm.local[0] == 0:
        print(name, error)
