"""The command line, run as people run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import linkwise


def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "linkwise", *map(str, arguments)], capture_output=True, text=True, cwd=cwd, check=False
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    contents = pa.table(
        {
            "id": random.integers(0, 1000, 5000, dtype=np.uint32),
            "ts": random.integers(-9, 9, 5000),
            "a:b": random.random(5000),
        }
    )
    pq.write_table(contents, tmp_path / "in.parquet")
    return tmp_path / "in.parquet"


@pytest.mark.parametrize(
    ("by", "column", "sign"),
    [("id", "id", 1), ("ts:desc", "ts", -1), ("ts:asc", "ts", 1), ("a:b", "a:b", 1), ("a:b:desc", "a:b", -1)],
)
def test_sort_parquet(table: Path, tmp_path: Path, by: str, column: str, sign: int) -> None:
    out = tmp_path / "out.parquet"
    done = run("sort", table, "-o", out, "--by", by)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "no progress bar in a pipe"
    before, after = pq.read_table(table), pq.read_table(out)
    order = np.argsort(sign * before[column].to_numpy().astype(float), kind="stable")
    assert after.equals(before.take(order))
    assert "5,000 rows sorted in " in done.stdout and ": read " in done.stdout and ", write " in done.stdout
    if linkwise.local_machine() is None:
        assert f" on {len(os.sched_getaffinity(0))} core" in done.stdout and "simulated" not in done.stdout


def test_sort_npy(tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(size=1000)
    np.save(tmp_path / "in.npy", data)
    assert run("sort", "in.npy", "-o", "out.npy", cwd=tmp_path).returncode == 0
    assert (np.load(tmp_path / "out.npy") == np.sort(data)).all()
    assert run("sort", "in.npy", "-o", "out.npy", "--by", ":desc", cwd=tmp_path).returncode == 0
    assert (np.load(tmp_path / "out.npy") == np.sort(data)[::-1]).all()


def test_nobody_listens_to_errors(table: Path, tmp_path: Path) -> None:
    """With standard error closed, Python has none."""
    out = tmp_path / "out.parquet"
    command = [sys.executable, "-m", "linkwise", "sort", table, "-o", out, "--by", "id"]
    done = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "5,000 rows sorted" in done.stdout
    assert pq.read_metadata(out).num_rows == 5000


def test_json_is_one_object(table: Path, tmp_path: Path) -> None:
    done = run(
        "sort",
        table,
        "-o",
        tmp_path / "o.parquet",
        "--by",
        "id",
        "--json",
        "--machine",
        "dgx-a100",
        "--gpus",
        "0,2",
        "--strategy",
        "p2p_merge",
    )
    report = json.loads(done.stdout)
    assert report["rows"] == 5000 and report["bytes"] == 5000 * 20
    assert report["machine"] == "dgx-a100" and report["simulated"] is True and report["verified"] is True
    assert report["gpus"] == [0, 2] and report["strategy"] == "p2p_merge"
    seconds = report["seconds"]
    assert seconds["end_to_end"] == pytest.approx(sum(seconds["phases"].values()))
    assert {"HtoD", "sort", "merge", "DtoH"} <= set(seconds["phases"])
    assert set(seconds["steps"]) == {"read", "keys", "sort", "verify", "rows", "write"}
    assert min(seconds["steps"].values()) > 0 and sum(seconds["steps"].values()) < seconds["wall"]


def test_trace_has_every_stream_and_link(table: Path, tmp_path: Path) -> None:
    run(
        "sort",
        table,
        "-o",
        tmp_path / "o.parquet",
        "--by",
        "id",
        "--machine",
        "dgx-a100",
        "--gpus",
        "0,2",
        "--strategy",
        "radix",
        "--trace",
        tmp_path / "t.json",
    )
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"gpu0/compute", "gpu2/compute", "mem0 → cpu0", "cpu0 → switch0", "switch1 → gpu2"} <= tracks
    assert {"gpu2 → nvswitch", "nvswitch → gpu0"} <= tracks, "stores of the partition kernel cross links too"
    slices = [event for event in events if event["ph"] == "X"]
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in slices)
    for pid, tid in {(event["pid"], event["tid"]) for event in slices if event["pid"] == 1}:
        times = sorted((e["ts"], e["ts"] + e["dur"]) for e in slices if (e["pid"], e["tid"]) == (pid, tid))
        assert all(a[1] <= b[0] + 1e-6 for a, b in zip(times, times[1:], strict=False)), "a stream is in order"


def test_memory_limit(table: Path, tmp_path: Path) -> None:
    done = run(
        "sort",
        table,
        "-o",
        tmp_path / "o.parquet",
        "--by",
        "id",
        "--memory-limit",
        "3MiB",
        "--machine",
        "h200x8",
        "--gpus",
        "4",
        "--json",
    )
    assert done.returncode == 0, done.stderr


def test_machines() -> None:
    listed = run("machine", "list")
    assert all(name in listed.stdout for name in linkwise.described_machines())
    shown = run("machine", "show", "dgx-a100")
    assert "NVIDIA A100" in shown.stdout and "nvlink3x12" in shown.stdout and "sort22" in shown.stdout
    assert linkwise.__version__ in run("--version").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["sort", "none.parquet", "-o", "o.parquet", "--by", "id"], 1, "cannot read none.parquet: No such file"),
        (["sort", "in.txt", "-o", "o.parquet"], 2, "cannot tell the format"),
        (["sort", "in.parquet", "-o", "o.txt", "--by", "id"], 2, "cannot tell the format"),
        (["sort", "in.parquet", "-o", "o.npy", "--by", "id"], 2, "parquet cannot become npy"),
        (["sort", "in.parquet", "-o", "o.parquet"], 2, "--by must name a column: id, ts"),
        (["sort", "in.parquet", "-o", "o.parquet", "--by", "x"], 2, "no column 'x'"),
        (
            ["sort", "in.parquet", "-o", "o.parquet", "--by", "id:up"],
            2,
            "no column 'id:up' among 'id', 'ts', 'a:b'; --by is a column or its number",
        ),
        (["sort", "in.parquet", "-o", "none/o.parquet", "--by", "id"], 1, "cannot write none/o.parquet"),
        (["sort", "in.parquet", "-o", "o.parquet", "--by", "id", "--gpus", "zero"], 2, "--gpus is 'auto' or numbers"),
        (
            ["sort", "in.parquet", "-o", "o.parquet", "--by", "id", "--gpus", "0,64", "--machine", "h200x8"],
            2,
            "no GPU 64",
        ),
        (["sort", "in.parquet", "-o", "o.parquet", "--by", "id", "--memory-limit", "x"], 2, "'x' is not a size"),
        (["sort", "broken.parquet", "-o", "o.parquet", "--by", "id"], 1, "cannot read broken.parquet"),
        (["sort", "broken.npy", "-o", "o.npy"], 1, "cannot read broken.npy"),
        (["sort", "pickle.npy", "-o", "o.npy"], 1, "cannot read pickle.npy"),
        (["machine", "show", "enterprise"], 2, "no machine 'enterprise'"),
    ],
)
def test_failures_are_one_clear_line(
    table: Path, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    (tmp_path / "in.txt").write_text("x")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 this is not a file")
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY")
    np.save(tmp_path / "pickle.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "o.parquet").write_text("precious")
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == code
    assert done.stderr.startswith("linkwise: ") and done.stderr.count("\n") == 1, done.stderr
    assert message in done.stderr
    assert (tmp_path / "o.parquet").read_text() == "precious", "an existing output is kept when the sort fails"
    assert not list(tmp_path.glob(".*tmp")), "no temporary file is left"


def test_unknown_options_are_usage_errors() -> None:
    assert run("sort", "--colour").returncode == 2
    assert run("frobnicate").returncode == 2


def test_interrupt_keeps_the_output_and_leaves_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.arange(100_000)[::-1])
    (tmp_path / "out.npy").write_text("precious")
    program = "import interrupted, linkwise.cli.main as cli; interrupted.interrupt_the_next_sort(); cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "sort", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--machine", "h200x8"],
        capture_output=True, text=True, timeout=60, check=False, cwd=Path(__file__).parent,
    )  # fmt: skip
    assert done.returncode == 130, done.stderr
    assert done.stderr == "linkwise: interrupted; nothing was written\n"
    assert (tmp_path / "out.npy").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npy", "out.npy"]
