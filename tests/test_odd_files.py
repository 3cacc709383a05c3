"""Files and pipes as people really have them: nulls, types that a format has not got, and what cannot be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import linkwise
from linkwise import UsageError

CPU: dict[str, Any] = {"strategy": "cpu"}


def run(*arguments: Any, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "linkwise", *map(str, arguments)], input=stdin, capture_output=True, timeout=120,
        check=False,
    )  # fmt: skip


def test_columns_of_one_name(tmp_path: Path) -> None:
    """They are kept as they are, but cannot be named."""
    table = pa.Table.from_arrays([pa.array([2, 1, 3]), pa.array([5, 6, 7]), pa.array([8, 9, 0])], ["k", "x", "x"])
    pq.write_table(table, tmp_path / "t.parquet")
    for rows in ("k < 3", "k < 3 or k > 5"):
        linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.parquet", by="k", filter=rows, **CPU)
        found = pq.ParquetFile(tmp_path / "o.parquet").read()
        assert found.column_names == ["k", "x", "x"] and [c.to_pylist() for c in found.columns] == [
            [1, 2],
            [6, 5],
            [9, 8],
        ]
    for options in ({"filter": "x > 5"}, {"filter": "k > 1 or x > 5"}, {"columns": ["k", "x"]}):
        with pytest.raises(UsageError, match="several columns 'x'"):
            linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.parquet", by="k", **options, **CPU)


def test_files_without_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}).select([]), tmp_path / "t.parquet")
    (tmp_path / "t.jsonl").write_text("{}\n{}\n")
    for name in ("t.parquet", "t.jsonl"):
        with pytest.raises(UsageError, match="has no columns"):
            linkwise.sort_file(tmp_path / name, tmp_path / "o.parquet", by="k", **CPU)


@pytest.mark.parametrize("nulls", ["first", "last"])
def test_batches_whose_keys_are_all_null(nulls: Any, tmp_path: Path) -> None:
    numbers = np.arange(20_000)[::-1].copy()
    key = pa.array(numbers, mask=np.arange(20_000) >= 10_000)
    pq.write_table(pa.table({"k": key, "v": numbers}), tmp_path / "t.parquet", row_group_size=2000)
    linkwise.sort_file(
        tmp_path / "t.parquet", tmp_path / "o.parquet", by="k", nulls=nulls, host_memory_limit="128KiB", **CPU
    )
    expected = linkwise.sort(pq.read_table(tmp_path / "t.parquet"), by="k", nulls=nulls, **CPU)
    assert pq.read_table(tmp_path / "o.parquet").equals(expected)


@pytest.mark.parametrize("memory", [None, "20KiB"])
@pytest.mark.parametrize("inside", ["struct", "list", "extension"])
def test_dictionaries_inside_of_other_types(inside: str, memory: str | None, tmp_path: Path) -> None:
    """Which PyArrow reads from Parquet by row groups alone."""
    words = pa.array([f"c{i % 50}" for i in range(3000)]).dictionary_encode()
    column = {
        "struct": lambda: pa.StructArray.from_arrays([words], ["c"]),
        "list": lambda: pa.ListArray.from_arrays(pa.array(range(0, 3001, 1), pa.int32()), words),
        "extension": lambda: pa.ExtensionArray.from_storage(pa.opaque(words.type, "a", "b"), words),
    }[inside]()
    table = pa.table({"k": range(3000, 0, -1), "p": column})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1000)
    linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.arrow", by="k", host_memory_limit=memory, **CPU)
    found = pa.ipc.open_file((tmp_path / "o.arrow").read_bytes()).read_all()
    assert found["p"].to_pylist() == table["p"].to_pylist()[::-1]
    assert run("sort", tmp_path / "t.parquet", "-c", "-k", "k").stderr.endswith(
        b"row 1, counted from 0, is out of order\n"
    )


def test_what_polars_writes(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"k": [3, 1], "s": ["c", "a"], "c": pl.Series(["x", "y"], dtype=pl.Categorical)})
    frame.write_ipc(tmp_path / "t.arrow")
    linkwise.sort_file(tmp_path / "t.arrow", tmp_path / "o.csv", by="k", **CPU)
    assert (tmp_path / "o.csv").read_text() == '"k","s","c"\n1,"a","y"\n3,"c","x"\n'
    linkwise.sort_file(tmp_path / "t.arrow", tmp_path / "o.parquet", by="s", **CPU)
    assert pl.read_parquet(tmp_path / "o.parquet").rows() == [(1, "a", "y"), (3, "c", "x")]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_types_that_a_format_has_not(suffix: str, tmp_path: Path) -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3]), pa.array(["b", "a"], pa.string_view()))
    table = pa.table({"k": [3, 1, 2], "r": runs, "v": pa.array([b"x", b"y", None], pa.binary_view())})
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as file:
        file.write_table(table)
    if suffix == ".csv":
        table = table.drop_columns("v")  # bytes are no text
        with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as file:
            file.write_table(table)
    linkwise.sort_file(tmp_path / "t.arrow", tmp_path / f"o{suffix}", by="k", **CPU)
    if suffix == ".csv":
        assert (tmp_path / "o.csv").read_text() == '"k","r"\n1,"b"\n2,"a"\n3,"b"\n'
    else:
        assert pq.read_table(tmp_path / "o.parquet").to_pydict() == {
            "k": [1, 2, 3], "r": ["b", "a", "b"], "v": [b"y", None, b"x"]
        }  # fmt: skip


def test_text_without_anything_is_null_and_comes_back_so(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('name,x\nb,nan\n,2\n"",3\nNA,\n')
    linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.csv", by="name", **CPU)
    assert (tmp_path / "o.csv").read_text() == 'name,x\n"",3\nNA,\nb,nan\n,2\n'
    linkwise.sort_file(tmp_path / "o.csv", tmp_path / "o2.csv", by="name", **CPU)
    assert (tmp_path / "o2.csv").read_text() == (tmp_path / "o.csv").read_text()


def test_pipes_without_names_are_written_into() -> None:
    command = f"{sys.executable} -m linkwise sort - -o /dev/fd/1 --output-format csv -k a --strategy cpu | cat"
    done = subprocess.run(["bash", "-c", command], input=b"a\n2\n1\n", capture_output=True, timeout=60, check=False)
    assert done.stdout.startswith(b"a\n1\n2\n"), done.stderr


def test_lines_that_say_what_is_wrong(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": np.arange(200_000), "l": [[1]] * 200_000}), tmp_path / "t.parquet", row_group_size=9)
    (tmp_path / "o.parquet").write_bytes(b"as it was")
    bad = "id,b\n2,caf\xe9\n".encode("latin-1")
    (tmp_path / "b.csv").write_bytes(bad)
    (tmp_path / "x.csv").write_text("a\n1\n")
    for arguments, stdin, told in (
        (["t.parquet", "-o", "o.parquet", "-k", "k", "-S", "1KiB"], b"", b"is too little for"),
        (["t.parquet", "-o", "o.parquet", "-k", "k", "--trace", "none/x.json"], b"", b"there is no directory none"),
        (["t.parquet", "-o", "o.parquet", "-k", "k", "--check"], b"", b"--check writes nothing; leave -o out"),
        (["t.parquet", "-o", "o.csv", "-k", "k"], b"", b"o.csv, column 'l': Unsupported Type:list"),
        (["-", "-", "-o", "o.csv", "-k", "a"], b"a\n1\n", b"standard input can be named once"),
        (["x.csv", "-o", "o.csv", "-k", "a", "--delimiter", ";;"], b"", b"a delimiter is one letter, as ';' or '|'"),
        (
            ["b.csv", "-o", "o.csv", "-k", "id"],
            b"",
            b"b.csv: column 'b' is not UTF-8; convert it, or give it the type binary",
        ),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "linkwise", "sort", *arguments, "--strategy", "cpu"], input=stdin,
            capture_output=True, timeout=60, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 2 and told in done.stderr and done.stderr.count(b"\n") == 1, done.stderr
    assert (tmp_path / "o.parquet").read_bytes() == b"as it was" and not (tmp_path / "o.csv").exists()


def test_any_byte_of_the_metadata_may_be_wrong(tmp_path: Path) -> None:
    """In a process of its own, which PyArrow would end."""
    pq.write_table(pa.table({"k": [1, 2], "v": ["a", "b"]}), tmp_path / "t.parquet", store_schema=False)
    program = """
import sys, linkwise
from pathlib import Path
from linkwise.files.formats import FileOptions
from linkwise.files.reading.readers import open_reader
whole = Path("t.parquet").read_bytes()
footer = int.from_bytes(whole[-8:-4], "little")
for at in range(len(whole) - 8 - footer, len(whole) - 8):
    for flip in (0xFF, 0x0F):
        Path("d.parquet").write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
        try:
            open_reader([Path("d.parquet")], FileOptions())
        except linkwise.Error as error:
            assert len(str(error).splitlines()) == 1
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
def test_indices_that_are_in_no_dictionary(tmp_path: Path) -> None:
    """PyArrow reads them from a damaged Parquet file, and ends the process over them later."""
    words = pa.array(["a", "b", "c"] * 100).dictionary_encode()
    pq.write_table(pa.table({"k": range(300), "v": words}), tmp_path / "t.parquet", compression="none")
    program = """
import linkwise
from pathlib import Path
whole = Path("t.parquet").read_bytes()
footer = int.from_bytes(whole[-8:-4], "little")
found = 0
for at in range(len(whole) - 8 - footer - 400, len(whole) - 8 - footer, 2):
    Path("d.parquet").write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    for memory in (None, "2KiB"):
        try:
            linkwise.sort_file("d.parquet", "o.parquet", by="k", strategy="cpu", host_memory_limit=memory)
        except linkwise.Error as error:
            assert len(str(error).splitlines()) == 1
            found += "indices invalid" in str(error)
assert found > 10, found
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    (tmp_path / "t.csv").write_text("a\n1\n")
    for name in ("x" * 300 + ".csv", "loop.csv"):
        for source, out in ((name, "o.csv"), ("t.csv", name)):
            with pytest.raises(linkwise.Error, match="cannot (read|write) "):
                linkwise.sort_file(tmp_path / source, tmp_path / out, by="a", **CPU)


def test_labels_of_pandas_may_be_anything() -> None:
    frame = pd.DataFrame({0: [3, 1], 1: ["a", "b"]})
    for by in (0, [0], pd.Index([0])):
        assert linkwise.sort(frame, by=by, **CPU).to_dict("list") == {0: [1, 3], 1: ["b", "a"]}  # type: ignore[arg-type]
    assert len(linkwise.unique(frame, **CPU)) == 2
    assert not linkwise.is_sorted(frame, by=0)  # type: ignore[arg-type]
    levels = pd.DataFrame({("a", "x"): [2, 1], ("a", "y"): [1, 2]})
    assert linkwise.sort(levels, by=("a", "x"), **CPU)[("a", "y")].tolist() == [2, 1]
    joined = linkwise.join(frame, pd.DataFrame({0: [1, 1], 7: [5, 6]}), on=[0], **CPU)
    assert joined.to_dict("list") == {0: [1, 1], 1: ["b", "b"], 7: [5, 6]}


@pytest.mark.parametrize(
    ("values", "arguments", "told"),
    [
        (pd.DataFrame({"k": [1]}), {"by": "zz"}, "no column 'zz'; there are 'k'"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), {"by": "a"}, "several columns 'a'"),
        (pd.DataFrame({"k": [1]}), {}, "by= must name a column: 'k'"),
        (pd.DataFrame({"k": [1]}).groupby("k"), {"by": "k"}, "a DataFrameGroupBy cannot be sorted"),
        (pa.table({"k": [1]}), {"by": 5}, "columns are called by their names, not 5"),
        (pa.table({"k": [1]}), {"by": "k", "descending": "no"}, "descending is True or False, not 'no'"),
        (np.array(["b", "a"], dtype=object), {}, r"pass pyarrow.array\(values\)"),
        ((1, 2), {}, "make it an array with numpy.asarray"),
    ],
)
def test_arguments_that_are_wrong(values: Any, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        linkwise.sort(values, **arguments)


def test_types_of_polars_that_arrow_has_not() -> None:
    pl = pytest.importorskip("polars")
    with pytest.raises(UsageError, match="cannot be read through Arrow"):
        linkwise.sort(pl.DataFrame({"k": pl.Series([1], dtype=pl.Int128)}), by="k")


def test_arguments_that_are_like_others() -> None:
    table = pa.table({"a": [1, 1], "b": [1, 2]})
    found = linkwise.sort(table, by=pd.Index(["a", "b"]), descending=np.array([False, True]), **CPU)  # type: ignore[arg-type]
    assert found["b"].to_pylist() == [2, 1]
    words = np.array(["b", "a"], dtype=np.dtypes.StringDType())
    assert linkwise.sort(words, **CPU).tolist() == ["a", "b"]


def test_views_are_kept(tmp_path: Path) -> None:
    """They are stored as other text is; Arrow is told that they were views."""
    names = [f"name {i}" for i in range(2000)]
    pq.write_table(pa.table({"k": range(2000, 0, -1), "s": pa.array(names, pa.string_view())}), tmp_path / "t.parquet")
    for options in ({}, {"limit": 2000}, {"host_memory_limit": "32KiB"}):
        for out in (tmp_path / "o.parquet", tmp_path / "o.arrow"):
            linkwise.sort_file(tmp_path / "t.parquet", out, by="k", **options, **CPU)
            is_parquet = out.suffix == ".parquet"
            found = pq.read_table(out) if is_parquet else pa.ipc.open_file(out.read_bytes()).read_all()
            assert found.schema.types == [pa.int64(), pa.string_view()] and found["s"].to_pylist() == names[::-1]
