"""linkwise.sort and its relatives, as a user calls them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkwise
from data import expected_order, keys
from linkwise.runtime.arguments import parse_bytes

ANY_DTYPE = [np.dtype(f"{kind}{size}") for kind in "ui" for size in (1, 2, 4, 8)] + [
    np.dtype(f"f{size}") for size in (2, 4, 8)
]


@pytest.mark.parametrize("dtype", ANY_DTYPE, ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_arrays_of_every_type(dtype: np.dtype[Any], descending: bool) -> None:
    data = keys("extremes", 3000, dtype)
    before = data.copy()
    result = linkwise.sort(data, descending=descending, machine="dgx-a100")
    assert result.dtype == dtype
    order = expected_order(data, descending)
    assert result.tobytes() == data[order].tobytes()
    assert (linkwise.sort_indices(data, descending=descending, machine="dgx-a100") == order).all()
    assert data.tobytes() == before.tobytes()


def test_finite_numbers_sort_as_numpy_sorts() -> None:
    for dtype in ANY_DTYPE:
        data = keys("uniform", 2000, dtype)
        assert (linkwise.sort(data) == np.sort(data)).all()


def test_the_documented_total_order() -> None:
    nan = np.float64("nan")
    values = np.array([nan, 1.0, np.inf, 0.0, -0.0, -np.inf, -nan, -1.0])
    result = linkwise.sort(values)
    assert str(result.tolist()) == "[-inf, -1.0, -0.0, 0.0, 1.0, inf, nan, nan]"
    assert not np.signbit(result[6]) and np.signbit(result[7])


def test_views_strides_and_byte_orders() -> None:
    data = keys("uniform", 3000, np.int32)
    assert (linkwise.sort(data[::3]) == np.sort(data[::3])).all()
    assert (linkwise.sort(data[::-1]) == np.sort(data)).all()
    swapped = data.astype(">i4")
    assert (linkwise.sort(swapped) == np.sort(data)).all()
    data.flags.writeable = False
    assert (linkwise.sort(data) == np.sort(data)).all()


@pytest.mark.parametrize("length", [0, 1, 2])
def test_tiny_inputs(length: int) -> None:
    data = np.arange(length, dtype=np.int64)[::-1].copy()
    assert linkwise.sort(data).tolist() == sorted(data.tolist())
    table = pa.table({"k": data, "v": ["x"] * length})
    assert linkwise.sort(table, by="k")["k"].to_pylist() == sorted(data.tolist())
    assert linkwise.sort_indices(data).dtype == np.int64


def test_out_takes_the_result() -> None:
    data = keys("uniform", 1000, np.uint32)
    out = linkwise.empty(1000, np.uint32)
    assert linkwise.sort(data, out=out) is out
    assert (out == np.sort(data)).all()
    for wrong, message in (
        (np.empty(999, np.uint32), "contiguous array of 1000 uint32"),
        (np.empty(1000, np.int32), "contiguous array of 1000 uint32"),
        (np.empty(2000, np.uint32)[::2], "contiguous"),
        (data, "shares memory"),
    ):
        with pytest.raises(linkwise.UsageError, match=message):
            linkwise.sort(data, out=wrong)


def test_empty_gives_usable_memory_that_outlives_its_views() -> None:
    block = linkwise.empty((3, 4), np.float32)
    assert block.shape == (3, 4) and block.dtype == np.float32 and block.flags.writeable
    row = block[1]
    row[:] = 7
    del block
    assert (row == 7).all()
    assert linkwise.empty(0).shape == (0,)
    with pytest.raises(linkwise.UsageError, match="negative"):
        linkwise.empty(-1)


def a_table(rows: int = 500) -> pa.Table:
    random = np.random.default_rng(0)
    numbers = random.integers(0, 40, rows).astype(np.int32)
    return pa.table(
        {
            "key": pa.array(numbers, mask=random.random(rows) < 0.1),
            "price": pa.array(random.normal(size=rows)),
            "name": pa.array([f"row {i}" for i in range(rows)], pa.string()),
            "list": pa.array([[i, i + 1] for i in range(rows)], pa.list_(pa.int64())),
        },
        metadata={"made by": "a test"},
    )


@pytest.mark.parametrize("by", ["key", "price"])
@pytest.mark.parametrize("nulls", ["first", "last"])
@pytest.mark.parametrize("descending", [False, True])
def test_tables_against_pyarrow(by: str, nulls: Any, descending: bool) -> None:
    table = a_table()
    order = "descending" if descending else "ascending"
    result = linkwise.sort(table, by=by, descending=descending, nulls=nulls)
    assert result.schema.equals(table.schema, check_metadata=True)
    stable = table.append_column("row", pa.array(range(table.num_rows)))
    expected = stable.take(
        pc.sort_indices(
            stable,
            sort_keys=[(by, order), ("row", "ascending")],
            null_placement=f"at_{'start' if nulls == 'first' else 'end'}",
        )
    )
    assert result.equals(expected.drop_columns(["row"]))
    indices = linkwise.sort_indices(table, by=by, descending=descending, nulls=nulls)
    assert indices.tolist() == expected["row"].to_pylist()


def test_tables_in_many_chunks_and_with_few_columns() -> None:
    table = pa.concat_tables([a_table(100), a_table(1), a_table(0), a_table(57)])
    assert linkwise.sort(table, by="price")["price"].to_pylist() == sorted(table["price"].to_pylist())
    alone = table.select(["price"])
    assert linkwise.sort(alone, by="price")["price"].to_pylist() == sorted(table["price"].to_pylist())
    only_nulls = pa.table({"k": pa.nulls(5, pa.int32()), "v": range(5)})
    assert linkwise.sort(only_nulls, by="k").equals(only_nulls)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.none() | st.integers(-5, 5), max_size=80),
    st.booleans(),
    st.sampled_from(["first", "last"]),
    st.sampled_from([pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]),
)
def test_any_small_table(values: list[int | None], descending: bool, nulls: Any, kind: pa.DataType) -> None:
    table = pa.table({"k": pa.array(values, kind), "row": pa.array(range(len(values)), pa.int64())})
    result = linkwise.sort(table, by="k", descending=descending, nulls=nulls, machine="ibm-ac922")
    valid = sorted((v, i) if not descending else (-v, i) for i, v in enumerate(values) if v is not None)
    missing = [i for i, v in enumerate(values) if v is None]
    rows = [i for _, i in valid]
    assert result["row"].to_pylist() == (rows + missing if nulls == "last" else missing + rows)


@pytest.mark.parametrize("strategy", ["radix", "p2p_merge", "het"])
def test_what_is_pinned_is_done(strategy: str) -> None:
    data = keys("uniform", 5000, np.uint32)
    result, report = linkwise.sort_and_report(data, machine="dgx-a100", gpus=[6, 0], strategy=strategy)
    assert (result == np.sort(data)).all()
    assert report.gpus == [6, 0] and report.strategy == strategy
    assert report.machine == "dgx-a100" and report.simulated and report.verified
    assert report.seconds == pytest.approx(sum(report.phases.values()))
    unverified = linkwise.sort_and_report(data, machine="dgx-a100", verify=False)[1]
    assert not unverified.verified and "verify" not in unverified.phases


def test_the_cpu_alone_simulates_nothing() -> None:
    data = keys("normal", 200_000, np.float32)
    result, report = linkwise.sort_and_report(data, strategy="cpu", descending=True)
    assert (result == np.sort(data)[::-1]).all()
    assert not report.simulated and report.verified and report.gpus == [] and report.seconds > 0
    table = pa.table({"k": pa.array(data), "row": pa.array(np.arange(len(data)))})
    by_column = linkwise.sort(table, by="k", strategy="cpu")
    assert by_column["row"].to_numpy().tolist() == np.argsort(data, kind="stable").tolist()
    _, simulated = linkwise.sort_and_report(data, strategy="cpu", machine="dgx-a100")
    assert simulated.simulated and simulated.strategy == "cpu"
    with pytest.raises(linkwise.UsageError, match="uses no GPUs"):
        linkwise.sort(data, strategy="cpu", gpus=[0])


def test_small_inputs_stay_on_the_cpu() -> None:
    _, report = linkwise.sort_and_report(keys("uniform", 1000, np.uint32), machine="dgx-a100")
    assert report.strategy == "cpu"


def test_a_memory_limit_sorts_in_rounds() -> None:
    data = keys("uniform", 3_000_000, np.uint32)
    result, report = linkwise.sort_and_report(
        data, machine="h200x8", gpus=[4, 5], strategy="radix", memory_limit="8MiB"
    )
    assert (result == np.sort(data)).all()
    assert "records at once" in str(report.plan) and "merge runs" in report.phases
    with pytest.raises(linkwise.OutOfMemoryError, match="memory_limit"):
        linkwise.sort(data, memory_limit="1KiB", machine="h200x8")


@pytest.mark.parametrize(
    ("text", "size"), [("4GiB", 4 << 30), ("512 MiB", 512 << 20), ("1.5k", 1536), ("77", 77), (9, 9), (None, 0)]
)
def test_sizes(text: Any, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t, a: linkwise.sort(t), linkwise.UsageError, "by= must name a column: 'key'"),
        (lambda t, a: linkwise.sort(t, by="none"), linkwise.UsageError, "no column 'none'; there are 'key'"),
        (
            lambda t, a: linkwise.sort(t, by="list"),
            linkwise.UsageError,
            "column 'list' of type list<.*> cannot be a key",
        ),
        (lambda t, a: linkwise.sort(t, by="key", out=a), linkwise.UsageError, "out= is for arrays"),
        (lambda t, a: linkwise.sort(t, by="key", nulls="middle"), linkwise.UsageError, "'first' or 'last'"),
        (lambda t, a: linkwise.sort(a, by="key"), linkwise.UsageError, "by= is for tables"),
        (lambda t, a: linkwise.sort(a.reshape(2, 2)), linkwise.UsageError, "one dimension, not 2"),
        (lambda t, a: linkwise.sort(a.astype(complex)), linkwise.UsageError, "complex128 cannot be sorted"),
        (
            lambda t, a: linkwise.sort([3, 1, 2]),
            linkwise.UsageError,
            "a list cannot be sorted or joined; make",
        ),
        (lambda t, a: linkwise.sort(a, gpus=[0, 99], machine="dgx-a100"), linkwise.UsageError, "no GPU 99"),
        (lambda t, a: linkwise.sort(a, gpus=[]), linkwise.UsageError, "gpus is empty"),
        (
            lambda t, a: linkwise.sort(a, strategy="bogo"),
            linkwise.UsageError,
            "no sort strategy 'bogo'; choose radix, p2p_merge, het, cpu",
        ),
        (lambda t, a: linkwise.sort(a, machine="enterprise"), linkwise.UsageError, "no machine 'enterprise'"),
        (lambda t, a: linkwise.sort(a, memory_limit="lots"), linkwise.UsageError, "'lots' is not a size"),
        (lambda t, a: linkwise.sort(a, memory_limit=-1), linkwise.UsageError, "must be positive"),
    ],
)
def test_wrong_calls_say_what_to_do(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(a_table(), np.arange(4))


def test_errors_are_what_python_people_catch() -> None:
    assert issubclass(linkwise.UsageError, ValueError)
    assert issubclass(linkwise.OutOfMemoryError, MemoryError)
    assert all(
        issubclass(e, linkwise.Error) for e in (linkwise.UsageError, linkwise.OutOfMemoryError, linkwise.DeviceError)
    )


def test_simulated_times_do_not_depend_on_the_run() -> None:
    data = keys("uniform", 20_000, np.uint32)
    reports = [linkwise.sort_and_report(data, machine="dgx-a100", gpus=range(8))[1] for _ in range(2)]
    first, second = ([(e.name, e.start_ps, e.end_ps) for e in report.timeline] for report in reports)
    assert first == second


def test_calls_from_several_threads() -> None:
    datasets = [keys("uniform", 50_000, np.uint32, seed) for seed in range(4)]
    results: list[Any] = [None] * 4

    def work(index: int) -> None:
        results[index] = linkwise.sort(datasets[index])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((result == np.sort(data)).all() for result, data in zip(results, datasets, strict=True))


def test_ctrl_c_in_the_middle_leaves_a_usable_process() -> None:
    program = """
import numpy as np, linkwise
from interrupted import interrupt_the_next_sort
data = np.random.default_rng(0).integers(0, 2**32, 1_000_000, dtype=np.uint32)
interrupt_the_next_sort()
try:
    linkwise.sort(data, machine="h200x8")
except KeyboardInterrupt:
    assert (linkwise.sort(data, machine="h200x8") == np.sort(data)).all()
    print("interrupted and usable")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=Path(__file__).parent,
    )
    assert done.stdout.strip() == "interrupted and usable", done.stderr


def test_without_gpus_the_cores_sort_and_machines_are_simulated_when_named() -> None:
    if linkwise.local_machine() is not None:
        pytest.skip("there are GPUs")
    values = np.arange(10)[::-1]
    result, report = linkwise.sort_and_report(values)
    assert result.tolist() == list(range(10)) and not report.simulated and report.machine == "cpu" and not report.gpus
    assert linkwise.sort_and_report(values, machine="h200x8")[1].simulated
    for wrong, named in (
        ({"strategy": "radix"}, "strategy 'radix'"),
        ({"gpus": [0, 1]}, r"gpus \[0, 1\]"),
        ({"plan": linkwise.SortPlan(buckets=5)}, "strategy 'radix'"),
    ):
        with pytest.raises(linkwise.UsageError, match=f"{named} takes GPUs, and .*; name a machine"):
            linkwise.sort(values, **wrong)
        with pytest.raises(linkwise.UsageError, match=f"{named} takes GPUs"):
            linkwise.sort(pa.table({"k": values}), by="k", **wrong)
    with pytest.raises(linkwise.DeviceError, match="no GPU to use"):
        linkwise.sort(values, machine="local")


def test_import_is_quick() -> None:
    times = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import linkwise"], check=True)
        times.append(time.perf_counter() - began)
    base = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    assert min(times) - (time.perf_counter() - base) < 0.5


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "?", ">i4", "M8[s]"])
def test_few_numbers_are_the_same_by_numpy_as_by_the_core(kind: str, descending: bool) -> None:
    random = np.random.default_rng(3)
    for rows in (0, 1, 2, 1000):
        values = random.integers(0, 1 << 63, rows, dtype=np.uint64).astype(kind)
        if values.dtype.kind == "f":  # of any bits, NaNs of all kinds among them
            values = random.integers(0, 256, rows * values.itemsize, dtype=np.uint8).view(kind)
        for data in (values, np.abs(values) if values.dtype.kind == "f" else values[::-1]):
            expected, _ = linkwise.sort_and_report(data, descending=descending)
            assert linkwise.sort(data, descending=descending).tobytes() == expected.tobytes()


def test_few_numbers_with_a_mask_are_refused_as_many_are() -> None:
    masked = np.ma.array([3, 1, 2], mask=[False, True, False])
    for sort in (linkwise.sort, linkwise.sort_and_report):
        with pytest.raises(linkwise.UsageError, match="whose mask would be lost"):
            sort(masked)


def test_zeros_and_nans_of_few_floats() -> None:
    for weird in (np.nan, -np.nan, np.inf, -np.inf):
        values = np.array([0.0, -0.0, weird, 1.0, -1.0, 0.0, -0.0, np.nan], np.float64)
        found = linkwise.sort(values)
        assert found.tobytes() == linkwise.sort_and_report(values)[0].tobytes()
        zeros = found[found == 0]
        assert np.signbit(zeros).tolist() == [True, True, False, False] and np.isnan(found[-1])
