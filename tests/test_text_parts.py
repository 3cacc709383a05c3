"""Text that is read part by part: a part ends where a row does."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
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
    (tmp_path / "t.csv").write_text("k,v\n" + "1,2\n" * 2_000_000 + "1,2,3\n" + "1,2\n" * 2_000_000)
    with pytest.raises(linkwise.Error, match="Row #2000002"):
        linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.csv", by="k", strategy="cpu", host_memory_limit=memory)


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
