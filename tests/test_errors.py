"""Everything that can go wrong, provoked: one clear line, and nothing is lost."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import linkwise
from linkwise import _core
from linkwise.runtime import session

MACHINE: dict[str, Any] = {"machine": "h200x8", "gpus": [4, 5], "strategy": "radix"}
IS_ROOT = os.name == "posix" and os.geteuid() == 0


def numbers(count: int = 200_000) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(0, 1 << 32, count, dtype=np.uint32)


def with_faults(monkeypatch: pytest.MonkeyPatch, **faults: int) -> list[_core.VirtualRuntime]:
    """Every virtual machine from now on has them; returns those that were made."""
    made: list[_core.VirtualRuntime] = []
    really_make = session._virtual_runtime

    def make(machine: _core.Machine) -> _core.Runtime:
        runtime = really_make(machine)
        assert isinstance(runtime, _core.VirtualRuntime)
        runtime.set_faults(**faults)
        made.append(runtime)
        return runtime

    monkeypatch.setattr(session, "_virtual_runtime", make)
    return made


@pytest.mark.parametrize("name", ["o.npy", "o.parquet", "o.arrow", "o.csv"])
def test_the_output_does_not_fit_on_the_disk(name: str, small_disk: Path, tmp_path: Path) -> None:
    (small_disk / name).write_text("precious")
    if name == "o.npy":
        np.save(tmp_path / "in.npy", numbers(1_000_000))
        source, by = tmp_path / "in.npy", None
    else:
        pq.write_table(pa.table({"x": numbers(1_000_000)}), tmp_path / "in.parquet")
        source, by = tmp_path / "in.parquet", "x"
    for memory in (None, "2MiB"):
        with pytest.raises(linkwise.Error, match=rf"cannot write .*disk/{name}: No space left on device"):
            linkwise.sort_file(source, small_disk / name, by=by, strategy="cpu", host_memory_limit=memory, force=True)
        gc.collect()
        assert (small_disk / name).read_text() == "precious"
        assert os.listdir(small_disk) == [name]


def test_the_runs_do_not_fit_on_the_disk(small_disk: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", numbers(1_000_000))
    with pytest.raises(linkwise.Error, match=r"cannot spill a run to .*disk.*No space left.*name another directory"):
        linkwise.sort_file(
            tmp_path / "in.npy",
            tmp_path / "o.npy",
            strategy="cpu",
            force=True,
            host_memory_limit="2MiB",
            temporary_directory=small_disk,
        )
    assert not os.listdir(small_disk) and not (tmp_path / "o.npy").exists()
    with pytest.raises(linkwise.UsageError, match="cannot spill to none: No such file or directory; name an existing"):
        linkwise.sort_file(
            tmp_path / "in.npy",
            tmp_path / "o.npy",
            strategy="cpu",
            host_memory_limit="2MiB",
            temporary_directory="none",
        )


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.feather", "a.npy", "a.bin"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99])
def test_truncated_files(name: str, share: float, tmp_path: Path) -> None:
    data = pa.table({"x": numbers(50_000), "text": [f"text {n}" for n in range(50_000)]})
    if name == "t.parquet":
        pq.write_table(data, tmp_path / name)
    elif name.startswith("t"):
        with pa.OSFile(str(tmp_path / name), "wb") as sink, pa.ipc.new_file(sink, data.schema) as writer:
            writer.write_table(data)
    elif name == "a.npy":
        np.save(tmp_path / name, numbers())
    else:
        numbers().tofile(tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: int(len(whole) * share) // 2 * 2 + (0 if share == 0 else 1)])
    if name == "a.bin" and share == 0:  # an array of no numbers
        linkwise.sort_file(tmp_path / name, tmp_path / "out.bin", dtype="u4", strategy="cpu")
        assert (tmp_path / "out.bin").read_bytes() == b""
        return
    out = tmp_path / f"out{Path(name).suffix}"
    out.write_text("precious")
    for memory in (None, "100KiB"):
        with pytest.raises(linkwise.Error, match=rf"cannot read .*{name}: ") as raised:
            linkwise.sort_file(
                tmp_path / name,
                out,
                by="x" if name.startswith("t") else None,
                dtype="u4",
                strategy="cpu",
                host_memory_limit=memory,
            )
        assert "\n" not in str(raised.value)
        assert out.read_text() == "precious" and len(list(tmp_path.iterdir())) == 2


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", numbers(10))
    (tmp_path / "d.npy").mkdir()
    with pytest.raises(linkwise.Error, match=r"there is no table in the directory .*d\.npy"):
        linkwise.sort_file(tmp_path / "d.npy", tmp_path / "o.npy", strategy="cpu")
    with pytest.raises(linkwise.Error, match=r"d\.npy is a directory; name a file in it"):
        linkwise.sort_file(tmp_path / "a.npy", tmp_path / "d.npy", strategy="cpu")
    with pytest.raises(linkwise.Error, match=r"cannot write none/o\.npy: No such file or directory"):
        linkwise.sort_file(tmp_path / "a.npy", "none/o.npy", strategy="cpu")
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "d.npy"]
    np.save(tmp_path / "two.npy", np.zeros((2, 2)))
    with pytest.raises(linkwise.UsageError, match="one dimension, not 2"):
        linkwise.sort_file(tmp_path / "two.npy", tmp_path / "o.npy", strategy="cpu")
    if not IS_ROOT:
        (tmp_path / "a.npy").chmod(0)
        with pytest.raises(linkwise.Error, match=r"cannot read .*a\.npy: Permission denied"):
            linkwise.sort_file(tmp_path / "a.npy", tmp_path / "o.npy", strategy="cpu")


def test_a_limit_that_is_too_small_to_make_progress() -> None:
    with pytest.raises(linkwise.OutOfMemoryError, match="memory_limit") as raised:
        linkwise.sort(numbers(), memory_limit=1000, **MACHINE)
    assert "\n" not in str(raised.value)
    assert (linkwise.sort(numbers(), memory_limit="1%", **MACHINE) == np.sort(numbers())).all()
    for wrong in ("0%", "101%", "1e3%", "4GB!", "GiB", ""):
        with pytest.raises(linkwise.UsageError, match="size|part of a memory"):
            linkwise.sort(numbers(10), memory_limit=wrong, **MACHINE)


def test_a_gpu_that_has_less_memory_than_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tried again in ever smaller rounds, with a warning; and an error where even little does not fit."""
    gib = _gpu_gib()
    data = numbers(1_000_000)
    made = with_faults(monkeypatch, memory_of_others=int(gib * (1 << 30)) - (6 << 20))
    with pytest.warns(
        linkwise.FallbackWarning, match="others have taken the memory.*: sorting in rounds of 500000 rows"
    ):
        result, report = linkwise.sort_and_report(data, **MACHINE)
    assert (result == np.sort(data)).all() and report.verified
    assert len(made) == 1
    with_faults(monkeypatch, memory_of_others=int(gib * (1 << 30)))
    with (
        warnings.catch_warnings(),
        pytest.raises(linkwise.OutOfMemoryError, match="free GPU memory, lower memory_limit"),
    ):
        warnings.simplefilter("ignore", linkwise.FallbackWarning)
        linkwise.sort(data, **MACHINE)


def test_a_join_on_gpus_that_have_less_memory_than_they_said(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = numbers(50_000), numbers(80_000)
    expected = linkwise.join_count(left, right, strategy="cpu")
    with_faults(monkeypatch, memory_of_others=int(_gpu_gib() * (1 << 30)))
    for found in (
        lambda: linkwise.join_count(left, right, **MACHINE),
        lambda: len(linkwise.join_indices(left, right, **MACHINE)[0]),
    ):
        with pytest.warns(linkwise.FallbackWarning, match="found on the cores"):
            assert found() == expected


def _gpu_gib() -> float:
    return linkwise.load_machine("h200x8").gpu.memory_gib


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["failing_operation", "failing_allocation"])
@pytest.mark.parametrize("work", ["radix", "p2p_merge", "het", "lists", "join of lists"])
def test_every_operation_and_allocation_fails(work: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is right or one line, and all memory can be given back; retries run nothing of what was abandoned."""
    parts = [numbers(3000), numbers(3000) + np.uint32(1)]

    def run() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if work == "lists":
                return np.concatenate([np.asarray(part) for part in linkwise.sort(parts, machine="h200x8")])
            if work == "join of lists":
                return linkwise.join_count(parts, parts, "inner", machine="h200x8")
            return linkwise.sort(np.concatenate(parts), **MACHINE | {"strategy": work})

    expected, right = run(), 0
    for k in range(1, 200):
        made = with_faults(monkeypatch, **{kind: k})
        try:
            assert np.array_equal(run(), expected)
            right += 1
        except linkwise.Error as error:
            assert isinstance(error, linkwise.DeviceError | linkwise.OutOfMemoryError) and "\n" not in str(error)
            right = 0
        gc.collect()
        for runtime in made:
            runtime.set_faults()
            runtime.trim()
            assert not any(runtime.reserved(_core.Place.gpu(gpu)) for gpu in range(8))
        monkeypatch.undo()
        if right > 12:  # there are no more
            return
    raise AssertionError("there are always more")


@pytest.mark.parametrize("strategy", ["radix", "p2p_merge", "het"])
def test_a_device_that_fails_in_the_middle(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = numbers()
    out = np.full(len(data), 7, np.uint32)
    how = MACHINE | {"strategy": strategy}
    before = data.copy()
    for operation in (1, 5, 12):
        made = with_faults(monkeypatch, failing_operation=operation)
        with pytest.raises(linkwise.DeviceError, match="failed on its device") as raised:
            linkwise.sort(data, out=out, **how)
        assert "\n" not in str(raised.value)
        assert (data == before).all()
        whole = int(_gpu_gib() * (1 << 30))
        assert all(made[0].available(_core.Place.gpu(gpu)) == whole for gpu in (4, 5)), "all memory has come back"
        monkeypatch.undo()
    assert (linkwise.sort(data, out=out, **how) == np.sort(data)).all(), "the process goes on"


def test_a_device_that_fails_while_a_file_is_sorted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": numbers()}), tmp_path / "in.parquet")
    (tmp_path / "o.parquet").write_text("precious")
    for memory in (None, "400KiB"):
        with_faults(monkeypatch, failing_operation=3)
        with pytest.raises(linkwise.DeviceError):
            linkwise.sort_file(
                tmp_path / "in.parquet",
                tmp_path / "o.parquet",
                by="x",
                host_memory_limit=memory,
                temporary_directory=tmp_path,
                **MACHINE,
            )
        assert sorted(os.listdir(tmp_path)) == ["in.parquet", "o.parquet"]
        assert (tmp_path / "o.parquet").read_text() == "precious"


def test_fallbacks_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    three = MACHINE | {"gpus": [0, 1, 2], "strategy": "p2p_merge"}
    with pytest.warns(
        linkwise.FallbackWarning, match="p2p_merge runs on 2, 4, 8, … GPUs, not on 3: radix runs instead"
    ):
        _, report = linkwise.sort_and_report(numbers(), **three)
    assert report.strategy == "radix"
    with pytest.warns(linkwise.FallbackWarning, match="not on 3"):
        linkwise.sort([numbers(10), numbers(20), numbers(5)], machine="h200x8", strategy="p2p_merge")

    def refuse(bytes: int, numa_node: int) -> Any:
        raise linkwise.OutOfMemoryError("pin 8 bytes of host memory: not now")

    monkeypatch.setattr(_core, "pinned_bytes", refuse)
    with pytest.warns(linkwise.FallbackWarning, match="not now: this array is in pageable memory"):
        assert linkwise.empty((2, 3), np.int16).shape == (2, 3)


def test_the_command_line_says_warnings_in_a_line(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", numbers(10_000))
    done = subprocess.run(
        [sys.executable, "-m", "linkwise", "sort", tmp_path / "a.npy", "-o", tmp_path / "o.npy", "--machine", "h200x8",
         "--gpus", "0,1,2", "--strategy", "p2p_merge"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert done.stderr == "linkwise: warning: p2p_merge runs on 2, 4, 8, … GPUs, not on 3: radix runs instead\n"


def test_calls_from_several_threads() -> None:
    """Of every kind at once, on the virtual machine and on the cores; each gets its own right result."""
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            data = np.random.default_rng(seed).integers(0, 1000, 20_000)
            table = pa.table({"a": [f"key {n % 50}" for n in data], "n": data})
            how: dict[str, Any] = [MACHINE, {"strategy": "cpu"}][seed % 2]
            assert (linkwise.sort(data, **how) == np.sort(data)).all()
            expected = table.append_column("row", [np.arange(len(data))]).sort_by(
                [("a", "ascending"), ("n", "descending"), ("row", "ascending")]
            )
            assert linkwise.sort(table, by=["a", "n"], descending=[False, True], **how).equals(
                expected.drop_columns("row")
            )
            assert linkwise.unique(data, **how).tolist() == np.unique(data).tolist()
            assert linkwise.top_k(data, 5, **how).tolist() == np.sort(data)[:-6:-1].tolist()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=[seed]) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_the_interpreter_goes_on_meanwhile() -> None:
    data = np.random.default_rng(0).random(3_000_000)
    ticks = 0
    sorter = threading.Thread(target=lambda: linkwise.sort(data, strategy="cpu"))
    sorter.start()
    while sorter.is_alive():
        ticks += 1
        sorter.join(0.001)
    assert ticks > 5


def test_processes_that_write_one_file(tmp_path: Path) -> None:
    """The last one wins, whole."""
    np.save(tmp_path / "a.npy", numbers(300_000))
    command = [
        sys.executable,
        "-m",
        "linkwise",
        "sort",
        tmp_path / "a.npy",
        "-o",
        tmp_path / "o.npy",
        "--strategy",
        "cpu",
    ]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(4)]
    assert [process.wait(120) for process in running] == [0] * 4
    assert (np.load(tmp_path / "o.npy") == np.sort(numbers(300_000))).all()
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "o.npy"]


def growths(rounds: int) -> list[int]:
    """By how many bytes each round of the same sorts makes this process larger."""
    table = pa.table({"text": [f"some text {n * 7919 % 50_000}" for n in range(50_000)], "n": range(50_000)})

    def resident() -> int:
        gc.collect()
        pa.default_memory_pool().release_unused()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def work() -> None:
        linkwise.sort(table, by=["text", "n"], strategy="cpu")
        linkwise.sort(table, by="n", **MACHINE)
        linkwise.unique(table, by="text", strategy="cpu")
        with pytest.raises(linkwise.UsageError):
            linkwise.sort(table, by=["text", "none"])

    found = []
    for _ in range(rounds):
        before = resident()
        for _ in range(15):
            work()
        found.append(resident() - before)
    return found


def test_nothing_leaks() -> None:
    """Sorting the same again and again takes no more memory than the first times did.

    What leaks grows in every round; what threads and allocators keep comes and goes, the more so on busy cores. In a
    process of its own, for other tests leave some as well.
    """
    program = "import test_errors; print(*test_errors.growths(5))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    )
    assert min(map(int, done.stdout.split())) < 1 << 18


def test_text_that_is_broken_behind_much_more_of_it() -> None:
    """While Arrow's threads are still reading standard input."""
    text = b"id,v\n0,a\n5\n" + b"1,abcdefghij\n" * 3_000_000
    done = subprocess.run(
        [sys.executable, "-m", "linkwise", "sort", "-", "-o", "-", "-k", "id"],
        input=text,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


def test_several_columns_of_one_name() -> None:
    for key in ("id", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "linkwise", "sort", "-", "-o", "-", "-k", key], input=b"id,id\n1,2\n",
            capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert b"several columns 'id'" in done.stderr


def nameless_files(process: int, directory: Path) -> list[str]:
    """What a process writes in a directory where nobody can see it."""
    with contextlib.suppress(OSError):
        links = [os.readlink(link) for link in Path(f"/proc/{process}/fd").iterdir()]
        return [link for link in links if link.startswith(str(directory)) and link.endswith("(deleted)")]
    return []


def test_who_is_terminated_leaves_nothing(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": np.random.default_rng(0).permutation(4_000_000)}), tmp_path / "a.parquet")
    with subprocess.Popen(
        [sys.executable, "-m", "linkwise", "sort", "a.parquet", "-o", "b.parquet", "-k", "k", "-S", "5MiB", "-T", "."],
        cwd=tmp_path, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        while process.poll() is None and not nameless_files(process.pid, tmp_path):
            time.sleep(0.02)
        process.terminate()
        assert process.wait(60) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]
