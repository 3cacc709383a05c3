"""Long strings on the GPUs: their first words are sorted by, and the rest of those that are still tied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import linkwise
from linkwise import GpuTable
from linkwise.joining.device import gpu_table
from linkwise.joining.matching import How, Order
from linkwise.sorting.device import text_keys
from linkwise.sorting.device.device_columns import GpuColumns
from test_gpu_strings import as_table, shares

MACHINE = "h200x8"


@pytest.fixture(autouse=True)
def thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few strings and few words are many."""
    monkeypatch.setattr(text_keys, "FEW_WORDS", 1)
    monkeypatch.setattr(gpu_table, "FEW_WORDS", 1)
    monkeypatch.setattr(text_keys, "_SAMPLING_SECONDS", 0)
    monkeypatch.setattr(text_keys, "_RANKING", 0)
    monkeypatch.setattr(text_keys, "_SAMPLE", 64)


@pytest.fixture
def ranked(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often strings were ranked, and some of them were tied."""
    calls = []
    refined = GpuColumns.refined

    def counted(self: GpuColumns, *arguments: Any) -> Any:
        calls.append(None)
        return refined(self, *arguments)

    monkeypatch.setattr(GpuColumns, "refined", counted)
    return lambda: len(calls)


def long_names(rows: int, seed: int) -> pa.Array:
    """Of which some begin alike for long, some are prefixes of others or end where a word does; and nulls."""
    random = np.random.default_rng(seed)
    beginnings = ["", "a", "https://example.org/", "https://example.org/a/long/path/of/a/page/"]
    ends = ["", "\0", "x" * 7, "x" * 14, "y" * 60, "é" * 30]
    made = [
        None
        if random.random() < 0.1
        else beginnings[random.integers(4)]
        + str(random.integers(10 ** random.integers(1, 9)))
        + ends[random.integers(6)]
        for _ in range(rows)
    ]
    return pa.array(made, pa.string())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("gpus", [[0], [0, 1, 2]])
def test_sorted(seed: int, gpus: list[int], ranked: Callable[[], int]) -> None:
    """By long names and another column, either way, on one or several GPUs."""
    table = pa.table({"name": long_names(2000, seed), "n": np.arange(2000) % 7, "row": np.arange(2000)})
    for by, falls in ((["name"], False), (["name", "n"], [True, False]), (["n", "name"], [False, True])):
        columns = shares(table, [900, 900, 2000]) if len(gpus) > 1 else shares(table, [2000])
        found = linkwise.sort(columns, by=by, descending=falls, machine=MACHINE)
        assert as_table(found).equals(linkwise.sort(table, by=by, descending=falls, strategy="cpu"))
    assert ranked() > 0
    there = GpuTable(table, machine=MACHINE, gpus=gpus)
    assert there.sort("name").to_arrow().equals(linkwise.sort(table, by="name", strategy="cpu"))


@given(
    st.lists(
        st.binary(max_size=40).flatmap(lambda tail: st.sampled_from([tail, b"shared begin " * 3 + tail, tail * 3])),
        min_size=1, max_size=60,
    ),
    st.integers(0, 60),
)  # fmt: skip
@settings(deadline=None, max_examples=40)
def test_any_bytes(values: list[bytes], first_part: int) -> None:
    """The order is that of bytes, and stable."""
    table = pa.table({"value": pa.array(values, pa.binary()), "row": np.arange(len(values))})
    found = linkwise.sort(shares(table, [min(first_part, len(values)), len(values)]), by="value", machine=MACHINE)
    assert as_table(found)["row"].to_pylist() == sorted(range(len(values)), key=values.__getitem__)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("order", ["left", "key"])
def test_joined(how: How, order: Order) -> None:
    """By hashes, or by ranks where hashes do not do."""
    left = pa.table({"name": long_names(600, 1), "row": np.arange(600)})
    right = pa.table({"name": pa.concat_arrays([left["name"].chunk(0)[:150], long_names(200, 2)]), "n": np.arange(350)})
    expected = linkwise.join(left, right, on="name", how=how, order=order, strategy="cpu")
    if how in ("semi", "anti") and order == "key":  # of which linkwise.join keeps the order of the left side
        expected = linkwise.sort(expected, by=["name", "row"], strategy="cpu")
    for lefts, rights in ((left, right), (shares(left, [600, 600]), shares(right, [100, 350]))):
        tables = [GpuTable(each, machine=MACHINE, gpus=[0, 1]) for each in (lefts, rights)]
        found = tables[0].join(tables[1], "name", how=how, order=order).to_arrow()
        assert found.equals(expected)


def test_nulls_and_one_value() -> None:
    """All rows are equal, or null; nothing goes on after the words that were compared."""
    for values in ([None] * 50, ["x" * 100] * 50, ["x" * 100, None] * 25, [""] * 50):
        table = pa.table({"name": pa.array(values, pa.string()), "row": np.arange(50)})
        found = linkwise.sort(shares(table, [50]), by="name", machine=MACHINE)
        assert as_table(found).equals(linkwise.sort(table, by="name", strategy="cpu"))


def test_many_refinements(monkeypatch: pytest.MonkeyPatch, ranked: Callable[[], int]) -> None:
    """As often as it takes for long strings of which two each differ at their ends."""
    monkeypatch.setattr(text_keys, "_MOST_SAMPLED_WORDS", 1)
    values = [beginning + "x" * 3000 + end for beginning in "bacab" for end in "21"]
    table = pa.table({"name": values, "row": np.arange(10)})
    found = linkwise.sort(shares(table, [10]), by="name", machine=MACHINE)
    assert as_table(found)["row"].to_pylist() == sorted(range(10), key=values.__getitem__)
    assert ranked() > 400


@pytest.mark.parametrize("ends", [[20], [7, 20], [0, 3, 11, 20]])
def test_equal_to_their_ends(ends: list[int], ranked: Callable[[], int]) -> None:
    """Strings that are equal are found out at once; on several GPUs, but for those of which two have some."""
    values = [str(n % 10) + "x" * 400 for n in range(20)]
    values[3] += "!"
    table = pa.table({"name": values, "row": np.arange(20)})
    found = linkwise.sort(shares(table, ends), by="name", machine=MACHINE)
    assert as_table(found)["row"].to_pylist() == sorted(range(20), key=values.__getitem__)
    if len(ends) == 1:
        assert ranked() == 1  # for rows 3 and 13


def test_shares_tied() -> None:
    """What a sample says: values that all have, frequent ones, and many that are rare."""
    random = np.random.default_rng(0)

    def share(values: Any, rows: int, last: int = 8) -> float:
        words = values.astype(np.uint64) << np.uint64(8) | np.uint64(last)
        return next(text_keys._shares_tied([words], len(values), rows))

    assert share(np.zeros(1000), 10**6) == 1
    assert share(np.zeros(1000), 10**6, last=7) == 0  # they end
    assert share(np.where(np.arange(1000) < 100, 0, np.arange(1000)), 10**6) == pytest.approx(0.1)
    assert share(np.arange(1000), 10**6) == 0
    estimated = np.mean([share(random.integers(0, 10**7, 1 << 14), 10**6) for _ in range(20)])
    assert estimated == pytest.approx(0.1, abs=0.03)  # of 10^6 of 10^7 values, 1 - exp(-0.1) have others of their value


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [3000, 500_000])
def test_on_gpus(rows: int) -> None:
    """The same there."""
    names = long_names(3000, 5).take(pa.array(np.random.default_rng(1).integers(0, 3000, rows)))
    table = pa.table({"name": names, "row": np.arange(rows)})
    for descending in (False, True):
        expected = linkwise.sort(table, by="name", descending=descending, strategy="cpu")
        assert GpuTable(table).sort("name", descending=descending).to_arrow().equals(expected)
    other = GpuTable(pa.table({"name": long_names(500, 5)}))
    semi = GpuTable(table).join(other, "name", how="semi", order="left").to_arrow()
    assert semi.equals(linkwise.join(table, other.to_arrow(), on="name", how="semi", strategy="cpu"))
