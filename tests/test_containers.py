"""What comes in comes back as the same kind of thing, with every column that there was."""

from __future__ import annotations

import datetime
import decimal
import os
import signal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import linkwise
from linkwise.columns import gather, gather_pyarrow
from linkwise.columns import take as taking

CPU: dict[str, Any] = {"strategy": "cpu"}
NUMBERS = [3, None, 1, 2, 1, None]
IN_ORDER = [1, 1, 2, 3, None, None]
TEXTS = ["pear", "fig", None, "apple", "fig", "a text too long to lie in a view itself"]


def frame() -> pa.Table:
    return pa.table({"n": NUMBERS, "text": TEXTS})


class OnlyCapsule:
    """A library's own container, which speaks the interface and nothing else."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._data.__arrow_c_stream__(requested_schema)


class OnlyArray:
    """The same of a single array or batch."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._data.__arrow_c_array__(requested_schema)


def test_pyarrow() -> None:
    array = pa.array(NUMBERS)
    result = linkwise.sort(array, **CPU)
    assert isinstance(result, pa.Int64Array) and result.to_pylist() == IN_ORDER
    chunked = pa.chunked_array([array.slice(0, 2), array.slice(2, 0), array.slice(2)])
    result = linkwise.sort(chunked, nulls="first", **CPU)
    assert isinstance(result, pa.ChunkedArray) and result.to_pylist() == [None, None, 1, 1, 2, 3]
    assert linkwise.sort(pa.chunked_array([], pa.string()), **CPU).type == pa.string()
    assert linkwise.sort(pa.array([], pa.string()), **CPU).type == pa.string()

    expected = frame().take([2, 4, 3, 0, 1, 5])
    batch = frame().to_batches()[0]
    result = linkwise.sort(batch, by="n", **CPU)
    assert isinstance(result, pa.RecordBatch) and pa.Table.from_batches([result]) == expected
    reader = pa.RecordBatchReader.from_batches(batch.schema, [batch.slice(0, 2), batch.slice(2)])
    result = linkwise.sort(reader, by="n", **CPU)
    assert isinstance(result, pa.RecordBatchReader) and result.read_all() == expected


def test_what_speaks_the_capsule_interface() -> None:
    result = linkwise.sort(OnlyCapsule(frame()), by=["text", "n"], **CPU)
    assert isinstance(result, pa.Table) and result["text"].to_pylist()[:3] == [TEXTS[5], "apple", "fig"]
    assert linkwise.sort(OnlyCapsule(pa.chunked_array([NUMBERS])), **CPU).to_pylist() == IN_ORDER
    assert linkwise.sort(OnlyArray(pa.array(NUMBERS)), **CPU).to_pylist() == IN_ORDER
    batch = linkwise.sort(OnlyArray(frame().to_batches()[0]), by="n", **CPU)
    assert isinstance(batch, pa.RecordBatch) and batch["n"].to_pylist() == IN_ORDER


def test_polars() -> None:
    pl = pytest.importorskip("polars")
    testing = pytest.importorskip("polars.testing")
    data = pl.DataFrame(
        {
            "n": NUMBERS,
            "text": TEXTS,
            "kind": pl.Series(["b", "a", "b", None, "a", "b"], dtype=pl.Categorical),
            "level": pl.Series(["low", "high", "low", "mid", None, "low"], dtype=pl.Enum(["low", "mid", "high"])),
            "when": pl.Series([datetime.date(2000, 1, 1)] * 6),
            "list": [[1], [], None, [2, 3], [4], [5]],
            "nested": [{"a": "x", "b": [i]} for i in range(6)],
        }
    )
    result = linkwise.sort(data, by=["text", "n"], descending=[True, False], **CPU)
    expected = data.sort(["text", "n"], descending=[True, False], nulls_last=True, maintain_order=True)
    testing.assert_frame_equal(result, expected)
    series = linkwise.sort(data["text"], **CPU)
    testing.assert_series_equal(series, data["text"].sort(nulls_last=True))
    assert linkwise.sort_indices(data["n"], **CPU).tolist() == [2, 4, 3, 0, 1, 5]
    testing.assert_frame_equal(linkwise.unique(data.select("n"), **CPU), pl.DataFrame({"n": [1, 2, 3, None]}))
    testing.assert_frame_equal(linkwise.top_k(data.select("n"), 2, by="n", **CPU), pl.DataFrame({"n": [3, 2]}))
    with pytest.raises(linkwise.UsageError, match=r"collect\(\) it first"):
        linkwise.sort(data.lazy(), by="n", **CPU)


def test_pandas() -> None:
    data = pd.DataFrame(
        {"n": pd.array(NUMBERS, "Int64"), "text": TEXTS, "anything": [{1}, object, "x", 2, None, 3.5]},
        index=pd.Index(list("uvwxyz"), name="id"),
    )
    data["kind"] = pd.Categorical(["b", "a", "b", None, "a", "b"])
    data["when"] = pd.date_range("2020-01-01", periods=6, tz="Europe/Berlin")
    data.attrs["source"] = "here"
    result = linkwise.sort(data, by=["n", "text"], descending=[True, False], **CPU)
    pd.testing.assert_frame_equal(result, data.loc[list("uxywzv")])
    assert result["n"].to_list()[:4] == [3, 2, 1, 1] and result.attrs == data.attrs
    pd.testing.assert_frame_equal(
        linkwise.sort(data, by="n", **CPU), data.sort_values("n", kind="stable", na_position="last")
    )
    pd.testing.assert_series_equal(linkwise.sort(data["text"], **CPU), data["text"].sort_values(kind="stable"))
    assert linkwise.top_k(data, 1, by="when", **CPU).index.to_list() == ["z"]
    assert linkwise.unique(data, by="kind", **CPU).index.to_list() == ["v", "u", "x"]
    with pytest.raises(linkwise.UsageError, match="a key of this DataFrame cannot be sorted"):
        linkwise.sort(data, by="anything", **CPU)
    with pytest.raises(linkwise.UsageError, match="no column 'none'"):
        linkwise.sort(data, by="none", **CPU)


def test_numpy() -> None:
    words = np.array(["pear", "fig", "apple", "fig"])
    assert linkwise.sort(words, **CPU).tolist() == ["apple", "fig", "fig", "pear"]
    assert linkwise.sort(words.astype("S5"), descending=True, **CPU).dtype == np.dtype("S5")
    swapped = np.array([3, 1, 2], ">i4")
    result = linkwise.sort(swapped, **CPU)
    assert result.dtype == swapped.dtype and result.tolist() == [1, 2, 3]
    out = np.empty(3, ">i4")
    assert linkwise.sort(swapped, out=out, **CPU) is out and out.tolist() == [1, 2, 3]
    assert linkwise.sort(np.zeros(3, np.float16), **CPU).dtype == np.float16
    with pytest.raises(linkwise.UsageError, match="mask would be lost"):
        linkwise.sort(np.ma.masked_array([1, 2], [True, False]), **CPU)


@pytest.mark.parametrize("dtype", ["U3", ">U3", "S3", "T"])
def test_texts_go_on_behind_a_nul(dtype: str) -> None:
    if dtype == "T" and not hasattr(np.dtypes, "StringDType"):
        pytest.skip("this NumPy has no such type")
    words = np.array(["a\0b", "a", "a\0a", "", "b"]).astype(np.dtypes.StringDType() if dtype == "T" else dtype)
    assert linkwise.sort(words, **CPU).tolist() == sorted(words.tolist())
    assert linkwise.unique(words, **CPU).tolist() == sorted(words.tolist())
    left_rows, right_rows = linkwise.join_indices(words[:1], words, **CPU)
    assert left_rows.tolist() == right_rows.tolist() == [0]


def test_text_that_is_none() -> None:
    with pytest.raises(linkwise.UsageError, match="this array has text that UTF-8 cannot hold"):
        linkwise.sort(np.array(["\ud800", "a"]), **CPU)


def test_memory_maps(tmp_path: Any) -> None:
    np.save(tmp_path / "a.npy", np.array([3, 1, 2]))
    assert linkwise.sort(np.load(tmp_path / "a.npy", mmap_mode="r"), **CPU).tolist() == [1, 2, 3]
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, frame().schema) as writer:
        writer.write(frame())
    with pa.memory_map(str(tmp_path / "t.arrow")) as source:
        assert linkwise.sort(pa.ipc.open_file(source).read_all(), by="n", **CPU)["n"].to_pylist() == IN_ORDER


def test_torch_tensors_in_host_memory() -> None:
    torch = pytest.importorskip("torch")
    result = linkwise.sort(torch.tensor([3, 1, 2]), **CPU)
    assert isinstance(result, torch.Tensor) and result.tolist() == [1, 2, 3]


def payload(rows: int) -> dict[str, pa.Array]:
    """A column of every type that is no key, and of those whose rows PyArrow itself does not take."""
    few = [None if row % 7 == 3 else row for row in range(rows)]

    def made(kind: pa.DataType, value: Any) -> pa.Array:
        return pa.array([None if row is None else value(row) for row in few], kind)

    union_types = pa.array([row % 2 for row in range(rows)], pa.int8())
    union_parts = [pa.array(range(rows)), pa.array([str(row) for row in range(rows)])]
    return {
        "list": made(pa.list_(pa.int32()), lambda n: [n] * (n % 4)),
        "large list": made(pa.large_list(pa.string()), lambda n: [str(n)] * (n % 3)),
        "list view": made(pa.list_view(pa.int32()), lambda n: [n, n]),
        "list of fixed size": made(pa.list_(pa.int16(), 2), lambda n: [n % 99, 1]),
        "list of views": made(pa.list_(pa.string_view()), lambda n: [f"a text that is long enough {n}", None]),
        "struct": made(pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]), lambda n: {"a": n, "b": [str(n)]}),
        "struct of views": made(pa.struct([("a", pa.binary_view())]), lambda n: {"a": b"long enough %d" % n}),
        "map": made(pa.map_(pa.string(), pa.string_view()), lambda n: [(str(n), "v")]),
        "interval": made(pa.month_day_nano_interval(), lambda n: pa.MonthDayNano([n, 2, 3])),
        "decimal": made(pa.decimal256(60, 2), decimal.Decimal),
        "string view": made(pa.string_view(), lambda n: f"text {n} " * (n % 3)),
        "dictionary": made(pa.string(), lambda n: str(n % 5)).dictionary_encode(),
        "runs": pc.run_end_encode(made(pa.int64(), lambda n: n // 9)),
        "sparse union": pa.UnionArray.from_sparse(union_types, union_parts),
        "uuid": made(pa.uuid(), lambda n: n.to_bytes(16, "big")),
        "nothing": pa.nulls(rows),
        "bool": made(pa.bool_(), lambda n: n % 3 == 0),
    }


@pytest.mark.parametrize("chunks", [1, 3])
def test_payload_of_every_type(chunks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In slices, in one chunk and in several that are not put together, as columns of more than 2 GiB are not."""
    monkeypatch.setattr(gather_pyarrow, "_ROWS_AT_ONCE", 100)
    monkeypatch.setattr(gather_pyarrow, "_MOST_IN_ONE_PIECE", 10)
    rows = 350
    key = np.random.default_rng(0).permutation(rows)
    whole = pa.table({"key": key, **payload(rows)})
    step = -(-rows // chunks)
    table = pa.concat_tables([whole.slice(first, step) for first in range(0, rows, step)])
    result = linkwise.sort(table, by="key", **CPU)
    result.validate(full=True)
    assert result.schema == table.schema
    order = np.argsort(key)
    for name in table.column_names:
        plain = whole[name].to_pylist()
        assert result[name].to_pylist() == [plain[row] for row in order], name


def test_more_bytes_than_offsets_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that do not fit together are gathered apart; keys that do not are copied with wider offsets."""
    calls = []
    really_take, really_gather, really_columns = taking.pc.take, gather._core.gather_column, gather._core.Columns

    def take(values: pa.Array, rows: pa.Array) -> pa.Array:
        calls.append(len(rows))
        if len(rows) > 3:
            raise pa.ArrowInvalid("array cannot contain more than 2147483646 bytes")
        return really_take(values, rows)

    def gather_column(chunks: list[pa.Array], rows: Any) -> Any:
        if pa.types.is_string(chunks[0].type) and (rows is None or len(rows) > 3):
            raise OverflowError
        return really_gather(chunks, rows)

    class Columns:
        def __init__(self, columns: list[list[pa.Array]]) -> None:
            self._columns = columns
            self.sum_of_hashes = really_columns(columns).sum_of_hashes

        def gather(self, rows: list[Any]) -> list[Any]:
            return [
                None if pa.types.is_string(chunks[0].type) and len(of_column) > 3 else really_gather(chunks, of_column)
                for chunks, of_column in zip(self._columns, rows, strict=True)
            ]

    monkeypatch.setattr(taking.pc, "take", take)
    monkeypatch.setattr(gather._core, "gather_column", gather_column)
    monkeypatch.setattr(gather._core, "Columns", Columns)
    texts = [str(n) for n in range(10)]
    table = pa.table({"key": range(10, 0, -1), "list": [[n] for n in texts], "text": texts})
    table = pa.concat_tables([table.slice(0, 6), table.slice(6)])
    result = linkwise.sort(table, by="key", **CPU)
    assert result["text"].to_pylist() == texts[::-1] and result["text"].num_chunks == 4
    assert result["list"].to_pylist() == [[n] for n in texts[::-1]]
    assert calls
    assert linkwise.sort(table, by="text", descending=True, **CPU)["text"].to_pylist() == texts[::-1]


def test_the_schema_keeps_its_metadata() -> None:
    table = frame().replace_schema_metadata({"who": "me"})
    table = table.cast(
        pa.schema([table.schema.field(0).with_metadata({"unit": "m"}), table.schema.field(1)], {"who": "me"})
    )
    result = linkwise.sort(table, by="text", **CPU)
    assert result.schema.equals(table.schema, check_metadata=True)


def test_columns_of_one_name_and_tables_without_rows() -> None:
    twice = pa.table([pa.array([2, 1]), pa.array(["b", "a"]), pa.array(["c", "d"])], names=["k", "v", "v"])
    result = linkwise.sort(twice, by="k", **CPU)
    assert result.column(1).to_pylist() == ["a", "b"] and result.column(2).to_pylist() == ["d", "c"]
    empty = frame().slice(0, 0)
    for by in ("n", "text", ["text", "n"]):
        assert linkwise.sort(empty, by=by, **CPU).schema == empty.schema
        assert (
            linkwise.unique(empty, by=by, **CPU).num_rows == 0 and linkwise.top_k(empty, 5, by=by, **CPU).num_rows == 0
        )


def test_chunks_with_dictionaries_of_their_own() -> None:
    """Of float16, with nulls among the values, of views, and of more values than one dictionary can have."""

    def dictionary(indices: list[int], values: pa.Array) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), values)

    halves = pa.array(np.array([1, 2], np.float16))
    column = pa.chunked_array([dictionary([0, 1], halves), dictionary([0, 1], halves.take(pa.array([1, 0])))])
    assert linkwise.sort(column).to_pylist() == [1, 1, 2, 2]
    table = pa.table({"k": [3, 2, 1, 0], "half": column})
    assert linkwise.sort(table, by="k")["half"].to_pylist() == [1, 2, 2, 1]
    column = pa.chunked_array([dictionary([0, 1], pa.array(["a", None])), dictionary([1, 0], pa.array(["a", None]))])
    assert linkwise.sort(column).to_pylist() == ["a", "a", None, None]
    views = pa.table({"v": pa.array(["b", "a", "c"], pa.string_view()).dictionary_encode()}).slice(0, 2)
    assert linkwise.sort(views, by="v")["v"].to_pylist() == ["a", "b"]
    many = [dictionary(list(range(100)), pa.array([f"{name}{i:02}" for i in range(100)])) for name in "ab"]
    assert linkwise.sort_indices(pa.chunked_array(many)).tolist() == list(range(200))
    with pytest.raises(linkwise.UsageError, match="more values together than int8 can number"):
        linkwise.sort(pa.chunked_array(many))


def test_what_is_derived_from_a_frame_is_one() -> None:
    class Frame(pd.DataFrame):
        pass

    found = linkwise.sort(Frame({"a": [2, 1]}, index=["x", "y"]), by="a")
    assert isinstance(found, pd.DataFrame)
    assert list(found.index) == ["y", "x"]


def test_polars_enums_and_objects() -> None:
    pl = pytest.importorskip("polars")
    kind = pl.Enum(["b", "a"])
    assert linkwise.sort(pl.Series("e", ["a", "b"], dtype=kind)).dtype == kind
    with pytest.raises(linkwise.UsageError, match="Python objects"):
        linkwise.sort(pl.DataFrame({"a": [2, 1], "o": pl.Series(["x", 3], dtype=pl.Object)}), by="a")


def test_a_device_capsule_of_host_memory() -> None:
    class OnlyDevice:
        def __arrow_c_device_array__(self, *arguments: Any, **named: Any) -> Any:
            return pa.array([2, 1, 3]).__arrow_c_device_array__(*arguments, **named)

    assert linkwise.sort(OnlyDevice()).to_pylist() == [1, 2, 3]


def test_lists_of_unions_are_measured_by_their_buffers() -> None:
    """A batch of a file whose lists are all empty: PyArrow's ``nbytes`` reads behind the union, and dies."""
    kinds = pa.array([0, 1] * 25, pa.int8())
    union = pa.UnionArray.from_sparse(kinds, [pa.array(range(50)), pa.array(["x"] * 50)])
    lists = pa.ListArray.from_arrays(pa.array([min(2 * i, 50) for i in range(51)], pa.int32()), union)
    table = pa.table({"k": range(50, 0, -1), "lists": lists})
    file = pa.BufferOutputStream()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=20)
    found = linkwise.sort(pa.ipc.open_file(file.getvalue()).read_all(), by="k", strategy="cpu")
    assert found["k"].to_pylist() == list(range(1, 51))
    assert found["lists"].to_pylist() == lists.to_pylist()[::-1]


@pytest.mark.parametrize("gpus", [3, "0,1", None, [0.5]])
def test_gpus_are_numbers(gpus: Any) -> None:
    with pytest.raises(linkwise.UsageError, match="list of numbers"):
        linkwise.sort(np.arange(5), gpus=gpus, machine="h200x8")


def test_limits_and_gpus_as_numpy_has_them() -> None:
    found = linkwise.sort(np.arange(5)[::-1], gpus=np.array([0, 1]), memory_limit=np.int64(1 << 30), machine="h200x8")
    assert found.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(linkwise.UsageError, match="not a size"):
        linkwise.sort(np.arange(5), memory_limit=1.5, machine="h200x8")


def test_a_forked_process_can_sort() -> None:
    values = np.random.default_rng(0).permutation(300_000)
    linkwise.sort(values, strategy="cpu")
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # ends it, if it waits for threads that it has not
        os._exit(0 if (linkwise.sort(values, strategy="cpu") == np.arange(300_000)).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_table_whose_only_column_has_no_name() -> None:
    table = pa.table({"": [3, 1, 2]})
    for by in ("", [""]):
        assert linkwise.sort(table, by=by)[""].to_pylist() == [1, 2, 3]
    with pytest.raises(linkwise.UsageError, match="sorted by its values"):
        linkwise.sort(np.array([2, 1]), by="")
