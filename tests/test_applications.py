"""What the applications compute and are measured by, against figures that are made another way."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import linkwise
from linkwise import UsageError, _core
from linkwise.apps import run, tuning
from linkwise.apps.generators import banded_system, mesh_graph, power_law_graph
from linkwise.apps.graph import PageRank, cuts_by_entries
from linkwise.apps.matrix_market import read_matrix
from linkwise.apps.registry import application
from linkwise.apps.run import checked, run_app, tune_app
from linkwise.apps.timing import MeasuredApp
from linkwise.bench import proactive
from linkwise.bench.proactive import bench_proactive, geometric_mean, measures
from linkwise.cli.main import commands_for
from linkwise.reproduce.registry import reproduce
from linkwise.runtime.session import estimating_runtime

VOLTA = linkwise.load_machine("volta4")
PLAN = _core.AgentPlan("polling", 4096, 512)


def virtual() -> _core.Runtime:
    return _core.VirtualRuntime(VOLTA, _core.VirtualMode.execute, 0)


def result_of(name: str, edges: str, iterations: int, folder: Path) -> Any:
    """Of an application on a graph, as all GPUs have it."""
    (folder / "edges").write_text(edges)
    app = application(name, 1, folder / "edges")
    running = app.start(virtual(), [0, 1], PLAN)
    running.run(iterations)
    running.wait()
    result = app.result(running, 0)
    np.testing.assert_array_equal(result, app.result(running, 1))
    return result


def test_ranks_go_along_the_edges(tmp_path: Path) -> None:
    """One iteration from equal ranks; what a vertex hands on is divided by the edges that go out."""
    shares = result_of("pagerank", "0 1\n0 2\n1 2\n", 1, tmp_path)
    rank_of_0, rank_of_1 = 0.15 / 3, 0.15 / 3 + 0.85 * (1 / 3) / 2
    np.testing.assert_allclose(shares, [rank_of_0 / 2, rank_of_1, 0], rtol=1e-6)


def test_paths_go_along_the_edges(tmp_path: Path) -> None:
    distances = result_of("sssp", "0 1 4\n0 2 1\n2 1 2\n1 3 5\n4 0 1\n", 4, tmp_path)
    np.testing.assert_array_equal(distances, [0, 3, 1, 8, np.inf])


def test_who_rates_nothing_keeps_a_shrinking_taste(tmp_path: Path) -> None:
    edges = "0 1 3\n2 0 2\n"
    factors = result_of("als", edges, 5, tmp_path)
    als = application("als", 1, tmp_path / "edges")
    assert np.isfinite(factors).all() and als.error(factors, 5) <= 1
    np.testing.assert_allclose(factors[1], als.factors[1] * (1 - 0.05 * 0.01) ** 5, rtol=1e-5)  # type: ignore[attr-defined]


def test_of_an_edge_that_is_there_twice_the_first_is_kept(tmp_path: Path) -> None:
    (tmp_path / "edges").write_text("0 1 5\n1 0 2\n% said again:\n0 1 7 \n2 2\n")
    assert list(read_matrix(tmp_path / "edges").value) == [5, 2, 1]
    (tmp_path / "edges").write_text("%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 2 3\n")
    assert list(read_matrix(tmp_path / "edges").value) == [3]
    (tmp_path / "edges").write_text("%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n")
    assert list(read_matrix(tmp_path / "edges").column) == [1, 0]


def test_graphs_have_the_shape_that_is_said() -> None:
    graph = power_law_graph(200_000, 5_000_000)
    degrees = np.sort(graph.entries_of_rows)
    assert degrees[-2000:].sum() > 0.15 * degrees.sum()  # a hundredth of the vertices
    assert graph.rows_of_entries()[2_000_000] != graph.rows_of_entries()[4_000_000]
    assert len(graph.column) > 4_000_000  # parts that are made at once are not alike
    cuts = cuts_by_entries(graph, 8)
    shares = np.diff(graph.first[cuts].astype(np.int64))
    assert shares.max() < 1.2 * shares.mean()
    mesh = mesh_graph(3000, 8)
    row = mesh.rows_of_entries()
    assert len(np.unique(row * 3000 + mesh.column)) == len(row)
    assert {(i, i - 1) for i in range(1, 3000)} <= set(zip(row.tolist(), mesh.column.tolist(), strict=True))
    diagonals, _ = banded_system(5000, 3)
    assert (np.abs(diagonals[3]) > np.abs(np.delete(diagonals, 3, 0)).sum(0)).all()


class TwoFaced(PageRank):
    """Its GPUs have different results."""

    def result(self, app: _core.App, gpu: int) -> Any:
        return super().result(app, gpu) + gpu


def test_results_that_differ_are_wrong() -> None:
    app = TwoFaced(1e-5)
    assert checked(virtual(), app, [0, 1], PLAN)[0] == np.inf
    assert checked(virtual(), app, [0], PLAN)[0] <= 1
    with pytest.raises(_core.CorruptDataError, match="the GPUs have different results of pagerank"):
        MeasuredApp(virtual(), app, [0, 1]).result()
    both = np.array([1.0, 2.0, np.inf])
    assert run._difference(both, both) == 0
    assert run._difference(both, np.array([1.0, 2.002, np.inf])) == pytest.approx(1, rel=0.01)
    assert run._difference(both, np.array([1.0, 2.0, 3.0])) == np.inf


def test_what_is_wrong_is_not_called_right(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, shown in ((2.0, 2.0), (float("inf"), None), (float("nan"), None)):
        monkeypatch.setattr(run, "checked", lambda *_, error=error: (error, None))
        report = run_app("pagerank", machine="volta4", agent="bulk")
        assert not report.correct and report.as_dict()["error"] == shown
    done = CliRunner().invoke(commands_for(["app"]), ["app", "pagerank", "--machine", "volta4", "--agent", "bulk"])
    assert done.exit_code == 1 and "WRONG" in done.output
    monkeypatch.setattr(proactive, "checked", lambda *_: (2.0, None))
    with pytest.raises(_core.CorruptDataError, match="sssp has a wrong result"):
        bench_proactive(machine="volta4", gpus=[0, 1], only="sssp")


def test_options_have_an_effect(tmp_path: Path) -> None:
    ten, five = (run_app("sssp", machine="volta4", agent="bulk", iterations=rounds) for rounds in (10, 5))
    assert ten.seconds == pytest.approx(2 * five.seconds) and ten.iterations == 10
    done = CliRunner().invoke(
        commands_for(["app"]),
        ["app", "jacobi", "--machine", "volta4", "--agent", "polling", "--chunk", "8KiB", "--threads", "64"],
    )
    assert "polling 8 KiB 64" in done.output
    few, many = tmp_path / "few", tmp_path / "many"
    np.savetxt(few, [[i, (i + 1) % 5000] for i in range(5000)], "%d")
    np.savetxt(many, [[i, (i + j) % 5000] for i in range(5000) for j in range(1, 60)], "%d")
    seconds = {path: run_app("pagerank", machine="volta4", agent="bulk", matrix=path).seconds for path in (few, many)}
    assert seconds[many] > 1.1 * seconds[few]
    done = CliRunner().invoke(
        commands_for(["app"]), ["app", "pagerank", "--machine", "volta4", "--matrix", str(few), "--json"]
    )
    assert '"scale": null' in done.output


def test_tuning_of_a_described_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells which plan `app` takes, tries everything if asked to, and keeps nothing for this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    report = tune_app("jacobi", machine="volta4")
    assert report["kept"] == "" and not list(tmp_path.iterdir())
    assert run_app("jacobi", machine="volta4").agent == report["tried"][0]["plan"]
    assert len(tune_app("jacobi", machine="volta4", exhaustive=True)["tried"]) == 154 > len(report["tried"])
    small, large = (tune_app("jacobi", machine="volta4", scale=scale)["tried"][0] for scale in (0.01, 0.1))
    assert large["seconds"] > 5 * small["seconds"]
    for size in (1 / 2000, 1 / 500):
        tuning.keep(application("jacobi", size), [0, 1], _core.AgentPlan("polling", int(size * 2000) << 12))
    assert str(tuning.kept_plan(application("jacobi", 1 / 2000), [0, 1])) == "polling 4 KiB 4096"


def sent(runtime: _core.Runtime, app: _core.App) -> int:
    """How many times chunks are sent in an iteration."""
    runtime.synchronize()
    runtime.clear_timeline()
    app.run(1)
    app.wait()
    return sum(entry.name == "send chunks" for entry in runtime.timeline())


def test_plans_change_between_iterations() -> None:
    runtime = virtual()
    jacobi = application("jacobi", 1e-3)
    for app in (_core.make_synthetic(runtime, [0, 1], _core.AgentPlan("bulk"), 1 << 16, 1),
                jacobi.start(runtime, [0, 1], _core.AgentPlan("bulk"))):  # fmt: skip
        assert sent(runtime, app) == 0
        app.set_plan(PLAN)
        assert sent(runtime, app) > 0
        for refused in ("unified", "bulk"):
            with pytest.raises(UsageError):
                app.set_plan(_core.AgentPlan(refused, 4096 if refused == "unified" else 1000))
            assert sent(runtime, app) > 0  # as before
        app.set_sends(_core.Sends.nothing)
        assert sent(runtime, app) == 0
        app.set_sends(_core.Sends.chunks)
        app.set_plan(_core.AgentPlan("inline"))
        assert sent(runtime, app) == 0


def test_parts_and_sources_that_are_none() -> None:
    jacobi = application("jacobi", 1e-5)
    for cuts in ([0, 0, jacobi.elements], [0, 200, 100], [0, 100, jacobi.elements + 1]):
        with pytest.raises(UsageError, match="the parts of 2 GPUs are not all of"):
            _core.make_jacobi(virtual(), [0, 1], cuts, PLAN, jacobi.elements, 16)
    graph = mesh_graph(100, 4)
    arrays = PageRank.arrays(graph)
    with pytest.raises(UsageError, match="there is no vertex 100; the graph has 100"):
        _core.make_sssp(virtual(), [0], [0, 100], PLAN, arrays, 100)


def test_measures_follow_from_the_seconds() -> None:
    for name in ("pagerank", "als"):
        row = measures(estimating_runtime(VOLTA), application(name, 1e-4), range(4))
        seconds = row.seconds
        best = min(seconds[kind] for kind in ("bulk", "inline", "decoupled"))
        assert best < seconds["inline"]  # a decoupled agent's
        assert row.speedups["proactive"] == pytest.approx(seconds["single"] / best)
        assert row.speedups["bulk"] == pytest.approx(seconds["single"] / seconds["bulk"])
        assert row.bulk_share == pytest.approx(1 - seconds["infinite"] / seconds["bulk"])
        assert row.share_of_opportunity == pytest.approx(seconds["infinite"] / best)
    assert geometric_mean([1, 4]) == pytest.approx(2)


def test_the_microbenchmark_tries_every_agent() -> None:
    micro = bench_proactive(machine="volta4", gpus=[0, 1], only="microbenchmark").microbenchmark
    assert micro.ideal == pytest.approx(micro.bulk_seconds / micro.kernel_seconds) and micro.ideal > 1.9
    for row in micro.rows:
        assert row.speedup == pytest.approx(micro.bulk_seconds / row.seconds)
    assert {row.agent for row in micro.rows} == {"inline", "polling", "dynamic", "copy_engine", "hardware"}
    by_threads = {row.threads: row.seconds for row in micro.rows if row.plan.startswith("dynamic 1 MiB")}
    assert by_threads[32] > 2 * by_threads[8192]


@pytest.mark.slow
def test_reproduced_rows_are_of_the_machine_that_is_named() -> None:
    rows = reproduce("proact21-fig8", "dgx2")
    assert {row.what.split(",")[0] for row in rows} == {"dgx2"}
    *apps, mean = (row.ours or 0 for row in rows)
    assert mean == pytest.approx(statistics.fmean(apps))
    assert all(row.paper is None and row.what.startswith("dgx2") for row in reproduce("proact21-fig6", "dgx2"))
    assert all(row.ours is None and row.paper is None for row in reproduce("proact21-table2", "dgx2"))
    papers = [row.ours for row in reproduce("proact21-table2") if row.unit == "the same agent"]
    assert set(papers) <= {0.0, 1.0} and sum(map(bool, papers)) >= 12
    winners = [row for row in reproduce("proact21-table2") if row.unit == "the same agent" and row.ours == 0]
    assert all(row.note.removeprefix("paper: ") not in row.what for row in winners)
    fig2 = [row.what for row in reproduce("proact21-fig2", "dgx2")]
    assert len(fig2) == len(set(fig2)) == 7
