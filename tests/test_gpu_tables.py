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
from linkwise import GpuTable, MaskedArray, UsageError, _core
from linkwise.runtime.execution import ExecutionOptions
from linkwise.sorting.device.device_columns import GpuColumns
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


def with_nulls(columns: dict[str, Any], seed: int, share: float = 0.2) -> dict[str, Any]:
    """The same, where some of every second column have no value."""
    random = np.random.default_rng(seed)
    return {
        name: np.ma.array(column, mask=random.random(len(column)) < share) if name in NAMES[::2] else column
        for name, column in columns.items()
    }


def arrow_of(columns: dict[str, Any]) -> pa.Table:
    return pa.table({
        name: pa.array(np.ma.getdata(column), mask=column.mask if np.ma.isMaskedArray(column) else None)
        for name, column in columns.items()
    })  # fmt: skip


def of_arrow(table: pa.Table) -> dict[str, Any]:
    """The columns as arrays, masked if there are nulls."""
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        mask = column.is_null().to_numpy()
        values = column.fill_null(False if pa.types.is_boolean(column.type) else 0).to_numpy()
        columns[name] = np.ma.array(values, mask=mask) if mask.any() else values
    return columns


def spread(columns: dict[str, Any], gpus: int, seed: int, *, real: bool = False) -> dict[str, Any]:
    """The columns in unequal parts, the same for each."""

    def parts(column: Any) -> list[Any]:
        cut = parts_of(column, gpus, seed)
        return [on_gpu(part, g) for g, part in enumerate(cut)] if real else cut

    return {
        name: [MaskedArray(*each) for each in zip(parts(column.data), parts(column.mask), strict=True)]
        if np.ma.isMaskedArray(column)
        else parts(column)
        for name, column in columns.items()
    }


def in_host_memory(part: Any) -> Any:
    if isinstance(part, MaskedArray):
        return np.ma.array(in_host_memory(part.values), mask=in_host_memory(part.mask))
    return np.asarray(part.get() if hasattr(part, "get") else part)


def whole(columns: dict[str, Any]) -> dict[str, Any]:
    """The columns of a result in host memory, each in one piece."""
    return {name: np.ma.concatenate([in_host_memory(part) for part in parts])
            if isinstance(parts[0], MaskedArray)
            else np.concatenate([in_host_memory(part) for part in parts])
            for name, parts in columns.items()}  # fmt: skip


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, column in expected.items():
        assert found[name].dtype == column.dtype, name
        is_null = np.ma.getmaskarray(column)
        assert (np.ma.getmaskarray(found[name]) == is_null).all(), name
        bits = f"u{column.dtype.itemsize}"
        values = (np.ascontiguousarray(np.ma.getdata(each)).view(bits) for each in (found[name], column))
        assert ((next(values) == next(values)) | is_null).all(), name


def rows_in_order(columns: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The rows in the order of all their columns, so that two sets of rows can be compared."""
    order = np.lexsort([np.ma.filled(columns[name], -1) for name in names])
    return {name: column[order] for name, column in columns.items()}


def check_sort(
    rows: int, gpus: int, by: list[str], descending: list[bool], seed: int, nulls: Any = None, **machine: Any
) -> None:
    """``nulls``: where they go; without, there are none."""
    columns = columns_of(rows, seed) if nulls is None else with_nulls(columns_of(rows, seed), seed)
    where = {} if nulls is None else {"nulls": nulls}
    sides = spread(columns, gpus, seed, real=not machine)
    found = linkwise.sort(sides, by=by, descending=descending, **where, **machine)
    order = linkwise.sort_indices(arrow_of(columns), by=by, descending=descending, strategy="cpu", **where)
    same(whole(found), {name: column[order] for name, column in columns.items()})
    same(whole({"row": linkwise.sort_indices(sides, by=by, descending=descending, **where, **machine)}), {"row": order})


@pytest.mark.parametrize("seed", SEEDS)
def test_sort(seed: int) -> None:
    """By one column or several, of every type, in both directions: stable."""
    random = np.random.default_rng(seed)
    by = list(map(str, random.choice(NAMES, int(random.integers(1, 4)), replace=False)))
    descending = [bool(falls) for falls in random.integers(0, 2, len(by))]
    rows, gpus = int(random.integers(0, 600)), int(random.integers(1, 9))
    check_sort(rows, gpus, by, descending, seed, machine=MACHINE)
    nulls = [str(random.choice(["first", "last"])) for _ in by]
    check_sort(rows, gpus, by, descending, seed, nulls, machine=MACHINE)


def check_join(
    gpus: int, how: str, keys: list[tuple[str, str]], seed: int, order: Any = None, *, nulls: bool = False,
    names: dict[str, Any] | None = None, **machine: Any,
) -> None:  # fmt: skip
    random = np.random.default_rng(seed)
    sides = [columns_of(int(random.integers(0, most)), seed + at) for at, most in enumerate((300, 80))]
    if nulls:
        sides = [with_nulls(side, seed + at) for at, side in enumerate(sides)]
    lefts, rights = [left for left, _ in keys], [right for _, right in keys]
    by = names or ({"on": lefts} if lefts == rights else {"left_on": lefts, "right_on": rights})
    tables = [arrow_of(side) for side in sides]
    expected = linkwise.join(*tables, how=how, strategy="cpu", order=order or "key", **by)
    given = [spread(side, gpus, seed, real=not machine) for side in sides]
    found = whole(linkwise.join(*given, how=how, order=order, **by, **machine))
    wanted = of_arrow(expected)
    rows = [name for name in found if name.startswith("row")]
    if order == "key" and how in ("semi", "anti"):  # these keep the left order in host memory
        key = found[lefts[0]]
        is_null = np.ma.getmaskarray(key)
        assert not is_null[: len(key) - is_null.sum()].any()
        values = np.ma.compressed(key) if np.ma.isMaskedArray(key) else key
        values = values[~np.isnan(values)]  # no number to compare
        assert (values[1:] >= values[:-1]).all()
    elif order is not None:
        ordered = (
            (found, wanted) if order == "left" else ({name: side[name] for name in lefts} for side in (found, wanted))
        )
        same(*ordered)
    same(rows_in_order(found, rows), rows_in_order(wanted, rows))


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("gpus", [1, 3])
def test_join(how: str, gpus: int) -> None:
    """By a column of every type, and by several integers, of different widths too; with nulls and without."""
    for seed, name in enumerate(NAMES):
        for nulls in (False, True):
            order = [None, "left", "key"][seed % 3]
            check_join(gpus, how, [(name, name)], seed, order, nulls=nulls, machine=MACHINE)
    both = [("c0", "c0"), ("c3", "c3")]
    for order in (None, "left", "key"):
        check_join(gpus, how, both, 1, order, machine=MACHINE)
        check_join(gpus, how, both, 1, order, nulls=True, machine=MACHINE)
    for some in (NAMES[:3], NAMES[-3:], NAMES):  # floats, bools and narrow integers too, and more than 64 bits
        wide = [(name, name) for name in some]
        check_join(gpus, how, wide, 4, None, machine=MACHINE)
        check_join(gpus, how, wide, 4, "left", nulls=True, machine=MACHINE)
        check_join(gpus, how, wide, 4, "key", nulls=True, machine=MACHINE)
    apart = {"left_on": ["c0", "c3"], "right_on": ["c0", "c3"]}
    check_join(gpus, how, both, 3, names=apart, nulls=True, machine=MACHINE)
    if how not in ("right", "full"):
        check_join(gpus, how, [("c0", "c3"), ("c1", "c7")], 2, nulls=True, machine=MACHINE)


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


def test_outer_joins_one_after_the_other() -> None:
    """Rows that lack a side lack it in later joins, sorts and columns; a table can be joined with itself."""
    customers = {"c": np.array([1, 2, 3]), "boss": np.ma.array([2, 0, 2], mask=[0, 1, 0]), "vip": np.array([True] * 3)}
    orders = {"c": np.array([3, 9, 3]), "price": np.array([5.0, 7.0, 2.0])}
    a, b = (GpuTable(spread(columns, 2, 1), machine=MACHINE) for columns in (customers, orders))
    host_a, host_b = arrow_of(customers), arrow_of(orders)
    joined = a.join(b, "c", how="left").join(a, left_on="boss", right_on="c", how="full").sort(["vip", "c", "price"])
    host = linkwise.join(host_a, host_b, on="c", how="left")
    host = linkwise.join(host, host_a, left_on="boss", right_on="c", how="full")
    host = linkwise.sort(host, by=["vip", "c", "price"])
    assert joined.column_names == host.column_names
    assert joined.to_arrow().sort_by([("c", "ascending"), ("price", "ascending"), ("c_right", "ascending")]) == (
        host.combine_chunks().sort_by([("c", "ascending"), ("price", "ascending"), ("c_right", "ascending")])
    )
    same(whole(joined.select(["vip"]).to_dict()), of_arrow(host.select(["vip"])))


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
    told("has no column .x.|no column 'x'", lambda: linkwise.sort(table, by="x", machine=MACHINE))
    told("not as many rows on the same GPUs", lambda: GpuTable({"k": keys, "v": keys[1:]}, machine=MACHINE))
    for column in (keys.astype("M8[s]"), np.ones((2, 2))):
        told("one dimension, and integers, floats or bools", lambda k=column: GpuTable({"k": k}, machine=MACHINE))
    told("column 'k' is a str", lambda: GpuTable({"k": "abc"}, machine=MACHINE))
    told("differ in type", lambda: GpuTable({"k": [keys, keys.astype("u4")]}, machine=MACHINE))
    told("nulls= alone", lambda: linkwise.sort(table, by="k", out=keys, machine=MACHINE))
    told("one side lies on GPUs", lambda: linkwise.join(table, keys, on="k", machine=MACHINE))
    short = {"k": [keys.astype("i4"), keys.astype("i4")]}
    told("full joins have keys of one type", lambda: linkwise.join(table, short, on="k", how="full", machine=MACHINE))
    masked = MaskedArray(keys, keys > 2)
    told("others are not", lambda: GpuTable({"k": [masked, keys]}, machine=MACHINE))
    told("has a bool for each", lambda: MaskedArray(keys, keys))
    told("has a bool for each", lambda: MaskedArray(keys, keys[1:] > 2))
    told("of CuPy or of torch", lambda: MaskedArray([1], [True]))
    told(
        "order is 'key', 'left' or None, not 'right'",
        lambda: linkwise.join(table, table, on="k", order="right", machine=MACHINE),
    )
    told("no column 'x'", lambda: linkwise.join(table, table, on="x", machine=MACHINE))
    floats = {"k": [keys + 0.5, keys + 0.5], "v": [keys, keys]}
    told("both signed or both unsigned", lambda: linkwise.join(table, floats, on="k", machine=MACHINE))
    wide = {"k": [keys * 2**60, keys], "v": [keys * 2**60, keys]}
    narrow = {"k": wide["k"], "v": [keys.astype("i4"), keys.astype("i4")]}
    told("64 bits together, and differ in type", lambda: linkwise.join(wide, narrow, on=["k", "v"], machine=MACHINE))
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
            check_sort(5000, count, [name, other], [bool(seed % 2), bool(seed % 3)], seed, ["first", "last"])
        for how in ("inner", "left", "right", "full", "semi", "anti"):
            for seed, name in enumerate(NAMES):
                check_join(count, how, [(name, name)], seed, [None, "left", "key"][seed % 3], nulls=bool(seed % 2))
            check_join(count, how, [("c0", "c0"), ("c3", "c3")], 2, nulls=True)
            if how not in ("right", "full"):
                check_join(count, how, [("c0", "c3"), ("c1", "c7")], 2)
    torch = pytest.importorskip("torch")
    keys = torch.tensor([3, 1, 2], device="cuda")
    flags = torch.tensor([True, False, True], device="cuda")
    found = linkwise.sort({"k": keys, "v": torch.tensor([1.0, 2.0, 3.0], device="cuda"), "f": flags}, by="k")
    assert isinstance(found["v"], torch.Tensor) and found["v"].tolist() == [2.0, 3.0, 1.0]
    assert found["f"].tolist() == [False, True, True] and found["f"].dtype == torch.bool
    masked = MaskedArray(flags, torch.tensor([False, True, False], device="cuda"))
    found = linkwise.sort({"f": masked, "k": keys}, by="f", descending=True)
    assert found["k"].tolist() == [3, 2, 1] and found["f"].mask.tolist() == [False, False, True]
    assert found["f"].values.dtype == torch.bool and found["f"].values.tolist()[:2] == [True, True]
    assert linkwise.sort(flags).tolist() == [False, True, True]
    assert linkwise.join_count(flags, flags) == 5


def test_bits_of_validity() -> None:
    """Of columns that other software has on two GPUs, beginning at any bit; and back."""
    gpus = GpuColumns(ExecutionOptions(machine=MACHINE, gpus=[0, 1]))
    bits = np.random.default_rng(0).integers(0, 1 << 32, 40, dtype=np.uint32)
    is_null = np.unpackbits(bits.view(np.uint8), bitorder="little") == 0
    shares = [(5, 700), (64, 1000)]
    nulls = gpus.bytes_of_bits([(bits.ctypes.data, first, count) for first, count in shares], 0, 255)
    expected = [is_null[first : first + count] for first, count in shares]
    assert [part.numpy().tolist() for part in nulls] == [(255 * part).tolist() for part in expected]
    values = [np.arange(count, dtype=np.int32) for _, count in shares]
    filled = gpus.with_nulls_filled(gpus.lend(values), nulls)
    for found, of_part, is_null_there in zip(filled, values, expected, strict=True):
        assert (found.numpy() == np.where(is_null_there, -1, of_part)).all()
    with gpus.session() as (runtime, _):
        packed = [_core.bits_of_bytes(runtime, part, 0)[0].numpy() for part in nulls]
    for words, is_null_there in zip(packed, expected, strict=True):
        valid = np.unpackbits(words.view(np.uint8), bitorder="little")
        assert (valid[: len(is_null_there)] == ~is_null_there).all()


class OnlyArrow:
    """A column that speaks Arrow's C device interface alone."""

    def __init__(self, column: Any) -> None:
        self._column = column

    def __arrow_c_device_array__(self, requested_schema: object = None) -> Any:
        return self._column.__arrow_c_device_array__(requested_schema)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["i8", "f4", "u2"])
def test_nulls_of_arrow(dtype: str) -> None:
    """Columns with bits of validity, as cuDF has them, are sorted, joined and given back as such."""
    cupy = pytest.importorskip("cupy")
    random = np.random.default_rng(0)
    keys, rows = random.integers(0, 50, 3000).astype(dtype), np.arange(3000)
    masked = np.ma.array(keys, mask=random.random(3000) < 0.3)
    column = MaskedArray(cupy.asarray(keys), cupy.asarray(masked.mask))
    for of_gpu in (OnlyArrow(column), [OnlyArrow(column)]):
        table = {"k": of_gpu, "row": [cupy.asarray(rows)] if isinstance(of_gpu, list) else cupy.asarray(rows)}
        found = linkwise.sort(table, by=["k", "row"], descending=[True, False], nulls="first")
        first = found["k"][0] if isinstance(of_gpu, list) else found["k"]
        assert isinstance(first, linkwise.GpuColumn) and isinstance(first.values, linkwise.DeviceArray)
        expected = np.lexsort((rows, np.where(masked.mask, 0, -keys.astype("f8")), ~masked.mask))
        in_order = found["row"][0] if isinstance(of_gpu, list) else found["row"]
        assert (in_order.get() == expected).all()
        assert ((first.nulls.numpy() != 0) == masked.mask[expected]).all()
        again = linkwise.sort({"k": OnlyArrow(first), "row": in_order}, by="row")
        assert ((again["k"].nulls.numpy() != 0) == masked.mask).all()
        assert (again["k"].values.numpy()[~masked.mask] == keys[~masked.mask]).all()
        assert linkwise.sort({"k": first, "row": in_order}, by="row")["row"].get().tolist() == rows.tolist()
    few = {"k": cupy.asarray(np.array([3, 7], dtype)), "v": cupy.asarray(np.array([1.0, 2.0]))}
    joined = linkwise.join({"k": OnlyArrow(column), "row": cupy.asarray(rows)}, few, on="k")
    assert sorted(joined["row"].get().tolist()) == np.flatnonzero(np.isin(keys, [3, 7]) & ~masked.mask).tolist()
    with pytest.raises(UsageError, match="as a column of a table"):
        linkwise.sort(OnlyArrow(column))
