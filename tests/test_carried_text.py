"""Rows of text that go from file to file as they are: only what is sorted or filtered by is read as values."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import linkwise
from linkwise import _core

CPU: dict[str, Any] = {"strategy": "cpu"}


def rows_of(text: bytes, *, keeps_blank: bool = False) -> list[bytes]:
    letters, offsets = _core.rows_of_text(np.frombuffer(text, np.uint8), ",", keeps_blank)
    whole = text if letters is None else letters.tobytes()
    return [whole[begin:end] for begin, end in zip(offsets[:-1], offsets[1:], strict=True)]


def sorted_text(tmp_path: Path, text: str | bytes, by: Any, **options: Any) -> str:
    (tmp_path / "t.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.csv", by=by, **(CPU | options))
    return (tmp_path / "o.csv").read_bytes().decode()


@given(st.lists(st.lists(st.text(st.sampled_from('ab",\n\r'), max_size=6), min_size=2, max_size=3), max_size=6))
def test_rows_are_those_of_the_csv_module(rows: list[list[str]]) -> None:
    parts = []
    for row in rows:
        out = io.StringIO(newline="")
        quoting = csv.QUOTE_ALL if any("\r" in field for field in row) else csv.QUOTE_MINIMAL
        csv.writer(out, lineterminator="\n", quoting=quoting).writerow(row)
        parts.append(out.getvalue().encode())
    assert rows_of(b"".join(parts)) == parts


@pytest.mark.parametrize("size", [5 << 20, 9 << 20])
def test_parts_that_begin_inside_of_quotes_are_looked_at_again(size: int) -> None:
    draw = random.Random(size)
    rows, length = [], 0
    while length < size:
        lines = draw.choice([1, 2, 3000, 90_000])  # a row of some MiB at times, in which every line looks like one
        text = "\n".join(f"a,b{draw.choice(['', chr(34) * 2])}" for _ in range(lines))
        rows.append(f'{len(rows)},"{text}",x\n'.encode())
        length += len(rows[-1])
    assert rows_of(b"".join(rows)) == rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (b"", []),
        (b"a,b", [b"a,b\n"]),
        (b"a\nb", [b"a\n", b"b\n"]),
        (b"b", [b"b\n"]),
        (b"a\r\nb", [b"a\r\n", b"b\r\n"]),
        (b"a\rb", [b"a\r", b"b\r"]),
        (b"\na", [b"a\n"]),
        (b"a\rb\r", [b"a\r", b"b\r"]),
        (b"a\n\n\nb\n", [b"a\n", b"b\n"]),
        (b"\n\r\n\ra", [b"a\n"]),
        (b'"a\n\nb"\n', [b'"a\n\nb"\n']),
        (b'a"b\nc"d\n', [b'a"b\n', b'c"d\n']),
    ],
)
def test_ends_and_blank_lines(text: bytes, rows: list[bytes]) -> None:
    assert rows_of(text) == rows
    assert b"".join(rows_of(text, keeps_blank=True)).rstrip(b"\r\n") == text.rstrip(b"\r\n")


def test_what_is_not_looked_at_stays_as_it_was_written(tmp_path: Path) -> None:
    text = 'Id,"price", note\n3,1.10,007\n1,"2,50",  x\n2,1e3,"say ""no"""\n'
    assert sorted_text(tmp_path, text, "Id") == 'Id,"price", note\n1,"2,50",  x\n2,1e3,"say ""no"""\n3,1.10,007\n'


def test_columns_of_one_name(tmp_path: Path) -> None:
    """Rows are carried as they are unless one of these is needed, and each column has a type of its own."""
    text = "k,x,x\n2,007,a\n1,1.10,2.5\n"
    assert sorted_text(tmp_path, text, "k") == "k,x,x\n1,1.10,2.5\n2,007,a\n"
    with pytest.raises(linkwise.UsageError, match="several columns 'x'"):
        sorted_text(tmp_path, text, "x")
    (tmp_path / "t.csv").write_text(text)
    linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.parquet", by="k")
    assert [column.to_pylist() for column in pq.ParquetFile(tmp_path / "o.parquet").read().columns] == [
        [1, 2], [1.1, 7.0], ["2.5", "a"]
    ]  # fmt: skip


def test_lines_that_end_in_other_ways(tmp_path: Path) -> None:
    assert sorted_text(tmp_path, "a,b\r\n2,x\r\n1,y\r\n", "a") == "a,b\r\n1,y\r\n2,x\r\n"
    assert sorted_text(tmp_path, "a,b\r\n2,x\r\n1,y", "a") == "a,b\r\n1,y\r\n2,x\r\n"
    assert sorted_text(tmp_path, "a,b\n\n2,x\n\n\n1,y", "a") == "a,b\n1,y\n2,x\n"
    assert sorted_text(tmp_path, "a\n2\n\n1\n", "a") == "a\n1\n2\n\n"  # of one column, an empty line is a null
    assert sorted_text(tmp_path, b"\xef\xbb\xbfa,b\n2,x\n1,y\n", "a") == "\ufeffa,b\n1,y\n2,x\n"
    quoted = b'\xef\xbb\xbf"a\n1",b\n'  # behind the mark, the first field
    assert sorted_text(tmp_path, quoted + b"2,y\n1,x\n", "b") == quoted.decode() + "1,x\n2,y\n"


@pytest.mark.parametrize("memory", [None, "1MiB"])
def test_many_rows(tmp_path: Path, memory: str | None) -> None:
    """Also through spilled runs."""
    draw = random.Random(1)
    rows = [(draw.randrange(1000), f'{number},"line\n{number:06}",{number}.{number % 10}0') for number in range(30_000)]
    text = "key,number,text,value\n" + "".join(f"{key},{rest}\n" for key, rest in rows)
    expected = "".join(f"{key},{rest}\n" for key, rest in sorted(rows, key=lambda row: row[0]))
    found = sorted_text(tmp_path, text, "key", host_memory_limit=memory)
    assert found == "key,number,text,value\n" + expected


def test_filters_limits_and_unique_keys(tmp_path: Path) -> None:
    text = "k,v,w\n" + "".join(f"{(7 * n) % 50},{n},0{n}.50\n" for n in range(200))
    assert sorted_text(tmp_path, text, "k", filter="v >= 190 and k > 10") == "k,v,w\n" + "".join(
        f"{k},{n},0{n}.50\n" for k, n in sorted(((7 * n) % 50, n) for n in range(190, 200)) if k > 10
    )
    assert sorted_text(tmp_path, text, "k", limit=2) == "k,v,w\n0,0,00.50\n0,50,050.50\n"
    assert sorted_text(tmp_path, text, "k", unique=True).count("\n") == 51
    # Columns that are chosen are values.
    assert sorted_text(tmp_path, text, "v", columns=["w", "v"], limit=1) == '"w","v"\n0.5,0\n'


def test_several_files(tmp_path: Path) -> None:
    (tmp_path / "p1.csv").write_text("k,v\n3,03\n1,01\n")
    (tmp_path / "p2.csv").write_text("k,v\n2,02\n")
    linkwise.sort_file(tmp_path / "p?.csv", tmp_path / "o.csv", by="k", **CPU)
    assert (tmp_path / "o.csv").read_text() == "k,v\n1,01\n2,02\n3,03\n"
    (tmp_path / "p2.csv").write_text('k,"v"\n2,02\n')  # one header cannot stand for both, so all are values
    linkwise.sort_file(tmp_path / "p?.csv", tmp_path / "o.csv", by="k", **CPU)
    assert (tmp_path / "o.csv").read_text() == '"k","v"\n1,1\n2,2\n3,3\n'


def test_other_formats_are_made_of_values(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("k,v\n2,1.10\n1,x\n")
    linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.tsv", by="k", **CPU)
    assert (tmp_path / "o.tsv").read_text() == '"k"\t"v"\n1\t"x"\n2\t"1.10"\n'


def test_values_of_keys_are_still_checked(tmp_path: Path) -> None:
    with pytest.raises(linkwise.Error, match="Expected 2 columns, got 3"):
        sorted_text(tmp_path, "k,v\n2,1\n1,2,3\n", "k")
    assert sorted_text(tmp_path, "k,v\n2,1\n1,no number\n", "k") == "k,v\n1,no number\n2,1\n"
