"""Outputs that are written while their next parts are made."""

from __future__ import annotations

import io
import os
import resource
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import linkwise
from linkwise import _core
from linkwise.encoders import output_file
from linkwise.encoders.output_file import OutputFile
from linkwise.files.writing import writer

PARTS = [np.random.default_rng(n).integers(0, 256, n, dtype=np.uint8).tobytes() for n in (4, 0, 5000, 1, 99_999)]


@pytest.mark.parametrize("side_by_side", [False, True])
def test_parts_lie_behind_each_other(tmp_path: Path, side_by_side: bool) -> None:
    with (tmp_path / "f").open("w+b") as file:
        out = OutputFile(file, 10_000, side_by_side=side_by_side)
        for part in PARTS:
            out.write(part)
        out.flush()
        out.write(pa.py_buffer(b"the end"))
        out.flush()
        file.write(b"!")
    assert (tmp_path / "f").read_bytes() == b"".join(PARTS) + b"the end!"


@pytest.mark.parametrize("expected", [0, 1, 105_000, 1 << 20, 1 << 28])
def test_space_is_allocated_ahead(tmp_path: Path, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much: the file is as long as what is written."""
    monkeypatch.setattr(output_file, "_ALLOCATED_AT_ONCE", 1 << 16)
    with (tmp_path / "f").open("w+b") as file:
        out = OutputFile(file, 10_000, side_by_side=True)
        out.write(PARTS[0])
        out.expect(expected)
        for part in PARTS[1:]:
            out.write(part)
        out.flush()
        out.write(b"the end")
        out.flush()
    assert (tmp_path / "f").read_bytes() == b"".join(PARTS) + b"the end"


def test_as_much_again_is_allocated_where_the_size_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not for little, and never more than so much ahead."""
    ends: list[int] = []

    def allocate(file: int, offset: int, size: int) -> bool:
        ends.append(offset + size)
        return bool(_core.allocate(file, offset, size))

    monkeypatch.setattr(output_file, "_ALLOCATED_AT_ONCE", 1 << 16)
    monkeypatch.setattr(output_file, "_MOST_AHEAD", 1 << 17)
    monkeypatch.setattr(output_file, "_core", SimpleNamespace(allocate=allocate, write_at=_core.write_at))
    part = PARTS[-1][: 1 << 14]
    with (tmp_path / "f").open("w+b") as file:
        out = OutputFile(file, 1 << 20, side_by_side=True)
        for number in range(64):
            out.write(part)
            if number == 2:
                assert out._room is None
        room = out._room
        assert room is not None
        while not room.has((1 << 20) + (1 << 17)):
            time.sleep(0.001)
        out.flush()
    assert (tmp_path / "f").read_bytes() == 64 * part
    assert max(ends) == (1 << 20) + (1 << 17)


def test_sorts_allocate_about_the_size_of_their_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all rows come out as they came in; otherwise the size of the output is not known."""
    asked: list[int] = []
    monkeypatch.setattr(output_file, "_MANY_CORES", 1)
    monkeypatch.setattr(OutputFile, "expect", lambda _, size: asked.append(size))
    table = pa.table({"k": np.random.default_rng(3).permutation(300_000), "v": np.arange(300_000)})
    source = tmp_path / "t.parquet"
    pq.write_table(table, source, use_dictionary=False)
    linkwise.sort_file(source, tmp_path / "out.parquet", by="k", columns=["k"])
    linkwise.sort_file(source, tmp_path / "out.parquet", by="k")
    half, whole = asked
    size = source.stat().st_size
    assert size * 0.95 < whole <= size and size * 0.3 < half < size * 0.8
    for how in ({"limit": 9}, {"filter": "v < 9"}, {"compression": "zstd"}, {"host_memory_limit": "2MB"}):
        linkwise.sort_file(source, tmp_path / "out.parquet", by="k", **how)
    linkwise.sort_file(source, tmp_path / "out.arrow", by="k")
    assert len(asked) == 2


def test_space_that_there_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not be needed; if it is, those who write find out."""
    asked: list[int] = []

    def allocate(_: int, __: int, size: int) -> bool:
        asked.append(size)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output_file, "_core", SimpleNamespace(allocate=allocate, write_at=_core.write_at))
    with (tmp_path / "f").open("w+b") as file:
        out = OutputFile(file, 10_000, side_by_side=True)
        out.expect(1 << 62)
        while not asked:
            time.sleep(0.001)
        out.write(b"little")
        out.flush()
    assert (tmp_path / "f").read_bytes() == b"little" and len(asked) == 1


def test_nothing_is_allocated_after_giving_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(output_file, "_core", SimpleNamespace(allocate=lambda *told: asked.append(told[1]) or True))
    with (tmp_path / "f").open("w+b") as file:
        out = OutputFile(file, 10_000, side_by_side=True)
        out.expect(1 << 62)
        while not asked:
            time.sleep(0.001)
        out.cancel()
        tried = len(asked)
        time.sleep(0.02)
    assert len(asked) == tried


def test_what_is_no_regular_file_is_written_in_order() -> None:
    source, target = os.pipe()
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(os.fdopen(source, "rb").read()))
    reader.start()
    with os.fdopen(target, "wb") as file:
        out = OutputFile(file, 100, side_by_side=True)
        for part in PARTS:
            out.write(part)
        out.flush()
    reader.join()
    assert read == [b"".join(PARTS)]


@pytest.mark.parametrize("side_by_side", [False, True])
def test_a_part_that_finds_no_room(tmp_path: Path, side_by_side: bool) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (tmp_path / "f").open("w+b", buffering=0) as file:
        out = OutputFile(file, 1 << 30, side_by_side=side_by_side)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
        try:
            out.write(bytes(1 << 14))
            out.write(bytes(1 << 20))
            if not side_by_side:  # a write may be cut short first
                out.write(bytes(1))
            with pytest.raises(OSError, match="too large"):
                out.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_is_given_up_is_not_written() -> None:
    """But for the part that is being written."""
    go_on = threading.Event()

    class Slow(io.BytesIO):
        def write(self, data: Any) -> int:
            go_on.wait(10)
            return super().write(data)

    file = Slow()
    out = OutputFile(file, 1 << 20)
    for part in (b"a", b"b", b"c"):
        out.write(part)
    while not out._waiting[0][0].running():
        time.sleep(0.001)
    threading.Timer(0.05, go_on.set).start()
    out.cancel()
    assert file.getvalue() == b"a"


def test_closed_descriptors_are_errors() -> None:
    with pytest.raises(OSError, match="Bad file"):
        _core.write_at(-1, 0, np.zeros(1, np.uint8), False)


@pytest.mark.parametrize("suffix", ["parquet", "npy", "csv", "bin"])
def test_files_that_are_written_side_by_side(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte for byte as by one thread."""
    numbers = np.random.default_rng(3).permutation(300_000)
    source = tmp_path / f"t.{suffix}"
    if suffix == "npy":
        np.save(source, numbers)
    elif suffix == "bin":
        numbers.tofile(source)
    else:
        table = pa.table({"k": numbers, "text": [f"row {n}" for n in numbers]})
        pq.write_table(table, source) if suffix == "parquet" else pa.csv.write_csv(table, source)
    how: dict[str, Any] = {"row_group_rows": 40_000} if suffix == "parquet" else {}
    how |= {"by": None if suffix in ("npy", "bin") else "k", "dtype": "int64" if suffix == "bin" else None}
    monkeypatch.setattr(writer, "_AT_ONCE", 100_000)
    for name, many_cores in (("one", 1 << 30), ("many", 1)):
        monkeypatch.setattr(output_file, "_MANY_CORES", many_cores)
        linkwise.sort_file(source, tmp_path / f"{name}.{suffix}", strategy="cpu", **how)
    assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"many.{suffix}").read_bytes()


def test_nothing_is_written_behind_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What still waited would go to whatever file has the descriptor next."""
    ran: list[int] = []

    def write_at(_: int, offset: int, data: object, __: bool) -> None:
        ran.append(offset)
        time.sleep(0.01)
        if offset == 10:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(output_file, "_core", SimpleNamespace(write_at=write_at))
    with (tmp_path / "f").open("w+b") as file:
        out = OutputFile(file, 1 << 20, side_by_side=True)
        with pytest.raises(OSError, match="No space"):
            for _ in range(100_000):
                out.write(b"x" * 10)
                time.sleep(0.0001)
    tried = len(ran)
    time.sleep(0.1)
    assert len(ran) == tried


@pytest.mark.parametrize("mode", ["ab", "wb"])
def test_what_others_write_to_is_appended_to(tmp_path: Path, mode: str) -> None:
    (tmp_path / "f").write_bytes(b"before ")
    with (tmp_path / "f").open(mode) as file:
        out = OutputFile(file, 10_000, side_by_side=True)
        for part in PARTS:
            out.write(part)
        out.flush()
    assert (tmp_path / "f").read_bytes() == (b"before " if mode == "ab" else b"") + b"".join(PARTS)
