"""Joins against every pair of rows compared by Python, and against DuckDB and Polars."""

from __future__ import annotations

import datetime
import decimal
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import linkwise
from columns import KEY_TYPES, column_of, cut
from conftest import HAVE_GPU
from linkwise import _core

CPU: dict[str, Any] = {"strategy": "cpu"}
MACHINE = "auto" if HAVE_GPU else "delta-d22x"
DAY, SECOND = datetime.date(2000, 1, 1), datetime.datetime(2000, 1, 1)
NAN = float("nan")
HOWS = ["inner", "left", "right", "full", "semi", "anti"]
EXAMPLES = int(os.environ.get("LINKWISE_TEST_EXAMPLES", "60"))
SETTINGS = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture
def counted_on_gpus(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets the matches of each count that GPUs have taken, so that a test fails where all go to the cores."""
    counts: list[int] = []
    on_gpus = _core.join_totals

    def spy(*args: Any, **kwargs: Any) -> Any:
        totals = on_gpus(*args, **kwargs)
        counts.append(int(totals.rows))
        return totals

    monkeypatch.setattr(_core, "join_totals", spy)
    return counts


def equal(a: Any, b: Any, nulls_equal: bool) -> bool:
    if a is None or b is None:
        return nulls_equal and a is b
    if isinstance(a, float | np.floating):
        return bool(a == b) or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


def expected_pairs(left: list[Any], right: list[Any], how: str, nulls_equal: bool) -> list[tuple[int, int]]:
    """Every row with every other; unordered. Keys are tuples of values."""

    def match(a: Any, b: Any) -> bool:
        return all(equal(x, y, nulls_equal) for x, y in zip(a, b, strict=True))

    pairs = [(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if match(a, b)]
    lefts, rights = {i for i, _ in pairs}, {j for _, j in pairs}
    if how == "semi":
        return [(i, -1) for i in range(len(left)) if i in lefts]
    if how == "anti":
        return [(i, -1) for i in range(len(left)) if i not in lefts]
    if how in ("left", "full"):
        pairs += [(i, -1) for i in range(len(left)) if i not in lefts]
    if how in ("right", "full"):
        pairs += [(-1, j) for j in range(len(right)) if j not in rights]
    return pairs


@SETTINGS
@given(data=st.data())
def test_keys_of_every_type(data: st.DataObject) -> None:
    rows = data.draw(st.tuples(st.integers(0, 15), st.integers(0, 15)))
    names = data.draw(st.lists(st.sampled_from(sorted(KEY_TYPES)), min_size=1, max_size=3))
    few = [data.draw(st.lists(st.none() | KEY_TYPES[name][1], min_size=1, max_size=4)) for name in names]
    sides = []
    for count in rows:
        values = [data.draw(st.lists(st.sampled_from(choice), min_size=count, max_size=count)) for choice in few]
        where = data.draw(st.lists(st.integers(0, count), max_size=2))
        columns = [cut(column_of(KEY_TYPES[name][0], v), where) for name, v in zip(names, values, strict=True)]
        table = pa.table([*columns, pa.array(range(count))], [*(f"k{i}" for i in range(len(names))), "row"])
        sides.append((table, [tuple(v[i] for v in values) for i in range(count)]))
    (left, left_keys), (right, right_keys) = sides
    how, nulls_equal = data.draw(st.sampled_from(HOWS)), data.draw(st.booleans())
    order = data.draw(st.sampled_from([None, "key", "left"]))
    strategy = data.draw(st.sampled_from(["cpu", "radix"]))
    where_to: dict[str, Any] = {"strategy": strategy, "machine": "auto" if strategy == "cpu" else MACHINE}
    on = [f"k{i}" for i in range(len(names))]

    expected = expected_pairs(left_keys, right_keys, how, nulls_equal)
    keys = left.select(on), right.select(on)
    found = linkwise.join_indices(*keys, how, nulls_equal=nulls_equal, order=order, **where_to)
    pairs = list(zip(*(side.tolist() for side in found), strict=True))
    assert sorted(pairs) == sorted(expected)
    if order == "left":
        assert pairs == sorted(expected, key=lambda pair: (pair[0] % 2**64, pair[1]))
    assert linkwise.join_count(*keys, how, nulls_equal=nulls_equal, **where_to) == len(expected)
    ranges = linkwise.join_ranges(*keys, nulls_equal=nulls_equal, **where_to)
    inner = expected_pairs(left_keys, right_keys, "inner", nulls_equal)
    assert pairs_of(ranges) == sorted(inner)
    assert ranges.matches == len(inner)
    in_order = [linkwise.sort(side, by=on, **CPU) for side in keys]
    assert linkwise.join_count(*in_order, how, nulls_equal=nulls_equal, presorted=True, **CPU) == len(expected)

    result = linkwise.join(left, right, on, how=how, nulls_equal=nulls_equal, order=order, **where_to)
    result.validate(full=True)
    if how in ("semi", "anti"):
        assert result["row"].to_pylist() == [i for i, _ in sorted(expected)]
        assert result.schema == left.schema
        return
    rows_of_result = zip(result["row"].to_pylist(), result["row_right"].to_pylist(), strict=True)
    assert [(-1 if i is None else i, -1 if j is None else j) for i, j in rows_of_result] == pairs
    for number, name in enumerate(on):
        wanted = [left_keys[i][number] if i >= 0 else right_keys[j][number] for i, j in pairs]
        assert repr(result[name].to_pylist()) == repr(
            column_of(KEY_TYPES[names[number]][0], wanted).to_pylist() if wanted else []
        )
    is_by_key = linkwise.is_sorted(result.select(on), by=on) or any(name.startswith("float") for name in names)
    assert is_by_key or order != "key"


def pairs_of(ranges: linkwise.JoinRanges) -> list[tuple[int, int]]:
    pairs = []
    for k in range(len(ranges)):
        of_left, of_right = (
            rows[first[k] : first[k + 1]].tolist()
            for rows, first in ((ranges.left_rows, ranges.left_first), (ranges.right_rows, ranges.right_first))
        )
        assert of_left == sorted(of_left)
        assert of_right == sorted(of_right)
        pairs += [(i, j) for i in of_left for j in of_right]
    return sorted(pairs)


def test_ranges_of_more_pairs_than_anybody_could_hold() -> None:
    same = np.zeros(300_000, np.int32)
    ranges = linkwise.join_ranges(same, same, **CPU)
    assert len(ranges) == 1
    assert ranges.matches == 300_000**2
    assert (ranges.left_rows == np.arange(300_000)).all()
    assert (ranges.right_rows == np.arange(300_000)).all()
    assert linkwise.join_ranges(same[:0], same, **CPU).matches == 0
    huge = linkwise.JoinRanges(same, np.array([0, 2**40]), same, np.array([0, 2**40]))
    assert huge.matches == 2**80


def test_order_and_names() -> None:
    left = pa.table({"k": [2, 1, 2, None], "v": ["a", "b", "c", "d"]}, metadata={"who": "me"})
    right = pa.table({"k": pa.array([2, 3, 2], pa.int8()), "v": [10, 20, 30], "w": [[1], [2], None]})
    result = linkwise.join(left, right, "k", how="full", order="key", **CPU)
    assert result.to_pydict() == {
        "k": [1, 2, 2, 2, 2, 3, None],
        "v": ["b", "a", "a", "c", "c", None, "d"],
        "v_right": [None, 10, 30, 10, 30, 20, None],
        "w": [None, [1], None, [1], None, [2], None],
    }
    assert result.schema.metadata == {b"who": b"me"} and result.schema.field("k").type == pa.int64()
    renamed = right.rename_columns(["id", "v", "w"])
    by_two_names = linkwise.join(left, renamed, left_on="k", right_on="id", suffix="2", **CPU)
    assert by_two_names.column_names == ["k", "v", "id", "v2", "w"] and by_two_names["id"].to_pylist() == [2] * 4
    assert linkwise.join(left, right, "k", how="anti", **CPU)["v"].to_pylist() == ["b", "d"]


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        (pa.array([1, 200, -1], pa.int16()), pa.array([200, 1], pa.uint8()), [(0, 1), (1, 0)]),
        (pa.array([2**63, 5], pa.uint64()), pa.array([-1, 5, 2**62], pa.int64()), [(1, 1)]),
        (pa.array([1.5, NAN, -0.0], pa.float32()), pa.array([NAN, 0.0, 1.5]), [(0, 2), (1, 0), (2, 1)]),
        (pa.array([decimal.Decimal("1.50")]), pa.array([decimal.Decimal("1.5")], pa.decimal128(38, 1)), [(0, 0)]),
        (pa.array([3, 4]), pa.array([decimal.Decimal("4.000")]), [(1, 0)]),
        (pa.array(["é", "b"]), pa.array(["b", "é"], pa.string_view()), [(0, 1), (1, 0)]),
        (pa.array(["x", "y", None]).dictionary_encode(), pa.array(["y", "x"]).dictionary_encode(), [(0, 1), (1, 0)]),
        (pa.array(["x"]).dictionary_encode(), pa.array(["x"], pa.large_string()), [(0, 0)]),
        (pa.array([b"ab"], pa.binary(2)), pa.array([b"ab", b"abc"]), [(0, 0)]),
        (pa.array([SECOND], pa.timestamp("s")), pa.array([SECOND], pa.timestamp("ns")), [(0, 0)]),
        (pa.array([DAY], pa.date32()), pa.array([DAY], pa.date64()), [(0, 0)]),
        (pa.array([datetime.time(1)], pa.time32("s")), pa.array([datetime.time(1)], pa.time64("us")), [(0, 0)]),
        (pa.nulls(2), pa.array([1, None]), []),
    ],
)  # fmt: skip
def test_types_that_differ_in_width(left: pa.Array, right: pa.Array, pairs: list[tuple[int, int]]) -> None:
    found = linkwise.join_indices(left, right, **CPU)
    assert sorted(zip(*(side.tolist() for side in found), strict=True)) == pairs


def test_keys_too_large_for_the_other_side() -> None:
    left, right = pa.table({"k": pa.array([1, 2], pa.int8())}), pa.table({"k": [2, 1000]})
    assert linkwise.join(left, right, "k", how="full", **CPU)["k"].to_pylist() == [1, 2, 1000]


def test_bad_calls_are_refused() -> None:
    left, right = pa.table({"k": [1, 1], "v": [1, 2]}), pa.table({"k": [1, 2], "v_right": [3, 4], "v": ["x", "y"]})

    def refused(match: str, *tables: Any, **options: Any) -> None:
        with pytest.raises(linkwise.UsageError, match=match):
            linkwise.join(*(tables or (left, right)), **options, **CPU)

    refused("name the columns to join by")
    refused("the columns to join by are named twice", on="k", left_on="k")
    refused("they go in pairs", left_on=["k", "v"], right_on="k")
    refused("the right table has no column 'v2'; it has 'k', 'v_right', 'v'", left_on="v", right_on="v2")
    refused("'v' of int64 and 'v' of string cannot be compared", on="v")
    refused("several columns 'v_right'; choose another suffix", on="k")
    refused("no join 'outer'", on="k", how="outer")
    refused("occurs more than once on the left, which validate='1:1' rules out", on="k", validate="1:1", suffix="_r")
    refused("validate is '1:1'", on="k", validate="2:1", suffix="_r")
    refused("a ndarray is no table", np.arange(3), right, on="k")
    assert linkwise.join(left, right, "k", validate="m:1", suffix="_r", **CPU).num_rows == 2
    with pytest.raises(linkwise.UsageError, match="2 columns of keys on the left and 3"):
        linkwise.join_count(left, right, **CPU)


def test_presorted_sides_are_checked_and_merged() -> None:
    left, right = pa.table({"k": [1, 2, 2, None], "a": range(4)}), pa.table({"k": [0, 2, 2, 3], "b": range(4)})
    for on in ("k", ["k", "k"]):
        result = linkwise.join(left, right, on, presorted=True, order="key", **CPU)
        assert result.equals(linkwise.join(left, right, on, order="key", **CPU)) and result.num_rows == 4
    long = [
        pa.table({"k": [f"a text that is longer than a word {n}" for n in sorted(map(str, numbers))]})
        for numbers in (range(30), range(20, 60))
    ]
    assert linkwise.join_count(*long, presorted=True, **CPU) == 10
    zeros = pa.table({"k": [-0.0, 0.0], "j": [2, 1]})  # in the order of a sort, and one key to a join
    with pytest.warns(linkwise.FallbackWarning, match="side is sorted, as joins compare floats: -0.0 and 0.0"):
        assert linkwise.join_count(zeros, zeros, presorted=True, **CPU) == 2
    with pytest.raises(linkwise.UsageError, match="the right side is not presorted: row 2, counted from 0"):
        linkwise.join(left, right.take([0, 3, 1, 2]), "k", presorted=True, **CPU)


@pytest.mark.parametrize("rows", [40, 40_000])
@pytest.mark.parametrize("machine", [MACHINE, "cpu"])
def test_one_side_may_be_presorted(rows: int, machine: str) -> None:
    where = CPU if machine == "cpu" else {"machine": machine}
    random = np.random.default_rng(rows)
    left, right = np.sort(random.integers(0, rows, rows)), random.integers(0, rows, rows // 2)
    null = pa.array([*left.tolist(), None])
    for presorted in ("left", "right", "both"):
        of_right = right if presorted == "left" else np.sort(right)
        for how in ("inner", "full"):
            expected = linkwise.join_indices(left, of_right, how, order="key", **CPU)  # type: ignore[arg-type]
            for a, b in ((left, of_right), (pa.array(left), pa.array(of_right))):
                found = linkwise.join_indices(a, b, how, presorted=presorted, order="key", **where)  # type: ignore[arg-type]
                assert all((x == y).all() for x, y in zip(found, expected, strict=True))
        count = linkwise.join_count(left, of_right, "left", **CPU)
        assert linkwise.join_count(null, pa.array(of_right), "left", presorted=presorted, **where) == count + 1  # type: ignore[arg-type]
        ranges = linkwise.join_ranges(left, of_right, presorted=presorted, **where)  # type: ignore[arg-type]
        assert ranges.matches == len(linkwise.join_indices(left, of_right, **CPU)[0])
        with pytest.raises(linkwise.UsageError, match="side is not presorted: row 1, counted from 0, is out of order"):
            linkwise.join_count(left[::-1].copy(), np.sort(right)[::-1].copy(), presorted=presorted, **where)  # type: ignore[arg-type]
    with pytest.raises(linkwise.UsageError, match="presorted is 'left', 'right', 'both', True or False, not 'all'"):
        linkwise.join_count(left, right, presorted="all", **where)  # type: ignore[arg-type]


def test_floats_that_are_not_presorted_are_refused() -> None:
    with pytest.raises(linkwise.UsageError, match="the left side is not presorted: row 1"):
        linkwise.join_count(np.array([3.0, 1.0]), np.array([1.0, 3.0]), presorted=True, **CPU)


@pytest.mark.parametrize("how", ["right", "full"])
def test_categories_of_polars(how: Any) -> None:
    pl = pytest.importorskip("polars")
    for kinds in ((pl.Enum(["b", "a"]), pl.Enum(["b", "c"])), (pl.Categorical(), pl.Categorical())):
        left = pl.DataFrame({"k": pl.Series(["a", "b"], dtype=kinds[0])})
        right = pl.DataFrame({"k": pl.Series(["c", "b"], dtype=kinds[1]), "w": [1, 2]})
        found = linkwise.join(left, right, on="k", how=how, **CPU)
        assert sorted(found["k"].cast(pl.String).to_list()) == ["a", "b", "c"][how == "right" :]
    of_one_kind = pl.DataFrame({"k": pl.Series(["b", "a"], dtype=pl.Enum(["b", "a"]))})
    assert linkwise.join(of_one_kind, of_one_kind, on="k", how=how, order="key", **CPU).equals(
        of_one_kind.sort(pl.col("k").cast(pl.String))
    )


@pytest.mark.parametrize("unit", "YMWDhms")
def test_times_of_every_unit_of_numpy(unit: str) -> None:
    left, right = (np.array(values, f"M8[{unit}]") for values in ([3, 1, 2], [2, 3, "NaT"]))
    found = linkwise.join_indices(left, right, order="key", **CPU)
    assert [rows.tolist() for rows in found] == [[2, 0], [0, 1]]


@pytest.mark.parametrize("kind", "mM")
@pytest.mark.parametrize(
    ("units", "values", "pairs"),
    [
        (("D", "D"), ([0, 1], [1 << 32, 1]), [(1, 1)]),  # dates of Arrow have 32 bits
        (("10ms", "ms"), ([1, 2], [10, 20, 1]), [(0, 0), (1, 1)]),
        (("h", "h"), ([1 << 62, 5], [5, 1 << 62]), [(0, 1), (1, 0)]),
        (("D", "s"), ([1, 2], [2 * 86400, 1]), [(1, 0)]),
        (("ps", "as"), ([1, 2], [2_000_000, 1]), [(1, 0)]),
    ],
)
def test_times_of_two_units(kind: str, units: tuple[str, str], values: Any, pairs: list[tuple[int, int]]) -> None:
    left, right = (
        np.array([*numbers, np.iinfo("i8").min]).view(f"{kind}8[{unit}]")  # NaT, which matches nothing
        for numbers, unit in zip(values, units, strict=True)
    )
    for where in (CPU, {"machine": "h200x8"}):
        found = linkwise.join_indices(left, right, order="left", **where)
        assert list(zip(*map(np.ndarray.tolist, found), strict=True)) == pairs


def test_times_beside_those_of_arrow() -> None:
    for numpy, arrow in (
        (np.array([1, 2], "m8[D]"), np.array([1, 2 * 86400], "m8[s]")),
        (np.array([1, 2]).view("M8[10ms]"), np.array([1, 20], "M8[ms]")),
        (np.array([1 << 31, 1 << 32]).view("M8[D]"), np.array([1 << 31, 86400 << 32], "M8[s]")),
    ):
        found = linkwise.join_indices(numpy, pa.array(arrow), **CPU)
        assert [rows.tolist() for rows in found] == [[1], [1]]


def test_times_without_a_common_unit_are_refused() -> None:
    many, few = np.array([1 << 62]), np.array([1])
    for left, right, says in (
        (many.view("M8[h]"), few.view("M8[s]"), "beyond what 64 bits of"),
        (many.view("M8[Y]"), few.view("M8[s]"), "beyond what 64 bits of"),
        (few.view("m8[Y]"), few.view("m8[D]"), "which have no common unit"),
        (few.view("m8[s]"), few.view("M8[s]"), "cannot be compared"),
    ):
        with pytest.raises(linkwise.UsageError, match=says):
            linkwise.join_indices(left, right, **CPU)


@pytest.mark.parametrize("dtype", ["c8", "g", "i4,i4", "V3"])
def test_keys_that_numpy_has_and_a_join_not(dtype: str) -> None:
    with pytest.raises(linkwise.UsageError, match="cannot be joined; numbers, times, texts and bytes can"):
        linkwise.join_indices(np.zeros(3, dtype), np.zeros(3, dtype), **CPU)


def test_arguments_of_a_join() -> None:
    table = pa.table({"k": [1], "a": [2]})
    assert linkwise.join(table, table, on=(name for name in ["k"]), **CPU).column_names == ["k", "a", "a_right"]
    with pytest.raises(linkwise.UsageError, match="order is 'key', 'left' or None, not 'right'"):
        linkwise.join(table, table, "k", order="right", **CPU)  # type: ignore[arg-type]
    with pytest.raises(linkwise.UsageError, match="suffix is text, as '_right', not None"):
        linkwise.join(table, table, "k", suffix=None, **CPU)  # type: ignore[arg-type]


def test_frames() -> None:
    pl = pytest.importorskip("polars")
    testing = pytest.importorskip("polars.testing")
    random = np.random.default_rng(0)
    left = pl.DataFrame({"k": random.integers(0, 50, 300), "s": [f"word {n % 7}" for n in range(300)], "a": range(300)})
    right = pl.DataFrame(
        {"k": random.integers(0, 60, 200), "s": [f"word {n % 9}" for n in range(200)], "b": range(200)}
    )
    for how in ("inner", "left", "full", "semi", "anti"):
        result = linkwise.join(left, right, ["k", "s"], how=how, **CPU)
        expected = left.join(right, on=["k", "s"], how=how, **({"coalesce": True} if how == "full" else {}))
        assert isinstance(result, pl.DataFrame)
        testing.assert_frame_equal(result, expected, check_row_order=False)
    a, b = left.to_pandas(), right.to_pandas()
    result = linkwise.join(a, b, ["k", "s"], **CPU)
    pd.testing.assert_frame_equal(
        result.sort_values(["a", "b"], ignore_index=True),
        a.merge(b, on=["k", "s"]).sort_values(["a", "b"], ignore_index=True),
    )


@pytest.mark.parametrize("how", HOWS)
def test_larger_relations_against_duckdb(how: str) -> None:
    """Many duplicates, a key that many rows have, keys of one side alone, and strings that share long prefixes."""
    duckdb = pytest.importorskip("duckdb")
    random = np.random.default_rng(1)

    def relation(rows: int, most: int) -> pa.Table:
        ids = np.where(random.random(rows) < 0.02, 7, random.integers(0, most, rows))
        return pa.table(
            {
                "id": pa.array(ids, mask=random.random(rows) < 0.01),
                "name": [f"a rather long beginning {n % 5}" for n in ids],
                "row": range(rows),
            }
        )

    left, right = relation(20_000, 9000), relation(15_000, 12_000)
    result = linkwise.join(left, right, ["id", "name"], how=how, machine=MACHINE, strategy="radix")
    condition = "l.id = r.id AND l.name = r.name"
    connection = duckdb.connect()
    connection.register("lhs", left)
    connection.register("rhs", right)
    kind = {"full": "FULL OUTER"}.get(how, how.upper())
    wanted = "l.row, NULL" if how in ("semi", "anti") else "l.row, r.row"
    rows = connection.sql(f"SELECT {wanted} FROM lhs l {kind} JOIN rhs r ON {condition}").fetchall()
    right_rows = [None] * result.num_rows if how in ("semi", "anti") else result["row_right"].to_pylist()

    def key(pair: Any) -> tuple[int, int]:
        return (-1 if pair[0] is None else pair[0], -1 if pair[1] is None else pair[1])

    assert sorted(map(key, zip(result["row"].to_pylist(), right_rows, strict=True))) == sorted(map(key, rows))


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("how", HOWS)
def test_nulls_on_gpus_as_on_the_cores(how: Any, columns: int, counted_on_gpus: list[int]) -> None:
    """The same rows in the same order, whichever way they are found; sides without a whole key as well."""
    random = np.random.default_rng(columns)
    for nulls in (0.0, 0.3, 1.0):
        sides = []
        for rows in (300, 500):
            keys = [pa.array(random.integers(0, 40, rows), mask=random.random(rows) < nulls) for _ in range(columns)]
            sides.append(pa.table(keys, [f"k{i}" for i in range(columns)]))
        for nulls_equal in (False, True):
            found, expected = (
                linkwise.join_indices(*sides, how, nulls_equal=nulls_equal, order="key", **where)
                for where in ({"machine": "delta-d22x", "strategy": "radix"}, CPU)
            )
            assert all((a == b).all() for a, b in zip(found, expected, strict=True))
            counted = linkwise.join_count(*sides, how, nulls_equal=nulls_equal, machine="delta-d22x")
            assert counted == len(expected[0])
            assert len(counted_on_gpus) == 1, "counted on the cores"
            counted_on_gpus.clear()


@pytest.mark.parametrize("where", [{"machine": "dgx-a100"}, CPU], ids=["gpus", "cores"])
def test_promises_are_kept_or_refused(where: dict[str, Any], counted_on_gpus: list[int]) -> None:
    once, twice = pa.table({"k": [1, 2, 3, None, None]}), pa.table({"k": [3, 3, 1, None]})
    assert linkwise.join(once, twice, "k", validate="1:m", **where).num_rows == 3
    assert linkwise.join(twice, once, "k", validate="m:1", **where).num_rows == 3
    assert linkwise.join(once, once, "k", validate="1:1", **where).num_rows == 3
    for sides, validate, side in (((twice, once), "1:m", "left"), ((once, twice), "1:1", "right")):
        with pytest.raises(linkwise.UsageError, match=f"more than once on the {side}"):
            linkwise.join(*sides, "k", validate=validate, **where)
    assert bool(counted_on_gpus) == (where is not CPU)


def run(*arguments: Any, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "linkwise", "join", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=120, check=False)


def test_names_with_commas(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a,b": [1, 2], "c": [3, 4]}), tmp_path / "t.parquet")
    files = [tmp_path / "t.parquet", tmp_path / "t.parquet", "--count", "--strategy", "cpu", "--on"]
    assert [run(*files, names).stdout for names in ('"a,b"', 'c,"a,b"', "c")] == [b"2\n"] * 3
    assert b"has no column 'a'" in run(*files, "a,b").stderr


def test_command_line(tmp_path: Path) -> None:
    left = pa.table({"id": [1, 2, 3], "a": ["x", "y", "z"]})
    pq.write_table(left, tmp_path / "l.parquet")
    (tmp_path / "r.csv").write_text("key,id\n3,30\n1,10\n1,11\n")
    both = [tmp_path / "l.parquet", tmp_path / "r.csv", "--left-on", "id", "--right-on", "key", "--strategy", "cpu"]
    done = run(*both, "-o", tmp_path / "o.arrow", "--order", "left")
    assert done.returncode == 0 and done.stdout.startswith(b"3 rows joined"), done.stderr
    result = pa.ipc.open_file((tmp_path / "o.arrow").read_bytes()).read_all()
    assert result.to_pydict() == {
        "id": [1, 1, 3], "a": ["x", "x", "z"], "key": [1, 1, 3], "id_right": [10, 11, 30],
    }  # fmt: skip
    assert run(*both, "--count", "--how", "left").stdout == b"4\n"
    done = run("-", tmp_path / "l.parquet", "-o", "-", "--on", "id", "--how", "anti", stdin=b"id\n7\n2\n")
    assert done.stdout == b'"id"\n7\n' and b"1 row joined" in done.stderr
    for arguments, code, message in (
        ([*both], 2, b"name the file to write with -o, or --count the rows"),
        ([*both, "-o", tmp_path / "none" / "o.csv"], 1, b"cannot write"),
        ([*both, "-o", tmp_path / "o.npy"], 2, b"parquet cannot become npy"),
        ([*both, "--count", "--validate", "m:1"], 2, b"more than once on the right"),
        ([*both, "-o", tmp_path / "o.arrow", "--validate", "m:1"], 2, b"more than once on the right"),
        ([tmp_path / "l.parquet", tmp_path / "none.csv", "--on", "id", "--count"], 1, b"cannot read"),
        ([tmp_path / "l.parquet", tmp_path / "none.bin", "--on", "id", "--count"], 2, b"a join takes tables"),
    ):
        done = run(*arguments)
        assert done.returncode == code and message in done.stderr, done.stderr
        assert done.stderr.count(b"\n") == (1 if code else 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["l.parquet", "o.arrow", "r.csv"]


def test_a_type_may_be_of_one_side_only(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("id,zip\n1,007\n2,010\n")
    (tmp_path / "r.csv").write_text("id,n\n2,5\n")
    both = tmp_path / "l.csv", tmp_path / "r.csv", "--on", "id", "--strategy", "cpu", "-S", "1GiB"
    assert run(*both, "-o", "-", "--type", "zip=string").stdout == b'"id","zip","n"\n2,"010",5\n'
    wrong = run(*both, "-o", "-", "--type", "zap=string")
    assert wrong.returncode == 2 and b"no column 'zap', whose type is given; there are 'id', 'zip', 'n'" in wrong.stderr


def test_categories_that_one_byte_cannot_number_together() -> None:
    def side(letter: str) -> pa.Table:
        kind = pa.dictionary(pa.int8(), pa.string())
        return pa.table({"k": pa.array([f"{letter}{i}" for i in range(100)] + ["both"]).cast(kind)})

    found = linkwise.join(side("l"), side("r"), "k", how="full", **CPU)
    assert found["k"].type == pa.dictionary(pa.int32(), pa.string()) and found.num_rows == 201
    assert linkwise.join(side("l"), side("r"), "k", **CPU)["k"].type == pa.dictionary(pa.int8(), pa.string())
    frames = side("l").to_pandas(), side("r").to_pandas()
    assert linkwise.join(*frames, "k", how="right", **CPU)["k"].dtype == "category"


@pytest.mark.parametrize(
    "encode",
    [
        pa.Array.dictionary_encode,
        pc.run_end_encode,
        lambda floats: pa.opaque(pa.float64(), "x", "y").wrap_array(floats),
    ],
)
def test_floats_match_as_numbers_wherever_they_are(encode: Any) -> None:
    left, right = pa.array([float("nan"), -0.0, 1.0]), pa.array([0.0, float("nan"), -1.0])
    found = linkwise.join_indices(encode(left), encode(right), order="key", **CPU)
    assert [side.tolist() for side in found] == [[1, 0], [0, 1]]


def test_pandas_types_of_both_sides() -> None:
    left = pd.DataFrame({"k": [1, 2], "v": [1, 2]})
    right = pd.DataFrame({"k": [1, 3], "v": pd.array([2**60 + 1, 5], "Int64"), "b": pd.array([True, None], "boolean")})
    found = linkwise.join(left, right, "k", how="left", **CPU)
    assert found["v_right"].dtype == "Int64" and found["b"].dtype == "boolean"
    assert found["v_right"].tolist() == [2**60 + 1, pd.NA]
