"""Key columns of numbers, times and dictionaries of them, against Python's own sort."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkwise
from columns import KEY_TYPES, UNITS, column_of, decimals
from conftest import HAVE_GPU

NAMES = [
    "bool",
    "date32",
    "date64",
    "time32",
    "time64",
    *(f"{kind} {u}" for kind in ("timestamp", "duration") for u in UNITS),
]
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    **{name: KEY_TYPES[name] for name in NAMES},
    "timestamp with a zone": KEY_TYPES["timestamp with a zone"],
    "decimal": KEY_TYPES["decimal128"],
    "small decimal": (pa.decimal128(3, 0), decimals(3, 0)),
    "dictionary": KEY_TYPES["dictionary of integers"],
    "dictionary of dates": (
        pa.dictionary(pa.int32(), pa.date32()),
        st.sampled_from([datetime.date(2000, 1, day) for day in range(1, 31)]),
    ),
}


def expected(values: list[Any], descending: bool, nulls: str) -> list[int]:
    """Rows in order: Python's sort is stable, and its values compare as Arrow's do."""
    present = sorted(
        (row for row, value in enumerate(values) if value is not None), key=lambda row: values[row], reverse=False
    )
    if descending:  # stable as well: ties keep their order
        present = sorted(present, key=lambda row: values[row], reverse=True)
    missing = [row for row, value in enumerate(values) if value is None]
    return missing + present if nulls == "first" else present + missing


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_tables_by_a_column(name: str, data: st.DataObject) -> None:
    kind, values_of = TYPES[name]
    values = data.draw(st.lists(st.none() | values_of, max_size=60))
    descending, nulls = data.draw(st.booleans()), data.draw(st.sampled_from(["first", "last"]))
    cut = data.draw(st.integers(0, len(values)))
    whole_column = column_of(kind, values)
    key = pa.chunked_array([whole_column.slice(0, cut), whole_column.slice(cut)], type=kind)
    table = pa.table({"key": key, "row": list(range(len(values)))})
    machine = "auto" if HAVE_GPU else "delta-d22x"
    result = linkwise.sort(table, by="key", descending=descending, nulls=nulls, machine=machine)
    rows = expected(values, descending, nulls)
    assert result["row"].to_pylist() == rows
    assert result["key"].to_pylist() == table["key"].take(pa.array(rows, pa.int64())).to_pylist()
    assert result.schema == table.schema
    indices = linkwise.sort_indices(table, by="key", descending=descending, nulls=nulls, machine=machine)
    assert indices.tolist() == rows
    alone = linkwise.sort(table.select(["key"]), by="key", descending=descending, nulls=nulls, machine=machine)
    assert alone["key"].to_pylist() == result["key"].to_pylist()


@pytest.mark.parametrize("name", ["bool", "timestamp us", "decimal", "dictionary"])
def test_files_by_a_column(name: str, tmp_path: Path) -> None:
    """Through spilled runs, too."""
    kind, _ = TYPES[name]
    numbers = [(row * 7919) % 100 for row in range(5000)]
    made = {
        "bool": lambda n: n > 50,
        "timestamp us": lambda n: datetime.datetime(2000, 1, 1) + datetime.timedelta(n),
        "decimal": lambda n: decimal.Decimal(n).scaleb(-4),
        "dictionary": lambda n: n,
    }[name]
    values = [made(n) for n in numbers]
    table = pa.table({"key": column_of(kind, values), "row": list(range(5000))})
    pq.write_table(table, tmp_path / "in.parquet")
    for memory in (None, "200KiB"):
        linkwise.sort_file(
            tmp_path / "in.parquet", tmp_path / "out.parquet", by="key", host_memory_limit=memory, machine="dgx-a100"
        )
        result = pq.read_table(tmp_path / "out.parquet")
        assert result["row"].to_pylist() == expected(values, False, "last")
        assert result["key"].to_pylist() == [values[row] for row in result["row"].to_pylist()]


@pytest.mark.parametrize("dtype", ["?", "M8[ns]", "M8[D]", "m8[s]", ">M8[us]"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_arrays(dtype: str, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=60))  # the least of them is NaT
    integers = np.array(numbers, np.int64)
    values = integers % 2 == 0 if dtype == "?" else integers.view(np.dtype(dtype).newbyteorder("=")).astype(dtype)
    machine = "auto" if HAVE_GPU else "delta-d22x"
    result = linkwise.sort(values, machine=machine)
    assert result.dtype == values.dtype
    np.testing.assert_array_equal(result, np.sort(values))
    np.testing.assert_array_equal(linkwise.sort(values, machine=machine, descending=True), np.sort(values)[::-1])
    np.testing.assert_array_equal(linkwise.sort_indices(values, machine=machine), np.argsort(values, kind="stable"))
    out = linkwise.empty(len(values), result.dtype)
    assert linkwise.sort(values, out=out, machine=machine) is out
    np.testing.assert_array_equal(out, result)


def test_what_cannot_be_a_key_says_what_can() -> None:
    table = pa.table(
        {"pair": pa.array([[1, 2], [0, 1]]), "span": pa.array([(1, 2, 3)] * 2, pa.month_day_nano_interval())}
    )
    for column in table.column_names:
        with pytest.raises(
            linkwise.UsageError, match=f"column '{column}' of type .* cannot be a key; .* strings, bytes"
        ):
            linkwise.sort(table, by=column)
