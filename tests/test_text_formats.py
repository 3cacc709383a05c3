"""Text as people have it: compressed, as lines of JSON, with other delimiters and words for null."""

from __future__ import annotations

import bz2
import gzip
import json
import random
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import linkwise

CPU: dict[str, Any] = {"strategy": "cpu"}


def _unzst(data: bytes) -> bytes:
    return pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()


CODECS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.decompress, "bz2": bz2.decompress, "zst": _unzst}


def compressed(text: bytes, suffix: str) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}[suffix]) as stream:
        stream.write(text)
    return out.getvalue().to_pybytes()


@pytest.mark.parametrize("memory", [None, "1MiB"])
@pytest.mark.parametrize("suffix", CODECS)
def test_compressed_text_in_and_out(suffix: str, memory: str | None, tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = [(draw.randrange(10_000), f"{n:05},{n}.50") for n in range(100_000)]
    text = "k,n,v\n" + "".join(f"{k},{rest}\n" for k, rest in rows)
    (tmp_path / f"t.csv.{suffix}").write_bytes(compressed(text.encode(), suffix))
    expected = "k,n,v\n" + "".join(f"{k},{rest}\n" for k, rest in sorted(rows, key=lambda row: row[0]))
    out = tmp_path / f"o.csv.{suffix}"
    linkwise.sort_file(tmp_path / f"t.csv.{suffix}", out, by="k", host_memory_limit=memory, **CPU)
    assert CODECS[suffix](out.read_bytes()).decode() == expected
    linkwise.sort_file(tmp_path / f"t.csv.{suffix}", tmp_path / "o.csv", by="k", **CPU)
    assert (tmp_path / "o.csv").read_text() == expected
    # A pipe says itself how it is compressed.
    done = subprocess.run(
        [sys.executable, "-m", "linkwise", "sort", "-", "-o", "-", "-k", "k", "--strategy", "cpu"],
        input=compressed(text.encode(), suffix), capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout.decode() == expected


def test_damaged_compression_is_one_line(tmp_path: Path) -> None:
    whole = compressed(b"k,v\n" + b"1,2\n" * 100_000, "gz")
    (tmp_path / "t.csv.gz").write_bytes(whole[: len(whole) // 2] + bytes(50) + whole[len(whole) // 2 + 50 :])
    with pytest.raises(linkwise.Error, match=r"cannot read .*t\.csv\.gz: ") as told:
        linkwise.sort_file(tmp_path / "t.csv.gz", tmp_path / "o.csv", by="k", **CPU)
    assert "\n" not in str(told.value) and not (tmp_path / "o.csv").exists()


def test_tables_become_compressed_text(tmp_path: Path) -> None:
    table = pa.table({"k": range(200_000, 0, -1), "s": ["x"] * 200_000})
    pq.write_table(table, tmp_path / "t.parquet")
    linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.tsv.gz", by="k", **CPU)
    lines = gzip.decompress((tmp_path / "o.tsv.gz").read_bytes()).decode().splitlines()
    assert lines[:2] == ['"k"\t"s"', '1\t"x"'] and len(lines) == 200_001


def objects(rows: int) -> list[dict[str, Any]]:
    draw = random.Random(8)
    return [
        {"id": draw.randrange(1000), "name": f'n"{n}é', "at": f"2024-01-{1 + n % 28:02} 00:00:00", "x": n / 7,
         "tags": ["a", "b"][: n % 3], "where": {"city": f"c{n % 5}"}} | ({"rare": True} if n % 10 == 0 else {})
        for n in range(rows)
    ]  # fmt: skip


@pytest.mark.parametrize("memory", [None, "1MiB"])
@pytest.mark.parametrize("suffix", ["jsonl", "ndjson", "jsonl.gz"])
def test_lines_of_json_stay_as_they_are(suffix: str, memory: str | None, tmp_path: Path) -> None:
    rows = objects(20_000)
    lines = [json.dumps(row, ensure_ascii=bool(n % 2), separators=(",", ": ")) for n, row in enumerate(rows)]
    text = ("\n".join(lines)).encode()  # without an end of the last one
    path = tmp_path / f"t.{suffix}"
    path.write_bytes(compressed(text, "gz") if suffix.endswith("gz") else text)
    linkwise.sort_file(path, tmp_path / "o.jsonl", by="id", host_memory_limit=memory, **CPU)
    order = sorted(range(len(rows)), key=lambda n: rows[n]["id"])
    assert (tmp_path / "o.jsonl").read_text().splitlines() == [lines[n] for n in order]


def test_json_and_tables(tmp_path: Path) -> None:
    rows = objects(500)
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    linkwise.sort_file(tmp_path / "t.jsonl", tmp_path / "o.parquet", by=["id", "x"], **CPU)
    found = pq.read_table(tmp_path / "o.parquet")
    assert found.column_names == ["id", "name", "at", "x", "tags", "where", "rare"]
    expected = sorted(rows, key=lambda row: (row["id"], row["x"]))
    assert found["tags"].to_pylist() == [row["tags"] for row in expected]
    assert found["rare"].to_pylist() == [row.get("rare") for row in expected]
    linkwise.sort_file(tmp_path / "o.parquet", tmp_path / "b.jsonl", by="x", **CPU)
    back = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    by_x = sorted(rows, key=lambda row: row["x"])
    assert [row["name"] for row in back] == [row["name"] for row in by_x]
    assert back[1] == by_x[1] | {"at": "2024-01-02T00:00:00", "rare": None}
    path = tmp_path / "b.jsonl"
    assert duckdb.sql(f"select count(*), sum(id) from read_json('{path}')").fetchall() == [
        (500, sum(row["id"] for row in rows))
    ]


def test_values_that_json_has_not(tmp_path: Path) -> None:
    table = pa.table({"k": [2, 1], "x": [float("nan"), float("inf")], "d": [Decimal("1.10"), None]})
    pq.write_table(table, tmp_path / "t.parquet")
    linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.jsonl", by="k", **CPU)
    assert (tmp_path / "o.jsonl").read_text() == '{"k": 1, "x": null, "d": null}\n{"k": 2, "x": null, "d": "1.10"}\n'
    pq.write_table(pa.table({"k": [1], "b": [b"x"]}), tmp_path / "t.parquet")
    with pytest.raises(linkwise.UsageError, match=r"o\.jsonl, column 'b': JSON has no bytes"):
        linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.jsonl", by="k", **CPU)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([[1.5, float("nan")]]), "[1.5, null]"),
        (pa.array([{"x": float("inf")}]), '{"x": null}'),
        (pa.array([1], pa.timestamp("ns")), '"1970-01-01T00:00:00.000000001"'),
        (pa.array([1], pa.time64("ns")), '"00:00:00.000000001"'),
    ],
)
def test_values_that_python_writes_otherwise(column: pa.Array, text: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1], "v": column}), tmp_path / "t.parquet")
    linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.jsonl", by="k", **CPU)
    assert (tmp_path / "o.jsonl").read_text() == f'{{"k": 1, "v": {text}}}\n'


@pytest.mark.parametrize(
    "column", [pa.array([b"abcd"], pa.binary(4)), pa.array([[b"x"]]), pa.array([b"x"]).dictionary_encode()]
)
def test_bytes_anywhere_are_one_line(column: pa.Array, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1], "v": column}), tmp_path / "t.parquet")
    with pytest.raises(linkwise.UsageError, match="column 'v': JSON has no bytes"):
        linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.jsonl", by="k", **CPU)


def test_columns_of_one_name_do_not_become_json(tmp_path: Path) -> None:
    pq.write_table(pa.table([[1], [2], [3]], names=["k", "x", "x"]), tmp_path / "t.parquet")
    with pytest.raises(linkwise.UsageError, match="there are several columns 'x', and JSON has one value of a name"):
        linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.jsonl", by="k", **CPU)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('{"k":3}\n   \n \t{"k":1} \r\n', ['{"k":1}', '{"k":3}']),
        ('{"k":9}{"k":0}\n{"k":5\n}\n{"k":4}\n', None),  # as many objects as lines
        ('{"k":1,\n"v":"a"}\n{"k":0}{"k":5}\n', None),
    ],
)
def test_lines_that_are_no_objects(text: str, lines: list[str] | None, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(text)
    if lines is None:
        with pytest.raises(linkwise.Error, match="it is not clear where its rows end"):
            linkwise.sort_file(tmp_path / "t.jsonl", tmp_path / "o.jsonl", by="k", **CPU)
    else:
        linkwise.sort_file(tmp_path / "t.jsonl", tmp_path / "o.jsonl", by="k", **CPU)
        assert [line.strip() for line in (tmp_path / "o.jsonl").read_text().splitlines()] == lines
    linkwise.sort_file(tmp_path / "t.jsonl", tmp_path / "o.parquet", by="k", **CPU)
    assert pq.read_table(tmp_path / "o.parquet")["k"].is_valid().to_pylist().count(True) == text.count('"k"')


def test_a_line_longer_than_a_block(tmp_path: Path) -> None:
    lines = ['{"k":3}', f'{{"k":2,"s":"{"x" * (9 << 20)}"}}', '{"k":1}']
    (tmp_path / "t.jsonl").write_text('{"k":4}\n' * 10 + "".join(f"{line}\n" for line in lines))
    linkwise.sort_file(tmp_path / "t.jsonl", tmp_path / "o.jsonl", by="k", **CPU)
    assert (tmp_path / "o.jsonl").read_text().splitlines() == [*lines[::-1], *['{"k":4}'] * 10]


@pytest.mark.parametrize("suffix", CODECS)
def test_no_rows_are_compressed_as_well(suffix: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": pa.array([], pa.int64())}), tmp_path / "t.parquet")
    linkwise.sort_file(tmp_path / "t.parquet", tmp_path / f"o.jsonl.{suffix}", by="k", **CPU)
    assert CODECS[suffix]((tmp_path / f"o.jsonl.{suffix}").read_bytes()) == b""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1}\n{"a": \n', "JSON parse error"),
        ('{"a": 1}\n[1]\n', "JSON parse error"),
        ("a,b\n1,2\n", "JSON parse error"),
        ("", "it is empty"),
    ],
)
def test_what_is_no_json_is_one_line(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(linkwise.Error, match=r"cannot read .*t\.jsonl: .*" + told) as error:
        linkwise.sort_file(tmp_path / "t.jsonl", tmp_path / "o.jsonl", by="a", **CPU)
    assert "\n" not in str(error.value) and not (tmp_path / "o.jsonl").exists()


def test_parts_without_rows(tmp_path: Path) -> None:
    """As other programs write them: of several files, empty ones are left out; a header alone has no rows."""
    (tmp_path / "1.jsonl").write_text('{"k": 3}\n')
    (tmp_path / "2.jsonl").write_text("")
    (tmp_path / "3.jsonl").write_text('{"k": 2}\n')
    linkwise.sort_file(tmp_path / "*.jsonl", tmp_path / "o.jsonl", by="k", **CPU)
    assert (tmp_path / "o.jsonl").read_text() == '{"k": 2}\n{"k": 3}\n'
    (tmp_path / "1.csv").write_text("")
    with pytest.raises(linkwise.Error, match="it is empty"):
        linkwise.sort_file([tmp_path / "1.csv"] * 2, tmp_path / "o.csv", by="k", **CPU)
    (tmp_path / "2.csv").write_text("k,v")
    for out in (tmp_path / "o.csv", tmp_path / "o.parquet"):
        linkwise.sort_file([tmp_path / "1.csv", tmp_path / "2.csv"], out, by="k", **CPU)
    assert (tmp_path / "o.csv").read_text() == "k,v\n" and pq.read_schema(tmp_path / "o.parquet").names == ["k", "v"]


def test_json_behind_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"k": 2}\n{"k": 1}\n', encoding="utf-8-sig")
    linkwise.sort_file(tmp_path / "t.jsonl", tmp_path / "o.jsonl", by="k", **CPU)
    assert (tmp_path / "o.jsonl").read_text() == '{"k": 1}\n{"k": 2}\n'


def test_integers_with_a_plus_sign(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """PyArrow reads them as floats, which hold those of up to 15 digits."""
    for text, kind, warnings in (("+3", pa.float64(), 0), ("+" + "9" * 19, pa.decimal128(38, 0), 1)):
        (tmp_path / "t.csv").write_text(f"k\n{text}\n1\n")
        recwarn.clear()
        linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.parquet", by="k", **CPU)
        found = pq.read_table(tmp_path / "o.parquet")["k"]
        assert found.type == kind and [int(value) for value in found.to_pylist()] == [1, int(text)]
        assert len(recwarn) == warnings


def test_types_with_time_zones(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a=b,k\n1,2024-01-01T00:00:00+01:00\n")
    types = ("--types", "k=timestamp[us, tz=Europe/Oslo]", "--types", "a=b=int32")
    command = [sys.executable, "-m", "linkwise", "sort", str(tmp_path / "t.csv"), "-k", "k", *types]
    subprocess.run([*command, "-o", str(tmp_path / "o.parquet")], check=True)
    assert pq.read_schema(tmp_path / "o.parquet").types == [pa.int32(), pa.timestamp("us", "Europe/Oslo")]


def test_messages_name_columns_of_the_file(tmp_path: Path) -> None:
    """Behind the part from which types are inferred, where only the keys are parsed."""
    rows = "1,7\n" * 4_500_000 + "0,xx\n"
    (tmp_path / "t.csv").write_text("k,v\n" + rows)
    with pytest.raises(linkwise.Error, match="'v'"):
        linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.csv", by="v", **CPU)


def test_types_of_json_columns(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"b": "x", "a": "10"}\n{"b": "y", "a": "9"}\n')
    linkwise.sort_file(tmp_path / "t.jsonl", tmp_path / "o.parquet", by="b", column_types={"a": "large_string"}, **CPU)
    found = pq.read_table(tmp_path / "o.parquet")
    assert found.column_names == ["b", "a"] and found["a"].type == pa.large_string()
    (tmp_path / "e.jsonl").write_text('{"\\u00e9": 1}\n')  # as json.dumps writes it
    linkwise.sort_file(tmp_path / "e.jsonl", tmp_path / "o.parquet", by="é", column_types={"é": "int32"}, **CPU)
    assert pq.read_table(tmp_path / "o.parquet")["é"].type == pa.int32()
    of_all = {"a": "string", "b": "string"}
    linkwise.sort_file(tmp_path / "t.jsonl", tmp_path / "o.parquet", by="b", column_types=of_all, **CPU)
    assert pq.read_table(tmp_path / "o.parquet").column_names == ["b", "a"]
    with pytest.raises(linkwise.UsageError, match="there is no column 'c', whose type is given; there are 'b', 'a'"):
        linkwise.sort_file(tmp_path / "t.jsonl", tmp_path / "o.parquet", by="b", column_types={"c": "int64"}, **CPU)


def test_delimiters_and_words_for_null(tmp_path: Path) -> None:
    text = "k;v;w\n3;NA;1,5\n1;2;NA\n2;;x\n"
    (tmp_path / "t.csv").write_text(text)
    options: dict[str, Any] = {"delimiter": ";", "null_string": "NA"}
    linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.csv", by="k", **options, **CPU)
    assert (tmp_path / "o.csv").read_text() == "k;v;w\n1;2;NA\n2;;x\n3;NA;1,5\n"
    linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.parquet", by="k", **options, **CPU)
    assert pq.read_table(tmp_path / "o.parquet").to_pydict() == {
        "k": [1, 2, 3], "v": ["2", "", None], "w": [None, "x", "1,5"],
    }  # fmt: skip
    pq.write_table(pa.table({"k": [2, 1], "t": ["a;b", "c"]}), tmp_path / "t.parquet")
    linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.csv", by="k", delimiter="|", **CPU)
    assert (tmp_path / "o.csv").read_text() == '"k"|"t"\n1|"c"\n2|"a;b"\n'
    done = subprocess.run(
        [sys.executable, "-m", "linkwise", "sort", str(tmp_path / "t.csv"), "-o", "-", "-k", "v:nulls-first",
         "--delimiter", ";", "--null-string", "NA", "--strategy", "cpu"],
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    assert done.stdout == "k;v;w\n3;NA;1,5\n2;;x\n1;2;NA\n"


def test_joins_of_text(tmp_path: Path) -> None:
    (tmp_path / "l.jsonl.gz").write_bytes(gzip.compress(b'{"k": 1, "a": "x"}\n{"k": 2, "a": "y"}\n'))
    (tmp_path / "r.csv").write_text("k|b\n2|q\n3|r\n")
    for how, rows in (("inner", 1), ("full", 3), ("anti", 1)):
        report = linkwise.join_file(
            tmp_path / "l.jsonl.gz", tmp_path / "r.csv", tmp_path / "o.jsonl", "k", how=how, delimiter="|"
        )
        assert report.rows == rows == len((tmp_path / "o.jsonl").read_text().splitlines())
