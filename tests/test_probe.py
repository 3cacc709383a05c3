"""The probe: what it finds out about machines that are known, and that profiles survive their way through files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwise
from conftest import cuda_runtime
from linkwise import UsageError, _core
from linkwise.machines.description import machine_from_dict, machine_to_dict
from linkwise.probing.probe import measurements
from linkwise.reports.profile_html import html_report

HOST = _core.Place.host()
gpu = _core.Place.gpu


@pytest.mark.parametrize("name", linkwise.described_machines())
def test_the_fitted_machine_predicts_what_it_was_not_fitted_to(name: str) -> None:
    """Only transfers are seen, no topology; the bar for the real thing is 7 % in the median and 20 % at worst."""
    profile = linkwise.probe(name)
    checks = profile.errors(fitted=False)
    if profile.machine.num_gpus > 2:  # two have no sets that the fit does not need
        assert len(checks) >= 3
        assert profile.median_error() < 0.02
        assert max(checks) < 0.10
    assert sorted(profile.errors(fitted=True))[len(profile.errors(fitted=True)) // 2] < 0.02


def test_half_of_the_gpus_share_a_way_that_nothing_shows() -> None:
    profile = linkwise.probe("h200x8")
    assert any("GPUs 0, 1, 2, 3 share one way to the host" in finding for finding in profile.findings)
    memory = {c.name: c for c in profile.machine.constraints}
    read = memory["host memory, in"]
    assert read.capacity[0].gb_per_s == pytest.approx(177, rel=0.02)
    assert {tuple(t.target): t.weight for t in read.terms} == {
        (0, 1, 2, 3): pytest.approx(1.25, abs=0.02),
        (4, 5, 6, 7): 1,
    }
    shares = _core.best_host_shares(profile.machine, list(range(8)), _core.Traffic.device_to_host)
    assert shares.share == pytest.approx([0] * 4 + [0.25] * 4, abs=0.01)


def test_what_was_measured_on_eight_h200s_gives_their_groups() -> None:
    """Figures of a real machine, noise and all: one slow way for half of the GPUs, whose bytes cost the memory more."""
    low, high = {0, 1, 2, 3}, {4, 5, 6, 7}
    observed = [
        _core.HostObservation(direction, [g], rate)
        for g in range(8)
        for direction, rate in (
            (_core.HostDirection.in_, 55.4),
            (_core.HostDirection.out, 55.2),
            (_core.HostDirection.both, 97.0),
        )
    ]
    for a in range(8):
        for b in range(a + 1, 8):
            pair = {a, b}
            rates = (79 + 9 * (b - a > 1), 77 - 9 * (b - a > 1)) if pair <= low else (108, 106)
            rates = (109.5, 109.5) if pair <= high else rates
            for direction, rate in zip((_core.HostDirection.in_, _core.HostDirection.out), rates, strict=True):
                observed.append(_core.HostObservation(direction, [a, b], rate))
    sets = {(0, 1, 2, 3): (89, 72, 93), (4, 5, 6, 7): (175, 143, 178), (0, 2, 4, 6): (163, 103, 141)}
    sets |= {tuple(range(8)): (156, 92, 120), (4, 5, 6): (144, 130, 170), (5, 6, 7): (144, 130, 170)}
    for gpus, rates in sets.items():
        directions = (_core.HostDirection.in_, _core.HostDirection.out, _core.HostDirection.both)
        for direction, rate in zip(directions, rates, strict=True):
            observed.append(_core.HostObservation(direction, list(gpus), rate))
    found = _core.infer_host_paths(8, observed)
    assert found.groups == [[0, 1, 2, 3]]
    for name, dearer in (("host memory, in", 1.25), ("host memory, out", 1.9)):
        terms = next(c for c in found.constraints if c.name == name).terms
        weights = {tuple(t.target or t.source): t.weight for t in terms}
        assert weights[0, 1, 2, 3] / weights[4, 5, 6, 7] == pytest.approx(dearer, rel=0.25)


def test_pairs_behind_one_switch_are_found() -> None:
    found = linkwise.probe("dgx-a100").findings
    for pair in ("0, 1", "2, 3", "4, 5", "6, 7"):
        assert any(f"GPUs {pair} share one way" in finding for finding in found)


def test_gpus_without_a_link_between_them_are_found() -> None:
    profile = linkwise.probe("delta-d22x")
    relays = {(p.source.index, p.target.index) for p in _core.peer_relays(profile.machine, [0, 1, 2, 3])}
    assert {(0, 3), (3, 0), (1, 2), (2, 1)} <= relays


@pytest.mark.parametrize("name", ["pascal4", "volta4", "summitdev-node", "summit-node", "sli-rtx2080", "h200x8"])
def test_links_between_gpus_are_found(name: str) -> None:
    """Direct ones are not taken for a switch, nor for ways over the host where its links are as fast."""

    def links_of(machine: linkwise.Machine) -> set[tuple[str, str]]:
        ends = [(machine.nodes[link.a], machine.nodes[link.b]) for link in machine.links]
        kinds = _core.NodeKind.gpu, _core.NodeKind.nvswitch
        return {(a.name, b.name.rstrip("0123456789") if b.kind == kinds[1] else b.name)
                for a, b in ends if a.kind in kinds and b.kind in kinds}  # fmt: skip

    known, profile = linkwise.load_machine(name), linkwise.probe(name)
    assert links_of(profile.machine) == links_of(known)
    for row in profile.measurements:
        if row["name"].startswith("device to device") and row.get("gb_per_s"):
            assert row["predicted_gb_per_s"] == pytest.approx(row["gb_per_s"], rel=0.1), row


def test_machines_of_several_nodes_are_refused() -> None:
    with pytest.raises(UsageError, match="has several nodes, and a profile is of one"):
        linkwise.probe("summit-node:2")
    assert linkwise.probe("summit-node:2", tests="between processes").measurements


def test_nothing_is_compared_with_itself() -> None:
    """A described machine was not fitted to what a family simulates on it."""
    profile = linkwise.probe("delta-d22x", tests="host sets")
    assert profile.measurements and not profile.errors(fitted=False)
    page = html_report(profile, profile)
    assert "delta-d22x, simulated:" in page and "not fitted to" not in page
    assert "The other profile: delta-d22x, simulated" in page


def test_rates_are_found_as_they_are() -> None:
    for name in linkwise.described_machines():
        known, found = linkwise.load_machine(name), linkwise.probe(name).machine
        for rate in (
            "sort",
            "sort with values",
            "sort with levels",
            "merge",
            "partition",
            "histogram",
            "encode",
            "checksum",
        ):
            if rate == "sort with levels" and rate not in known.gpu.rates:
                continue  # in the model the other sort's, by its passes
            for field in ("fixed_us", "ps_per_record", "ps_per_byte"):
                expected = getattr(known.gpu.rates.get(rate, known.gpu.rates["sort"]), field)
                assert getattr(found.gpu.rates[rate], field) == pytest.approx(expected, rel=0.05, abs=0.05), rate
        merges = [rate for rate in known.host.rates if rate.startswith("multiway_merge of")] or ["multiway_merge"]
        for rate in (*merges, "cpu_sort"):
            assert found.host.rates[rate].ps_per_byte == pytest.approx(known.host.rates[rate].ps_per_byte, rel=0.02)


def test_a_sort_is_planned_alike_on_the_probed_machine() -> None:
    for name in linkwise.described_machines():
        known = linkwise.plan_sort(2 * 10**9, machine=name)
        found = linkwise.plan_sort(2 * 10**9, machine=linkwise.probe(name).machine)
        assert found.best.strategy == known.best.strategy
        assert found.best.seconds == pytest.approx(known.best.seconds, rel=0.06)


def patterns(num_gpus: int) -> list[list[_core.Transfer]]:
    size = 1 << 16
    last = num_gpus - 1
    found = [
        [_core.Transfer(HOST, gpu(0), size), _core.Transfer(gpu(0), HOST, size)],
        [_core.Transfer(HOST, gpu(0), size, True), _core.Transfer(gpu(last), HOST, size, True)],
        [_core.Transfer(gpu(0), gpu(0), size)],
    ]
    if num_gpus > 1:
        found.append([_core.Transfer(gpu(0), gpu(last), size), _core.Transfer(gpu(last), gpu(0), size)])
        found.append(
            [_core.Transfer(HOST, gpu(0), size, False, [last]), _core.Transfer(gpu(0), HOST, size, False, [last])]
        )
    return found


def test_data_is_verified() -> None:
    runtime = _core.VirtualRuntime(linkwise.load_machine("delta-d22x"))
    for pattern in patterns(4):
        measured = _core.measure_transfers(runtime, pattern)
        assert measured.verified
        assert measured.gb_per_s == pytest.approx(sum(t.bytes for t in pattern) / measured.seconds / 1e9)


@pytest.mark.gpu
def test_data_is_verified_on_gpus() -> None:
    for pattern in patterns(cuda_runtime().machine.num_gpus):
        measured = _core.measure_transfers(cuda_runtime(), pattern)
        assert measured.verified
        assert measured.repetitions >= 3


@pytest.mark.gpu
def test_this_machine_is_probed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = linkwise.local_machine()
    profile = linkwise.probe("local", tmp_path / "profile.json")
    assert all(row["verified"] for row in profile.measurements if "gb_per_s" in row)
    assert linkwise.load_machine(tmp_path / "profile.json").num_gpus == profile.machine.num_gpus
    kept = linkwise.local_machine()
    assert before is not None
    assert kept is not None
    assert "measured" in kept.source


def test_a_relay_is_measured_as_it_would_be_used() -> None:
    """Between GPUs 0 and 3 of the DELTA D22x: over the host, or over GPU 2 in chunks, which keeps NVLink's width."""
    runtime = _core.VirtualRuntime(linkwise.load_machine("delta-d22x"), _core.VirtualMode.estimate)
    size = 1 << 30
    straight = _core.measure_transfers(runtime, [_core.Transfer(gpu(0), gpu(3), size)])
    relayed = _core.measure_transfers(runtime, [_core.Transfer(gpu(0), gpu(3), size, False, [2])])
    assert straight.gb_per_s < 13
    assert relayed.gb_per_s > 44


@pytest.mark.parametrize("name", linkwise.described_machines())
def test_a_described_machine_survives_being_described(name: str) -> None:
    machine = linkwise.load_machine(name)
    again = machine_from_dict(json.loads(json.dumps(machine_to_dict(machine))))
    assert machine_to_dict(again) == machine_to_dict(machine)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "linkwise", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_command_line(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    shown = run("probe", "--machine", "h200x8", "-o", str(path))
    assert shown.returncode == 0, shown.stderr
    assert "share one way to the host" in shown.stdout
    assert "median error" in shown.stdout
    written = json.loads(path.read_text())
    assert written["linkwise_profile"] == 2
    assert written == json.loads(run("probe", "--machine", "h200x8", "--json").stdout)
    planned = json.loads(run("plan", "sort", "--rows", "2e9", "--machine", str(path), "--json").stdout)
    assert sorted(planned["gpus"]) == [4, 5, 6, 7]
    assert "smallest copy" in run("probe", "--list").stdout
    assert json.loads(run("probe", "--list", "--json").stdout) == measurements()
    assert "cpu0" in run("machine", "show", str(path)).stdout
    described = run("machine", "show", str(path), "--json").stdout
    (tmp_path / "machine.json").write_text(described)
    assert json.loads(run("machine", "show", str(tmp_path / "machine.json"), "--json").stdout) == json.loads(described)


def test_output_is_for_people_and_for_programs(tmp_path: Path) -> None:
    """Whole lines where programs read them, characters that a terminal has, and an exit code where nobody reads."""
    command = [sys.executable, "-m", "linkwise", "probe", "--machine", "h200x8"]
    plain = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=plain).stdout
    assert "share one way to the host: together they read 86 GB/s from it, each alone 55" in shown
    ascii_only = plain | {"PYTHONIOENCODING": "ascii"}
    assert b"? GPUs 0, 1, 2, 3" in subprocess.run(command, capture_output=True, check=True, env=ascii_only).stdout
    for those in (["probe", "--machine", "h200x8"], ["plan", "sort", "--rows", "1e9", "--machine", "h200x8", "--json"]):
        reader = subprocess.Popen([*command[:3], *those], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert reader.stdout is not None and reader.stderr is not None
        reader.stdout.close()
        assert (reader.wait(60), reader.stderr.read()) == (141, b"")


def damaged(written: dict[str, Any], how: str) -> str:
    if how == "older":
        written["linkwise_profile"] = 0
    elif how == "empty":
        del written["machine"]
    elif how == "misspelt":
        written["machine"]["lnks"] = []
    elif how == "unknown":
        written["more"] = 1
    elif how == "huge":
        written["measurements"][0]["gb_per_s"] = 10**400
    elif how == "nothing":
        written["measurements"][0]["gb_per_s"] = written["measurements"][0]["predicted_gb_per_s"] = 0
    elif how == "impossible":
        written["measurements"][0]["cannot"] = "no link"
    elif how == "other":
        del written["linkwise_profile"]
    return json.dumps(written)[: -1 if how == "truncated" else None]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("older", "version 0"),
        ("empty", "'machine' is missing"),
        ("misspelt", "'lnks'"),
        ("truncated", "not JSON"),
        ("unknown", "unknown field 'more'"),
        ("huge", "'gb_per_s' is inf"),
        ("nothing", "was not measured"),
        ("impossible", "it cannot be measured, and has 'fitted'"),
        ("other", "is no profile"),
    ],
)
def test_a_damaged_profile_says_what_is_wrong(tmp_path: Path, how: str, says: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(damaged(linkwise.probe("delta-d22x").as_dict(), how))
    with pytest.raises(UsageError, match=says):
        linkwise.load_profile(path)


def test_what_cannot_be_probed_says_so(tmp_path: Path) -> None:
    assert "no machine 'elsewhere'" in run("probe", "--machine", "elsewhere").stderr
    done = run("probe", "--machine", "delta-d22x", "-o", str(tmp_path / "missing" / "profile.json"))
    assert done.returncode == 0  # a folder that is missing is made
    (tmp_path / "file").write_text("")
    done = run("probe", "--machine", "delta-d22x", "-o", str(tmp_path / "file" / "profile.json"))
    assert done.returncode == 1
    assert done.stderr.startswith("linkwise: cannot write")
    (tmp_path / "old.json").write_text("{}")
    (tmp_path / "old.json").chmod(0o444)
    for options, says in (
        (["-o", str(tmp_path / "old.json")], "old.json is read-only; make it writable, or remove it"),
        (["-o", "profile.txt"], "'profile.txt' would not be found again"),
        (["--report", str(tmp_path)], "is a directory; name a file in it"),
        (["-o", "p.json", "--report", "p.json"], "cannot be both the profile and the report"),
        (["-S", "1GiB"], "are of a cluster; name it with --cluster"),
    ):
        done = run("probe", "--machine", "h200x8", *options)
        assert (done.returncode, done.stdout) == (2, "") and says in done.stderr
    done = run("probe", "--cluster", "local:2", "--full", "--report", "x.html")
    assert done.returncode == 2 and "--full, --report: not with --cluster" in done.stderr
    with pytest.raises(UsageError, match="without having measured GPUs 1"):
        _core.infer_host_paths(
            2, [_core.HostObservation(direction, [0], 10.0) for direction in
                (_core.HostDirection.in_, _core.HostDirection.out, _core.HostDirection.both)]
        )  # fmt: skip


def test_copies_of_every_size_are_verified() -> None:
    """Those of less than a page by other numbers than larger ones."""
    runtime = _core.VirtualRuntime(linkwise.load_machine("delta-d22x"))
    for size in (4, 16, 4092, 4096, 4100, 1 << 16):
        for source, target in ((HOST, gpu(1)), (gpu(1), HOST), (gpu(0), gpu(3)), (gpu(2), gpu(2))):
            measured = _core.measure_transfers(runtime, [_core.Transfer(source, target, size)])
            assert measured.verified
            assert measured.gb_per_s > 0


def test_copies_go_through_the_memory_that_is_given() -> None:
    """All at once in windows of their own: the virtual machine would find a race between any two that overlap."""
    size = 16 << 20
    runtime = _core.VirtualRuntime(linkwise.load_machine("delta-d22x"))
    source, target = np.zeros(8 * size // 8, np.uint64), np.zeros(8 * size // 8, np.uint64)
    pattern = [t for g in range(4) for t in (_core.Transfer(HOST, gpu(g), size), _core.Transfer(gpu(g), HOST, size))]
    assert _core.measure_transfers_in(runtime, pattern, source, target).verified
    assert (np.diff(source) == 1).all()  # what was sent: consecutive numbers
    written = [bool(window.any()) for window in np.split(target, 8)]
    assert sum(written) == 4  # one window for each GPU
    too_many = [_core.Transfer(gpu(g % 4), HOST, size) for g in range(9)]
    before = target.copy()
    assert _core.measure_transfers_in(runtime, too_many, source, target).verified
    assert (target == before).all()  # more than there are windows: each has memory of its own
