"""What must not be lost: rows that a filter means, and what lies where an output goes, whatever happens meanwhile."""

from __future__ import annotations

import datetime
import errno
import os
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import linkwise
from linkwise.runtime.atomic_directory import AtomicDirectory
from linkwise.runtime.atomic_file import AtomicFile
from linkwise.runtime.signals import uninterrupted

TABLE = pa.table({"k": [2, 1, 3]})


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "linkwise", *arguments], capture_output=True, text=True, check=False, **options
    )


EXACT = pa.table(
    {
        "row": [0, 1, 2],
        "cents": pa.array([Decimal("0.00"), Decimal("0.01"), Decimal("0.02")], pa.decimal128(10, 2)),
        "fine": pa.array([Decimal("0.1"), Decimal("0.2"), None], pa.decimal128(38, 20)),
        "long": pa.array([Decimal("12345678901234567890.12"), 1, 2], pa.decimal128(38, 2)),
        "i": [9007199254740992, 9007199254740993, 5],
        "u": pa.array([18446744073709551615, 1, 2], pa.uint64()),
    }
)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("cents > 0.005", [1, 2]), ("cents >= 0.005", [1, 2]), ("cents < 0.015", [0, 1]), ("cents <= 0.015", [0, 1]),
        ("cents = 0.005", []), ("cents != 0.005", [0, 1, 2]), ("cents in (0.005, 0.01)", [1]), ("cents = 0.01", [1]),
        ("fine = 0.1", [0]), ("fine > 0.1", [1]), ("fine != 0.15555555555555555555555", [0, 1]),
        ("not fine = 0.15555555555555555555555", [0, 1]), ("long = 12345678901234567890.12", [0]),
        ("i = 9007199254740993.0", [1]), ("i = 9007199254740993", [1]), ("i > 4.5", [0, 1, 2]), ("i < 5.5", [2]),
        ("i = 5e0", [2]), ("u = 18446744073709551615", [0]), ("u < 1.5", [1]),
    ],
)  # fmt: skip
def test_filters_compare_exact_numbers_exactly(rows: str, expected: list[int], tmp_path: Path) -> None:
    pq.write_table(EXACT, tmp_path / "t.parquet")
    linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.parquet", by="row", filter=rows)
    assert pq.read_table(tmp_path / "o.parquet")["row"].to_pylist() == expected


def test_numbers_of_too_many_digits() -> None:
    with pytest.raises(linkwise.UsageError, match=r"is no decimal128\(10, 2\)"):
        linkwise.sort_batches(EXACT, by="row", filter="cents > 1e999999")


def test_long_integers_in_json_are_told_apart(tmp_path: Path) -> None:
    lines = '{"a":123456789012345678902,"n":1}\n{"a":123456789012345678901,"n":2}\n'
    (tmp_path / "b.jsonl").write_text(lines)
    with pytest.warns(linkwise.FallbackWarning, match="more than 64 bits"):
        linkwise.sort_file(tmp_path / "b.jsonl", tmp_path / "o.jsonl", by="a", unique=True)
    assert (tmp_path / "o.jsonl").read_text() == "".join(f"{line}\n" for line in lines.split("\n")[1::-1])
    (tmp_path / "f.jsonl").write_text('{"a":123456789012345678902}\n{"a":0.5}\n')  # floats, then
    linkwise.sort_file(tmp_path / "f.jsonl", tmp_path / "o.parquet", by="a")
    assert pq.read_schema(tmp_path / "o.parquet").field("a").type == pa.float64()


def test_dates_in_json(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"d":"2020-01-02","n":1}\n{"d":"2020-01-01","n":2}\n')
    dates = pa.table({"d": pa.array([18262], pa.date32())})
    linkwise.join_file(tmp_path / "d.jsonl", dates, tmp_path / "o.parquet", "d", column_types={"d": "date32"})
    assert pq.read_table(tmp_path / "o.parquet").to_pydict() == {"d": [datetime.date(2020, 1, 1)], "n": [2]}


def test_a_header_without_a_line_end(tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_text("k,v")
    assert linkwise.sort_file(tmp_path / "h.csv", tmp_path / "o.parquet", by="k").rows == 0
    assert pq.read_schema(tmp_path / "o.parquet").names == ["k", "v"]
    told = run("sort", "-", "-o", "p.parquet", "-k", "k", input="k,v", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert pq.read_metadata(tmp_path / "p.parquet").num_rows == 0


@pytest.mark.parametrize("out", ["o.csv", "o.parquet"])
@pytest.mark.parametrize("limit", [None, "64KiB"])
def test_a_quote_that_is_not_closed(out: str, limit: str | None, tmp_path: Path) -> None:
    rows = "a,b\n3,x\n" + "7,y\n" * 20_000
    for end in ('1,"broken\n2,y\n0,z\n', '1,"broken\n2,y\n0,z', '1,"broken\n'):
        (tmp_path / "u.csv").write_text(rows + end)
        with pytest.raises(linkwise.Error, match="a quote is open at its end"):
            linkwise.sort_file(tmp_path / "u.csv", tmp_path / out, by="a", host_memory_limit=limit)
    for end in ('1,"whole\n2,y"\n', '1,"whole\n2,y"', '1,"a\n"\r\n', "1,5 inches\n"):
        (tmp_path / "u.csv").write_text(rows + end)
        assert linkwise.sort_file(tmp_path / "u.csv", tmp_path / out, by="a", host_memory_limit=limit).rows == 20_002


def test_pages_that_do_not_match_their_checksums(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"k": range(1000, 2000)}), tmp_path / "t.parquet", write_page_checksum=True, compression="none",
        use_dictionary=False,
    )  # fmt: skip
    damaged = bytearray((tmp_path / "t.parquet").read_bytes())
    damaged[damaged.index((1500).to_bytes(8, "little"))] ^= 1
    (tmp_path / "t.parquet").write_bytes(damaged)
    with pytest.raises(linkwise.Error, match="could not verify page integrity|checksum|CRC"):
        linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.parquet", by="k")


def test_json_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "u.jsonl").write_bytes(b'{"a":1,"b":"\xff"}\n')
    with pytest.raises(linkwise.Error, match=r"u\.jsonl is not UTF-8"):
        linkwise.sort_file(tmp_path / "u.jsonl", tmp_path / "o.parquet", by="a")


def test_directories_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With those that are linked to; one that leads back is read once, one that cannot be read is an error."""
    inside, elsewhere = tmp_path / "in", tmp_path / "elsewhere"
    for folder in (inside / "a", elsewhere):
        folder.mkdir(parents=True)
        pq.write_table(TABLE, folder / "t.parquet")
    (inside / "linked").symlink_to(elsewhere)
    (inside / "back").symlink_to(inside)
    assert linkwise.sort_file(inside, tmp_path / "o.parquet", by="k").rows == 6
    (inside / "back").unlink()
    assert linkwise.sort_file(f"{inside}/**/*.parquet", tmp_path / "o.parquet", by="k").rows == 6
    with pytest.raises(linkwise.UsageError, match="no file matches"):
        linkwise.sort_file(f"{tmp_path}/nowhere/**/*.parquet", tmp_path / "o.parquet", by="k")
    scan = os.scandir

    def scan_but_one(folder: Any) -> Any:
        if Path(folder) == inside / "a":  # as if it had no permission for us, which root has everywhere
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
        return scan(folder)

    monkeypatch.setattr(os, "scandir", scan_but_one)
    for source in (inside, f"{inside}/**/*.parquet"):
        with pytest.raises(linkwise.Error, match=r"cannot read .*/in/a: Permission denied"):
            linkwise.sort_file(source, tmp_path / "o.parquet", by="k")


def test_inputs_are_not_replaced_by_accident(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    linkwise.sort_file(tmp_path, tmp_path / "o.parquet", by="k")
    with pytest.raises(linkwise.UsageError, match=r"o\.parquet is one of the files in a directory that is read"):
        linkwise.sort_file(tmp_path, tmp_path / "o.parquet", by="k")
    linkwise.sort_file([tmp_path / "t.parquet", tmp_path / "o.parquet"], tmp_path / "o.parquet", by="k")  # as named
    with pytest.raises(linkwise.UsageError, match="has an input in it"):
        linkwise.join_file(
            tmp_path / "t.parquet", TABLE, tmp_path, "k", file_rows=1, output_format="parquet", force=True
        )
    for option in ("--trace", "--picture"):
        told = run("sort", "t.parquet", "-o", "new.parquet", "-k", "k", option, "t.parquet", cwd=tmp_path)
        assert (told.returncode, told.stderr.count("\n")) == (2, 1)
    assert "--trace o.parquet would replace o.parquet" in run(
        "join", "t.parquet", "t.parquet", "-o", "o.parquet", "--on", "k", "--trace", "o.parquet", cwd=tmp_path
    ).stderr  # fmt: skip
    assert pq.read_table(tmp_path / "t.parquet").equals(TABLE)


def test_a_directory_that_others_fill_meanwhile_stays(tmp_path: Path) -> None:
    target = tmp_path / "o"
    directory = AtomicDirectory(target).__enter__()
    target.mkdir()
    (target / "precious").touch()
    with pytest.raises(linkwise.UsageError, match="has files in it"):
        directory.commit()
    directory.discard()
    assert [each.name for each in tmp_path.iterdir()] == ["o"]
    assert [each.name for each in target.iterdir()] == ["precious"]


def test_a_directory_takes_the_place_of_another_as_a_whole(tmp_path: Path) -> None:
    """Its mode is kept, and a link to it stays one."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir(mode=0o700)
    link.symlink_to(real)
    for name in ("first", "second"):
        directory = AtomicDirectory(link, force=name == "second").__enter__()
        (directory.path / name).touch()
        directory.commit()
        assert [each.name for each in real.iterdir()] == [name]
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o700
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "real"]
    with pytest.raises(linkwise.UsageError, match="cannot be replaced"):
        AtomicDirectory(Path("/"))


def test_what_is_complete_is_not_called_unwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that comes during a commit is held back until it has ended."""
    rename = Path.replace

    def interrupted_rename(self: Path, target: Path) -> Path:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", interrupted_rename)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell runs tests beside others
    try:
        with pytest.raises(KeyboardInterrupt, match=r"o\.txt is complete"), AtomicFile(tmp_path / "o.txt") as file:
            file.file.write(b"all of it")
    finally:
        signal.signal(signal.SIGINT, before)
    assert [each.name for each in tmp_path.iterdir()] == ["o.txt"]
    assert (tmp_path / "o.txt").read_bytes() == b"all of it"


def test_a_failure_comes_before_an_interrupt() -> None:
    with pytest.raises(ValueError, match="failed"), uninterrupted("done"):
        os.kill(os.getpid(), signal.SIGINT)
        raise ValueError("failed")


def test_signals_that_are_ignored_stay_ignored(tmp_path: Path) -> None:
    """As nohup has SIGHUP, and a shell SIGINT of what runs in the background."""
    pq.write_table(pa.table({"k": range(3_000_000)}), tmp_path / "t.parquet")
    command = f"{sys.executable} -m linkwise sort t.parquet -o o.parquet -k k -S 8MiB"
    process = subprocess.Popen(
        ["sh", "-c", f"trap '' HUP INT TERM; exec {command}"], cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM) * 3:
        time.sleep(0.1)
        process.send_signal(each)
    assert process.wait(60) == 0
    assert pq.read_metadata(tmp_path / "o.parquet").num_rows == 3_000_000


def test_memory_that_is_too_little_for_a_join(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": range(1_000_000)}), tmp_path / "t.parquet")
    with pytest.raises(linkwise.UsageError, match=r"1,024 bytes of host memory are too little for [\d,]+ bytes"):
        linkwise.join_file(*[tmp_path / "t.parquet"] * 2, tmp_path / "o.parquet", "k", host_memory_limit="1KiB")
    with pytest.raises(linkwise.UsageError, match="a filter is text or an expression of PyArrow, not a"):
        linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.parquet", by="k", filter=7)


def test_help_without_a_command_says_nothing_more() -> None:
    told = run("plan")
    assert (told.returncode, told.stderr) == (2, "")
    assert "Commands" in told.stdout
