"""Files that others keep: of a server of S3's protocol, of one of HTTP, and of a file system that fsspec has."""

from __future__ import annotations

import functools
import http.server
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import linkwise
from linkwise.files.writing import remote_output

moto_server = pytest.importorskip("moto.server")
CPU: dict[str, Any] = {"strategy": "cpu"}


@pytest.fixture(scope="module")
def bucket() -> Iterator[Any]:
    """The file system of a server, and what a URI is followed by to mean it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "user")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        server = moto_server.ThreadedMotoServer(port=0)
        server.start()
        host, port = server.get_host_and_port()
        query = f"?scheme=http&endpoint_override={host}:{port}&region=us-east-1&allow_bucket_creation=true"
        files, _ = pa.fs.FileSystem.from_uri(f"s3://trips{query}")
        files.create_dir("trips")
        yield files, query
        server.stop()


def table(rows: int = 3000) -> pa.Table:
    draw = np.random.default_rng(3)
    return pa.table({
        "k": draw.permutation(rows), "v": draw.random(rows), "day": [date(2024, 5, 1 + n % 3) for n in range(rows)],
    })  # fmt: skip


def put(files: Any, path: str, contents: pa.Table, kind: str) -> None:
    with files.open_output_stream(path) as out:  # compressed as the name says
        if kind == "parquet":
            pq.write_table(contents, out, row_group_size=500)
        elif kind == "arrow":
            with pa.ipc.new_file(out, contents.schema) as file:
                file.write_table(contents, max_chunksize=400)
        else:
            pa.csv.write_csv(contents, out)


@pytest.mark.parametrize("memory", [None, "64KiB"])
@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "csv.gz"])
def test_sorts_of_every_format(bucket: Any, suffix: str, memory: str | None, tmp_path: Path) -> None:
    files, query = bucket
    put(files, f"trips/one.{suffix}", table(), suffix.split(".", maxsplit=1)[0])
    uri = f"s3://trips/one.{suffix}{query}"
    linkwise.sort_file(uri, tmp_path / "o.parquet", by="k", host_memory_limit=memory, **CPU)
    assert pq.read_table(tmp_path / "o.parquet").equals(table().sort_by("k"))
    linkwise.sort_file(uri, tmp_path / "o.parquet", by="v", filter="k > 1500", columns=["v"], limit=9, **CPU)
    expected = table().filter(pa.compute.field("k") > 1500).sort_by("v").select(["v"]).slice(0, 9)
    assert pq.read_table(tmp_path / "o.parquet").equals(expected)


def test_directories_and_patterns(bucket: Any, tmp_path: Path) -> None:
    files, query = bucket
    by_day = pa.dataset.partitioning(pa.schema([("day", pa.date32())]), flavor="hive")
    pa.dataset.write_dataset(table(), "trips/set", format="parquet", partitioning=by_day, filesystem=files)
    put(files, "trips/set/_hidden.csv", table(3), "csv")
    expected = table().sort_by("k").select(["k", "v", "day"])
    for name in ("set", "set/", "set/*/*.parquet", "set/**/*.parquet", "s*t/day=*/part-[0-9]*"):
        linkwise.sort_file(f"s3://trips/{name}{query}", tmp_path / "o.parquet", by="k", **CPU)
        assert pq.read_table(tmp_path / "o.parquet").equals(expected)
    two = f"s3://trips/set/day=2024-05-0[12]/*{query}"
    assert linkwise.join_file(two, table(10), None, "k", right_columns=["k"]).rows == sum(
        day < date(2024, 5, 3) for k, day in zip(table()["k"].to_pylist(), table()["day"].to_pylist(), strict=True)
        if k in set(table(10)["k"].to_pylist())
    )  # fmt: skip


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv.gz"])
def test_outputs_appear_complete_or_not_at_all(
    bucket: Any, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, query = bucket
    pq.write_table(table(), tmp_path / "t.parquet")
    out = f"s3://trips/out/sorted.{suffix}{query}"
    linkwise.sort_file(tmp_path / "t.parquet", out, by="k", **CPU)
    linkwise.sort_file(out, tmp_path / "back.parquet", by="v", **CPU)
    assert pq.read_table(tmp_path / "back.parquet").equals(table().sort_by("v"))
    linkwise.join_file(tmp_path / "t.parquet", out, f"s3://trips/out/joined.parquet{query}", "k")
    with files.open_input_file("trips/out/joined.parquet") as file:
        assert pq.read_metadata(file).num_rows == 3000
    before = names_in(files, "trips/out")

    def fail(*_: object) -> None:
        raise OSError("the line is down")

    monkeypatch.setattr(remote_output.RemoteOutput, "_sent", fail)
    with pytest.raises(linkwise.Error, match=r"cannot write s3://trips/out/sorted.*: the line is down"):
        linkwise.sort_file(tmp_path / "t.parquet", out, by="v", **CPU)
    assert names_in(files, "trips/out") == before


def names_in(files: Any, folder: str) -> list[tuple[str, int]]:
    return sorted((told.path, told.mtime_ns) for told in files.get_file_info(pa.fs.FileSelector(folder)))


def test_what_goes_wrong_is_one_line(bucket: Any, tmp_path: Path) -> None:
    files, query = bucket
    put(files, "trips/one.parquet", table(), "parquet")
    cases = {
        f"s3://trips/none.parquet{query}": r"cannot read s3://trips/none\.parquet: ",
        f"s3://nowhere/none.parquet{query}": r"cannot read s3://nowhere/none\.parquet: ",
        f"s3://trips/none*.parquet{query}": "no file matches s3://trips/none",
        f"s3://trips/one.xyz{query}": "cannot tell the format",
        "gopher://trips/one.parquet": "gopher://trips/one.parquet: .*pip install 'linkwise.remote.'",
    }
    for uri, told in cases.items():
        with pytest.raises(linkwise.Error, match=told) as error:
            linkwise.sort_file(uri, tmp_path / "o.parquet", by="k", **CPU)
        assert "\n" not in str(error.value)
    with pytest.raises(linkwise.Error, match="cannot write s3://nowhere/o.parquet: "):
        linkwise.sort_file(f"s3://trips/one.parquet{query}", f"s3://nowhere/o.parquet{query}", by="k", **CPU)


def test_a_file_that_is_replaced_while_it_is_read(bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, query = bucket
    put(files, "trips/one.parquet", table(), "parquet")
    from linkwise.files import file_sort

    run = file_sort.FileSort.run

    def replaced(*given: Any) -> Any:
        report = run(*given)
        put(files, "trips/one.parquet", table(10), "parquet")
        return report

    monkeypatch.setattr(file_sort.FileSort, "run", replaced)
    with pytest.raises(linkwise.Error, match="was changed while it was read"):
        linkwise.sort_file(f"s3://trips/one.parquet{query}", tmp_path / "o.parquet", by="k", **CPU)
    assert not (tmp_path / "o.parquet").exists()


def test_the_command(bucket: Any, tmp_path: Path) -> None:
    files, query = bucket
    put(files, "trips/one.csv", table(), "csv")
    for out in ("o.parquet", f"s3://trips/cli.parquet{query}"):
        subprocess.run(
            [sys.executable, "-m", "linkwise", "sort", f"s3://trips/one.csv{query}", "-o", out, "-k", "k"],
            cwd=tmp_path, check=True,
        )  # fmt: skip
    assert pq.read_table(tmp_path / "o.parquet").equals(table().sort_by("k"))
    with files.open_input_file("trips/cli.parquet") as file:
        assert pq.read_table(file).equals(table().sort_by("k"))


def test_http(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    pq.write_table(table(), tmp_path / "t.parquet")
    pa.csv.write_csv(table(), tmp_path / "t.csv")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in ("t.parquet", "t.csv"):
            uri = f"http://127.0.0.1:{server.server_address[1]}/{name}"
            linkwise.sort_file(uri, tmp_path / "o.parquet", by="k", **CPU)
            assert pq.read_table(tmp_path / "o.parquet").equals(table().sort_by("k"))
        server.shutdown()


def test_file_uris_and_fsspec(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    pq.write_table(table(), tmp_path / "a t.parquet")
    linkwise.sort_file(f"file://{tmp_path}/a%20t.parquet", f"file://{tmp_path}/o.parquet", by="k", **CPU)
    linkwise.sort_file(tmp_path / "o.parquet", "memory://some/o.csv", by="v", **CPU)
    linkwise.sort_file("memory://some/*.csv", tmp_path / "o.parquet", by="k", **CPU)
    assert pq.read_table(tmp_path / "o.parquet").equals(table().sort_by("k"))
    assert fsspec.filesystem("memory").ls("/some", detail=False) == ["/some/o.csv"]
