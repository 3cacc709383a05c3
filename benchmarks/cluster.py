"""A sort over two nodes of this machine, beside one process that spills and ``ray.data``, each a process of its own.

    python benchmarks/cluster.py --folder /tmp/bench --output build/bench/cluster.json

A node has one worker and a store of 200 MB, so that both spill; with ``gpus`` it has one of these as well. Every result
is checked: its keys are in order, through all files, and its rows are those of the input. ``kills`` sorts again and
again while a worker is killed every so many seconds. Nodes on one machine share its disk and its cores: this shows what
the engine costs, not what networks do.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from files import sum_of_rows
from linkwise import _core
from linkwise.bench.results import commit, cores, now

FILES = 10
GROUP_ROWS = 1 << 20
NOTE = 60  # bytes
ROW = 104  # bytes of a row in memory
SCHEMA = pa.schema({
    "key": pa.uint64(), "at": pa.int64(), "a": pa.float64(), "b": pa.float64(), "c": pa.float64(), "note": pa.binary(),
})  # fmt: skip


def make(folder: Path, rows: int) -> None:
    """Write random rows, which hardly compress."""
    folder.mkdir(parents=True)

    def one(number: int) -> None:
        random = np.random.default_rng(number)
        path = folder / f"part-{number:03}.parquet"
        with pq.ParquetWriter(path, SCHEMA, compression="snappy", use_dictionary=False) as writer:
            left = rows // FILES
            while left:
                count = min(GROUP_ROWS, left)
                left -= count
                words = [random.integers(0, 1 << 64, count, dtype=np.uint64), random.integers(0, 10**15, count)]
                notes = pa.py_buffer(random.bytes(NOTE * count))
                note = pa.FixedSizeBinaryArray.from_buffers(pa.binary(NOTE), count, [None, notes]).cast(pa.binary())
                writer.write_table(pa.table([*words, *(random.random(count) for _ in range(3)), note], schema=SCHEMA))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, range(FILES)))


def _sum(table: pa.Table) -> int:
    """As ``sum_of_rows``, with a word of each note instead of its length."""
    chunks = [
        np.frombuffer(chunk.buffers()[2], np.uint8)[chunk.offset * NOTE :][: len(chunk) * NOTE].reshape(-1, NOTE)
        for chunk in table["note"].chunks
        if len(chunk)
    ]
    words = np.concatenate(chunks)[:, 24:32].copy().view(np.int64)[:, 0] if chunks else np.zeros(0, np.int64)
    keys = pa.array(table["key"].to_numpy().view(np.int64))
    return sum_of_rows(pa.table([keys, *table.columns[1:-1], pa.array(words)], table.column_names))


def told_of(files: list[Path], *, in_order: bool) -> tuple[int, int]:
    """Rows, and a sum of them. Ends the benchmark if keys are not in order that should be."""
    rows = total = 0
    last: Any = None
    for path in files:
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=SCHEMA.names)
            keys = table["key"]
            if in_order and len(keys):
                ascends = pc.all(pc.less_equal(keys.slice(0, len(keys) - 1), keys.slice(1))).as_py()
                if ascends is False or (last is not None and last > keys[0].as_py()):
                    raise SystemExit(f"{path}: the keys are not in order")
                last = keys[-1].as_py()
            rows += table.num_rows
            total = (total + _sum(table)) % (1 << 64)
    return rows, total


@contextmanager
def two_nodes(options: argparse.Namespace, gpus: int) -> Iterator[None]:
    """A cluster of two nodes on this machine, to which this process is connected."""
    import ray  # noqa: PLC0415
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    store = options.store << 20
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": store})
    for node in range(2):
        if gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = str(node)
        cluster.add_node(num_cpus=options.node_cores, num_gpus=gpus, object_store_memory=store)
    ray.init(address=cluster.address, log_to_driver=False)
    yield
    ray.shutdown()
    cluster.shutdown()


def workers() -> Iterator[tuple[int, int]]:
    """Ray's processes that are at work, and each one's resident bytes that are not shared."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            name = (process / "cmdline").read_bytes()
            if name.startswith(b"ray::") and b"Agent" not in name:
                resident, shared = map(int, (process / "statm").read_text().split()[1:3])
                yield int(process.name), (resident - shared) * os.sysconf("SC_PAGE_SIZE")


class Watch:
    """Looks at the workers twice a second, and kills one every so many seconds, if that is asked for."""

    def __init__(self, kill_every: float | None) -> None:
        self.peak = self.kills = 0
        self._kill_every = kill_every
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        next_kill = time.monotonic() + (self._kill_every or 0)
        while not self._ends.wait(0.5):
            there = list(workers())
            self.peak = max([self.peak, *(size for _, size in there)])
            if self._kill_every and there and time.monotonic() > next_kill:
                os.kill(there[self.kills % len(there)][0], signal.SIGKILL)
                self.kills += 1
                next_kill = time.monotonic() + self._kill_every

    def end(self) -> None:
        self._ends.set()
        self._thread.join()


def spilled_bytes() -> int | None:
    """Bytes that the object stores have written to disk; ``None`` if Ray does not tell."""
    try:
        from ray._private.internal_api import memory_summary  # noqa: PLC0415

        found = re.search(r"Spilled (\d+) MiB", memory_summary(stats_only=True))
    except ImportError:  # it needs grpcio
        return None
    return int(found[1]) << 20 if found else 0


def on_linkwise(
    source: str, target: Path, options: argparse.Namespace, kill_every: float | None = None, gpus: int = 0,
    strategy: str = "auto",
) -> dict[str, Any]:  # fmt: skip
    import linkwise.cluster  # noqa: PLC0415

    with two_nodes(options, gpus):
        expected = predicted(target.parent, options) if options.predict else {}
        watch = Watch(kill_every)
        began = time.perf_counter()
        report = linkwise.cluster.sort(
            source, target, by="key", host_memory_limit=options.memory, strategy=strategy, force=True
        )
        seconds = time.perf_counter() - began
        watch.end()
        told = {"kills": watch.kills, "peak_bytes_of_a_worker": watch.peak, "spilled_bytes": spilled_bytes()}
    return {"seconds": seconds, "report": report.as_dict(), **told, **expected}


def predicted(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What a plan says that the sort will take, after the nodes have been measured."""
    import linkwise.cluster  # noqa: PLC0415
    from linkwise.planning.nodes import plan_sort_of_nodes  # noqa: PLC0415

    rates = linkwise.cluster.probe(folder, host_memory_limit=options.memory)
    described = folder / "rates.json"
    described.write_text(json.dumps({"name": "two nodes", "cluster": rates.as_dict()}), encoding="utf-8")
    plan = plan_sort_of_nodes(options.rows, "u64", ROW, f"{described}:2").plans[-1]
    described.unlink()
    os.sync()
    # The nodes have started already: leave that stage out.
    seconds = sum(stage.takes for stage in plan.stages if stage.name != "start")
    return {"predicted_seconds": seconds, "rates": rates.as_dict(), "plan": plan.as_dict()}


def on_ray_data(source: str, target: Path, options: argparse.Namespace) -> dict[str, Any]:
    import ray  # noqa: PLC0415

    with two_nodes(options, 0):
        watch = Watch(None)
        began = time.perf_counter()
        ray.data.read_parquet(source).sort("key").write_parquet(str(target))
        seconds = time.perf_counter() - began
        watch.end()
        return {"seconds": seconds, "peak_bytes_of_a_worker": watch.peak, "spilled_bytes": spilled_bytes()}


def on_one_process(source: str, target: Path, memory: str) -> dict[str, Any]:
    command = [
        str(Path(sys.executable).with_name("linkwise")),
        "sort",
        source,
        "-o",
        str(target / "part-00000.parquet"),
    ]
    target.mkdir()
    began = time.perf_counter()
    done = subprocess.run([*command, "-k", "key", "-S", memory, "--json"], capture_output=True, text=True, check=True)
    return {"seconds": time.perf_counter() - began, "report": json.loads(done.stdout)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/bench/cluster"))
    parser.add_argument("--output", type=Path)
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--memory", default="2GiB", help="of a worker; one process has twice that")
    parser.add_argument("--store", type=int, default=200, help="MiB of a node")
    parser.add_argument("--node-cores", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--predict", action="store_true", help="measure the nodes first, and plan")
    parser.add_argument("--kill-every", type=float, default=25.0)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--cases", default="one,ray,linkwise,kills")
    parser.add_argument("--role", help=argparse.SUPPRESS)
    options = parser.parse_args()
    source, target = options.folder / "in", options.folder / "out"
    if options.role is not None:
        print(json.dumps(_in_role(options.role, str(source), target, options)))
        return
    if not source.exists():
        make(source, int(options.rows))
    expected = told_of(sorted(source.glob("*.parquet")), in_order=False)
    results = []
    for _ in range(options.repetitions):
        for case in options.cases.split(","):
            kills = 0
            while True:
                result = _one(case, options, target, expected)
                results.append(result)
                kills += result.get("kills", 0)
                if case != "kills" or kills >= options.kills:
                    break
    told = {
        "date": now(), "commit": commit(), "cores": cores(), "gpus": [gpu.name for gpu in _core.cuda_gpus()],
        "rows": expected[0], "cores_of_a_node": options.node_cores, "memory_of_a_worker": options.memory,
        "store_of_a_node": options.store << 20, "results": results,
    }  # fmt: skip
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(told, indent=1), encoding="utf-8")


def _in_role(role: str, source: str, target: Path, options: argparse.Namespace) -> dict[str, Any]:
    roles: dict[str, Callable[[], dict[str, Any]]] = {
        "one": lambda: on_one_process(source, target, _twice(options.memory)),
        "ray": lambda: on_ray_data(source, target, options),
        "linkwise": lambda: on_linkwise(source, target, options),
        "gpus": lambda: on_linkwise(source, target, options, gpus=1),
        "radix": lambda: on_linkwise(source, target, options, gpus=1, strategy="radix"),
        "kills": lambda: on_linkwise(source, target, options, options.kill_every),
    }
    return roles[role]()


def _twice(memory: str) -> str:
    number, unit = re.fullmatch(r"(\d+)(\D*)", memory).groups()  # type: ignore[union-attr]
    return f"{2 * int(number)}{unit}"


def _one(case: str, options: argparse.Namespace, target: Path, expected: tuple[int, int]) -> dict[str, Any]:
    shutil.rmtree(target, ignore_errors=True)
    os.sync()
    done = subprocess.run([sys.executable, *sys.argv, "--role", case], stdout=subprocess.PIPE, text=True, check=True)
    result = {"case": case, **json.loads(done.stdout.splitlines()[-1])}
    files = sorted(target.glob("*.parquet"))
    if case == "ray":  # whose file names have no order
        files.sort(key=_first_key)
    if told_of(files, in_order=True) != expected:
        raise SystemExit(f"{case}: the rows are not those of the input")
    result["digest"] = hashlib.sha256(b"".join(hashlib.sha256(f.read_bytes()).digest() for f in files)).hexdigest()
    shutil.rmtree(target)
    print(f"{result['seconds']:8.1f} s  {case}, {result.get('kills', 0)} kills", file=sys.stderr, flush=True)
    return result


def _first_key(path: Path) -> int:
    return int(pq.ParquetFile(path).metadata.row_group(0).column(0).statistics.min)


if __name__ == "__main__":
    main()
