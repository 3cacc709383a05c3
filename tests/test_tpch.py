"""linkwise bench tpch: the joins of Q3 and Q5, with results that DuckDB has as well."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import cuda_runtime
from linkwise import CorruptDataError, UsageError
from linkwise.bench import tpch_files, tpch_queries
from linkwise.bench.tpch import bench_tpch


@pytest.mark.parametrize("machine", ["cpu", "auto"])
def test_queries_have_duckdbs_results(machine: str, tmp_path: Path) -> None:
    results = bench_tpch(0.01, machine=machine, data=tmp_path, repetitions=1)
    assert [(query.query, query.checked) for query in results.queries] == [("Q3", True), ("Q5", True)]
    for query, joins in zip(results.queries, (2, 5), strict=True):
        assert len(query.joins) == joins
        assert query.rows == query.joins[-1][2] > 0
        assert sum(query.shares.values()) <= query.seconds["joins"] < query.seconds["whole"]
    assert (tmp_path / "lineitem.parquet").exists()


def test_queries_from_files_have_duckdbs_results(tmp_path: Path) -> None:
    from_files = bench_tpch(0.02, machine="cpu", data=tmp_path, repetitions=1).from_files
    assert [query.query for query in from_files] == ["Q3", "Q5", "Q9", "Q18", "Q21"]
    assert all(query.rows and query.ratio and query.in_polars_ratio for query in from_files)


def test_a_wrong_result_from_files_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = tpch_files.top_k
    monkeypatch.setattr(tpch_files, "top_k", lambda table, rows, **how: right(table, rows - 1, **how))
    with pytest.raises(CorruptDataError, match="Q3 has another result by"):
        bench_tpch(0.01, machine="cpu", data=tmp_path, repetitions=1)


def test_a_wrong_result_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = tpch_queries._revenue
    monkeypatch.setattr(tpch_queries, "_revenue", lambda table, keys: right(table.slice(1), keys))
    with pytest.raises(CorruptDataError, match="another result than DuckDB"):
        bench_tpch(0.01, machine="cpu", data=tmp_path, repetitions=1)


def test_ctrl_c_while_duckdb_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise RuntimeError("Query interrupted")  # as DuckDB says it

    monkeypatch.setattr("linkwise.bench.tpch.run_from_files", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench_tpch(0.01, machine="cpu", data=tmp_path, repetitions=1)


def test_simulated_at_any_scale() -> None:
    small, large = (
        {query.query: query.seconds["joins"] for query in bench_tpch(scale, machine="dgx-h100").queries}
        for scale in (100.0, 400.0)
    )
    for name in ("Q3", "Q5"):
        assert 3 < large[name] / small[name] < 5


def test_command_line(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "linkwise", "bench", "tpch", *arguments],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    done = run("--sf", "0.01", "--machine", "cpu", "--repetitions", "1", "-o", str(tmp_path / "t.json"))
    assert done.returncode == 0, done.stderr
    assert "the same result" in done.stdout
    assert json.loads((tmp_path / "t.json").read_text())["scale"] == 0.01
    assert run("--sf", "0").returncode == 2
    with pytest.raises(UsageError, match="at least one repetition"):
        bench_tpch(0.01, repetitions=0)


@pytest.mark.gpu
def test_on_gpus(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")  # which it is checked against
    assert cuda_runtime().machine.num_gpus
    results = bench_tpch(0.1, machine="local", data=tmp_path, repetitions=1)
    assert all(query.checked for query in results.queries)


def test_simulated_on_some_gpus() -> None:
    def joins(gpus: object) -> list[float]:
        return [q.seconds["joins"] for q in bench_tpch(100, machine="dgx-h100", gpus=gpus).queries]  # type: ignore[arg-type]

    assert all(one > 1.5 * several for one, several in zip(joins([0]), joins("auto"), strict=True))
    with pytest.raises(UsageError, match="there is no GPU 99"):
        joins([0, 99])
