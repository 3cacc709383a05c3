"""Backends as fixtures: every contract test runs on the virtual machine and, where there are some, on GPUs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import linkwise
from linkwise import _core
from on_device import OnDevice

IS_ROOT = os.geteuid() == 0
HAVE_GPU = not _core.cuda_unavailable_reason()

ROOT = Path(__file__).parent.parent
# More seeds find more orders; `LINKWISE_TEST_SEEDS` runs a long search.
SEEDS = range(int(os.environ.get("LINKWISE_TEST_SEEDS", "100")))


@pytest.fixture(params=["virtual", pytest.param("cuda", marks=pytest.mark.gpu)])
def runtime(request: pytest.FixtureRequest) -> _core.Runtime:
    if request.param == "virtual":
        return _core.VirtualRuntime(linkwise.load_machine("h200x8"), _core.VirtualMode.execute, 0)
    return cuda_runtime()


@pytest.fixture
def device(runtime: _core.Runtime):
    """Its first GPU, on which nothing may write out of bounds."""
    device = OnDevice(runtime)
    yield device
    device.check_canaries()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not IS_ROOT or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], check=False).returncode:
        pytest.skip("file systems can only be mounted by root, outside of most containers")
    yield disk
    for _ in range(100):  # processes that were killed may still be ending
        if not subprocess.run(["umount", disk], stderr=subprocess.DEVNULL, check=False).returncode:
            return
        time.sleep(0.1)
    raise AssertionError("the disk is still in use")


_cuda: list[_core.Runtime] = []


def cuda_runtime(at_least: int = 1) -> _core.Runtime:
    """One runtime of the real GPUs for all tests: making one takes seconds. Skips a test that takes more GPUs."""
    if not _cuda:
        machine = linkwise.local_machine()
        assert machine is not None
        _cuda.append(_core.cuda_runtime(machine))
    if _cuda[0].machine.num_gpus < at_least:
        pytest.skip(f"takes {at_least} GPUs")
    _cuda[0].set_memory_limit(0)
    return _cuda[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if HAVE_GPU:
        return
    without = pytest.mark.skip(reason=_core.cuda_unavailable_reason())
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(without)
