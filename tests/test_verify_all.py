"""``verify="all"``: what is right passes, and every corruption that is planted is found."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import linkwise
from columns import KEY_TYPES, column_of, cut
from conftest import ROOT
from linkwise import CorruptDataError, UsageError
from linkwise.joining.join_check import check_join
from linkwise.joining.joined_rows import KeyPairs
from linkwise.runtime.execution import ExecutionOptions

sys.path.insert(0, str(ROOT / "scripts"))

from plant_corruptions import HOWS, run, table_of

ALL: dict[str, Any] = {"verify": "all"}
GPUS: dict[str, Any] = {"machine": "dgx-a100", "strategy": "radix"}


@pytest.mark.slow
def test_planted_corruptions() -> None:
    """The same every time; scripts/plant_corruptions.py plants others."""
    told = run(400, ALL)
    assert told["missed"] == []
    found = {each["where"]: 0 for each in told["ends"]}
    for each in told["ends"]:
        found[each["where"]] += each.get("found", 0)
    assert all(count > 5 for count in found.values()) and sum(found.values()) > 300, found


def test_without_it_some_are_missed() -> None:
    assert run(60, {})["missed"]


@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "i8", "f2", "f4", "f8", "?", "M8[us]", "m8[s]"])
def test_arrays(dtype: str) -> None:
    random = np.random.default_rng(1)
    values = random.integers(0, 100, 3000).astype("i8").astype(dtype)
    if dtype[0] == "f":
        values[::50], values[1::50], values[2::50] = np.nan, -0.0, 0.0
    for where, descending in itertools.product(({}, GPUS), (False, True)):
        found = linkwise.sort(values, descending=descending, **where, **ALL)
        assert found.tobytes() == linkwise.sort(values, descending=descending, **where).tobytes()
        assert np.array_equal(linkwise.sort_indices(values, **where, **ALL), linkwise.sort_indices(values, **where))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_joins_of_every_type(data: st.DataObject) -> None:
    """None that is right is found wrong: nulls, NaN, zeros, dictionaries, types that differ."""
    names = data.draw(st.lists(st.sampled_from(sorted(KEY_TYPES)), min_size=1, max_size=2))
    few = [data.draw(st.lists(st.none() | KEY_TYPES[name][1], min_size=1, max_size=4)) for name in names]
    tables = []
    for count in data.draw(st.tuples(st.integers(0, 12), st.integers(0, 12))):
        values = [data.draw(st.lists(st.sampled_from(choice), min_size=count, max_size=count)) for choice in few]
        where = data.draw(st.lists(st.integers(0, count), max_size=2))
        columns = [cut(column_of(KEY_TYPES[name][0], v), where) for name, v in zip(names, values, strict=True)]
        tables.append(pa.table([*columns, pa.array(range(count))], [*(f"k{i}" for i in range(len(names))), "row"]))
    on = [f"k{i}" for i in range(len(names))]
    how, nulls_equal = data.draw(st.sampled_from(HOWS)), data.draw(st.booleans())
    options: dict[str, Any] = {"nulls_equal": nulls_equal, **data.draw(st.sampled_from([{}, GPUS]))}
    found = linkwise.join(*tables, on, how=how, **options, **ALL)
    keys = [table.select(on) for table in tables]
    assert linkwise.join_count(*keys, how, **options, **ALL) == found.num_rows
    assert len(linkwise.join_indices(*keys, how, **options, **ALL)[0]) == found.num_rows
    ranges = linkwise.join_ranges(*keys, **options, **ALL)
    assert ranges.matches == linkwise.join_count(*keys, **options)


@pytest.mark.parametrize("how", HOWS)
def test_what_is_no_join_is_found(how: str) -> None:
    random = np.random.default_rng(3)
    left, right = table_of(random, 60), table_of(random, 50, "_right")
    joined = linkwise.join(left, right, "key", how=how)
    keys = KeyPairs([("key", "key")], are_one=True)
    check_join(left, right, joined, keys, how, nulls_equal=False)
    row = int(random.integers(joined.num_rows))
    others = np.arange(joined.num_rows)
    wrong = [
        joined.slice(1), pa.concat_tables([joined, joined.slice(row, 1)]),
        joined.take(np.where(others == row, 0, others)),
        joined.set_column(1, "number", pa.array(np.roll(joined["number"].to_numpy(), 1))),
    ]  # fmt: skip
    for table in wrong:
        with pytest.raises(CorruptDataError):
            check_join(left, right, table, keys, how, nulls_equal=False)


@pytest.mark.parametrize("limit", [None, "64KiB"])
@pytest.mark.parametrize("out", ["o.parquet", "o.arrow", "o.csv", "o.jsonl", "o.csv.gz"])
def test_files(out: str, limit: str | None, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    pq.write_table(table_of(random, 700), tmp_path / "l.parquet")
    pq.write_table(table_of(random, 500, "_right"), tmp_path / "r.parquet")
    linkwise.sort_file(tmp_path / "l.parquet", tmp_path / out, by=["key", "number"], host_memory_limit=limit, **ALL)
    linkwise.sort_file(tmp_path / out, tmp_path / f"again-{out}", by="number", host_memory_limit=limit, **ALL)
    for how in HOWS:
        paths = tmp_path / "l.parquet", tmp_path / "r.parquet"
        report = linkwise.join_file(*paths, tmp_path / out, "key", how=how, host_memory_limit=limit, **ALL)
        assert report.rows == linkwise.join_file(*paths, None, "key", how=how, host_memory_limit=limit, **ALL).rows


def test_arrays_and_directories(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    np.save(tmp_path / "a.npy", random.integers(0, 9, 9999))
    for limit in (None, "32KiB"):
        linkwise.sort_file(tmp_path / "a.npy", tmp_path / "b.npy", host_memory_limit=limit, **ALL)
    assert np.array_equal(np.load(tmp_path / "b.npy"), np.sort(np.load(tmp_path / "a.npy")))
    pq.write_table(table_of(random, 300), tmp_path / "l.parquet")
    linkwise.sort_file(tmp_path / "l.parquet", tmp_path / "by-key", by="number", partition_by="key", **ALL)
    linkwise.sort_file(tmp_path / "l.parquet", tmp_path / "parts", by="number", file_rows=50, **ALL)
    assert pq.read_table(tmp_path / "parts").num_rows == pq.read_table(tmp_path / "by-key").num_rows == 300


def test_a_file_that_is_wrong_does_not_appear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from linkwise.files.writing.output_check import OutputCheck

    check = OutputCheck.check

    def damage(self: OutputCheck, file: Any, name: object) -> None:
        file.flush()
        file.seek(40)
        file.write(b"\0\0\0\0")
        check(self, file, name)

    monkeypatch.setattr(OutputCheck, "check", damage)
    pq.write_table(table_of(np.random.default_rng(6), 300), tmp_path / "l.parquet")
    (tmp_path / "o.parquet").write_text("precious")
    with pytest.raises(CorruptDataError, match=r"o\.parquet has not what was written into it"):
        linkwise.sort_file(tmp_path / "l.parquet", tmp_path / "o.parquet", by="key", **ALL)
    assert (tmp_path / "o.parquet").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["l.parquet", "o.parquet"]


def test_words() -> None:
    for wrong in ("yes", 1, None):
        with pytest.raises(UsageError, match="verify= is True, False or 'all'"):
            linkwise.sort(np.arange(9), verify=wrong)  # type: ignore[arg-type]
    options = ExecutionOptions(verify="all")  # type: ignore[arg-type]
    assert options.verify is True and options.verify_all and options.without_progress().verify_all
    with linkwise.options(verify="all"):
        assert linkwise.sort(np.array([3, 1, 2])).tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", ["npy", "csv", "parquet"])
def test_rows_that_are_merged_in_a_wrong_order(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are all there, and change places on the way to the writer."""
    from linkwise.files.writing.writer import Writer

    write = Writer.write

    def swapped(self: Writer, contents: Any) -> None:
        last = np.r_[0 : len(contents)][::-1]
        write(self, contents[last] if isinstance(contents, np.ndarray) else contents.take(pa.array(last)))

    source = tmp_path / f"in.{'npy' if kind == 'npy' else 'parquet'}"
    values = np.random.default_rng(8).integers(0, 1 << 40, 20_000)
    np.save(source, values) if kind == "npy" else pq.write_table(pa.table({"x": values}), source)
    by = None if kind == "npy" else "x"
    linkwise.sort_file(source, tmp_path / f"o.{kind}", by=by, host_memory_limit="64KiB", **ALL)
    monkeypatch.setattr(Writer, "write", swapped)
    with pytest.raises(CorruptDataError, match="out of order"):
        linkwise.sort_file(source, tmp_path / f"p.{kind}", by=by, host_memory_limit="64KiB", **ALL)
    assert not (tmp_path / f"p.{kind}").exists()


def test_keys_that_hide_their_nulls() -> None:
    values = pa.array(["a", None, "b"])
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1], pa.int8()), values)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([3, 5], pa.int32()), pa.array([1, None]))
    for key in (hidden, runs):
        table = pa.table({"k": key, "row": pa.array(range(len(key)))})
        for how, nulls_equal in itertools.product(HOWS, (False, True)):
            found = linkwise.join(table, table, "k", how=how, nulls_equal=nulls_equal, **ALL)
            keys = table.select(["k"])
            assert linkwise.join_count(keys, keys, how, nulls_equal=nulls_equal, **ALL) == found.num_rows


@pytest.mark.parametrize("key", ["k", "s.n", "s.c"])
def test_categories_inside_of_structs(key: str) -> None:
    """Of Polars, whose texts are views: PyArrow makes no empty column of these."""
    texts = pa.array(["x", "y", None, "x"], pa.string_view())
    categories = pa.DictionaryArray.from_arrays(pa.array([0, 1, 3], pa.uint32()), texts)
    structs = pa.StructArray.from_arrays([categories, pa.array([4, 4, 5])], ["c", "n"])
    table = pa.table({"k": [1, 2, 2], "s": structs})
    of_key = {"k": [1, 2, 2], "s.n": [4, 4, 5], "s.c": ["x", "y", "x"]}[key]
    assert len(linkwise.join(table, table, on=key, **ALL)) == sum(one == other for one in of_key for other in of_key)


def test_row_numbers_that_no_row_has() -> None:
    from linkwise.columns.sort_keys import SortKey
    from linkwise.interop.containers import ONE_COLUMN
    from linkwise.sorting.check import check_rows_in_order

    for rows in (np.array([0, 9], np.uint32), np.array([0, 2**64 - 1], np.uint64), np.array([0, -1])):
        with pytest.raises(CorruptDataError, match="row numbers were lost"):
            check_rows_in_order(np.array([1, 2]), [SortKey(ONE_COLUMN)], rows)


def test_what_can_be_read_once_is_refused(tmp_path: Path) -> None:
    pq.write_table(table_of(np.random.default_rng(9), 30), tmp_path / "l.parquet")
    reader = table_of(np.random.default_rng(9), 30).to_reader()
    with pytest.raises(UsageError, match="reads both sides twice"):
        linkwise.join_file(tmp_path / "l.parquet", reader, tmp_path / "o.parquet", "key", **ALL)
    with pytest.raises(UsageError, match="reads both sides twice"):
        linkwise.join_file("-", tmp_path / "l.parquet", tmp_path / "o.parquet", "key", **ALL)
    table = table_of(np.random.default_rng(9), 30)
    linkwise.join_file(table, tmp_path / "l.parquet", tmp_path / "o.parquet", "key", **ALL)
