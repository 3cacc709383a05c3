"""Tables of columns that lie on the GPUs: NumPy arrays stand in for them on virtual machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkwise
from conftest import SEEDS
from linkwise import GpuTable, UsageError
from test_device_join import parts_of
from test_device_sort import on_gpu

MACHINE = "dgx-a100"
DTYPES = (np.int64, np.uint32, np.float64, np.int32, np.uint8, np.float32, np.int16, np.uint64, np.bool_)
NAMES = [f"c{number}" for number in range(len(DTYPES))]


def columns_of(rows: int, seed: int) -> dict[str, Any]:
    """Columns of every type, with few distinct values and, among floats, NaNs and zeros of both signs."""
    random = np.random.default_rng(seed)
    columns = {}
    for number, dtype in enumerate(DTYPES):
        drawn = random.integers(0, 20, rows).astype(dtype)
        if drawn.dtype.kind == "f":
            drawn[random.random(rows) < 0.1] = np.nan
            drawn[random.random(rows) < 0.1] *= -0.0
        columns[f"c{number}"] = drawn
    columns["row"] = np.arange(rows)
    return columns


def spread(columns: dict[str, Any], gpus: int, seed: int, *, real: bool = False) -> dict[str, Any]:
    """The columns in unequal parts, the same for each."""
    split = {name: parts_of(column, gpus, seed) for name, column in columns.items()}
    if real:
        split = {name: [on_gpu(part, g) for g, part in enumerate(parts)] for name, parts in split.items()}
    return split


def whole(columns: dict[str, Any]) -> dict[str, Any]:
    """The columns of a result in host memory, each in one piece."""
    return {
        name: np.concatenate([np.asarray(part.get() if hasattr(part, "get") else part) for part in parts])
        for name, parts in columns.items()
    }


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, column in expected.items():
        assert found[name].dtype == column.dtype, name
        bits = f"u{column.dtype.itemsize}"
        assert (found[name].view(bits) == np.ascontiguousarray(column).view(bits)).all(), name


def rows_in_order(columns: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The rows in the order of all their columns, so that two sets of rows can be compared."""
    order = np.lexsort([columns[name] for name in names])
    return {name: column[order] for name, column in columns.items()}


def check_sort(rows: int, gpus: int, by: list[str], descending: list[bool], seed: int, **machine: Any) -> None:
    columns = columns_of(rows, seed)
    found = linkwise.sort(spread(columns, gpus, seed, real=not machine), by=by, descending=descending, **machine)
    order = linkwise.sort_indices(pa.table(columns), by=by, descending=descending, strategy="cpu")
    same(whole(found), {name: column[order] for name, column in columns.items()})


@pytest.mark.parametrize("seed", SEEDS)
def test_sort(seed: int) -> None:
    """By one column or several, of every type, in both directions: stable."""
    random = np.random.default_rng(seed)
    by = list(map(str, random.choice(NAMES, int(random.integers(1, 4)), replace=False)))
    descending = [bool(falls) for falls in random.integers(0, 2, len(by))]
    check_sort(int(random.integers(0, 600)), int(random.integers(1, 9)), by, descending, seed, machine=MACHINE)


def check_join(gpus: int, how: str, keys: list[tuple[str, str]], seed: int, order: Any = None, **machine: Any) -> None:
    random = np.random.default_rng(seed)
    left, right = columns_of(int(random.integers(0, 300)), seed), columns_of(int(random.integers(0, 80)), seed + 1)
    lefts, rights = [left for left, _ in keys], [right for _, right in keys]
    names: dict[str, Any] = {"on": lefts} if lefts == rights else {"left_on": lefts, "right_on": rights}
    expected = linkwise.join(pa.table(left), pa.table(right), how=how, strategy="cpu", order="key", **names)
    sides = (spread(side, gpus, seed, real=not machine) for side in (left, right))
    found = whole(linkwise.join(*sides, how=how, order=order, **names, **machine))
    wanted = {name: column.to_numpy() for name, column in zip(expected.column_names, expected.columns, strict=True)}
    if order == "key":
        key = found[lefts[0]]
        assert (key[1:] >= key[:-1]).all()
    if order == "left":
        by_left = np.lexsort([found[name] for name in ("row_right", "row") if name in found])
        assert (by_left == np.arange(len(by_left))).all()
    numbers = [name for name in found if name.startswith("row")]
    same(rows_in_order(found, numbers), rows_in_order(wanted, numbers))


@pytest.mark.parametrize("how", ["inner", "semi", "anti"])
@pytest.mark.parametrize("gpus", [1, 3])
def test_join(how: str, gpus: int) -> None:
    """By a column of every type, and by several integers, of different widths too."""
    for seed, name in enumerate(NAMES):
        order = "left" if name in ("c2", "c5") else [None, "left", "key"][seed % 3]  # NaN is no number to compare
        check_join(gpus, how, [(name, name)], seed, order, machine=MACHINE)
    check_join(gpus, how, [("c0", "c0"), ("c3", "c3")], 1, machine=MACHINE)
    check_join(gpus, how, [("c0", "c3"), ("c1", "c7")], 2, machine=MACHINE)


def test_a_chain_gathers_what_it_needs() -> None:
    """Keys of a later join may come from any earlier table; columns of one name get the suffix."""
    random = np.random.default_rng(0)
    customers = {"c": np.arange(50), "nation": random.integers(0, 5, 50)}
    orders = {"o": np.arange(400), "c": random.integers(0, 60, 400), "price": random.random(400)}
    lines = {"o": random.integers(0, 500, 3000), "price": random.random(3000).astype(np.float32)}
    tables = [GpuTable(spread(columns, 4, 1), machine=MACHINE) for columns in (customers, orders, lines)]
    joined = tables[0].join(tables[1], "c").join(tables[2], on="o").sort(["nation", "price"], descending=[False, True])
    assert joined.column_names == ["c", "nation", "o", "price", "price_right"]
    host = linkwise.join(pa.table(customers), pa.table(orders), on="c")
    host = linkwise.join(host, pa.table(lines), on="o")
    host = linkwise.sort(host, by=["nation", "price"], descending=[False, True])
    assert len(joined) == host.num_rows
    assert (whole(joined.select(["nation"]).to_dict())["nation"] == host["nation"].to_numpy()).all()
    found = whole(joined.to_dict())
    expected = {name: host[name].to_numpy() for name in host.column_names}
    same(rows_in_order(found, ["price_right", "o"]), rows_in_order(expected, ["price_right", "o"]))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-3, 3), max_size=40), st.lists(st.integers(-3, 3), max_size=40), st.integers(1, 4))
def test_joins_against_python(left: list[int], right: list[int], gpus: int) -> None:
    sides = ({"k": np.array(keys, np.int32), "row": np.arange(len(keys))} for keys in (left, right))
    a, b = (spread(side, gpus, 0) for side in sides)
    found = whole(linkwise.join(a, b, on="k", machine=MACHINE))
    pairs = sorted(zip(found["row"].tolist(), found["row_right"].tolist(), strict=True))
    assert pairs == [(i, j) for i, x in enumerate(left) for j, y in enumerate(right) if x == y]


def test_a_single_array_stays_one() -> None:
    found = linkwise.sort({"k": np.array([3, 1, 2]), "v": np.array([1.0, 2.0, 3.0])}, by="k", machine=MACHINE)
    assert found["k"].tolist() == [1, 2, 3] and found["v"].tolist() == [2.0, 3.0, 1.0]
    assert linkwise.sort({"k": np.array([3, 1])}, by="k", machine=MACHINE)["k"].tolist() == [1, 3]


def test_what_a_table_tells() -> None:
    table = GpuTable({"k": [np.arange(3), np.arange(2)], "v": [np.zeros(3), np.ones(2)]}, machine=MACHINE)
    assert repr(table) == "GpuTable(5 rows of k, v on GPUs 0, 1)" and len(table) == 5
    assert table.column_names == ["k", "v"] and list(table.select(["v"]).to_dict()) == ["v"]
    with pytest.raises(UsageError, match="there is no column 'x'; there are 'k', 'v'"):
        table.select(["x"])


def test_what_it_cannot_is_said() -> None:
    keys = np.arange(5)
    table = {"k": [keys, keys], "v": [keys, keys]}

    def told(pattern: str, call: Any) -> None:
        with pytest.raises(UsageError, match=pattern):
            call()

    told("name one with machine=", lambda: linkwise.sort(table, by="k"))
    told("at least one column", lambda: linkwise.sort({}, by="k", machine=MACHINE))
    told("has not one column 'x'|no column 'x'", lambda: linkwise.sort(table, by="x", machine=MACHINE))
    told("not as many rows on the same GPUs", lambda: GpuTable({"k": keys, "v": keys[1:]}, machine=MACHINE))
    for column in (keys.astype("M8[s]"), np.ones((2, 2))):
        told("one dimension, and integers, floats or bools", lambda k=column: GpuTable({"k": k}, machine=MACHINE))
    told("column 'k' is a str", lambda: GpuTable({"k": "abc"}, machine=MACHINE))
    told("differ in type", lambda: GpuTable({"k": [keys, keys.astype("u4")]}, machine=MACHINE))
    told("by= and descending= alone", lambda: linkwise.sort(table, by="k", nulls="first", machine=MACHINE))
    told("one side is a dictionary", lambda: linkwise.join(table, keys, on="k", machine=MACHINE))
    told("rows that lack one side", lambda: linkwise.join(table, table, on="k", how="left", machine=MACHINE))
    told(
        "order is 'key', 'left' or None, not 'right'",
        lambda: linkwise.join(table, table, on="k", order="right", machine=MACHINE),
    )
    told("not one column 'x'", lambda: linkwise.join(table, table, on="x", machine=MACHINE))
    floats = {"k": [keys + 0.5, keys + 0.5], "v": [keys, keys]}
    told("both signed or both unsigned", lambda: linkwise.join(table, floats, on="k", machine=MACHINE))
    wide = {"k": [keys * 2**60, keys], "v": [keys * 2**60, keys]}
    told("more than 64 bits together", lambda: linkwise.join(wide, wide, on=["k", "v"], machine=MACHINE))
    told("two columns 'v_right'", lambda: linkwise.join(table | {"v_right": [keys, keys]}, table, on="k",
                                                        machine=MACHINE))  # fmt: skip


@pytest.mark.gpu
def test_arrays_of_any_library() -> None:
    """Linkwise's own, CuPy's through the CUDA array interface alone, and Arrow's C device interface."""
    pytest.importorskip("cupy")

    class Bare:
        def __init__(self, array: Any) -> None:
            self.__cuda_array_interface__ = array.__cuda_array_interface__
            self._owner = array

    keys = on_gpu(np.array([3, 1, 2], np.int32), 0)
    own = linkwise.sort(Bare(keys))  # a DeviceArray, which speaks all of them
    found = linkwise.sort({"k": Bare(keys), "v": own}, by="k")
    assert found["k"].numpy().tolist() == [1, 2, 3] and found["v"].numpy().tolist() == [2, 3, 1]
    assert own.shape == (3,) and own.dtype == np.int32


@pytest.mark.gpu
def test_on_gpus() -> None:
    cupy = pytest.importorskip("cupy")
    gpus = cupy.cuda.runtime.getDeviceCount()
    for count in range(1, gpus + 1):
        for seed, name in enumerate(NAMES):
            other = NAMES[(seed + 3) % len(NAMES)]
            check_sort(5000, count, [name, other], [bool(seed % 2), bool(seed % 3)], seed)
        for how in ("inner", "semi", "anti"):
            for seed, name in enumerate(NAMES):
                check_join(count, how, [(name, name)], seed)
            check_join(count, how, [("c0", "c3"), ("c1", "c7")], 2)
    torch = pytest.importorskip("torch")
    keys = torch.tensor([3, 1, 2], device="cuda")
    flags = torch.tensor([True, False, True], device="cuda")
    found = linkwise.sort({"k": keys, "v": torch.tensor([1.0, 2.0, 3.0], device="cuda"), "f": flags}, by="k")
    assert isinstance(found["v"], torch.Tensor) and found["v"].tolist() == [2.0, 3.0, 1.0]
    assert found["f"].tolist() == [False, True, True] and found["f"].dtype == torch.bool
    assert linkwise.sort(flags).tolist() == [False, True, True]
    assert linkwise.join_count(flags, flags) == 5
