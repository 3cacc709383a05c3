"""Run by mpirun: what two processes measure of the messages between them, with a virtual machine as their GPUs."""

from __future__ import annotations

import json

import linkwise
from linkwise import _core
from linkwise.probing.mpi import between_processes, rank

rows = between_processes(_core.VirtualRuntime(linkwise.load_machine("delta-d22x")))
if rank() == 0:
    print(json.dumps(rows))
elif rows:
    raise SystemExit("only the first process tells")
