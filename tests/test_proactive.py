"""Proactive regions: mappings, agents, what goes wrong, and the applications, on the virtual machine and on GPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import linkwise
from conftest import ROOT, SEEDS, cuda_runtime
from linkwise import UsageError, _core
from linkwise.apps import tuning
from linkwise.apps.generators import phantom, power_law_graph, sinogram_of_phantom
from linkwise.apps.graph import cuts_by_entries
from linkwise.apps.jacobi import Jacobi
from linkwise.apps.registry import APPLICATIONS, application
from linkwise.apps.run import checked, run_app
from linkwise.apps.sparse_matrix import matrix_of
from linkwise.apps.timing import SimulatedApp, simulated_seconds
from linkwise.apps.tuning import AGENTS as REAL
from linkwise.bench.proactive import Micro, bench_proactive, measures, store_goodput
from linkwise.cli.bench import print_proactive
from linkwise.runtime.session import estimating_runtime

AGENTS = ["bulk", "inline", "polling", "dynamic", "copy_engine", "hardware", "infinite"]
ON_GPUS = [*REAL, "memcpy", "unified"]


def virtual(machine: str = "volta4", seed: int = 0) -> _core.Runtime:
    return _core.VirtualRuntime(linkwise.load_machine(machine), _core.VirtualMode.execute, seed)


def holds(app: _core.App, gpus: list[int], size: int, iteration: int, steps: int) -> bool:
    found = np.empty(size // 4, np.uint32)
    wanted = [_core.synthetic_word(i, iteration, steps) for i in range(0, len(found), 61)]
    for gpu in gpus:
        app.fetch(gpu, found)
        if not np.array_equal(found[::61], wanted):
            return False
    return True


@pytest.mark.parametrize("agent", AGENTS)
def test_every_peer_gets_every_byte_in_any_order(agent: str) -> None:
    for seed in SEEDS:
        runtime = virtual(seed=seed)
        app = _core.make_synthetic(runtime, [2, 0, 3], _core.AgentPlan(agent, 8192, 512), 1 << 16, 2)
        app.run(3)
        app.wait()
        assert holds(app, [0, 2, 3], 1 << 16, 3, 2)


def test_copies_in_no_order_are_for_real_gpus() -> None:
    app = _core.make_synthetic(virtual(), [0, 1], _core.AgentPlan("bulk"), 1 << 16, 1)
    with pytest.raises(_core.UsageError, match="in no order are a race"):
        app.set_sends(_core.Sends.unordered)
    app.set_sends(_core.Sends.nothing)
    app.run(1)
    app.wait()
    assert holds(app, [0], 1 << 16, 1, 1)
    assert not holds(app, [1], 1 << 16, 1, 1)


@pytest.mark.gpu
def test_copies_in_no_order_are_the_same_copies() -> None:
    """They begin with the kernel, so that peers may have what it made before; and then again what it makes."""
    runtime = cuda_runtime()
    gpus = list(range(runtime.machine.num_gpus))
    app = _core.make_synthetic(runtime, gpus, _core.AgentPlan("bulk"), 8 << 20, 5)
    app.run(1)
    app.set_sends(_core.Sends.unordered)
    app.run(2)
    app.wait()
    assert holds(app, gpus[:1], 8 << 20, 3, 5)
    app.set_sends(_core.Sends.chunks)
    app.run(1)
    app.wait()
    assert holds(app, gpus, 8 << 20, 4, 5)


@pytest.mark.gpu
@pytest.mark.parametrize("agent", ON_GPUS)
@pytest.mark.parametrize("chunk", [4096, 64 << 10, 1 << 20])
def test_every_peer_gets_every_byte_on_gpus(agent: str, chunk: int) -> None:
    runtime = cuda_runtime()
    gpus = list(range(runtime.machine.num_gpus))
    app = _core.make_synthetic(runtime, gpus, _core.AgentPlan(agent, chunk, 4096), 8 << 20, 5)
    app.run(5)
    app.wait()
    assert holds(app, gpus, 8 << 20, 5, 5)


# So that every one of three GPUs makes several chunks of 4 KiB.
SCALES = {"jacobi": 1 / 2000, "pagerank": 1 / 100, "sssp": 1 / 100, "als": 1 / 800, "xray_ct": 1 / 400}


@pytest.mark.parametrize("name", APPLICATIONS)
@pytest.mark.parametrize("agent", [*AGENTS, "memcpy"])
def test_applications_are_right(name: str, agent: str) -> None:
    app = application(name, SCALES[name])
    seed = 1 + AGENTS.index(agent) if agent in AGENTS else 0
    for gpus in ([1], [3, 1, 0]):
        error, _ = checked(virtual(seed=seed), app, gpus, _core.AgentPlan(agent, 4096))
        assert error <= 1


@pytest.mark.parametrize("name", APPLICATIONS)
def test_every_gpu_makes_several_chunks(name: str) -> None:
    runtime = virtual()
    running = application(name, SCALES[name]).start(runtime, [0, 1, 2], _core.AgentPlan("copy_engine", 4096))
    runtime.clear_timeline()
    running.run(1)
    for gpu in range(3):
        here = _core.Place.gpu(gpu)
        sent = [e for e in runtime.timeline() if e.name == "send chunks" and e.passages[0].source == here]
        assert sum(e.bytes for e in sent) >= 2 * 4 * 4096  # to two peers


@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_wrong_result_is_told(name: str) -> None:
    app = application(name, 1 / 20_000)
    _, result = checked(virtual(), app, [0, 1], _core.AgentPlan("bulk"))
    assert app.error(result, 2) > 1, "another iteration's"
    finite = np.flatnonzero(np.isfinite(result.ravel()))
    result.ravel()[finite[-1]] += 0.01 * np.abs(result.ravel()[finite]).max()
    assert app.error(result, 3) > 1


@pytest.mark.gpu
@pytest.mark.parametrize("name", APPLICATIONS)
@pytest.mark.parametrize("agent", ON_GPUS)
def test_applications_are_right_on_gpus(name: str, agent: str) -> None:
    runtime = cuda_runtime()
    error, _ = checked(
        runtime, application(name, 1 / 2000), list(range(runtime.machine.num_gpus)), _core.AgentPlan(agent, 8192)
    )
    assert error <= 1


@given(
    region=st.integers(1, 200_000), blocks=st.integers(1, 40), chunk_pages=st.integers(1, 9), grow=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(deadline=None)
def test_chunks_of_mappings(region: int, blocks: int, chunk_pages: int, grow: bool, seed: int) -> None:
    """Against ranges by hand: chunks cover everything once, and name exactly the blocks that write into their pages."""
    random = np.random.default_rng(seed)
    first, last = sorted(random.integers(0, region + 1, 2).tolist())
    if first == last:
        first, last = 0, region
    ranges = [sorted(random.integers(first, last + 1, 2).tolist()) for _ in range(blocks)]
    bounds, chunks = _core.chunks_of_ranges(region, (first, last), ranges, 4096 * chunk_pages, grow)
    assert bounds[0] == first
    assert bounds[-1] == last
    assert all(a < b for a, b in zip(bounds, bounds[1:], strict=False))
    assert all(bound % 4096 == 0 for bound in bounds[1:-1])
    sizes = [(b + 4095) // 4096 - a // 4096 for a, b in zip(bounds, bounds[1:], strict=False)]
    full = [chunk_pages * (1 + grow * c) for c in range(len(sizes))]
    assert sizes[:-1] == full[:-1]
    assert sizes[-1] <= full[-1]
    for (begin, end), of_block in zip(ranges, chunks, strict=True):
        pages = set(range(begin // 4096, (end - 1) // 4096 + 1)) if begin < end else set()
        wanted = [
            c for c in range(len(bounds) - 1) if pages & set(range(bounds[c] // 4096, (bounds[c + 1] - 1) // 4096 + 1))
        ]
        assert of_block == wanted


@pytest.mark.parametrize("agent", AGENTS)
def test_only_what_is_needed_crosses_the_links(agent: str) -> None:
    """Jacobi's neighbours need a band; the bytes that cross are seen on the timeline, and the result stays right."""
    jacobi = Jacobi(1 / 1000)
    diagonals, right_side = jacobi.system
    crossed = {}
    for replicate in (True, False):
        runtime = virtual()
        cuts = [0, 9216, 20_480, jacobi.rows]  # where pages end: neighbours are needed for their own sake
        app = _core.make_jacobi(
            runtime, [0, 1, 2], cuts, _core.AgentPlan(agent, 4096), jacobi.rows, jacobi.band, diagonals.ravel(),
            right_side, replicate,
        )  # fmt: skip
        runtime.clear_timeline()
        app.run(4)
        entries = runtime.timeline()
        crossed[replicate] = sum(p.bytes for e in entries for p in e.passages if p.source != p.target)
        x = np.empty(jacobi.rows)
        for gpu, (first, last) in enumerate(zip(cuts, cuts[1:], strict=False)):
            app.fetch(gpu, x)
            # Its own rows are right, which takes the neighbours' of the iteration before.
            assert _rows_are_right(jacobi, x, first, last)
    assert crossed[False] < crossed[True] / 10


def _rows_are_right(jacobi: Jacobi, x: Any, first: int, last: int) -> bool:
    diagonals, right_side = jacobi.system
    wanted = np.zeros(jacobi.rows)
    for _ in range(4):
        total = right_side.copy()
        for d in range(2 * jacobi.band + 1):
            shift = d - jacobi.band
            if shift:
                shifted = np.zeros_like(wanted)
                if shift > 0:
                    shifted[:-shift] = wanted[shift:]
                else:
                    shifted[-shift:] = wanted[:shift]
                total -= diagonals[d] * shifted
        wanted = total / diagonals[jacobi.band]
    return bool(np.allclose(x[first:last], wanted[first:last], rtol=1e-10))


def test_plans_that_cannot_be() -> None:
    for wrong, told in (
        (("polling", 1000), "whole pages of 4096 bytes, not 1000"), (("polling", 4096, 8), "not 8"),
        (("x",), "no agent 'x'"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=told):
            _core.make_synthetic(virtual(), [0, 1], _core.AgentPlan(*wrong), 1 << 16, 1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no GPU 9"):
        _core.make_synthetic(virtual(), [0, 9], _core.AgentPlan(), 1 << 16, 1)
    with pytest.raises(UsageError, match="GPU 1 is named twice"):
        _core.make_synthetic(virtual(), [1, 1], _core.AgentPlan(), 1 << 16, 1)
    with pytest.raises(UsageError, match="whole pages"):
        _core.make_synthetic(virtual(), [1], _core.AgentPlan(), 1000, 1)


def test_the_reconstruction_is_a_picture_of_the_phantom() -> None:
    app: Any = application("xray_ct", 1 / 2000)
    running = app.start(virtual(), [0, 1, 2, 3], _core.AgentPlan("copy_engine", 4096))
    distances = []
    for _ in range(3):
        running.run(40)
        distances.append(app.distance_to_phantom(app.result(running, 2)))
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.35


def test_the_sinogram_is_that_of_the_phantom() -> None:
    """Sums along the rows and columns of a fine raster, against the exact integrals of two views."""
    size = 512
    sinogram = sinogram_of_phantom(size, 2, size)
    image = phantom(size)
    assert np.abs(sinogram[0] - image.sum(0)).mean() < 0.01 * image.sum(0).max()
    assert np.abs(sinogram[1] - image.sum(1)).mean() < 0.01 * image.sum(1).max()


def test_a_star_is_divided_all_the_same() -> None:
    star = matrix_of(np.arange(1, 50), np.zeros(49, np.int64), np.ones(49), 50, 50).transposed()
    for parts in (1, 2, 7, 50):
        cuts = cuts_by_entries(star, parts)
        assert cuts[0] == 0
        assert cuts[-1] == 50
        assert all(a < b for a, b in zip(cuts, cuts[1:], strict=False))


def test_an_app_may_go_while_it_runs() -> None:
    for seed in range(20):
        runtime = virtual(seed=seed)
        app = _core.make_synthetic(runtime, [0, 1, 2], _core.AgentPlan("polling", 4096), 1 << 16, 1)
        app.run(2)
        del app
        runtime.synchronize()


def test_power_law() -> None:
    graph = power_law_graph(4096, 60_000)
    degrees = np.sort(graph.entries_of_rows)[::-1]
    assert degrees[:40].sum() > 0.1 * degrees.sum()
    assert (graph.transposed().transposed().column == graph.column).all()


def test_simulated_agents_are_between_bulk_and_what_there_is_to_gain() -> None:
    machine = linkwise.load_machine("volta4")
    for name in APPLICATIONS:
        app = application(name, 1 / 20_000)
        times = {
            agent: simulated_seconds(machine, app, range(4), _core.AgentPlan(agent, 64 << 10, 2048)) for agent in AGENTS
        }
        assert times["infinite"] <= times["hardware"] * 1.000001 <= min(times.values()) * 1.1
        assert times["infinite"] <= min(times.values()) * 1.000001
        assert times["hardware"] <= times["polling"]


@pytest.mark.slow
def test_the_tuner_loses_nothing_that_matters() -> None:
    for name in ("kepler4", "pascal4", "volta4", "h200x8"):
        machine = linkwise.load_machine(name)
        for app in (application(each, 1 / 20_000) for each in APPLICATIONS):
            pruned, full = (
                SimulatedApp(machine, app, range(4)).tuned(exhaustive=exhaustive) for exhaustive in (False, True)
            )
            assert len(pruned.tried) < len(full.tried)
            assert pruned.tried[0][1] <= 1.02 * full.tried[0][1]
            assert {plan.agent.name for plan, _ in full.tried} == set(REAL)


RESULTS = ROOT / "benchmarks" / "results"
SWEEPS = sorted(RESULTS.glob("*-tune-*.json"))


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda path: path.stem)
def test_the_tuner_finds_what_full_sweeps_found(sweep: Path) -> None:
    """On GPUs, where times scatter: asked for what was measured, it is within 2 % of the best of all."""
    tried = json.loads(sweep.read_text())["tried"]
    seconds = {(row["agent"], row["chunk_bytes"], row["threads"]): row["seconds"] for row in tried}
    found = tuning.tune(lambda plan: seconds[plan.agent.name, plan.chunk_bytes, plan.threads], REAL)
    assert found.tried[0][1] <= 1.02 * tried[0]["seconds"]
    assert len(found.tried) < len(tried) / 2


def test_there_are_sweeps_of_all_applications() -> None:
    assert {sweep.stem.split("tune-")[1] for sweep in SWEEPS} == set(APPLICATIONS)


def test_the_model_says_what_was_measured() -> None:
    """Of the microbenchmark on two H200s, but for agents too small for the link."""
    [measured] = RESULTS.glob("*-h200x2-a25f816-proactive-microbenchmark.json")
    rows = json.loads(measured.read_text())["microbenchmark"]["rows"]
    micro = Micro.tuned(None, linkwise.load_machine("h200x8"), [0, 1])
    bulk, held = micro.run(_core.AgentPlan("bulk")), set()
    for row in rows:
        agent, chunk, threads = row["agent"], row["chunk_bytes"], row["threads"]
        if agent in ("inline", "copy_engine") or (agent == "polling" and threads >= 4096 and chunk >= 16 << 10):
            held.add(agent)
            said = bulk / micro.run(_core.AgentPlan(agent, chunk, threads))
            assert said == pytest.approx(row["speedup"], rel=0.04), row["plan"]
    assert held == {"inline", "copy_engine", "polling"}


@pytest.mark.gpu
def test_larger_stores_use_more_of_a_link() -> None:
    goodput = store_goodput(cuda_runtime(at_least=2), 400)
    assert list(goodput) == [4, 8, 16, 32, 64, 128, 256]
    assert 0 < goodput[4] < goodput[32] < goodput[256] <= 1


def test_the_microbenchmark_is_balanced() -> None:
    micro = Micro.tuned(None, linkwise.load_machine("volta4"), [0, 1])
    bulk, kernel = micro.run(_core.AgentPlan("bulk")), micro.run(_core.AgentPlan("bulk"), sends=_core.Sends.nothing)
    assert bulk / kernel == pytest.approx(2, rel=0.01)


def test_measures_of_an_application() -> None:
    row = measures(estimating_runtime(linkwise.load_machine("volta4")), application("jacobi", 1e-4), range(4))
    assert row.speedups["bulk"] < row.speedups["proactive"] <= row.speedups["infinite"] * 1.000001
    assert 0 <= row.tracking < 0.2
    assert 0.5 < row.overlap <= 1


def test_times_are_of_the_data_where_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("0 1\n1 2\n2 0\n1 3\n")
    paper = run_app("pagerank", machine="volta4", agent="bulk")
    little = run_app("pagerank", machine="volta4", agent="bulk", matrix=tmp_path / "edges.txt", gpus=[0, 1])
    some, more = (run_app("jacobi", machine="volta4", agent="bulk", scale=scale) for scale in (1e-3, 1e-2))
    assert (paper.timed, little.timed, some.timed) == ("paper", "data", "data")
    assert little.single_gpu_seconds < paper.single_gpu_seconds / 100
    assert more.single_gpu_seconds > 5 * some.single_gpu_seconds


def test_plans_are_kept_by_kernel_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    small, large = application("jacobi", 1e-5), application("jacobi", 1e-3)
    assert str(tuning.kept_plan(small, [0, 1])) == "polling 64 KiB 4096"
    tuning.keep(small, [0, 1], _core.AgentPlan("dynamic", 8192, 64))
    tuning.keep(small, [0, 1, 2], _core.AgentPlan("copy_engine", 1 << 20))
    assert str(tuning.kept_plan(small, [0, 1])) == "dynamic 8 KiB 64"
    assert str(tuning.kept_plan(small, [0, 1, 2])) == "copy_engine 1 MiB"
    assert str(tuning.kept_plan(large, [0, 1])) == str(tuning.DEFAULT_PLAN)
    tuning.keep(small, [0, 1], _core.AgentPlan("inline"))
    assert str(tuning.kept_plan(small, [0, 1])) == "inline"
    assert str(tuning.kept_plan(small, [0, 1, 2])) == "copy_engine 1 MiB"


@pytest.mark.parametrize(
    "line", ["", "{", "polling 131072 8192", "polling many 8192 k", "magic 4096 32 k", "bulk 5 32 k"]
)
def test_what_is_no_plan_is_not_kept(line: str, tmp_path: Path) -> None:
    plans = _core.TunedPlans(tmp_path / "plans")
    assert plans.find("k") is None
    (tmp_path / "plans").write_text(f"{line}\npolling 4096 64 another kernel\n")
    assert plans.find("k") is None
    plans.keep("k", _core.AgentPlan("dynamic", 8192, 64))
    assert (str(plans.find("k")), str(plans.find("another kernel"))) == ("dynamic 8 KiB 64", "polling 4 KiB 64")


def test_plans_that_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(_core.UsageError, match="cannot keep a plan in .*file/plans; name a file that can be written"):
        _core.TunedPlans(tmp_path / "file" / "plans").keep("k", _core.AgentPlan())
    for name in ("", "two\nlines"):
        with pytest.raises(_core.UsageError, match="with a name of one line"):
            _core.TunedPlans(tmp_path / "plans").keep(name, _core.AgentPlan())
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_plan_is_tuned_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """And where it cannot be kept, it is used all the same, and its owner told."""
    tried = []

    def seconds(plan: _core.AgentPlan) -> float:
        tried.append(str(plan))
        return 1.0 if str(plan) == "copy_engine 1 MiB" else 2.0

    plans = _core.TunedPlans(tmp_path / "plans")
    assert str(_core.tuned_plan("k", seconds, plans)) == "copy_engine 1 MiB"
    once = len(tried)
    assert str(_core.tuned_plan("k", seconds, plans)) == "copy_engine 1 MiB"
    assert len(tried) == once > 1
    with pytest.raises(_core.UsageError, match="with a name of one line"):
        _core.tuned_plan("two\nlines", seconds, plans)
    assert len(tried) == once and not capfd.readouterr().err
    nowhere = _core.TunedPlans(tmp_path / "plans" / "below a file")
    assert str(_core.tuned_plan("k", seconds, nowhere)) == "copy_engine 1 MiB"
    assert len(tried) == 2 * once
    assert capfd.readouterr().err.startswith("linkwise: cannot keep a plan in ")


@pytest.mark.gpu
def test_an_app_on_gpus_is_held_to_one_of_them() -> None:
    report = run_app("sssp", scale=1 / 500, iterations=4, agent="copy_engine")
    assert report.correct and report.timed == "data"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "linkwise", *arguments], capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.slow
def test_on_the_command_line(tmp_path: Path) -> None:
    done = run("app", "jacobi", "--machine", "volta4", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["correct"]
    assert report["simulated"]
    assert 1 < report["speedup"] <= 4.01
    picture = tmp_path / "head.png"
    done = run(
        "app", "xray_ct", "--machine", "pascal4", "--scale", "0.0003", "--iterations", "5", "--picture", str(picture)
    )
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes()[1:4] == b"PNG"
    assert "right" in done.stdout
    done = run("tune", "sssp", "--machine", "volta4", "--gpus", "0,1", "--json")
    assert done.returncode == 0, done.stderr
    tried = json.loads(done.stdout)["tried"]
    assert [row["seconds"] for row in tried] == sorted(row["seconds"] for row in tried)
    for wrong in (
        ["app", "x"], ["app", "jacobi", "--agent", "x"], ["app", "jacobi", "--chunk", "4KiB"],
        ["app", "jacobi", "--scale", "0", "--machine", "volta4"], ["app", "sssp", "--picture", "x.png"],
        ["app", "jacobi", "--iterations", "0"], ["app", "jacobi", "--machine", "volta4", "--gpus", "7"],
        ["app", "jacobi", "--agent", "polling", "--chunk", "5000"],
        ["app", "jacobi", "--agent", "polling", "--chunk", "1TiB"],
        ["app", "jacobi", "--agent", "bulk", "--chunk", "4KiB"],
        ["app", "jacobi", "--agent", "polling", "--chunk", "50%"],
        ["app", "jacobi", "--agent", "polling", "--threads", "99999999999"],
        ["app", "jacobi", "--agent", "inline", "--threads", "64"],
        ["app", "sssp", "--scale", "0.1", "--matrix", "m"],
        ["app", "jacobi", "--iterations", "3000000000"],
        ["bench", "proactive", "--gpus", "0"],
        ["bench", "proactive", "--only", "x"], ["bench", "proactive", "--only", "microbenchmark", "--scaling"],
        ["bench", "proactive", "--only", "microbenchmark", "--scale", "nan"],
        ["app", "xray_ct", "--picture", "/nowhere/x.png"],
    ):  # fmt: skip
        failed = run(*wrong, *([] if "--machine" in wrong else ["--machine", "h200x8"]))
        assert failed.returncode == 2, wrong
        assert len([line for line in failed.stderr.strip().splitlines() if "warning" not in line.lower()]) == 1, wrong


def test_unified_memory_is_for_real_gpus_and_regions_made_for_it() -> None:
    with pytest.raises(linkwise.UsageError, match="real GPUs only"):
        _core.make_synthetic(virtual(), [0, 1], _core.AgentPlan("unified"), 8192, 1)
    app = _core.make_synthetic(virtual(), [0, 1], _core.AgentPlan("bulk"), 8192, 1)
    with pytest.raises(linkwise.UsageError, match="real GPUs only"):
        app.set_plan(_core.AgentPlan("unified"))


@pytest.mark.gpu
def test_a_region_keeps_its_kind_of_memory() -> None:
    runtime = cuda_runtime()
    app = _core.make_synthetic(runtime, [0], _core.AgentPlan("bulk"), 8192, 1)
    with pytest.raises(linkwise.UsageError, match="made for it"):
        app.set_plan(_core.AgentPlan("unified"))


def test_bench() -> None:
    results = bench_proactive(machine="volta4", gpus=[0, 1, 2], only="sssp", scaling=True)
    assert results.simulated
    assert [(row.app, row.gpus) for row in results.apps] == [("sssp", 2), ("sssp", 3)]
    assert results.means["2"]["proactive"] < results.means["3"]["proactive"]
    assert results.microbenchmark is None
    console = Console(record=True, width=150)
    print_proactive(console, results)
    shown = console.export_text()
    assert "applications, × one GPU" in shown and "geometric means on 3 GPUs" in shown
    assert "256 MiB" not in shown  # nothing of what was not run
