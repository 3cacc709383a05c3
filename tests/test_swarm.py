"""Scenarios of the swarm, failures of every call that files take, killed processes: some of each, always the same."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"


@pytest.mark.slow
def test_two_thousand_scenarios(tmp_path: Path) -> None:
    command = [
        sys.executable,
        SCRIPTS / "swarm.py",
        "--count",
        "2000",
        "--seed",
        "0",
        "--shrink",
        "1",
        "--output",
        tmp_path / "told.json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["scenarios"] == 2000 and not told["wrong"]
    right = sum(count for how, count in told["ended"].items() if how.endswith("right"))
    assert right > 1200, "most are no refusals"


def test_what_is_wrong_is_found_and_made_smaller() -> None:
    """A sort that loses its last row."""
    program = f"""
import sys; sys.path.insert(0, {str(SCRIPTS)!r})
import linkwise, swarm, swarm_draw, swarm_scenarios
really = linkwise.sort
linkwise.sort = lambda values, **how: really(values, **how)[:-1]
number = next(n for n in range(1000) if swarm_draw.draw(n)["operation"] == "array" and swarm_draw.draw(n)["rows"] > 8)
scenario = swarm_draw.draw(number) | {{"fault": None, "execution": {{"strategy": "cpu"}}}}
try:
    swarm_scenarios.run(scenario)
except swarm_scenarios.WrongError as error:
    print("found")
def fails(less):
    try:
        swarm_scenarios.run(less)
    except swarm_scenarios.WrongError:
        return True
    return False
swarm.fails = fails
print(swarm.shrunk(scenario)["rows"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["found", "1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["--step", "9"], ["--step", "0", "--flips", "25", "--kills", "8", "--interrupts", "8"]], ids=str
)
def test_some_of_every_failure(arguments: list[str], tmp_path: Path) -> None:
    if shutil.which("cc") is None and shutil.which("g++") is None:
        pytest.skip("a C compiler is needed")
    out = tmp_path / "told.json"
    command = [sys.executable, SCRIPTS / "every_failure.py", *arguments, "--output", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(out.read_text())
    assert sum(told.values()) > 30 and not any("overlooked" in how for how in told)
