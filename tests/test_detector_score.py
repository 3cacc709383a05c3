"""What the virtual machine's detector misses, and whether operations say what they touch."""

from __future__ import annotations

import ctypes
import sys
from collections import Counter

import numpy as np
import pytest

from conftest import ROOT, cuda_runtime
from data import keys
from linkwise import _core
from sort_on import VARIANTS, can_run, check_sort, plan_for
from test_device_join import check_join, check_rows
from test_gathering import check_on, columns_of_every_type, rows_of
from test_host_join import HOWS, pair

sys.path.insert(0, str(ROOT / "scripts"))

from detector_inputs import GPU, HOST, Machine, Result
from detector_programs import programs
from score_detector import PAGE, machine, rendered, score, score_all

SIZE = 4096


@pytest.mark.slow
def test_no_wait_can_be_left_out_unnoticed() -> None:
    """Of all programs, every wait; and the tables in the documents are what comes of it."""
    scored = score_all(seeds=2)
    assert [left for left in scored if left.end == "silent"] == []
    assert {left.line.partition(":")[0] for left in scored if left.end == "needless"} <= {
        left.line.partition(":")[0] for left in scored if left.end == "detected"
    }
    page = PAGE.read_text()
    assert rendered(scored, page) == page, "run: python scripts/score_detector.py --render"


def test_what_is_not_declared_would_be_silent() -> None:
    """The score can fail: a host that says nothing of what it reads."""

    def silent(runtime: Machine) -> Result:
        buffer, stream = runtime.allocate(GPU(0), SIZE, "numbers"), runtime.stream(GPU(0), "in")
        start, found = np.arange(SIZE, dtype=np.uint8), np.zeros(SIZE, np.uint8)
        runtime.copy_in(stream, buffer.view, start)
        runtime.copy_out(stream, found, buffer.view)
        runtime.wait(runtime.record(stream))
        copied = found.copy()
        runtime.synchronize()
        return [copied]

    ends = {(left.kind, left.end) for left in score("silent", silent, 2)}
    assert ends == {("host", "silent"), ("record", "silent"), ("synchronize", "implied")}


@pytest.mark.slow
def test_every_operation_touches_what_it_declares() -> None:
    """With all other bytes changed, it makes the same, and leaves them alone."""
    operations = 0
    for name, program in programs().items():
        if name == "flags":
            continue
        audited = _core.AuditedRuntime(machine(seed=1))
        found, expected = program(audited), program(machine(seed=2))
        assert audited.findings == [], name
        assert all(map(np.array_equal, found, expected)), name
        operations += audited.audited
    told = f"{operations:,} operations"
    assert told in " ".join(PAGE.read_text().split()), f"docs/reliability.md says another number than {told}"


class Copy:
    """A copy on a GPU that says that it touches something else."""

    def __init__(self) -> None:
        self.audited = _core.AuditedRuntime(machine(seed=0))
        self.stream = self.audited.stream(GPU(0), "one")
        self.source, self.target, self.third = (
            self.audited.allocate(GPU(0), SIZE, name) for name in ("source", "target", "third")
        )
        random = np.random.default_rng(1)
        for buffer in (self.source, self.target, self.third):
            self.audited.copy_in(self.stream, buffer.view, random.integers(0, 256, SIZE, dtype=np.uint8))


@pytest.mark.parametrize(
    ("reads", "writes", "said"),
    [
        (["source"], ["target"], None),
        (["source", "third"], ["target", "third"], None),  # more than it touches
        ([], ["target"], "reads something undeclared, from which it makes byte 256 of 4608 around 'target'"),
        (["all but the last"], ["target"], "reads something undeclared, from which it makes byte 4351"),
        (["source"], [], "writes, undeclared, byte 256 of 4608 around 'target'"),
        (["source"], ["third"], "writes, undeclared, byte 256 of 4608 around 'target'"),
        (["source"], ["all of the target but the last"], "writes, undeclared, byte 4351"),
    ],
)
def test_lies_are_found(reads: list[str], writes: list[str], said: str | None) -> None:
    copy = Copy()
    views = {name: getattr(copy, name).view for name in ("source", "target", "third")} | {
        "all but the last": copy.source.slice(0, SIZE - 1),
        "all of the target but the last": copy.target.slice(0, SIZE - 1),
    }
    copy.audited.copy_declaring(
        copy.stream, views["target"], views["source"], [views[name] for name in reads], [views[name] for name in writes]
    )
    copy.audited.synchronize()
    assert copy.audited.audited == 1
    assert len(copy.audited.findings) == (said is not None)
    assert said is None or said in copy.audited.findings[0]


def test_flags_cannot_be_audited() -> None:
    with pytest.raises(_core.UsageError, match="one operation at a time"):
        _core.AuditedRuntime(machine(seed=0)).flag("ball")


@pytest.mark.gpu
def test_every_operation_touches_what_it_declares_on_gpus() -> None:
    """Kernels of sorts, joins and gathers: what they do not declare holds other bytes, and the results are right."""
    pytest.importorskip("cupy")
    num_gpus = min(cuda_runtime().machine.num_gpus, 4)
    audited = _core.AuditedRuntime(cuda_runtime())
    for strategy, exchange in VARIANTS:
        gpus = list(range(num_gpus))
        if strategy == "cpu" or not can_run(strategy, num_gpus):
            continue
        for dtype, chunkset in ((np.uint32, 0), (np.float64, 3000), (np.int16, 0)):
            plan = plan_for(gpus, strategy, exchange, samples=512, slack=1.0, chunkset_records=chunkset)
            check_sort(audited, plan, keys("normal", 10_007, dtype))
    for how in ("inner", "full"):
        left, right = pair("zipf", 3000, 5000, np.uint32, 1)
        check_join(audited, num_gpus, left, right, how)
        check_rows(audited, num_gpus, left, right, how)
    for how in HOWS:
        sides = pair("uniform", 3000, 5000, np.uint32, 2)
        check_join(audited, num_gpus, *sides, how, way="hash", table_rows=64)
        check_rows(audited, num_gpus, *sides, how, way="hash", table_rows=64)
    check_on(audited, list(range(num_gpus)), columns_of_every_type(3000, 3, 1), rows_of("i64", 3000, 5000))
    assert audited.findings == []
    print(f"{audited.audited} operations audited on {num_gpus} GPUs")


def test_a_host_that_did_not_wait() -> None:
    """Reads of the host, its writes, and memory that it lets go of, whatever has run by then."""
    for seed in range(8):
        runtime = machine(seed)
        buffer, stream = runtime.allocate(GPU(0), SIZE, "numbers"), runtime.stream(GPU(0), "in")
        found = np.zeros(SIZE, np.uint8)
        view = runtime.view(HOST, found)
        runtime.copy_out(stream, found, buffer.view)
        copied = runtime.record(stream)
        with pytest.raises(_core.RaceError, match="the host, which reads an array touch.*has to wait for an event"):
            runtime.host_reads(view)
        runtime.wait(copied)
        runtime.host_reads(view)
        runtime.copy_out(stream, found[: SIZE // 2], buffer.slice(0, SIZE // 2))
        runtime.host_reads(runtime.view(HOST, found[SIZE // 2 :]))
        with pytest.raises(_core.RaceError):
            runtime.host_reads(view)


def test_a_copy_into_memory_that_was_given_back() -> None:
    """Also where the copy knows its address alone, as the runs of a merge on the cores do."""
    runtime = machine(0)
    runs, stream = runtime.allocate(HOST, SIZE, "runs"), runtime.stream(GPU(0), "out")
    buffer = runtime.allocate(GPU(0), SIZE, "numbers")
    at_its_address = np.frombuffer((ctypes.c_uint8 * SIZE).from_address(runs.view.address), np.uint8)
    runtime.copy_out(stream, at_its_address, buffer.view)
    runs.release()
    with pytest.raises(_core.UseAfterFreeError, match="'runs' was given back while .*copy gpu0→host"):
        runtime.synchronize()


def test_scores_are_of_many_programs() -> None:
    names = Counter(name.split(",")[0].split()[0] for name in programs())
    assert names["sort"] > 40 and names["join"] > 25 and {"region", "gather", "flags"} <= set(names)
