"""Files of every format, in memory and through spilled runs, against PyArrow's own sort of what was written."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import linkwise
from linkwise.files.formats import FileOptions
from linkwise.files.reading.readers import open_reader
from linkwise.files.writing.writer import Writer

CPU: dict[str, Any] = {"strategy": "cpu"}
LITTLE = "200KiB"  # of host memory: many runs, and many blocks of each
ROWS = 6000
KEYS = [("city", "ascending"), ("when", "descending")]


def table(rows: int = ROWS) -> pa.Table:
    random = np.random.default_rng(5)
    cities = np.array(["Lima", "Oslo", "Ciudad de México", "Ciudad de Guatemala", ""])
    return pa.table(
        {
            "city": pa.array(cities[random.integers(0, 5, rows)], mask=random.random(rows) < 0.1),
            "when": pa.array(random.integers(0, 50, rows), pa.timestamp("s")),
            "row": np.arange(rows),
            "price": random.random(rows),
        }
    )


def in_order(data: pa.Table) -> pa.Table:
    return data.sort_by([*KEYS, ("row", "ascending")])  # PyArrow's is not stable without it


def write_ipc_stream(data: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, data.schema) as stream:
        stream.write_table(data, max_chunksize=1000)


def write_tsv(data: pa.Table, path: Path) -> None:
    pa.csv.write_csv(data, path, pa.csv.WriteOptions(delimiter="\t"))


def read_arrow(path: Path) -> pa.Table:
    return pa.ipc.open_file(path.read_bytes()).read_all()


def read_text(path: Path) -> pa.Table:
    options = pa.csv.ParseOptions(delimiter="\t" if path.suffix == ".tsv" else ",")
    strings_can_be_null = pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    return pa.csv.read_csv(path, parse_options=options, convert_options=strings_can_be_null)


FORMATS: dict[str, tuple[Callable[[pa.Table, Path], Any], Callable[[Path], pa.Table]]] = {
    "t.parquet": (lambda data, path: pq.write_table(data, path, row_group_size=1000), pq.read_table),
    "t.arrow": (write_ipc_stream, read_arrow),
    "t.ipc": (write_ipc_stream, read_arrow),
    "t.feather": (lambda data, path: pyarrow.feather.write_feather(data, path, "lz4"), read_arrow),
    "t.csv": (pa.csv.write_csv, read_text),
    "t.tsv": (write_tsv, read_text),
}


@pytest.mark.parametrize("memory", [None, LITTLE], ids=["in memory", "spilled"])
@pytest.mark.parametrize("name", FORMATS)
def test_tables(name: str, memory: str | None, tmp_path: Path) -> None:
    write, read = FORMATS[name]
    data = table()
    if name in ("t.csv", "t.tsv"):  # text has one way to write what is missing and what is empty, unless it is quoted
        data = data.set_column(0, "city", pa.compute.fill_null(data["city"], "?"))
    write(data, tmp_path / name)
    spill = tmp_path / "spill"
    spill.mkdir()
    out = tmp_path / f"out-{name}"
    report = linkwise.sort_file(
        tmp_path / name, out, by=["city", "when"], descending=[False, True], host_memory_limit=memory,
        temporary_directory=spill, **CPU,
    )  # fmt: skip
    expected = in_order(data)
    assert read(out)["row"].to_pylist() == expected["row"].to_pylist()
    assert read(out).equals(expected.cast(read(out).schema))
    assert report.rows == ROWS and ("spilled" in report.spilled) == (memory is not None)
    assert not list(spill.iterdir()) and len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("memory", [None, LITTLE], ids=["in memory", "spilled"])
def test_unique_and_limit(memory: str | None, tmp_path: Path) -> None:
    data = table()
    pq.write_table(data, tmp_path / "t.parquet", row_group_size=500)

    def rows(**options: Any) -> list[int]:
        linkwise.sort_file(
            tmp_path / "t.parquet",
            tmp_path / "o.parquet",
            by=["city", "when"],
            host_memory_limit=memory,
            **options,
            **CPU,
        )
        return pq.read_table(tmp_path / "o.parquet")["row"].to_pylist()

    everything = data.sort_by([("city", "ascending"), ("when", "ascending"), ("row", "ascending")])
    seen: set[tuple[Any, Any]] = set()
    firsts = []
    for city, when, row in zip(*(everything[c].to_pylist() for c in ("city", "when", "row")), strict=True):
        if (city, when) not in seen:
            firsts.append(row)
        seen.add((city, when))
    assert rows(unique=True) == firsts
    assert rows(unique=True, limit=7) == firsts[:7]
    assert rows(limit=100) == everything["row"].to_pylist()[:100]
    assert rows(limit=0) == []


@pytest.mark.parametrize("memory", [None, "16KiB"], ids=["in memory", "spilled"])
@pytest.mark.parametrize("dtype", ["u2", "f4", "M8[s]", "?", ">i8"])
def test_arrays(dtype: str, memory: str | None, tmp_path: Path) -> None:
    bits = np.random.default_rng(3).integers(0, 1 << 16, ROWS)
    data = (bits % 2 == 0) if dtype == "?" else bits.astype(dtype)
    if dtype == "M8[s]":
        data[::50] = "NaT"
    np.save(tmp_path / "a.npy", data)
    data.tofile(tmp_path / "a.bin")
    np.save(tmp_path / "b.npy", data[:10])
    for descending in (False, True):
        expected = np.sort(data)[::-1] if descending else np.sort(data)
        how = {"descending": descending, "host_memory_limit": memory, **CPU}
        linkwise.sort_file(tmp_path / "a.npy", tmp_path / "o.npy", **how)
        result = np.load(tmp_path / "o.npy")
        assert result.dtype == data.dtype
        np.testing.assert_array_equal(result, expected)
        linkwise.sort_file(tmp_path / "a.bin", tmp_path / "o.bin", dtype=dtype, **how)
        np.testing.assert_array_equal(np.fromfile(tmp_path / "o.bin", dtype), expected)
        linkwise.sort_file(tmp_path / "a.npy", tmp_path / "u.npy", unique=True, **how)
        assert (
            np.load(tmp_path / "u.npy").tobytes()
            == (np.unique(data)[::-1] if descending else np.unique(data)).tobytes()
        )
        linkwise.sort_file([tmp_path / "a.npy", tmp_path / "b.npy"], tmp_path / "o.npy", limit=9, **how)
        both = np.sort(np.concatenate([data, data[:10]]))
        np.testing.assert_array_equal(np.load(tmp_path / "o.npy"), (both[::-1] if descending else both)[:9])


def test_several_files_and_patterns(tmp_path: Path) -> None:
    data = table()
    for number in range(3):
        pq.write_table(data.slice(2000 * number, 2000), tmp_path / f"part-{number}.parquet")
    for memory in (None, LITTLE):
        linkwise.sort_file(
            str(tmp_path / "part-*.parquet"), tmp_path / "all.arrow", by=["city", "when"], descending=[False, True],
            host_memory_limit=memory, **CPU,
        )  # fmt: skip
        result = read_arrow(tmp_path / "all.arrow")  # Parquet has no timestamps of seconds
        assert result.equals(in_order(data).cast(result.schema))
    pq.write_table(data.set_column(0, data.column_names[0], pa.array([[1]] * len(data))), tmp_path / "part-9.parquet")
    with pytest.raises(linkwise.UsageError, match=r"is .* in .*part-0.parquet and list.* in .*part-9.parquet; cast"):
        linkwise.sort_file(str(tmp_path / "part-*.parquet"), tmp_path / "all.arrow", by="row", **CPU)
    with pytest.raises(linkwise.UsageError, match="no file matches none-"):
        linkwise.sort_file("none-*.parquet", tmp_path / "all.arrow", by="row", **CPU)
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(linkwise.UsageError, match="arrays and tables cannot be sorted together"):
        linkwise.sort_file([tmp_path / "a.npy", tmp_path / "part-0.parquet"], tmp_path / "o.npy", **CPU)


def test_parquet_keeps_what_it_had(tmp_path: Path) -> None:
    data = table().replace_schema_metadata({"who": "me"})
    pq.write_table(data, tmp_path / "t.parquet", compression="zstd")
    linkwise.sort_file(
        tmp_path / "t.parquet", tmp_path / "o.parquet", by=["city", "when"], descending=[False, True], **CPU
    )
    file = pq.ParquetFile(tmp_path / "o.parquet")
    assert file.schema_arrow.metadata[b"who"] == b"me"
    group = file.metadata.row_group(0)
    assert group.column(0).compression == "ZSTD" and group.column(2).statistics.max == ROWS - 1
    assert [(c.column_index, c.descending, c.nulls_first) for c in group.sorting_columns] == [
        (0, False, False),
        (1, True, False),
    ]


def test_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('id,what\n10,"a, b"\n9,"line\nbreak"\n010,c\n')
    linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.tsv", by="id", **CPU)
    assert (tmp_path / "o.tsv").read_text() == '"id"\t"what"\n9\t"line\nbreak"\n10\t"a, b"\n10\t"c"\n'
    linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.csv", by="id", column_types={"id": "string"}, **CPU)
    assert (tmp_path / "o.csv").read_text() == 'id,what\n010,c\n10,"a, b"\n9,"line\nbreak"\n'
    linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.parquet", by="id", column_types={"id": "decimal(5,2)"}, **CPU)
    assert pq.read_schema(tmp_path / "o.parquet").field("id").type == pa.decimal128(5, 2)
    (tmp_path / "n.csv").write_text("3,c\n1,a\n")
    linkwise.sort_file(tmp_path / "n.csv", tmp_path / "o.csv", by="f0", header=False, **CPU)
    assert (tmp_path / "o.csv").read_text() == "1,a\n3,c\n"
    late = "x\n" + "1\n" * 10_000_000 + "word\n"  # behind the lines that tell the type
    (tmp_path / "late.csv").write_text(late)
    with pytest.raises(linkwise.Error, match="give the column's own with --types NAME=string"):
        linkwise.sort_file(tmp_path / "late.csv", tmp_path / "o.csv", by="x", **CPU)
    for options, message in (
        ({"column_types": {"idd": "int64"}}, "no column 'idd'"),
        ({"column_types": {"id": "integer"}}, "no type 'integer'; name one like"),
        ({"input_format": "json"}, "no format 'json'; there are parquet, arrow"),
    ):
        with pytest.raises(linkwise.UsageError, match=message):
            linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.csv", by="id", **options, **CPU)  # type: ignore[arg-type]
    nested = pa.table({"k": [2, 1], "l": [[1], [2]]})
    pq.write_table(nested, tmp_path / "n.parquet")
    with pytest.raises(linkwise.UsageError, match=r"write \.arrow instead"):
        linkwise.sort_file(tmp_path / "n.parquet", tmp_path / "n2.csv", by="k", **CPU)
    assert not (tmp_path / "n2.csv").exists()


def test_the_same_file_in_place_and_through_a_link(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([3, 1, 2]))
    (tmp_path / "link.npy").symlink_to(tmp_path / "a.npy")
    linkwise.sort_file(tmp_path / "link.npy", tmp_path / "link.npy", **CPU)
    assert (tmp_path / "link.npy").is_symlink() and np.load(tmp_path / "a.npy").tolist() == [1, 2, 3]


def run(*arguments: Any, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "linkwise", *map(str, arguments)], input=stdin, capture_output=True, timeout=120,
        check=False, env=os.environ | environment,
    )  # fmt: skip


def ipc(data: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, data.schema) as stream:
        stream.write_table(data, max_chunksize=700)
    return sink.getvalue()


def test_pipes() -> None:
    data = table()
    for memory in ("1GiB", LITTLE):
        done = run(
            "sort", "-", "-o", "-", "-k", "city", "-k", "when:desc", "--strategy", "cpu", "-S", memory, stdin=ipc(data)
        )
        assert done.returncode == 0, done.stderr
        assert pa.ipc.open_stream(done.stdout).read_all().equals(in_order(data))
        assert b"rows sorted" in done.stderr
    done = run("sort", "-", "-o", "-", "-k", "a", "-r", "--strategy", "cpu", stdin=b"a,b\n1,x\n3,y\n2,z\n")
    assert done.stdout == b"a,b\n3,y\n2,z\n1,x\n"
    done = run(
        "sort",
        "-",
        "-o",
        "-",
        "-k",
        "2",
        "--no-header",
        "--strategy",
        "cpu",
        "--input-format",
        "tsv",
        "--output-format",
        "csv",
        stdin=b"1\tx\n3\ta\n",
    )
    assert done.stdout == b'3,"a"\n1,"x"\n'
    array = run("sort", "-", "-o", "-", "--input-format", "npy")
    assert array.returncode == 2 and b"npy cannot be read from standard input; tables can" in array.stderr
    broken = run("sort", "-", "-o", "-", "-k", "city", stdin=ipc(data)[:5000])
    assert broken.returncode == 1 and broken.stderr.startswith(b"linkwise: cannot read standard input: ")
    assert (
        run("sort", "-", "-o", "-", "-k", "a").stderr
        == b"linkwise: cannot read standard input: it is empty, so that its columns are not known\n"
    )


def test_shorthands_and_environment(tmp_path: Path) -> None:
    data = pa.table({"a,b": [2, 1, 2, None], "c:desc": ["x", "y", "w", "z"]})
    pq.write_table(data, tmp_path / "t.parquet")

    def result(*arguments: str, **environment: str) -> list[Any]:
        done = run("sort", tmp_path / "t.parquet", "-o", tmp_path / "o.parquet", *arguments, **environment)
        assert done.returncode == 0, done.stderr
        return pq.read_table(tmp_path / "o.parquet")["c:desc"].to_pylist()

    cpu = {"LINKWISE_SORT_STRATEGY": "cpu"}
    assert result("-k", "a,b:nulls-first", "-k", "c:desc", **cpu) == ["z", "y", "w", "x"]
    assert result("-k", "1:desc,2:desc", **cpu) == ["x", "w", "y", "z"]
    assert result("-k", "a,b", "-r", "-u", "--nulls", "first", **cpu) == ["z", "x", "y"]
    assert result("--limit", "1", LINKWISE_SORT_BY="c:desc", **cpu) == ["w"]
    assert result("-k", "1", LINKWISE_SORT_LIMIT="2", LINKWISE_SORT_HOST_MEMORY="50%", **cpu) == ["y", "x"]
    told = run("sort", tmp_path / "t.parquet", "-k", "1", LINKWISE_SORT_OUTPUT=str(tmp_path / "o.csv"),
               LINKWISE_SORT_JSON="1", LINKWISE_SORT_TEMPORARY_DIRECTORY=str(tmp_path), **cpu)  # fmt: skip
    assert json.loads(told.stdout)["rows"] == 4 and (tmp_path / "o.csv").exists()
    wrong = run("sort", tmp_path / "t.parquet", "-o", tmp_path / "o.parquet", "-k", "1", LINKWISE_SORT_STRATEGY="magic")
    assert wrong.returncode == 2 and b"'magic' is not one of 'auto', 'radix'" in wrong.stderr


def test_named_pipes_and_what_no_name_tells(tmp_path: Path) -> None:
    data = table().slice(0, 500)
    file = io.BytesIO()
    with pa.ipc.new_file(file, data.schema) as stream:
        stream.write_table(data)
    expected = in_order(data)
    os.mkfifo(tmp_path / "pipe")  # whose first bytes tell what comes
    for contents in (ipc(data), file.getvalue()):
        for source in (tmp_path / "pipe", "-", "/dev/stdin"):
            command = ["sort", source, "-o", "/dev/stdout", "-k", "city", "-k", "when:desc", "--strategy", "cpu"]
            if source == tmp_path / "pipe":
                with ThreadPoolExecutor() as pool:
                    pool.submit((tmp_path / "pipe").write_bytes, contents)
                    done = run(*command)
            else:
                done = run(*command, stdin=contents)
            assert done.returncode == 0, done.stderr
            assert pa.ipc.open_stream(done.stdout).read_all().equals(expected)
    parquet = io.BytesIO()
    pq.write_table(data, parquet)
    done = run("sort", "-", "-o", "-", "-k", "city", "-k", "when:desc", stdin=parquet.getvalue())
    assert pq.read_table(io.BytesIO(done.stdout)).cast(expected.schema).equals(expected)
    done = run("sort", "-", "-o", "-", "-k", "city", stdin=parquet.getvalue()[:-50])
    assert done.returncode == 1 and done.stderr.startswith(b"linkwise: cannot read standard input: Parquet magic")
    assert len(done.stderr.splitlines()) == 1 and not done.stdout


def test_first_rows_that_memory_does_not_hold(tmp_path: Path) -> None:
    data = table()
    pq.write_table(data, tmp_path / "t.parquet", row_group_size=500)
    report = linkwise.sort_file(
        tmp_path / "t.parquet", tmp_path / "o.arrow", by="row", descending=True, limit=ROWS - 1,
        host_memory_limit=LITTLE, **CPU,
    )  # fmt: skip
    assert "spilled" in report.spilled
    assert read_arrow(tmp_path / "o.arrow")["row"].to_pylist() == list(range(ROWS - 1, 0, -1))


def test_several_files_keep_their_byte_order(tmp_path: Path) -> None:
    np.array([3, 1], ">i4").tofile(tmp_path / "a.bin")
    np.array([2], ">i4").tofile(tmp_path / "b.bin")
    linkwise.sort_file([tmp_path / "a.bin", tmp_path / "b.bin"], tmp_path / "c.bin", dtype=">i4", machine="h200x8")
    assert np.fromfile(tmp_path / "c.bin", ">i4").tolist() == [1, 2, 3]


def test_every_column_keeps_its_codec(tmp_path: Path) -> None:
    codecs = {"k": "ZSTD", "v": "SNAPPY", "s.x": "GZIP"}
    table = pa.table({"k": [2, 1], "v": [1, 2], "s": [{"x": 1}, {"x": 2}]})
    pq.write_table(table, tmp_path / "a.parquet", compression=codecs)
    linkwise.sort_file(tmp_path / "a.parquet", tmp_path / "b.parquet", by="k", machine="h200x8")
    group = pq.ParquetFile(tmp_path / "b.parquet").metadata.row_group(0)
    assert {group.column(i).path_in_schema: group.column(i).compression for i in range(3)} == codecs


def test_an_output_keeps_its_mode_and_a_pipe_stays_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n\n2\n1\n")
    (tmp_path / "b.csv").write_text("secret")
    (tmp_path / "b.csv").chmod(0o600)
    linkwise.sort_file(tmp_path / "a.csv", tmp_path / "b.csv", by="n", machine="h200x8")
    assert (tmp_path / "b.csv").stat().st_mode & 0o777 == 0o600
    os.mkfifo(tmp_path / "p.csv")
    with subprocess.Popen(["cat", tmp_path / "p.csv"], stdout=subprocess.PIPE) as reader:
        linkwise.sort_file(tmp_path / "a.csv", tmp_path / "p.csv", by="n", machine="h200x8")
        assert reader.communicate(timeout=30)[0].split() == [b"n", b"1", b"2"]
    assert (tmp_path / "p.csv").is_fifo()


def test_small_tables_wait_for_a_row_group(tmp_path: Path) -> None:
    pq.write_table(table().slice(0, 100), tmp_path / "t.parquet")
    some = pq.read_table(tmp_path / "t.parquet")
    reader = open_reader([tmp_path / "t.parquet"], FileOptions())
    for memory, groups in ((1 << 30, 1), (16 * 4 * some.nbytes, 5), (16, 20)):
        with Writer(tmp_path / "o.parquet", FileOptions(), like=reader, memory=memory) as writer:
            for _ in range(20):
                writer.write(some)
        file = pq.ParquetFile(tmp_path / "o.parquet")
        assert abs(file.num_row_groups - groups) <= (groups == 5) and file.metadata.num_rows == 2000
        assert file.read().equals(pa.concat_tables([some] * 20))
