"""Joins of files that do not fit into host memory, against the same joins in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import linkwise
from linkwise import UsageError

LITTLE = "64KiB"  # of host memory: many runs of each side
HOWS = ["inner", "left", "right", "full", "semi", "anti"]


def column(kind: str, numbers: np.ndarray[Any, Any], is_null: np.ndarray[Any, Any]) -> pa.Array:
    """Of few values, so that most occur on both sides and several times."""
    if kind == "float":
        values = numbers / 4
        values[values == 0] = np.where(np.arange((values == 0).sum()) % 2, 0.0, -0.0)
        values[numbers == 7] = np.nan
        return pa.array(values, mask=is_null)
    if kind in ("string", "dictionary"):
        words = pa.array([f"a word and {number}" for number in numbers], mask=is_null)
        return words if kind == "string" else words.dictionary_encode()
    return pa.array(numbers.astype(kind), mask=is_null)


def relation(rows: int, kind: str, name: str, distinct: int = 200) -> pa.Table:
    random = np.random.default_rng(len(name) + rows)
    keys = column(kind, random.integers(0, distinct, rows), random.random(rows) < 0.05)
    others = {name: np.arange(rows), f"{name}'s words": [f"{name} {row}" for row in range(rows)]}
    return pa.table({"k": keys, "k2": random.integers(0, 3, rows), **others})


@pytest.fixture
def spill(tmp_path: Path) -> Path:
    directory = tmp_path / "spill"
    directory.mkdir()
    return directory


def joined(tmp_path: Path, left: pa.Table, right: pa.Table, on: Any, how: Any, **more: Any) -> pa.Table:
    """The join of two files; checks that it counts as many, and that nothing stays behind."""
    pq.write_table(left, tmp_path / "l.parquet", row_group_size=500)
    pq.write_table(right, tmp_path / "r.parquet", row_group_size=300)
    options = {"how": how, "order": "key", "host_memory_limit": LITTLE, "strategy": "cpu", **more}
    rows, counted = (
        linkwise.join_file(
            tmp_path / "l.parquet", tmp_path / "r.parquet", out, on, temporary_directory=tmp_path / "spill", **options
        ).rows
        for out in (tmp_path / "o.arrow", None)
    )  # fmt: skip
    assert not list((tmp_path / "spill").iterdir()), "a run was left behind"
    result = pa.ipc.open_file(pa.memory_map(str(tmp_path / "o.arrow"))).read_all()
    assert rows == counted == result.num_rows
    return result


def values(table: pa.Table) -> str:
    """As text, in which NaN is equal to NaN."""
    return str(table.to_pydict())


@pytest.mark.usefixtures("spill")
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    "kinds", [("int64", "int64"), ("int16", "uint64"), ("float", "float"), ("dictionary", "string")], ids="-".join
)
def test_every_join(kinds: tuple[str, str], how: Any, tmp_path: Path) -> None:
    left, right = relation(4000, kinds[0], "left"), relation(900, kinds[1], "right")
    for on, nulls_equal in (("k", False), (["k2", "k"], True)):
        result = joined(tmp_path, left, right, on, how, nulls_equal=nulls_equal)
        expected = linkwise.join(left, right, on, how=how, nulls_equal=nulls_equal, order="key", strategy="cpu")
        assert result.schema.types[2:] == expected.schema.types[2:]
        assert values(result) == values(expected)


@pytest.mark.usefixtures("spill")
@pytest.mark.parametrize("how", HOWS)
def test_orders(how: Any, tmp_path: Path) -> None:
    left, right = relation(4000, "int64", "left"), relation(900, "int64", "right")
    by_left, anyhow = (joined(tmp_path, left, right, "k", how, order=order) for order in ("left", None))
    wanted = linkwise.join(left, right, "k", how=how, order="left", strategy="cpu")
    if how in ("right", "full"):  # rows that only the right side has come last, those of a spilled join by key
        whole = wanted.num_rows - wanted["left"].null_count
        assert values(by_left.slice(0, whole)) == values(wanted.slice(0, whole))
    else:
        assert values(by_left) == values(wanted)
    assert sorted(map(str, anyhow.to_pylist())) == sorted(map(str, wanted.to_pylist()))


@pytest.mark.usefixtures("spill")
@pytest.mark.parametrize("distinct", [1, 2])
def test_keys_that_fill_what_is_read(distinct: int, tmp_path: Path) -> None:
    left, right = relation(3000, "int64", "left", distinct), relation(70, "int64", "right", distinct)
    assert values(joined(tmp_path, left, right, "k", "full")) == values(
        linkwise.join(left, right, "k", how="full", order="key", strategy="cpu")
    )


@pytest.mark.usefixtures("spill")
@pytest.mark.parametrize("empty", ["left", "right", "both"])
def test_empty_sides(empty: str, tmp_path: Path) -> None:
    left, right = relation(3000, "int64", "left"), relation(3000, "int64", "right")
    left, right = left.slice(0, 3000 * (empty == "right")), right.slice(0, 3000 * (empty == "left"))
    for how in HOWS:
        expected = linkwise.join(left, right, "k", how=how, order="key", strategy="cpu")  # type: ignore[arg-type]
        assert values(joined(tmp_path, left, right, "k", how)) == values(expected)


@pytest.mark.usefixtures("spill")
@pytest.mark.parametrize("order", ["key", "left"])
def test_progress_of_both_sides(order: Any, tmp_path: Path) -> None:
    told: list[float] = []
    left, right = relation(4000, "int64", "left"), relation(900, "int64", "right")
    joined(tmp_path, left, right, "k", "inner", order=order)  # writes the files
    linkwise.join_file(
        tmp_path / "l.parquet", tmp_path / "r.parquet", tmp_path / "o.arrow", "k", order=order,
        host_memory_limit=LITTLE, strategy="cpu", temporary_directory=tmp_path / "spill", on_progress=told.append,
    )  # fmt: skip
    assert told == sorted(told) and told[-1] == 1.0 and len(told) > 10


def test_presorted_sides_are_checked_and_merged(spill: Path, tmp_path: Path) -> None:
    left, right = (linkwise.sort(relation(rows, "int64", name), by="k", strategy="cpu") for rows, name in
                   ((4000, "left"), (900, "right")))  # fmt: skip
    spill.chmod(0o500)  # nothing is spilled
    expected = linkwise.join(left, right, "k", order="key", strategy="cpu")
    assert values(joined(tmp_path, left, right, "k", "inner", presorted=True)) == values(expected)
    moved = pa.concat_tables([right.slice(1), right.slice(0, 1)])
    with pytest.raises(UsageError, match="the right side is not presorted: row 899, counted from 0, is out of order"):
        joined(tmp_path, left, moved, "k", "inner", presorted=True)


@pytest.mark.usefixtures("spill")
def test_presorted_floats_of_several_columns(tmp_path: Path) -> None:
    """Sorted tables have -0.0 before 0.0, which are one key to joins: what follows them is out of order then."""
    left = pa.table({"k": [-0.0, 0.0] * 3000, "k2": np.arange(6000)[::-1], "left": np.arange(6000)})
    left = linkwise.sort(left, by=["k", "k2"], strategy="cpu")
    right = pa.table({"k": [0.0] * 700, "k2": np.arange(700), "right": np.arange(700)})
    expected = linkwise.join(left, right, ["k", "k2"], order="key", strategy="cpu")
    assert expected.num_rows == 700
    assert values(joined(tmp_path, left, right, ["k", "k2"], "inner", presorted=True)) == values(expected)
    turned = pa.concat_tables([left.slice(3000), left.slice(0, 3000)])
    with pytest.raises(UsageError, match="the left side is not presorted: row 3000, counted from 0, is out of order"):
        joined(tmp_path, turned, right, ["k", "k2"], "inner", presorted="left")


@pytest.mark.usefixtures("spill")
@pytest.mark.parametrize("words", [3, 30, 3000])
def test_dictionaries_that_differ_by_part(words: int, tmp_path: Path) -> None:
    """An Arrow file has one dictionary for each column, whatever the parts had."""
    kind = pa.dictionary(pa.int8() if words < 3000 else pa.int16(), pa.string())
    parts = [
        pa.table(
            {
                "k": np.arange(1000 * part, 1000 * (part + 1)),
                "word": pa.array([f"{part}-{n % words}" for n in range(1000)]).cast(kind),
            }
        )
        for part in range(4)
    ]
    left = pa.concat_tables(parts)
    right = pa.table({"k": np.arange(3999, -1, -1), "right": np.arange(4000)})
    for how in ("inner", "full", "semi"):
        expected = linkwise.join(left, right, "k", how=how, order="key", strategy="cpu")  # type: ignore[arg-type]
        result = joined(tmp_path, left, right, "k", how)
        assert values(result) == values(expected) and result.schema.types == expected.schema.types
    pq.write_table(left, tmp_path / "l.parquet", row_group_size=500)
    for keys in ("k", "word"):
        linkwise.sort_file(
            tmp_path / "l.parquet", tmp_path / "s.arrow", by=keys, descending=True, host_memory_limit=LITTLE,
            strategy="cpu",
        )  # fmt: skip
        result = pa.ipc.open_file(tmp_path / "s.arrow").read_all()
        assert values(result) == values(linkwise.sort(left, by=keys, descending=True, strategy="cpu"))


def test_what_is_wrong_is_said_before_the_work(spill: Path, tmp_path: Path) -> None:
    left, right = relation(4000, "int64", "left"), relation(900, "string", "right")
    with pytest.raises(UsageError, match="'k' of int64 and 'k' of string cannot be compared; cast one"):
        joined(tmp_path, left, right, "k", "inner")
    twice = relation(900, "int64", "right")
    with pytest.raises(UsageError, match="the result would have several columns 'k2'; choose another suffix="):
        joined(tmp_path, left, twice, "k", "inner", suffix="")
    with pytest.raises(UsageError, match="a key occurs more than once on the right, which validate='m:1' rules out"):
        joined(tmp_path, left, twice, "k", "inner", validate="m:1")
    with pytest.raises(UsageError, match="cannot spill to .*; name an existing directory"):
        linkwise.join_file(
            tmp_path / "l.parquet", tmp_path / "r.parquet", tmp_path / "o.arrow", "k", host_memory_limit=LITTLE,
            temporary_directory=tmp_path / "none", strategy="cpu",
        )  # fmt: skip
    assert not list(spill.iterdir()) and not (tmp_path / "o.arrow").exists()
