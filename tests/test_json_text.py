"""Lines of JSON that PyArrow's functions make, against those that Python makes of each row."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from linkwise.encoders.json_text import line_of_json, lines_of_json

TEXTS = ["a", '"q"', "back\\slash", "line\nend", "\t", "\x01", "é", "\u2028", "日本", "\x7f", "", "plain text"]
FLOATS = [0.0, -0.0, 1.0, -1.0, 1e15, 1e16, 1e17, 1e-4, 1e-5, 1e-6, math.nan, math.inf, -math.inf, 5e-324, 1.8e308]
FIRST, LAST = -62_135_596_800, 253_402_300_799  # seconds of the years 1 and 9999


def with_nulls(random: np.random.Generator, values: Any, kind: pa.DataType) -> pa.Array:
    return pa.array([None if random.random() < 0.1 else value for value in values], kind)


def times(random: np.random.Generator, unit: str, rows: int) -> list[int]:
    """Some of which are whole seconds."""
    parts = {"s": 1, "ms": 10**3, "us": 10**6}[unit]
    seconds = random.integers(FIRST, LAST, rows) * parts
    return (seconds + random.integers(0, parts, rows) * (random.random(rows) < 0.5)).tolist()


def columns_of(random: np.random.Generator, rows: int) -> dict[str, pa.Array]:
    def chosen(values: list[Any]) -> list[Any]:
        return [values[at] for at in random.integers(0, len(values), rows)]

    floats = chosen([*FLOATS, *(10.0 ** random.integers(-320, 308, 50)), *random.random(50), *range(20)])
    words = chosen(TEXTS)
    plain = chosen(["no", "need", "of", "escapes"])
    numbers = random.integers(-(10**9), 10**9, rows).tolist()
    made = {
        "whole": (numbers, pa.int64()), "unsigned": (chosen([0, (1 << 64) - 1]), pa.uint64()),
        "f64": (floats, pa.float64()), "f32": (floats, pa.float32()),
        "f16": ([*random.random(rows).astype("f2")], pa.float16()),
        "flag": (chosen([True, False]), pa.bool_()), "text": (words, pa.string()), "wide": (words, pa.large_string()),
        "view": (words, pa.string_view()), "plain": (plain, pa.string()),
        "date": (random.integers(-700_000, 2_900_000, rows).tolist(), pa.int32()), "none": ([None] * rows, pa.null()),
        "clock": (random.integers(0, 86400, rows).astype("i4").tolist(), pa.time32("s")),
        "span": (numbers, pa.duration("us")),
        "list": ([[1.0, None, value] for value in floats], pa.list_(pa.float64())),
        "struct": ([{"a": n, "b": word} for n, word in zip(numbers, words, strict=True)], None),
    }  # fmt: skip
    for scale in (0, 2, 6, 10, -2):
        made[f"decimal, {scale}"] = (
            [decimal.Decimal(number).scaleb(-scale) for number in numbers], pa.decimal128(30, scale),
        )  # fmt: skip
    for unit in ("s", "ms", "us"):
        made[f"time, {unit}"] = (times(random, unit, rows), pa.timestamp(unit))
        made[f"zone, {unit}"] = ([at // 2 for at in times(random, unit, rows)], pa.timestamp(unit, "Europe/Paris"))
    made = {name: with_nulls(random, values, kind) for name, (values, kind) in made.items()}
    return made | {"date": made["date"].cast(pa.date32()), "coded": made["text"].dictionary_encode()}


@pytest.mark.parametrize("seed", range(4))
def test_lines_are_those_of_python(seed: int) -> None:
    random = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        table = pa.table(columns_of(random, 500))
    table = pa.concat_tables([table.slice(3, 200), table.slice(300, 77)])
    found = lines_of_json(table).to_pybytes().decode().split("\n")
    assert found.pop() == "" and len(found) == len(table)
    as_doubles = table.set_column(table.column_names.index("f16"), "f16", table["f16"].cast(pa.float64()))
    for line, row in zip(found, as_doubles.to_pylist(), strict=True):  # older PyArrow makes NumPy's of half floats
        # Python and PyArrow write exponents of floats differently; their values, types and signs are the same.
        assert repr(json.loads(line)) == repr(json.loads(line_of_json(row)))
    others = table.drop_columns(["f64", "f32", "f16"])
    assert lines_of_json(others).to_pybytes().decode() == "".join(
        f"{line_of_json(row)}\n" for row in others.to_pylist()
    )


def test_tables_without_rows_or_columns() -> None:
    assert lines_of_json(pa.table({"a": pa.array([], pa.int64())})).to_pybytes() == b""
    assert lines_of_json(pa.table({"a": [1]}).select([]).slice(0, 1)).to_pybytes() in (b"{}\n", b"")
    assert lines_of_json(pa.table({'"n\n': [datetime.date(2026, 2, 3)]})).to_pybytes() == b'{"\\"n\\n": "2026-02-03"}\n'
