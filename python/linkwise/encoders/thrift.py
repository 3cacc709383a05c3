"""Thrift's compact protocol, in which Parquet metadata is encoded: structs to plain values and back to bytes.

All fields are preserved, including unknown ones. Sources: Apache Thrift, ``thrift-compact-protocol.md``; Apache
Parquet, ``parquet.thrift``.
"""

from __future__ import annotations

from typing import Any

Struct = dict[int, tuple[int, Any]]
"""The type and value of each field by its number, in the order of the encoding."""

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, _MAP, STRUCT, UUID = range(1, 14)

_FLAGS = (TRUE, FALSE)
_WHOLE = (I16, I32, I64)
_SIZES = {BYTE: 1, DOUBLE: 8, UUID: 16}  # bytes of values that are kept undecoded
_DEEPEST = 64  # nested structs and lists; Parquet has a few levels
_MOST_SHIFT = 63
_FIELDS = range(-(1 << 15), 1 << 15)


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    value = data[at] & 0x7F
    shift = 0
    while data[at] > 0x7F:
        at += 1
        shift += 7
        if shift > _MOST_SHIFT:
            raise ValueError
        value |= (data[at] & 0x7F) << shift
    if value >> 64:
        raise ValueError
    return value, at + 1


def _list_at(data: bytes, at: int, depth: int) -> tuple[tuple[int, list[Any]], int]:
    if depth > _DEEPEST:
        raise ValueError
    kind, size = data[at] & 15, data[at] >> 4
    at += 1
    if size == 15:
        size, at = _varint_at(data, at)
    if size > len(data) - at:  # each takes a byte at least
        raise IndexError
    if kind in _FLAGS:
        return (kind, list(data[at : at + size])), at + size
    items = []
    for _ in range(size):
        item, at = _value_at(data, at, kind, depth)
        items.append(item)
    return (kind, items), at


def _value_at(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """A value that begins at ``at``, and where it ends."""
    if kind in _WHOLE:
        value = data[at]
        if value > 0x7F:  # most take one byte
            value, at = _varint_at(data, at)
        else:
            at += 1
        return (value >> 1) ^ -(value & 1), at
    if kind == STRUCT:
        return _struct_at(data, at, depth + 1)
    if kind in (LIST, SET):
        return _list_at(data, at, depth + 1)
    size, at = _varint_at(data, at) if kind == BINARY else (_SIZES[kind], at)
    if at + size > len(data):
        raise IndexError
    return data[at : at + size], at + size


def _struct_at(data: bytes, at: int, depth: int, last: int | None = None) -> tuple[Struct, int]:
    if depth > _DEEPEST:
        raise ValueError
    found: Struct = {}
    number = 0
    while number != last and (head := data[at]):
        at += 1
        kind = head & 15
        if head > 15:
            number += head >> 4
        else:
            number, at = _value_at(data, at, I16, depth)
        if number in found or number not in _FIELDS:
            raise ValueError
        if kind in _FLAGS:
            found[number] = kind, None
        else:
            value, at = _value_at(data, at, kind, depth)
            found[number] = kind, value
    return found, at if number == last else at + 1


def parse(data: bytes, last: int | None = None) -> tuple[Struct, int]:
    """The struct at the beginning of ``data``, and its size in bytes. Raises ``ValueError`` if it is damaged.

    With ``last``, only up to the field of this number.
    """
    try:
        return _struct_at(data, 0, 0, last)
    except (IndexError, KeyError, ValueError):
        raise ValueError(f"damaged metadata of {len(data)} bytes") from None


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _whole(value: int) -> bytes:
    return _varint((value << 1) ^ (value >> 63))


def _value(kind: int, value: Any) -> bytes:
    if kind in _WHOLE:
        return _whole(value)
    if kind == BINARY:
        return _varint(len(value)) + bytes(value)
    if kind == STRUCT:
        return serialised(value)
    if kind in (LIST, SET):
        of, items = value
        head = bytes([len(items) << 4 | of]) if len(items) < 15 else bytes([0xF0 | of]) + _varint(len(items))
        return head + (bytes(items) if of in _FLAGS else b"".join(_value(of, item) for item in items))
    return bytes(value)


def serialised(fields: Struct) -> bytes:
    """The bytes of a struct."""
    parts = []
    before = 0
    for number, (kind, value) in fields.items():
        step = number - before
        parts.append(bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _whole(number))
        if kind not in _FLAGS:
            parts.append(_value(kind, value))
        before = number
    return b"".join([*parts, b"\0"])
