"""The decoded sizes of the record batches of an Arrow file or stream, from their metadata alone.

The metadata are FlatBuffers (https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc),
of which a few fields suffice. A compressed buffer begins with its uncompressed size, or -1 if it is not compressed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from linkwise._core import Error

ARROW_FILE = b"ARROW1"
"""The magic bytes of Arrow's file format; the stream format has none."""

_CONTINUES = 0xFFFFFFFF  # the marker at the beginning of messages since version 0.15
_DICTIONARY, _BATCH = 2, 3  # kinds of messages


class _Table:
    """A table of a FlatBuffer: its fields by number."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, at

    @classmethod
    def root(cls, data: memoryview) -> _Table:
        return cls(data, _number(data, "I", 0))

    def _field(self, number: int) -> int | None:
        table = self._at - _number(self._data, "i", self._at)
        if 4 + 2 * number >= _number(self._data, "H", table):
            return None
        offset = _number(self._data, "H", table + 4 + 2 * number)
        return self._at + offset if offset else None

    def number(self, number: int, kind: str) -> int:
        at = self._field(number)
        return 0 if at is None else _number(self._data, kind, at)

    def table(self, number: int) -> _Table | None:
        at = self._field(number)
        return None if at is None else _Table(self._data, at + _number(self._data, "I", at))

    def structs(self, number: int, layout: str) -> list[tuple[int, ...]]:
        """A vector of structures."""
        at = self._field(number)
        if at is None:
            return []
        at += _number(self._data, "I", at)
        count, size = _number(self._data, "I", at), struct.calcsize(f"<{layout}")
        return [struct.unpack_from(f"<{layout}", self._data, at + 4 + size * each) for each in range(count)]


def _number(data: memoryview, kind: str, at: int) -> int:
    if at < 0:
        raise struct.error("an offset in front of the beginning")
    return int(struct.unpack_from(f"<{kind}", data, at)[0])


def decoded_sizes(data: memoryview) -> list[int]:
    """Bytes of each record batch with decompressed buffers; those of all dictionaries count for the first batch.

    ``data`` is a file, or a stream from its beginning. Raises ``Error`` or ``struct.error`` if it is damaged.
    """
    of_dictionaries, sizes = 0, []
    for kind, size in _messages(data):
        if kind == _BATCH:
            sizes.append(size)
        else:
            of_dictionaries += size
    if sizes:
        sizes[0] += of_dictionaries
    return sizes


def _messages(data: memoryview) -> Iterator[tuple[int, int]]:
    """The kind and the decoded size of each message with data."""
    if bytes(data[: len(ARROW_FILE)]) == ARROW_FILE:
        length = _number(data, "i", len(data) - len(ARROW_FILE) - 4)
        footer = _Table.root(data[len(data) - len(ARROW_FILE) - 4 - length :])
        for blocks in (2, 3):
            before = -1
            for offset, _, _ in footer.structs(blocks, "qi4xq"):
                if offset <= before:  # so that no message is visited more than once
                    raise Error("its blocks are not one behind the other")
                before = offset
                yield _message(data, offset)[:2]
        return
    at = 0
    while at + 4 <= len(data) and _number(data, "I", at + 4 * (_number(data, "I", at) == _CONTINUES)):
        kind, size, at = _message(data, at)
        if kind in (_DICTIONARY, _BATCH):
            yield kind, size


def _message(data: memoryview, at: int) -> tuple[int, int, int]:
    """The kind of a message, its decoded size, and where the next one begins."""
    at += 4 if _number(data, "I", at) == _CONTINUES else 0
    body = at + 4 + _number(data, "i", at)
    if body <= at:
        raise Error("a message with a negative size")
    message = _Table.root(data[at + 4 : body])
    kind, header = message.number(1, "B"), message.table(2)
    of_body = message.number(3, "q")
    if header is None or of_body < 0 or body + of_body > len(data):
        raise Error("a message goes on behind the end")
    if kind == _DICTIONARY:
        header = header.table(1)
    size = _decoded(data[body : body + of_body], header) if header is not None and kind in (_DICTIONARY, _BATCH) else 0
    return kind, size, body + of_body


def _decoded(body: memoryview, batch: _Table) -> int:
    buffers = batch.structs(2, "qq")
    if batch.table(3) is None:
        return sum(length for _, length in buffers)
    size = 0
    for offset, length in buffers:
        if length:
            decoded = _number(body, "q", offset)
            size += length - 8 if decoded == -1 else decoded
            if decoded < -1:
                raise Error("a buffer with a negative size")
    return size
