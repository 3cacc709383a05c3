"""Frames and series of cuDF; without a GPU, a stand-in for the few methods of theirs that are called."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import linkwise
from linkwise import GpuTable, UsageError
from linkwise.joining.matching import How
from test_gpu_strings import as_table, some_table

MACHINE = "h200x8"


class _Iloc:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def __getitem__(self, at: tuple[slice, int]) -> Series:
        return self._frame[self._frame.columns[at[1]]]


class _Rows:
    """What both have: an index, and rows that are taken by their numbers."""

    def __init__(self, held: Any, index: Any = None) -> None:
        self.held, self.index = held, np.arange(len(held)) if index is None else index
        self.iloc = _Iloc(self)  # type: ignore[arg-type]

    def take(self, rows: Any) -> Self:
        """Rows, with their labels."""
        numbers = np.asarray(rows.numpy() if hasattr(rows, "numpy") else rows).astype(np.int64)
        return type(self)(self.held.take(pa.array(numbers)), self.index[numbers])


class Series(_Rows):
    """Stands for ``cudf.Series``."""

    ndim = 1

    @property
    def dtype(self) -> Any:
        """NumPy's, or one that is not."""
        kind = self.held.type
        if pa.types.is_dictionary(kind) or pa.types.is_decimal(kind):
            return "category"
        return "str" if pa.types.is_string(kind) else np.dtype(kind.to_pandas_dtype())

    def to_arrow(self) -> pa.Array:
        """In host memory."""
        return self.held

    def to_pylibcudf(self) -> tuple[Any, dict[str, Any]]:
        """Of a host's column, which stands for one on a GPU."""
        return self.held, {}


class Frame(_Rows):
    """Stands for ``cudf.DataFrame``."""

    ndim = 2

    def __init__(self, held: pa.Table, index: Any = None, labels: list[Any] | None = None) -> None:
        super().__init__(held, index)
        self.columns = labels or held.column_names

    def __getitem__(self, label: Any) -> Series:
        return Series(self.held.column(self.columns.index(label)).combine_chunks(), self.index)

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Self:
        """From host memory."""
        return cls(table)

    @classmethod
    def from_pylibcudf(cls, table: pa.Table, metadata: dict[str, Any]) -> Self:
        """From columns there."""
        return cls(table, labels=metadata["columns"])


Series.__module__ = Frame.__module__ = "cudf.core.frames"


@pytest.fixture(autouse=True)
def pylibcudf(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Where there is no GPU, tables of pylibcudf that are made from our columns."""
    if not request.node.get_closest_marker("gpu"):
        module = ModuleType("pylibcudf")
        module.Table = type("Table", (), {"from_arrow": staticmethod(as_table)})  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pylibcudf", module)
    yield


@pytest.fixture
def only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is copied to host memory."""
    monkeypatch.delattr(Series, "to_arrow")


def test_sorted_with_its_index(only_there: None) -> None:
    """The frame takes the rows, so that its index and columns of other types go with them."""
    table = some_table(3000, 1).append_column("words", pa.array([["a", str(n)] for n in range(3000)]))
    found = linkwise.sort(Frame(table), by=["name", "at"], descending=[False, True], machine=MACHINE)
    expected = linkwise.sort(table, by=["name", "at"], descending=[False, True], strategy="cpu")
    assert found.held.equals(expected) and (found.index == expected["row"].to_numpy()).all()
    of_series = linkwise.sort(Series(table["name"].combine_chunks()), descending=True, machine=MACHINE)
    assert of_series.held.equals(linkwise.sort(table["name"].combine_chunks(), descending=True, strategy="cpu"))


def test_what_goes_through_host_memory() -> None:
    """Keys of types that the GPUs do not compare, and calls that they do not take."""
    table = some_table(500, 2)
    frame = Frame(table.set_column(0, "name", table["name"].combine_chunks().dictionary_encode()))
    expected = linkwise.sort(frame.held, by=["name", "row"], strategy="cpu")
    assert linkwise.sort(frame, by=["name", "row"], machine=MACHINE).held.equals(expected)
    assert linkwise.top_k(frame, 3, by="row").held["row"].to_pylist() == [499, 498, 497]
    assert len(linkwise.unique(Frame(table), by="name").held) == len(set(table["name"].to_pylist()))
    assert linkwise.sort_and_report(Frame(table), by="row", strategy="cpu")[0].held.equals(table)
    assert (linkwise.sort_indices(Frame(table), by="row", strategy="cpu") == np.arange(500)).all()
    other = Frame(table.select(["row", "is"]), labels=["row", 7])
    joined = linkwise.join(frame, other, on="row", order="left")
    assert isinstance(joined, Frame) and joined.held["name"].cast("string").equals(table["name"])
    assert joined.columns == ["name", "at", "day", "is", "row", 7]
    joined = linkwise.join(Frame(table), Frame(table.select(["row"])), on="row", order="left", validate="1:1")
    assert isinstance(joined, Frame) and joined.held.equals(table)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_joined(how: How, only_there: None) -> None:
    """A frame comes back, with the labels of both."""
    left, right = some_table(400, 3), some_table(300, 4).select(["name", "row"]).slice(0, 40)
    right = right.rename_columns(["name", "7"])
    labelled = Frame(right, labels=["name", 7])
    found = linkwise.join(Frame(left), labelled, on="name", how=how, order="left", machine=MACHINE)
    expected = linkwise.join(left, right, on="name", how=how, order="left", strategy="cpu")
    assert isinstance(found, Frame)
    assert found.held.equals(expected)
    assert found.columns == [7 if name == "7" else name for name in expected.column_names]
    by_number = linkwise.join(labelled, labelled, on=7, how=how, order="left", machine=MACHINE)
    assert by_number.held.equals(linkwise.join(right, right, on="7", how=how, order="left", strategy="cpu"))
    there = GpuTable(labelled, machine=MACHINE)
    assert there.column_names == ["name", "7"] and there.to_arrow().equals(right)


def test_what_is_refused() -> None:
    """One clear line each."""
    frame = Frame(some_table(10, 5))
    with pytest.raises(UsageError, match="by= must name a column: 'name', 'at'"):
        linkwise.sort(frame, machine=MACHINE)
    with pytest.raises(UsageError, match="there is no column 'other'"):
        linkwise.sort(frame, by="other", machine=MACHINE)
    alike = Frame(pa.table({"1": [1], "one": [1]}), labels=[1, "1"])
    with pytest.raises(UsageError, match="labels read alike; rename"):
        linkwise.join(alike, alike, on="1", machine=MACHINE)
    with pytest.raises(UsageError, match="without a report; call sort"):
        linkwise.sort_and_report({"a": [np.arange(5)]}, by="a", machine=MACHINE)


@pytest.mark.gpu
def test_cudf() -> None:
    """The library itself."""
    cudf = pytest.importorskip("cudf")
    table = some_table(5000, 6)
    frame = cudf.DataFrame.from_arrow(table)
    found = linkwise.sort(frame, by=["name", "at"], descending=[False, True])
    expected = linkwise.sort(table, by=["name", "at"], descending=[False, True], strategy="cpu")
    assert isinstance(found, cudf.DataFrame)
    assert found.to_arrow(preserve_index=False).cast(table.schema).equals(expected)
    assert found.index.to_arrow().equals(expected["row"].combine_chunks())
    series = linkwise.sort(frame["row"], descending=True)
    assert isinstance(series, cudf.Series) and series.to_arrow().to_pylist() == list(range(4999, -1, -1))
    frame["kind"] = frame["name"].astype("category")
    by_kind = linkwise.sort(frame, by=["kind", "row"])
    assert by_kind["kind"].dtype == frame["kind"].dtype
    assert by_kind["row"].to_arrow().equals(linkwise.sort(table, by=["name", "row"])["row"].combine_chunks())
    other = cudf.DataFrame({"row": np.arange(0, 9000, 3), 7: np.arange(3000) * 1.5})
    for left in (cudf.DataFrame.from_arrow(table), frame):  # the second goes through host memory
        joined = linkwise.join(left, other, on="row", how="left", order="left")
        assert isinstance(joined, cudf.DataFrame) and list(joined.columns) == [*left.columns, 7]
        assert joined["at"].dtype == frame["at"].dtype
        of_pandas = pd.Series(np.arange(5000)).map(dict(zip(range(0, 9000, 3), np.arange(3000) * 1.5, strict=True)))
        assert joined[7].to_pandas().equals(of_pandas.rename(7))
