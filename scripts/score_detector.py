"""Scores the race detector: how many needed waits it misses when they are left out: none may be.

    python scripts/score_detector.py                             # every program and place, and what was silent
    python scripts/score_detector.py --seeds 3 --output score.json
    python scripts/score_detector.py --render                    # its tables in docs/reliability.md

Every program of ``detector_programs.py`` is run again for each of its waits with that one left out: a stream's wait for
an event or a flag, the host's for an event, for all, or for what it reads back, the flush to other software's streams;
and for each event with it recorded one operation early. A run ends in one of four ways:

``detected``  the machine says what races, is blocked, or is used after it was given back, in every order tried;
``implied``   the wait orders nothing that other waits do not order, in this program;
``needless``  it orders something, but nothing that conflicts: the result is right, and no order can make it wrong;
``silent``    the result is wrong, or something else than the detector notices.

A line of code counts as detected if it is in any program, and as needless if it is in some and detected in none.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np

from detector_inputs import Program
from detector_programs import programs
from linkwise import _core
from linkwise.machines.catalog import load_machine

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reliability.md"
ENDS = ("detected", "implied", "needless", "silent")
_MACHINE = load_machine("dgx-a100")


@dataclass(frozen=True)
class Left:
    """A wait that was left out."""

    program: str
    kind: str
    line: str
    function: str
    end: str
    said: str

    @property
    def room(self) -> str:
        """The group of its program."""
        return self.program.split(",")[0].split(" ")[0] + (" resident" if " resident" in self.program else "")


def machine(seed: int, left_out: int = 0) -> _core.VirtualRuntime:
    """A virtual machine that leaves out the wait with that number."""
    runtime = _core.VirtualRuntime(_MACHINE, _core.VirtualMode.execute, seed)
    runtime.set_faults(left_out_wait=left_out)
    return runtime


def run_with(program: Program, seed: int, left_out: int, expected: list[Any]) -> tuple[bool, str]:
    """Whether the detector noticed, and the error or what else was wrong; no text if the result is right."""
    runtime = machine(seed, left_out)
    try:
        found = program(runtime)
        runtime.synchronize()  # also raises what was not reported yet
    except _core.ProgramError as error:
        return True, f"{type(error).__name__}: {error}"
    except Exception as error:
        return False, f"{type(error).__name__}: {error}"
    same = len(found) == len(expected) and all(map(np.array_equal, found, expected))
    return False, "" if same else "a wrong result"


def score(name: str, program: Program, seeds: int) -> list[Left]:
    """Leave out every wait of a program, one at a time."""
    runtime = machine(0)
    expected = program(runtime)
    found = []
    for number, (kind, line, function, orders) in enumerate(runtime.waits, 1):
        tried = [run_with(program, seed, number, expected) for seed in range(seeds if orders else 1)]
        wrong = [said for noticed, said in tried if said and not noticed]
        noticed = [said for noticed, said in tried if noticed]
        if wrong:
            end, said = "silent", wrong[0]
        elif noticed:
            end, said = ("detected" if len(noticed) == len(tried) else "silent"), noticed[0]
        else:
            end, said = ("needless" if orders else "implied"), ""
        found.append(Left(name, kind, line, function, end, said))
    return found


def score_all(seeds: int, only: str = "") -> list[Left]:
    """The waits of all programs whose names contain a text."""
    return [left for name, program in programs().items() if only in name for left in score(name, program, seeds)]


def ends_by(scored: Iterable[Left], key: Callable[[Left], Any]) -> dict[Any, Counter[str]]:
    """The number of each end, for each key."""
    ends: dict[Any, Counter[str]] = defaultdict(Counter)
    for left in scored:
        ends[key(left)][left.end] += 1
    return dict(sorted(ends.items()))


def verdict(ends: Counter[str]) -> str:
    """The verdict on a line of code, by how leaving out its waits ended."""
    return next((end for end in ("silent", "detected", "needless") if ends[end]), "implied")


def verdicts(scored: Iterable[Left]) -> dict[tuple[str, str, str], str]:
    """The verdict on each kind of wait, line and function."""
    return {key: verdict(ends) for key, ends in ends_by(scored, lambda at: (at.kind, at.line, at.function)).items()}


def tables(scored: list[Left]) -> str:
    """What docs/reliability.md shows: programs, and places by function, since lines move."""
    lines = verdicts(scored)
    counts = Counter(lines.values())
    text = [
        f"{len(scored):,} waits left out, one at a time, of {len({left.program for left in scored})} programs. Of "
        f"{len(lines)} lines of code that wait, {counts['detected']} are detected, {counts['implied']} are implied in "
        f"every program, {counts['needless']} "
        f"{'looks' if counts['needless'] == 1 else 'look'} needless, {counts['silent']} are silent.",
        "",
        "| programs | " + " | ".join(ENDS) + " |",
        "|---|" + "---:|" * len(ENDS),
    ]
    rooms = ends_by(scored, lambda left: left.room)
    text += [f"| {room} | " + " | ".join(f"{ends[end]:,}" for end in ENDS) + " |" for room, ends in rooms.items()]
    text += ["", "<details><summary>Every place that waits</summary>", ""]
    text += ["| where | waits for | lines | detected | implied | needless |", "|---|---|---|---:|---:|---:|"]
    places = ends_by(scored, lambda left: (left.line.partition(":")[0], left.function, left.kind))
    for (file, function, kind), ends in places.items():
        of_lines = {
            end for (k, line, f), end in lines.items() if (k, f, line.partition(":")[0]) == (kind, function, file)
        }
        short = file.removeprefix("src/linkwise/")
        text.append(
            f"| `{short}` {function} | {kind} | {', '.join(sorted(of_lines))} | "
            + " | ".join(f"{ends[end]:,}" for end in ENDS[:3]) + " |"
        )  # fmt: skip
    return "\n".join([*text, "", "</details>"])


def rendered(scored: list[Left], page: str) -> str:
    """The page with these tables."""
    return re.sub(
        r"(?<=<!-- detector -->\n).*(?=<!-- /detector -->)", lambda _: tables(scored) + "\n", page, flags=re.DOTALL
    )


def main() -> int:
    """Score the detector, print the result, and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2, help="orders in which what was left out is tried")
    parser.add_argument("--only", default="", help="programs whose names contain this")
    parser.add_argument("--output", type=Path, help="where the scores go, as JSON")
    parser.add_argument("--render", action="store_true", help="into docs/reliability.md")
    options = parser.parse_args()
    scored = score_all(options.seeds, options.only)
    by_program, by_line = ends_by(scored, lambda left: left.program), verdicts(scored)
    for name, ends in by_program.items():
        print(f"{name:50} " + "  ".join(f"{ends[end]:5} {end}" for end in ENDS))
    for (kind, line, function), end in by_line.items():
        print(f"{end:9} {kind:12} {line} {function}")
    for left in scored:
        if left.end == "silent":
            print(f"SILENT {left.program}: {left.kind} at {left.line}: {left.said}")
    if options.output is not None:
        told = {
            "seeds": options.seeds,
            "programs": {name: dict(ends) for name, ends in by_program.items()},
            "lines": [
                {"kind": kind, "line": line, "function": function, "verdict": by_line[kind, line, function], **ends}
                for (kind, line, function), ends in ends_by(
                    scored, lambda left: (left.kind, left.line, left.function)
                ).items()
            ],
        }
        options.output.write_text(json.dumps(told, indent=1) + "\n")
    if options.render:
        PAGE.write_text(rendered(scored, PAGE.read_text()))
    return 1 if "silent" in by_line.values() else 0


if __name__ == "__main__":
    sys.exit(main())
