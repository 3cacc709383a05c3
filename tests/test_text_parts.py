"""Text that is read part by part: a part ends where a row does."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import linkwise
from linkwise import _core
from linkwise.files.reading import line_reader

FIELDS = st.text(st.sampled_from('ab",\n'), max_size=6)
LITTLE = {"strategy": "cpu", "host_memory_limit": "1MiB"}


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@given(st.lists(st.lists(FIELDS, min_size=2, max_size=3), min_size=1, max_size=5), st.integers(0, 200))
def test_parts_have_whole_rows(rows: list[list[str]], length: int) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(rows)
    text = out.getvalue()
    end = _core.end_of_last_row(text[:length].encode(), ",")
    assert rows_of(text[:end]) + rows_of(text[end:]) == rows
    ends = [0]
    for row in rows:
        one = io.StringIO(newline="")
        csv.writer(one, lineterminator="\n").writerow(row)
        ends.append(ends[-1] + len(one.getvalue()))
    assert end == max(at for at in ends if at <= length) if "\n" in text[:length] else end in ends


@pytest.mark.parametrize(
    "text, end",
    [
        *(
            ("", 0),
            ("a,b", 0),
            ("a\n", 2),
            ("a\rb\r", 2),
            ("a\r\nb", 3),
            ("a\r", 0),
            ('a\r"b\n"\rc', 7),
            ('a"b\n"c\nd', 4),
        ),
        *(('"a""\n', 0), ('"a""\n"\n', 7), ('"a"b\n"', 5)),
    ],
)
def test_ends_of_rows(text: str, end: int) -> None:
    assert _core.end_of_last_row(text.encode(), ",") == end


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("how", [LITTLE, {"strategy": "cpu"}])
def test_rows_longer_than_a_part(tmp_path: Path, header: bool, how: dict[str, Any]) -> None:
    rows = [(n * 7919 % 1000, f'{n}"\n' + "x" * (9 << 20 if n in (10, 500) else 900)) for n in range(1000)]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("k", "text"), *rows] if header else rows)
    linkwise.sort_file(
        tmp_path / "t.csv", tmp_path / "o.arrow", by="k" if header else "f0", header=header, **how,
    )  # fmt: skip
    found = pa.ipc.open_file(tmp_path / "o.arrow").read_all()
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == sorted(rows)


def test_a_row_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "_LONGEST_ROW", 20 << 20)
    (tmp_path / "t.csv").write_bytes(b"k,text\n" + b"1,a\n" * (5 << 20) + b'2,"' + b"x\n" * (20 << 20))
    with pytest.raises(linkwise.Error, match="a row takes more than 20 MiB; is a quote missing"):
        linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.csv", by="k", **LITTLE)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize("memory", ["1MiB", "64MiB"])
def test_the_row_that_is_wrong_is_told(tmp_path: Path, memory: str) -> None:
    """Though with more memory, several parts are parsed at once."""
    names = "1,Row #7,CSV column #0"  # stay as they are in the message
    for before, wrong, header, says in (
        (2_000_000, "1,2,3", True, "Row #2000002"),  # in the beginning, of which types are inferred
        (5_000_000, "1,2,3", True, "Row #5000002: Expected 2 columns, got 3: 1,2,3;"),
        (5_000_000, names, True, f"Row #5000002: Expected 2 columns, got 3: {names};"),
        (5_000_000, "1,z", False, "In column 'f1': Row #5000001: CSV conversion error to int64: invalid value 'z'"),
    ):
        rows = "1,2\n" * before + wrong + "\n" + "1,2\n" * 1_000_000
        (tmp_path / "t.csv").write_text(("k,v\n" if header else "") + rows)
        with pytest.raises(linkwise.Error, match=says):
            linkwise.sort_file(
                tmp_path / "t.csv", tmp_path / "o.csv", by="k" if header else "f0", header=header, strategy="cpu",
                columns=None if header else ["f0", "f1"], host_memory_limit=memory,
            )  # fmt: skip


def test_the_line_of_json_that_is_wrong_is_told(tmp_path: Path) -> None:
    lines = '{"a":1}\n' * 2_500_000 + '{"a":"x"}\n' + '{"a":1}\n' * 500_000
    (tmp_path / "t.jsonl").write_text(lines)
    for memory in ("64MiB", None):
        with pytest.raises(linkwise.Error, match="changed from number to string in row 2500000; types are those"):
            linkwise.sort_file(
                tmp_path / "t.jsonl", tmp_path / "o.arrow", by="a", strategy="cpu", host_memory_limit=memory
            )


@pytest.mark.parametrize("how", [LITTLE, {"strategy": "cpu"}])
@pytest.mark.parametrize("end", ["", "\n"])
def test_objects_of_several_lines(tmp_path: Path, how: dict[str, Any], end: str) -> None:
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({"a": key}, indent=1) for key in (2, 1)) + end)
    linkwise.sort_file(tmp_path / "t.jsonl", tmp_path / "o.arrow", by="a", **how)
    assert pa.ipc.open_file(tmp_path / "o.arrow").read_all()["a"].to_pylist() == [1, 2]


@pytest.mark.parametrize("how", [{"strategy": "cpu", "host_memory_limit": "64KiB"}, {"strategy": "cpu"}])
@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("t.csv", b"k,v\r\n" + b"5,x\r\n" * 100_000 + b"1,y", b"k,v\r\n1,y\r\n" + b"5,x\r\n" * 100_000),
        ("t.jsonl", b'{"k":2}\r\n{"k":1}', b'{"k":1}\r\n{"k":2}\r\n'),
        ("t.csv", b"k,v\n" + b"\xef\xbb\xbf2,b\n" * 200_000 + b"1,a\n", b"k,v\n1,a\n" + b"\xef\xbb\xbf2,b\n" * 200_000),
    ],
)
def test_rows_stay_as_they_are(tmp_path: Path, name: str, text: bytes, expected: bytes, how: dict[str, Any]) -> None:
    (tmp_path / name).write_bytes(text)
    types = {"k": "string"} if name == "t.csv" else None
    linkwise.sort_file(tmp_path / name, tmp_path / f"o-{name}", by="k", column_types=types, **how)
    assert (tmp_path / f"o-{name}").read_bytes() == expected


@pytest.mark.parametrize("how", [LITTLE, {"strategy": "cpu"}])
@pytest.mark.parametrize("out", ["o.arrow", "o.csv"])
def test_quotes_that_are_open_at_the_end(tmp_path: Path, out: str, how: dict[str, Any]) -> None:
    """Are told, whatever the type and the line ends; a value of several lines is none of them."""
    for text, types in (
        (b'a,b\n3,x\n2,"3\n1,4""\n', None), (b'a,b\n3,x\n2,"3\n1,4\n', {"b": "binary"}),
        (b'a,b\r3,x\r2,"3\r1,4\r0,6\r', None),
    ):  # fmt: skip
        (tmp_path / "t.csv").write_bytes(text)
        with pytest.raises(linkwise.Error, match="a quote is open at its end; close it"):
            linkwise.sort_file(tmp_path / "t.csv", tmp_path / out, by="a", column_types=types, **how)
    for text in (b'a,b\n2,3\n1,"x\ny"\n\n\n\n', b'a,b\n2,3\n1,"x\ny"   \n'):
        (tmp_path / "t.csv").write_bytes(text)
        linkwise.sort_file(tmp_path / "t.csv", tmp_path / out, by="a", **how)


@pytest.mark.parametrize("how", [LITTLE, {"strategy": "cpu"}])
def test_one_line_without_an_end(tmp_path: Path, how: dict[str, Any]) -> None:
    for header, text, by, rows in ((True, "a,b", "a", []), (False, "1,2", "f0", [{"f0": 1, "f1": 2}]),
        (False, "1,2\r", "f0", [{"f0": 1, "f1": 2}]), (False, '1,"2\n"', "f0", [{"f0": 1, "f1": "2\n"}]),
    ):  # fmt: skip
        (tmp_path / "t.csv").write_text(text)
        linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.arrow", by=by, header=header, **how)
        assert pa.ipc.open_file(tmp_path / "o.arrow").read_all().to_pylist() == rows
        assert linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.csv", by=by, header=header, **how).rows == len(rows)
        pq.write_table(pa.table({by: [1], "other": [3]}), tmp_path / "r.parquet")
        joined = linkwise.join_file(
            tmp_path / "t.csv", tmp_path / "r.parquet", tmp_path / "o.arrow", on=by, order="left", header=header,
            column_types={by: "int64"},
        )  # fmt: skip
        assert joined.rows == len(rows)


def test_streams_that_nobody_reads_to_the_end_end_with_the_program(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{n % 1000},{n}\n" for n in range(1_000_000)))
    pq.write_table(pa.table({"a": range(1000)}), tmp_path / "r.parquet")
    program = f"""
import linkwise
batches = linkwise.join_batches({str(tmp_path / "t.csv")!r}, {str(tmp_path / "r.parquet")!r}, on="a")
print(batches.read_next_batch().num_rows > 0)
"""
    for _ in range(5):
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "True\n", "")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl"])
@pytest.mark.parametrize("header", [True, False])
def test_parts_that_cores_parse_come_in_order(
    tmp_path: Path, name: str, header: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_reader, "_LEAST_BLOCK", 1 << 10)
    monkeypatch.setattr(line_reader, "BLOCK_OF_A_CORE", 1 << 12)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(5))
    rows = [(n * 7919 % 1000, f"{n},\n" + "x" * (n % 97)) for n in range(5000)]
    with opened(tmp_path / name) as file:
        if name == "t.jsonl":
            file.writelines(json.dumps({"f0": key, "f1": text}) + "\n" for key, text in rows)
        else:
            csv.writer(file).writerows([("f0", "f1"), *rows] if header else rows)
    pq.write_table(pa.table({"f0": range(1000), "other": range(1000, 2000)}), tmp_path / "r.parquet")
    for memory in ("64KiB", "64MiB"):
        linkwise.sort_file(
            tmp_path / name, tmp_path / "o.arrow", by="f0", header=header, host_memory_limit=memory, strategy="cpu"
        )
        found = pa.ipc.open_file(tmp_path / "o.arrow").read_all()
        assert [tuple(row.values()) for row in found.to_pylist()] == sorted(rows, key=lambda row: row[0])
    linkwise.join_file(
        tmp_path / name, tmp_path / "r.parquet", tmp_path / "o.arrow", on="f0", order="left", header=header
    )
    found = pa.ipc.open_file(tmp_path / "o.arrow").read_all()
    assert [tuple(row.values()) for row in found.to_pylist()] == [(key, text, 1000 + key) for key, text in rows]


def opened(path: Path) -> Any:
    return (gzip.open if path.suffix == ".gz" else open)(path, "wt", newline="")


@pytest.mark.slow
def test_odd_ends_and_beginnings(tmp_path: Path) -> None:
    """Rows that end with a carriage return beside a quoted newline, and a mark of byte order that begins a row."""
    for name, text, rows in (
        ("r.csv", b'name,k\r"a\nb",1\r' + b"cd,0\r" * (3 << 20), (3 << 20) + 1),
        ("bom.csv", b"k,name\n1,a\n" + b"\xef\xbb\xbf2,b\n" * 200_000, None),
    ):
        (tmp_path / name).write_bytes(text)
        for how in (LITTLE, {"strategy": "cpu"}):
            types = {"k": "string", "name": "string"}
            linkwise.sort_file(tmp_path / name, tmp_path / "o.arrow", by="name", column_types=types, **how)
            found = pa.ipc.open_file(tmp_path / "o.arrow").read_all()
            if rows is None:
                assert set(found["k"].to_pylist()) == {"1", "\ufeff2"} and found.num_rows == 200_001
            else:
                assert found.num_rows == rows and found["name"][0].as_py() == "a\nb"


def test_first_rows_longer_than_a_block(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("k,text\n2," + "x" * (18 << 20) + "\n1,y\n")
    for how in (LITTLE, {"strategy": "cpu"}):
        linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.arrow", by="k", **how)
        assert pa.ipc.open_file(tmp_path / "o.arrow").read_all()["k"].to_pylist() == [1, 2]
