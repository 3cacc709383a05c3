"""Joins one after the other, in host memory and with keys and row numbers that stay on the GPUs."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkwise
from conftest import cuda_runtime
from linkwise import OutOfMemoryError, UsageError
from linkwise.bench.tpch_joins import Joiner
from linkwise.joining.device.device_columns import JoinableColumns
from linkwise.joining.device.late_materialization import RowNumbers
from linkwise.runtime.execution import ExecutionOptions


def execution(machine: str = "dgx-a100", gpus: Any = "auto", strategy: str = "auto") -> ExecutionOptions:
    return ExecutionOptions(machine=machine, gpus=gpus, strategy=strategy)


def on_cores() -> ExecutionOptions:
    return execution("auto", strategy="cpu")


def page_locked(table: pa.Table) -> pa.Table:
    columns = []
    for column in table.columns:
        columns.append(linkwise.empty(table.num_rows, column.type.to_pandas_dtype()))
        columns[-1][:] = column.to_numpy()
    return pa.table(columns, table.column_names)


def fetched(columns: JoinableColumns, column: list[Any]) -> np.ndarray:
    return columns.fetch([column])[0]


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    rows = zip(*(table[name].to_pylist() for name in sorted(table.column_names)), strict=True)
    return sorted(rows, key=lambda row: [(value is None, value) for value in row])


@pytest.mark.parametrize("gpus", [[0], [1, 0], [0, 1, 2], list(range(8))])
@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8"])
def test_columns_that_stay_on_the_gpus(gpus: list[int], dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(4):
        monkeypatch.setenv("LINKWISE_SEED", str(seed))
        random = np.random.default_rng(seed)
        count = [0, 1, 1000, 12_345][seed]
        column = random.integers(0, 100, count).astype(dtype)
        columns = JoinableColumns(execution(gpus=gpus))
        brought = columns.bring(column)
        assert [array.gpu for array in brought] == gpus
        np.testing.assert_array_equal(fetched(columns, brought), column)
        rows = random.integers(0, max(count, 1), 3000 if count else 0)
        for kind in (np.uint32, np.int64):
            taken = columns.take(brought, columns.bring(rows.astype(kind)))
            np.testing.assert_array_equal(fetched(columns, taken), column[rows])


@pytest.mark.parametrize("machine", ["dgx-a100", pytest.param("local", marks=pytest.mark.gpu)])
def test_much_and_little_is_fetched(machine: str) -> None:
    columns = JoinableColumns(execution(machine, [0]))
    several = [np.arange(count) for count in (0, 1, 1000, 1 << 17, (1 << 17) + 1, 400_000)]
    for column in several:
        np.testing.assert_array_equal(fetched(columns, columns.bring(column)), column)
    for column, found in zip(several, columns.fetch([columns.bring(column) for column in several]), strict=True):
        np.testing.assert_array_equal(found, column)
    assert columns.fetch([]) == []


@pytest.mark.parametrize("machine", ["dgx-a100", pytest.param("local", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", ["u1", "i4", "u8"])
def test_rows_of_a_column_that_stays_in_host_memory(machine: str, dtype: str) -> None:
    """The GPUs read what they need of it, if it is page-locked."""
    gpus = [0] if machine == "local" else [2, 0, 1]
    columns = JoinableColumns(execution(machine, gpus))
    random = np.random.default_rng(6)
    for count, wanted in ((1, 5), (40_000, 0), (40_000, 3000)):
        column = random.integers(0, 100, count).astype(dtype)
        rows = random.integers(0, count, wanted).astype(np.uint32)
        pinned = linkwise.empty(count, column.dtype)
        pinned[:] = column
        on_gpus = columns.bring(rows)
        assert columns.take_from_host(column, on_gpus) is None
        taken = columns.take_from_host(pinned, on_gpus)
        assert taken is not None and [len(part) for part in taken] == [len(part) for part in on_gpus]
        np.testing.assert_array_equal(fetched(columns, taken), column[rows])


def test_row_numbers_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the GPUs, or in host memory where these have no room."""
    columns = JoinableColumns(execution(gpus=[0, 1, 2]))
    rows, places = np.arange(100, 50, -1), np.arange(0, 50, 3)
    numbers = [RowNumbers(columns, columns.bring(each)) for each in (rows, places)]
    assert (numbers[0].at(numbers[1]).host == rows[places]).all()

    def full(*_: Any) -> None:
        raise OutOfMemoryError("GPU 0 is full")

    with monkeypatch.context() as patched:
        patched.setattr(JoinableColumns, "take", full)
        found = numbers[0].at(numbers[1])
    assert (found.host == rows[places]).all() and (columns.fetch([found.brought()])[0] == rows[places]).all()


@pytest.mark.parametrize("gpus", [[0], [0, 1, 2], list(range(8))])
def test_row_numbers_of_a_join(gpus: list[int]) -> None:
    random = np.random.default_rng(1)
    left, right = random.integers(0, 500, 3000), random.integers(200, 900, 5000)
    columns = JoinableColumns(execution(gpus=gpus))
    found = columns.fetch(columns.matches(columns.bring(left), columns.bring(right), "inner", None))
    assert {rows.dtype for rows in found} == {np.dtype(np.uint32)}
    expected = [(a, b) for a, key in enumerate(left) for b in np.flatnonzero(right == key)]
    assert sorted(zip(*found, strict=True)) == expected


def check_packing(columns: JoinableColumns, sides: list[list[np.ndarray]]) -> None:
    """Keys are equal where all columns are, and in their order; nothing is packed that needs more than 64 bits."""
    numbers = [left.tolist() + right.tolist() for left, right in zip(*sides, strict=True)]
    bits = sum((max(column) - min(column)).bit_length() for column in numbers if column)
    packed = columns.pack(*([columns.bring(column) for column in side] for side in sides))
    assert (packed is None) == (bits > 64)
    if packed is None:
        return
    rows = [row for side in sides for row in zip(*(column.tolist() for column in side), strict=True)]
    keys = np.concatenate(columns.fetch(packed)).tolist()
    assert all(key.bit_length() <= bits for key in keys)
    in_order = sorted(zip(rows, keys, strict=True))
    for (row, key), (next_row, next_key) in zip(in_order, in_order[1:], strict=False):
        assert (row == next_row) == (key == next_key) and key <= next_key


@st.composite
def sides_of_integers(draw: st.DrawFn) -> list[list[np.ndarray]]:
    """Columns of both sides, of which some lie close together, and some anywhere."""
    lengths, sides = [draw(st.integers(0, 30)) for _ in range(2)], [[], []]
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    for _ in range(draw(st.integers(1, 3))):
        letter, bits = draw(st.sampled_from("iu")), draw(st.sampled_from([0, 1, 9, 20, 31, 44, 63]))
        at = draw(st.sampled_from([0, -(1 << 31) if letter == "i" else 1 << 20, (1 << 31) - 1 - (1 << 20)]))
        for side, length in zip(sides, lengths, strict=True):
            kind = np.dtype(f"{letter}{draw(st.sampled_from([4, 8])) if bits <= 20 else 8}")
            side.append((random.integers(0, 1 << bits, length) + at).astype(kind))
    return sides


@given(sides=sides_of_integers(), gpus=st.sampled_from([[0], [2, 1, 0], list(range(8))]))
def test_several_integers_are_one_key(sides: list[list[np.ndarray]], gpus: list[int]) -> None:
    check_packing(JoinableColumns(execution(gpus=gpus)), sides)


def test_extreme_integers_are_one_key() -> None:
    columns = JoinableColumns(execution(gpus=[1, 0]))
    wide = np.array([np.iinfo(np.int64).min, -1, np.iinfo(np.int64).max])
    check_packing(columns, [[wide], [wide[:1]]])
    check_packing(columns, [[np.zeros(3, np.int32), wide], [np.zeros(1, np.int64), wide[:1]]])
    check_packing(columns, [[wide, np.arange(3)], [wide[:1], np.arange(1)]])
    most = np.array([np.iinfo(np.uint64).max], np.uint64)
    check_packing(columns, [[most, most], [most, most - most.dtype.type(1)]])


@pytest.mark.gpu
def test_several_integers_are_one_key_on_gpus() -> None:
    gpus = list(range(cuda_runtime().machine.num_gpus))
    random = np.random.default_rng(5)
    for count in (0, 1, 1000, 20_001):
        sides = [
            [random.integers(-4, 9, n).astype(np.int32), random.integers(0, 1 << 40, n), random.integers(-9, 0, n)]
            for n in (count, count // 2)
        ]
        check_packing(JoinableColumns(execution("local", gpus)), sides)


def test_what_cannot_be_packed() -> None:
    columns = JoinableColumns(execution(gpus=[0, 1]))
    numbers = columns.bring(np.arange(10))
    for left, right, why in (
        ([numbers], [], "as many columns"),
        ([numbers], [numbers, numbers], "as many columns"),
        ([columns.bring(np.zeros(10, np.float32))], [numbers], "are integers"),
        ([columns.bring(np.zeros(10, np.int16))], [numbers], "4 or 8 bytes"),
        ([numbers], [columns.bring(np.zeros(10, np.uint64))], "are signed"),
        ([numbers, columns.bring(np.arange(12))], [numbers, numbers], "differ in length"),
        ([numbers[::-1]], [numbers], "does not lie on the GPU"),
    ):
        with pytest.raises(UsageError, match=why):
            columns.pack(left, right)


def test_an_array_must_be_where_it_is_said_to_be() -> None:
    columns, other = JoinableColumns(execution(gpus=[0, 1])), JoinableColumns(execution(gpus=[0, 1]))
    column = columns.bring(np.arange(10))
    for wrong, why in ((column[::-1], "does not lie on the GPU"), (other.bring(np.arange(10)), "another runtime")):
        with pytest.raises(UsageError, match=why):
            columns.take(wrong, column)
    with pytest.raises(UsageError, match="another runtime"):
        columns.fetch([other.bring(np.arange(10))])
    with pytest.raises(UsageError, match="for each GPU"):
        columns.take(column[:1], column)


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_chains_have_the_same_rows_everywhere(data: st.DataObject) -> None:
    """Two to four tables, each joined with all that came before by a column of any of them."""
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    keys = data.draw(st.integers(1, 60))
    most = 80 if keys > 20 else 15  # rows: of few keys, four tables have the product of theirs
    tables = []
    for number in range(data.draw(st.integers(2, 4))):
        count = data.draw(st.integers(0, most))
        mask = random.random(count) < data.draw(st.sampled_from([0.0, 0.0, 0.2]))
        tables.append(
            pa.table(
                {
                    f"key{number}": pa.array(random.integers(0, keys, count), mask=mask),
                    f"next{number}": random.integers(0, keys, count),
                    f"text{number}": [f"{number}:{row}" for row in range(count)],
                }
            )
        )
    names = [
        data.draw(st.sampled_from([f"{column}{before}" for before in range(number) for column in ("key", "next")]))
        for number in range(1, len(tables))
    ]

    def chain(how: ExecutionOptions) -> pa.Table:
        joiner = Joiner(how)
        joined: Any = tables[0]
        dropped: dict[str, str] = {}  # right keys, which are the left ones
        for number, name in enumerate(names, start=1):
            while name in dropped:
                name = dropped[name]  # noqa: PLW2901 - the column that stands for it
            joined = joiner.join(joined, tables[number], (name, f"key{number}"))
            dropped[f"key{number}"] = name
        return joiner.table(joined)

    expected = rows_of(chain(on_cores()))
    for gpus in ([0], [2, 1, 0], "auto"):
        assert rows_of(chain(execution(gpus=gpus))) == expected


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_keys_of_several_columns(data: st.DataObject) -> None:
    """Packed into one key where they fit, and otherwise by hashes; by columns of any side, in any order."""
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    spread = data.draw(st.sampled_from([1, 1, 1 << 40]))  # so that two columns do not fit
    first, second, third = (data.draw(st.integers(0, 40)) for _ in range(3))

    def numbers(count: int, kind: type) -> np.ndarray:
        return (random.integers(-3, 4, count) * (spread if kind is np.int64 else 1)).astype(kind)

    kind = data.draw(st.sampled_from([np.int32, np.int64])) if spread == 1 else np.int64
    left = pa.table({"a": numbers(first, kind), "b": numbers(first, np.int64), "c": np.arange(first)})
    right = pa.table({"d": numbers(second, kind), "e": numbers(second, np.int64), "f": np.arange(second)})
    last = pa.table({"g": numbers(third, kind), "h": numbers(third, np.int64), "i": np.arange(third)})
    on = list(zip(data.draw(st.permutations("abcf"))[:2], "gh", strict=True))
    worth_bringing = data.draw(
        st.sampled_from([1, 16])
    )  # with 1, a column is gathered if any of its rows is not wanted

    def chain(how: ExecutionOptions) -> pa.Table:
        joiner = Joiner(how)
        with patch("linkwise.joining.device.brought_columns.WORTH_BRINGING", worth_bringing):
            return joiner.table(joiner.join(joiner.join(left, right, ("a", "d"), ("b", "e")), last, *on))

    expected = rows_of(chain(on_cores()))
    for gpus in ([0], [2, 1, 0], "auto"):
        assert rows_of(chain(execution(gpus=gpus))) == expected


@pytest.mark.parametrize("is_pinned", [False, True])
@pytest.mark.parametrize("names", [("p", "s"), ("s", "p"), ("q", "p"), ("s", "q")])
def test_keys_of_which_few_rows_are_left(
    names: tuple[str, str], is_pinned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read where they are, or gathered, and each is compared with its own, whichever side it comes from."""
    taken = []
    take = JoinableColumns.take_from_host
    monkeypatch.setattr(JoinableColumns, "take_from_host", lambda self, *of: taken.append(take(self, *of)) or taken[-1])
    random = np.random.default_rng(3)
    left = pa.table({"p": np.arange(2000), "q": random.integers(0, 50, 2000)})
    right = pa.table({"r": random.integers(0, 40_000, 2000), "s": random.integers(0, 50, 2000)})
    last = pa.table({"t": random.integers(0, 50, 3000), "u": random.integers(0, 50, 3000)})
    if is_pinned:
        left, right = page_locked(left), page_locked(right)

    def chain(how: ExecutionOptions) -> pa.Table:
        joiner = Joiner(how)
        few = joiner.join(left, right, ("p", "r"))
        return joiner.table(joiner.join(last, few, *zip("tu", names, strict=True)))

    expected = rows_of(chain(on_cores()))
    assert len(expected) > 0
    assert rows_of(chain(execution())) == expected
    assert taken and all((parts is not None) == is_pinned for parts in taken)


def test_keys_stay_on_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the keys in between, nothing goes through host memory."""
    random = np.random.default_rng(3)
    tables = [
        pa.table({f"k{n}": random.integers(0, 3000, 3000), f"n{n}": random.integers(0, 3000, 3000)}) for n in range(3)
    ]
    brought = []
    bring = JoinableColumns.bring_values

    def noted(self: JoinableColumns, column: pa.ChunkedArray, nulls: Any) -> Any:
        brought.append(len(column))
        return bring(self, column, nulls)

    monkeypatch.setattr(JoinableColumns, "bring_values", noted)
    joiner = Joiner(execution())
    joined = joiner.join(joiner.join(tables[0], tables[1], ("n0", "k1")), tables[2], ("n1", "k2"))
    assert brought == [3000] * 4  # n0, k1, n1, k2: whole columns of the tables
    in_memory = Joiner(on_cores())
    same = in_memory.join(in_memory.join(tables[0], tables[1], ("n0", "k1")), tables[2], ("n1", "k2"))
    assert rows_of(joiner.table(joined)) == rows_of(in_memory.table(same))
    assert min(joiner.shares.join, joiner.shares.materialise) > 0


def test_gpus_that_cannot_read_each_other() -> None:
    joiner = Joiner(execution("delta-d22x"))
    left, right = pa.table({"k": [1, 2, 2]}), pa.table({"l": [2, 3]})
    assert len(joiner.join(left, right, ("k", "l"))) == 2
    assert not JoinableColumns(execution("dgx-a100", strategy="cpu")).can_join(100, 100)


@pytest.mark.gpu
def test_on_gpus() -> None:
    gpus = list(range(cuda_runtime().machine.num_gpus))
    random = np.random.default_rng(4)
    count = 300_000
    tables = [
        pa.table({f"k{n}": random.integers(0, count, count), f"n{n}": random.integers(0, count, count)})
        for n in range(4)
    ]

    def chain(how: ExecutionOptions) -> pa.Table:
        joiner = Joiner(how)
        joined: Any = tables[0]
        for n in range(1, 4):
            joined = joiner.join(joined, tables[n], (f"n{n - 1}", f"k{n}"))
        return joiner.table(joined)

    expected = rows_of(chain(on_cores()))
    for chosen in ("auto", gpus[:1], gpus[::-1]):
        assert rows_of(chain(execution("local", chosen))) == expected
