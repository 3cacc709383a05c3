"""Tables of Arrow on the GPUs: columns of every type, sorted and joined there, against the same in host memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkwise
from columns import KEY_TYPES, column_of, cut
from linkwise import GpuTable, UsageError
from linkwise.columns.gather import gpus_gather_faster
from linkwise.columns.key_types import is_number
from linkwise.runtime.execution import ExecutionOptions

MACHINE = "dgx-a100"
TYPES = sorted(KEY_TYPES)


def machine_of(gpus: int) -> dict[str, Any]:
    """On a simulated machine, or on as many real GPUs for a negative number."""
    return {"machine": MACHINE, "gpus": list(range(gpus))} if gpus > 0 else {"gpus": list(range(-gpus))}


@st.composite
def tables(draw: Any, names: list[str], values: list[list[Any]]) -> pa.Table:
    """Columns c0, c1, … of some types and few values, in chunks; a payload of text, some of it null; row numbers."""
    rows = draw(st.integers(0, 25))
    columns = {}
    for number, (name, few) in enumerate(zip(names, values, strict=True)):
        drawn = draw(st.lists(st.sampled_from(few), min_size=rows, max_size=rows))
        where = draw(st.lists(st.integers(0, rows), max_size=2))
        columns[f"c{number}"] = cut(column_of(KEY_TYPES[name][0], drawn), where)
    columns["text"] = pa.array([None if row % 5 == 0 else f"row {row}" for row in range(rows)], pa.string())
    columns["row"] = pa.array(np.arange(rows))
    return pa.table(columns)


def few_values(data: Any, name: str) -> list[Any]:
    return data.draw(st.lists(st.none() | KEY_TYPES[name][1], min_size=1, max_size=5))


def told(table: pa.Table) -> list[str]:
    """The rows as text, in which NaN is equal to itself."""
    return [repr(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def check_rows(found: pa.Table, expected: pa.Table, *, in_order: bool) -> None:
    rows = told(found), told(expected)
    assert rows[0] == rows[1] if in_order else sorted(rows[0]) == sorted(rows[1])


def check_sort(table: pa.Table, by: list[str], descending: list[bool], nulls: list[Any], gpus: int) -> None:
    found = GpuTable(table, **machine_of(gpus)).sort(by, descending=descending, nulls=nulls).to_arrow()
    expected = linkwise.sort(table, by=by, descending=descending, nulls=nulls, strategy="cpu")
    assert found.schema == expected.schema
    assert told(found) == told(expected)


def check_join(left: pa.Table, right: pa.Table, on: list[str], how: Any, order: Any, gpus: int) -> None:
    machine = machine_of(gpus)
    joined = GpuTable(left, **machine).join(GpuTable(right, **machine), on, how=how, order=order)
    found, expected = joined.to_arrow(), linkwise.join(left, right, on=on, how=how, order=order, strategy="cpu")
    assert found.schema.equals(expected.schema)
    key_order_is_known = order == "key" and how not in ("semi", "anti")
    check_rows(found, expected, in_order=order == "left" or key_order_is_known)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_sort(data: Any) -> None:
    names = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    table = data.draw(tables(names, [few_values(data, name) for name in names]))
    by = [f"c{number}" for number in range(len(names))]
    descending = [data.draw(st.booleans()) for _ in by]
    ends = [data.draw(st.sampled_from(["first", "last"])) for _ in by]
    check_sort(table, by, descending, ends, data.draw(st.integers(1, 3)))


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_join(how: str, data: Any) -> None:
    name = data.draw(st.sampled_from(TYPES))
    few = few_values(data, name)
    left, right = (data.draw(tables([name], [few])) for _ in range(2))
    check_join(
        left, right, ["c0"], how, data.draw(st.sampled_from([None, "left", "key"])), data.draw(st.integers(1, 3))
    )


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_join_by_several_keys(how: str, data: Any) -> None:
    """Columns of any types together."""
    names = data.draw(st.permutations(TYPES))[: data.draw(st.integers(2, 3))]
    few = [few_values(data, name)[:3] for name in names]
    left, right = (data.draw(tables(names, few)) for _ in range(2))
    by = [f"c{number}" for number in range(len(names))]
    check_join(left, right, by, how, data.draw(st.sampled_from([None, "left", "key"])), data.draw(st.integers(1, 3)))


def test_a_chain() -> None:
    """Text that is a key of one join and the payload of another; columns that are arrays; a table beside arrays."""
    people = pa.table({"name": ["Ada", None, "Emil", "Bo"], "city": ["Ulm", "Graz", None, "Ulm"], "age": [36, 7, 9, 1]})
    cities = pa.table({"city": pa.array(["Graz", "Linz", "Ulm"], pa.large_string()), "size": [3.5, None, 1.25]})
    ages = {"age": [np.array([1, 36]), np.array([7])], "old": [np.array([False, True]), np.array([False])]}
    where = machine_of(2)
    joined = GpuTable(people, **where).join(GpuTable(cities, **where), "city", how="left")
    joined = joined.join(GpuTable(ages, **where), "age").sort(["size", "name"], nulls="first")
    assert joined.to_arrow().to_pydict() == {
        "name": ["Ada", "Bo", None], "city": ["Ulm", "Ulm", "Graz"], "age": [36, 1, 7], "size": [1.25, 1.25, 3.5],
        "old": [True, False, False],
    }  # fmt: skip
    sizes = joined["size"]
    assert [part.mask.numpy().any() for part in sizes] == [False, False]
    assert np.concatenate([part.values.numpy() for part in sizes]).tolist() == [1.25, 1.25, 3.5]
    assert pa.concat_arrays([part.to_arrow() for part in joined["name"]]).to_pylist() == ["Ada", "Bo", None]


def test_a_text_key_of_both_sides_of_a_full_join() -> None:
    left, right = pa.table({"k": ["b", "d", None]}), pa.table({"k": ["d", "a"], "v": [1, 2]})
    tables = [GpuTable(table, machine=MACHINE, gpus=[0]) for table in (left, right)]
    joined = tables[0].join(tables[1], "k", how="full", order="key")
    assert joined.to_arrow().to_pydict() == {"k": ["a", "b", "d", None], "v": [2, None, 1, None]}
    again = joined.join(tables[1], "k", suffix="_again").to_arrow()
    assert sorted(again.to_pydict()["k"]) == ["a", "d"]


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("order", [None, "left", "key"])
def test_join_of_tables_in_host_memory(how: Any, order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """``linkwise.join`` of numbers goes through the GPUs as a whole, and has the same rows, order and schema."""
    monkeypatch.setattr("linkwise.joining.device.resident_join._LEAST_ROWS", 1)
    monkeypatch.setattr("linkwise.joining.device.resident_join.gpus_gather_faster", lambda *_: True)
    monkeypatch.setattr("linkwise.joining.device.gpu_table._MANY_ROWS", 1)
    random = np.random.default_rng(0)

    def table(rows: int, payload: str) -> pa.Table:
        drawn = {
            "k": pa.array(random.integers(0, 40, rows), pa.timestamp("us", "UTC"), mask=random.random(rows) < 0.1),
            "l": pa.array(random.integers(0, 3, rows, np.uint32)),
            "city": cut(
                pa.array([f"city {number:04}" if number else None for number in random.integers(0, 9, rows)]), [7]
            ),
            "rate": pa.array(random.integers(-2, 2, rows) / 4),
            payload: pa.array(random.random(rows) < 0.5),
            f"text of {payload}": pa.array(
                [None if row % 7 == 0 else str(row) for row in range(rows)]
            ).dictionary_encode(),
            "list": pa.array([[row] * (row % 3) for row in range(rows)]),
            "row": np.arange(rows),
        }
        return pa.table(drawn).replace_schema_metadata({"told by": payload})

    left, right = table(200, "x"), table(90, "y")
    ways: list[dict[str, Any]] = [{"on": "k"}, {"on": ["k", "l"]}, {"left_on": "k", "right_on": "k"}]
    ways += [{"on": ["rate", "k", "l"]}, {"on": "city"}, {"on": ["l", "city", "rate"]}]
    ways.append({"left_on": "city", "right_on": "city"})
    for names in ways:
        with monkeypatch.context() as without_other_ways:
            without_other_ways.setattr("linkwise.joining.api.TableJoin", None)
            found = linkwise.join(left, right, how=how, order=order, machine=MACHINE, gpus=[0, 1, 2], **names)
        expected = linkwise.join(left, right, how=how, order=order, strategy="cpu", **names)
        assert found.schema.equals(expected.schema, check_metadata=True)
        check_rows(found, expected, in_order=order is not None or how in ("semi", "anti"))


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_sort_of_tables_in_host_memory(data: Any) -> None:
    """``linkwise.sort`` by numbers goes through the GPUs as a whole, and takes other columns along."""
    names = data.draw(st.lists(st.sampled_from([name for name in TYPES if is_number(KEY_TYPES[name][0])]), min_size=1))
    table = data.draw(tables(names, [few_values(data, name) for name in names]))
    by = [f"c{number}" for number in range(len(names))][: data.draw(st.integers(1, 3))]
    how: dict[str, Any] = {"by": by, "descending": [data.draw(st.booleans()) for _ in by]}
    how["nulls"] = [data.draw(st.sampled_from(["first", "last"])) for _ in by]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("linkwise.sorting.device.resident_sort._LEAST_ROWS", 0)
        patch.setattr("linkwise.sorting.device.resident_sort.gpus_gather_faster", lambda *_: True)
        patch.setattr("linkwise.sorting.api.sort_table", None)
        found = linkwise.sort(table, machine=MACHINE, gpus=list(range(data.draw(st.integers(1, 3)))), **how)
    expected = linkwise.sort(table, strategy="cpu", **how)
    assert found.schema == expected.schema
    assert told(found) == told(expected)


def test_slow_links_leave_rows_to_the_cores() -> None:
    columns = [pa.chunked_array([np.zeros(1 << 22)])] * 3
    assert gpus_gather_faster(columns, 1 << 24, ExecutionOptions(machine="dgx-h100"))
    assert not gpus_gather_faster(columns, 1 << 24, ExecutionOptions(machine="dgx2", gpus=[0]))


@pytest.mark.parametrize("is_tried", [False, True])
def test_what_does_not_fit_takes_another_way(is_tried: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("linkwise.sorting.device.resident_sort", "linkwise.joining.device.resident_join"):
        monkeypatch.setattr(f"{module}._LEAST_ROWS", 1)
        monkeypatch.setattr(f"{module}.gpus_gather_faster", lambda *_: True)
        if is_tried:
            monkeypatch.setattr(f"{module}.fit_there", lambda *_: True)
    rows = 200_000
    where: dict[str, Any] = {"machine": MACHINE, "gpus": [0], "memory_limit": "2MiB"}
    table = pa.table({"k": np.arange(rows)[::-1], "v": np.arange(rows)})
    assert (linkwise.sort(table, by="k", **where)["v"].to_numpy() == np.arange(rows)[::-1]).all()
    assert linkwise.join(table, table, "k", **where).num_rows == rows


def test_long_text_takes_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranking it would take long."""
    monkeypatch.setattr("linkwise.joining.device.resident_join._LEAST_ROWS", 1)
    monkeypatch.setattr("linkwise.joining.device.resident_join.gpus_gather_faster", lambda *_: True)
    monkeypatch.setattr("linkwise.joining.device.device_columns.text_keys", None)
    table = pa.table({"k": [letter * 500 for letter in "abc"], "v": [1, 2, 3]})
    assert linkwise.join(table, table, "k", machine=MACHINE).num_rows == 3


def test_what_it_cannot_is_said() -> None:
    table = pa.table({"k": [[1], [2]], "n": [1, 2], "s": ["a", "b"]})
    with pytest.raises(UsageError, match="of type list<.*> is no key of a table on the GPUs; bool, integers"):
        GpuTable(table, machine=MACHINE, gpus=[0]).sort("k")
    with pytest.raises(UsageError, match="keys 'n' and 's' are int64 and string; keys of two types are integers"):
        GpuTable(table, machine=MACHINE, gpus=[0]).join(
            GpuTable(table, machine=MACHINE, gpus=[0]), left_on="n", right_on="s"
        )
    with pytest.raises(UsageError, match="at least one column, and each has another name"):
        GpuTable(pa.table([[1], [2]], ["a", "a"]), machine=MACHINE)
    with pytest.raises(UsageError, match="is no table"):
        GpuTable(np.arange(3), machine=MACHINE)


@pytest.mark.gpu
def test_on_gpus() -> None:
    random = np.random.default_rng(0)
    rows = 20_000
    words = np.array(["a", "bé", "", "a common beginning, and another end", "z"])

    def table(rows: int) -> pa.Table:
        return pa.table({
            "s": pa.array(words[random.integers(0, 5, rows)], mask=random.random(rows) < 0.1),
            "t": pa.array(random.integers(0, 50, rows), pa.timestamp("us")),
            "f": pa.array(random.integers(0, 900, rows).astype(np.float32), mask=random.random(rows) < 0.1),
            "text": pa.array([f"row {row}" for row in range(rows)]),
            "row": np.arange(rows),
        })  # fmt: skip

    for gpus in range(1, len(GpuTable(pa.table({"a": [1]}))._gpus.gpus) + 1):
        check_sort(table(rows), ["s", "f"], [False, True], ["first", "last"], -gpus)
        for how in ("inner", "left", "right", "full", "semi", "anti"):
            check_join(table(900), table(300), ["s", "t"], how, "left", -gpus)
            check_join(table(900), table(300), ["f"], how, None, -gpus)
