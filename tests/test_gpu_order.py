"""Orders of tables by strings, found on GPUs: against the cores, on simulated machines and on real GPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkwise
from columns import cut
from linkwise.columns.sort_keys import sort_keys_of
from linkwise.runtime.execution import ExecutionOptions
from linkwise.sorting.device import gpu_order
from linkwise.sorting.device.gpu_order import order_on_gpus
from linkwise.sorting.row_keys import RowKeys

MACHINE = "dgx-a100"
KINDS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
# Ends of words of seven bytes, bytes of zero, and bytes that are negative as signed ones.
LETTERS = st.sampled_from(["", "\0", "a", "b", "ab", "abcdefg", "abcdefgh", "\u00ff", "abcdefg" * 3])
TEXTS = st.lists(LETTERS, max_size=4).map("".join)


@pytest.fixture(autouse=True)
def few_rows_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_order, "_LEAST_ROWS", 0)


def options_of(gpus: int) -> ExecutionOptions:
    """On a simulated machine, or on as many real GPUs for a negative number."""
    if gpus > 0:
        return ExecutionOptions(machine=MACHINE, gpus=list(range(gpus)))
    return ExecutionOptions(machine="local", gpus=list(range(-gpus)))


@st.composite
def key_columns(draw: Any) -> list[pa.ChunkedArray]:
    """One to three columns of equally many rows, at least one of strings, some with nulls, cut into chunks."""
    rows = draw(st.integers(1, 30))
    kinds = draw(st.permutations([draw(st.sampled_from(KINDS)), *draw(st.lists(st.sampled_from(
        [*KINDS, pa.int64(), pa.float32(), pa.bool_(), pa.timestamp("ns")]), max_size=2))]))  # fmt: skip
    columns = []
    for kind in kinds:
        values = TEXTS if kind in KINDS else st.integers(-2, 2)
        few = draw(st.lists(values, min_size=1, max_size=6))
        drawn = draw(st.lists(st.sampled_from([*few, None] if draw(st.booleans()) else few),
                              min_size=rows, max_size=rows))  # fmt: skip
        prefix = draw(st.sampled_from(["", "common to all "]))
        if kind in KINDS:
            drawn = [None if text is None else (prefix + text).encode() for text in drawn]
            array = pa.array(drawn, pa.binary()).cast(kind)
        else:
            array = pa.array(drawn, pa.int8()).cast(pa.int64()).cast(kind)
        columns.append(cut(array, draw(st.lists(st.integers(0, rows), max_size=2))))
    return columns


def check_order(data: Any, gpus: int) -> None:
    columns = data.draw(key_columns())
    table = pa.table(columns, [f"c{number}" for number in range(len(columns))])
    descending, first = ([data.draw(st.booleans()) for _ in columns] for _ in range(2))
    found = order_on_gpus(columns, descending, first, options_of(gpus))
    assert found is not None
    keys = sort_keys_of(table.column_names, table.column_names, descending, ["first" if at else "last" for at in first])
    expected, _ = RowKeys(table, keys).order(ExecutionOptions(strategy="cpu"))
    assert found[0].tolist() == expected.tolist()
    assert found[1].rows == table.num_rows and found[1].verified and found[1].phases


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 3))
def test_order(data: Any, gpus: int) -> None:
    check_order(data, gpus)


@pytest.mark.gpu
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_order_on_real_gpus(data: Any) -> None:
    check_order(data, -1)


def text_table(rows: int) -> pa.Table:
    random = np.random.default_rng(rows)
    names = pa.array([f"name {at:x}" * (at % 4) for at in range(300)]).take(pa.array(random.integers(0, 300, rows)))
    return pa.table({"name": names, "row": np.arange(rows), "at": random.integers(0, 5, rows)})


def test_public_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorts, row numbers, distinct keys and reports, all of which go through the order that GPUs find."""
    orders: list[Any] = []
    monkeypatch.setattr(
        "linkwise.sorting.device.gpu_order.order_on_gpus",
        lambda *given: orders.append(order_on_gpus(*given)) or orders[-1],
    )
    table, by = text_table(2000), {"by": ["name", "at"], "descending": [True, False]}
    for call in (linkwise.sort, linkwise.sort_indices, linkwise.unique):
        found, expected = call(table, **by, machine=MACHINE), call(table, **by, strategy="cpu")
        assert np.array_equal(found, expected) if call is linkwise.sort_indices else found.equals(expected)
    assert sum(order is not None for order in orders) == 3
    fractions: list[float] = []
    _, report = linkwise.sorting.api.sort_and_report(table, **by, machine=MACHINE, on_progress=fractions.append)
    assert fractions == sorted(fractions) and fractions[-1] == 1.0
    assert report.gpus and report.simulated and report.strategy == "radix"
    assert {"HtoD", "encode", "sort", "DtoH"} <= report.phases.keys()


@pytest.mark.parametrize(
    "given",
    [{"strategy": "cpu"}, {"strategy": "het"}, {"memory_limit": "1MiB"}],
)
def test_left_to_the_cores(given: dict[str, Any]) -> None:
    """Where the options do not leave it to the GPUs, or they have not enough memory."""
    table = text_table(20_000)
    options = ExecutionOptions(**({"machine": MACHINE} if given != {"strategy": "cpu"} else {}), **given)
    assert order_on_gpus([table["name"]], [False], [False], options) is None


def test_long_strings() -> None:
    """A few among others are sorted there."""
    some = pa.chunked_array([["x" * length for length in (500, *range(100), 9000)]])
    found = order_on_gpus([some], [False], [False], options_of(1))
    assert found is not None and found[0].tolist() == [*range(1, 101), 0, 101]
    long = pa.chunked_array([["x" * length for length in (500, 1, 9000)]])
    assert order_on_gpus([long], [False], [False], options_of(1)) is None


def test_on_the_command_line(tmp_path: Path) -> None:
    """Which does without pandas; PyArrow loads it on many occasions."""
    table = text_table(500)
    pq.write_table(table, tmp_path / "in.parquet")
    program = (
        "from linkwise.cli.main import main; from linkwise.sorting.device import gpu_order; "
        "gpu_order._LEAST_ROWS = 0; main()"
    )
    files = [str(tmp_path / "in.parquet"), "-o", str(tmp_path / "out.parquet")]
    asked = ["sort", *files, "-k", "name", "-k", "at", "--machine", MACHINE, "--json"]
    done = subprocess.run([sys.executable, "-c", program, *asked], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "encode" in json.loads(done.stdout)["seconds"]["phases"]
    assert pq.read_table(tmp_path / "out.parquet").equals(linkwise.sort(table, by=["name", "at"], strategy="cpu"))
