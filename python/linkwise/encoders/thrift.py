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


class _Input:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def byte(self) -> int:
        value = self._data[self.at]
        self.at += 1
        return value

    def taken(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self._data):
            raise IndexError
        return self._data[self.at - size : self.at]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> 64:
                    raise ValueError
                return value
            shift += 7
            if shift > _MOST_SHIFT:
                raise ValueError

    def whole(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def value(self, kind: int, depth: int) -> Any:
        if kind in _WHOLE:
            return self.whole()
        if kind == BINARY:
            return self.taken(self.varint())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            return self.list(depth + 1)
        return self.taken(_SIZES[kind])

    def list(self, depth: int) -> tuple[int, list[Any]]:
        if depth > _DEEPEST:
            raise ValueError
        head = self.byte()
        kind, size = head & 15, head >> 4
        if size == 15:
            size = self.varint()
        if size > len(self._data) - self.at:  # each takes a byte at least
            raise IndexError
        if kind in _FLAGS:
            return kind, list(self.taken(size))
        return kind, [self.value(kind, depth) for _ in range(size)]

    def struct(self, depth: int, last: int | None = None) -> Struct:
        if depth > _DEEPEST:
            raise ValueError
        found: Struct = {}
        number = 0
        while number != last and (head := self.byte()):
            kind = head & 15
            number = number + (head >> 4) if head >> 4 else self.whole()
            if number in found or number not in _FIELDS:
                raise ValueError
            found[number] = kind, None if kind in _FLAGS else self.value(kind, depth)
        return found


def parse(data: bytes, last: int | None = None) -> tuple[Struct, int]:
    """The struct at the beginning of ``data``, and its size in bytes. Raises ``ValueError`` if it is damaged.

    With ``last``, only the fields up to the one of this number.
    """
    source = _Input(data)
    try:
        return source.struct(0, last), source.at
    except (IndexError, KeyError, ValueError):
        raise ValueError(f"damaged metadata at byte {source.at} of {len(data)}") from None


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
