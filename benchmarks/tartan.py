"""Tartan's fourteen applications on this machine's GPUs, in every way, with strong and weak scaling.

    python benchmarks/tartan.py --output tartan.json
    mpirun -n 2 python benchmarks/tartan.py --output tartan.json     # a GPU a process, by MPI and NCCL

A program that the GPUs' number or memory rules out is left out, and says why. Answers are checked in every run.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from harness import about
from linkwise._core import Error, Machine
from linkwise.apps.tartan_registry import TARTAN
from linkwise.apps.tartan_run import run_tartan
from linkwise.machines.local import local_machine
from linkwise.messages.launcher import launched, rank
from linkwise.messages.ways import WAYS
from linkwise.runtime.session import no_gpu

IN_PROCESS = ("peer", "nccl", "host-pinned", "host")


def no_time_left(until: float) -> bool:
    """Whether time is up; with several processes, the first one decides."""
    world = launched()
    is_late = time.monotonic() > until
    return bool(is_late if world is None else world.everyone.bcast(is_late))


def cases(vias: list[str], only: str | None, scale: float, repetitions: int, until: float) -> list[dict[str, Any]]:
    """One run after the other, as long as there is time."""
    found = []
    for name in TARTAN if only is None else only.split(","):
        for scaling in ("strong", "weak"):
            for via in vias:
                case: dict[str, Any] = {"app": name, "via": via, "scaling": scaling}
                if no_time_left(until):
                    found.append(case | {"cannot": "no time was left"})
                    continue
                try:
                    report = run_tartan(name, via=via, scaling=scaling, scale=scale, repetitions=repetitions)
                    case = report.as_dict()
                except Error as error:
                    case |= {"cannot": " ".join(str(error).split())}
                found.append(case)
                if rank() == 0:
                    told = (
                        case.get("cannot") or f"{case['seconds']:.4f} s, {case['speedup']:.2f} x, {case['error']:.2g}"
                    )
                    print(f"{name} {scaling} {via}: {told}", flush=True)
    return found


def local_machine_or_raise() -> Machine:
    """This machine's GPUs. Raises ``DeviceError`` where there are none."""
    machine = local_machine()
    if machine is None:
        raise no_gpu("measure")
    return machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", help="names, between commas")
    parser.add_argument("--via", help="ways, between commas")
    parser.add_argument("--scale", type=float, default=0.25)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1e9, help="no case begins later than this")
    arguments = parser.parse_args()
    world = launched()
    usual = ("nccl", "host-pinned", "host") if world is not None else IN_PROCESS
    vias = arguments.via.split(",") if arguments.via else list(usual)
    assert set(vias) <= set(WAYS)
    until = time.monotonic() + arguments.seconds
    rows = cases(vias, arguments.only, arguments.scale, arguments.repetitions, until)
    if rank() == 0:
        processes = 1 if world is None else world.everyone.Get_size()
        told = about(local_machine_or_raise(), simulated=False) | {"processes": processes, "cases": rows}
        arguments.output.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
