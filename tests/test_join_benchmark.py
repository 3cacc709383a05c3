"""linkwise bench join and plan join: the workloads of join25, and what joins would take."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwise
from conftest import cuda_runtime
from linkwise import OutOfMemoryError, UsageError, _core
from linkwise.bench.join import CASES, bench_join
from linkwise.bench.join_workload import HEAVY_ROWS, Workload
from linkwise.machines.catalog import load_machine


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "linkwise", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("name", ["A", "B"])
@pytest.mark.parametrize(("selectivity", "skew"), [(1.0, 0.0), (0.4, 0.0), (1.0, 1.0), (0.0, 0.5)])
def test_workloads_are_what_they_say(name: str, selectivity: float, skew: float) -> None:
    workload = Workload(name, 0.0001, selectivity, skew)
    r, s = workload.rows
    r_keys, r_values, s_keys, s_values = (np.empty(n, workload.dtype) for n in (r, r, s, s))
    expected = workload.fill(r_keys, r_values, s_keys, s_values)
    assert len(np.unique(r_keys)) == r
    assert r_keys.max() > np.iinfo(workload.dtype).max * 0.99, "over the whole range"
    row_of = {int(key): row for row, key in enumerate(r_keys)}
    matches = [(row_of[int(key)], row) for row, key in enumerate(s_keys) if int(key) in row_of]
    assert len(matches) == expected.matches
    assert abs(len(matches) / s - selectivity) < 0.02
    assert [sum(side) for side in zip(*matches, strict=True)] == ([expected.r_sum, expected.s_sum] if matches else [])
    if skew == 1:  # the first of n ranks has a share of 1 / ln n
        share = (s_keys == r_keys[0]).mean()
        assert share == pytest.approx(np.log(2) / np.log(r + 1), rel=0.1)


@pytest.mark.parametrize("selectivity", [1.0, 0.4])
def test_a_heavy_hitter(selectivity: float) -> None:
    workload = Workload("B", 0.0001, selectivity, heavy_hitter=True)
    r, s = workload.rows
    r_keys, r_values, s_keys, s_values = (np.empty(n, workload.dtype) for n in (r, r, s, s))
    expected = workload.fill(r_keys, r_values, s_keys, s_values)
    assert (r_keys == r_keys[0]).sum() == HEAVY_ROWS
    assert (s_keys == r_keys[0]).mean() == pytest.approx(selectivity / 10, rel=0.05)
    assert workload.expected_matches == pytest.approx(expected.matches, rel=0.05)
    plan, sort = _core.JoinPlan(), _core.SortPlan()
    sort.gpus = [0, 1, 2, 3]
    plan.sort = sort
    runtime = _core.VirtualRuntime(load_machine("dgx-a100"), _core.VirtualMode.execute, 0)
    found = _core.join_totals(runtime, plan, _core.KeyType.u64, r_keys, s_keys, r_values, s_values)
    assert (found.rows, found.left_sum, found.right_sum) == (expected.matches, expected.r_sum, expected.s_sum)


def test_workloads_that_do_not_exist() -> None:
    for wrong, told in (
        ({"name": "C"}, "no workload 'C'"), ({"scale": 0.0}, "the scale is 0"), ({"skew": 2.0}, "the skew is 2"),
        ({"heavy_hitter": True, "skew": 0.5}, "a skew of 0"),
        ({"selectivity": -1.0}, "the selectivity is -1"), ({"name": "A", "scale": 50.0}, "not enough different keys"),
        ({"name": "A", "scale": 10.0, "selectivity": 0.5}, "not enough different keys"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=told):
            Workload(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("machine", ["h200x8", "dgx-h100", "ibm-ac922"])
def test_simulated(machine: str) -> None:
    results = bench_join(Workload("B", 0.5), machine=machine)
    assert results.simulated
    seconds = {row.case: row.seconds for row in results.rows}
    assert list(seconds) == [case.name for case in CASES]
    for row in results.rows:
        assert row.seconds == pytest.approx(sum(row.phases.values()))
    assert seconds["counted"] < seconds["count and sums"] < seconds["materialised"]
    assert seconds["counted"] < seconds["join25's path, counted"]
    assert seconds["four chunksets, counted"] < seconds["four chunksets, merged first, counted"]


def test_bench_on_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "join.json"
    shown = run("bench", "join", "--workload", "B", "--f", "0.01", "--machine", "dgx-a100", "-o", str(out))
    assert shown.returncode == 0, shown.stderr
    assert "materialised" in shown.stdout
    assert json.loads(out.read_text())["workload"]["rows"] == [10_000_000, 10_000_000]
    for wrong in (["--f", "-1"], ["--only", "xyz"], ["--real", "--machine", "dgx-a100"], ["--repetitions", "0"]):
        done = run("bench", "join", *wrong, *(() if "--machine" in wrong else ("--machine", "dgx-a100")))
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1


def test_plans_of_joins() -> None:
    def plan(**options: Any) -> linkwise.JoinPlanReport:
        return linkwise.plan_join(10**8, 10**9, "u32", machine="h200x8", **options)

    counted, summed, rows = plan(), plan(value_bytes=4), plan(value_bytes=4, wants_rows=True)
    assert counted.best.seconds < summed.best.seconds < rows.best.seconds
    assert (counted.best.path, plan(memory_limit="1GiB").best.path) == ("in_core", "in_core")
    assert linkwise.plan_join(4 * 10**9, 4 * 10**9, "u64", machine="h200x8", memory_limit="4GiB").best.path == "sorted"
    assert plan(left_presorted=True, right_presorted=True, path="sorted").best.seconds < 1.2 * counted.best.seconds
    assert plan(gpus=[0]).best.seconds > 2 * counted.best.seconds
    assert plan(value_bytes=4, wants_rows=True, matches=10**6).best.seconds < rows.best.seconds
    for zipf in (0.0, 0.5, 1.0, 1.5):
        found = plan(skew=zipf).skew
        exact = 1 / (np.arange(1, 10**6 + 1, dtype=float) ** -zipf).sum()
        assert linkwise.plan_join(10**6, 10**7, machine="h200x8", skew=zipf).skew.heaviest_share == pytest.approx(exact)
        assert found.spread_over == (1 if zipf < 1.5 else 3), "of four GPUs"
    with pytest.raises(OutOfMemoryError, match="fits into the GPUs"):
        plan(wants_rows=True, value_bytes=4, memory_limit="64MiB")
    for wrong, told in (
        ({"path": "x"}, "no path 'x'"),
        ({"value_bytes": 3}, "not 3"),
        ({"how": "x"}, "no join 'x'"),
        ({"skew": -1.0}, "skew is -1"),
    ):
        with pytest.raises(UsageError, match=told):
            plan(**wrong)


def test_plan_on_the_command_line() -> None:
    done = run("plan", "join", "--left", "1e8", "--right", "1e9", "--machine", "dgx-h100", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["path"] == "in_core"
    assert json.loads(done.stdout)["skew"] == {"zipf": 0.0, "heaviest_share": 1e-8, "spread_over": 1}
    skewed = run("plan", "join", "--left", "1e6", "--right", "1e7", "--machine", "dgx2", "--skew", "1").stdout
    assert "the most frequent key has 6.9% of the longer side" in skewed
    assert "in core on" in run("plan", "join", "--left", "1e6", "--right", "1e7", "--machine", "dgx2").stdout
    assert run("plan", "join", "--left", "inf", "--right", "1").returncode == 2


@pytest.mark.gpu
def test_on_gpus() -> None:
    assert cuda_runtime().machine.num_gpus
    results = bench_join(Workload("A", 0.001), repetitions=1)
    assert not results.simulated
    assert len(results.rows) == len(CASES)


def test_plans_do_not_depend_on_what_else_does_not_fit() -> None:
    """More memory never makes a join impossible."""
    for limit in ("3MiB", "4MiB", "8MiB", "16MiB", "64MiB"):
        for values in (0, 8):
            plan = linkwise.plan_join(
                300_000,
                300_000,
                "u64",
                machine="dgx-a100",
                memory_limit=limit,
                wants_rows=values > 0,
                value_bytes=values,
            )
            assert plan.best.seconds > 0


def test_matches_change_what_rows_take() -> None:
    def seconds(matches: int | None) -> float:
        return linkwise.plan_join(
            10**7, 10**8, wants_rows=True, value_bytes=4, machine="dgx-h100", matches=matches
        ).best.seconds

    none, few, all_of_them, many = (seconds(matches) for matches in (0, 10**6, 10**8, 10**11))
    assert none <= few < all_of_them / 1.5
    assert seconds(None) == pytest.approx(all_of_them)
    assert many == pytest.approx(1000 * all_of_them, rel=0.5)


def test_plans_say_how_they_sort_and_share() -> None:
    report = linkwise.plan_join(10**6, 10**7, machine="dgx-a100", gpus=[0, 2]).as_dict()
    assert (report["strategy"], report["shares"]) == ("radix", {"0": 0.5, "2": 0.5})
