"""The papers' experiments: all of them are there, and what a paper states is met or named as not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from conftest import cuda_runtime
from linkwise import UsageError
from linkwise.reproduce.experiment import Row
from linkwise.reproduce.registry import EXPERIMENTS, reproduce

TOLERANCE = 0.15
FIGURES = {
    "sort22": [*range(1, 8), *range(12, 17)],
    "join25": [1, *range(11, 18)],
    "proact21": [2, 4, *range(6, 11)],
    "commscope19": [2, *range(6, 12)],
    "tartan20": [*range(5, 40)],
}
# What is further from a paper than that, and why.
EXCEPTIONS = {
    ("sort22-fig14", "  merge, share", 0.04): "half a percent of the whole, which the paper rounds to whole ones",
    ("sort22-fig14", "  merge, share", 0.13): "16 % with GPUs that merge as A100s do; the whole is 230 of 250 ms",
    ("join25-fig15", "5·10⁹ ⋈ 5·10⁹", 1.4): "1.6: half as many runs are merged, which costs more here",
    ("join25-fig15", "8·10⁹ ⋈ 8·10⁹", 3.9): "5.2: four GPUs merge nothing, and one merges four runs",
    ("join25-fig17", "Q3, share of join", 0.28): "both relations are sorted and merged whole first, more slowly",
    ("join25-fig17", "Q3, share of sort", 0.56): "likewise",
    ("join25-fig17", "Q3, share of materialise", 0.16): "and row numbers are materialised, not their columns",
    ("join25-fig17", "Q5, share of sort", 0.32): "likewise",
    ("join25-fig17", "Q5, share of materialise", 0.46): "likewise",
    ("proact21-fig10", "16 GPUs, as fast as memcpy", 5.3): "6.4: our applications differ more in what they transfer",
    ("tartan20-fig5", "dgx1-v100", 27.0): "two copies in a row take twice as long as one; why three times is not known",
    ("tartan20-fig21", "PCIe", 16.0): "from 8 MiB on; the paper reads where its curves seem to end",
    ("tartan20-fig21", "NVLink", 256.0): "from 128 MiB on, likewise",
    (
        "tartan20-fig22",
        "all-reduce",
        18.0,
    ): "its second round of steps is not free in a model without NCCL's pipelining",
    ("tartan20-fig24", "sli-rtx2080", 1.0): "at 18 µs a start, 1 MB reaches two thirds of the rate, and 8 MB 90 %",
    ("tartan20-fig31", "8 nodes", 32.0): "more than two rails of EDR could carry, 25 GB/s",
}


def is_named(name: str, row: Row) -> bool:
    return any(experiment == name and part in row.what and row.paper == paper for experiment, part, paper in EXCEPTIONS)


def test_every_figure_that_is_promised_is_there() -> None:
    expected = {f"{paper}-fig{number}" for paper, numbers in FIGURES.items() for number in numbers}
    assert expected | {"sort22-table2", "proact21-table2"} == set(EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_the_paper_states_is_met(name: str) -> None:
    rows = reproduce(name)
    assert rows
    for row in rows:
        assert row.ours is not None or row.note, f"{row.what}: neither a figure nor a reason"
        assert row.ours is None or row.ours >= 0
        if row.ratio is not None and not is_named(name, row):
            assert row.ratio == pytest.approx(1, abs=TOLERANCE), f"{row.what}: {row.ours}, not {row.paper}"


def test_no_exception_is_left_over() -> None:
    for experiment, part, paper in EXCEPTIONS:
        of_it = [row for row in reproduce(experiment) if part in row.what and row.paper == paper]
        assert any(row.ratio is not None and abs(row.ratio - 1) > TOLERANCE for row in of_it), (
            f"{experiment}, {part}: no exception any more"
        )


def test_proactive_transfers_are_as_the_paper_says() -> None:
    """What it states in words: the agents that win, what tracking costs at most, and how much is hidden at least."""
    assert sum(row.ours or 0 for row in reproduce("proact21-table2")) >= 12
    means = [row.ours or 0 for row in reproduce("proact21-fig8") if "mean" in row.what]
    assert len(means) == 3
    assert all(0.10 / (1 + TOLERANCE) <= mean <= 0.15 * (1 + TOLERANCE) for mean in means)
    overlaps = [row.ours or 0 for row in reproduce("proact21-fig9")]
    assert min(overlaps) >= 0.75
    best = {row.what: row.ours or 0 for row in reproduce("proact21-fig6") if "best" in row.what}
    assert best["kepler4, polling, best"] < 1
    assert best["volta4, polling, best"] > best["volta4, dynamic, best"]


def test_on_another_machine() -> None:
    rows = reproduce("sort22-fig4", "delta-d22x")
    assert [row.what for row in rows if row.ours is None] == [
        f"{gpus}, {direction}"
        for gpus in ((4,), (4, 6), (0, 2, 4, 6), tuple(range(8)))
        for direction in ("htod", "dtoh", "bidir")
    ]
    assert all("it takes" in row.note for row in rows if row.ours is None)
    for name in EXPERIMENTS:
        assert reproduce(name, "sli-rtx2080" if name.startswith("tartan") else "dgx-a100")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "linkwise", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_command_line() -> None:
    listed = run("reproduce", "LIST")
    assert all(name in listed.stdout for name in EXPERIMENTS)
    told = json.loads(run("reproduce", "sort22-fig12", "--json").stdout)
    best = next(row for row in told["rows"] if row["what"] == "P2P sort on (0, 1)")
    assert best["paper"] == 0.24
    assert best["ratio"] == pytest.approx(best["ours"] / 0.24)
    assert told["simulated"]
    shown = " ".join(run("reproduce", "tartan20-fig14").stdout.split())
    assert "simulated, nothing was measured" in shown
    assert "0 → 4 → 7" in shown
    unknown = run("reproduce", "sort22-fig99")
    assert unknown.returncode == 2
    assert "there is no experiment 'sort22-fig99'" in unknown.stderr
    with pytest.raises(UsageError):
        reproduce("sort22-fig2", "elsewhere")


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["commscope19-fig6", "commscope19-fig11", "tartan20-fig5", "tartan20-fig14"])
def test_experiments_run_on_gpus(name: str) -> None:
    assert cuda_runtime().machine.num_gpus
    rows = reproduce(name, "local")
    assert rows
    assert any(row.ours for row in rows) or all(row.note for row in rows)
