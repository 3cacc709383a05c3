"""Measures how fast the nodes of a cluster read, write, spill, send and compute, all of them at once."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linkwise.cluster.engine import Call, Engine, Fetch
from linkwise.cluster.runs import Run, RunOptions, Side, sort_job_of
from linkwise.cluster.sizing import split_bytes
from linkwise.columns.sort_keys import EVERYTHING, SortKey
from linkwise.files.formats import FileOptions
from linkwise.machines.cluster_rates import ClusterRates

_SPLITS = 12  # per worker: with fewer, start and end effects would dominate, and caches would hide the disks
_NOTE = 84  # bytes of a row besides its numbers
_ROW = 8 + 8 + 4 + _NOTE
_CALLS = 16  # per worker: calls that do nothing
_OF_STORE = 4
_MOST_FILE = 1 << 30  # bytes that are written and read raw
_GB = 1e9


def rates_of(engine: Engine, directory: Path, start_seconds: float) -> ClusterRates:
    """Measure the rates of an engine whose workers took ``start_seconds`` to start.

    Files are written to a directory that all nodes share, and removed. Raises ``Error``.
    """
    worker, workers = engine.worker, engine.workers
    size = split_bytes(worker)
    with tempfile.TemporaryDirectory(prefix=".linkwise-probe-", dir=directory) as folder:
        start_seconds += _seconds(engine, lambda _: Call(_nothing, ()), workers)
        task = _seconds(engine, lambda _: Call(_nothing, ()), _CALLS * workers) / _CALLS
        raw = min(size, _MOST_FILE)
        shared = _of_disk(engine, folder, raw)
        spill = _of_disk(engine, None, raw)
        sent = max(min(raw, worker.store // _OF_STORE), 1)  # so little that the store does not spill
        network = sent / _GB / max(_sent(engine, sent), 1e-9)
        rows = size // _ROW
        _seconds(engine, lambda number: Call(_write_rows, (folder, number, rows)), _SPLITS * workers)
        stages = _sorted(engine, Path(folder))
    share = _SPLITS * rows * _ROW / _GB
    return ClusterRates(
        network=network, storage_write=shared[0], storage_read=shared[1], spill_write=spill[0], spill_read=spill[1],
        spread=share / stages["spread"], make=share / stages["make"], start_seconds=start_seconds, task_seconds=task,
        memory_gib=worker.memory / 2**30, store_gib=worker.store / 2**30,
    )  # fmt: skip


def _seconds(engine: Engine, call_of: Callable[[int], Call], calls: int) -> float:
    """Seconds until this many calls have finished, run concurrently as far as there are workers."""
    began = time.perf_counter()
    for handles in [engine.submit(call_of(number)) for number in range(calls)]:
        engine.value(handles[0])
    return time.perf_counter() - began


def _nothing(fetch: Fetch) -> int:
    del fetch
    return 0


def _of_disk(engine: Engine, folder: str | None, size: int) -> tuple[float, float]:
    """GB/s at which each worker writes and reads in a directory (default: the temporary one) while all others do."""
    calls = [engine.submit(Call(_write_and_read, (folder, size))) for _ in range(engine.workers)]
    told = [engine.value(handles[0]) for handles in calls]
    slowest = [max(times) for times in zip(*told, strict=True)]
    return size / _GB / slowest[0], size / _GB / slowest[1]


def _write_and_read(fetch: Fetch, folder: str | None, size: int) -> tuple[float, float]:
    """Seconds to write bytes to a disk, and to read them back."""
    del fetch
    data = np.random.default_rng().bytes(min(size, 64 << 20))
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        began = time.perf_counter()
        left = size
        while left:
            left -= file.write(data[:left])
        file.flush()
        os.fsync(file.fileno())
        written = time.perf_counter() - began
        with contextlib.suppress(OSError, AttributeError):  # drops the page cache
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        began = time.perf_counter()
        file.seek(0)
        while file.read(16 << 20):
            pass
        return max(written, 1e-9), max(time.perf_counter() - began, 1e-9)


def _sent(engine: Engine, size: int) -> float:
    """Seconds until each worker has fetched this many bytes, which another worker has made if there are several."""
    handles = [engine.submit(Call(_bytes, (size,)))[0] for _ in range(engine.workers)]
    for handle in handles:
        engine.finished([handle], 60)
    to = [*handles[1:], handles[0]]
    fetched = [engine.submit(Call(_fetch_seconds, (handle_list,))) for handle_list in ([each] for each in to)]
    return max(float(engine.value(got[0])) for got in fetched)


def _bytes(fetch: Fetch, size: int) -> Any:
    del fetch
    return pa.py_buffer(np.random.default_rng().bytes(size))


def _fetch_seconds(fetch: Fetch, handles: list[Any]) -> float:
    began = time.perf_counter()
    fetch(handles)
    return time.perf_counter() - began


def _write_rows(fetch: Fetch, folder: str, number: int, rows: int) -> int:
    """A file of random rows."""
    del fetch
    random = np.random.default_rng(number)
    notes = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_NOTE), rows, [None, pa.py_buffer(random.bytes(_NOTE * rows))]
    )
    keys = random.integers(0, 1 << 64, rows, dtype=np.uint64)
    table = pa.table({"k": keys, "n": np.arange(rows), "note": notes.cast(pa.binary())})
    path = Path(folder, f"in-{number}.parquet")
    pq.write_table(table, path, use_dictionary=False, row_group_size=1 << 20)
    with path.open("rb") as file:  # so that it is not still being written while it is read
        os.fsync(file.fileno())
    return rows


def _sorted(engine: Engine, folder: Path) -> dict[str, float]:
    """Seconds of the stages of a sort of these files."""
    run = Run(
        engine, [Side(str(folder / "in-*.parquet"), FileOptions(output_format="parquet"))],
        RunOptions(target=folder / "out"),
    )  # fmt: skip
    report, _ = run.go(sort_job_of(lambda _: [SortKey("k")], EVERYTHING), {"words": "probe"})
    return report.stages
