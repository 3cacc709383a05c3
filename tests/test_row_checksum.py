"""Checksums of rows: equal for the same rows in any order and layout, different for any change."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from linkwise.columns.row_checksum import RowChecksum

RANDOM = np.random.default_rng(3)
ROWS = 5000  # several blocks


def value(table: pa.Table) -> tuple[int, int]:
    return RowChecksum(table).value


def rows() -> pa.Table:
    lengths = RANDOM.integers(0, 40, ROWS)
    texts = [RANDOM.bytes(length) for length in lengths]
    is_null = RANDOM.random(ROWS) < 0.1
    return pa.table({
        "bytes": pa.array(texts, pa.binary(), mask=is_null),
        "small": pa.array(RANDOM.integers(-128, 128, ROWS).astype(np.int8)),
        "number": pa.array(RANDOM.integers(0, 1 << 60, ROWS), mask=RANDOM.random(ROWS) < 0.5),
        "flag": pa.array(RANDOM.random(ROWS) < 0.5),
        "money": pa.array([Decimal(int(each)) for each in RANDOM.integers(0, 1 << 40, ROWS)], pa.decimal128(30, 2)),
        "fixed": pa.array([RANDOM.bytes(21) for _ in range(ROWS)], pa.binary(21)),
    })  # fmt: skip


def test_order_chunks_and_offsets_do_not_matter() -> None:
    table = rows()
    expected = value(table)
    assert value(table.take(RANDOM.permutation(ROWS))) == expected
    padded = pa.concat_tables([table.slice(7, 100), table]).combine_chunks().slice(100)
    assert value(padded) == expected
    assert value(pa.concat_tables([table.slice(at, 333) for at in range(0, ROWS, 333)])) == expected
    wide = table.set_column(0, "bytes", table["bytes"].cast(pa.large_binary()))
    assert value(wide) == expected


@pytest.mark.parametrize("length", [*range(25), 31, 32, 33, 47, 48, 49])
@pytest.mark.parametrize("is_zero", [False, True])
def test_every_byte_counts(length: int, is_zero: bool) -> None:
    text = bytes(length) if is_zero else RANDOM.bytes(length)
    others = {bytes([*text[:at], text[at] ^ 1 << bit, *text[at + 1 :]]) for at in range(length) for bit in range(8)}
    others |= {text + b"\0", b"\0" + text, text + text[-1:] + b"x"}
    others |= {text[:at] + text[at + 1 :] for at in range(length)}
    others.discard(text)
    sums = {value(pa.table({"x": pa.array([each], pa.binary())})) for each in others | {text}}
    assert len(sums) == len(others | {text})


def test_small_numbers_of_many_bytes_differ() -> None:
    """The first column's hash starts at zero, and most of the bytes of these are zero."""
    kinds = pa.decimal128(30, 0), pa.decimal256(60, 0)
    for kind in kinds:
        sums = {value(pa.table({"x": pa.array([Decimal(number)], kind)})) for number in range(-500, 500)}
        assert len(sums) == 1000
    sums = {value(pa.table({"x": pa.array([bytes(at) + b"\1" + bytes(40 - at)])})) for at in range(41)}
    assert len(sums) == 41


def test_a_zero_product_hides_nothing() -> None:
    """Words by which the multiplication gives zero do not lose what was hashed before."""
    zero = (0x9E3779B97F4A7C15).to_bytes(8, "little")
    for text in (zero * 2, zero + b"rest", zero * 5):
        tables = [pa.table({"n": pa.array([number]), "x": pa.array([text])}) for number in range(4)]
        assert len({value(each) for each in tables}) == 4


@pytest.mark.parametrize("column", ["bytes", "small", "number", "flag", "money", "fixed"])
def test_values_in_other_rows_are_noticed(column: str) -> None:
    table = rows()
    at = table.column_names.index(column)
    turned = table[column].take(np.roll(np.arange(ROWS), 1))
    assert value(table.set_column(at, column, turned)) != value(table)


def test_null_is_no_value() -> None:
    for empty in (pa.array([b""]), pa.array([0]), pa.array([False])):
        null = pa.nulls(1, empty.type)
        assert value(pa.table({"x": empty})) != value(pa.table({"x": null}))
    texts = pa.table({"x": [b"ab", b"c"]}), pa.table({"x": [b"a", b"bc"]})
    assert value(texts[0]) != value(texts[1])


def test_many_chunks_of_many_rows() -> None:
    random = np.random.default_rng(3)
    table = pa.table({"a": random.integers(0, 1 << 60, 100_000), "t": [f"{number}" for number in range(100_000)]})
    cuts = np.sort(random.integers(0, table.num_rows, 300)).tolist()
    parts = [table.slice(first, end - first) for first, end in zip([0, *cuts], [*cuts, table.num_rows], strict=True)]
    whole = RowChecksum(table)
    assert RowChecksum(pa.concat_tables(parts)) == whole
    assert RowChecksum(*parts) == whole
    shuffled = table.take(random.permutation(table.num_rows))
    assert RowChecksum(shuffled) == whole
    assert RowChecksum(pa.table({"a": table["a"], "t": shuffled["t"]})) != whole
