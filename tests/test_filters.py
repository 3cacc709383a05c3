"""Rows and columns that are wanted of files: by expressions, and by the few words of the command line."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import linkwise
from linkwise import UsageError
from linkwise.columns.number_filter import number_filter_from_text
from linkwise.columns.row_filter import COMPARE, filter_from_text
from linkwise.files.formats import FileOptions
from linkwise.files.reading.parquet.statistics import groups_with
from linkwise.files.reading.readers import keep_of_tables, open_reader

RANDOM = np.random.default_rng(8)
ROWS = 4000
OPERATORS = ("=", "!=", "<>", "<", "<=", ">", ">=")
DAY = datetime.datetime(2020, 1, 1)
TABLE = pa.table({
    "price": pa.array(RANDOM.integers(0, 100, ROWS), mask=RANDOM.random(ROWS) < 0.1),
    "city": [["Oslo", "Lima", "O'Hara", None][at] for at in RANDOM.integers(0, 4, ROWS)],
    "ok": pa.array(RANDOM.random(ROWS) < 0.5, mask=RANDOM.random(ROWS) < 0.1),
    "when": [DAY + datetime.timedelta(hours=int(at)) for at in RANDOM.integers(0, 1000, ROWS)],
    "share of it": RANDOM.random(ROWS),
    "row": np.arange(ROWS),
})  # fmt: skip


def drawn(random: Random, depth: int = 0) -> str:
    """A filter that DuckDB understands as well."""
    kind = random.randrange(9 if depth < 3 else 5)
    operator = random.choice(OPERATORS)
    if kind == 0:
        return f"price {operator} {random.randrange(100)}"
    if kind == 1:
        cities = random.sample(["'Oslo'", "'Lima'", "'O''Hara'"], 2)
        return f"city {random.choice(('', 'not '))}in ({', '.join(cities)})"
    if kind == 2:
        name = random.choice(("price", "city", "ok", '"share of it"'))
        return f"{name} is {random.choice(('', 'not '))}null"
    if kind == 3:
        return f'"share of it" {operator} {random.random():.3f}'
    if kind == 4:
        return f"when {operator} '2020-01-{random.randrange(1, 32):02} 10:00:00'"
    if kind == 5:
        return f"not ({drawn(random, depth + 1)})"
    return f"({drawn(random, depth + 1)}) {random.choice(('and', 'or'))} ok = {random.choice(('true', 'false'))}"


def test_text_means_what_it_means_to_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    random = Random(3)
    connection = duckdb.connect()
    connection.register("given", TABLE)
    for _ in range(300):
        text = drawn(random)
        rows = TABLE.filter(filter_from_text(text, TABLE.schema))["row"].to_pylist()
        named = text.replace("when", '"when"')
        expected = connection.sql(f'select "row" from given where {named} order by "row"').fetchall()
        assert rows == [row[0] for row in expected], text


LIMITS = pa.table({
    "i8": pa.array([-128, -1, 0, 127, None], pa.int8()), "u64": pa.array([0, 1, 2**63, 2**64 - 1, None], pa.uint64()),
    "d": pa.array([Decimal(text) for text in ("-999.99", "0", "1.5", "999.99")] + [None], pa.decimal128(5, 2)),
    "row": range(5),
})  # fmt: skip


@pytest.mark.parametrize("column", ["i8", "u64", "d"])
@pytest.mark.parametrize("symbol", COMPARE)
def test_numbers_beyond_those_of_a_type(column: str, symbol: str) -> None:
    """They are compared by what they are, and equal none of the values."""
    values = [None if value is None else Fraction(value) for value in LIMITS[column].to_pylist()]
    for text in ("-1e9", "-1000", "-129", "-128", "-0.5", "127", "128", "999.995", "1000", str(2**64 - 1), str(2**64)):
        kept = [row for row, value in enumerate(values) if value is not None and COMPARE[symbol](value, Fraction(text))]
        query = f"{column} {symbol} {text}"
        assert LIMITS.filter(filter_from_text(query, LIMITS.schema))["row"].to_pylist() == kept, query
        if (by_numbers := number_filter_from_text(query, LIMITS.schema)) is not None:
            assert by_numbers.rows_of(LIMITS).tolist() == kept, query
        one_of = LIMITS.filter(filter_from_text(f"{column} in ({text}, 1)", LIMITS.schema))["row"].to_pylist()
        assert one_of == [row for row, value in enumerate(values) if value in (1, Fraction(text))]


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")], ids=str)
def test_times_of_day(kind: pa.DataType, tmp_path: Path) -> None:
    hours = [0, 8, 12, 23] * 500
    table = pa.table({"t": pa.array([datetime.time(hour, 30) for hour in hours], kind), "row": range(len(hours))})
    source = written(table, tmp_path / "in.parquet")
    for text, kept in (
        ("t >= '12:30'", {12, 23}),
        ("t in ('08:30:00', '23:30')", {8, 23}),
        ("t != '00:30:00'", {8, 12, 23}),
    ):
        linkwise.sort_file(source, tmp_path / "o.parquet", by="t", filter=filter_from_text(text, table.schema))
        found = pq.read_table(tmp_path / "o.parquet")["row"].to_pylist()
        assert found == sorted((row for row in range(len(hours)) if hours[row] in kept), key=lambda row: hours[row])
    with pytest.raises(UsageError, match="'noon' is no time"):
        filter_from_text("t > 'noon'", table.schema)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the name of a column should stand where the end is"),
        ("price >", "a value should stand where the end is"),
        ("nope = 1", "there is no column 'nope'"),
        ("price = 'x'", "'x' is no int64"),
        ("city > 3", "3 is no string"),
        ("price > 3 city = 'Oslo'", "'city' is not expected there"),
        ("(price > 3", r"a '\)' is missing"),
        ("price in 3", "'in' takes values in parentheses"),
        ("price in ()", "a value should stand"),
        ("price ~ 3", "'~ 3' cannot be read"),
        ("__import__('os')", "there is no column '__import__'"),
        ("(" * 500 + "price > 3", "too deep"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as raised:
        filter_from_text(text, TABLE.schema)
    assert len(str(raised.value).splitlines()) == 1


def written(table: pa.Table, path: Path) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=300)
    elif path.suffix == ".arrow":
        feather.write_feather(table, path, chunksize=300)
    else:
        pa.csv.write_csv(table, path)
    return path


@pytest.mark.parametrize("limit", [None, 20])
@pytest.mark.parametrize("memory", [None, "64KiB"])
@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv"])
def test_sort_file_keeps_what_is_wanted(suffix: str, memory: str | None, limit: int | None, tmp_path: Path) -> None:
    source = written(linkwise.sort(TABLE, by="when", strategy="cpu"), tmp_path / f"in{suffix}")
    whole = pq.read_table(source) if suffix == ".parquet" else None
    for columns, keep in (
        (None, pc.field("price") > 90),
        (["city", "row"], "price > 90 and \"share of it\" < 0.5"),
        (["row", "when"], "when < '2020-01-02'"),
        (["row"], None),
        (["row", "ok"], "price > 1000"),
    ):  # fmt: skip
        report = linkwise.sort_file(
            source, tmp_path / "o.arrow", by="row", columns=columns, filter=keep, limit=limit, strategy="cpu",
            host_memory_limit=memory,
        )  # fmt: skip
        expected = linkwise.sort(TABLE, by="row", strategy="cpu")
        if keep is not None:
            expected = expected.filter(filter_from_text(keep, TABLE.schema) if isinstance(keep, str) else keep)
        names = columns or TABLE.column_names
        found = feather.read_table(tmp_path / "o.arrow")
        assert found.column_names == names
        assert found["row"].to_pylist() == expected["row"].to_pylist()[:limit]
        assert report.rows == len(expected)
        if whole is not None:
            assert found.equals(expected.select(names)[:limit].cast(found.schema))


def test_row_groups_without_wanted_rows_are_not_read(tmp_path: Path) -> None:
    """They may be damaged, and nobody notices."""
    source = written(linkwise.sort(TABLE, by="row", strategy="cpu"), tmp_path / "in.parquet")
    column = pq.read_metadata(source).row_group(9).column(0)
    begin = column.dictionary_page_offset or column.data_page_offset
    data = bytearray(source.read_bytes())
    data[begin : begin + column.total_compressed_size] = bytes(column.total_compressed_size)
    source.write_bytes(data)
    how: Any = {"by": "price", "strategy": "cpu"}
    linkwise.sort_file(source, tmp_path / "o.parquet", filter="row < 2700 or row >= 3000", **how)
    assert pq.read_metadata(tmp_path / "o.parquet").num_rows == ROWS - 300
    with pytest.raises(linkwise.Error):
        linkwise.sort_file(source, tmp_path / "o.parquet", **how)


def test_wrong_names_are_one_clear_line(tmp_path: Path) -> None:
    source = written(TABLE, tmp_path / "in.parquet")
    for how, why in (
        ({"columns": ["nope"]}, "there is no column 'nope' to keep"),
        ({"columns": ["city"]}, "'row' is sorted by, and not among"),
        ({"filter": pc.field("nope") > 3}, "the filter does not suit its columns"),
    ):
        with pytest.raises(UsageError, match=why):
            linkwise.sort_file(source, tmp_path / "o.parquet", by="row", strategy="cpu", **how)
    np.save(tmp_path / "n.npy", np.arange(9))
    with pytest.raises(UsageError, match="no columns"):
        linkwise.sort_file(tmp_path / "n.npy", tmp_path / "o.npy", filter="x > 3", strategy="cpu")


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("limit", [None, 5])
def test_views_of_text(suffix: str, limit: int | None, tmp_path: Path) -> None:
    """Which PyArrow's filters do not take."""
    plain = pa.table({"k": range(3000, 0, -1), "s": [f"text {n % 7}" for n in range(3000)], "b": [b"x"] * 3000})
    views = plain.cast(pa.schema([("k", pa.int64()), ("s", pa.string_view()), ("b", pa.binary_view())]))
    path = tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        pq.write_table(views, path, row_group_size=500)
    else:
        with pa.ipc.new_file(path, views.schema) as out:
            out.write_table(views, max_chunksize=500)
    linkwise.sort_file(path, tmp_path / "o.parquet", by="k", filter="s = 'text 3'", limit=limit, strategy="cpu")
    expected = plain.filter(pc.field("s") == "text 3").sort_by("k").slice(0, limit)
    assert pq.read_table(tmp_path / "o.parquet").cast(plain.schema).equals(expected)
    linkwise.join_file(path, expected, tmp_path / "o.parquet", "k", how="semi", left_filter="s > 'text 2'")
    assert pq.read_table(tmp_path / "o.parquet").num_rows == expected.num_rows


@pytest.mark.parametrize("row_group", [7, 100, 5000])
@pytest.mark.parametrize("text", ["a > 40", "a > 1000", "a >= 0 or a is null", "a is null", "t = 'x3' and a < 50"])
def test_each_column_of_a_part_is_decoded_once(text: str, row_group: int, tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    table = pa.table(
        {
            "k": random.permutation(1000),
            "a": pa.array(random.integers(0, 100, 1000), mask=random.random(1000) < 0.1),
            "t": pa.array([f"x{number}" for number in random.integers(0, 9, 1000)]),
            "v": pa.array([f"{number}" for number in range(1000)]).cast(pa.string_view()),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=row_group)
    reader = open_reader([tmp_path / "t.parquet"], FileOptions())
    keep_of_tables(reader, ["k", "t", "v"], text)
    plain = table.set_column(3, "v", table["v"].cast(pa.large_string()))  # as views are read where rows are filtered
    expected = plain.filter(filter_from_text(text, table.schema)).select(["k", "t", "v"])
    asked: list[str] = []
    real = pq.ParquetFile.read_row_groups

    def counting(file: Any, groups: Any, columns: Any = None, **how: Any) -> Any:
        asked.extend(columns)
        return real(file, groups, columns, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pq.ParquetFile, "read_row_groups", counting)
        found = []
        for part in reader.parts(300, 1 << 30):
            asked.clear()
            keys, others = part.decode(["k"]), part.decode(["t", "v"])
            assert len(asked) == len(set(asked)) and {"k", "a"} <= {*asked}
            found.append(pa.table([*keys.columns, *others.columns], schema=reader.schema))
    assert pa.concat_tables(found).equals(expected)


NUMBERS = pa.table({
    "i": pa.array(RANDOM.integers(-5, 5, ROWS), mask=RANDOM.random(ROWS) < 0.1),
    "u": RANDOM.integers(0, 1 << 64, ROWS, dtype=np.uint64), "b": RANDOM.integers(-128, 128, ROWS, dtype=np.int8),
    "x": pa.array(np.where(RANDOM.random(ROWS) < 0.1, np.nan, RANDOM.integers(-3, 3, ROWS) / 2)),
    "f": RANDOM.random(ROWS).astype(np.float32), "not": np.arange(ROWS), "row": np.arange(ROWS),
    "s": [f"{at}" for at in range(ROWS)],
})  # fmt: skip


def test_numbers_are_compared_as_by_expressions(tmp_path: Path) -> None:
    """By NumPy and without PyArrow's expressions, and the same row groups are left out by their statistics."""
    random = Random(9)
    path = tmp_path / "in.parquet"
    pq.write_table(NUMBERS.sort_by("i"), path, row_group_size=ROWS // 20)
    whole = pq.read_table(path)
    draws = {"i": lambda: random.randint(-7, 7), "u": lambda: random.randrange(1 << 64),
             "b": lambda: random.randint(-128, 127), "x": lambda: random.randint(-8, 8) / 4}  # fmt: skip
    for trial in range(200):
        parts = []
        for _ in range(random.randint(1, 3)):
            name = random.choice(list(draws))
            parts.append(f"{name}{random.choice(('', ' '))}{random.choice(OPERATORS)} {draws[name]()}")
        text = f" {random.choice((' and ', ' AND  ')).join(parts)} "
        numbers = number_filter_from_text(text, whole.schema)
        assert numbers is not None, text
        expected = whole.filter(filter_from_text(text, whole.schema))
        assert whole["row"].take(numbers.rows_of(whole)).to_pylist() == expected["row"].to_pylist(), text
        assert whole.filter(numbers.expression)["row"].equals(expected["row"]), text
        if trial % 10 == 0:
            for limit, memory in ((None, None), (5, None), (None, "64KiB"), (5, "64KiB")):
                linkwise.sort_file(
                    path, tmp_path / "o.parquet", by="row", filter=text, limit=limit, host_memory_limit=memory,
                    strategy="cpu",
                )  # fmt: skip
                found = pq.read_table(tmp_path / "o.parquet").drop_columns("x")  # NaN is not equal to itself
                assert found.equals(expected.drop_columns("x").sort_by("row")[:limit]), text


@pytest.mark.parametrize(
    "text",
    [
        "i < 3 or x > 1", "not i < 3", "(i < 3)", "i < 3 and", "i < 3 x > 1", "i", "", "i < x", "i < 1.5", "u < -1",
        "b < 128", "f < 0.5", "s < 3", "x < 1e3", "x < 0.12345678901234567", "absent < 3", "i < 3)", "3 < i",
        "i is null", "i in (1)", "x < '3'", "i < 3 and s = 'a'", "not < 3",
    ],
)  # fmt: skip
def test_other_filters_are_left_to_expressions(text: str) -> None:
    assert number_filter_from_text(text, NUMBERS.schema) is None
    twice = pa.schema([*NUMBERS.schema, pa.field("i", pa.int64())])
    assert number_filter_from_text("i < 3", twice) is None


def test_statistics_that_are_no_numbers_leave_out_nothing() -> None:
    told = SimpleNamespace(has_min_max=True, min=math.nan, max=math.nan)
    column = SimpleNamespace(path="x", physical_type="DOUBLE", statistics=told)
    of_column = SimpleNamespace(column=lambda _: column)
    metadata: Any = SimpleNamespace(num_columns=1, schema=of_column, row_group=lambda _: of_column)
    assert groups_with(metadata, "x", 1, 2, [0, 1]) == [0, 1]
    told.min, told.max = 3.0, 4.0
    assert groups_with(metadata, "x", 1, 2, [0, 1]) == []
