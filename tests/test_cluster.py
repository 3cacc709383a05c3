"""Sorts and joins over many nodes, on engines of this process that carry calls out in any legal order."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

import linkwise
from clusters import PARQUET, AnyOrder, joining, keyed, run, sorting, write_parts
from linkwise.cluster import engine as engine_module
from linkwise.cluster.engine import Call, run_all
from linkwise.cluster.runs import Run, RunOptions, Side
from linkwise.cluster.sizing import batches_of, sizes_of
from linkwise.cluster.targets import clean
from linkwise.columns.sort_keys import Selection
from linkwise.files.locations import RemoteFile
from linkwise.runtime.atomic_directory import AtomicDirectory

MEMORY = 1 << 18  # bytes of a worker: a table of 100,000 rows has some twenty partitions


def one_machine(source, folder, **how):
    linkwise.sort_file(str(source), folder / "one.parquet", **how)
    return pq.read_table(folder / "one.parquet")


@pytest.mark.parametrize("least_shard", [1, 1 << 14], ids=["cut once", "cut twice"])
@pytest.mark.parametrize(
    ("by", "descending", "nulls"),
    [("n", True, "last"), ("k", False, "first"), ("s", True, "last"), (["s", "k"], [True, False], ["first", "last"])],
    ids=str,
)
def test_a_sort_gives_what_one_machine_gives(by, descending, nulls, least_shard, tmp_path):
    source = write_parts(tmp_path / "in", keyed(30_000, 1, share=0.2), 4)
    out = tmp_path / "out"
    report = run(
        AnyOrder(7, MEMORY), [Side(str(source), PARQUET)], sorting(by, descending, nulls), out, least_shard=least_shard
    )
    assert pq.read_table(out).equals(one_machine(source, tmp_path, by=by, descending=descending, nulls=nulls))
    assert report.partitions > 8
    assert ("regroup" in report.stages) == (least_shard > 1)
    told = json.loads((out / "_manifest.json").read_text())
    assert [file["rows"] for file in told["files"]] == [
        pq.read_metadata(out / file["name"]).num_rows for file in told["files"]
    ]
    assert told["rows"] == report.rows == 30_000
    assert sorted(path.name for path in out.iterdir()) == ["_manifest.json", *(f["name"] for f in told["files"])]


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_one_key_fills_several_partitions(share, tmp_path):
    source = write_parts(tmp_path / "in", keyed(100_000, 2, share=share, nulls=0), 3)
    report = run(AnyOrder(1, MEMORY), [Side(str(source), PARQUET)], sorting("k"), tmp_path / "out")
    assert pq.read_table(tmp_path / "out").equals(one_machine(source, tmp_path, by="k"))
    assert report.partitions > 10
    assert report.largest <= 1.1


def odd_columns(rows: int) -> pa.Table:
    random = np.random.default_rng(3)
    floats = random.integers(-3, 4, rows).astype(float)
    floats[floats == 3] = np.nan
    floats[(floats == 0) & (random.random(rows) < 0.5)] = -0.0
    words = pa.array([f"w{number}" for number in random.integers(0, 300, rows)])
    return pa.table({
        "f": pa.array(floats, mask=random.random(rows) < 0.1),
        "d": words.dictionary_encode(),
        "b": pa.array(random.integers(0, 9, rows).astype("S")),
        "t": pa.array(random.integers(0, 10**9, rows), pa.timestamp("us")),
        "inside": pa.StructArray.from_arrays([words, pa.array(random.integers(0, 50, rows))], ["w", "x"]),
        "list": pa.array([[1] * (number % 3) for number in range(rows)]),
    })  # fmt: skip


@pytest.mark.parametrize("by", [["f", "t"], ["d", "f"], ["b", "d"], ["inside.x", "inside.w"], "t"], ids=str)
def test_columns_of_every_kind(by, tmp_path):
    source = write_parts(tmp_path / "in", odd_columns(8_000), 2)
    run(AnyOrder(2, MEMORY), [Side(str(source), PARQUET)], sorting(by), tmp_path / "out")
    expected = one_machine(source, tmp_path, by=by)
    found = pq.read_table(tmp_path / "out")
    assert found.schema.equals(expected.schema)
    assert str(found.to_pydict()) == str(expected.to_pydict())  # NaN is not equal to itself


def test_text_and_directories_and_columns_and_filters(tmp_path):
    for day in (1, 2):
        folder = tmp_path / "in" / f"day={day}"
        folder.mkdir(parents=True)
        pa.csv.write_csv(keyed(9_000, day, nulls=0), folder / "x.csv")
    options = replace(PARQUET, columns=["k", "day", "n"], filter="k < 500")
    report = run(AnyOrder(3, MEMORY), [Side(str(tmp_path / "in"), options)], sorting(["k"]), tmp_path / "out")
    expected = one_machine(tmp_path / "in", tmp_path, by="k", columns=["k", "day", "n"], filter="k < 500")
    assert pq.read_table(tmp_path / "out", partitioning=None).equals(expected)
    assert report.partitions > 2


def test_arrow_files_are_split_by_their_batches(tmp_path):
    table = keyed(20_000, 5)
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=1000)
    engine = AnyOrder(4, MEMORY)
    report = run(engine, [Side(str(tmp_path / "in.arrow"), PARQUET)], sorting("s"), tmp_path / "out")
    assert pq.read_table(tmp_path / "out").equals(one_machine(tmp_path / "in.arrow", tmp_path, by="s"))
    assert report.read == [20_000]
    assert engine.calls > 30  # of which a file in one piece would need few


@pytest.mark.parametrize("by", [["k"], ["k", "s"]], ids=str)
def test_unique_and_top_k(by, tmp_path):
    table = keyed(40_000, 6, share=0.4)
    source = write_parts(tmp_path / "in", table, 3)
    side = [Side(str(source), PARQUET)]
    first = run(AnyOrder(5, MEMORY), side, sorting(by, selection=Selection(unique=True)), tmp_path / "first")
    assert pq.read_table(tmp_path / "first").equals(linkwise.unique(table, by=by))
    assert first.partitions > 5
    run(AnyOrder(6, MEMORY), side, sorting(by, True, selection=Selection(limit=321)), tmp_path / "top")
    assert pq.read_table(tmp_path / "top").equals(linkwise.top_k(table, 321, by=by))


def test_keys_that_python_does_not_have(tmp_path):
    ends = pa.py_buffer(np.array([0, 2, 3, 4], np.int32))
    table = pa.table({
        "t": pa.array([2**62 - 1, 5, None], pa.timestamp("ns")), "d": pa.array([-(2**30), 2**30, 0], pa.date32()),
        "s": pa.StringArray.from_buffers(3, ends, pa.py_buffer(b"a\xff\xfeb")), "b": [b"a\xff", b"\xfe", None],
        "x": [float("nan"), float("inf"), 1.5],
    })  # fmt: skip
    source = write_parts(tmp_path / "in", table, 1)
    for by in table.column_names:
        run(AnyOrder(1, MEMORY), [Side(str(source), PARQUET)], sorting(by), tmp_path / by)
        found, expected = pq.read_table(tmp_path / by), linkwise.sort(table, by=by)
        assert all(found[name].cast(kind).equals(expected[name].cast(kind)) for name, kind in BITS.items())
        json.loads((tmp_path / by / "_manifest.json").read_text(), parse_constant=pytest.fail)


BITS = {"t": pa.int64(), "d": pa.int32(), "s": pa.binary(), "b": pa.binary()}


def test_views_and_runs_of_arrow_files(tmp_path):
    words = pa.array([f"word {number % 97} of a longer text" for number in range(9_000)])
    runs = pa.compute.run_end_encode(pa.array(np.arange(9_000) // 30))
    table = pa.table({"v": words.cast(pa.string_view()), "r": runs})
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=1000)
    run(AnyOrder(1, MEMORY), [Side(str(tmp_path / "in.arrow"), PARQUET)], sorting("v"), tmp_path / "out")
    assert pq.read_table(tmp_path / "out").equals(one_machine(tmp_path / "in.arrow", tmp_path, by="v"))


def test_text_without_rows(tmp_path):
    pa.csv.write_csv(keyed(9_000, 1, nulls=0), tmp_path / "l.csv")
    (tmp_path / "r.csv").write_text("k,other\n")
    names = [str(tmp_path / "l.csv"), str(tmp_path / "r.csv")]
    none = [Side(names[0], replace(PARQUET, filter="k < 0"))]
    assert run(AnyOrder(1, MEMORY), none, sorting("k"), tmp_path / "none").rows == 0
    assert pq.read_table(tmp_path / "none").column_names == ["k", "s", "n"]
    types = replace(PARQUET, column_types={"k": "int64", "other": "int32"})  # of which each side has some
    both = [Side(name, types) for name in names]
    for number, (sides, rows) in enumerate(((both, 9_000), (both[::-1], 0))):
        report = run(AnyOrder(1, MEMORY), sides, joining("k", "left"), tmp_path / f"joined{number}")
        assert report.rows == rows
    wrong = [Side(name, replace(PARQUET, column_types={"x": "int8"})) for name in names]
    with pytest.raises(linkwise.UsageError, match="no column 'x', whose type is given"):
        run(AnyOrder(1, MEMORY), wrong, joining("k", "inner"), tmp_path / "wrong")


def test_a_directory_that_others_keep(tmp_path):
    kept = tmp_path / "kept" / "out"
    kept.mkdir(parents=True)
    store = SubTreeFileSystem(str(tmp_path / "kept"), LocalFileSystem())
    target = RemoteFile(store, "out", "kept://out")
    source = write_parts(tmp_path / "in", keyed(20_000, 1), 2)
    side = [Side(str(source), PARQUET)]
    run(AnyOrder(1, MEMORY), side, sorting("n"), target)
    first = sorted(kept.glob("part-*.parquet"))
    told = json.loads((kept / "_manifest.json").read_text())
    assert [path.name for path in first] == [file["name"] for file in told["files"]]
    with pytest.raises(linkwise.UsageError, match="has files in it"):
        run(AnyOrder(1, MEMORY), side, sorting("n"), target)
    with pytest.raises(linkwise.UsageError, match="leave --resume out"):
        run(AnyOrder(1, MEMORY), side, sorting("n"), target, resume=True)
    spoils = AnyOrder(1, MEMORY)
    spoils.spoil = flipped
    with pytest.raises(linkwise.CorruptDataError):
        run(spoils, side, sorting("n"), target, force=True)
    assert sorted(kept.glob("part-*")) == first
    run(AnyOrder(1, MEMORY), side, sorting("k"), target, force=True)
    assert not any(path.exists() for path in first)
    found = sorted(kept.glob("part-*.parquet"))
    assert pa.concat_tables(map(pq.read_table, found)).equals(one_machine(source, tmp_path, by="k"))
    for left in ("part-00000-0123abcd.parquet", "part-00001-0123abcd.parquet.89abcdef.linkwise-tmp"):
        (kept / left).write_bytes(b"x")
    assert len(clean(target)) == 2
    assert sorted(kept.glob("part-*")) == found


def test_no_rows_and_one_row(tmp_path):
    for rows in (0, 1):
        table = keyed(rows, 1)
        source = write_parts(tmp_path / f"in{rows}", table, 1)
        report = run(AnyOrder(1, MEMORY), [Side(str(source), PARQUET)], sorting("k"), tmp_path / f"out{rows}")
        assert pq.read_table(tmp_path / f"out{rows}").equals(table)
        assert report.rows == rows


def in_any_order(table: pa.Table) -> pa.Table:
    return linkwise.sort(table, by=table.column_names)


SHARES = [(0.3, 0.001), (0.001, 0.3), (0.0, 0.0), (1.0, 0.0)]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("shares", SHARES, ids=str)
def test_a_join_gives_what_one_machine_gives(how, shares, tmp_path):
    sides = [
        write_parts(tmp_path / name, keyed(rows, rows, share=share, keys=3000), 3)
        for name, rows, share in zip("lr", (12_000, 4_000), shares, strict=True)
    ]
    for number, (on, nulls_equal, order) in enumerate(
        [(["k"], False, "key"), (["k"], True, None), (["k", "s"], False, None), (["k", "s"], True, "key")]
    ):
        is_half = how in ("semi", "anti")
        right = replace(PARQUET, columns=on if is_half else None)
        asked = {"nulls_equal": nulls_equal, "order": None if is_half else order}
        report = run(
            AnyOrder(number, MEMORY), [Side(str(sides[0]), PARQUET), Side(str(sides[1]), right)],
            joining(on, how, **asked), tmp_path / f"out{number}", least_shard=[1, 4000][number % 2],
        )  # fmt: skip
        linkwise.join_file(str(sides[0]), str(sides[1]), tmp_path / "one.parquet", on=on, how=how, **asked)
        found, expected = pq.read_table(tmp_path / f"out{number}"), pq.read_table(tmp_path / "one.parquet")
        if asked["order"] is None:
            found, expected = in_any_order(found), in_any_order(expected)
        assert found.equals(expected)
        assert report.partitions > 3


@pytest.mark.parametrize("on", ["k", "name"])
def test_joins_of_views_with_null_keys(on, tmp_path):
    """As in files that Polars writes."""
    names = pa.array([None if number % 7 == 0 else f"name {number % 90}" for number in range(3_000)])
    tables = [
        pa.table({"k": pa.array([None, *range(rows - 1)]), "name": names[:rows].cast(pa.string_view())})
        for rows in (3_000, 800)
    ]
    for name, table in zip("lr", tables, strict=True):
        with pa.ipc.new_file(tmp_path / f"{name}.arrow", table.schema) as file:
            file.write_table(table, max_chunksize=200)
    sides = [Side(str(tmp_path / f"{name}.arrow"), PARQUET) for name in "lr"]
    run(AnyOrder(5, MEMORY), sides, joining(on, "semi", order=None), tmp_path / "out", least_shard=1)
    found = pq.read_table(tmp_path / "out")
    expected = linkwise.join(*tables, on=on, how="semi").cast(found.schema)
    assert in_any_order(found).equals(in_any_order(expected))


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_fields_of_structs_are_keys(how, tmp_path):
    random = np.random.default_rng(4)
    tables = []
    for rows in (4_000, 1_500):
        place = pa.StructArray.from_arrays(
            [pa.array(random.integers(0, 900, rows)), pa.array(random.integers(0, 9, rows))],
            ["city", "floor"],
            mask=pa.array(random.random(rows) < 0.1),
        )
        tables.append(pa.table({"at": place, "row": np.arange(rows)}))
    sides = [write_parts(tmp_path / name, table, 3) for name, table in zip("lr", tables, strict=True)]
    given = [Side(str(side), PARQUET) for side in sides]
    order = "key" if how in ("inner", "full") else None
    report = run(AnyOrder(3, MEMORY), given, joining("at.city", how, order=order), tmp_path / "out", least_shard=1)
    found = pq.read_table(tmp_path / "out")
    expected = linkwise.join(*tables, on="at.city", how=how, order=order)
    numbers = [name for name in expected.column_names if name.startswith("row")]
    if order is None:
        found, expected = (linkwise.sort(table, by=numbers) for table in (found, expected))
    assert found.equals(expected.cast(found.schema)) and report.partitions > 1


@pytest.mark.parametrize("how", ["inner", "full", "right", "anti"])
def test_floats_match_as_numbers(how, tmp_path):
    tables = odd_columns(3_000).select(["f", "t"]), odd_columns(900).select(["f", "b"])
    sides = [write_parts(tmp_path / name, table, 2, 100) for name, table in zip("lr", tables, strict=True)]
    right = replace(PARQUET, columns=["f"] if how == "anti" else None)
    run(
        AnyOrder(1, 1 << 15), [Side(str(sides[0]), PARQUET), Side(str(sides[1]), right)], joining("f", how),
        tmp_path / "out",
    )  # fmt: skip
    expected = linkwise.join(*tables, on="f", how=how)
    found = in_any_order(pq.read_table(tmp_path / "out")).to_pydict()
    assert str(found) == str(in_any_order(expected).to_pydict())


def test_a_key_of_a_divided_side_is_found_to_occur_twice(tmp_path):
    left = write_parts(tmp_path / "l", keyed(9_000, 1, share=1.0, nulls=0), 2)
    right = write_parts(tmp_path / "r", pa.table({"k": [77, 78]}), 1)
    for validate, fails in (("1:1", True), ("1:m", True), ("m:1", False)):
        sides = [Side(str(left), PARQUET), Side(str(right), PARQUET)]
        job = joining("k", "inner", validate=validate)
        if fails:
            with pytest.raises(linkwise.UsageError, match="occurs more than once on the left"):
                run(AnyOrder(1, MEMORY), sides, job, tmp_path / validate)
            assert not (tmp_path / validate).exists()
        else:
            assert run(AnyOrder(1, MEMORY), sides, job, tmp_path / validate).rows == 9_000


def test_orders_that_many_nodes_do_not_keep():
    for how, order in (("inner", "left"), ("semi", "key"), ("anti", "left")):
        with pytest.raises(linkwise.UsageError, match="do not keep the left table's order"):
            joining("k", how, order=order)


def flipped(value: Any) -> Any:
    """A shard in which a bit has changed."""
    if not isinstance(value, pa.Buffer) or value.size < 2000:
        return value
    data = bytearray(value.to_pybytes())
    data[-200] ^= 4
    return pa.py_buffer(bytes(data))


def test_what_is_corrupted_on_its_way_is_found_and_nothing_is_left(tmp_path):
    source = write_parts(tmp_path / "in", keyed(20_000, 1, nulls=0).select(["k", "n"]), 2)
    engine = AnyOrder(1, MEMORY)
    engine.spoil = flipped
    with pytest.raises(linkwise.CorruptDataError, match=r"not those of the input|not in order"):
        run(engine, [Side(str(source), PARQUET)], sorting("k"), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_an_input_that_changes_or_breaks_meanwhile(tmp_path):
    source = write_parts(tmp_path / "in", keyed(20_000, 1), 2)
    file = source / "in-01.parquet"
    whole = file.read_bytes()

    def attempt(data: bytes, stage: str) -> None:
        def when(told: str, done: int, _: int) -> None:
            if told == stage and done:
                file.write_bytes(data)

        file.write_bytes(whole)
        engine = AnyOrder(1, MEMORY)
        with pytest.raises(linkwise.Error, match=r"in-01.parquet was changed while it was read|cannot read .*in-01"):
            run(engine, [Side(str(source), PARQUET)], sorting("k"), tmp_path / "out", on_progress=when)
        assert [path.name for path in tmp_path.iterdir()] == ["in"]

    attempt(whole[:-100] + bytes(100), "sample")
    attempt(whole[: len(whole) // 2], "inspect")
    attempt(whole + b" ", "spread")


def test_what_a_call_raises_ends_the_others():
    engine = AnyOrder(1, 1)

    def fails(_: Any, number: int) -> int:
        if number == 3:
            raise linkwise.Error("three")
        return number

    done: list[int] = []
    with pytest.raises(linkwise.Error, match="three"):
        run_all(engine, (Call(fails, (number,)) for number in range(9)), 4, lambda number, _: done.append(number))
    assert 3 not in done
    assert engine.cancelled


class Stuck(AnyOrder):
    """Its first call does not end; nobody has that worker any more."""

    def finished(self, handles, seconds):
        self._waiting.pop(1, None)
        return super().finished(handles, 0)


def test_a_try_that_still_writes_when_all_is_done_leaves_nothing(tmp_path, monkeypatch):
    source = write_parts(tmp_path / "in", keyed(2_000, 1), 2)
    commit = AtomicDirectory.commit

    def while_one_writes(directory: AtomicDirectory) -> None:
        (directory.path / "part-00000.parquet.0badcafe.linkwise-tmp").write_bytes(b"half")
        commit(directory)

    monkeypatch.setattr(AtomicDirectory, "commit", while_one_writes)
    run(AnyOrder(1, MEMORY), [Side(str(source), PARQUET)], sorting("k"), tmp_path / "out")
    assert all(re.fullmatch(r"part-\d+\.parquet|_manifest\.json", path.name) for path in (tmp_path / "out").iterdir())


def test_a_slow_call_is_begun_once_more():
    engine = Stuck(1, 1, workers=2)
    done: list[int] = []
    calls = (Call(lambda _, number: number, (number,)) for number in range(6))
    run_all(engine, calls, 2, lambda number, _: done.append(number), second_tries=True)
    assert sorted(done) == list(range(6))
    assert engine.cancelled == ["1.0"]


class FailsAgain(Stuck):
    """And the second try of that call, on another worker, fails."""

    def value(self, handle):
        if handle == self.second:
            raise linkwise.Error("a disk is full")
        return super().value(handle)

    second = ""

    def submit(self, call):
        handles = super().submit(call)
        if call.arguments == (0,) and self.calls > 1 and not self.second:
            self.second = handles[0]
        return handles


def test_a_second_try_that_fails_is_done_without():
    engine = FailsAgain(1, 1, workers=2)
    done: list[int] = []
    calls = (Call(lambda _, number: number, (number,)) for number in range(6))
    run_all(engine, calls, 2, lambda number, _: done.append(number), second_tries=True)
    assert sorted(done) == list(range(6))
    assert engine.second


class Loses(AnyOrder):
    """So many tries of the call with argument 0 neither end nor fail."""

    lost = 0

    def submit(self, call):
        handles = super().submit(call)
        if call.arguments == (0,) and self.lost > 0:
            self.lost -= 1
            self._waiting.pop(self.calls)
        return handles


@pytest.mark.parametrize("tries", [2, 4])
def test_what_is_lost_without_a_word_is_submitted_again(tries, monkeypatch):
    monkeypatch.setattr(engine_module, "_PATIENCE", 1e-3)
    engine = Loses(1, 1)
    engine.lost = tries - 1
    done: list[int] = []
    run_all(engine, (Call(lambda _, at: at, (at,)) for at in range(6)), 2, lambda number, _: done.append(number))
    assert sorted(done) == list(range(6))
    assert engine.calls == 6 + tries - 1
    assert len(engine.cancelled) == tries - 1


class LosesInputs(AnyOrder):
    """Inputs are lost while calls fetch them, which hold all workers meanwhile: nothing else is made."""

    def __init__(self) -> None:
        super().__init__(1, 1, workers=2)
        self._values |= {"a": "A", "b": "B"}
        self.lost = dict(self._values)
        self.began: list[object] = []

    def submit(self, call):
        handles = super().submit(call)
        self.began.append(call.arguments[0])
        if self.lost and self.lost.keys() & set(call.inputs):
            self._waiting.pop(self.calls)  # it waits for what is lost
            self._values = {handle: value for handle, value in self._values.items() if handle not in self.lost}
        return handles

    def cancel(self, handles, *, wait=False):
        super().cancel(handles, wait=wait)
        self._values |= self.lost  # the workers are free again, and make it
        self.lost = {}


def test_calls_are_withdrawn_until_their_lost_inputs_are_there(monkeypatch):
    monkeypatch.setattr(engine_module, "_RECOVERY", 1e-3)
    monkeypatch.setattr(engine_module, "_LOOK_AGAIN", 1e-3)
    engine = LosesInputs()
    fetched: dict[int, object] = {}

    def ended(number, handles):
        fetched[number] = engine.value(handles[0])

    calls = (Call(lambda fetch, handle: fetch([handle]), (handle,), inputs=[handle]) for handle in "ab")
    run_all(engine, calls, 2, ended)
    assert fetched == {0: ["A"], 1: ["B"]}
    assert engine.cancelled == ["1.0", "2.0"]
    assert engine.began == ["a", "b", "a", "b"]


def test_inputs_that_never_come_back_are_an_error(monkeypatch):
    for name in ("_RECOVERY", "_LOOK_AGAIN", "_PATIENCE", "_LONGEST_PATIENCE"):
        monkeypatch.setattr(engine_module, name, 1e-3)
    engine = AnyOrder(1, 1)
    monkeypatch.setattr(engine, "submit", lambda call: [f"a call with {call.inputs}"])
    with pytest.raises(linkwise.Error, match="look at 'ray status' for nodes that are gone"):
        run_all(engine, [Call(lambda fetch: fetch(["a"]), (), inputs=["a"])], 1, lambda number, _: None)


def test_what_is_lost_again_and_again_is_an_error(monkeypatch):
    monkeypatch.setattr(engine_module, "_PATIENCE", 1e-3)
    monkeypatch.setattr(engine_module, "_LONGEST_PATIENCE", 1e-3)
    engine = Loses(1, 1)
    engine.lost = 100
    with pytest.raises(linkwise.Error, match="given 4 times neither ends nor fails; look at 'ray status'"):
        run_all(engine, (Call(lambda _, at: at, (at,)) for at in range(6)), 2, lambda number, _: None)
    assert len(engine.cancelled) == 4


class LosesAndFails(Loses):
    """And what is submitted again fails."""

    def value(self, handle):
        value = super().value(handle)
        if value == 0:
            raise linkwise.Error("a disk is full")
        return value


def test_what_is_lost_and_then_fails_again_and_again_is_what_it_fails_with(monkeypatch):
    monkeypatch.setattr(engine_module, "_PATIENCE", 1e-3)
    engine = LosesAndFails(1, 1)
    engine.lost = 1

    def told(number, handles):
        engine.value(handles[0])

    with pytest.raises(linkwise.Error, match="a disk is full"):
        run_all(engine, (Call(lambda _, at: at, (at,)) for at in range(6)), 2, told)
    assert engine.calls == 6 + 3


class Stops(AnyOrder):
    """As if the driver were killed after so many calls."""

    after = 0

    def submit(self, call):
        if self.calls == self.after:
            raise SystemExit
        return super().submit(call)


def test_a_run_goes_on_where_its_driver_was_killed(tmp_path, monkeypatch):
    source = write_parts(tmp_path / "in", keyed(30_000, 1, share=0.3), 3)
    side, out = [Side(str(source), PARQUET)], tmp_path / "out"
    whole = AnyOrder(1, MEMORY)
    run(whole, side, sorting("k"), tmp_path / "whole")
    partitions = len(list((tmp_path / "whole").glob("*.parquet")))

    from linkwise.runtime import atomic_directory

    # A driver that is killed removes nothing, and its lock is gone with it.
    monkeypatch.setattr(atomic_directory.AtomicDirectory, "discard", lambda self: atomic_directory.os.close(self._lock))
    stops = Stops(1, MEMORY)
    stops.after = whole.calls - 4
    with pytest.raises(SystemExit):
        run(stops, side, sorting("k"), out)
    monkeypatch.undo()
    left = next(tmp_path.glob(".out.*.linkwise-tmp"))
    made = {path: path.stat().st_mtime_ns for path in left.glob("*.parquet")}
    assert 0 < len(made) < partitions
    for job, words, told in (
        (sorting("k", True), "other", "begin anew without --resume"), (sorting("x"), "test", "no column"),
    ):  # fmt: skip
        with pytest.raises(linkwise.UsageError, match=told):
            asked = RunOptions(target=out, resume=True, least_shard=1)
            Run(AnyOrder(1, MEMORY), side, asked).go(job, {"words": words})
    assert {path: path.stat().st_mtime_ns for path in left.glob("*.parquet")} == made  # nothing is lost by a mistake
    goes_on = AnyOrder(2, MEMORY * 2, workers=1)  # which alone would divide the work otherwise
    run(goes_on, side, sorting("k"), out, resume=True)
    assert {out / path.name: time for path, time in made.items()} == {
        path: path.stat().st_mtime_ns for path in out.glob("*.parquet") if left / path.name in made
    }
    assert pq.read_table(out).equals(pq.read_table(tmp_path / "whole"))
    assert not list(tmp_path.glob(".out*"))
    assert not (out / "_run").exists()


def test_what_a_killed_driver_has_left_is_removed(tmp_path):
    left = tmp_path / ".out.0123abcd.linkwise-tmp"
    left.mkdir()
    (left / "part-00000.parquet").write_bytes(b"x")
    assert clean(tmp_path / "out") == [str(left)]
    assert not left.exists()


def test_a_directory_with_files_in_it_is_replaced_only_if_that_is_asked_for(tmp_path):
    source = write_parts(tmp_path / "in", keyed(1_000, 1), 1)
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("x")
    with pytest.raises(linkwise.UsageError, match="has files in it"):
        run(AnyOrder(1, MEMORY), [Side(str(source), PARQUET)], sorting("k"), out)
    assert (out / "mine.txt").exists()
    run(AnyOrder(1, MEMORY), [Side(str(source), PARQUET)], sorting("k"), out, force=True)
    assert not (out / "mine.txt").exists()


def test_sizes():
    from linkwise.cluster.engine import Worker

    worker = Worker(1, 1, 0, 2 << 30, 200 << 20)
    sizes = sizes_of(10 << 30, worker, 2, 200 << 20)
    assert (sizes.partitions, sizes.groups) == (20, 20)
    many = sizes_of(1 << 40, worker, 8, 200 << 20)
    assert many.groups**2 <= many.partitions <= (many.groups + 1) ** 2
    assert [*many.group_ranges(many.partitions)[-1]][-1] == many.partitions - 1
    assert batches_of([3, 3, 3, 9, 1], 6) == [range(2), range(2, 3), range(3, 4), range(4, 5)]
