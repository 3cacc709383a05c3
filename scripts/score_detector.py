"""How many of the waits that a program needs the race detector misses when they are left out: none may be.

    python scripts/score_detector.py                             # a table, and what was left out where
    python scripts/score_detector.py --seeds 3 --output score.json

Every program of ``detector_programs.py`` is run again for each of its waits with that one left out: a stream's wait for
an event or a flag, the host's for an event, for all, or for what it reads back, the flush to other software's streams;
and for each event with it recorded one operation early. A run ends in one of four ways:

``detected``  the machine says what races, is blocked, or is used after it was given back;
``implied``   the wait orders nothing that other waits do not order, in this program;
``needless``  it orders something, but nothing that conflicts: the result is right, and no order can make it wrong;
``silent``    the result is wrong, or something else than the detector notices.

A place in the code counts as detected if it is in any program, and as needless if it is in some and detected in none.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from detector_programs import Program, programs

from linkwise import _core
from linkwise.machines.catalog import load_machine

ENDS = ("detected", "implied", "needless", "silent")
_MACHINE = load_machine("dgx-a100")


def machine(seed: int, left_out: int = 0) -> _core.VirtualRuntime:
    """One whose wait with that number is left out."""
    runtime = _core.VirtualRuntime(_MACHINE, _core.VirtualMode.execute, seed)
    runtime.set_faults(left_out_wait=left_out)
    return runtime


def run_with(program: Program, seed: int, left_out: int, expected: list[Any]) -> tuple[bool, str]:
    """Whether the detector noticed, and what else was wrong; nothing at all, if the result is right."""
    runtime = machine(seed, left_out)
    try:
        found = program(runtime)
        runtime.synchronize()  # also says what it has kept to itself
    except _core.ProgramError as error:
        return True, f"{type(error).__name__}: {error}"
    except Exception as error:
        return False, f"{type(error).__name__}: {error}"
    same = len(found) == len(expected) and all(map(np.array_equal, found, expected))
    return False, "" if same else "a wrong result"


def score(program: Program, seeds: int) -> list[tuple[str, str, str, str]]:
    """For each wait of a program: its kind, where it is, how leaving it out ended, and what was said."""
    runtime = machine(0)
    expected = program(runtime)
    waits = runtime.waits
    found = []
    for number, (kind, site, orders) in enumerate(waits, 1):
        ends = [run_with(program, seed, number, expected) for seed in range(seeds if orders else 1)]
        wrong = [said for noticed, said in ends if not noticed and said]
        if wrong:
            found.append((kind, site, "silent", wrong[0]))
        elif all(noticed for noticed, _ in ends):
            found.append((kind, site, "detected", ends[0][1]))
        elif any(noticed for noticed, _ in ends):  # in one order and not in another
            found.append((kind, site, "silent", "detected in some orders alone: " + next(s for n, s in ends if n)))
        else:
            found.append((kind, site, "needless" if orders else "implied", ""))
    return found


def by_site(scores: dict[str, list[tuple[str, str, str, str]]]) -> dict[tuple[str, str], Counter[str]]:
    """How leaving out the waits of each kind and place ended, over all programs."""
    ends: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for waits in scores.values():
        for kind, site, end, _ in waits:
            ends[kind, site][end] += 1
    return dict(sorted(ends.items()))


def verdict(ends: Counter[str]) -> str:
    """Of a place, by how its waits ended."""
    return next((end for end in ("silent", "detected", "needless") if ends[end]), "implied")


def main() -> int:
    """Score all programs, or those whose names contain a text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2, help="orders in which what was left out is tried")
    parser.add_argument("--only", default="", help="programs whose names contain this")
    parser.add_argument("--output", type=Path, help="where the scores go, as JSON")
    options = parser.parse_args()
    scores = {name: score(program, options.seeds) for name, program in programs().items() if options.only in name}
    sites = by_site(scores)
    for name, waits in scores.items():
        ends = Counter(end for _, _, end, _ in waits)
        print(f"{name:50} " + "  ".join(f"{ends[end]:5} {end}" for end in ENDS))
    for (kind, site), ends in sites.items():
        print(f"{verdict(ends):9} {kind:12} {site:60} {dict(ends)}")
    for name, waits in scores.items():
        for kind, site, end, said in waits:
            if end == "silent":
                print(f"SILENT {name}: {kind} at {site}: {said}")
    if options.output is not None:
        told = {
            "seeds": options.seeds,
            "programs": {name: dict(Counter(end for _, _, end, _ in waits)) for name, waits in scores.items()},
            "sites": [{"kind": kind, "site": site, **ends} for (kind, site), ends in sites.items()],
        }
        options.output.write_text(json.dumps(told, indent=1) + "\n")
    return 1 if any(verdict(ends) == "silent" for ends in sites.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
