"""What somebody does first with an installed Linkwise; run by scripts/make_wheel.py, far from the sources."""

from __future__ import annotations

import multiprocessing
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import linkwise

RANDOM = np.random.default_rng(0)
KEYS = RANDOM.integers(0, 1 << 32, 1_000_000, dtype=np.uint32)


def command(*arguments: str) -> str:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}{done.stderr}"
    return done.stdout


def sorts(keys: NDArray[np.uint32]) -> bool:
    return bool((linkwise.sort(keys) == np.sort(keys)).all())


def files() -> None:
    table = pa.table({"key": KEYS, "row": np.arange(len(KEYS))})
    pq.write_table(table, "in.parquet")
    command("linkwise", "sort", "in.parquet", "-k", "key", "-o", "out.parquet")
    assert pq.read_table("out.parquet").equals(table.sort_by("key"))
    pq.write_table(table.slice(0, 1000).rename_columns(["key", "left"]), "left.parquet")
    command("linkwise", "join", "left.parquet", "in.parquet", "--on", "key", "-o", "joined.parquet")
    assert pq.read_table("joined.parquet").num_rows >= 1000


def described_machine() -> None:
    assert command("linkwise", "probe", "--machine", "dgx-a100").startswith("dgx-a100-probed: 8 GPUs, simulated")
    assert linkwise.plan_sort(10**9, "u32", machine="dgx-a100").best.seconds > 0


def beside_another_libgomp() -> None:
    """scikit-learn brings an OpenMP runtime of its own: both in one process, in threads, and behind a fork."""
    from sklearn.cluster import KMeans

    def clusters(seed: int) -> int:
        points = np.random.default_rng(seed).normal(size=(2000, 2))
        return len(KMeans(4, n_init=1, random_state=seed).fit(points).cluster_centers_)

    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(clusters, 1), pool.submit(sorts, KEYS), pool.submit(clusters, 2), pool.submit(sorts, KEYS)]
        assert [each.result() for each in found] == [4, True, 4, True]
    with multiprocessing.get_context("fork").Pool(2) as children:
        assert children.map(sorts, [KEYS, KEYS[::2].copy()]) == [True, True]
    assert clusters(3) == 4


def beside_torch() -> None:
    """Where there is torch, whose threads and whose CUDA context are not ours either; without one nothing is tried."""
    try:
        import torch
    except ImportError:
        return

    def sums(size: int) -> bool:
        tensor = torch.arange(size, dtype=torch.float64)
        return float(tensor.sort(descending=True).values.sum()) == size * (size - 1) / 2

    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(sums, 1 << 20), pool.submit(sorts, KEYS), pool.submit(sums, 1 << 19)]
        assert [each.result() for each in found] == [True, True, True]
    with multiprocessing.get_context("fork").Pool(2) as children:
        assert children.map(sorts, [KEYS, KEYS[::2].copy()]) == [True, True]
    if torch.cuda.is_available():
        on_gpu = torch.randint(0, 1 << 40, (10_000_000,), device="cuda")
        with ThreadPoolExecutor(2) as pool:
            ours, theirs = pool.submit(linkwise.sort, on_gpu), pool.submit(torch.sort, on_gpu)
            assert torch.equal(ours.result(), theirs.result().values)
    print(
        f"beside torch {torch.__version__}, {'on a GPU too' if torch.cuda.is_available() else 'without a GPU'}: right"
    )


def c_plus_plus() -> None:
    """The example of an engine, against the library that the wheel brings."""
    directory = command("linkwise", "--cmake-dir").strip()
    assert Path(directory, "linkwiseConfig.cmake").is_file()
    command("cmake", "-G", "Ninja", "-S", "engine", "-B", "built", f"-Dlinkwise_DIR={directory}")
    command("cmake", "--build", "built")
    command("built/engine")


def main() -> None:
    assert sorts(KEYS)
    for step in (files, described_machine, beside_another_libgomp, beside_torch, c_plus_plus):
        step()
    where = f"Python {platform.python_version()}, glibc {platform.libc_ver()[1]}"
    print(f"linkwise {linkwise.__version__} on {where}: sorts, joins, files, a described machine, C++: right")


if __name__ == "__main__":
    sys.exit(main())
