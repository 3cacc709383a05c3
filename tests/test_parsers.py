"""What parsers make of hostile input: an answer, or one clear line, soon."""

from __future__ import annotations

import json
import struct
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import linkwise
from conftest import ROOT
from linkwise import Error, UsageError, _core
from linkwise.apps.matrix_market import read_matrix
from linkwise.columns.row_filter import filter_from_text
from linkwise.columns.sort_keys import sort_keys_from_text
from linkwise.encoders import thrift
from linkwise.files.listing import is_like
from linkwise.files.locations import remote_file
from linkwise.files.reading.arrow_sizes import decoded_sizes
from linkwise.machines.nccl_topology import import_nccl
from linkwise.runtime.arguments import parse_bytes
from linkwise.runtime.atomic_directory import AtomicDirectory

sys.path.insert(0, str(ROOT / "scripts"))

from fuzz_parsers import NCCL, TARGETS, drawn

SCHEMA = pa.schema({"a": pa.int64(), "b": pa.string()})


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_drawn_inputs(name: str) -> None:
    """Always the same; scripts/fuzz_parsers.py looks for others, by what they reach."""
    drawn(name, 1500)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (" or ".join(["a = 1"] * 1000), [0]),
        (" and ".join(["a >= 1"] * 1000), [0, 1, 2]),
        (f"a in ({', '.join(['3'] * 20_000)})", [2]),
        ("a in (1, 1.5)", [0]),
        ("a in (1.0, 3)", [0, 2]),
        ("a in (1.5)", []),
        ("not a in (2.5, 2)", [0, 2]),
        ("a = 2.0", [1]),
    ],
)
def test_filters(text: str, rows: list[int]) -> None:
    table = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    kept = table.append_column("row", pa.array([0, 1, 2])).filter(filter_from_text(text, SCHEMA))
    assert kept["row"].to_pylist() == rows


@pytest.mark.parametrize(
    "text", ["a = " + "9" * 5000, "b = '\udce9'", "a = \n", "\n", '"x\ny" = 1', " or ".join(["a = 1"] * 1001)]
)
def test_filters_that_are_none(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        filter_from_text(text, SCHEMA)
    assert "\n" not in str(raised.value)


def test_numbers_that_are_none() -> None:
    for size in (float("nan"), float("inf"), np.float64("nan"), "9" * 500, "4\nMaB"):
        with pytest.raises(UsageError) as raised:
            parse_bytes(size)  # type: ignore[arg-type]
        assert "\n" not in str(raised.value)
    with pytest.raises(UsageError, match="no column"):
        sort_keys_from_text(["9" * 5000], ["a"], "last")


def test_patterns() -> None:
    for name, pattern, likes in (
        ("a/b/c.parquet", "a/**/*.parquet", True), ("c.parquet", "**/*.parquet", True), ("a/b", "a/**", True),
        ("a", "a/**", False), ("a/b/c", "a/*/c", True), ("a/b/c", "a/c", False), ("a/b/c", "*", False),
        ("x1", "x[0-9]", True), ("x1", "x[!0-9]", False), ("x", "[z-a]", False), ("x?", "x?", True),
        ("xy", "x?", False), ("a/x/b/y/c", "**/x/**/c", True),
    ):  # fmt: skip
        assert is_like(name.split("/"), pattern.split("/")) == likes, (name, pattern)
    began = time.monotonic()
    assert not is_like(["a" * 200], ["*a" * 30 + "*b"])
    assert not is_like(["a"] * 200, ["**", "a"] * 30 + ["b"])
    assert time.monotonic() - began < 20, "in time that grows with the lengths alone"


def test_messages_of_arrow_files_that_go_back() -> None:
    builder = bytearray(512)
    struct.pack_into("<Ii", builder, 0, 0xFFFFFFFF, -72)
    with pytest.raises((Error, struct.error)):
        decoded_sizes(memoryview(bytes(builder)))


@pytest.mark.parametrize(
    "data",
    [
        b"\x06" + b"\xff" * 9 + b"\x2f\x02\0",  # the number of a field that takes 70 bits
        b"\x15\x02\x05\x02\x04\0",  # a field twice
        b"\x05\x80\x80\x08\x02\0",  # a number that no field has
    ],
)
def test_metadata_that_cannot_be_written_again(data: bytes) -> None:
    with pytest.raises(ValueError, match="damaged metadata"):
        thrift.parse(data)


def test_json_that_is_deep(tmp_path: Path) -> None:
    for deep in (201, 20_000):
        for opened, closed in (("[", "]"), ('{"x":', "}")):
            (tmp_path / "in.jsonl").write_text('{"a":1,"b":' + opened * deep + "1" + closed * deep + "}\n")
            with pytest.raises(Error, match="more than 200 deep"):
                linkwise.sort_file(tmp_path / "in.jsonl", tmp_path / "out.jsonl", by="a")
    (tmp_path / "in.jsonl").write_text('{"a":2,"b":"[[[{"}\n{"a":1,"b":"\\"[' + "[" * 500 + '"}\n')
    linkwise.sort_file(tmp_path / "in.jsonl", tmp_path / "out.jsonl", by="a")
    assert [json.loads(line)["a"] for line in (tmp_path / "out.jsonl").read_text().splitlines()] == [1, 2]


def test_matrices_that_say_that_they_are_large(tmp_path: Path) -> None:
    path = tmp_path / "m.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n2147483648 2147483648 1\n1 1 1\n")
    with pytest.raises(UsageError, match="2147483648 rows"):
        read_matrix(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda machine: machine["links"][0].update(capacity={"99999999999": 1}) or "capacity",
        lambda machine: machine.update(store_goodput={"9" * 30: 0.5}) or "store_goodput",
        lambda machine: machine.update(agents={"saturating_threads": 3e9}) or "saturating_threads",
    ],
)
def test_machines_with_large_numbers(change: Any, tmp_path: Path) -> None:
    folder = Path(linkwise.__file__).parent / "machines" / "described"
    machine = json.loads((folder / "dgx-a100.json").read_text())
    change(machine)
    (tmp_path / "m.json").write_text(json.dumps(machine))
    with pytest.raises(UsageError) as raised:
        linkwise.load_machine(tmp_path / "m.json")
    assert "\n" not in str(raised.value)


def test_topologies_of_nccl(tmp_path: Path) -> None:
    path = tmp_path / "t.xml"
    path.write_text(NCCL)
    assert import_nccl(path)["name"] == "t"
    deep = '<pci busid="x">' * 3000 + '<gpu sm="90"/>' + "</pci>" * 3000
    for text in (
        NCCL.replace('link_width="16"', f'link_width="{"9" * 4000}"'), NCCL.replace('sm="90"', 'sm="nine"'),
        f"<system><cpu>{deep}</cpu></system>",
    ):  # fmt: skip
        path.write_text(text)
        with pytest.raises(UsageError) as raised:
            import_nccl(path)
        assert "\n" not in str(raised.value) and len(str(raised.value)) < 1000


def test_messages_have_no_secrets() -> None:
    for uri in ("s3x://AKID:SECRET@bucket/a.parquet?X-Signature=SECRET", "zip://a.csv::https://user:SECRET@host/x.zip"):
        with pytest.raises(UsageError) as raised:
            remote_file(uri)
        assert "SECRET" not in str(raised.value)
    assert "SECRET" not in str(remote_file("https://user:SECRET@host/a.parquet?sig=SECRET"))


@pytest.mark.parametrize(
    "uri", ["reference://x::file:///r.json", "zip:///a.csv::file:///x.zip", "simplecache::s3://a/b"]
)
def test_files_inside_of_others_are_refused(uri: str) -> None:
    with pytest.raises(UsageError, match="name the file itself"):
        remote_file(uri)


def test_a_run_that_somebody_else_left_is_not_gone_on_with(tmp_path: Path) -> None:
    """A link beside the target that leads elsewhere, as if it were an unfinished directory."""
    victim, target = tmp_path / "victim", tmp_path / "out"
    victim.mkdir()
    (victim / "thesis.txt").write_text("precious")
    (tmp_path / ".out.deadbeef.linkwise-tmp").symlink_to(victim)
    directory = AtomicDirectory(target, force=False, resume=True).__enter__()
    assert not directory.was_left and directory.path != tmp_path / ".out.deadbeef.linkwise-tmp"
    directory.commit()
    assert (victim / "thesis.txt").read_text() == "precious"


def test_depth_of_json() -> None:
    def depth(text: str) -> int:
        return int(_core.json_depth(np.frombuffer(text.encode(), np.uint8)))

    assert depth('{"a":[1,{"b":[]}]}') == 4
    assert depth('{"a":"[[[\\"[["}') == 1
    assert depth("]]]][") == 1
