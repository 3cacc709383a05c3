"""Sorts and joins over many nodes on Ray: four nodes of this machine, whose workers, nodes and driver are killed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import linkwise
import linkwise.cluster
from clusters import keyed, write_parts

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")
pytestmark = pytest.mark.slow

STORE = 100 << 20
MEMORY = "64MiB"  # so that what is small has several partitions
LINKWISE = str(Path(sys.executable).with_name("linkwise"))


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of four nodes, with which this process is connected, beside a head that works on nothing."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    finds_losses_soon = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}
    started = cluster_utils.Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False,
            "_system_config": finds_losses_soon,
        },
    )  # fmt: skip
    for _ in range(4):
        started.add_node(num_cpus=1, object_store_memory=STORE)
    ray.init(address=started.address, log_to_driver=False)
    yield started
    ray.shutdown()
    started.shutdown()


def at(stage: str, action: Callable[[], object]) -> Callable[[str, int, int], None]:
    """Does something once, when some of a stage has been done."""
    is_done = False

    def told(name: str, done: int, total: int) -> None:
        nonlocal is_done
        if name == stage and 0 < done < total and not is_done:
            is_done = True
            action()

    told.is_done = lambda: is_done  # type: ignore[attr-defined]
    return told


@pytest.fixture(autouse=True)
def _one_at_a_time() -> Iterator[None]:
    """Other processes that test run none of these tests meanwhile: each takes the whole machine."""
    with (Path(tempfile.gettempdir()) / f"linkwise-tests-on-ray-{os.getuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ancestors(process: int) -> Iterator[int]:
    while process > 1:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        yield process


class Killer:
    """Kills a worker of a driver, by default this process, that is at work in a stage."""

    def __init__(self, stage: str, driver: int = 0) -> None:
        self._stage = stage
        self._driver = driver or os.getpid()
        self._thread = threading.Thread(target=self.kill)
        self.killed = 0

    def told(self, name: str, done: int, total: int) -> None:
        del total
        if name == self._stage and not done:
            self._thread.start()

    def kill(self) -> None:
        end = time.monotonic() + 20
        while not self.killed and time.monotonic() < end:
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    is_at_work = (process / "cmdline").read_bytes().startswith(b"ray::_carry_out")
                    if is_at_work and self._driver in ancestors(int(process.name)):
                        os.kill(int(process.name), signal.SIGKILL)
                        self.killed = int(process.name)
                        return

    def join(self) -> None:
        self._thread.join(60)


def wide(rows: int, seed: int, share: float = 0.0) -> pa.Table:
    """Rows of some hundred bytes."""
    table = keyed(rows, seed, share=share, keys=100_000)
    filling = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(80), rows, [None, pa.py_buffer(np.random.default_rng(seed).bytes(80 * rows))]
    )
    return table.append_column("filling", filling)


@pytest.fixture(scope="module")
def medium(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """50 MB."""
    return write_parts(tmp_path_factory.mktemp("medium") / "in", wide(400_000, 1, 0.3), 8, 25_000)


@pytest.fixture(scope="module")
def medium_sorted(medium: Path) -> pa.Table:
    linkwise.sort_file(str(medium), medium.parent / "one.parquet", by=["k", "s"])
    return pq.read_table(medium.parent / "one.parquet")


def test_half_a_gigabyte(nodes, tmp_path):
    source = write_parts(tmp_path / "in", wide(4_500_000, 2), 16, 100_000)
    report = linkwise.cluster.sort(str(source), tmp_path / "out", by="k", host_memory_limit="256MiB")
    linkwise.sort_file(str(source), tmp_path / "one.parquet", by="k")
    assert pq.read_table(tmp_path / "out").equals(pq.read_table(tmp_path / "one.parquet"))
    assert report.workers == 4
    assert report.largest <= 1.1


@pytest.mark.parametrize("stage", ["spread", "make"])
def test_a_worker_is_killed(stage, nodes, medium, medium_sorted, tmp_path):
    killer = Killer(stage)
    linkwise.cluster.sort(
        str(medium), tmp_path / "out", by=["k", "s"], host_memory_limit=MEMORY, on_progress=killer.told
    )
    killer.join()
    assert killer.killed
    assert pq.read_table(tmp_path / "out").equals(medium_sorted)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_node_is_lost(nodes, medium, medium_sorted, tmp_path):
    node = nodes.add_node(num_cpus=1, object_store_memory=STORE)
    nodes.wait_for_nodes()
    removed = at("make", lambda: nodes.remove_node(node, allow_graceful=False))
    report = linkwise.cluster.sort(
        str(medium), tmp_path / "out", by=["k", "s"], host_memory_limit=MEMORY, on_progress=removed
    )
    assert removed.is_done()
    assert report.workers == 5
    assert pq.read_table(tmp_path / "out").equals(medium_sorted)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_joins(how, nodes, tmp_path):
    left = write_parts(tmp_path / "l", keyed(60_000, 1, share=0.3, keys=30_000), 4, 5_000)
    right = write_parts(tmp_path / "r", keyed(9_000, 2, keys=30_000), 2, 1_000)
    order = None if how in ("semi", "anti") else "key"
    linkwise.cluster.join(
        str(left), str(right), tmp_path / "out", on="k", how=how, order=order, host_memory_limit="16MiB"
    )
    linkwise.join_file(str(left), str(right), tmp_path / "one.parquet", on="k", how=how, order=order)
    found, expected = pq.read_table(tmp_path / "out"), pq.read_table(tmp_path / "one.parquet")
    if order is None:
        found, expected = (linkwise.sort(table, by=table.column_names) for table in (found, expected))
    assert found.equals(expected)


def test_datasets_go_in_and_come_out(nodes):
    table = keyed(50_000, 3)
    tables = [table.slice(first, 10_000) for first in range(0, 50_000, 10_000)]
    dataset = ray.data.from_arrow(tables)
    back = linkwise.cluster.sort(dataset, by=["s", "n"], descending=[True, False], host_memory_limit="4MiB")
    assert pa.concat_tables(ray.get(back.to_arrow_refs())).equals(
        linkwise.sort(table, by=["s", "n"], descending=[True, False])
    )
    few = linkwise.cluster.top_k(dataset, 10, by="n", host_memory_limit="4MiB")
    assert [row["n"] for row in few.take_all()] == list(range(49_999, 49_989, -1))
    once = linkwise.cluster.unique(dataset, by="k", host_memory_limit="4MiB")
    assert once.count() == len(pa.compute.unique(table["k"]))


def test_the_disk_of_the_target_is_full(nodes, medium, small_disk):
    target = small_disk / "out"
    with pytest.raises(linkwise.Error, match=r"No space left on device"):
        linkwise.cluster.sort(str(medium), target, by="k", host_memory_limit=MEMORY)
    assert list(small_disk.iterdir()) == []


def test_what_is_asked_for_wrongly_is_said_in_one_line(nodes, medium, tmp_path):
    with pytest.raises(linkwise.UsageError, match="there is no column 'x'"):
        linkwise.cluster.sort(str(medium), tmp_path / "out", by="x")
    with pytest.raises(linkwise.UsageError, match="name a directory to write"):
        linkwise.cluster.sort(str(medium), by="k")
    with pytest.raises(linkwise.UsageError, match="no sort strategy 'fast'"):
        linkwise.cluster.sort(str(medium), tmp_path / "out", by="k", strategy="fast")
    with pytest.raises(linkwise.UsageError, match="- is a stream, which one node alone can read"):
        linkwise.cluster.sort("-", tmp_path / "out", by="k")
    pq.write_table(pa.table({"k": [[1], [2]]}), tmp_path / "lists.parquet")
    with pytest.raises(linkwise.UsageError, match="'k' of type list"):
        linkwise.cluster.sort(str(tmp_path / "lists.parquet"), tmp_path / "out", by="k")
    (tmp_path / "lists.parquet").unlink()
    with pytest.raises(linkwise.UsageError, match="name files, or give a ray.data.Dataset"):
        linkwise.cluster.sort(keyed(10, 1), tmp_path / "out", by="k")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no PAR1")
    with pytest.raises(linkwise.Error, match=r"cannot read .*bad.parquet"):
        linkwise.cluster.sort(str(tmp_path / "bad.parquet"), tmp_path / "out", by="k")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.parquet"]


def start(*arguments: str) -> subprocess.Popen[str]:
    """A command with a cluster of its own, in a process group of its own."""
    return subprocess.Popen(
        [LINKWISE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_until(is_so: Callable[[], object], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if is_so():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    raise AssertionError(f"it takes too long: {process.communicate(timeout=60)}")


def temporary_of_clusters() -> list[Path]:
    from linkwise.cluster.ray_engine import temporary_targets

    return [left for target in temporary_targets() for left in target.parent.glob(f".{target.name}.*")]


def test_the_command_is_interrupted(medium, tmp_path):
    out = tmp_path / "out"
    run = start("sort", f"{medium}/*.parquet", "-o", str(out), "-k", "k", "--cluster", "local:2", "-S", MEMORY)
    wait_until(lambda: list(tmp_path.glob(".out.*/_run/bounds.arrow")), run)
    run.send_signal(signal.SIGINT)
    _, told = run.communicate(timeout=60)
    assert run.returncode == 130
    assert told.splitlines()[-1] == "linkwise: interrupted; nothing was written"
    assert list(tmp_path.iterdir()) == []
    assert temporary_of_clusters() == []


def test_the_driver_is_killed_and_another_one_goes_on(medium, medium_sorted, tmp_path):
    out = tmp_path / "out"
    command = (
        "sort",
        f"{medium}/*.parquet",
        "-o",
        str(out),
        "-k",
        "k",
        "-k",
        "s",
        "--cluster",
        "local:2",
        "-S",
        MEMORY,
    )
    run = start(*command)
    wait_until(lambda: len(list(tmp_path.glob(".out.*/_run/partition-*.json"))) > 1, run)
    run.kill()
    run.communicate(timeout=60)
    made = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob(".out.*/*.parquet")}
    goes_on = start(*command, "--resume", "--json")
    Killer("any", goes_on.pid).kill()  # of which nothing is told where the result is
    told, errors = goes_on.communicate(timeout=120)
    assert goes_on.returncode == 0, errors
    assert json.loads(told)["rows"] == len(medium_sorted)
    kept = [name for name, changed in made.items() if (out / name).stat().st_mtime_ns == changed]
    assert len(kept) > 1
    assert pq.read_table(out).equals(medium_sorted)
    cleaned = subprocess.run([LINKWISE, "cluster", "clean", str(out)], capture_output=True, text=True, check=False)
    assert cleaned.returncode == 0
    assert temporary_of_clusters() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_a_join_on_the_command_line(tmp_path):
    left = write_parts(tmp_path / "l", keyed(20_000, 1), 2)
    right = write_parts(tmp_path / "r", keyed(500, 2), 1)
    command = [LINKWISE, "join", str(left), str(right), "-o", str(tmp_path / "out"), "--on", "k", "--how", "left"]
    joined = subprocess.run(
        [*command, "--cluster", "local:2"], capture_output=True, text=True, check=False, timeout=300
    )
    assert joined.returncode == 0, joined.stderr
    assert " on 2 workers: " in joined.stdout
    linkwise.join_file(str(left), str(right), tmp_path / "one.parquet", on="k", how="left")
    assert len(pq.read_table(tmp_path / "out")) == len(pq.read_table(tmp_path / "one.parquet"))


def test_text_in_several_splits(nodes, tmp_path):
    """Which one call reads, and hands on as it goes; files of no bytes are left out."""
    table = keyed(800_000, 3)
    pa.csv.write_csv(table, tmp_path / "a.csv")
    (tmp_path / "b.csv").touch()
    assert (tmp_path / "a.csv").stat().st_size > 8 << 20
    names = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    report = linkwise.cluster.sort(names, tmp_path / "out", by="k", host_memory_limit=MEMORY)
    assert report.rows == len(table) and report.partitions > 1
    linkwise.sort_file(names, tmp_path / "one.parquet", by="k")
    assert pq.read_table(tmp_path / "out").equals(pq.read_table(tmp_path / "one.parquet"))


def test_a_cluster_of_this_machine_is_private(tmp_path):
    """It has a token of its own, and its store spills to the named directory, of which nothing stays."""
    source = write_parts(tmp_path / "in", keyed(2_000_000, 1), 8)
    (tmp_path / "spilled").mkdir()
    script = f"""
import os, linkwise.cluster
from linkwise.cluster import ray_engine
start = ray_engine._start
def started(**options):
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64 and os.environ["RAY_AUTH_MODE"] == "token"
    assert options["object_spilling_directory"].startswith({str(tmp_path / "spilled")!r})
    start(**options)
ray_engine._start = started
report = linkwise.cluster.sort(
    {str(source)!r}, {str(tmp_path / "out")!r}, by="k", address="local:2", host_memory_limit="32MiB",
    temporary_directory={str(tmp_path / "spilled")!r})
print(report.rows)
"""
    home = {**os.environ, "HOME": str(tmp_path / "nobody")}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=home)
    assert ran.stdout == "2000000\n", ran.stderr
    assert list((tmp_path / "spilled").iterdir()) == []


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_what_answers_is_no_cluster(answer, tmp_path):
    pq.write_table(keyed(10, 1), tmp_path / "in.parquet")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)
                connection.recv(1) if not answer else None

        threading.Thread(target=serve, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        command = [LINKWISE, "sort", str(tmp_path / "in.parquet"), "-o", str(tmp_path / "out"), "-k", "k"]
        failed = subprocess.run(
            [*command, "--cluster", address], capture_output=True, text=True, check=False, timeout=60
        )
    assert failed.returncode == 2 and len(failed.stderr.splitlines()) == 1
    assert ("is not the head of a cluster" if answer else "nobody answers at") in failed.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--cluster", "local:2", "--explain", "--gpus", "0"], "--explain, --gpus: not with --cluster"),
        (["--cluster", "local:none"], "a cluster of this machine is local:4"),
        (["--cluster", "local"], "a cluster of this machine is local:4"),
        (["--cluster", "local:2", "-T", "/no/such/directory"], "cannot spill to /no/such/directory: No such file"),
        (["--cluster", "ray://127.0.0.1:1"], "is no HOST:PORT"),
        (["--cluster", "127.0.0.1:1"], "nobody answers at 127.0.0.1:1"),
        (["--resume"], "name it with --cluster"),
    ],
)
def test_options_that_do_not_go_together(options, told, tmp_path):
    pq.write_table(keyed(10, 1), tmp_path / "in.parquet")
    command = [LINKWISE, "sort", str(tmp_path / "in.parquet"), "-o", str(tmp_path / "out"), "-k", "k", *options]
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert told in failed.stderr
    assert len(failed.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
