"""What is documented about the order, shown by sorting: the table in docs/order.md is made of what happens here.

``python tests/test_behaviour.py --write`` writes it anew.
"""

from __future__ import annotations

import datetime
import decimal
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import linkwise

DOCUMENT = Path(__file__).parent.parent / "docs" / "order.md"
BEGIN, END = "<!-- made by tests/test_behaviour.py -->\n", "<!-- end -->\n"
NAN, INF = float("nan"), float("inf")
SIGNED_NAN = float(np.copysign(NAN, -1.0))

CASES: dict[str, Any] = {
    "`bool`": pa.array([True, None, False]),
    "integers": pa.array([2, None, -1, 1]),
    "floats": pa.array([NAN, 1.0, None, 0.0, -0.0, INF, -INF, SIGNED_NAN], from_pandas=False),
    "decimals": pa.array([decimal.Decimal("2.50"), None, decimal.Decimal("-3.00")]),
    "dates, times, timestamps, durations": pa.array([datetime.date(2001, 1, 1), None, datetime.date(1999, 1, 1)]),
    "strings: by their bytes, so by code points": pa.array(["b", "a", None, "é", "B", "", "ab", "𝄞"]),
    "binary, of fixed size or not": pa.array([b"\x01", None, b"\xff", b"\x00", b"\x01\x00"]),
    "dictionaries: by their values": pa.array(["z", "a", None, "z"]).dictionary_encode(),
    'ordered dictionaries, as Polars\' `Enum`: as their values are ordered, here `"lo"`, `"hi"`': (
        pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array(["lo", "hi"]), ordered=True)
    ),
    "NumPy `datetime64`, `timedelta64`": np.array(["2001-01-01", "NaT", "1999-01-01"], "M8[D]"),
    "NumPy floats": np.array([NAN, 1.0, 0.0, -0.0]),
}


def shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, float) and math.isnan(value):
        return "-NaN" if np.signbit(value) else "NaN"
    if isinstance(value, str):
        return f'"{value}"'
    return str(value) if not isinstance(value, bytes) else repr(value)


def listed(values: Any) -> str:
    items = (
        values.to_pylist()
        if isinstance(values, pa.Array)
        else list(values)
        if values.dtype.kind == "M"
        else values.tolist()
    )
    return " ".join(f"`{shown(value)}`" for value in items)


def table() -> str:
    rows = [
        "| keys | ascending | descending | nulls first |",
        "|---|---|---|---|",
    ]
    for name, values in CASES.items():
        how: list[dict[str, Any]] = [{}, {"descending": True}, {"nulls": "first"}]
        by_direction = [listed(linkwise.sort(values, strategy="cpu", **options)) for options in how]
        if isinstance(values, np.ndarray):
            by_direction[2] = "–"
        rows.append(f"| {name} | {' | '.join(by_direction)} |")
    return "\n".join(rows) + "\n"


def ties() -> str:
    rows = pa.table({"key": [1, 0, 1, 0, 1], "row": ["a", "b", "c", "d", "e"]})
    floats = np.array([0.0, -0.0, NAN, NAN, 0.0])

    def order(**options: Any) -> str:
        return "".join(linkwise.sort(rows, by="key", strategy="cpu", **options)["row"].to_pylist())

    def different(values: Any) -> str:
        return listed(linkwise.unique(values, strategy="cpu"))

    top = "".join(linkwise.top_k(rows, 2, by="key", strategy="cpu")["row"].to_pylist())
    first = "".join(linkwise.unique(rows, by="key", strategy="cpu")["row"].to_pylist())
    told = [
        "| of the rows `a b c d e` with the keys `1 0 1 0 1` | |",
        "|---|---|",
        f"| `sort`: equal keys keep their order | `{order()}` |",
        f"| … descending as well | `{order(descending=True)}` |",
        f"| `top_k(…, 2)`: the first of equal keys | `{top}` |",
        f"| `unique`: the first of each key | `{first}` |",
        "| `unique` of `0.0 -0.0 NaN NaN 0.0`: values that are sorted differently are distinct "
        f"| {different(floats)} |",
        f"| `unique` of `null 1 null`: nulls are equal | {different(pa.array([None, 1, None]))} |",
    ]
    return "\n".join(told) + "\n"


def document(before: str) -> str:
    head, _, rest = before.partition(BEGIN)
    return f"{head}{BEGIN}\n{table()}\n{ties()}\n{END}{rest.partition(END)[2]}"


def test_the_document_says_what_happens() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert document(text) == text, "run: python tests/test_behaviour.py --write"


def test_gpus_and_cores_agree() -> None:
    for values in CASES.values():
        for descending in (False, True):
            by_cpu = linkwise.sort_indices(values, descending=descending, strategy="cpu")
            by_gpu = linkwise.sort_indices(values, descending=descending, strategy="radix", machine="dgx-a100")
            assert by_cpu.tolist() == by_gpu.tolist()


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    DOCUMENT.write_text(document(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
