"""Rows of columns by their numbers: the primitives, on every backend, and whole columns on GPUs, against PyArrow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import linkwise
from columns import KEY_TYPES
from conftest import SEEDS, cuda_runtime
from linkwise import _core
from linkwise.columns import gather as gathering
from linkwise.columns.gather import gather_columns_on_gpus
from linkwise.runtime.execution import ExecutionOptions
from on_device import OnDevice

LONG = "a string that takes more than one turn of its lanes, and begins anywhere"


@pytest.mark.parametrize("cuts", [[], [200], [0, 1, 499, 499]])
@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("index", [np.uint32, np.uint64])
def test_gather(device: OnDevice, element_bytes: int, index: Any, cuts: list[int]) -> None:
    random = np.random.default_rng(0)
    source = random.integers(0, 256, (500, element_bytes), dtype=np.uint8)
    pieces = [device.put(piece) for piece in np.split(source, cuts)]
    indices = random.integers(0, 500, 3001).astype(index)
    indices[7] = np.iinfo(index).max
    target = device.memory(len(indices) * element_bytes)
    _core.gather(device.runtime, device.stream, element_bytes, indices.itemsize, pieces, device.put(indices), target)
    indices[7] = 0
    expected = source[indices]
    expected[7] = 0xFF
    assert device.runtime.read_back(device.stream, target) == expected.tobytes()


@pytest.mark.parametrize("index", [np.uint32, np.uint64])
@pytest.mark.parametrize("count", [1, 31, 32, 33, 3001])
def test_gather_bits(device: OnDevice, index: Any, count: int) -> None:
    random = np.random.default_rng(count)
    source = random.integers(0, 1 << 32, 16, dtype=np.uint32)
    indices = random.integers(0, 500, count).astype(index)
    indices[count // 2] = np.iinfo(index).max
    target, rows = device.memory((count + 31) // 32 * 4), device.put(indices)
    is_set = np.unpackbits(source.view(np.uint8), bitorder="little").astype(bool)
    for bits, are_set in ((source, is_set), (source[:0], np.ones_like(is_set))):  # no bits: all are set
        _core.gather_bits(device.runtime, device.stream, indices.itemsize, device.put(bits), rows, target)
        expected = np.array([row != np.iinfo(index).max and are_set[row] for row in indices.tolist()])
        found = np.unpackbits(device.get(target, np.uint8), bitorder="little").astype(bool)
        assert (found[:count] == expected).all() and not found[count:].any()


@pytest.mark.parametrize("index", [np.uint32, np.uint64])
def test_coalesce_rows(device: OnDevice, index: Any) -> None:
    """The first numbers, or the second after an offset, or no row where both are missing."""
    random = np.random.default_rng(0)
    no_row = np.iinfo(index).max
    first, second = (random.integers(0, 500, 3001).astype(index) for _ in range(2))
    first[random.random(3001) < 0.5] = no_row
    second[random.random(3001) < 0.5] = no_row
    to = device.memory(first.nbytes)
    _core.coalesce_rows(device.runtime, device.stream, first.itemsize, device.put(first), device.put(second), 700, to)
    shifted = np.where(second == no_row, no_row, second + index(700))
    assert (device.get(to, index) == np.where(first == no_row, shifted, first)).all()


@pytest.mark.parametrize("count", [0, 1, 3001])
def test_set_bytes(device: OnDevice, count: int) -> None:
    to = device.memory(count)
    for byte in (0, 255, 7):
        _core.set_bytes(device.runtime, device.stream, to, byte)
        assert (device.get(to, np.uint8) == byte).all()


@pytest.mark.parametrize("widths", [(4, 8), (8, 8), (8, 4), (4, 4)])
def test_shift_offsets(device: OnDevice, widths: tuple[int, int]) -> None:
    narrow, wide = (np.dtype(f"u{width}") for width in widths)
    offsets = np.array([5, 7, 7, (1 << 32) - 1], narrow)
    for delta in (0, 3, -5):
        to = device.memory(len(offsets) * wide.itemsize)
        _core.shift_offsets(
            device.runtime, device.stream, *(widths[0], device.put(offsets)), *(widths[1], to), delta % (1 << 64)
        )
        assert (device.get(to, wide) == (offsets.astype(np.uint64) + np.uint64(delta % (1 << 64))).astype(wide)).all()


@pytest.mark.parametrize("index", [np.uint32, np.uint64])
@pytest.mark.parametrize("shift", range(5))
def test_strings(device: OnDevice, index: Any, shift: int) -> None:
    """Whatever their addresses are, and those of what is written."""
    random = np.random.default_rng(shift)
    strings = [LONG[: random.integers(0, len(LONG))].encode() for _ in range(300)]
    strings[0] = b"x" * shift
    pieces = []
    for part in (strings[:1], strings[1:1], strings[1:170], strings[170:]):
        ends = np.cumsum([0, *map(len, part)]).astype(np.uint64)
        pieces.append(_core.StringPiece(device.put(ends), device.put(np.frombuffer(b"".join(part), np.uint8))))
    rows = random.integers(0, 300, 1000).astype(index)
    rows[:2] = 0, np.iinfo(index).max
    expected = [b"" if row == np.iinfo(index).max else strings[row] for row in rows]
    indices, lengths = device.put(rows), device.memory(8 * len(rows))
    _core.gather_lengths(device.runtime, device.stream, rows.itemsize, pieces, indices, lengths)
    assert device.get(lengths, np.uint64).tolist() == [len(text) for text in expected]
    sums = device.put(np.cumsum([1000, *map(len, expected)]).astype(np.uint64))
    to = device.memory(sum(map(len, expected)))
    _core.gather_strings(device.runtime, device.stream, rows.itemsize, pieces, indices, sums, to)
    assert device.get(to, np.uint8).tobytes() == b"".join(expected)


@pytest.mark.parametrize("words", [1, 3, 8])
@pytest.mark.parametrize("begin", [0, 5])
def test_string_words(device: OnDevice, begin: int, words: int) -> None:
    """Seven bytes and their number, or 8 if there are more, of strings of any length, beginning anywhere."""
    random = np.random.default_rng(words)
    strings = [LONG[: random.integers(0, len(LONG))].encode() for _ in range(300)]
    strings[:6] = b"", b"\0", b"\xff" * 12, b"begin" + b"\0" * 7, b"begin" + b"seven b", b"begin" + b"seven by"
    nulls = random.integers(0, 2, 300).astype(np.uint8) * np.uint8(255)
    ends = np.cumsum([0, *map(len, strings)]).astype(np.uint64)
    source = _core.StringPiece(device.put(ends), device.put(np.frombuffer(b"".join(strings), np.uint8)))
    for are_null in (nulls, nulls[:0]):
        to = [device.memory(8 * len(strings)) for _ in range(words)]
        _core.string_words(device.runtime, device.stream, source, device.put(are_null), begin, to)
        for word, found in enumerate(to):
            first = begin + 7 * word
            parts = [string[first : first + 8] for string in strings]
            expected = [int.from_bytes(part[:7].ljust(7, b"\0")) << 8 | len(part) for part in parts]
            if len(are_null):
                expected = [
                    (1 << 64) - 1 if is_null else number for number, is_null in zip(expected, nulls, strict=True)
                ]
            assert device.get(found, np.uint64).tolist() == expected


@pytest.mark.parametrize("first", ["", "begin, and it goes on", LONG])
def test_shared_lengths(device: OnDevice, first: str) -> None:
    random = np.random.default_rng(len(first))
    strings = [LONG[: random.integers(0, len(LONG))] for _ in range(300)]
    strings[:4] = "", "begin", first, first + "more"
    nulls = random.integers(0, 2, 300).astype(np.uint8)

    def piece(texts: list[str]) -> _core.StringPiece:
        ends = np.cumsum([0, *(len(text.encode()) for text in texts)]).astype(np.uint64)
        return _core.StringPiece(device.put(ends), device.put(np.frombuffer("".join(texts).encode(), np.uint8)))

    shared = [
        next((n for n in range(min(len(text), len(first))) if text[n] != first[n]), min(len(text), len(first)))
        for text in strings
    ]
    for are_null in (nulls, np.zeros(0, np.uint8)):
        to = device.memory(8 * len(strings))
        _core.shared_lengths(
            device.runtime, device.stream, piece(strings), device.put(are_null), piece([first, "no other"]), to
        )
        expected = np.where(are_null, len(first), shared) if len(are_null) else np.array(shared)
        assert (device.get(to, np.uint64) == expected).all()


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("count", [0, 1, 3001])
def test_mark_changes(device: OnDevice, count: int, width: int) -> None:
    elements = np.random.default_rng(width).integers(0, 2, count + 1).astype(f"u{width}")
    elements[0] = 1
    for has_before in (False, True):
        marks = device.put(np.zeros(count, np.uint32))
        before = device.put(elements[: int(has_before)])
        _core.mark_changes(device.runtime, device.stream, width, device.put(elements[1:]), before, marks)
        changes = elements[1:] != elements[:-1]
        changes[:1] &= has_before
        assert (device.get(marks, np.uint32) == changes).all()


@pytest.mark.parametrize("count", [0, 1, 3001])
def test_list_marked(device: OnDevice, count: int) -> None:
    marks = np.random.default_rng(count).integers(0, 2, count).astype(np.uint32)
    sums = np.cumsum([0, *marks]).astype(np.uint64)
    to = device.memory(8 * int(sums[-1]))
    _core.list_marked(device.runtime, device.stream, device.put(marks), device.put(sums), 1000, to)
    assert (device.get(to, np.uint64) == np.flatnonzero(marks) + 1000).all()


@pytest.mark.parametrize("count", [0, 1, 2, 3001])
def test_mark_ties(device: OnDevice, count: int) -> None:
    random = np.random.default_rng(count)
    words = np.sort(random.integers(0, max(count // 3, 2), count).astype(np.uint64) << np.uint64(8))
    words += random.choice(np.array([7, 8], np.uint64), count)  # its end, or it goes on
    words = np.sort(words)
    changes = np.ones(count, np.uint32)
    changes[1:] = words[1:] != words[:-1]
    changes[:1] = random.integers(0, 2)
    for after in ([], [0], [1]):
        marks = device.put(np.full(count, 9, np.uint32))
        _core.mark_ties(
            device.runtime, device.stream, device.put(words), device.put(changes),
            device.put(np.array(after, np.uint32)), marks,
        )  # fmt: skip
        is_next = np.append(changes, after or [1])[1:] == 0
        expected = (words & np.uint64(255) == 8) & ((changes == 0) | is_next[:count])
        assert (device.get(marks, np.uint32) == expected).all()


@pytest.mark.parametrize("count", [0, 1, 3001])
def test_refine_ranks(device: OnDevice, count: int) -> None:
    random = np.random.default_rng(count)
    ranks, finer = (random.integers(0, 1 << 32, count, dtype=np.uint32) for _ in range(2))
    is_tied = random.random(count) < 0.3
    at = np.flatnonzero(is_tied).astype(np.uint64) + np.uint64(1000)
    to = device.memory(8 * count)
    _core.refine_ranks(
        device.runtime, device.stream, device.put(ranks), device.put(at), 1000, device.put(finer[is_tied]), to
    )
    expected = ranks.astype(np.uint64) << np.uint64(32) | np.where(is_tied, finer, 0).astype(np.uint64)
    assert (device.get(to, np.uint64) == expected).all()


@pytest.mark.parametrize("first", [0, 1, 31, 64])
@pytest.mark.parametrize("count", [0, 1, 32, 3001])
def test_expand_bits(device: OnDevice, count: int, first: int) -> None:
    bits = np.random.default_rng(count).integers(0, 1 << 32, 100, dtype=np.uint32)
    is_set = np.unpackbits(bits.view(np.uint8), bitorder="little")[first : first + count]
    for of_set, of_clear in ((0, 255), (1, 0)):
        to = device.memory(count)
        _core.expand_bits(device.runtime, device.stream, device.put(bits), first, of_set, of_clear, to)
        assert (device.get(to, np.uint8) == np.where(is_set, of_set, of_clear)).all()


@pytest.mark.parametrize("count", [0, 1, 32, 33, 3001])
def test_pack_bits(device: OnDevice, count: int) -> None:
    some = np.random.default_rng(count).choice(np.array([0, 1, 255], np.uint8), count)
    for of_set in (0, 1):
        to, num_set = device.memory((count + 31) // 32 * 4), device.memory(8)
        _core.pack_bits(device.runtime, device.stream, device.put(some), of_set, to, num_set)
        assert device.get(num_set, np.uint64).tolist() == [(some == of_set).sum()]
        bits = np.unpackbits(device.get(to, np.uint8), bitorder="little")
        assert (bits[:count] == (some == of_set)).all() and not bits[count:].any()


@pytest.mark.parametrize("width", [4, 8])
def test_hashes_of_rows(device: OnDevice, width: int) -> None:
    """Equal rows have equal hashes, others other ones; and pairs of rows that differ are counted."""
    random = np.random.default_rng(width)
    columns = [random.integers(0, 40, 3001).astype(f"u{width}") for _ in range(2)]
    hashes = device.put(np.zeros(3001, np.uint64))
    for column in columns:
        _core.mix_into_hashes(device.runtime, device.stream, width, device.put(column), hashes)
    found = device.get(hashes, np.uint64)
    rows = set(zip(*columns, strict=True))
    assert len(set(found)) == len(rows) == len(set(zip(found, *columns, strict=True)))
    for index in (np.uint32, np.uint64):
        pairs = [random.integers(0, 3001, 500).astype(index) for _ in range(2)]
        pairs[0][:9] = pairs[1][5:20] = np.iinfo(index).max
        numbers = [np.where(side == np.iinfo(index).max, 0, side).astype(np.int64) for side in pairs]
        is_pair = (pairs[0] != np.iinfo(index).max) & (pairs[1] != np.iinfo(index).max)
        unequal = device.put(np.zeros(1, np.uint64))
        for column in columns:
            pieces = [[device.put(part) for part in np.split(column, at)] for at in ([1000], [7, 2000])]
            _core.count_unequal(
                device.runtime, device.stream, width, index().itemsize, pieces[0], device.put(pairs[0]), pieces[1],
                device.put(pairs[1]), unequal,
            )  # fmt: skip
        expected = sum((is_pair & (column[numbers[0]] != column[numbers[1]])).sum() for column in columns)
        assert device.get(unequal, np.uint64).tolist() == [expected]


def strings_there(device: OnDevice, strings: list[bytes]) -> _core.StringPiece:
    ends = np.cumsum([0, *map(len, strings)]).astype(np.uint64)
    return _core.StringPiece(device.put(ends), device.put(np.frombuffer(b"".join(strings), np.uint8)))


def test_hashes_of_strings(device: OnDevice) -> None:
    """Equal strings have equal hashes, others other ones, mixed into those of the columns before."""
    parts = [b"", b"\0", b"a", b"seven b", b"seven by", b"x" * 14, b"y" * 33]
    strings = [a + b for a in parts for b in parts] * 2
    before = np.repeat(np.array([0, 0x9E3779B97F4A7C15], np.uint64), len(strings) // 2)
    hashes = [device.put(before * np.uint64(factor)) for factor in (0, 1)]
    for each in hashes:
        _core.mix_strings_into_hashes(device.runtime, device.stream, strings_there(device, strings), each)
    alone, mixed = (device.get(each, np.uint64).tolist() for each in hashes)
    assert len(set(alone)) == len(set(strings)) == len(set(zip(alone, strings, strict=True)))
    assert len(set(mixed)) == len(set(zip(before.tolist(), strings, strict=True)))


@pytest.mark.parametrize("index", [np.uint32, np.uint64])
@pytest.mark.parametrize("shift", range(5))
def test_unequal_strings(device: OnDevice, index: Any, shift: int) -> None:
    """Pairs of strings at any addresses, of which some differ in one byte or in their lengths; no row equals all."""
    random = np.random.default_rng(shift)
    of_left = [LONG[: random.integers(0, len(LONG))].encode() for _ in range(300)]
    of_right = [text[:-1] if random.random() < 0.2 else text for text in of_left]
    of_right = [text[:-1] + b"~" if random.random() < 0.2 else text for text in of_right]
    of_right[0] += b"x" * shift
    left = [strings_there(device, part) for part in (of_left[:100], [], of_left[100:])]
    right = [strings_there(device, part) for part in (of_right[:1], of_right[1:])]
    rows = [random.integers(0, 300, 1000).astype(index) for _ in range(2)]
    rows[1][:700] = rows[0][:700]
    rows[0][:5] = rows[1][3:9] = np.iinfo(index).max
    unequal = device.put(np.array([7], np.uint64))
    _core.count_unequal_strings(
        device.runtime, device.stream, index().itemsize, left, device.put(rows[0]), right, device.put(rows[1]), unequal
    )
    pairs = [pair for pair in zip(*map(np.ndarray.tolist, rows), strict=True) if np.iinfo(index).max not in pair]
    assert device.get(unequal, np.uint64).tolist() == [7 + sum(of_left[one] != of_right[two] for one, two in pairs)]


def test_mark_unequal_strings(device: OnDevice) -> None:
    """Groups in which a string differs from the one before, and other marks as they were."""
    groups = np.array([0, 0, 1, 1, 1, 2, 4, 4, 5], np.uint32)
    strings = [b"x" * 20, b"x" * 20, b"y", b"y", b"yy", b"z", b"", b"\0", b""]
    marks = device.put(np.array([0, 0, 0, 1, 0, 0, 1], np.uint32))
    _core.mark_unequal_strings(device.runtime, device.stream, strings_there(device, strings), device.put(groups), marks)
    assert device.get(marks, np.uint32).tolist() == [0, 1, 0, 1, 1, 0, 1]


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_fill_nulls(device: OnDevice, width: int) -> None:
    random = np.random.default_rng(width)
    elements = random.integers(0, 100, 3001).astype(f"u{width}")
    nulls = random.integers(0, 2, 3001).astype(np.uint8) * np.uint8(255)
    there = device.put(elements)
    _core.fill_nulls(device.runtime, device.stream, width, device.put(nulls), there)
    assert (device.get(there, elements.dtype) == np.where(nulls, np.iinfo(elements.dtype).max, elements)).all()


def columns_of_every_type(rows: int, chunks: int, seed: int) -> list[pa.ChunkedArray]:
    random = np.random.default_rng(seed)
    cuts = [0, *sorted(random.integers(0, rows + 1, chunks - 1).tolist()), rows]

    def chunked(column: pa.Array) -> pa.ChunkedArray:
        """In chunks that begin in the middle of others, some of them empty."""
        parts = [column.slice(first, last - first) for first, last in zip(cuts, cuts[1:], strict=False)]
        return pa.chunked_array([pa.concat_arrays([part, part]).slice(len(part)) for part in parts], column.type)

    texts = [LONG[: random.integers(0, 30)] for _ in range(rows)]
    mask = random.random(rows) < 0.2
    numbers = random.integers(-100, 100, rows)
    columns = [
        pa.array(numbers, kind, mask=mask if kind != pa.int16() else None)
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float64())
    ]
    columns += [
        pa.array(numbers).cast(pa.decimal128(21, 0)), pa.array(numbers > 0, mask=mask),
        pa.array(texts), pa.array(texts, pa.large_string(), mask=mask), pa.array(texts, pa.binary()),
        pa.array([text[:3].ljust(3).encode() for text in texts], pa.binary(3)),
        pa.array(numbers).cast(pa.timestamp("ns", "Europe/Berlin")), pa.array([""] * rows),
    ]  # fmt: skip
    return [chunked(column) for column in columns]


def bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats as the integers that their bits are: NaN is not equal to itself."""
    if not pa.types.is_floating(column.type):
        return column
    kind = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.type.bit_width]
    return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)


def check_on(runtime: _core.Runtime, gpus: list[int], columns: list[pa.ChunkedArray], rows: np.ndarray) -> None:
    for column, gathered in zip(columns, gather_columns_on_gpus(runtime, gpus, columns, rows), strict=True):
        gathered.validate(full=True)
        wanted = pa.array(rows, mask=rows == -1) if rows.dtype.kind == "i" else pa.array(rows)
        assert bits(gathered).equals(bits(column.take(wanted))), column.type


def rows_of(kind: str, source: int, count: int) -> np.ndarray:
    random = np.random.default_rng(count)
    if kind == "permutation":
        return random.permutation(source).astype(np.uint32)
    if kind == "u32":
        return random.integers(0, source, count, dtype=np.uint32)
    rows = random.integers(-1, source, count)
    return rows.astype(np.int64)


@pytest.mark.parametrize("gpus", [[0], [3, 1], [0, 1, 2, 3, 4, 5, 6, 7]])
@pytest.mark.parametrize("kind", ["permutation", "u32", "with nulls"])
@pytest.mark.parametrize(("source", "count"), [(1, 1), (3, 40), (1000, 7), (5000, 5000)])
def test_columns(gpus: list[int], kind: str, source: int, count: int) -> None:
    columns, rows = columns_of_every_type(source, 5, count), rows_of(kind, source, count)
    check_on(virtual(), gpus, columns, rows)
    nobody = virtual()
    assert gather_columns_on_gpus(nobody, gpus, columns, rows[:0])[0].num_chunks <= 1
    assert not nobody.timeline()


@pytest.mark.parametrize(
    "lengths",
    [
        [50_000],
        [0, 0, 40_000, 0, 1, 9_999, 0],
        [1] * 3000 + [60_000] + [0] * 500 + [2] * 2000,
        [7, 0, 1_000, 13] * 40,
        [1, 0, 0],
    ],
)
@pytest.mark.parametrize("kind", ["u32", "with nulls"])
def test_the_cores_gather_from_chunks_of_any_length(lengths: list[int], kind: str) -> None:
    ends = np.cumsum([0, *lengths])
    rows = rows_of(kind, int(ends[-1]), 50_001)
    columns = columns_of_every_type(int(ends[-1]), 1, 3)
    cut = []
    for column in columns:
        whole = column.combine_chunks()
        parts = [whole.slice(begin, length) for begin, length in zip(ends, lengths, strict=False)]
        cut.append(pa.chunked_array(parts, column.type))
    together = gathering.gather_columns(cut, rows)
    for column, pieces, gathered in zip(columns, cut, together, strict=True):
        expected = bits(column.take(pa.array(rows, mask=rows < 0)))
        for found in (gathered, *gathering.gather_columns([pieces], rows)):
            found.validate(full=True)
            assert bits(found).equals(expected), column.type
        assert bits(pa.chunked_array([gathering.one_array(pieces)])).equals(bits(column)), column.type
    assert [len(column) for column in gathering.gather_columns(cut, rows[:0])] == [0] * len(cut)


def test_sides_of_which_few_rows_are_gathered_go_together() -> None:
    """Each with rows of its own; and what the core does not gather, alone."""
    sides = [
        (columns_of_every_type(count, chunks, chunks), rows_of(kind, count, 700))
        for count, chunks, kind in ((300, 1, "with nulls"), (1000, 4, "u32"), (5, 1, "u32"))
    ]
    nested = pa.chunked_array([[{"a": [row]} for row in range(5)]])
    sides.append(([nested], sides[2][1]))
    for (columns, rows), found in zip(sides, gathering.gather_sides(sides), strict=True):
        for column, gathered in zip(columns, found, strict=True):
            assert bits(gathered).equals(bits(column.take(pa.array(rows, mask=rows < 0)))), column.type
    assert gathering.gather_sides([]) == []
    rows = np.zeros(3, np.uint32)
    for wrong in ([rows], [rows, rows[:2]]):
        with pytest.raises(linkwise.UsageError, match="columns"):
            _core.Columns([[pa.array([1])], [pa.array([2])]]).gather(wrong)


def virtual(seed: int = 0) -> _core.Runtime:
    return _core.VirtualRuntime(linkwise.load_machine("h200x8"), _core.VirtualMode.execute, seed)


def test_nothing_races() -> None:
    columns, rows = columns_of_every_type(300, 3, 1), rows_of("with nulls", 300, 500)
    for seed in SEEDS:
        check_on(virtual(seed), [5, 2, 0], columns, rows)


def test_in_turns() -> None:
    """What does not fit at once goes through the memory one after the other; what never fits is an error."""
    columns, rows = columns_of_every_type(20_000, 3, 1), rows_of("u32", 20_000, 20_000)
    runtime = virtual()
    check_on(runtime, [0, 1], columns, rows)
    at_once = runtime.reserved(_core.Place.gpu(0))
    limited = virtual()
    limited.set_memory_limit(at_once // 2)
    check_on(limited, [0, 1], columns, rows)
    assert limited.reserved(_core.Place.gpu(0)) <= at_once // 2
    small = virtual()
    small.set_memory_limit(at_once // 40)
    with pytest.raises(linkwise.OutOfMemoryError, match="use more of them"):
        gather_columns_on_gpus(small, [0, 1], columns, rows)


@pytest.mark.parametrize("rows", [np.array([5], np.uint32), np.array([-2]), np.array([0, 1 << 40])])
def test_rows_that_do_not_exist(rows: np.ndarray) -> None:
    with pytest.raises(linkwise.UsageError, match="does not exist"):
        gather_columns_on_gpus(virtual(), [0], [pa.chunked_array([[1, 2, 3, 4, 5]])], rows)


@pytest.mark.gpu
def test_an_error_lets_go_of_nothing_that_is_on_its_way() -> None:
    """Validity and bools are on their way from memory of ours when a row is found not to exist."""
    runtime = cuda_runtime()
    bits = pa.array(np.random.default_rng(0).random(100_000) < 0.5)
    columns = [pa.chunked_array([bits]), pa.chunked_array([pa.array(np.arange(100_000), mask=bits.to_numpy(False))])]
    for chosen in (columns, columns[::-1]) * 8:
        with pytest.raises(linkwise.UsageError, match="does not exist"):
            gather_columns_on_gpus(runtime, [0], chosen, np.array([0, 100_000], np.uint32))
    check_on(runtime, [0], columns, rows_of("u32", 100_000, 500))


def test_strings_of_too_many_bytes() -> None:
    """Offsets of 32 bits count up to 2^31: the cores make several chunks then."""
    column = pa.chunked_array([["x" * (1 << 20)]])
    rows = np.zeros((1 << 11) + 1, np.uint32)
    with pytest.raises(OverflowError):
        gather_columns_on_gpus(virtual(), [0, 1], [column], rows)
    long, short = _core.Columns([column.chunks, [pa.array(["y"])]]).gather([rows, rows])
    assert long is None and short is not None


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["permutation", "u32", "with nulls"])
@pytest.mark.parametrize(("source", "count"), [(1, 1), (1000, 7), (300_000, 300_000)])
def test_columns_on_gpus(kind: str, source: int, count: int) -> None:
    runtime = cuda_runtime()
    gpus = list(range(runtime.machine.num_gpus))
    check_on(runtime, gpus, columns_of_every_type(source, 5, count), rows_of(kind, source, count))


@given(data=st.data(), gpus=st.integers(1, 8))
def test_any_column_of_any_type(data: st.DataObject, gpus: int) -> None:
    name = data.draw(st.sampled_from(sorted(KEY_TYPES)))
    kind, values = KEY_TYPES[name]
    array = pa.array(data.draw(st.lists(st.none() | values, min_size=1, max_size=30)), kind)
    if _core.gather_column([array]) is None:
        return
    rows = np.array(data.draw(st.lists(st.integers(-1, len(array) - 1), max_size=30)), np.int64)
    check_on(virtual(), list(range(gpus)), [pa.chunked_array([array])], rows)


@pytest.fixture
def gpus_are_faster(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gathering goes to the GPUs of whatever machine is named; the list holds how many columns each time."""
    times: list[int] = []
    really = _core.gather_columns_on_gpus

    def gather(runtime: _core.Runtime, gpus: list[int], chunks: Any, rows: Any) -> Any:
        times.append(len(chunks))
        return really(runtime, gpus, chunks, rows)

    monkeypatch.setattr(gathering, "_WORTH_THE_GPUS", 1)
    monkeypatch.setattr(gathering, "_WORTH_A_COPY", 1)
    monkeypatch.setattr(_core, "price_of_gather", lambda *_: (0.0, 1.0))
    monkeypatch.setattr(_core, "gather_columns_on_gpus", gather)
    return times


def table_of(rows: int, seed: int, *, names: int = 20) -> pa.Table:
    random = np.random.default_rng(seed)
    table = pa.table({str(at): column for at, column in enumerate(columns_of_every_type(rows, 3, seed))})
    words = pa.array(
        [f"{n % 7} goes on as {n}" for n in random.integers(0, names, rows)], mask=random.random(rows) < 0.1
    )
    return table.append_column("name", words).append_column(
        "at", pa.array(random.integers(0, 50, rows), pa.timestamp("s"))
    )


@pytest.mark.parametrize("machine", ["h200x8", pytest.param("local", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("descending", [False, True])
def test_tables_sorted(gpus_are_faster: list[int], machine: str, descending: bool) -> None:
    """Keys of ties are brought side by side on the GPUs, small groups and large ones; then all columns follow."""
    for rows, names in ((30_000, 20), (30_000, 6000)):
        table = table_of(rows, 1, names=names)
        how: dict[str, Any] = {"by": ["name", "at"], "descending": [descending, False]}
        result = linkwise.sort(table, machine=machine, **how)
        assert gpus_are_faster == [2, table.num_columns - 1]  # three bytes are the cores'
        assert result.equals(linkwise.sort(table, strategy="cpu", **how))
        result.validate(full=True)
        gpus_are_faster.clear()


def test_sides_of_which_the_gpus_gather(gpus_are_faster: list[int]) -> None:
    how = ExecutionOptions(machine="h200x8")
    sides = [(columns_of_every_type(count, 1, 1)[:3], rows_of("u32", count, 700)) for count in (300, 1000)]
    for (columns, rows), found in zip(sides, gathering.gather_sides(sides, how), strict=True):
        for column, gathered in zip(columns, found, strict=True):
            assert bits(gathered).equals(bits(column.take(pa.array(rows))))
    assert len(gpus_are_faster) == 2


@pytest.mark.parametrize("machine", ["h200x8", pytest.param("local", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("how", ["inner", "left", "full", "semi"])
def test_tables_joined(gpus_are_faster: list[int], machine: str, how: str) -> None:
    left, right = table_of(3000, 1), table_of(2000, 2).slice(50)
    left, right = (side.append_column("key", pa.array(np.arange(len(side)) % 1500)) for side in (left, right))
    arguments: dict[str, Any] = {"on": ["key", "name"], "how": how, "order": "key"}
    joined = linkwise.join(left, right, machine=machine, **arguments)
    assert gpus_are_faster
    assert joined.equals(linkwise.join(left, right, strategy="cpu", **arguments))


def test_what_gpus_cannot_do_the_cores_do(gpus_are_faster: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(1000, 1)

    def fail(*_: Any) -> Any:
        raise error

    expected = linkwise.sort(table, by="at", strategy="cpu")
    for error in (OverflowError(), linkwise.OutOfMemoryError("gpu0: no room")):
        monkeypatch.setattr(_core, "gather_columns_on_gpus", fail)
        if isinstance(error, OverflowError):
            assert linkwise.sort(table, by="at", machine="h200x8").equals(expected)
            continue
        with pytest.warns(linkwise.FallbackWarning, match="no room: rows are gathered on the cores"):
            assert linkwise.sort(table, by="at", machine="h200x8").equals(expected)


def test_what_is_read_from_other_gpus_crosses_the_links() -> None:
    """Half of the rows of each of two GPUs lie on the other: 32 bytes each, for a sector is the least that is read."""
    runtime = virtual()
    column, rows = pa.chunked_array([np.arange(12_800)]), rows_of("permutation", 12_800, 0)
    gather_columns_on_gpus(runtime, [0, 1], [column], rows)
    gathers = [entry for entry in runtime.timeline() if entry.name == "gather"]
    crossed = [(p.source.index, p.target.index, p.bytes) for entry in gathers for p in entry.passages]
    assert sorted(crossed) == [(0, 1, 102_400), (1, 0, 102_400)]


def test_the_price() -> None:
    """A permutation of many rows is dear on the cores; a few rows of many are cheap, since GPUs read all of them."""
    machine = linkwise.load_machine("h200x8")
    columns = [[pa.array(np.zeros(1 << 24, np.int64))], [pa.array(np.zeros(1 << 24, np.int32))]]
    on_gpus, on_cores = _core.price_of_gather(machine, list(range(8)), 0, columns, np.zeros(1 << 24, np.uint32))
    assert 0 < on_gpus < on_cores < 1
    on_gpus, on_cores = _core.price_of_gather(machine, list(range(8)), 0, columns, np.zeros(1 << 14, np.uint32))
    assert 0 < on_cores < on_gpus < 1
    long = [pa.chunked_array([["x" * 2100] * 1000]).chunk(0)]  # 2 GiB and more, if that many rows are wanted
    assert 0 < _core.price_of_gather(machine, [0, 1], 0, [long], np.zeros(1 << 20, np.uint32))[0] < 10
    apart = linkwise.load_machine("dgx1-v100")
    assert _core.price_of_gather(apart, [0], 0, columns, np.zeros(9, np.uint32))[0] < 1
    assert _core.price_of_gather(apart, [0, 1], 0, columns, np.zeros(9, np.uint32))[0] < 1
    assert _core.price_of_gather(apart, [0, 5], 0, columns, np.zeros(9, np.uint32))[0] == float("inf")
    with pytest.raises(linkwise.UsageError, match="cannot read each other's memory"):
        runtime = _core.VirtualRuntime(apart, _core.VirtualMode.execute, 0)
        gather_columns_on_gpus(runtime, [0, 5], [pa.chunked_array([[1, 2]])], np.zeros(2, np.uint32))
    assert _core.price_of_gather(machine, [0], 1 << 20, columns, np.zeros(1 << 24, np.uint32))[0] == float("inf")


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.float32(), pa.int64(), pa.decimal128(38), pa.binary(3)])
@pytest.mark.parametrize("count", [0, 1, 20_001])
def test_rows_of_one_chunk_on_the_cores(kind: pa.DataType, count: int) -> None:
    """Which are found without looking for their chunk."""
    random = np.random.default_rng(count)
    width = kind.bit_width // 8
    values = random.integers(0, 256, 1100 * width, dtype=np.uint8)
    column = pa.chunked_array([pa.Array.from_buffers(kind, 1100, [None, pa.py_buffer(values)])[100:]])
    rows = random.integers(0, 1000, count).astype(np.uint32)
    (found,) = gathering.gather_columns([column], rows)
    taken = values.reshape(-1, width)[100 + rows.astype(np.int64)]
    assert b"".join(chunk.buffers()[1].to_pybytes() for chunk in found.chunks)[: count * width] == taken.tobytes()
    for beyond in (1000, (1 << 32) - 1):
        with pytest.raises(linkwise.UsageError, match="does not exist"):
            gathering.gather_columns([column], np.array([0, beyond], np.uint32))
