"""Plans for many nodes, and the rates that they are priced with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import linkwise
from clusters import AnyOrder
from linkwise.cluster.node_rates import rates_of
from linkwise.machines.cluster_rates import ClusterRates, cluster_rates, machines_with_rates
from linkwise.planning.nodes import plan_join_of_nodes, plan_sort_of_nodes

RATES = {
    "network": 1.0, "storage_read": 2.0, "storage_write": 4.0, "spill_write": 0.5, "spill_read": 1.0, "spread": 10.0,
    "make": 8.0, "start_seconds": 3.0, "task_seconds": 0.0, "memory_gib": 16.0, "store_gib": 8.0,
}  # fmt: skip


def described(folder: Path, **changed: object) -> str:
    rates = {name: value for name, value in (RATES | changed).items() if value is not None}
    (folder / "nodes.json").write_text(json.dumps({"name": "nodes", "cluster": rates}))
    return str(folder / "nodes.json")


def test_stages_take_what_their_busiest_resource_does(tmp_path):
    report = plan_sort_of_nodes(1e9, "u64", 100, f"{described(tmp_path)}:4")  # 100 GB, 25 of them on each node
    assert [plan.nodes for plan in report.plans] == [1, 2, 4]
    start, sample, spread, make = report.plans[-1].stages
    assert (start.name, start.takes) == ("start", 3.0)
    assert sample.takes == pytest.approx(2 / 2.0)  # 2 GB of keys
    spilled = 25 - 8 * 2**30 / 1e9
    assert spread.seconds == pytest.approx({"storage": 12.5, "processors": 2.5, "spill disks": spilled / 0.5})
    assert spread.bound_by == "spill disks"
    expected = {"network": 18.75, "spill disks": spilled, "processors": 25 / 8, "storage": 6.25}
    assert make.seconds == pytest.approx(expected)
    assert make.bound_by == "network"
    assert make.gigabytes == pytest.approx({"network": 75, "spill disks": 4 * spilled, "storage": 100})
    assert report.plans[-1].seconds == pytest.approx(3 + 1 + spilled / 0.5 + 18.75)
    assert report.plans[-1].bound_by == "spread, by the spill disks"
    assert report.one_machine_spills
    assert report.one_machine.seconds == pytest.approx(100 / 0.5 + 100 / 1.0)
    assert "4 nodes are" in report.why


def test_what_fits_into_one_machine_is_sorted_there(tmp_path):
    report = plan_sort_of_nodes(1e7, "u64", 100, f"{described(tmp_path)}:8")  # 1 GB
    assert not report.one_machine_spills
    assert report.one_machine.seconds == pytest.approx(1 / 2 + 1 / 4)
    assert report.why.endswith("more nodes do not pay.")


def test_a_join_reads_both_sides_and_writes_the_result(tmp_path):
    report = plan_join_of_nodes(1e9, 1e8, 2e9, "u32", 50, f"{described(tmp_path)}:2")
    _, sample, spread, make = report.plans[-1].stages
    assert sample.gigabytes == pytest.approx({"storage": 1.1 * 4})
    assert spread.gigabytes["storage"] == pytest.approx(55)
    assert make.gigabytes["storage"] == pytest.approx(2 * (2 * 50 - 4))


def test_kinds_of_joins_write_what_they_keep(tmp_path):
    def written(how: str, matches: float) -> float:
        report = plan_join_of_nodes(1e9, 1e8, matches, "u32", 50, described(tmp_path) + ":2", how)
        return report.plans[-1].stages[-1].gigabytes["storage"]

    assert written("semi", 5e8) == pytest.approx(0.5 * 50)
    assert written("inner", 5e8) == pytest.approx(0.5 * 96)
    assert written("left", 5e8) == pytest.approx(1.0 * 96)


@pytest.mark.slow
def test_gpus_are_priced_where_there_are_some():
    report = plan_sort_of_nodes(1e11, "u64", 16, "dgx-h100:4")
    assert report.plans[-1].stages[2].seconds["GPUs"] > 0
    assert "GPUs" not in plan_sort_of_nodes(1e11, "u64", 16, "i4i-4xlarge:4").plans[-1].stages[2].seconds


def test_machines_that_come_with_rates():
    assert machines_with_rates() == ["dgx-h100", "i4i-4xlarge", "summit-node"]
    for name in machines_with_rates():
        assert ClusterRates.of(cluster_rates(name).as_dict(), name) == cluster_rates(name)
    assert linkwise.load_machine("dgx-h100").num_gpus == 8


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"network": None}, "'network' is missing"),
        ({"speed": 3}, "unknown field 'speed'"),
        ({"make": 0}, "'make' is 0"),
        ({"spread": "fast"}, "'spread' is a number"),
    ],
    ids=str,
)
def test_rates_that_are_wrong(changed, told, tmp_path):
    with pytest.raises(linkwise.UsageError, match=told):
        cluster_rates(described(tmp_path, **changed))


def test_what_is_measured_of_an_engine(tmp_path):
    engine = AnyOrder(1, 80 << 20, workers=2)
    rates = rates_of(engine, tmp_path, 2.5)
    assert all(value > 0 for value in rates.as_dict().values())
    assert rates.start_seconds > 2.5
    assert rates.memory_gib == pytest.approx(80 / 1024)
    assert list(tmp_path.iterdir()) == []


def test_on_the_command_line(tmp_path):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "linkwise", "plan", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    nodes = f"{described(tmp_path)}:4"
    told = json.loads(
        run("sort", "--rows", "1e9", "--key", "u64", "--row-bytes", "100", "--machine", nodes, "--json").stdout
    )
    assert told["nodes"][-1]["bound_by"] == "spread, by the spill disks"
    shown = run("join", "--left", "1e9", "--right", "1e8", "--row-bytes", "100", "--machine", nodes)
    assert shown.returncode == 0 and "without the engine, spilled" in shown.stdout
    for wrong, said in (
        (("sort", "--rows", "1", "--machine", "nowhere:2"), "nobody knows how fast its nodes"),
        (("sort", "--rows", "1", "--machine", "dgx-h100:2", "--gpus", "0"), "--gpus: not of a plan for many nodes"),
        (("sort", "--rows", "1", "--machine", "dgx-h100", "--row-bytes", "8"), "name these"),
        (("sort", "--rows", "1", "--machine", "dgx-h100:0"), "from 1 to 10000 nodes"),
    ):
        failed = run(*wrong)
        assert failed.returncode == 2 and said in failed.stderr and len(failed.stderr.splitlines()) == 1
