"""linkwise bench plan: predictions after a probe, and what the planner picks, held against described machines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import cuda_runtime
from linkwise import UsageError
from linkwise.bench.plan import bench_plan


@pytest.mark.parametrize("name", ["h200x8", "dgx-a100", "ibm-ac922", "dgx1-v100"])
def test_sorts_are_predicted_and_the_best_is_picked(name: str) -> None:
    """The bar for the real thing: 8 % in the median, 20 % at worst, and within 3 % of the best in 90 % of the cells."""
    results = bench_plan(name, 0.1)
    assert results.simulated
    assert results.sorts.count == len(results.rows) >= 18
    assert results.sorts.median < 0.03
    assert results.sorts.worst < 0.15
    assert results.transfers_not_fitted.median < 0.02
    assert results.picks_within_3_percent >= 0.9


def test_command_line(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "linkwise", "bench", "plan", *arguments],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    shown = run("--machine", "delta-d22x", "--scale", "0.01", "-o", str(tmp_path / "p.json"))
    assert shown.returncode == 0, shown.stderr
    assert "median error" in shown.stdout
    assert json.loads((tmp_path / "p.json").read_text())["machine"] == "delta-d22x-probed"
    assert run("--machine", "h200x8", "--scale", "0").returncode == 2
    with pytest.raises(UsageError, match="the scale is -1"):
        bench_plan("h200x8", -1)


@pytest.mark.gpu
def test_on_gpus() -> None:
    assert cuda_runtime().machine.num_gpus
    results = bench_plan("local", 0.001)
    assert not results.simulated
    assert all(len(row.measured_seconds) == 3 for row in results.rows)
