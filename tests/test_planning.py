"""What a sort would take: the call, the command line, and the plan beside what happened."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwise
from linkwise import _core


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "linkwise", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_the_plan_and_why() -> None:
    report = linkwise.plan_sort(2 * 10**9, "u32", machine="h200x8")
    assert report.best.gpus == (4, 5, 6, 7)
    assert report.best.strategy == "radix"
    assert sum(report.best.phases.values()) == pytest.approx(report.best.seconds)
    assert "GPUs (4,5,6,7) carry 177 GB/s in and 142 out" in report.why
    assert "p2p_merge would take" in report.why
    assert {plan.strategy for plan in report.runners_up} == {"radix", "p2p_merge", "het", "cpu"}
    assert min(plan.seconds for plan in report.runners_up) > 0.99 * report.best.seconds


def test_rows_may_be_a_float() -> None:
    """As ``1e9`` is; it used to be an error of the binding's."""
    assert linkwise.plan_sort(1e6, machine="dgx-a100").best == linkwise.plan_sort(10**6, machine="dgx-a100").best


def with_peers(name: str) -> _core.Machine:
    """The machine as if all of its GPUs reached each other's memory, as P2P merge sort needs it."""
    machine = linkwise.load_machine(name)
    machine.staged_peers = False
    return machine


@pytest.mark.parametrize("machine", ["dgx1-v100", "dgx1-p100", "ibm-ac922", "delta-d22x", "h200x8"])
def test_gpus_are_merged_in_a_good_order(machine: str) -> None:
    """Of four and of eight GPUs: none of the orders that chance draws is better by more than 2 % (sort22 §5.4)."""
    random = np.random.default_rng(1)
    described = with_peers(machine)
    best = linkwise.plan_sort(2 * 10**9, machine=described, strategy="p2p_merge")
    gpus = described.num_gpus
    whole = linkwise.plan_sort(2 * 10**9, machine=described, strategy="p2p_merge", gpus=best.best.gpus).best.seconds
    assert best.best.seconds <= 1.001 * whole
    drawn = [tuple(map(int, random.permutation(gpus))) for _ in range(30)]
    for order in [*drawn, *(each[:4] for each in drawn if gpus == 8)]:
        plan = linkwise.SortPlan(strategy="p2p_merge", gpus=order)
        seconds = linkwise.plan_sort(2 * 10**9, machine=described, plan=plan).best.seconds
        assert best.best.seconds < 1.02 * seconds, order


@pytest.mark.parametrize(("machine", "gain"), [("dgx1-v100", 0.75), ("dgx1-p100", 0.85)])
def test_eight_gpus_are_merged_in_a_good_order(machine: str, gain: float) -> None:
    """Where some of them have no link: much better than in the order of their numbers, and than by chance."""
    workload, constraints = _core.SortWorkload(), _core.SortConstraints()
    workload.count, constraints.strategy = 2 * 10**9, _core.SortStrategy.p2p_merge
    found = {
        tuple(priced.plan.gpus): priced.seconds
        for priced in _core.plan_sort(with_peers(machine), workload, constraints)
        if len(priced.plan.gpus) == 8 and not priced.plan.paths
    }
    assert min(found.values()) < gain * found[tuple(range(8))]
    random = np.random.default_rng(1)
    for _ in range(30):
        order = tuple(map(int, random.permutation(8)))
        plan = linkwise.SortPlan(strategy="p2p_merge", gpus=order, paths=())
        seconds = linkwise.plan_sort(workload.count, machine=with_peers(machine), plan=plan).best.seconds
        assert min(found.values()) < 1.01 * seconds, order


@pytest.mark.parametrize("order", ["random", "sorted", "nearly_sorted", "reversed"])
def test_how_keys_come_is_priced(order: Any) -> None:
    """What changes sides between GPUs depends on it (sort22 §6.3)."""
    plan = linkwise.SortPlan(strategy="p2p_merge", gpus=(0, 1))
    merged = {
        each: linkwise.plan_sort(10**9, machine="ibm-ac922", plan=plan, expected_order=each).best.phases.get("merge", 0)
        for each in ("random", order)
    }
    factor = {"random": 1, "sorted": 0, "nearly_sorted": 0.5, "reversed": 1.5}[order]  # a chunk is merged for one key
    assert merged[order] == pytest.approx(factor * merged["random"], rel=0.4, abs=0.1 * merged["random"])
    with pytest.raises(linkwise.UsageError, match="expected_order is one of random, sorted"):
        linkwise.plan_sort(10, machine="ibm-ac922", expected_order="shuffled")  # type: ignore[arg-type]


def test_what_is_given_is_kept() -> None:
    report = linkwise.plan_sort(10**9, "i64", machine="dgx-a100", gpus=[3, 1], strategy="p2p_merge", value_bytes=4)
    assert sorted(report.best.gpus) == [1, 3]
    assert report.best.strategy == "p2p_merge"
    on_cpu = linkwise.plan_sort(10**6, "f64", machine="h200x8", strategy="cpu")
    assert on_cpu.best.gpus == ()
    assert on_cpu.why
    small = linkwise.plan_sort(2 * 10**9, machine="h200x8", memory_limit="1GiB")
    assert "records at once" in small.best.plan


@pytest.mark.parametrize("machine", linkwise.described_machines())
@pytest.mark.parametrize("rows", [0, 1, 10**6, 10**10])
def test_every_machine_has_a_plan_for_every_size(machine: str, rows: int) -> None:
    report = linkwise.plan_sort(rows, machine=machine)
    assert report.machine == machine
    assert report.why.endswith(".")


def test_command_line() -> None:
    done = run("plan", "sort", "--rows", "2e9", "--key", "u32", "--machine", "h200x8", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["seconds"]["end_to_end"] == linkwise.plan_sort(2 * 10**9, machine="h200x8").best.seconds
    assert {"plan", "seconds", "runners_up", "why", "gpus"} <= set(told)
    shown = run("plan", "sort", "--rows", "1e9", "--value", "4", "--machine", "delta-d22x")
    assert shown.returncode == 0
    assert "runners-up" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--rows", "1e9", "--key", "decimal"], "no key type 'decimal'"),
        (["--rows", "1e9", "--key", "bool"], "keys of type bool"),
        (["--rows", "-1"], "--rows is -1"),
        (["--rows", "10", "--gpus", "9"], "no GPU 9"),
        (["--rows", "10", "--machine", "elsewhere"], "no machine 'elsewhere'"),
        (["--rows", "10", "--value", "3"], "0, 4, 8 or 16"),
    ],
)
def test_failures_are_one_clear_line(arguments: list[str], says: str) -> None:
    done = run("plan", "sort", *(["--machine", "h200x8"] if "--machine" not in arguments else []), *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_explain_shows_what_was_expected(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.random.default_rng(0).integers(0, 1 << 32, 200_000, dtype=np.uint32))
    arguments = ["sort", str(tmp_path / "in.npy"), "-o", str(tmp_path / "out.npy"), "--machine", "h200x8", "--explain"]
    told = json.loads(run(*arguments, "--json").stdout)
    assert told["predicted"].keys() == told["seconds"]["phases"].keys()
    for phase, seconds in told["seconds"]["phases"].items():
        assert told["predicted"][phase] == pytest.approx(seconds, rel=0.3, abs=2e-5)
    shown = run(*arguments).stdout
    assert "predicted" in shown
    assert "end to end" in shown


@pytest.mark.parametrize("name", linkwise.described_machines())
def test_every_gpu_set_is_like_one_that_is_looked_at(name: str) -> None:
    """Whatever symmetry leaves out has the host rates of a set that it keeps."""
    machine = linkwise.load_machine(name)
    kept = _core.distinct_gpu_sets(machine)
    assert kept == sorted(kept, key=len)

    def rates(gpus: list[int]) -> tuple[float, ...]:
        directions = (_core.Traffic.host_to_device, _core.Traffic.device_to_host)
        return tuple(round(_core.even_host_rate(machine, gpus, direction, False), 6) for direction in directions)

    known = {(len(gpus), rates(gpus)) for gpus in kept}
    for size in range(1, min(machine.num_gpus, 8) + 1):
        for gpus in itertools.combinations(range(machine.num_gpus), size):
            assert (size, rates(list(gpus))) in known


def test_small_limits_are_planned_and_quickly() -> None:
    """What one plan has no room for does not end the search, and of thousands of chunksets some are simulated."""
    for limit in ("3MiB", "4MiB", "8MiB", "32MiB", "64MiB"):
        assert linkwise.plan_sort(1_500_000, "i64", machine="h200x8", memory_limit=limit).best.seconds > 0
    few, many = (
        linkwise.plan_sort(2 * 10**9, "i64", machine="h200x8", memory_limit=limit) for limit in ("1GiB", "128MiB")
    )
    assert few.best.seconds < many.best.seconds < 20 * few.best.seconds


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("rows", [(10**6, 5 * 10**6), (5 * 10**6, 10**6), (10, 3 * 10**6), (10**9, 10**6)])
def test_every_kind_of_join_is_planned_in_little_memory(how: str, rows: tuple[int, int]) -> None:
    """In a process whose memory is limited: no expected result is longer than the kind of join can have."""
    program = (
        "import resource, linkwise\n"
        "resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))\n"
        f"for more in ({{}}, {{'wants_rows': True}}, {{'wants_rows': True, 'matches': {10 * max(rows)}}}):\n"
        f"    plan = linkwise.plan_join(*{rows}, how={how!r}, machine='h200x8', **more).best\n"
        "    assert 0 < plan.seconds < 60, plan.seconds\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
